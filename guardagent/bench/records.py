"""Reads data files: our JSON Lines, or a JSON array as originally published."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guardagent._support.files import MAX_DATA_BYTES, parse_json, read_json_lines, read_text
from guardagent.bench.evaluation import BenchExample
from guardagent.errors import ContentError, name_hint


@dataclass(frozen=True, slots=True)
class Record:
    """One object of a data file. Its methods raise a ContentError with location and expectation."""

    values: dict[str, Any]
    path: Path
    number: int
    published: bool = False  # an entry of a JSON array, which has a number but no line

    def string(self, key: str, default: str | None = None) -> str:
        if default is not None and self.values.get(key) is None:
            return default
        return str(self._get(key, str, "a string"))

    def label(self, key: str = "label") -> int:
        value = self._get(key, int, "the number 0 or 1")
        if value not in (0, 1):
            raise self.error(f"key {key!r} is {value!r}; expected the number 0 or 1")
        return int(value)

    def strings(self, key: str) -> list[str]:
        value = self._get(key, list, "a list of strings")
        if not all(isinstance(item, str) for item in value):
            raise self.error(f"key {key!r} has an item that is not a string; expected a list of strings")
        return list(value)

    def string_or_strings(self, key: str) -> list[str]:
        return [self.values[key]] if isinstance(self.values.get(key), str) else self.strings(key)

    def mapping(self, key: str) -> dict[str, Any]:
        return dict(self._get(key, dict, "an object"))

    def columns(self, key: str) -> dict[str, list[str]]:
        """A mapping of databases to lists of columns; null means empty."""
        if key in self.values and self.values[key] is None:
            return {}
        value = self.mapping(key)
        for database, names in value.items():
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise self.error(
                    f"key {key!r}: the value of {database!r} is not a list of columns; expected a list of strings"
                )
        return value

    def error(self, message: str) -> ContentError:
        if self.published:
            return ContentError(f"entry {self.number}: {message}", self.path)
        return ContentError(message, self.path, self.number)

    def _get(self, key: str, kind: type, expected: str) -> Any:
        if key not in self.values:
            raise self.error(f"key {key!r} is missing; expected {expected}{name_hint(key, self.values)}")
        value = self.values[key]
        if type(value) is not kind:  # exact: a boolean is not a number
            raise self.error(f"key {key!r} is {value!r:.60}; expected {expected}")
        return value


Reader = Callable[[Record], BenchExample]


def read_examples(path: Path, line: Reader, entry: Reader | None = None) -> list[BenchExample]:
    """Reads the examples of a data file, in order.

    Args:
        path: JSON Lines, or a JSON array.
        line: makes an example from a line.
        entry: makes an example from an entry of a JSON array; None if arrays are not supported.

    Raises:
        ContentError: a row is invalid, or an id appears twice.
    """
    examples: dict[str, BenchExample] = {}
    for record in _records(path):
        if record.published and entry is None:
            raise ContentError("is a JSON array; expected JSON Lines, one object per line", path)
        example = entry(record) if record.published and entry else line(record)
        if example.id in examples:
            raise record.error(f"id {example.id!r} appears twice; expected each id once")
        examples[example.id] = example
    if not examples:
        raise ContentError("holds no examples; expected at least one", path)
    return list(examples.values())


def _records(path: Path) -> Iterator[Record]:
    text = read_text(path, limit=MAX_DATA_BYTES)
    if not text.lstrip().startswith("["):
        for number, values in read_json_lines(path):
            yield Record(values, path, number)
        return
    for number, values in enumerate(parse_json(text, path), start=1):
        if not isinstance(values, dict):
            raise ContentError(f"entry {number} is a {type(values).__name__}; expected an object", path)
        yield Record(values, path, number, published=True)
