"""The names that policy files declare for their rules: functions, definitions, constants, labels and counters.

The names of all included files are in one table each: a name of an included file begins with the prefix of the file.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from guardagent.policy.file.source_text import SourceText
    from guardagent.policy.language import ast

Constant = str | int | Fraction | bool


@dataclass(frozen=True, slots=True)
class Definition:
    """A named condition or value.

    Attributes:
        body: the expression.
        scopes: as for `Declarations`.
    """

    name: str
    parameters: tuple[str, ...]
    body: SourceText
    scopes: tuple[str, ...] = ("",)

    @property
    def meaning(self) -> object:
        return self.parameters, self.body.text, self.scopes

    def under(self, prefix: str) -> Definition:
        """This definition in an included file with a prefix."""
        return replace(self, name=prefix + self.name, scopes=tuple(prefix + scope for scope in self.scopes))


@dataclass(frozen=True)
class Declarations:
    """The declared names.

    Attributes:
        functions: the names of the toolbox functions.
        constants: the value of each constant.
        labels: the labels of sources.
        counters: the counters, each with the number of its keys.
        tags: the names of the sets of tools.
        definitions: the named conditions.
        scopes: the prefixes of the names that an expression can use without a prefix; the first one wins.
        bodies: the definitions that have been parsed, by name; None while one is being parsed.
        keeps_names: whether constants and definitions stay names, for readers; such a rule cannot be compiled.
    """

    functions: frozenset[str] = frozenset()
    constants: Mapping[str, Constant | tuple[Constant, ...]] = field(default_factory=dict)
    labels: frozenset[str] = frozenset()
    counters: Mapping[str, int] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()
    definitions: Mapping[str, Definition] = field(default_factory=dict)
    scopes: tuple[str, ...] = ("",)
    bodies: dict[str, ast.Term | None] = field(default_factory=dict, compare=False, repr=False)
    keeps_names: bool = False

    def find(self, name: str, table: Container[str]) -> str | None:
        """The full name in a table for a name as written; None if it is not declared."""
        return next((scope + name for scope in self.scopes if scope + name in table), None)

    def full(self, name: str, table: Container[str]) -> str:
        """As `find`; for an undeclared name, the name that its own file could declare."""
        return self.find(name, table) or self.scopes[0] + name


NO_DECLARATIONS = Declarations()
