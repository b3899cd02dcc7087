"""Sentences and the code for them, lines that never ran: what a report tells a person."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.request import marked_lines
from guardagent.programs.compile.trial import InstrumentedProgram, Trial, statement_lines
from guardagent.sandbox import load_sandbox
from guardagent.sandbox.toolbox import Toolbox
from tests.programs.generation.answers import block

from .conftest import RIGHT, Compiler

PROGRAM = '''\
"""A program."""
# clauses 1, 2
LIMITS = {
    "a": 1,
    "b": 2,
}

def helper(text):
    """Documentation."""
    if text == "a":  # clause 3
        return 1
    elif text == "b":
        return 2
    try:
        value = int(text)
    except ValueError:
        value = 0
    finally:
        text = None
    for number in range(value):
        # clause 4
        value += 1

        value += 1
    else:
        pass
    return value

def check(agent_input, agent_output, facts):
    check_access({}, {})
    return {"label": 0, "details": {"value": helper(agent_input)}}
'''


def run(agent_input: str) -> Example:
    return Example("x", agent_input, "out", 0)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["monty", "restricted"])
def test_each_engine_measures_line_coverage(engine: str) -> None:
    """A rewritten program gives the same answers, and its lines also where it fails."""
    sandbox = load_sandbox(engine)
    trial = Trial(PROGRAM, sandbox, Toolbox.load())
    assert trial.lines_run(run("a")) == {10, 11, 30, 31}
    assert trial.lines_run(run("b")) == {10, 12, 13, 30, 31}
    assert trial.lines_run(run("2")) == {10, 12, 14, 15, 19, 20, 22, 24, 26, 27, 30, 31}
    assert trial.lines_run(run("x")) >= {17, 19}
    assert trial.lines_run(run("999999999999")) <= set(statement_lines(PROGRAM))
    sandbox.close()
    assert set(statement_lines(PROGRAM)) == {10, 11, 12, 13, 14, 15, 17, 19, 20, 22, 24, 26, 27, 30, 31}


def test_a_program_cannot_know_what_tells_its_lines() -> None:
    """The names that are added are others each time."""
    assert InstrumentedProgram(PROGRAM).report_function != InstrumentedProgram(PROGRAM).report_function


def test_comments_name_sentences() -> None:
    """Above a block, behind a statement, several at once."""
    lines = marked_lines(PROGRAM)
    assert lines == {1: {3, 4, 5, 6}, 2: {3, 4, 5, 6}, 3: set(range(10, 28)) - set(range(14, 28)), 4: {22}}


def test_the_report_maps_sentences_to_lines_and_examples(compiler: Compiler) -> None:
    """Lines of the file as it was written, examples that run them, and what nothing covers."""
    never = RIGHT.replace("# clause 2\n", 'if "refuse" in agent_output:\n        denied = True\n').replace(
        "    denied, why", "    denied, why"
    )
    exit_status, report = compiler(block(never))
    assert exit_status == 0
    written = Path(compiler.out).read_text().split("\n")
    first, second = report["clauses"]
    assert any("check_loans(loans, 5)" in written[line - 1] for line in first["lines"])
    assert first["examples"] == ["e0", "e1", "e2", "e3", "e4", "e5"]
    assert (second["lines"], second["examples"]) == ([], [])
    by_kind = {finding["kind"]: finding for finding in report["findings"]}
    assert written[by_kind["unexecuted"]["line"] - 1].strip() == "denied = True"
    assert by_kind["uncovered"]["clause"] == 2


def test_an_example_that_is_only_undecided_is_a_finding(compiler: Compiler) -> None:
    """It is denied, and nobody knows whether for the right reason; and words of one example are shown."""
    undecided = RIGHT.replace(
        "    denied,", '    if loans == "7":\n        raise ValueError("May I have book 3?")\n    denied,'
    )
    exit_status, report = compiler(block(undecided))
    assert exit_status == 0
    assert "example 'e3' is denied because the program could not decide" in str(report["findings"])
