"""The tools of a host's agents, the notes of an adapter, and when a host has to ask."""

from collections.abc import Iterable
from pathlib import Path

from guardagent.enforcement import Coverage, ToolGuard, ToolSpec
from guardagent.enforcement.host_adapter import HostApproval, ListedTools, paused_calls, proposed_ids, unaccepted_names

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
