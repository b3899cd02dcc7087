"""A call as a host proposes it, and its outcome."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import hashlib
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from guardagent._support.files import random_id
from guardagent.enforcement.uri import normalised, readings
from guardagent.errors import InputError, error_text
from guardagent.types import EMPTY, FrozenMapping, freeze

RESOURCE = "resource.read"

_TEXT_TYPES = (decimal.Decimal, dt.date, dt.time, dt.timedelta, uuid.UUID, bytes)
"""Non-JSON types whose values are equal if their strings are."""


def _random_id() -> str:
    return f"call-{random_id()}"


@dataclass(frozen=True, slots=True)
class HostCall:
    """One call that is about to run.

    Attributes:
        tool: its name in the host.
        args: the arguments that the tool will get: validated, coerced, with defaults. The call holds a frozen copy.
        conversation: the conversation's id. Sub-agents share that of the root. None or "" is an error.
        id: the host's id of the call; a random one if the host has none.
        agent: the agent that proposes it.
        step: the model's turn that proposes it, if known; denials in one turn count as one replan.
        action: the call's action, for rules such as `action:handoff`.
        tags: the call's tags, for rules.
        facts: the host's facts about this call.
        messages: the conversation as chat messages, for rules that read it; None if the host does not show them.
        seen: the ids of the calls whose results the host's messages show; None if it does not show them.
        principal: the principal of the sub-agent that proposes it, with a part of the conversation's roles.
        validate_edit: turns arguments that a reviewer has edited into those that the tool would get, with defaults. It
            raises an error if they do not fit.
        claim: the request of a program that runs the call itself, and settles it through any guard of the ledger; see
            `claimed_calls`. The call gets no permit.
        sealed: the frozen arguments, which need no further copy; None if they cannot be frozen.
    """

    tool: str
    args: Mapping[str, Any]
    conversation: str | None
    id: str = field(default_factory=_random_id)
    agent: str | None = None
    step: str | None = None
    action: str | None = None
    tags: frozenset[str] = frozenset()
    facts: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    messages: Sequence[Mapping[str, Any]] | None = None
    seen: Sequence[str] | None = None
    principal: Mapping[str, Any] | None = None
    validate_edit: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = field(
        default=None, repr=False, compare=False
    )
    claim: str | None = None
    _digest: str | None = field(default=None, init=False, repr=False, compare=False)
    sealed: FrozenMapping | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        with contextlib.suppress(Exception):  # arguments that cannot be copied are refused when judged
            sealed = self.args if type(self.args) is FrozenMapping else FrozenMapping(freeze(self.args))
            object.__setattr__(self, "sealed", sealed)
            object.__setattr__(self, "args", sealed.value)

    @property
    def digest(self) -> str:
        """The SHA-256 of conversation, step, id, tool and arguments: identifies exactly this call for a reviewer.

        Raises:
            InputError: an argument is neither JSON nor of a type whose string determines its value.
        """
        if self._digest is None:
            object.__setattr__(self, "_digest", _digest(self))
        assert self._digest is not None
        return self._digest

    def alternate_readings(self) -> list[HostCall]:
        """Returns the other calls that a server may take a resource read for, since a URI has many spellings.

        Raises:
            InputError: the URI is ambiguous.
        """
        uri: Any = self.args.get("uri")
        return [replace(self, args={**self.args, "uri": one}) for one in readings(normalised(uri)) if one != uri]


def _digest(call: HostCall) -> str:
    typed: list[tuple[str, str]] = []
    try:
        args = _json(call.args, "args", typed)
    except RecursionError:
        raise InputError(f"the arguments of {call.tool!r} are nested too deeply") from None
    named = [call.conversation, call.step or "", call.id, call.tool, args, *([typed] if typed else [])]
    return hashlib.sha256(json.dumps(named, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _json(value: Any, place: str, typed: list[tuple[str, str]]) -> Any:
    """Returns a value as JSON. Appends the place and type of each non-JSON value to `typed`."""
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: _json(value[name], f"{place}[{json.dumps(name)}]", typed) for name in sorted(value)}
    if isinstance(value, list | tuple):
        return [_json(item, f"{place}[{at}]", typed) for at, item in enumerate(value)]
    if not isinstance(value, _TEXT_TYPES):
        raise InputError(
            f"{place} is a {type(value).__name__}; expected JSON, since a reviewer must be able to read it"
        )
    typed.append((place, type(value).__name__))
    return str(value)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a call that ran.

    Attributes:
        output: the tool's result.
        failed: whether the call failed; None if unknown.
        ended: false if the call was cancelled; it may have done its work, so it stays in flight.
        other_outputs: further content of the result, searched for failures but not shown to rules as its output.
    """

    output: Any = None
    failed: bool | None = False
    ended: bool = True
    other_outputs: tuple[Any, ...] = ()

    @classmethod
    def of_error(cls, error: BaseException) -> Outcome:
        """Returns the outcome of a tool that raised: an Exception is a failure, anything else an interruption.

        A tool that timed out may have done its work; its status is unknown.
        """
        message = error_text(error)
        if isinstance(error, Exception):
            return cls(message, failed=None if isinstance(error, TimeoutError) else True)
        return cls(message, failed=None, ended=False)
