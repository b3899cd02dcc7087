"""Substitutes a role or profile: a field of the input, or a fact, from another example or at a limit of the request.

The required checks of the specification compute the new verdict. Without a denial by one of them the verdict is
unknown, and there is no variant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.fields import fields_of, with_value
from guardagent.programs.compile.suite import FACTS, Suite
from guardagent.programs.compile.transformations import Variant

ABOUT = "another role or profile is substituted; if a required check denies, so must the program"


def variants(example: Example, suite: Suite) -> Iterator[Variant]:
    if not suite.target.required_checks:
        return
    for changed, note in _changed(example, suite):
        if suite.must_deny(changed):
            yield Variant(replace(changed, label=1), "denied", note)


def _changed(example: Example, suite: Suite) -> Iterator[tuple[Example, str]]:
    for field in fields_of(example.agent_input):
        for value in suite.alternatives("agent_input", field.name, field.value):
            text = with_value(example.agent_input, field, value)
            yield replace(example, agent_input=text), f"{field.name}: {value} instead of {field.value}"
    for name, fact in example.facts.items():
        for value in suite.alternatives(FACTS, name, fact) if isinstance(fact, str | int | float) else ():
            facts = {**example.facts, name: value}
            yield replace(example, facts=facts), f"fact {name}: {value} instead of {fact}"
