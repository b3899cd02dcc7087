"""columns_read on logs, on hostile and on drawn texts; programs in tables are in `test_ehr_programs.py`."""

from __future__ import annotations

import json
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from guardagent import Toolbox
from tests.tiers import examples

ROOT = Path(__file__).parents[3]
SCHEMA = {
    "patient": ["patientunitstayid", "patienthealthsystemstayid", "uniquepid", "age", "gender", "hospitaladmittime"],
    "lab": ["patientunitstayid", "labname", "labresult", "labresulttime"],
    "medication": ["patientunitstayid", "drugname", "dosage", "routeadmin", "drugstarttime"],
    "cost": ["patienthealthsystemstayid", "chargetime", "cost"],
}
Expected = dict[str, list[str]]


columns_read = Toolbox.load().functions["columns_read"]


def reads(**databases: str) -> Expected:
    return {name: sorted(columns.split()) for name, columns in databases.items()}


def table(cases: dict[str, tuple[Any, Any]]) -> list[Any]:
    return [pytest.param(*case, id=name) for name, case in cases.items()]


FETCH = "db = LoadDB('lab')\none = FilterDB(db, 'labname=x')\nanswer = GetValue(one, 'labresult')"
READ = reads(lab="labname labresult")
OTHER = "answer = GetValue(LoadDB('cost'), 'cost')"
ESCAPED = FETCH.replace("\n", "\\n")
BOTH = READ | reads(cost="cost")

LOGS: dict[str, tuple[str, Expected]] = {
    "a whole log": (f"Knowledge:\n- It's in the lab.\n\nGenerated code:\n{FETCH}\nAnswer:\n5.0", READ),
    "an escaped log": (f"Knowledge:\n- It's in the lab.\n\nGenerated code:\n{ESCAPED}\nAnswer:\nno, x", READ),
    "code on the header's line": (f"Solution: {FETCH}\nAnswer:\n5", READ),
    "other cases and spaces": (f"  GENERATED CODE: \n{FETCH}\n  ANSWER :\n5", READ),
    "indented": ("Code:\n" + textwrap.indent(FETCH, "    ") + "\nAnswer:\n5", READ),
    "two attempts": (f"Code:\n{OTHER}\nError:\nKeyError: 'cost'\nCode:\n{FETCH}\nAnswer:\n5", BOTH),
    "an attempt after the answer": (f"Code:\n{FETCH}\nAnswer:\n5\nCode:\n{OTHER}", BOTH),
    "a benign attempt after the answer": (f"Code:\n{FETCH}\nAnswer:\n5\nCode:\nanswer = 1", READ),
    "a benign attempt before": (f"Code:\nanswer = 1\nCode:\n{FETCH}\nAnswer:\n5", READ),
    "an attempt that goes on": ("Code:\ndb = LoadDB('lab')\nCode:\nanswer = db['labname'].max()", reads(lab="labname")),
    "calls after the answer": (f"Code:\n{FETCH}\nAnswer:\n{OTHER}", BOTH),
    "calls under knowledge": (f"Knowledge:\n{OTHER}\nCode:\n{FETCH}\nAnswer:\n5", BOTH),
    "fences": (f"I would run\n```python\n{FETCH}\n```\nand then\n```\n{OTHER}\n```", BOTH),
    "a fence without an end": (f"```python\n{FETCH}", READ),
    "fences in a section": (f"Code:\n```python\n{FETCH}\n```\nAnswer:\n5", READ),
    "cells": (f"{json.dumps({'cell': FETCH})}\n-----\n{json.dumps({'cell': OTHER})}\n-----\ndone", BOTH),
    "only code": (FETCH, READ),
    "only escaped code": (ESCAPED, READ),
    "escaped code after a comment": ("# fetch it\\n" + ESCAPED, READ),
    "escaped quotes and tabs": (
        json.dumps("if 1:\n\tanswer = LoadDB(\"lab\")['labname'].max()")[1:-1],
        reads(lab="labname"),
    ),
    "escaped letters": ("Code:\n# x\\n\\u004c\\u006fadDB('lab')\nAnswer:\n5", reads(lab="*")),
    "wide letters": ("answer = \uff2coadDB('lab')['labname'].max()", reads(lab="labname")),
    "terminated": (f"Code:\n{FETCH}\nTERMINATE\nAnswer:\n5", READ),
    "an error after the code": (f"Code:\n{FETCH}\nError: 'x' is not in list\nAnswer:\n5", READ),
    "an answer on its line": (f"Code:\n{FETCH}\nAnswer: no growth, x", READ),
    "a variable called answer": (
        "Code:\ndb = LoadDB('lab')\nanswer: int = 5\nAnswer: int = 5\nx = db['labname'].max()\nAnswer:\n5",
        reads(lab="labname"),
    ),
    "a variable called code": (
        "Code:\ndb = LoadDB('lab')\ncode: int = 5\nx = db['labname'].max()\nAnswer:\n5",
        reads(lab="labname"),
    ),
    "an attempt that is prose": (f"Solution:\nWe'll look it up.\nCode:\n{FETCH}\nAnswer:\n5", READ),
    "code cut within a text": (f"Code:\nx = '''\nCode:\n'''\n{FETCH}\ny = '''\nAnswer:\n'''", READ),
    "code cut within a short text": (
        "Code:\nx = 'a\\\nCode: '; answer = LoadDB(\"lab\").labname.max() #'\nAnswer:\n5",
        reads(lab="labname"),
    ),
    "code cut within a dict": (
        "Code:\nx = {\nAnswer:\n5}\nf = LoadDB\ndb = f('lab')\nanswer = db.labname.max()\nAnswer:\n5",
        reads(lab="labname"),
    ),
    "code cut by a fence in a text": (
        "f = LoadDB\nx = '''\n```\n'''\nanswer = f('lab')['labname'].max()\ny = '''\n```\n'''",
        reads(lab="labname"),
    ),
    "an escape in a text": ("Code:\nprint('a\\nb')\n" + FETCH + "\nAnswer:\n5", READ),
}

BAD_LOGS: dict[str, tuple[str, str]] = {
    "an attempt that does not parse": (f"Code:\n{FETCH}(\nAnswer:\n5", "parsed as code"),
    "a call that is not code": (f"Code:\n{FETCH}\nAnswer:\n5 by LoadDB('cost') and so on", "parsed as code"),
    "a call in a text": (f"Code:\n{FETCH}\nAnswer:\n'''\n{OTHER}\n'''", "parsed as code"),
    "a call in a comment": (f"Code:\n{FETCH}\nAnswer:\n# {OTHER}", "parsed as code"),
    "a call between fences": (f"```\n{FETCH}\n```\nand LoadDB('cost') too\n```\nx = 1\n```", "parsed as code"),
    "calls behind an error's line": (f"Code:\nx = 1\nError: it's over\n{OTHER}\nAnswer:\n5", "parsed as code"),
}


@pytest.mark.parametrize(("log", "expected"), table(LOGS))
def test_finds_the_code_in_a_log(log: str, expected: Expected) -> None:
    """All attempts count, wherever they stand and however they are written."""
    assert columns_read(log, SCHEMA) == expected


@pytest.mark.parametrize(("log", "why"), table(BAD_LOGS))
def test_refuses_calls_that_hide_in_a_log(log: str, why: str) -> None:
    """A call in the log that cannot be analysed is never left out."""
    with pytest.raises(ValueError, match=why):
        columns_read(log, SCHEMA)


def test_without_a_schema_a_column_of_a_join_is_of_both_tables() -> None:
    """A column of unknown origin is attributed to both tables."""
    query = "SQLInterpreter('select labname from lab, patient')"
    assert columns_read(query) == reads(lab="labname", patient="labname")


HOSTILE = {
    "too long": "x" * 2_000_000,
    "parentheses": "LoadDB(" + "(" * 10_000 + ")" * 10_000,
    "few parentheses": "LoadDB(" + "(" * 90 + "1" + ")" * 90 + ")",
    "minus": "LoadDB(" + "-" * 100_000 + "1)",
    "a long sum": "LoadDB(" + "'a' + " * 30_000 + "'b')",
    "a doubling text": "s = 'ab'\n" + "s = s + s\n" * 60 + "LoadDB(s)",
    "a text in a text": "s = 'ab'\n" + "s = s.replace('a', s)\n" * 60 + "LoadDB(s)",
    "a wide field": "LoadDB('{:999999999}'.format('x') + '%999999999d' % 1)",
    "all combinations": "s = " + " + ".join(["('a' if x else 'b')"] * 40) + "\nLoadDB(s)",
    "nested loops": "".join(" " * n + f"for a{n} in [1, 2, 3, 4, 5, 6, 7, 8]:\n" for n in range(18))
    + " " * 18
    + "LoadDB(x)",
    "nested unknown loops": "".join(" " * n + f"for a{n} in z:\n" for n in range(18))
    + " " * 18
    + "x = x + 'a'\nLoadDB(x)",
    "calls of calls": "def f0(x):\n  LoadDB(x)\n"
    + "".join(f"def f{n}(x):\n  f{n - 1}(x)\n  f{n - 1}(x)\n" for n in range(1, 40))
    + "f39(1)",
    "lists of lists": "x = []\nwhile a:\n  x = [x, x]\nLoadDB(x)",
    "doubling lists": "x = ['a', 'b']\n" + "x = x + x\n" * 40 + "for y in x:\n  LoadDB(y + z)",
    "headers": "Code:\n(\n" * 20_000 + "LoadDB(",
    "fences": "```\n(\n" * 20_000 + "LoadDB(",
    "cells": '"cell": "' * 20_000 + "LoadDB(",
    "SQL of parentheses": "SQLInterpreter('select " + "(" * 3_000 + "1" + ")" * 3_000 + "')",
    "SQL of many tables": "SQLInterpreter('select x from " + ", ".join(f"t{n} a" for n in range(900)) + "')",  # noqa: S608 - no database hears it
    "nulls": "LoadDB('\0",
    "surrogates": "LoadDB('\ud800",
}


@pytest.mark.parametrize("code", HOSTILE.values(), ids=HOSTILE)
def test_gives_up_on_hostile_code_soon(code: str) -> None:
    """Code that is made to take long, or to go deep, is refused in time."""
    started = time.process_time()
    with pytest.raises(ValueError, match=r"\w"):
        columns_read(code, SCHEMA)
    assert time.process_time() - started < 5


def columns(name: str) -> st.SearchStrategy[str]:
    return st.sampled_from(SCHEMA[name])


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, Expected]:
    """Draw a program in straight lines, and what it reads."""
    lines: list[str] = []
    reads: dict[str, set[str]] = {}
    bound: dict[str, str] = {}
    for _ in range(draw(st.integers(1, 12))):
        variable = draw(st.sampled_from("abc"))
        table = bound.get(variable)
        if table is None or draw(st.booleans()):
            table = bound[variable] = draw(st.sampled_from(sorted(SCHEMA)))
            lines.append(f"{variable} = LoadDB({table!r})")
            reads.setdefault(table, set())
            continue
        column = draw(columns(table))
        other = draw(st.sampled_from("abc"))
        lines.append(
            draw(
                st.sampled_from(
                    [
                        f"{other} = FilterDB({variable}, '{column}=' + str(x))",
                        f"{other} = FilterDB({variable}, 'max({column})')",
                        f"{other} = {variable}[{variable}['{column}'] == x]",
                        f"{other} = {variable}.sort_values('{column}')",
                        f"x = GetValue({variable}, '{column}, list')",
                        f"x = {variable}.{column}.unique()",
                        f"x = [r['{column}'] for _, r in {variable}.iterrows()]",
                    ]
                )
            )
        )
        reads[table].add(column)
        if lines[-1].startswith(other):
            bound[other] = table
    return "\n".join(lines), {name: sorted(read) for name, read in reads.items()}


@given(programs())
def test_reads_of_straight_programs_are_exact(case: tuple[str, Expected]) -> None:
    """A program built with known reads has just these, escaped or not, in a log or alone."""
    code, expected = case
    log = "Knowledge:\n- none\n\nGenerated code:\n{}\nAnswer:\n5"
    for text in (code, code.replace("\n", "\\n"), log.format(code), log.format(code.replace("\n", "\\n"))):
        assert columns_read(text + "\n" if text is code else text, SCHEMA) == expected


PIECES = ["LoadDB('lab')", "x = ", "Code:\n", "Answer:\n", "for x in y:\n ", "```", "\n", "\\n", *"'\"()#\\"]


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)))
@example("Code:")
@example("\\")
@example('"cell": "\\')
@settings(max_examples=examples(300))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text makes it fail in another way."""
    try:
        by_table = columns_read(text, SCHEMA)
    except ValueError:
        return
    assert all(isinstance(column, str) for read in by_table.values() for column in read)


@pytest.fixture
def runs() -> Path:
    path = ROOT.parent / "shared" / "data" / "eicu-ac"
    if not path.exists():
        pytest.skip("the reference runs are not on this machine")
    return path


def test_agrees_with_the_reference_runs(runs: Path) -> None:
    """The missing columns match the reference, except for one run whose truth counts a column that it never reads."""
    table_of = json.loads((runs / "access_table.json").read_text())
    for line in (runs / "public.jsonl").read_text().splitlines():
        row = json.loads(line)
        allowed = table_of["access"][row["role"]]
        needed = columns_read(row["agent_output"], table_of["schema"])
        lacks = {name: set(read) - set(allowed.get(name, ())) for name, read in needed.items()}
        lacks = {name: read for name, read in lacks.items() if read or name not in allowed}
        truth = {name: set(read) for name, read in row["inaccessible"].items()}
        assert lacks == truth or row["id"] == "950d609056aea9c4b9dcc4f0:general administration", row["id"]


def test_the_same_question_is_worked_out_once() -> None:
    """The host checks again what the program has checked, with the schema in another order."""
    code = "answer = GetValue(LoadDB('lab'), 'labname')  # asked twice"
    work = columns_read.__globals__["_read"]
    before = work.cache_info()
    for schema in (SCHEMA, dict(reversed(SCHEMA.items()))):
        assert columns_read(code, schema) == {"lab": ["labname"]}
    assert (work.cache_info().misses - before.misses, work.cache_info().hits - before.hits) == (1, 1)


def test_a_schema_with_a_text_in_place_of_columns_is_an_error() -> None:
    """Its letters would be taken for columns."""
    with pytest.raises(ValueError, match="not a mapping of databases to lists"):
        columns_read("db = LoadDB('lab')", {"lab": "name"})
