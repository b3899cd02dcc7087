"""Memory grows from executed guards, and by default only after review."""

import json
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from guardagent import GuardAgent, InputError
from guardagent.programs.memory.learning import pending_guards
from guardagent.programs.memory.retrieval import read_demonstrations
from guardagent.testing import ScriptedModel
from tests.conftest import Cli
from tests.programs.generation.answers import CODE, MISSPELT, PLAN, PROGRAM
from tests.runs import ehr_input, ehr_log


def judge(memory: Path, *answers: str, value: str = "7.4", **options: Any) -> None:
    model = ScriptedModel(answers)
    guard = GuardAgent(
        agent="ehragent", mode="generate", memory=memory, model=model, **{"remember": "review"} | options
    )
    guard.guard(ehr_input("nursing"), ehr_log(answer=value))


def demonstrations(memory: Path) -> int:
    return len(read_demonstrations(memory / "ehragent" / "demonstrations.jsonl"))


def test_what_was_executed_waits_for_a_person(memory: Path) -> None:
    """The run, the plan and the code that ran, with the verdict it gave; once, however often it is judged."""
    judge(memory, PLAN, MISSPELT, CODE)
    judge(memory, PLAN, CODE)
    (waiting,) = pending_guards(memory / "ehragent")
    demonstration = waiting.demonstration
    assert (demonstration.agent_input, demonstration.code, len(demonstration.plan), waiting.label) == (
        ehr_input("nursing"),
        PROGRAM + "\n",
        4,
        0,
    )
    assert demonstrations(memory) == 4
    assert (memory / "ehragent" / "pending" / f"{waiting.id}.json").stat().st_mode & 0o077 == 0


def test_what_was_not_executed_is_not_remembered(memory: Path) -> None:
    """Failures are not learned, and nothing is learned by default."""
    judge(memory, PLAN, *[MISSPELT] * 4)
    judge(memory, PLAN, CODE, remember="no")
    assert pending_guards(memory / "ehragent") == []


def test_always_learns_at_once_and_the_next_guard_is_shown_it(memory: Path) -> None:
    """Threads do not lose each other's."""
    threads = [
        threading.Thread(target=judge, args=(memory, PLAN, CODE), kwargs={"value": str(value), "remember": "always"})
        for value in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert demonstrations(memory) == 4 + 8
    model = ScriptedModel([])
    GuardAgent(agent="ehragent", mode="generate", memory=memory, model=model, shots=1).guard("a", ehr_log(answer="3"))
    assert "what was found last?" in model.requests[0][-1].content


def test_review_accepts_and_rejects(memory: Path, cli: Cli) -> None:
    """By ids from a script; the others stay pending."""
    for value in ("1", "2", "3"):
        judge(memory, PLAN, CODE, value=value)
    review = ("memory", "review", "--agent", "ehragent", "--memory", memory)
    first, second, third = (entry["id"] for entry in json.loads(cli(*review, "--json").out)["pending"])
    assert first in cli(*review).out
    done = cli(*review, "--accept", first, "--reject", second)
    assert (done.status, done.out) == (0, "1 accepted, 1 rejected, 1 waiting\n")
    assert demonstrations(memory) == 5
    assert [candidate.id for candidate in pending_guards(memory / "ehragent")] == [third]
    assert cli(*review, "--accept", first).status == 2
    assert cli(*review, "--accept", third, "--reject", third).status == 2
    assert cli("memory", "list", "--memory", memory).status == 0


def test_hostile_text_does_not_drive_the_reviewer_s_terminal(memory: Path, cli: Cli) -> None:
    """Control characters are shown as what they are."""
    judge(memory, PLAN, CODE, value="7\x1b[2J\x1b]0;owned\x07")
    assert "\x1b[2J" not in cli("memory", "review", "--agent", "ehragent", "--memory", memory).out


def test_a_damaged_candidate_is_an_error_with_its_file(memory: Path, cli: Cli) -> None:
    """It is not passed over."""
    (memory / "ehragent" / "pending").mkdir()
    (memory / "ehragent" / "pending" / "abc.json").write_text('{"time": "x"}')
    ran = cli("memory", "review", "--agent", "ehragent", "--memory", memory)
    assert ran.status == 2
    assert "abc.json" in ran.err


def test_shipped_agents_do_not_grow(cli: Cli) -> None:
    """Nor does an agent without a folder."""
    with pytest.raises(InputError, match=r"copy .* into a memory folder of your own"):
        GuardAgent(agent="ehragent", remember="review")
    with pytest.raises(InputError, match="'remember' needs an agent"):
        GuardAgent("Nothing secret.", remember="always")


def test_a_memory_that_cannot_be_written_changes_no_verdict(memory: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The failure is logged."""
    (memory / "ehragent" / "pending").write_text("a file in the way")
    model = ScriptedModel([PLAN, CODE])
    guard = GuardAgent(agent="ehragent", mode="generate", memory=memory, model=model, remember="review")
    with caplog.at_level(logging.WARNING):
        assert guard.guard(ehr_input("nursing"), ehr_log()).label == 0
    assert "was not remembered" in caplog.text
