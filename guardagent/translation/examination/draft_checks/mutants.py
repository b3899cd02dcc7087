"""Mutants: small changes of a rule that no case notices. Each asks for another case."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.batch.survivors import Survivors
from guardagent.translation.drafting.draft import Problem
from guardagent.translation.examination.examined import ExaminedDraft, ExaminedRule

NEVER_FATAL = True
_SHOWN = 5


def check(examined: ExaminedDraft) -> Iterator[Problem]:
    """Only rules whose cases hold; others have a problem already."""
    for rule in examined.rules:
        if rule.survivors is not None:
            yield from _problems(rule, rule.survivors)


def _problems(rule: ExaminedRule, found: Survivors) -> Iterator[Problem]:
    if found.left_out:
        yield rule.problem("untested", f"the cases were not tested in full: {'; '.join(found.left_out)}")
    if found.found:
        shown = "; ".join(f"({at}) {one.description}" for at, one in enumerate(found.found[:_SHOWN], 1))
        more = f"; and {len(found.found) - _SHOWN} more" if len(found.found) > _SHOWN else ""
        text = (
            f"no case notices these changes of the rule: {shown}{more}; add a case for each whose verdict they change"
        )
        yield rule.problem("mutant", text)
