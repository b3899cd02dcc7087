"""The records of verdicts and of call outcomes, and their encoding: with redacted values, of bounded size.

Paths such as `args.card.number` select the values to redact. `*` matches any one name or position, `**` any number of
them. Names are case-insensitive. A path skips lists: `args.people.ssn` matches that of everyone in the list.

Any value is encoded as JSON in exactly one way: equal values have equal encodings, and none imitates another.

| value | becomes |
|---|---|
| strings, integers, finite floats, booleans, None, lists, mappings with string keys | themselves, a tuple as a list |
| NaN, bytes, sets, dates, decimals, mappings with other keys, objects | `{"$object": [type, …]}` |
| redacted values, oversized values | `{"redacted": …}`, `{"cut": …}` |

A mapping with one of these keys alone is encoded as one with other keys: no agent can make its output look redacted.

A redacted value is also redacted where it occurs again: in reasons, in the evidence of a violation, in other arguments.
Numbers and short strings are found as whole words, longer strings anywhere. A value in another notation (a card number
with spaces) is not found.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from guardagent.errors import InputError, LogError, UnknownNameError
from guardagent.log.chain import Chain

if TYPE_CHECKING:
    from guardagent.types import Permit, Verdict


FieldPath = tuple[str, ...]
FieldPaths = tuple[FieldPath, ...]
"""The remainders of paths at some position; an empty one ends there."""


def parse_paths(paths: Iterable[str], fields: Iterable[str]) -> FieldPaths:
    """Parses paths, each beginning with the name of a field of an entry.

    Raises:
        InputError: a path is invalid.
    """
    if isinstance(paths, str):
        raise InputError(f"'redact' is the string {paths!r}; expected a list of paths")
    return tuple(_parse_path(text, frozenset(fields)) for text in paths)


def descend(paths: FieldPaths, name: str) -> FieldPaths:
    """Returns the remainders of paths after a name, one level deeper."""
    folded = _casefolded(name)
    return tuple(left for path in paths for left in _descend(path, folded))


def _descend(path: FieldPath, name: str) -> Iterable[FieldPath]:
    if not path:
        return
    first, rest = path[0], path[1:]
    if first == "**":
        yield path
        if not rest:
            yield ()
        else:
            yield from _descend(rest, name)
    elif first in ("*", name):
        yield rest


def _parse_path(text: str, fields: frozenset[str]) -> FieldPath:
    if not isinstance(text, str) or not all(part.strip() for part in text.split(".")):
        raise InputError(
            f"redact: {text!r} is not a path; expected names separated by dots, such as 'args.card.number'"
        )
    path = tuple(map(_casefolded, text.split(".")))
    if path[0] not in fields and path[0] != "**":
        raise UnknownNameError("field", path[0], fields, where=f"redact: {text!r}")
    return path


def _casefolded(name: str) -> str:
    return name.strip().casefold()


_TAGS = frozenset({"redacted", "cut", "$object"})
_MAX_DEPTH = 100
_MAX_VALUES = 100_000
_TEXT = frozenset({str})
_WIDE = 2**63
_MAX_BITS = 10_000  # of an integer; Python refuses to print longer ones
_STRING_TYPES = (Decimal, datetime, date, time, UUID, PurePath)  # types that are fully described by their string
_MAPPINGS = (dict, MappingProxyType)
_ATOMS = frozenset({str, bool, type(None)})  # most values; tests for them must be fast

Redact = Callable[[Any], Any]

canonical_json = json.JSONEncoder(
    sort_keys=True, allow_nan=False, separators=(",", ":"), check_circular=False, default=dict
).encode
"""Encodes a JSON value, also with tuples and frozen mappings: sorted keys, no spaces, ASCII."""


def is_json_value(value: Any) -> bool:
    """Whether a value is certainly its own encoding: a quick test that may return False for one that is."""
    inside = [value]
    for part in inside:  # the list grows during the iteration
        kind = type(part)
        if kind in _MAPPINGS:
            if not _TEXT.issuperset(map(type, part)) or (len(part) == 1 and not _TAGS.isdisjoint(part)):
                return False
            inside += [item for item in part.values() if type(item) not in _ATOMS]
        elif kind is list or kind is tuple:
            inside += [item for item in part if type(item) not in _ATOMS]
        elif not ((kind is int and -_WIDE < part < _WIDE) or (kind is float and math.isfinite(part))):
            return False
        if len(inside) > _MAX_DEPTH:
            return False
    return True


def json_value(value: Any, paths: FieldPaths = (), redact: Redact | None = None) -> Any:
    """Returns a value as JSON.

    Args:
        value: anything; an endless or oversized one is truncated.
        paths: the values in it to redact.
        redact: returns the replacement for a redacted value.
    """
    return value if type(value) in _ATOMS and not paths else _ValueEncoder(redact).encode(value, paths, 0)


class _ValueEncoder:
    """Encodes one value."""

    __slots__ = ("_left", "_redact")

    def __init__(self, redact: Redact | None) -> None:
        self._redact = redact
        self._left = _MAX_VALUES

    def encode(self, value: Any, paths: FieldPaths, depth: int) -> Any:
        if paths and () in paths and self._redact is not None:
            return self._redact(value)
        kind = type(value)
        if kind in _ATOMS:
            return value
        if kind is int:
            return value if value.bit_length() < _MAX_BITS else _object("int", hex(value))
        if kind is float:
            return value if math.isfinite(value) else _object("float", str(value))
        if depth > _MAX_DEPTH or self._left < 0:
            return _object(_name(kind), "nested too deep, or too large")
        if kind in _MAPPINGS or isinstance(value, Mapping):
            return self._mapping(value, paths, depth)
        if kind is list or kind is tuple:
            return self._items(value, paths, depth)
        return self._other(value, paths, depth)

    def _mapping(self, value: Mapping[Any, Any], paths: FieldPaths, depth: int) -> Any:
        self._left -= len(value)
        encoded = {}
        for key, item in value.items():
            if type(key) is not str:
                return self._pairs(value, paths, depth)
            inside = descend(paths, key) if paths else ()
            encoded[key] = item if type(item) in _ATOMS and not inside else self.encode(item, inside, depth + 1)
        if len(encoded) == 1 and not _TAGS.isdisjoint(encoded):
            return self._pairs(value, paths, depth)
        return encoded

    def _pairs(self, value: Mapping[Any, Any], paths: FieldPaths, depth: int) -> Any:
        of = self.encode
        pairs = [
            [of(key, (), depth + 1), of(item, descend(paths, str(key)) if paths else (), depth + 1)]
            for key, item in value.items()
        ]
        return _object("dict", sorted(pairs, key=canonical_json))

    def _items(self, value: Sequence[Any], paths: FieldPaths, depth: int) -> list[Any]:
        """Encodes a list; a path matches its items as if it named each of them."""
        self._left -= len(value)
        if not paths:
            return [item if type(item) in _ATOMS else self.encode(item, (), depth + 1) for item in value]
        return [
            self.encode(item, (*paths, *descend(paths, str(at))), depth + 1)  # a path may continue after a list
            for at, item in enumerate(value)
        ]

    def _other(self, value: Any, paths: FieldPaths, depth: int) -> Any:
        kind = type(value)
        if isinstance(value, Enum):
            return self.encode(value.value, paths, depth + 1)
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int | float):
            return self.encode(int(value) if isinstance(value, int) else float(value), paths, depth + 1)
        if isinstance(value, list | tuple):
            return self._items(value, paths, depth)
        if isinstance(value, set | frozenset):
            return _object(_name(kind), sorted(self._items(list(value), paths, depth), key=canonical_json))
        if isinstance(value, bytes | bytearray):
            return _object(_name(kind), value.hex())
        if isinstance(value, _STRING_TYPES):
            return _object(_name(kind), str(value))
        inside = _fields(value)
        return _object(_name(kind)) if inside is None else _object(_name(kind), self._mapping(inside, paths, depth))


def _fields(value: Any) -> Mapping[str, Any] | None:
    """Returns an object's declared fields; None if it declares none, since its own code must not run."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name, None) for field in fields(value)}
    declared = getattr(type(value), "model_fields", None)  # of Pydantic
    return {name: getattr(value, name, None) for name in declared} if isinstance(declared, Mapping) else None


def _object(kind: str, *value: Any) -> dict[str, Any]:
    return {"$object": [kind, *value]}


def _name(kind: type) -> str:
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


MARK = "[redacted]"
MAX_VALUES = 100  # redacted values to search for; with more, everything is redacted
_LONG = 6  # strings of at least this length are also found within words


def leaf_values(value: Any) -> Iterable[Any]:
    """Yields the strings and numbers in a JSON value."""
    if isinstance(value, dict):
        if value.keys() == {"$object"}:
            yield from leaf_values(value["$object"][1:])  # the type's name is not secret
            return
        for item in value.values():
            yield from leaf_values(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaf_values(item)
    elif value is not None and not isinstance(value, bool) and value != "":
        yield value


class OccurrenceRedactor:
    """Removes some values from others.

    Args:
        hidden: string or number -> its replacement as a whole value; within strings that is `[redacted]`.
    """

    def __init__(self, hidden: Mapping[Any, Any]) -> None:
        self._hidden = hidden
        forms = sorted({form for leaf in hidden for form in _forms(leaf)}, key=len, reverse=True)
        self._long = [form for form in forms if len(form) >= _LONG]
        short = [_word(form) for form in forms if len(form) < _LONG]
        self._short = re.compile("|".join(short)) if short else None

    def redact(self, value: Any) -> Any:
        """Returns a JSON value without them."""
        if isinstance(value, dict):
            return value if value.keys() == {"redacted"} else self._mapping(value)
        if isinstance(value, list):
            return [self.redact(item) for item in value]
        if value is None or isinstance(value, bool):
            return value
        if value in self._hidden:
            return self._hidden[value]
        return self._text(value) if isinstance(value, str) else value

    def _mapping(self, value: dict[str, Any]) -> dict[str, Any]:
        redacted: dict[str, Any] = {}
        for key, item in value.items():
            name = self._text(key)
            while name in redacted:
                name += "'"
            redacted[name] = self.redact(item)
        return redacted

    def _text(self, text: str) -> str:
        for form in self._long:
            text = text.replace(form, MARK)
        return self._short.sub(MARK, text) if self._short else text


def _forms(leaf: Any) -> Iterable[str]:
    """Returns the notations in which a value may occur in a string."""
    text = str(leaf)
    return {text, canonical_json(text)[1:-1], repr(text)[1:-1]}


def _word(text: str) -> str:
    return rf"(?<!\w){re.escape(text)}(?!\w)"


MAX_WHOLE = 8 * 2**10  # bytes of a field that is written unchanged; strings of longer fields are truncated
MAX_STRING = 1024  # characters of a truncated string
MAX_FIELD = 64 * 2**10  # bytes; a field that is still longer is truncated itself

_HASHED = ("args", "output", "facts")
_RESERVED_FIELDS = frozenset({"time", *(f"{name}_hash" for name in _HASHED)})
_STRUCTURE = frozenset(
    "kind time conversation agent tool call_id decision label rules policy permit status checked_by elapsed_ms ended "
    "args_hash output_hash facts_hash".split()
)
"""Fields whose values are never redacted for being equal to a redacted value."""
_NAMES = ("conversation", "agent", "call_id")
REDACTED = (*"args output facts state reasons violations errors details answer approver".split(), *_NAMES)
"""The fields at which a path may begin."""
_FIELDS = _STRUCTURE.union(REDACTED)
_UNKEYED = "without a key there is no digest"


class RecordEncoder:
    """Encodes records as JSON.

    Args:
        redact: paths of values to redact.
        chain: hashes values.
        clock: returns seconds since the epoch.

    Raises:
        InputError: a path is invalid.
    """

    def __init__(self, redact: Iterable[str], chain: Chain, clock: Callable[[], float]) -> None:
        self._paths = parse_paths(redact, REDACTED)
        self._by_field = {name: descend(self._paths, name) for name in (_FIELDS - _STRUCTURE).union(_NAMES)}
        self._chain = chain
        self._clock = clock

    def encode(self, record: Mapping[str, Any]) -> str:
        """Returns the canonical JSON of a record.

        Raises:
            LogError: it is not a valid record.
        """
        try:
            return self._encode(record)
        except LogError:
            raise
        except Exception as error:  # noqa: BLE001 - a host's objects may run any code when they are read
            raise LogError(f"the record cannot be logged: {type(error).__name__}: {error}") from None

    def _encode(self, record: Mapping[str, Any]) -> str:
        _require_record(record)
        redacted = self._redacted(record) if self._paths else _plain_fields(record)
        hashes = {
            f"{name}_hash": self._hash(record[name], redacted[name], name) for name in _HASHED if name in redacted
        }
        redacted = {**redacted, **hashes, "time": timestamp(self._clock())}
        text = canonical_json(redacted)
        if len(text) <= MAX_WHOLE:
            return text
        return canonical_json({name: self._bounded(value) for name, value in redacted.items()})

    def _hash(self, value: Any, redacted_value: Any, name: str) -> str:
        """Hashes the original value if there is a key; else the redacted one, as a plain hash reveals the original."""
        redacts = self._chain.keyed and bool(self._by_field[name])
        return self._chain.value_hash(canonical_json(json_value(value) if redacts else redacted_value))

    # --- redaction

    def _redacted(self, record: Mapping[str, Any]) -> dict[str, Any]:
        hidden: dict[Any, Any] = {}

        def hide(value: Any) -> dict[str, str]:
            placeholder = self._placeholder(value)
            hidden.update((leaf, placeholder) for leaf in leaf_values(json_value(value)))
            return placeholder

        redacted = {name: json_value(value, self._paths_in(name), hide) for name, value in record.items()}
        if not hidden:
            return redacted
        redact_occurrences = OccurrenceRedactor(hidden).redact if len(hidden) <= MAX_VALUES else self._placeholder
        return {name: value if name in _STRUCTURE else redact_occurrences(value) for name, value in redacted.items()}

    def _paths_in(self, name: str) -> FieldPaths:
        paths = self._by_field.get(name)
        return (() if name in _STRUCTURE else descend(self._paths, name)) if paths is None else paths

    def _placeholder(self, value: Any) -> dict[str, str]:
        """Returns the mark of a redacted value. Its digest is keyed, since one without a key could be guessed."""
        keyed = self._chain.keyed
        return {"redacted": self._chain.value_hash(canonical_json(json_value(value))) if keyed else _UNKEYED}

    # --- size

    def _bounded(self, value: Any) -> Any:
        text = canonical_json(value)
        if len(text) <= MAX_WHOLE:
            return value
        shorter = self._shortened(value)
        return shorter if len(canonical_json(shorter)) <= MAX_FIELD else self._cut(text, text)

    def _shortened(self, value: Any) -> Any:
        if isinstance(value, dict | MappingProxyType):
            return {
                key if len(key) <= MAX_STRING else f"{key[:MAX_STRING]}…": self._shortened(value[key]) for key in value
            }
        if isinstance(value, list | tuple):
            return [self._shortened(item) for item in value]
        return self._cut(value, canonical_json(value)) if isinstance(value, str) and len(value) > MAX_STRING else value

    def _cut(self, text: str, hashed: str) -> dict[str, Any]:
        return {"cut": {"start": text[:MAX_STRING], "characters": len(text), "hash": self._chain.value_hash(hashed)}}


def _require_record(record: Mapping[str, Any]) -> None:
    if not isinstance(record, Mapping) or not (record.keys() <= _FIELDS or all(map(_is_name, record))):
        raise LogError("this is not a record; expected a mapping of field names to values")
    if not isinstance(record.get("kind"), str):
        raise LogError(f"the record has the kind {record.get('kind')!r}; expected a string such as 'verdict'")
    if reserved := _RESERVED_FIELDS & record.keys():
        raise LogError(f"the record has the field {min(reserved)!r}, which is reserved for the log")


def _plain_fields(record: Mapping[str, Any]) -> Mapping[str, Any]:
    return record if is_json_value(record) else {name: json_value(value) for name, value in record.items()}


def _is_name(name: Any) -> bool:
    return type(name) is str and name.isidentifier() and name.isascii()


def timestamp(seconds: float) -> str:
    """Returns a time in the format of entries: UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def verdict_record(
    verdict: Verdict,
    *,
    tool: str,
    args: Mapping[str, Any],
    conversation: str,
    agent: str | None = None,
    call_id: str | None = None,
    policy: str | None = None,
    permit: Permit | None = None,
    facts: Mapping[str, Any] | None = None,
    principal: Mapping[str, Any] | None = None,
    now: Mapping[str, Any] | None = None,
    action: str | None = None,
    tags: Iterable[str] = (),
) -> dict[str, Any]:
    """Returns the record of a verdict.

    Args:
        verdict: the verdict.
        tool: the proposed tool.
        args: the checked arguments; the log adds their hash.
        conversation: the session's id.
        agent: the agent of the session that proposed the call.
        call_id: the host's own id for the call.
        policy: the digest of the policy; default: that of the permit.
        permit: the permit of an allowed call; only the hash of its nonce is written.
        facts: the host's facts for this call; the log adds their hash.
        principal: on whose behalf the agent acts.
        now: the time of the check, if the session has a clock or a zone of its own: `time` in seconds, and `zone`.
        action: the action of the call, for rules.
        tags: the tags of the call, for rules.
    """
    grants = verdict.details.get("grants")
    return {
        "kind": "verdict",
        "conversation": conversation,
        "agent": agent,
        "tool": tool,
        "call_id": call_id,
        "args": args,
        **({"facts": facts} if facts else {}),
        **({"principal": principal} if principal else {}),
        **({"now": now} if now else {}),
        **({"action": action} if action is not None else {}),
        **({"tags": sorted(tags)} if tags else {}),
        "decision": str(verdict.decision),
        "label": verdict.label,
        "rules": verdict.rules,
        "reasons": verdict.reasons,
        "violations": [violation.to_dict() for violation in verdict.violations],
        "errors": verdict.errors,
        **({"withheld": verdict.withheld} if verdict.withheld else {}),
        **({"grants": grants} if grants and verdict.checked_by == "policy" else {}),  # a program's may have any names
        "checked_by": verdict.checked_by,
        "policy": policy or (permit.policy if permit is not None else None),
        "permit": _permit(permit),
        "elapsed_ms": round(verdict.elapsed_ms, 3),
    }


def outcome_record(
    *,
    tool: str,
    status: Literal["ok", "failed", "unknown", "withdrawn"],
    conversation: str,
    output: Any = None,
    agent: str | None = None,
    call_id: str | None = None,
    permit: Permit | None = None,
    elapsed_ms: float | None = None,
    why: str | None = None,
    ended: bool = True,
) -> dict[str, Any]:
    """Returns the record of the outcome of a call.

    Args:
        tool: the tool that ran.
        status: how it ended; `withdrawn` if it was allowed and never ran.
        conversation: the session's id.
        output: its output; the log adds its hash.
        agent: the agent of the session that proposed it.
        call_id: the host's own id for the call.
        permit: its permit, whose place identifies the verdict of this outcome.
        elapsed_ms: its duration.
        why: the reason why it never ran.
        ended: false if it was interrupted and may still be running, so that it stays in flight.
    """
    return {
        "kind": "outcome",
        "conversation": conversation,
        "agent": agent,
        "tool": tool,
        "call_id": call_id,
        "status": status,
        "output": output,
        **({"reasons": [why]} if why else {}),
        **({} if ended else {"ended": False}),
        "permit": _permit(permit),
        "elapsed_ms": round(elapsed_ms, 3) if elapsed_ms is not None else None,
    }


def _permit(permit: Permit | None) -> dict[str, Any] | None:
    if permit is None:
        return None
    return {
        "session": permit.session,
        "place": permit.place,
        "expires": timestamp(permit.expires),
        "nonce_hash": f"sha256:{hashlib.sha256(permit.nonce.encode()).hexdigest()}",
    }
