"""The SMT-LIB sorts that a policy's variables can have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Sort:
    """A sort, by its name in SMT-LIB."""

    name: str


@dataclass(frozen=True, slots=True)
class Enumeration(Sort):
    """A datatype whose constructors have no arguments."""

    values: tuple[str, ...]


BOOL, INT, REAL, STRING = Sort("Bool"), Sort("Int"), Sort("Real"), Sort("String")


@dataclass(frozen=True, slots=True)
class VariableDeclaration:
    """A variable's declaration in a policy file.

    Attributes:
        sort: the name of its sort, or None if the SMT-LIB text declares it.
        enum: its allowed values; if no sort has that name, the constructors of a new one.
    """

    sort: str | None
    enum: Sequence[Any] | None = None
