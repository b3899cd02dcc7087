"""The strings and numbers of a value. A string that holds a JSON object or list stands for its content."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from datetime import date, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from types import MappingProxyType
from typing import Any
from uuid import UUID

from guardagent.policy.language.parts import parsed
from guardagent.policy.language.values import Unknown, kind_of
from guardagent.policy.provenance.labels import ALL_ITEMS, Path
from guardagent.policy.provenance.tokens import number_key

DEPTH = 100
_SCALARS = frozenset({bool, type(None)})
_TRANSPARENT = (Enum, bytes, bytearray, set, frozenset, date, time, UUID, PurePath)  # arguments that a rule can read
_NUMBERS = frozenset({int, float, Decimal})
_MAPPINGS, _LISTS = frozenset({dict, MappingProxyType}), frozenset({list, tuple})
_OPENING = frozenset({"{", "[", " ", "\t", "\r", "\n"})  # the first character of a JSON object or list

Paths = tuple[tuple[int, Path, int], ...]  # (the number of a source, the rest of its path, its labels)


def is_one_string(value: Any) -> bool:
    """Whether a value is a string that stands for no other value."""
    return type(value) is str and value[:1] not in _OPENING


class Leaves:
    """The leaves of a value, or of the part of it that has some labels.

    Attributes:
        strings: the strings.
        names: the keys of its mappings: only their tokens count.
        numbers: the keys of its numbers.
    """

    __slots__ = ("names", "numbers", "strings")

    def __init__(self) -> None:
        self.strings: list[str] = []
        self.names: set[str] = set()
        self.numbers: set[str] = set()

    @property
    def size(self) -> int:
        """The number of characters."""
        return sum(map(len, self.strings)) + sum(map(len, self.names)) + sum(map(len, self.numbers))


class LeafReader:
    """Collects the leaves of a value by their labels.

    Attributes:
        by_labels: the leaves with each set of labels.
        found: the numbers of the sources whose path leads to a value, or to an empty list.
        complete: whether the whole value could be read.
        opaque: whether it contains an object that is read by its attributes and its string.
    """

    def __init__(self) -> None:
        self.by_labels: dict[int, Leaves] = {}
        self.found: set[int] = set()
        self.complete, self.opaque = True, False

    def read(self, value: Any, labels: int = 0, sources: Sequence[tuple[Path, int]] = ()) -> None:
        """Collects the leaves of a value.

        Args:
            value: the value.
            labels: the labels of all of it.
            sources: (path, labels) of labelled parts.
        """
        self._read(value, labels, tuple((at, path, bits) for at, (path, bits) in enumerate(sources)), 0)
        for leaves in self.by_labels.values():
            leaves.names = set(map(str, leaves.names))

    def _read(self, value: Any, labels: int, paths: Paths, depth: int) -> None:
        if paths:
            for at, path, bits in paths:
                if not path:
                    self.found.add(at)
                    labels |= bits
            paths = tuple(one for one in paths if one[1])
        if not paths:
            self._collect(value, labels, depth)
        elif type(value) is str:
            self._read_text(value, labels, paths, depth)
        elif type(value) not in _SCALARS:
            self._read_other(value, labels, paths, depth)

    def _collect(self, value: Any, labels: int, depth: int) -> None:
        """Reads a value in which nothing has labels of its own."""
        leaves = self._of(labels)
        left: list[Iterable[Any]] = [(value,)]
        while left:
            for one in left.pop():
                kind = type(one)
                if kind is str:
                    if one[:1] in _OPENING:
                        self._read_text(one, labels, (), depth)
                    else:
                        leaves.strings.append(one)
                elif kind in _NUMBERS:
                    leaves.numbers.add(number_key(one))
                elif kind in _MAPPINGS:
                    leaves.names.update(one)
                    left.append(one.values())
                elif kind in _LISTS:
                    left.append(one)
                elif kind not in _SCALARS:
                    self._read_other(one, labels, (), depth + 1)

    def _read_text(self, text: str, labels: int, paths: Paths, depth: int) -> None:
        if depth < DEPTH and text.lstrip()[:1] in ("{", "["):
            content = parsed(text)
            if type(content) is not Unknown:
                if paths:
                    self._read_other(content, labels, paths, depth + 1)
                else:
                    self._collect(content, labels, depth + 1)
                return
        self._of(labels).strings.append(text)

    def _of(self, labels: int) -> Leaves:
        found = self.by_labels.get(labels)
        if found is None:
            found = self.by_labels[labels] = Leaves()
        return found

    def _read_other(self, value: Any, labels: int, paths: Paths, depth: int) -> None:
        kind = kind_of(value)
        if depth > DEPTH:
            self.complete = False
        elif kind == "mapping":
            self._of(labels).names.update(map(str, value))
            for name, item in value.items():
                inner = tuple((at, path[1:], bits) for at, path, bits in paths if path[0] == name) if paths else ()
                self._read(item, labels, inner, depth + 1)
        elif kind in ("list", "set"):
            self._read_items(value, labels, paths, depth)
        elif kind == "number":
            self._of(labels).numbers.add(number_key(value))
        elif kind == "text":
            self._read_text(str(value), labels, paths, depth)
        elif kind is None and value is not None:
            self._read_object(value, labels, paths, depth)

    def _read_items(self, items: Iterable[Any], labels: int, paths: Paths, depth: int) -> None:
        found = list(items)
        if not paths:
            for item in found:
                self._read(item, labels, (), depth + 1)
            return
        named = tuple(one for one in paths if type(one[1][0]) is str)  # a field of a list is that of all its items
        if not found:
            self.found.update(at for at, path, _ in paths if type(path[0]) is not int)
        for place, item in enumerate(found):
            here = (ALL_ITEMS, place, place - len(found))
            inner = tuple((at, path[1:], bits) for at, path, bits in paths if path[0] in here)
            self._read(item, labels, inner + named, depth + 1)

    def _read_object(self, value: Any, labels: int, paths: Paths, depth: int) -> None:
        """Reads a model, a dataclass or another object of the host by its content."""
        self.opaque = self.opaque or not isinstance(value, _TRANSPARENT)
        try:
            content = _content(value)
        except Exception:  # noqa: BLE001 - a host's object may raise anything
            self.complete = False
            return
        self._read(content, labels, paths, depth + 1)


def _content(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    fields = getattr(type(value), "model_fields", None)
    if isinstance(fields, dict):  # a serializer of a model may leave out what the agent sees
        if fields.keys() == {"root"}:
            return value.root
        return {name: getattr(value, name) for name in fields} | (getattr(value, "model_extra", None) or {})
    if dataclasses.is_dataclass(value):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, set | frozenset):
        return list(value)
    if hasattr(value, "__dict__"):
        return [str(value), vars(value)]
    return str(value)
