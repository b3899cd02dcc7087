"""Encodes a record: with its time, its redacted values and their hashes, all of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from guardagent.errors import LogError
from guardagent.log.chain import Chain
from guardagent.log.field_paths import FieldPaths, descend, parse_paths
from guardagent.log.redaction import MAX_VALUES, OccurrenceRedactor, leaf_values
from guardagent.log.values import canonical_json, is_json_value, json_value

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
        found = self._by_field.get(name)
        return (() if name in _STRUCTURE else descend(self._paths, name)) if found is None else found

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
