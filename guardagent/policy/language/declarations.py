"""The names that a policy file declares for its rules: functions, constants, labels and counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

Constant = str | int | Fraction | bool


@dataclass(frozen=True)
class Declarations:
    """The declared names of a policy file.

    Attributes:
        functions: the names of the toolbox functions.
        constants: the value of each constant.
        labels: the labels of sources.
        counters: the counters, each with the number of its keys.
    """

    functions: frozenset[str] = frozenset()
    constants: Mapping[str, Constant | tuple[Constant, ...]] = field(default_factory=dict)
    labels: frozenset[str] = frozenset()
    counters: Mapping[str, int] = field(default_factory=dict)


NO_DECLARATIONS = Declarations()
