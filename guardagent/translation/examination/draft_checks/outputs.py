"""Outputs: fields that neither an output schema nor the samples show. Without either there is no problem."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.errors import name_hint
from guardagent.translation.drafting.draft import Problem
from guardagent.translation.examination.examined import ExaminedDraft

NEVER_FATAL = True


def check(examined: ExaminedDraft) -> Iterator[Problem]:
    """Of fields within each other, the outer one that is missing."""
    for rule in examined.rules:
        for place in (one for one in rule.places.reads if one[0] == "output"):
            known = examined.shapes.missing(place)
            if known is not None:
                around = repr(".".join(place[2:-1])) if place[2:-1] else "the output"
                hint = name_hint(place[-1], known) if known else "; it is no object there"
                text = f"the rule reads {place[-1]!r} in {around} of {place[1]!r}, which no output shows{hint}"
                yield rule.problem("output", text)
