"""Packs: rule sets that ship. Each folder has `policy.yaml`, `cases.jsonl`, `README.md` and often `functions.py`.

Here is what their functions share: the arguments of a call that a pack judges, by their usual names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any


def named_values(value: Any, names: Collection[str]) -> Iterator[Any]:
    """Finds the values with one of the names, at any depth.

    Args:
        value: the arguments.
        names: the names, in lower case and without `_`: `filepath` finds `filePath` and `file_path`.
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if plain_name(key) in names:
                yield inner
            else:
                yield from named_values(inner, names)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from named_values(inner, names)


def plain_name(key: Any) -> str:
    """The name of an argument in lower case, without `_` and `-`."""
    return str(key).lower().replace("_", "").replace("-", "")


def strings(value: Any) -> list[str] | None:
    """A string, or the strings of a list; None for other values, and for an empty list."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple) and value and all(isinstance(entry, str) for entry in value):
        return list(value)
    return None
