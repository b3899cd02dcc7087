"""Compares an agent's answer with the items of the truth. See docs/evaluations.md for the rules."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from guardagent._support import syntax

Atom = int | float | str
Item = tuple[Atom, ...]  # the parts between the commas of one item; most items have one part

_INTEGER = re.compile(r"[+-]?\d{1,40}")
_DECIMAL = re.compile(r"[+-]?(\d{1,40}\.\d*|\.?\d{1,40})(e[+-]?\d{1,3})?")
_WRAPPING = " '\"`[](){}"
_TOLERANCE = 1e-6


def answer_is_right(truth: Sequence[str], answer: str) -> bool:
    """Whether every item of the truth is an item of the answer, which may have more.

    An empty truth matches only an answer without items, such as `[]`.
    """
    wanted = _distinct(item for item in map(_item, truth) if item)
    listed = items_of(answer)
    whole = _item(answer)
    if not wanted:
        return whole in ((), ("none",))
    if listed is None:
        return _all_in(wanted, [whole], runs=True)
    return _all_in(wanted, listed, runs=False) or (len(wanted) == 1 and _same(wanted[0], whole))


def items_of(text: str) -> list[Item] | None:
    """The items of a string that is a Python list, tuple, set or dict, including nested ones; else None."""
    if not text.strip().startswith(("[", "(", "{")):
        return None
    try:
        value = ast.literal_eval(syntax.parse(text.strip(), mode="eval"))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return list(_leaves(value)) if isinstance(value, list | tuple | set | dict) else None


def same_text(first: str, second: str) -> bool:
    """Whether two strings are equal up to case and whitespace."""
    return _folded(first) == _folded(second)


def _leaves(value: Any) -> Iterable[Item]:
    if isinstance(value, Mapping):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set):
        for part in value:
            yield from _leaves(part)
    elif item := _item(str(value)):
        yield item


def _all_in(wanted: list[Item], found: list[Item], *, runs: bool) -> bool:
    """Whether all wanted items are found, each in a part of its own; the longest items are matched first."""
    remaining = list(found)
    for item in sorted(wanted, key=len, reverse=True):
        place = next(
            ((i, at) for i, candidate in enumerate(remaining) if (at := _index_of(item, candidate, runs=runs)) >= 0),
            None,
        )
        if place is None:
            return False
        index, at = place
        have = remaining[index]
        # The parts before and after a match stay separate: they are not neighbours.
        remaining[index : index + 1] = [part for part in (have[:at], have[at + len(item) :]) if part]
    return True


def _index_of(item: Item, candidate: Item, *, runs: bool) -> int:
    """The index of the item in a comma-joined text (`runs`), or 0 if it is the whole candidate; else -1."""
    starts = range(len(candidate) - len(item) + 1) if runs else range(len(candidate) == len(item))
    return next((at for at in starts if _same(item, candidate[at : at + len(item)])), -1)


def _item(text: str) -> Item:
    parts = (part.strip(_WRAPPING) for part in _folded(text).split(","))
    return tuple(_atom(part) for part in parts if part)


def _atom(text: str) -> Atom:
    if text in ("true", "false"):
        return int(text == "true")
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text


def _same(first: Item, second: Item) -> bool:
    return len(first) == len(second) and all(map(_same_atom, first, second))


def _same_atom(first: Atom, second: Atom) -> bool:
    if isinstance(first, str) or isinstance(second, str):
        return first == second
    if first == second:
        return True
    # Integers are often identifiers: a neighbouring integer is a different item, not a rounding error.
    whole = float(first).is_integer() and float(second).is_integer()
    return not whole and math.isclose(first, second, rel_tol=_TOLERANCE, abs_tol=1e-9)


def _distinct(items: Iterable[Item]) -> list[Item]:
    kept: list[Item] = []
    for item in items:
        if not any(_same(item, other) for other in kept):
            kept.append(item)
    return kept


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
