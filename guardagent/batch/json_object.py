"""A JSON object of a record whose known keys have the right types. Every error has a location and the expectation.

A key that stands in for a known key is recognized, since its value would be lost.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from guardagent._support.arguments import normalized_name
from guardagent._support.files import parse_json
from guardagent.errors import ContentError, InputError
from guardagent.policy.language.values import moment_of, parsed_instant

# --- keys

_SYNONYMS = {
    **dict.fromkeys(("arguments", "arg", "kwargs", "parameters", "params"), "args"),
    "actions": "action",
    "decisions": "decision",
    "tag": "tags",
}
_SHORTEST = 4  # characters; a typing error in a shorter name is often another name
_LONG = 8  # characters from which on two typing errors count


def near_miss(key: str, known: frozenset[str], present: Collection[str]) -> str | None:
    """Returns the known key that an unknown one probably means; None if it is another key.

    Args:
        key: the unknown key.
        known: the known keys.
        present: the known keys of the record; next to its key a synonym has a meaning of its own.
    """
    synonym = _SYNONYMS.get(key)
    if synonym in known:
        return None if synonym in present else synonym
    return _nearest(key, known)


def is_unrelated(key: str, known: frozenset[str]) -> bool:
    """Whether a key is known, or stands in for no known key, whichever other keys the record has."""
    return key in known or (_SYNONYMS.get(key) not in known and _nearest(key, known) is None)


@lru_cache(4096)
def _nearest(key: str, known: frozenset[str]) -> str | None:
    return next((name for name in sorted(known) if _is_near(key, name)), None)


def _is_near(key: str, name: str) -> bool:
    """Whether the names differ in case, in separators or by typing errors: a transposition counts as one."""
    plain = _letters(key)
    if plain == _letters(name):
        return True
    if len(plain) < _SHORTEST or len(name) < _SHORTEST:
        return False
    from rapidfuzz.distance.OSA import distance

    return distance(plain, _letters(name)) <= (2 if len(name) >= _LONG else 1)


def _letters(name: str) -> str:
    return "".join(sign for sign in normalized_name(name) if sign not in "_- ")


# --- objects

_TYPE_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}

Instant = float | dt.datetime
"""Seconds since the epoch, or a date and time with its zone."""


class KeyType(NamedTuple):
    """The type of a value; `object` allows any. Null counts as absent."""

    type: type
    expected: str


TOOL, ARGS = KeyType(str, "the name of a tool"), KeyType(dict, "an object of arguments")
OBJECT, FACTS = KeyType(dict, "an object"), KeyType(dict, "an object of facts")
OBJECTS = KeyType(list, "a list of objects")


def errors_at(path: Path | str, line: int | None) -> Callable[[str], ContentError]:
    """Makes errors with this file and line."""

    def error_at(message: str) -> ContentError:
        return ContentError(message, path, line)

    return error_at


@dataclass(frozen=True, slots=True)
class JsonObject:
    """A JSON object within a record, with its path: `events[3]`; empty for the record itself."""

    values: dict[str, Any]
    error_at: Callable[[str], InputError]
    place: str = ""

    @classmethod
    def of_line(cls, text: str, path: Path | str, line: int, key_types: Mapping[str, KeyType]) -> JsonObject:
        return cls.of_value(parse_json(text, path, line), errors_at(path, line), key_types)

    @classmethod
    def of_value(
        cls, value: Any, error_at: Callable[[str], InputError], key_types: Mapping[str, KeyType]
    ) -> JsonObject:
        if type(value) is not dict:
            raise error_at(f"{_TYPE_NAMES[type(value)]}; expected a JSON object")
        return cls(value, error_at).checked(key_types)

    def checked(self, key_types: Mapping[str, KeyType]) -> JsonObject:
        """Returns the object after checking the types of all known keys."""
        for key, value in self.values.items():
            key_type = key_types.get(key)
            if key_type is None:
                self._refuse_near_miss(key, key_types)
            elif (
                value is not None and key_type.type is not object and type(value) is not key_type.type
            ):  # exact: a boolean is not a number
                raise self.wrong(key, value, key_type.expected)
        return self

    def _refuse_near_miss(self, key: str, key_types: Mapping[str, KeyType]) -> None:
        present = {known for known in key_types if self.values.get(known) is not None}
        if meant := near_miss(key, frozenset(key_types), present):
            raise self.error(key, f"is not a key of this format; did you mean {meant!r}?")

    def id(self) -> str | int:
        value = self._required("id", "a string")
        if type(value) is not str and type(value) is not int:
            raise self.wrong("id", value, "a string")
        return value

    def tool(self) -> str:
        value = self._required("tool", TOOL.expected)
        if not value:
            raise self.wrong("tool", value, TOOL.expected)
        return str(value)

    def strings(self, key: str) -> tuple[str, ...] | None:
        value = self.values.get(key)
        if value is None:
            return None
        for index, item in enumerate(value):
            if type(item) is not str:
                raise self.wrong(f"{key}[{index}]", item, "a string")
        return tuple(value)

    def instant(self, key: str) -> Instant | None:
        """The instant at a key: a number of seconds since the epoch, or a date and time with its zone."""
        value = self.values.get(key)
        if value is None:
            return None
        try:
            instant = parsed_instant(value) if type(value) is str else value
            moment_of(instant)
        except ValueError as error:
            raise self.error(key, str(error)) from None
        return instant

    def object_at(self, key: str, key_types: Mapping[str, KeyType]) -> JsonObject:
        return self._child(key, self._required(key, OBJECT.expected), key_types)

    def objects_at(self, key: str, key_types: Mapping[str, KeyType]) -> Iterator[JsonObject]:
        items = enumerate(self.list_at(key))
        return (self.item(key, index, item, key_types) for index, item in items)

    def list_at(self, key: str) -> list[Any]:
        """The items of a list of objects. `item` checks each of them."""
        value = self._required(key, OBJECTS.expected)
        if value is None:
            raise self.wrong(key, value, OBJECTS.expected)
        return value  # type: ignore[no-any-return]

    def item(self, key: str, index: int, value: Any, key_types: Mapping[str, KeyType]) -> JsonObject:
        """An item of `list_at` as an object."""
        return self._child(f"{key}[{index}]", value, key_types)

    def error(self, key: str, message: str) -> InputError:
        place = f"{self.place}.{key}" if self.place and key else self.place or key
        return self.error_at(f"{place}: {message}" if place else message)

    def wrong(self, key: str, value: Any, expected: str) -> InputError:
        got = (
            repr(value)[:60] if isinstance(value, bool | int) else _TYPE_NAMES[type(value)] if value != "" else "empty"
        )
        return self.error(key, f"is {got}; expected {expected}")

    def _child(self, key: str, value: Any, key_types: Mapping[str, KeyType]) -> JsonObject:
        if type(value) is not dict:
            raise self.wrong(key, value, OBJECT.expected)
        return JsonObject(value, self.error_at, f"{self.place}.{key}" if self.place else key).checked(key_types)

    def _required(self, key: str, expected: str) -> Any:
        if key not in self.values:
            keys = ", ".join(map(repr, self.values)) or "no keys"
            raise self.error(key, f"is missing; expected {expected}; the object has {keys:.200}")
        return self.values[key]
