"""Scopes of interpreted code: each name has its values at the current point."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from guardagent.workflow.python_source.evaluation.values import NOTHING, Binding, NameScope, Stub, Values


@dataclass(eq=False)
class FlowScope:
    """The current names of one function or file.

    Attributes:
        tree: the function or file.
        parent: the enclosing scope.
        names: the current values of each name.
        package: the package of the file, for relative imports.
    """

    tree: ast.AST
    parent: NameScope | None
    names: dict[str, Values] = field(default_factory=dict)
    package: str = ""

    def find(self, name: str) -> list[Binding]:
        return [Binding(self.names[name])] if name in self.names else []

    def join(self, other: dict[str, Values]) -> None:
        """Joins the names of another path to the same point."""
        for name, values in other.items():
            self.names[name] = self.names.get(name, NOTHING) | values


@dataclass(eq=False)
class ProgramObject(Stub):
    """An object of a class in code, with its current attributes."""

    made_of: object
    attributes: dict[str, Values] = field(default_factory=dict)
