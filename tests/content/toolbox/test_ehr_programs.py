r"""columns_read on programs as models write them, and on programs that hide their reads.

They are in text files: after each heading, `### NAME | DATABASE: COLUMNS; ...`, a program; or `refused: WHY`. A short
program stands on the line of its heading, after another `|` and with `\n` for its line ends.
"""

from __future__ import annotations

import contextlib
import re
import runpy
from pathlib import Path

import pytest

from guardagent import Toolbox
from tests.workflow.python_source.returned_strings import RETURNS

ROOT = Path(__file__).parents[3]
SCHEMA = runpy.run_path(str(ROOT / "memory" / "ehragent" / "program.py"))["SCHEMA"]
columns_read = Toolbox.load().functions["columns_read"]


def programs(name: str) -> list[object]:
    text = (Path(__file__).parent / "ehr" / name).read_text()
    cases: list[object] = []
    for block in re.split(r"(?m)^### ", text)[1:]:
        head, _, code = block.partition("\n")
        title, spec, *short = head.split(" | ", 2)
        cases.append(pytest.param(spec, short[0].replace("\\n", "\n") if short else code, id=title))
    return cases


def verify(spec: str, code: str) -> None:
    """The code is refused, or reads just these columns."""
    if spec.startswith("refused: "):
        with pytest.raises(ValueError, match=spec.removeprefix("refused: ")):
            columns_read(code, SCHEMA)
    else:
        parts = [part.partition(":") for part in spec.split(";") if part.strip()]
        expected = {database.strip(): sorted(columns.split()) for database, _, columns in parts}
        assert columns_read(code, SCHEMA) == expected


@pytest.mark.parametrize(("spec", "code"), programs("reads.txt"))
def test_finds_exactly_what_is_read(spec: str, code: str) -> None:
    """Each read is found, under its database, and no other; also in unusual places, and by unusual ways."""
    verify(spec, code + "\npass")


@pytest.mark.parametrize(("spec", "code"), programs("pandas.txt"))
def test_finds_what_pandas_reads(spec: str, code: str) -> None:
    """Tables give columns, projections and rows; a table that gets out whole is read whole."""
    verify(spec, code)


@pytest.mark.parametrize(("spec", "query"), programs("queries.txt"))
def test_finds_what_sql_reads(spec: str, query: str) -> None:
    """SQL is read as SQLite reads it, and its columns are resolved to the tables they come from."""
    verify(spec, f'answer = SQLInterpreter("""{query} """)')


@pytest.mark.parametrize(("spec", "code"), programs("refused.txt"))
def test_refuses_code_that_cannot_be_analyzed(spec: str, code: str) -> None:
    """Texts that pass through something unknown, and names known only at run time, are errors with their line."""
    verify(spec, code)


@pytest.mark.parametrize(("spec", "code"), programs("programs.txt"))
def test_reads_what_models_write(spec: str, code: str) -> None:
    """Rows of any kind, collected or not, and conditions put together in any way are read exactly."""
    log = code if "Generated code:" in code else f"Knowledge:\n- It is there.\n\nGenerated code:\n{code}\nAnswer:\nx"
    verify(spec, log)


@pytest.mark.parametrize(("spec", "code"), programs("hidden.txt"))
def test_finds_or_refuses_what_is_hidden(spec: str, code: str) -> None:
    """No form that is read lets a column pass that a program reads through it."""
    verify(spec, code)


def databases(function: str) -> list[frozenset[str]]:
    """The databases of code that loads the result of `f`, and of code that loads its items; none if refused."""
    loaded = []
    for use in ("LoadDB(f(Calculate('1')))", "for item in f(Calculate('1')):\n    LoadDB(item)"):
        with contextlib.suppress(ValueError):
            loaded.append(frozenset(columns_read(f"END = '__end__'\n{function}\n{use}\npass")))
    return loaded


def test_agrees_with_the_reader_of_workflows() -> None:
    """Of the functions of its tests, many are refused here; for the others, the strings are the same."""
    strings = {name: (expected, databases(source)) for name, (source, expected) in RETURNS.items() if expected}
    read = {name: expected in loaded for name, (expected, loaded) in strings.items() if loaded}
    assert all(read.values())
    assert len(read) == 25
