"""Programs that run for real: their output depends on no column that columns_read does not find.

Each program is run over a small database, and over others that differ in every column that is not reported. What it
prints, answers or fails with must be the same. With
`--hypothesis-profile=long` more of them are run; where pandas is installed, they run over its frames, too.
"""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path
from string import Template
from textwrap import indent

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from guardagent import Toolbox
from tests.content.toolbox.ehr_tools import DATABASE, KINDS, SCHEMA, changed, output
from tests.tiers import examples

FOLDER = Path(__file__).parent / "ehr"
fuzz = settings(max_examples=examples(150), suppress_health_check=list(HealthCheck), database=None)
columns_read = Toolbox.load().functions["columns_read"]

SOURCES, USES = (
    [line.replace("\\n", "\n") for line in (FOLDER / name).read_text().splitlines()]
    for name in ("sources.txt", "uses.txt")
)
CELLS = {column: str(value) for rows in DATABASE.values() for column, value in rows[0].items()}
TEXTS = (
    "$c=~$c=$v~||~|~$d>~$d=$v~max($d)~min($d)~$c like ~$c in ~[~]~'~, ~ in ~=~>~$c~$d~%~_~ and ~(~)~$d>=5~||$d>5~"
    "||max($d)~x~$c!=~||$c=~5"
).split("~")
DATA = (
    "x~str(y)~z[0]~x[0]~str(z)~f'{x}'~'%s' % y~'{}'.format(x)~', '.join(z)~'||'.join(z)~x[:1]~x[5:]~x.replace('p', '')~"
    """x.strip('p')~','.join(["'" + i + "'" for i in z])~'||'.join('$c=' + i for i in z)~"""
    "'||'.join(['$c=' + i for i in z] + ['$d>0'])"
).split("~")
BUILDS = [
    "t = $p + $q + $r + $s",
    "t = '%s%s%s%s' % ($p, $q, $r, $s)",
    "t = '{}{}{}{:>5}'.format($p, $q, $r, $s)",
    "t = $p\nfor i in z:\n    t += $q + i + $r",
    "t = $p\nfor n, i in enumerate(z):\n    if n > 0:\n        t += $q\n    t = t + $r + i",
    "p = []\nfor i in z:\n    p.append($q + i)\n    p.append($r)\nt = $p + $s.join(p)",
    "t = $p + $s.join([$q, $r])",
    "t = $p\nfor i in z:\n    t = $q + i + $r + t",
]
ENDS = (
    "t~t[:-2]~t[2:]~t[:9]~t.rstrip('|')~t.strip('|, ')~t.rstrip(', ') + ']'~t.replace('[', '(')~t.replace('=', '')~"
    "t.replace('|', '')~t.strip('l')~t.lower()~t.removesuffix('||')~'%.12s' % t~'{:.9}'.format(t)~t + '||$d>5'~"
    "t.partition('||')[2]~t.split('||')[0]~t * 2~''.join(reversed(t))"
).split("~")
CALLS = ["len(FilterDB(db, t))", "GetValue(db, t)", "SQLInterpreter('select age from patient where 5 in (' + t + ')')"]


def leaks(code: str) -> str | None:
    """Return how the output of a program depends on a column that is not reported, None if it does not."""
    read = columns_read(code, SCHEMA)
    for kind in KINDS:
        expected = output(code, DATABASE, kind)
        for turn in range(3):
            hook_output = output(code, changed(DATABASE, read, turn), kind)
            if hook_output != expected:
                return f"{kind}, reported {read}:\n{code}\n{expected}\n{hook_output}"
    return None


def check(code: str) -> None:
    """A program leaks nothing, or is refused."""
    code_leaks = None
    with contextlib.suppress(ValueError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code_leaks = leaks(code)
    assert not code_leaks, code_leaks


@st.composite
def filled(draw: st.DrawFn, *parts: st.SearchStrategy[str]) -> str:
    """Draw a table, and a program over two of its columns."""
    table = draw(st.sampled_from(sorted(SCHEMA)))
    c, d, *_ = draw(st.permutations(SCHEMA[table]))
    value = CELLS[c]
    names = {"c": c, "d": d, "v": value, "w": value if value.isdigit() else repr(value)}
    lines = [f"db = LoadDB('{table}')", *map(draw, parts)]
    return Template("\n".join(lines) + "\n").safe_substitute(names)


piece = st.sampled_from([*map(repr, TEXTS), *DATA])
values = st.just("x, y, z = GetValue(FilterDB(db, '$c=$v'), '$c'), 5, GetValue(db, '$c, list')")
start = st.sampled_from(["$c=", "$c=$v||$d=", "$c=$v", "$c like ", "", "$c in [", "$d>", "$c=$v||"]).map(repr)


@st.composite
def texts(draw: st.DrawFn) -> str:
    pieces = {"p": draw(start), "q": draw(piece), "r": draw(piece), "s": draw(piece)}
    call = f"t = {draw(st.sampled_from(ENDS))}\nprint({draw(st.sampled_from(CALLS))})"
    return Template(draw(st.sampled_from(BUILDS))).substitute(pieces) + "\n" + call


def tried(code: str) -> str:
    return "try:\n" + indent(code, "    ") + "\nexcept Exception:\n    print('failed')"


@fuzz
@given(filled(st.sampled_from(SOURCES), st.sampled_from(USES).map(tried), st.sampled_from(USES)))
def test_nothing_of_a_row_gets_out_unseen(code: str) -> None:
    """Rows of all kinds, collected in all ways, are used in ways honest and not."""
    check(code)


@fuzz
@given(filled(values, texts()))
def test_no_text_names_a_column_unseen(code: str) -> None:
    """Conditions are put together of constants, data and loops, and cut and replaced."""
    check(code)


def test_a_leak_would_be_seen() -> None:
    """The output of a program does depend on what it reads."""
    code = "for row in LoadDB('lab'):\n    print(row['labresult'])"
    assert output(code, DATABASE, "dicts") != output(code, changed(DATABASE, {"lab": ["labname"]}, 0), "dicts")


@pytest.mark.parametrize("place", range(len(USES)))
def test_each_use_of_a_collected_row(place: int) -> None:
    """The rows of a list, each used in one way."""
    code = Template("db = LoadDB('lab')\nrows = [r for r in db]\n" + USES[place])
    check(code.substitute(c="labname", d="labresult", v="ph", w="'ph'"))
