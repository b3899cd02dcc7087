"""Reads policies from Python mappings. Each node keeps its path of keys, as nodes of a YAML file keep their lines.

Limits and allowed types of keys and values are those of the YAML reader.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from guardagent.errors import ContentError
from guardagent.policy.file.source_text import SourceText
from guardagent.policy.file.source_tree import SourceNode, SourceScalar, shortened
from guardagent.policy.file.yaml_reader import MAX_DEPTH, MAX_PARTS

_TYPE_KINDS = {bool: "boolean", int: "number", float: "number", type(None): "null"}
_MAX_BITS = 10_000  # of an integer: Python does not print longer ones


def nodes_of(data: Mapping[str, Any], folder: Path | None) -> SourceNode:
    """Converts a mapping to source nodes.

    Args:
        data: the content of a policy file.
        folder: the base of relative paths.

    Raises:
        ContentError: a key or value cannot occur in a policy file; with its path of keys.
    """
    return _MappingReader(folder).node(data, "data", 1)


class _MappingReader:
    def __init__(self, folder: Path | None) -> None:
        self._folder, self._parts = folder, 0

    def node(self, value: Any, place: str, depth: int) -> SourceNode:
        self._parts += 1
        if depth > MAX_DEPTH:
            _fail(place, f"is nested deeper than {MAX_DEPTH} levels; expected fewer levels")
        if self._parts > MAX_PARTS:
            _fail(place, f"has more than {MAX_PARTS:,} keys and values; split the policies")
        return SourceNode(self._value(value, place, depth), Path(place), 0, 0, self._folder)

    def _value(
        self, value: Any, place: str, depth: int
    ) -> dict[str, SourceNode] | list[SourceNode] | SourceText | SourceScalar:
        if isinstance(value, Mapping):
            return dict(self._fields(value, place, depth))
        if isinstance(value, list | tuple):
            return [self.node(item, f"{place}[{at}]", depth + 1) for at, item in enumerate(value)]
        if isinstance(value, str):
            return SourceText(_valid_string(value, place), Path(place), 0)
        if not _is_scalar(value):
            found = type(value).__name__
            _fail(
                place,
                f"has the type {found!r}; expected a string, a finite number, a boolean, None, a list or a mapping",
            )
        return SourceScalar(value, _TYPE_KINDS[type(value)], "" if value is None else repr(value))

    def _fields(self, values: Mapping[Any, Any], place: str, depth: int) -> Iterator[tuple[str, SourceNode]]:
        for key, value in values.items():
            if not isinstance(key, str):
                _fail(place, f"a key has the type {type(key).__name__!r}; expected a string")
            self._parts += 1
            name = _valid_string(key, place)
            yield name, self.node(value, f"{place}.{shortened(name)}", depth + 1)


def _is_scalar(value: Any) -> bool:
    if type(value) is int:
        return value.bit_length() < _MAX_BITS
    return type(value) in _TYPE_KINDS and (type(value) is not float or math.isfinite(value))


def _valid_string(text: str, place: str) -> str:
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        _fail(place, "contains half of a surrogate pair; expected complete characters")
    return str.__str__(text)  # str() of an enumeration member gives its name


def _fail(place: str, problem: str) -> NoReturn:
    raise ContentError(problem, place)
