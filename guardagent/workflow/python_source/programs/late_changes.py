"""Finds what the code of a function changes besides its local names, without following it.

A function that the script does not call may still run later: as a handler, in a thread, as a special method.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache

from guardagent.workflow.python_source.evaluation.mutations import ADDS, ADDS_ALL
from guardagent.workflow.python_source.values import FunctionTree

_METHODS = ADDS | ADDS_ALL | {"__setitem__"}


@dataclass(frozen=True)
class ChangedPlace:
    """A place that is changed.

    Attributes:
        held: the expression of the collection or object.
        name: the attribute of the object that is assigned; empty if the collection itself changes.
    """

    held: ast.expr
    name: str = ""


@dataclass(frozen=True)
class FunctionChanges:
    """The changes that a function makes.

    Attributes:
        places: collections and attributes.
        names: names of the file that it binds.
    """

    places: tuple[ChangedPlace, ...] = ()
    names: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.places or self.names)


@lru_cache(maxsize=4096)
def changes_of(tree: FunctionTree) -> FunctionChanges:
    """Returns what the code of a function changes, with the functions in it."""
    places: list[ChangedPlace] = []
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=held, attr=method)) if method in _METHODS:
                places.append(ChangedPlace(held))
            case ast.Call(func=ast.Name(id="setattr"), args=[held, ast.Constant(value=str(name)), _]):
                places.append(ChangedPlace(held, name))
            case ast.Attribute(value=held, attr=name, ctx=ast.Store()):
                places.append(ChangedPlace(held, name))
            case ast.Subscript(value=held, ctx=ast.Store()):
                places.append(ChangedPlace(held))
            case ast.AugAssign(target=ast.Name() | ast.Attribute() as target):
                places.append(ChangedPlace(_read(target)))
            case ast.Global(names=bound):
                names.update(bound)
    return FunctionChanges(tuple(places), frozenset(names))


def _read(target: ast.Name | ast.Attribute) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    return ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
