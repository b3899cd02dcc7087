"""Reads policies that are Python values: each part knows the keys that lead to it, as those of a YAML file their lines.

The bounds, and what a key or a value may be, are those of the YAML reader.
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

_KINDS = {bool: "boolean", int: "number", float: "number", type(None): "null"}
_MAX_BITS = 10_000  # of an integer: Python refuses to print longer ones


def nodes_of(data: Mapping[str, Any], folder: Path | None) -> SourceNode:
    """The values of a mapping.

    Args:
        data: the policies.
        folder: where the files lie that it names.

    Raises:
        ContentError: something in it cannot stand in a policy file; with the keys that lead there.
    """
    return _MappingReader(folder).node(data, "data", 1)


class _MappingReader:
    def __init__(self, folder: Path | None) -> None:
        self._folder, self._parts = folder, 0

    def node(self, value: Any, place: str, depth: int) -> SourceNode:
        self._parts += 1
        if depth > MAX_DEPTH:
            _fail(place, f"nested deeper than {MAX_DEPTH} levels; expected fewer")
        if self._parts > MAX_PARTS:
            _fail(place, f"more than {MAX_PARTS:,} keys and values; expected fewer: divide the policies")
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
            _fail(place, f"is a {found}; expected a text, a finite number, a boolean, None, a list or a mapping")
        return SourceScalar(value, _KINDS[type(value)], "" if value is None else repr(value))

    def _fields(self, values: Mapping[Any, Any], place: str, depth: int) -> Iterator[tuple[str, SourceNode]]:
        for key, value in values.items():
            if not isinstance(key, str):
                _fail(place, f"a key is a {type(key).__name__}; expected a text")
            self._parts += 1
            name = _valid_string(key, place)
            yield name, self.node(value, f"{place}.{shortened(name)}", depth + 1)


def _is_scalar(value: Any) -> bool:
    if type(value) is int:
        return value.bit_length() < _MAX_BITS
    return type(value) in _KINDS and (type(value) is not float or math.isfinite(value))


def _valid_string(text: str, place: str) -> str:
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        _fail(place, "holds half a character; expected a whole one")
    return str.__str__(text)  # that of an enumeration gives its name


def _fail(place: str, problem: str) -> NoReturn:
    raise ContentError(problem, place)
