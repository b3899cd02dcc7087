"""The calls of a conversation by tool."""

from __future__ import annotations

from guardagent import Event
from guardagent.policy.load import compile_rules


def test_the_calls_of_a_tool_follow_every_change_of_the_history() -> None:
    session = compile_rules(["F tool:close"]).session()
    session.observe(Event("open", {}, None, "ok"))
    fork = session.fork()
    calls_of = fork._conversation.calls_of  # monitors read it; a verdict shows only some of the calls
    assert [call.place for call in calls_of("open")] == [1]
    fork.check("open")
    fork.check("close")
    assert [call.place for call in calls_of("open")] == [1, 2]
    fork.rollback(1)
    fork.check("close")
    assert [call.place for call in calls_of("open")] == [1]
    assert [call.place for call in calls_of("close")] == [2]
    assert not calls_of("other")
