"""A call as a host proposes it, and what came of it."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from guardagent.errors import in_words
from guardagent.types import EMPTY, freeze


def _any_id() -> str:
    return f"call-{secrets.token_hex(8)}"


@dataclass(frozen=True, slots=True)
class HostCall:
    """One call that is about to run.

    Attributes:
        tool: its name in the host.
        args: the arguments as the tool will get them: validated, coerced, with defaults. A frozen copy is kept.
        conversation: which conversation it belongs to. Sub-agents share that of the root. None or "" is an error.
        id: the host's id of the call; one of our own where the host has none.
        agent: which agent proposes it.
        step: the model's turn that proposes it, where the host knows: calls denied in one turn are one replan.
        action: what else the call is, for rules that speak of it (`action:handoff`).
        tags: as `action`.
        facts: what the host knows at this call.
        messages: the conversation as chat messages, for rules that read it; None where the host does not show them.
        seen: the ids of the calls whose results the host's messages show; None where it does not show them.
        ready: makes arguments that a person has edited what the tool would get of them: validated, with defaults. It
            raises where they do not fit.
    """

    tool: str
    args: Mapping[str, Any]
    conversation: str | None
    id: str = field(default_factory=_any_id)
    agent: str | None = None
    step: str | None = None
    action: str | None = None
    tags: frozenset[str] = frozenset()
    facts: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    messages: Sequence[Mapping[str, Any]] | None = None
    seen: Sequence[str] | None = None
    ready: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        with contextlib.suppress(Exception):  # what cannot be copied is refused when it is judged
            object.__setattr__(self, "args", freeze(self.args))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a call that ran.

    Attributes:
        output: what the tool gave back.
        failed: whether it failed; None where that is not known.
        ended: false where it was cancelled: it may have done its work, so that it stays in flight.
    """

    output: Any = None
    failed: bool | None = False
    ended: bool = True

    @classmethod
    def of_error(cls, error: BaseException) -> Outcome:
        """Of what a tool raised: an Exception failed it, anything else interrupted it.

        What ran out of time may have done its work all the same.
        """
        said = in_words(error)
        if isinstance(error, Exception):
            return cls(said, failed=None if isinstance(error, TimeoutError) else True)
        return cls(said, failed=None, ended=False)
