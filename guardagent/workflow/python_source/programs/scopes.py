"""The names of code that is gone through statement by statement: each has the values that it has at that point."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from guardagent.workflow.python_source.evaluation.values import NOTHING, Binding, NameScope, Stub, Values


@dataclass(eq=False)
class FlowScope:
    """The names of one function or file, as they are now.

    Attributes:
        tree: the function or file.
        parent: where else a name is looked up.
        names: what each name stands for now.
        package: the package of the file, for relative imports.
    """

    tree: ast.AST
    parent: NameScope | None
    names: dict[str, Values] = field(default_factory=dict)
    package: str = ""

    def find(self, name: str) -> list[Binding]:
        return [Binding(self.names[name])] if name in self.names else []

    def join(self, other: dict[str, Values]) -> None:
        """Takes in the names of another way to the same point."""
        for name, values in other.items():
            self.names[name] = self.names.get(name, NOTHING) | values


@dataclass(eq=False)
class ProgramObject(Stub):
    """An object of a class that is only code: its attributes, as they are now."""

    made_of: object
    attributes: dict[str, Values] = field(default_factory=dict)
