"""Which conversation the code that runs belongs to: a context variable, so that threads and tasks do not mix theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from guardagent.errors import InputError

Named = str | Callable[[], str | None] | None
"""A conversation's id, what gives it at each call, or None: then the `with conversation(...)` around the call tells."""

_current: ContextVar[tuple[str, str | None] | None] = ContextVar("guardagent_conversation", default=None)


@contextmanager
def conversation(name: str, agent: str | None = None) -> Iterator[str]:
    """Calls within belong to this conversation. What runs within inherits it: sub-agents, tasks, `asyncio.to_thread`.

    A thread that is started within does not, as it has a context of its own.

    Args:
        name: the conversation's id.
        agent: which agent proposes the calls.

    Raises:
        InputError: the id is no text, or empty.
    """
    before = _current.get()
    token = _current.set((_sound(name), agent if agent is not None or before is None else before[1]))
    try:
        yield name
    finally:
        _current.reset(token)


def current_conversation() -> str | None:
    """The id of the conversation that the calling code belongs to; None where there is none."""
    found = _current.get()
    return found[0] if found else None


def current_agent() -> str | None:
    """The agent that the calling code runs for, where `conversation` was told."""
    found = _current.get()
    return found[1] if found else None


def named(given: Named) -> str:
    """The conversation of a call.

    Raises:
        InputError: there is none.
    """
    name = given() if callable(given) else given
    return _sound(current_conversation() if name is None and given is None else name)


def _sound(name: object) -> str:
    if isinstance(name, str) and name:
        return name
    raise InputError(
        f"the conversation's id is {name!r}; expected a text: pass conversation=..., or make the call within "
        "`with conversation(id):`"
    )
