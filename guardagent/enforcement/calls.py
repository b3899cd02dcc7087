"""A call as a host proposes it, its outcome, and the plain JSON-like forms of Python values that rules read.

A model's own serializer may omit, mask or change values that the tool then gets. So models and dataclasses are read
by their attributes, and a value without a lossless form is refused.

| value | form |
|---|---|
| None, booleans, strings, integers, `Decimal`, finite floats | as they are |
| lists, tuples, deques; sets | a list; a set is sorted by its strings |
| mappings | an object; a key that is not a string becomes one |
| Pydantic models, dataclasses, named tuples | an object, by the names of the attributes; a `RootModel` as its root |
| private attributes of a model | as the others, if a validator has set them |
| an `Enum` | its value |
| `datetime`, `date`, `time` | ISO 8601 |
| `timedelta` | seconds |
| `UUID`, paths, IP addresses, time zones, Pydantic's URLs | a string |
| bytes | a string if they are UTF-8; else `{"base64": …}` |
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import datetime as dt
import hashlib
import json
import math
import re
import uuid
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, get_args, get_origin, get_type_hints

from guardagent._support.files import random_id
from guardagent.enforcement.uri import normalised, readings
from guardagent.errors import InputError, error_text
from guardagent.types import EMPTY, FrozenMapping, freeze, thaw
from guardagent.types.values import CONVERTERS, unwrapped

RESOURCE = "resource.read"

_TEXT_TYPES = (Decimal, dt.date, dt.time, dt.timedelta, uuid.UUID, bytes)
"""Non-JSON types whose values are equal if their strings are."""


def _random_id() -> str:
    return f"call-{random_id()}"


REPEATED_ID = re.compile(r"_repeated_\d+\Z")
"""Matches the id of a call whose own id another call of its message has; see `make_ids_unique`."""
REPEATS = "the call repeats the id of another call of its message, so it does not run; propose it again by itself"


def make_ids_unique(calls: Iterable[Any], name: str) -> list[str]:
    """Changes each repeated id of the calls of a message in place, so that it matches `REPEATED_ID`. Returns all ids.

    Hosts tell calls, their approvals and their results apart by the ids. The guard denies a call with a changed id.

    Args:
        calls: objects or mappings.
        name: of the field or member with the id.
    """
    ids: list[str] = []
    for at, call in enumerate(calls):
        call_id = call.get(name) if isinstance(call, dict) else getattr(call, name, None)
        if not isinstance(call_id, str) or not call_id:
            continue
        if call_id in ids:
            call_id = f"{call_id}_repeated_{at}"
            if isinstance(call, dict):
                call[name] = call_id
            else:
                setattr(call, name, call_id)
        ids.append(call_id)
    return ids


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
        usage: what models have used in the conversation so far, for rules; None if the host does not state it. It is no
            part of what a reviewer approves.
        view: the call as a remote host shows it to reviewers; not checked.
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
    usage: Mapping[str, Any] | None = field(default=None, compare=False)
    view: str | None = field(default=None, compare=False)
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

    @property
    def facts_digest(self) -> str:
        """The SHA-256 of the facts about this call, which a reviewer sees beside it; empty without any."""
        key = repr(hashable(freeze(self.facts))) if self.facts else ""
        return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest() if key else ""

    @property
    def known_facts(self) -> Mapping[str, Any]:
        """The facts about this call, with the usage of models."""
        return self.facts if self.usage is None else {**self.facts, "usage": self.usage}

    def alternate_readings(self) -> list[HostCall]:
        """Returns the other calls that a server may take a resource read for, since a URI has many spellings.

        Raises:
            InputError: the URI is ambiguous.
        """
        uri: Any = self.args.get("uri")
        return [
            replace(self, args={**self.args, "uri": reading}) for reading in readings(normalised(uri)) if reading != uri
        ]


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


# --- plain values

_DEEPEST = 100
_SCALARS = frozenset({str, int, bool, type(None)})
_FROZEN: Mapping[type, Callable[[Any], Any]] = {dict: MappingProxyType, list: tuple}
_BARE = (int, float, Decimal, str, list, tuple, deque, set, frozenset, dict)
_READ_ONCE = (AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Iterator)
_SECRETS = frozenset({"SecretStr", "SecretBytes", "Secret"})


def plain_arguments(args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns an immutable copy of a call's arguments, as rules read them.

    Raises:
        InputError: an argument has no lossless form; the message names it.
    """
    return FrozenMapping(
        MappingProxyType({name: plain_value(value, name, frozen=True) for name, value in args.items()})
    )


def plain_value(value: Any, place: str = "", depth: int = 0, *, frozen: bool = False) -> Any:
    """Returns a copy of a value, as rules read it.

    Args:
        value: as the tool gets it.
        place: its name, for messages.
        depth: how deep it is nested.
        frozen: whether the copy is immutable.

    Raises:
        InputError: the value has no lossless form; the message names its place.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if depth > _DEEPEST:
        raise InputError(f"{_named(place)} is nested too deeply, or contains itself")
    if kind in _CONVERTERS:
        return freeze(_CONVERTERS[kind](value)) if frozen else _CONVERTERS[kind](value)
    within = unwrapped(value)
    if within is not None:
        return plain_value(within[0], place, depth + 1, frozen=frozen)
    if isinstance(value, _BARE) and getattr(value, "__dict__", None):
        raise _refusal(value, place)  # a subclass with attributes
    if isinstance(value, int | float | Decimal | str):
        return _scalar(value, place)
    if isinstance(value, PurePath) or (kind.__module__.startswith("pydantic") and hasattr(value, "unicode_string")):
        return str(value)
    copied = _of_parts(value, place, depth, frozen=frozen)
    return _FROZEN[type(copied)](copied) if frozen else copied


def hashable(value: Any) -> Any:
    """Returns a hashable key of a frozen value; values of different types differ."""
    if isinstance(value, Mapping):
        items = [(hashable(name), hashable(item)) for name, item in value.items()]
        return ("mapping", *sorted(items, key=repr))
    if isinstance(value, tuple):
        return ("list", *map(hashable, value))
    return (type(value).__name__, repr(value))


def opaque_type(annotation: Any, seen: frozenset[Any] = frozenset()) -> str | None:
    """Returns the first type in an annotation whose values cannot be inspected: a secret or an iterator."""
    kind = get_origin(annotation) or annotation
    if kind in _READ_ONCE:
        return str(kind.__name__)
    if isinstance(kind, type):
        if kind in seen:
            return None
        if any(base.__module__ == "pydantic.types" and base.__name__ in _SECRETS for base in kind.__mro__):
            return kind.__name__
        seen |= {kind}
    inner = (*get_args(annotation), *_field_types(kind))
    return next((opaque for inner_type in inner if (opaque := opaque_type(inner_type, seen)) is not None), None)


def _scalar(value: float | Decimal | str, place: str) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if not math.isfinite(value):
        raise InputError(f"{_named(place)} is {value!r}; expected a finite number")
    return float.__float__(value) if isinstance(value, float) else Decimal(value)


def _of_parts(value: Any, place: str, depth: int, *, frozen: bool) -> dict[str, Any] | list[Any]:
    members = _members(value, place)
    if members is not None:
        return _object(members, place, depth, frozen=frozen)
    if isinstance(value, list | tuple | deque):
        return [plain_value(item, f"{place}[{at}]", depth + 1, frozen=frozen) for at, item in enumerate(value)]
    if isinstance(value, set | frozenset):
        return sorted((plain_value(item, f"{place}[]", depth + 1, frozen=frozen) for item in value), key=_order)
    raise _refusal(value, place)


def _members(value: Any, place: str) -> Iterable[tuple[Any, Any]] | None:
    """Returns the names and values of an object's members; None for other values."""
    kind = type(value)
    if isinstance(value, Mapping):
        return value.items()
    names: Iterable[str] | None = None
    more: Mapping[str, Any] = {}
    if isinstance(getattr(kind, "model_fields", None), Mapping):
        names, more = kind.model_fields, {**(getattr(value, "__pydantic_extra__", None) or {}), **_private(value)}
    elif dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
        more = {name: attribute for name, attribute in getattr(value, "__dict__", {}).items() if name not in names}
    elif isinstance(value, tuple):
        names = getattr(kind, "_fields", None)
    try:
        return None if names is None else [*((name, getattr(value, name)) for name in names), *more.items()]
    except AttributeError:
        raise InputError(f"{_named(place)} is a {kind.__name__} with missing fields; expected all of them") from None


def _private(model: Any) -> dict[str, Any]:
    """Returns the private attributes that a validator has set, since the tool may read them."""
    declared = getattr(type(model), "__private_attributes__", {})
    held = getattr(model, "__pydantic_private__", None) or {}
    return {
        name: attribute
        for name, attribute in held.items()
        if name not in declared or attribute != declared[name].get_default()
    }


def _object(items: Iterable[tuple[Any, Any]], place: str, depth: int, *, frozen: bool) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, item in items:
        name = key if type(key) is str else plain_value(key, f"a key of {_named(place)}", depth + 1)
        name = str(name) if type(name) is int else name
        if type(name) is not str or name in members:
            raise InputError(f"a key of {_named(place)} is {key!r:.80}; expected a unique string")
        members[name] = plain_value(item, f"{place}.{name[:80]}".lstrip("."), depth + 1, frozen=frozen)
    return members


def _text_of(value: bytes | bytearray) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


_CONVERTERS: Mapping[type, Callable[[Any], Any]] = {**CONVERTERS, **dict.fromkeys((bytes, bytearray), _text_of)}


def _field_types(kind: Any) -> Iterable[Any]:
    if not isinstance(kind, type):
        return ()
    fields = getattr(kind, "model_fields", None)
    if isinstance(fields, Mapping):
        return [field.annotation for field in fields.values()]
    if not (dataclasses.is_dataclass(kind) or hasattr(kind, "__required_keys__") or hasattr(kind, "_fields")):
        return ()
    try:
        return get_type_hints(kind, include_extras=True).values()
    except Exception:  # noqa: BLE001 - a name may be missing at run time; values are then checked
        return ()


def _order(value: Any) -> tuple[str, str]:
    value = thaw(value)  # the same order, frozen or not
    return type(value).__name__, json.dumps(value, sort_keys=True, default=str)


def _named(place: str) -> str:
    return place[:80] or "a value"


def _refusal(value: Any, place: str) -> InputError:
    return InputError(
        f"{_named(place)} is a {type(value).__name__}, which has no lossless form for the rules; "
        "expected a plain value, a model or a dataclass"
    )
