"""Named values in a text: lines such as `Identity: nursing`, and JSON objects."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_FIELD = re.compile(r"^([ \t]*)([A-Za-z][\w-]*(?: [\w-]+){0,3})[ \t]*:[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_MOST_OBJECTS = 200  # per text
_DEEPEST = 50  # keys on the path to a value


@dataclass(frozen=True, slots=True)
class TextField:
    """One line with a name and a value. `start` and `end` delimit the value in the text."""

    name: str
    value: str
    indent: str
    start: int
    end: int

    def line(self, value: str | None = None) -> str:
        return f"{self.indent}{self.name}: {self.value if value is None else value}"


def fields_of(text: str) -> list[TextField]:
    """Returns the fields of a text, in order."""
    return [
        TextField(match[2], match[3], match[1], match.start(3), match.end(3))
        for match in _FIELD.finditer(text)
        if not match[3].startswith("//")  # a URL
    ]


def with_value(text: str, field: TextField, value: str) -> str:
    return text[: field.start] + value + text[field.end :]


def append_text(text: str, more: str) -> str:
    """Appends to a text; in a JSON object, which must stay valid, to its longest value."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return f"{text}\n{more}"
    longest = max(_texts(value), key=len, default="")
    changed = _replaced(value, longest, f"{longest} {more}") if longest else {**value, "note": more}
    return json.dumps(changed, ensure_ascii=False)


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


def _replaced(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, old, new) for item in value]
    return new if value == old and isinstance(value, str) else value


def free_text(text: str) -> TextField | None:
    """Returns the longest field, which most likely holds the user's free text."""
    return max(fields_of(text), key=lambda field: len(field.value), default=None)


@dataclass(frozen=True, slots=True)
class ValueLocation:
    """The location of a scalar value: a line, or an entry of a JSON object.

    Attributes:
        name: the name on the line; in an object the path of keys, joined by dots.
        value: the value; for a line a string.
        start, end: the span of the line's value, or of the whole object.
        nth: the number of earlier locations with this name.
        path: the keys that lead to the value; empty for a line.
        record: the whole object; None for a line.
    """

    name: str
    value: Any
    start: int
    end: int
    nth: int = 0
    path: tuple[Any, ...] = ()
    record: Any = None

    def put(self, text: str, value: Any) -> str:
        """Returns the text with another value at this location."""
        if not self.path:
            return text[: self.start] + str(value) + text[self.end :]
        record, last = self._copied()
        last[self.path[-1]] = value
        return replaced_object(text, self.start, self.end, record)

    def drop(self, text: str) -> str:
        """Returns the text without this line or key."""
        if not self.path:
            start, end = text.rfind("\n", 0, self.start) + 1, text.find("\n", self.end)
            return (text[:start] + (text[end + 1 :] if end >= 0 else "")).rstrip("\n")
        record, last = self._copied()
        del last[self.path[-1]]
        return replaced_object(text, self.start, self.end, record)

    def _copied(self) -> tuple[Any, Any]:
        """Returns a copy of the object, and the container of the value in it."""
        record = last = copy.deepcopy(self.record)
        for key in self.path[:-1]:
            last = last[key]
        return record, last


def value_locations(text: str) -> list[ValueLocation]:
    """Returns the scalar values of a text, in order."""
    objects = list(objects_in(text))
    found = [
        ValueLocation(field.name, field.value, field.start, field.end)
        for field in fields_of(text)
        if not any(start < field.end and field.start < end for start, end, _ in objects)
    ]
    for start, end, record in objects:
        found += [
            ValueLocation(".".join(map(str, path)), value, start, end, 0, path, record)
            for path, value in _plain(record, ())
        ]
    seen = Counter[str]()
    numbered = []
    for location in sorted(found, key=lambda place: place.start):
        numbered.append(dataclasses.replace(location, nth=seen[location.name]))
        seen[location.name] += 1
    return numbered


def objects_in(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yields (start, end, value) of the JSON objects in a text, except deeply nested ones."""
    decoder, at = json.JSONDecoder(), text.find("{")
    for _ in range(_MOST_OBJECTS):
        if at < 0:
            return
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            if _is_shallow(value, _DEEPEST):
                yield at, end, value
        at = text.find("{", end)


def replaced_object(text: str, start: int, end: int, value: Any) -> str:
    """Returns the text with another JSON object in a span, indented if the old one was."""
    indent = 2 if "\n" in text[start:end] else None
    return text[:start] + json.dumps(value, ensure_ascii=False, indent=indent) + text[end:]


def _is_shallow(value: Any, left: int) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return left > 0 and all(_is_shallow(item, left - 1) for item in items)


def _plain(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yields (path, value) of the scalar values in an object."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _plain(item, (*path, key))
    elif value is not None and path:
        yield path, value
