"""The sorts of SMT-LIB whose values a policy can be given."""

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
    """A datatype whose constructors take nothing."""

    values: tuple[str, ...]


BOOL, INT, REAL, STRING = Sort("Bool"), Sort("Int"), Sort("Real"), Sort("String")


@dataclass(frozen=True, slots=True)
class VariableDeclaration:
    """How a policy file declares a variable.

    Attributes:
        sort: the name of its sort; None where the SMT-LIB text declares it.
        enum: the values that it may have; where no sort has that name, the constructors of a new one.
    """

    sort: str | None
    enum: Sequence[Any] | None = None
