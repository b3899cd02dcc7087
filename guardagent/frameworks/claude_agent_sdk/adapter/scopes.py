"""The surroundings of a session: the conversation that it belongs to, and who reads its messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from guardagent.enforcement import HostCall

Named = str | Callable[[], str | None] | None


@dataclass(frozen=True, slots=True)
class ClaudeScope:
    """The surroundings of a session that begins, or of a tool that runs.

    Attributes:
        conversation: its id; None if there is none.
        call: the running call; sessions inside it are parts of its conversation.
    """

    conversation: str | None
    call: HostCall | None = None


_scope: ContextVar[ClaudeScope | None] = ContextVar("guardagent_claude_agent_sdk", default=None)
_holds_answers: ContextVar[bool] = ContextVar("guardagent_claude_agent_sdk_reader", default=False)


def scope() -> ClaudeScope | None:
    """Returns the surroundings of the calling code; None if there are none.

    A hook runs in the context in which its client has connected.
    """
    return _scope.get()


@contextmanager
def enter(around: ClaudeScope) -> Iterator[None]:
    """Code inside has these surroundings."""
    token = _scope.set(around)
    try:
        yield
    finally:
        _scope.reset(token)


@contextmanager
def conversation(name: str) -> Iterator[None]:
    """Sessions that begin inside belong to this conversation; within a tool, to the one that the tool was called in."""
    around = scope()
    with enter(around if around is not None and around.call is not None else ClaudeScope(name)):
        yield


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
    return (named() if callable(named) else named) or outside or session
