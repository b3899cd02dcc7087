"""The calls of a conversation by tool."""

from __future__ import annotations

from functools import partial
from typing import Any

from guardagent import Event
from guardagent.policy.load import compile_rules
from guardagent.policy.monitors.conversation import ConversationState


def test_the_calls_of_a_tool_follow_every_change_of_the_history() -> None:
    session = compile_rules(["F tool:close"]).session()
    session.observe(Event("open", {"door": "a"}, None, "ok"))
    fork = session.fork()
    places = partial(places_of, fork._conversation)  # monitors read them; a verdict shows only some of the calls
    assert places("open") == places("open", door="a", n=1) == [1]
    fork.check("open", {"door": "b"})
    fork.check("close", {"door": 1})
    assert places("open") == [1, 2]
    assert places("open", door="b") == [2]
    assert places("close", door="b") == [3], "a call is left out only for another string"
    fork.rollback(1)
    fork.check("close")
    assert (places("open"), places("open", door="b"), places("close")) == ([1], [], [2])
    assert not places("other")


def places_of(conversation: ConversationState, tool: str, **args: Any) -> list[int]:
    return [call.place for call in conversation.calls_of(tool, args)]
