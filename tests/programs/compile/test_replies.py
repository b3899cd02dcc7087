"""A model that holds a label or a sentence to be wrong says so, and a person decides."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from guardagent import GuardAgent, NotCompiledError
from guardagent.models.backends.scripted import ScriptedModel
from guardagent.programs.program_file import parse
from tests.conftest import Cli, Write
from tests.models.server import text
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
    system = compiler.server.requests[0]["messages"][0]["content"]
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


# --- a function that the toolbox lacks: proposed with tests, and never run before the user accepts it


MISSING = '{"missing_function": "check_fines", "why": "no function knows\\nwho owes a fine"}\n'
SOURCE = '''\
raise SystemExit("run")


def check_fines(member: str) -> tuple[bool, dict[str, str]]:
    """Whether a member owes a fine."""
    return member == "M-1", {"fine": member} if member == "M-1" else {}
'''
TESTS = """\
def test_fines():
    assert check_fines("M-1")[0]
"""
PROPOSAL = MISSING + block(SOURCE) + block(TESTS)


def test_a_proposal_is_written_and_nothing_of_it_runs(compiler: Compiler) -> None:
    """Beside the output, in place of a program; the model is not asked again."""
    exit_status, report = compiler(PROPOSAL)
    assert (exit_status, report["written"], report["passed"], report["model_calls"]) == (1, None, False, 2)
    function, tests = map(Path, report["proposed"])
    assert (function, tests.name) == (compiler.out.parent / "proposed" / "check_fines.py", "test_check_fines.py")
    assert function.read_text().startswith("# Proposed by a model and never run. Reason: no function knows who")
    assert tests.read_text().startswith("from check_fines import check_fines\n")
    assert report["proposals"][0]["name"] == "check_fines"
    function.write_text("edited")
    assert Path(compiler(PROPOSAL)[1]["proposed"][0]) == function.parent / "2" / "check_fines.py"
    assert function.read_text() == "edited"


def test_the_report_says_what_a_person_has_to_do(compiler: Compiler) -> None:
    """In words, without --json; also where the plan is a proposal already."""
    compiler.serve([text(PROPOSAL)])
    run = ["--agent", "lending", *compiler.folders, "--examples", compiler.home / "examples.jsonl"]
    ran = compiler.run("compile", *run, "--model", "openai/test", "-o", compiler.out)
    assert ran.status == 1
    assert "the toolbox lacks the function 'check_fines': no function knows who owes a fine" in ran.out
    assert "guardagent toolbox accept" in ran.out


@pytest.mark.parametrize(
    ("answer", "message"),
    slow_after(
        2,
        [
            (PROPOSAL.replace("check_fines", "check_loans"), "is in the toolbox"),
            (MISSING + block(SOURCE), "two ```python blocks"),
            (PROPOSAL.replace('    """Whether a member owes a fine."""\n', ""), "has no docstring"),
            (PROPOSAL.replace("owes a fine.", "owes\u202ea fine."), "unprintable character"),
            (PROPOSAL.replace("def check_fines", "def other(): pass\n\n\ndef check_fines"), "also defines 'other'"),
            (PROPOSAL.replace('"why"', '"because"'), "expected one JSON object"),
            (PROPOSAL.replace("return member", "return ("), "not valid Python"),
        ],
    ),
)
def test_an_incomplete_proposal_goes_back(compiler: Compiler, answer: str, message: str) -> None:
    """As any answer that is of no use; the next one may be a program."""
    exit_status, report = compiler(answer, block(RIGHT))
    assert (exit_status, report["proposed"], message in compiler.prompts[2]) == (0, [], True), compiler.prompts[2]


def test_a_program_of_another_candidate_is_enough(compiler: Compiler) -> None:
    """Then nothing is proposed."""
    exit_status, report = compiler(PROPOSAL, text("1. a\n2. b\n3. c\n4. d"), block(RIGHT), options=("--candidates", 2))
    assert (exit_status, report["chosen"], report["proposed"]) == (0, 2, [])


@pytest.fixture
def proposed(write: Write) -> Path:
    write("proposed/test_check_fines.py", "from check_fines import check_fines\n\n\n" + TESTS)
    write("mine/other.py", 'def other() -> None:\n    """Another."""\n')
    return write("proposed/check_fines.py", SOURCE.partition("\n")[2])


def test_a_person_accepts_it(cli: Cli, proposed: Path) -> None:
    """After it was shown, and its tests have passed; the toolbox then holds the function, its tests beside it."""
    mine = proposed.parents[1] / "mine"
    ran = cli("toolbox", "accept", proposed, "--toolbox", mine, "--yes")
    assert (ran.status, "def check_fines" in ran.out, "def test_fines" in ran.out) == (0, True, True)
    assert sorted(path.name for path in mine.iterdir()) == ["_test_check_fines.py", "check_fines.py", "other.py"]
    assert "check_fines" in cli("toolbox", "list", "--toolbox", mine).out
    again = cli("toolbox", "accept", proposed, "--toolbox", mine, "--yes")
    assert (again.status, "the toolbox already has a function" in again.err) == (2, True)


def test_its_folder_is_made(cli: Cli, proposed: Path) -> None:
    """The toolbox folder is created if needed, once the tests have passed."""
    new = proposed.parents[1] / "new" / "tools"
    assert cli("toolbox", "accept", proposed, "--toolbox", new, "--yes").status == 0
    assert (new / "check_fines.py").is_file()


@pytest.mark.parametrize(
    ("tests", "message"),
    [
        ("def test_fines():\n    assert not check_fines('M-1')[0]\n", "AssertionError"),
        ("def test_fines(member):\n    pass\n", "missing 1 required positional argument"),
        ("def fines():\n    pass\n", "there is no test_ function"),
        ("def test_fines():\n    raise SystemExit(0)\n", "stopped early"),
        ("import os\n\n\ndef test_fines():\n    assert 'GUARDAGENT_X' in os.environ\n", "AssertionError"),
        ("def test_fines():\n    raise ValueError('\\x1b[31mred')\n", "ValueError: \ufffd[31mred"),
    ],
)
def test_a_proposal_that_fails_its_tests_is_not_added(
    cli: Cli, proposed: Path, monkeypatch: pytest.MonkeyPatch, tests: str, message: str
) -> None:
    """Exit 1, with what they said; not even the folder is made."""
    monkeypatch.setenv("GUARDAGENT_X", "secret")
    proposed.with_name("test_check_fines.py").write_text("from check_fines import check_fines\n\n\n" + tests)
    ran = cli("toolbox", "accept", proposed, "--toolbox", proposed.parents[1] / "new", "--yes")
    assert (ran.status, message in ran.out, "Nothing was added" in ran.out) == (1, True, True), ran.out
    assert not (proposed.parents[1] / "new").exists()


def test_nothing_is_added_or_run_without_a_person(cli: Cli, proposed: Path) -> None:
    """Nobody at a terminal, no tests, a file for a folder, characters that hide: exit 2, and nothing is written."""
    mine, ran_at = proposed.parents[1] / "mine", proposed.parents[1] / "ran"
    proposed.write_text(f"open({str(ran_at)!r}, 'w')\n\n\n" + proposed.read_text())
    command = [sys.executable, "-m", "guardagent", "toolbox", "accept", str(proposed), "--toolbox", str(mine)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert (ran.returncode, "--yes" in ran.stderr) == (2, True)
    a_file = cli("toolbox", "accept", proposed, "--toolbox", mine / "other.py", "--yes")
    assert (a_file.status, "is a file; expected a folder" in a_file.err) == (2, True)
    proposed.write_text(SOURCE.replace("owes", "owes\u202e"))
    ran_here = cli("toolbox", "accept", proposed, "--toolbox", mine, "--yes")
    assert (ran_here.status, "contains the invisible character" in ran_here.err) == (2, True)
    proposed.with_name("test_check_fines.py").unlink()
    without = cli("toolbox", "accept", proposed, "--toolbox", mine, "--yes")
    assert (without.status, "expected the tests" in without.err) == (2, True)
    assert [path.name for path in mine.iterdir()] == ["other.py"]
    assert not ran_at.exists()
