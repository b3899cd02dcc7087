"""Which conversation the code that runs belongs to: a context variable, so that threads and tasks do not mix theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from guardagent.errors import InputError

ConversationSource = str | Callable[[], str | None] | None
"""A conversation's id, what gives it at each call, or None: then the `with conversation(...)` around the call tells."""


@dataclass(frozen=True, slots=True)
class _CallerContext:
    """What the calling code belongs to; `inside` a guarded call it cannot leave that call's conversation."""

    name: str
    agent: str | None
    inside: bool


_current: ContextVar[_CallerContext | None] = ContextVar("guardagent_conversation", default=None)


@contextmanager
def conversation(name: str, agent: str | None = None) -> Iterator[str]:
    """Calls within belong to this conversation. What runs within inherits it: sub-agents, tasks, `asyncio.to_thread`.

    Within a guarded call, that call's conversation goes on, whatever the name: a sub-agent has no history of its own.
    A thread that is started within inherits nothing, as it has a context of its own.

    Args:
        name: the conversation's id.
        agent: which agent proposes the calls.

    Raises:
        InputError: the id is no text, or empty.
    """
    with _entered(_CallerContext(conversation_id(_valid_id(name)), _agent(agent), _in_guarded_call())) as current:
        yield current.name


@contextmanager
def guarded_call(source: ConversationSource, agent: str | None = None) -> Iterator[str]:
    """Runs a guarded call: what it runs belongs to its conversation, whose id this gives.

    Raises:
        InputError: there is none.
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
    """The id of the conversation that the calling code belongs to; None where there is none."""
    found = _current.get()
    return found.name if found else None


def current_agent() -> str | None:
    """The agent that the calling code runs for, where `conversation` was told."""
    found = _current.get()
    return found.agent if found else None


def _in_guarded_call() -> bool:
    """Whether the calling code runs within a guarded call."""
    found = _current.get()
    return found is not None and found.inside


def conversation_id(source: ConversationSource) -> str:
    """The conversation of a call: within another one, the same.

    Raises:
        InputError: there is none.
    """
    if _in_guarded_call():
        return _valid_id(current_conversation())
    name = source() if callable(source) else source
    return _valid_id(current_conversation() if name is None and source is None else name)


def _valid_id(name: object) -> str:
    if isinstance(name, str) and name:
        return name
    raise InputError(
        f"the conversation's id is {name!r}; expected a text: pass conversation=..., or make the call within "
        "`with conversation(id):`"
    )
