"""The conversation of the calling code, in a context variable, so that threads and tasks stay apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from guardagent.errors import InputError

ConversationSource = str | Callable[[], str | None] | None
"""A conversation's id, a function that returns it, or None for the `with conversation(...)` around the call."""


@dataclass(frozen=True, slots=True)
class _CallerContext:
    """The conversation and agent of the calling code; code `inside` a guarded call cannot leave its conversation."""

    name: str
    agent: str | None
    inside: bool


_current: ContextVar[_CallerContext | None] = ContextVar("guardagent_conversation", default=None)


@contextmanager
def conversation(name: str, agent: str | None = None) -> Iterator[str]:
    """Puts the calls within into this conversation; sub-agents, tasks and `asyncio.to_thread` inherit it.

    Within a guarded call, that call's conversation continues, whatever the name: a sub-agent has no separate history.
    A thread that is started within has its own context and inherits nothing.

    Args:
        name: the conversation's id.
        agent: the agent that proposes the calls.

    Raises:
        InputError: the id is not a string, or is empty.
    """
    with _entered(_CallerContext(conversation_id(_valid_id(name)), _agent(agent), _in_guarded_call())) as current:
        yield current.name


@contextmanager
def guarded_call(source: ConversationSource, agent: str | None = None) -> Iterator[str]:
    """Marks a guarded call, so that code within belongs to its conversation. Yields the conversation's id.

    Raises:
        InputError: there is no conversation.
    """
    with _entered(_CallerContext(conversation_id(source), _agent(agent), inside=True)) as current:
        yield current.name


@contextmanager
def _entered(current: _CallerContext) -> Iterator[_CallerContext]:
    token = _current.set(current)
    try:
        yield current
    finally:
        _current.reset(token)


def _agent(agent: str | None) -> str | None:
    return agent if agent is not None else current_agent()


def current_conversation() -> str | None:
    """Returns the id of the calling code's conversation; None if there is none."""
    found = _current.get()
    return found.name if found else None


def current_agent() -> str | None:
    """Returns the agent that `conversation` names for the calling code; None if it names none."""
    found = _current.get()
    return found.agent if found else None


def _in_guarded_call() -> bool:
    """Whether the calling code runs within a guarded call."""
    found = _current.get()
    return found is not None and found.inside


def conversation_id(source: ConversationSource) -> str:
    """Returns the conversation id of a call; a nested call shares that of the outer one.

    Raises:
        InputError: there is no conversation.
    """
    if _in_guarded_call():
        return _valid_id(current_conversation())
    name = source() if callable(source) else source
    return _valid_id(current_conversation() if name is None and source is None else name)


def _valid_id(name: object) -> str:
    if isinstance(name, str) and name:
        return name
    raise InputError(
        f"the conversation's id is {name!r}; expected a string; pass conversation=..., or make the call within "
        "'with conversation(id):'"
    )
