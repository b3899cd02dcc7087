"""Compares two drafts of the same sentences part by part: rules that concern the same tools are one part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from guardagent.policy.equivalence import Comparison, Different, Same, compare_rules
from guardagent.policy.equivalence.search import difference_of
from guardagent.policy.policies import Policies
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafts import Draft, RuleDraft

MAX_QUESTIONS = 3  # of one group at once

_NO_RULE = {"id": "no_rule", "temporal": "G true"}


@dataclass(frozen=True, slots=True)
class DraftPart:
    """The rules of both drafts that concern some tools."""

    first: tuple[RuleDraft, ...]
    second: tuple[RuleDraft, ...]

    @property
    def sides(self) -> tuple[tuple[RuleDraft, ...], tuple[RuleDraft, ...]]:
        return self.first, self.second

    @property
    def quoted(self) -> frozenset[int]:
        return frozenset(number for one in (*self.first, *self.second) for number in one.quotes)


@dataclass(frozen=True, slots=True)
class PartComparison:
    """A part, with the result of its comparison."""

    part: DraftPart
    found: Comparison


def loaded(draft: Draft, context: TranslationContext, rules: Sequence[RuleDraft] | None = None) -> Policies:
    """The policies of a draft, or of some of its rules; without rules, those that allow everything.

    Raises:
        InputError: a rule or a declaration is invalid.
    """
    wanted = draft.rules if rules is None else rules
    if wanted:
        return draft.policies(context, [one.id for one in wanted])
    return context.load({**context.frame, "policies": [_NO_RULE]})


def tools_of(context: TranslationContext) -> list[dict[str, Any]]:
    """The tools as `compare_rules` and `question` read them."""
    return [{"name": one.name, "description": one.description, "parameters": one.parameters} for one in context.tools]


def compared(first: Draft, second: Draft, context: TranslationContext, seconds: float) -> list[PartComparison]:
    """The comparisons of all parts.

    Equal parts make equal drafts. A difference of two parts counts if the whole drafts differ there too; if other
    rules hide each of them, the whole drafts are compared.
    """
    return _DraftComparison(first, second, context, seconds).run()


class _DraftComparison:
    def __init__(self, first: Draft, second: Draft, context: TranslationContext, seconds: float) -> None:
        self._drafts, self._context, self._seconds = (first, second), context, seconds
        self._tools = tools_of(context)

    def run(self) -> list[PartComparison]:
        parts = self._parts()
        found = [self._compared(one) for one in parts]
        hidden = [one for one in found if isinstance(one.found, Different) and not self._differ(one.found)]
        if not hidden:
            return found
        whole = self._compared(DraftPart(self._drafts[0].rules, self._drafts[1].rules))
        return [whole] if isinstance(whole.found, Same) else [*(one for one in found if one not in hidden), whole]

    def _compared(self, part: DraftPart) -> PartComparison:
        """Compares a part. The witness does not depend on which draft is the first one."""
        order = (0, 1) if repr(part.first) <= repr(part.second) else (1, 0)
        one, other = (loaded(self._drafts[side], self._context, part.sides[side]) for side in order)
        found = compare_rules(one, other, tools=self._tools, seconds=self._seconds)
        if isinstance(found, Different) and order == (1, 0):
            found = replace(found, first=found.second, second=found.first, outcomes=found.outcomes[::-1])
        return PartComparison(part, found)

    def _differ(self, found: Different) -> bool:
        wholes = [loaded(one, self._context) for one in self._drafts]
        return difference_of(wholes[0], wholes[1], found.witness) is not None

    def _parts(self) -> list[DraftPart]:
        found: list[tuple[frozenset[str], DraftPart]] = []
        for side, draft in enumerate(self._drafts):
            for rule in draft.rules:
                tools = self._concerned(draft, rule)
                touching = [one for one in found if one[0] & tools]
                sides: list[tuple[RuleDraft, ...]] = [
                    tuple(each for _, part in touching for each in part.sides[at]) for at in (0, 1)
                ]
                sides[side] += (rule,)
                whole = tools.union(*(one[0] for one in touching))
                found = [one for one in found if one not in touching] + [(whole, DraftPart(*sides))]
        return [part for _, part in found]

    def _concerned(self, draft: Draft, rule: RuleDraft) -> frozenset[str]:
        """The tools that a rule mentions; all of them for a rule about any tool."""
        policies = loaded(draft, self._context, [rule])
        named = frozenset(tool for one in policies.rules for tool in one.mentioned_tools)
        return named if named and "*" not in named else frozenset(one.name for one in self._context.tools) | named
