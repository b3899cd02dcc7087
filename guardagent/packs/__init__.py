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


def gravest(kinds: Collection[str], covers: Mapping[str, Collection[str]]) -> list[str]:
    """The kinds of danger in a call, sorted, without those that a graver one of the same matter covers.

    Args:
        kinds: the kinds.
        covers: the milder kinds of the same matter, by kinds whose rules block. The rules of the milder ones escalate,
            and no approval lifts a block.
    """
    return sorted(set(kinds).difference(*(covers.get(kind, ()) for kind in kinds)))


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
