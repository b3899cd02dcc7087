"""What is known while a program is examined: the subject, and all the examples together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from guardagent.compile.examples import Example
from guardagent.compile.fields import fields_of
from guardagent.compile.subject import Subject

INPUTS = 200
"""On how many runs properties are tried, where nobody says otherwise."""

CROSSHAIR = 30.0

_MOST_VALUES = 12


@dataclass(frozen=True)
class World:
    """The subject and its examples.

    Attributes:
        without: the transformations that a person left out.
        inputs: on how many runs that are made of the examples properties are tried.
        crosshair: for how many seconds CrossHair may look for others, where it is installed.
        set_aside: the ids of examples that a person set aside, since the model disputes their label.
        undecidable: the sentences of which a person agreed that no run tells whether it keeps them.
    """

    subject: Subject
    examples: Sequence[Example]
    without: frozenset[str] = frozenset()
    inputs: int = INPUTS
    crosshair: float = CROSSHAIR
    set_aside: tuple[str, ...] = ()
    undecidable: frozenset[int] = frozenset()

    @cached_property
    def field_values(self) -> Mapping[str, tuple[str, ...]]:
        """Field of the inputs -> the values that it has in the examples, where they are few enough to be a kind."""
        found: dict[str, dict[str, int]] = {}
        for example in self.examples:
            for field in fields_of(example.agent_input):
                values = found.setdefault(field.name, {})
                values[field.value] = values.get(field.value, 0) + 1
        return {
            name: tuple(values)
            for name, values in found.items()
            if len(values) <= _MOST_VALUES and sum(values.values()) > len(values)
        }

    @cached_property
    def fact_values(self) -> Mapping[str, tuple[Any, ...]]:
        """Fact -> the plain values that it has in the examples, where they are few."""
        found: dict[str, list[Any]] = {}
        for example in self.examples:
            for name, value in example.facts.items():
                values = found.setdefault(name, [])
                if isinstance(value, str | int | float | bool) and value not in values:
                    values.append(value)
        return {name: tuple(values) for name, values in found.items() if len(values) <= _MOST_VALUES}

    def must_deny(self, example: Example) -> bool:
        """Whether a required check of the specification denies a run: then no program may allow it."""
        checks = self.subject.required_checks
        return any(check(example.event, example.context).violations for check in checks)
