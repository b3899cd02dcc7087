"""Transformations of examples for metamorphic testing: one file each, found by listing this folder.

A transformation changes a run with a known effect on the verdict, independent of the request. A module here has

- `ABOUT`: its description in the report;
- `variants(example, suite)`: yields the changed runs as `Variant`s.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from guardagent._support.plugins import Plugins
from guardagent.errors import UnknownNameError
from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.trial import RunOutcome

_KIND = Plugins("transformation", "guardagent.programs.compile._transformations", ("ABOUT", "variants"))

Relation = Literal["same", "steady", "denied", "withheld", "conflicting", "alike"]
"""The relation that must hold for a variant, whose example carries the expected label:

same      the verdict has that label
steady    the verdict has that label, or the run is undecided
denied    a run with label 1 is not allowed
withheld  as `denied`, but a run may pass without an answer

or, compared with the outcome of the same program for another run:

conflicting  if the other run is denied, so is this one, which contains the denied content too
alike        this run gets the label of the other one, or is undecided
"""


@dataclass(frozen=True, slots=True)
class Variant:
    """A changed run, the relation that must hold, and a description of the change.

    Attributes:
        other: the run to compare with, if the relation needs one.
    """

    example: Example
    relation: Relation
    note: str
    other: Example | None = None

    def holds(self, outcome: RunOutcome, other: RunOutcome | None = None) -> bool:
        allowed = outcome.label == 0
        match self.relation:
            case "same":
                return outcome.label == self.example.label
            case "steady":
                return outcome.label == self.example.label or not outcome.decided
            case "denied":
                return not (allowed and self.example.label == 1)
            case "withheld":
                return not (allowed and self.example.label == 1 and outcome.answer is not None)
            case "conflicting":
                return not (allowed and other is not None and other.label == 1)
            case "alike":
                return other is None or outcome.label == other.label or (other.label == 0 and not outcome.decided)

    def expected(self, other: RunOutcome | None = None) -> str:
        """Returns the expected outcome, for the report and the prompt."""
        if self.relation == "conflicting":
            return "label 1, since the program denies the added content alone"
        if self.relation == "alike" and other is not None:
            return f"label {other.label}, as for a text with the same value"
        either = self.relation == "steady" and self.example.label == 0
        return f"label {self.example.label}{', or undecided' if either else ''}"


@dataclass(frozen=True, slots=True)
class Transformation:
    """One transformation of this folder."""

    name: str
    about: str
    variants: Callable[[Example, Suite], Iterator[Variant]]


def names() -> list[str]:
    """Returns the names of the available transformations."""
    return sorted(_modules())


def load(without: frozenset[str] = frozenset()) -> list[Transformation]:
    """Loads all transformations except the named ones.

    Raises:
        UnknownNameError: one of the names does not exist.
    """
    for name in without:
        if name not in _modules():
            raise UnknownNameError("transformation", name, names())
    return [Transformation(name, one.ABOUT, one.variants) for name, one in _modules().items() if name not in without]


def _modules() -> dict[str, Any]:
    others = {"sql_forms": importlib.import_module("guardagent.programs.compile.sql_transformations")}
    return dict(sorted((dict(_KIND.load_all()) | others).items()))
