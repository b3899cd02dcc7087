"""The abstract domain of the interpreter: the possible values of an expression of EHRAgent code.

A value is a set of atoms: a string, an integer, None (any other value that is not a string), a table, a container, a
function, or a named function (`ToolName`). Within a string, `DATA` stands for data, `MURKY` for content that cannot be
followed, and a group (see `_ehr/strings.py`) for pieces that repeat in any order.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Value = frozenset[Any]
Env = dict[str, Value]


class TablePart(NamedTuple):
    name: str
    columns: frozenset[str] | None = None  # None: all columns
    made: frozenset[str] = frozenset()  # columns created by the code itself


class Table(NamedTuple):
    parts: tuple[TablePart, ...]
    # or row (a series), record (a dict of cells), tuple (a row by attributes), item (what a loop over a frame gives: a
    # row of any of these kinds, or the name of a column), loc, iloc, groups, windows, iterrows, itertuples
    shape: str = "frame"


class ToolName(NamedTuple):
    name: str


class Function(NamedTuple):
    node: Any
    frame: Frame
    defaults: tuple[tuple[str, Value], ...]


class Args(NamedTuple):
    plain: list[Value]
    named: Env

    def all(self) -> Value:
        return NONE.union(*self.plain, *self.named.values())


class Box(NamedTuple):
    """A list, tuple, set or dict as it was created; later content is stored by its allocation site."""

    site: Any
    items: tuple[Value, ...]
    keys: tuple[Any, ...] | None = None  # of a dict
    sure: bool = True  # whether all items are present, in this order


@dataclass(eq=False)
class Frame:
    """The names of one call, comprehension or module."""

    parent: Frame | None
    env: Env
    inner: bool = False  # of a comprehension
    alive: bool = True
    outer: dict[str, Frame] = field(default_factory=dict)  # the frames of names declared global or nonlocal
    caught: list[Env] = field(default_factory=list)  # the bindings within each enclosing try and loop
    returned: set[Any] = field(default_factory=set)


LIMIT, BUDGET, LONGEST, WIDEST, TURNS = 200_000, 100_000, 10_000, 64, 12
MANY = 500  # the most elements that are distinguished
DATA, MURKY = "\u2370", "\u2327"  # printable, so that repr preserves them
OPEN, EITHER, CLOSE = "\u2983", "\u2985", "\u2984"  # a group of pieces within a text
MARKS = frozenset([DATA, MURKY, OPEN, EITHER, CLOSE])
NONE: Value = frozenset()
SOME, UNKNOWN = frozenset({DATA}), frozenset({MURKY})
PLAIN: Value = frozenset({None})
VAGUE: Value = frozenset({None, DATA, MURKY})  # unknown keys


def joined(one: Env, two: Env) -> Env:
    return one if one == two else {**two, **{name: value | two.get(name, NONE) for name, value in one.items()}}


def starred(nodes: list[ast.expr]) -> bool:
    return any(isinstance(node, ast.Starred) for node in nodes)


def with_made(atom: Any, names: Iterable[str]) -> Any:
    """Return a table with columns created by the code."""
    if not isinstance(atom, Table):
        return atom
    made = frozenset(names)
    return atom._replace(parts=tuple(part._replace(made=part.made | made) for part in atom.parts))


def literal(node: ast.expr) -> Any:
    """Return a literal index or slice."""
    with contextlib.suppress(ValueError, TypeError):
        if isinstance(node, ast.Slice):
            ends = [part and ast.literal_eval(part) for part in (node.lower, node.upper, node.step)]
            return slice(*ends) if all(x is None or isinstance(x, int) for x in ends) and ends[2] != 0 else None
        return ast.literal_eval(node)
    return None
