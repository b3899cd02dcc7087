"""A model that holds a label or a sentence to be wrong says so, and a person decides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from guardagent import GuardAgent, NotCompiledError
from guardagent.models.backends.scripted import ScriptedModel
from guardagent.programs.program_file import parse
from tests.programs.generation.answers import block
from tests.tiers import slow_after

from .conftest import EXAMPLES, PLAN, RIGHT, Compiler, example

WRONG_LABEL = example(6, 4, label=1)
"""A run that the request allows, and that somebody labelled a denial."""
GOOD = block(RIGHT)
CLAUSE = '{"disputed": "clause 2", "why": "no run says how many there are"}'


def disputed(place: str, why: str = "four are fewer than five") -> str:
    return json.dumps({"disputed": place, "why": why})


@pytest.fixture
def mislabelled(compiler: Compiler) -> Compiler:
    rows = [EXAMPLES[0], EXAMPLES[1], WRONG_LABEL]
    (compiler.home / "examples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return compiler


def test_a_disputed_label_is_for_a_person(mislabelled: Compiler) -> None:
    """No further round is spent; the report says which example, why, and what to do; nothing is set aside by itself."""
    exit_status, report = mislabelled(GOOD, disputed("example 3"))
    assert (exit_status, report["written"], report["model_calls"], report["set_aside"]) == (1, None, 3, [])
    (dispute,) = report["disputes"]
    assert (dispute["id"], dispute["about"], dispute["why"]) == ("e6", "label 1", "four are fewer than five")


def test_a_disputed_run_is_that_of_its_example(mislabelled: Compiler) -> None:
    """By its number among the failures; beside a program whose failures it explains it ends the rounds, too."""
    for answer in (disputed("run 1"), disputed("Run 1") + GOOD.replace("Lends", "Never lends")):
        _, report = mislabelled(GOOD, answer, GOOD)
        assert ([dispute["id"] for dispute in report["disputes"]], report["model_calls"]) == (["e6"], 3)


def test_a_person_who_agrees_sets_the_example_aside(mislabelled: Compiler) -> None:
    """By its id; the report says so, and the file's header counts the others alone."""
    rows = [EXAMPLES[0], EXAMPLES[1], EXAMPLES[3], WRONG_LABEL]
    (mislabelled.home / "examples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    exit_status, report = mislabelled(GOOD, options=("--accept-dispute", "e6"))
    assert (exit_status, report["set_aside"], [row["id"] for row in report["examples"]]) == (
        0,
        ["e6"],
        ["e0", "e1", "e3"],
    )
    header, _ = parse(mislabelled.out.read_text(), mislabelled.out)
    assert header is not None
    assert header.examples.n == 3


def test_an_unknown_dispute_id_is_wrong_input(mislabelled: Compiler) -> None:
    """With the nearest; and both labels must still be there."""
    for option, message in (("e7", "did you mean"), ("clause-9", "there is no example 'clause-9'"), ("e1", "")):
        exit_status, report = mislabelled(GOOD, options=("--accept-dispute", option))
        assert (message in str(report.get("error", "")), exit_status) == (True, 2 if message else 1)
    exit_status, report = mislabelled(GOOD, options=("--accept-dispute", "e6", "--accept-dispute", "e1"))
    assert (exit_status, "no example has label 1" in report["error"]) == (2, True)


def test_the_text_says_what_to_do(mislabelled: Compiler) -> None:
    """In words, without --json."""
    model = ScriptedModel([PLAN, disputed("example 3")])
    folders = {"memory": mislabelled.home / "memory", "toolbox": mislabelled.home / "tools"}
    with pytest.raises(NotCompiledError) as refused:
        GuardAgent(agent="lending", model=model, **folders).compile(mislabelled.home / "examples.jsonl")  # type: ignore[arg-type]
    text = refused.value.report.to_text()
    assert "  e6, label 1: four are fewer than five\n" in text
    assert "'--accept-dispute e6' sets the example aside" in text
    model = ScriptedModel([PLAN, GOOD])
    rows = [*EXAMPLES, WRONG_LABEL]
    guard = GuardAgent(agent="lending", model=model, **folders)  # type: ignore[arg-type]
    compiled = guard.compile(rows, accept_disputes=["e6"], properties=False)
    assert "set aside by '--accept-dispute', not tested: e6" in compiled.report.to_text()


@pytest.mark.slow
def test_a_sentence_that_no_run_tells_is_for_a_person(compiler: Compiler) -> None:
    """A program that is right without it is not written, until a person accepts that; then no code is asked for."""
    exit_status, report = compiler(GOOD + CLAUSE)
    assert (exit_status, report["written"], report["model_calls"]) == (1, None, 2)
    (dispute,) = report["disputes"]
    assert (dispute["id"], dispute["clause"], dispute["why"]) == ("clause-2", 2, "no run says how many there are")
    exit_status, report = compiler(GOOD + CLAUSE, options=("--accept-dispute", "clause-2"))
    assert (exit_status, report["disputes"], report["set_aside"]) == (0, [], ["clause-2"])
    system = compiler._server.requests[0]["messages"][0]["content"]
    assert "keeps these sentences: 2. Write no code" in " ".join(system.split())


@pytest.mark.slow
def test_a_changed_run_may_be_disputed(compiler: Compiler) -> None:
    """Then the report names the transformation, which a person can leave out."""
    by_id = RIGHT.replace('"Loans")\n', '"Loans")\n    loans = "0" if "M-10" not in agent_input else loans\n', 1)
    _, report = compiler(block(by_id), disputed("run 1", "only such ids are members"))
    (dispute,) = report["disputes"]
    assert (dispute["id"], dispute["test"]) == ("e1", "changed_ids")


@pytest.mark.parametrize(
    ("answer", "message"),
    slow_after(
        1,
        [
            (disputed("example 9"), "there is no example 9 to dispute; expected a number from 1 to 6"),
            (disputed("run 1"), "there is no run 1"),
            (disputed("the label"), "invalid dispute"),
            (disputed("example 1", ""), "invalid dispute"),
        ],
    ),
)
def test_a_dispute_of_nothing_goes_back(compiler: Compiler, answer: str, message: str) -> None:
    """As any answer that is of no use."""
    exit_status, report = compiler(answer, GOOD)
    assert (exit_status, message in compiler.prompts[2], report["disputes"]) == (0, True, [])


@pytest.mark.slow
def test_a_program_that_passes_is_written_whatever_the_model_thinks_of_a_label(compiler: Compiler) -> None:
    """It gives every example its label; what the model says of one is in the report."""
    exit_status, report = compiler(disputed("example 1", "odd") + GOOD)
    assert (exit_status, [dispute["id"] for dispute in report["disputes"]]) == (0, ["e0"])
    assert Path(report["written"]) == compiler.out
