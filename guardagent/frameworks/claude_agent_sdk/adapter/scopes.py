"""The surroundings of a session: the conversation that it belongs to, and who reads its messages.

A hook runs in the context in which its client has connected.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from guardagent.enforcement.hosts import HostScope, HostSurroundings, Named, naming

SURROUNDINGS = HostSurroundings("claude_agent_sdk", HostScope)
scope, enter, conversation = SURROUNDINGS.scope, SURROUNDINGS.enter, SURROUNDINGS.conversation
_holds_answers: ContextVar[bool] = ContextVar("guardagent_claude_agent_sdk_reader", default=False)


@contextmanager
def holding_answers() -> Iterator[None]:
    """Sessions that begin inside have a reader that holds answers until they are judged."""
    token = _holds_answers.set(True)
    try:
        yield
    finally:
        _holds_answers.reset(token)


def holds_answers() -> bool:
    """Whether the answers of this session are held, or are those of a session in a tool, for the agent around it."""
    around = scope()
    return _holds_answers.get() or (around is not None and around.call is not None)


def conversation_of(named: Named, session: str | None) -> str | None:
    """Returns the conversation of a session.

    Args:
        named: the operator's name of it, if any.
        session: the host's own id of the session; None if it does not identify a conversation.
    """
    around = scope()
    if around is not None and around.call is not None:
        return around.conversation
    outside = around.conversation if around is not None else None
    return naming(named)() or outside or session
