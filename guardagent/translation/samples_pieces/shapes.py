"""The shape of values: paths with their types, and the values of those that have few."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from guardagent._support import json_values

_MOST_KEYS = 60  # of a mapping that is kept; further ones count as '*'
_FEWEST_KEYS = 4  # of a mapping whose keys are words
_MOST_VALUES = 8
_LONGEST_VALUE = 40
_DEEPEST_SHAPE = 8
_TYPES = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    list: "list",
    dict: "object",
}


@dataclass(frozen=True, slots=True)
class ShapePath:
    """A place in values, such as `flights[].price` or `users.*.name`.

    Attributes:
        types: the types there, the most frequent first.
        values: all values there, if they are few and come back; else empty.
    """

    path: str
    types: tuple[str, ...]
    values: tuple[Any, ...] = ()


@dataclass(slots=True)
class Shape:
    """Collects values of one place."""

    types: Counter[str] = field(default_factory=Counter)
    values: Counter[Any] = field(default_factory=Counter)
    keys: dict[str, Shape] = field(default_factory=dict)
    items: Shape | None = None

    def add(self, value: Any, depth: int = 0) -> None:
        """Adds a value; its strings are without secrets."""
        self.types[_TYPES.get(type(value), type(value).__name__)] += 1
        if isinstance(value, str | int) and not isinstance(value, bool):
            self._add_value(value)
        if depth >= _DEEPEST_SHAPE:
            return
        if isinstance(value, Mapping):
            for key, one in value.items():
                place = key if key in self.keys or len(self.keys) < _MOST_KEYS else "*"
                self.keys.setdefault(place, Shape()).add(one, depth + 1)
        elif isinstance(value, list | tuple):
            self.items = self.items or Shape()
            for one in value:
                self.items.add(one, depth + 1)

    def paths(self, place: str = "") -> Iterator[ShapePath]:
        """Yields the place itself and those within, an object before its fields."""
        if self.types:
            yield ShapePath(place or "(whole)", tuple(name for name, _ in self.types.most_common()), self._few_values())
        for key, one in self._fields().items():
            yield from one.paths(f"{place}.{key}" if place else key)
        if self.items is not None:
            yield from self.items.paths(f"{place}[]")

    def _add_value(self, value: str | int) -> None:
        if len(self.values) <= _MOST_VALUES and len(str(value)) <= _LONGEST_VALUE:
            self.values[value] += 1
        else:
            self.values["\0"] += 1  # there are others

    def _few_values(self) -> tuple[Any, ...]:
        """The values of strings that come back, as those of a status do and those of an id do not."""
        strings = all(isinstance(value, str) and value != "\0" for value in self.values)
        few = 0 < len(self.values) <= _MOST_VALUES and sum(self.values.values()) >= 2 * len(self.values) + 1
        return tuple(sorted(self.values)) if strings and few else ()

    def _fields(self) -> Mapping[str, Shape]:
        """The fields of an object; those of a mapping whose keys are data are merged into '*'."""
        if not self._keys_are_data():
            return self.keys
        merged = Shape()
        for one in self.keys.values():
            merged.merge(one)
        return {"*": merged}

    def _keys_are_data(self) -> bool:
        if "*" in self.keys or len(self.keys) >= _MOST_KEYS:
            return True
        ids = sum(bool(re.search(r"\d{2}|\W", key)) for key in self.keys)
        return ids * 2 > len(self.keys) or self._keys_are_alike()

    def _keys_are_alike(self) -> bool:
        """Whether the fields are objects of one kind, and few values have each: fields of a record come back."""
        objects = [one for one in self.keys.values() if set(one.types) == {"object"} and one.keys]
        kinds = Counter(frozenset(one.keys) for one in objects)
        count = len(self.keys)
        alike = sum(kinds.values()) == count >= _FEWEST_KEYS and max(kinds.values()) * 2 > count
        return alike and all(sum(one.types.values()) * 2 < self.types["object"] for one in self.keys.values())

    def merge(self, other: Shape) -> None:
        """Adds the values of another place."""
        self.types += other.types
        for value, count in other.values.items():
            if value in self.values or len(self.values) <= _MOST_VALUES:
                self.values[value] += count
            else:
                self.values["\0"] += count
        for key, one in other.keys.items():
            self.keys.setdefault(key, Shape()).merge(one)
        if other.items is not None:
            self.items = self.items or Shape()
            self.items.merge(other.items)


def parsed(output: Any) -> Any:
    """Returns a string that is a JSON object or list as its value, and anything else as it is."""
    if isinstance(output, str) and output.lstrip()[:1] in ("{", "["):
        try:
            return json_values.loads(output)
        except ValueError:
            return output
    return output
