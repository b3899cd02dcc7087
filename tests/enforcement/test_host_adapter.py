"""The tools of a host's agents, the notes of an adapter, and when a host has to ask."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from guardagent._support.execution import drive
from guardagent.enforcement import Coverage, ToolGuard, ToolSpec
from guardagent.enforcement.host_adapter import (
    HostAdapter,
    HostApproval,
    ListedTools,
    paused_calls,
    proposed_ids,
    unaccepted_names,
)
from guardagent.enforcement.host_runs import HostRun, HostScope, HostSurroundings
from guardagent.types import EMPTY, Decision, Verdict

_POLICY = """
version: 1
policies:
  - {id: limit, temporal: "forall(refund(amount=a), a <= 100)", on_violation: escalate}
"""


class CountingGuard(ToolGuard):
    """Counts the comparisons of tools and rules."""

    compared = 0

    def attach(self, tools: Iterable[ToolSpec]) -> Coverage:
        self.compared += 1
        return super().attach(tools)


def _guard(folder: Path) -> CountingGuard:
    path = folder / "policies.yaml"
    path.write_text(_POLICY)
    return CountingGuard(path)


def test_only_new_or_changed_tools_are_compared_again(tmp_path: Path) -> None:
    """A run that lists the same tools costs no comparison."""
    guard = _guard(tmp_path)
    listed = ListedTools(guard)
    for description in ("pays back", "pays back", "pays back twice"):
        listed.add(ToolSpec("refund", description=description))
        listed.check()
    assert guard.compared == 2


def test_a_tool_that_its_server_adds_later_is_not_accepted(tmp_path: Path) -> None:
    """The first list of a server counts."""
    guard, first, second = _guard(tmp_path), ToolSpec("refund"), ToolSpec("wire")
    assert unaccepted_names(guard, {"shop": [first]}) == set()
    assert unaccepted_names(guard, {"shop": [first, second]}) == {"wire"}


def test_notes_last_as_long_as_their_conversation(tmp_path: Path) -> None:
    """Without a conversation nothing is kept."""
    guard = _guard(tmp_path)
    proposed_ids(guard, "c1").add("call-1")
    assert (proposed_ids(guard, "c1"), proposed_ids(guard, None), paused_calls(guard, "c1")) == ({"call-1"}, set(), {})


def test_a_host_may_have_to_ask_unless_the_guard_has_an_approver(tmp_path: Path) -> None:
    """The rule of this policy escalates."""
    guard = _guard(tmp_path)
    approval = HostApproval(guard)
    assert approval.may_be_needed
    guard.approver = lambda _: False
    assert not approval.may_be_needed


class CountingJudge:
    """Judges answers, in place of a GuardAgent: one without the notice is denied."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def guard(self, agent_input: str, agent_output: str, facts: Any = EMPTY) -> Verdict:
        self.read.append(agent_output)
        return Verdict(Decision.ALLOW if "notice" in agent_output else Decision.DENY, ("no notice",))


def test_only_a_whole_answer_that_passed_may_be_shown_again(tmp_path: Path) -> None:
    """A part of it is an answer of its own, and whether an answer was judged before is for its host to ask."""
    judge = CountingJudge()
    path = tmp_path / "policies.yaml"
    path.write_text(_POLICY)
    guard, run = ToolGuard(path, answers=judge), HostRun()  # type: ignore[arg-type]
    adapter = HostAdapter(guard, HostSurroundings("host", HostScope), None, "name it")
    answers = ["text\nnotice", "text\nnotice", "text"]
    verdicts = [drive(adapter.answer_denial(HostScope("c", run), "please", answer)) for answer in answers]
    assert [verdict is None for verdict in verdicts] == [True, True, False]
    assert judge.read == answers
    assert [run.may_show(text) for text in ("text\nnotice", "notice", "text")] == [True, False, False]
    assert drive(adapter.answer_denial(HostScope("c"), "please", "text")) is not None  # outside of a run
