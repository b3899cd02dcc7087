"""Transformations of examples, one file each, found by listing this folder.

A transformation changes a run in a way whose effect on the right verdict is known, whatever the request says. A module
here has

- `ABOUT`: what it does, in words for the report;
- `variants(example, world)`: the changed runs, as `Variant`s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from guardagent._support.plugins import Plugins
from guardagent.errors import UnknownNameError
from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.trial import RunOutcome

_KIND = Plugins("transformation", __name__, ("ABOUT", "variants"))

Relation = Literal["same", "steady", "denied", "withheld", "conflicting", "alike"]
"""What must hold for a variant, whose example carries the label that is right for it:

same      the verdict has that label
steady    the verdict does not turn: an allowed run may at most become one that cannot be decided
denied    a run with label 1 is not allowed
withheld  as `denied`; to let it pass without handing out an answer is no allowance

or, by what the same program gives for another run, whatever is right for that one:

conflicting  where the other run is not allowed, this one is not either: it also holds what is denied there
alike        this run gets the label of the other one, or is undecided
"""


@dataclass(frozen=True, slots=True)
class Variant:
    """A changed run, what must hold for it, and what was changed.

    Attributes:
        other: the run that it is compared with, where the relation needs one.
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
        """What the program should give, for a person and the model."""
        if self.relation == "conflicting":
            return "label 1, since the program denies what this run holds where it stands alone"
        if self.relation == "alike" and other is not None:
            return f"label {other.label}, as the program gives where the text says the same"
        either = self.relation == "steady" and self.example.label == 0
        return f"label {self.example.label}{', or undecided' if either else ''}"


@dataclass(frozen=True, slots=True)
class Transformation:
    """A file of this folder."""

    name: str
    about: str
    variants: Callable[[Example, Suite], Iterator[Variant]]


def names() -> list[str]:
    """The transformations of this installation."""
    return list(_KIND)


def load(without: frozenset[str] = frozenset()) -> list[Transformation]:
    """All of them but some.

    Raises:
        UnknownNameError: one of those to leave out does not exist.
    """
    for name in without:
        if name not in _KIND:
            raise UnknownNameError("transformation", name, _KIND)
    return [Transformation(name, one.ABOUT, one.variants) for name, one in _KIND.load_all() if name not in without]
