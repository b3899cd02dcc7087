"""Finds the mutants of a policy that its cases do not notice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from guardagent.batch.cases import Expectation, ExpectedTrace, judge_expected
from guardagent.policy.file.rule_keys import RuleSource
from guardagent.policy.language import ast
from guardagent.policy.mutants import LIMIT, Mutant, compiled, is_equivalent, mutants_of, single, source_of
from guardagent.policy.policies import Policies

SECONDS = 60.0
Equivalence = Callable[[Policies, RuleSource, Mutant], bool]


@dataclass(frozen=True, slots=True)
class Survivors:
    """The result of a mutation test of one policy.

    Attributes:
        found: the mutants that no case notices, without those that are equivalent to the rule.
        noticed: the number of mutants that a case notices.
        equivalent: the number of unnoticed mutants that mean the same as the rule.
        left_out: what was not tested, and why.
    """

    found: tuple[Mutant, ...]
    noticed: int = 0
    equivalent: int = 0
    left_out: tuple[str, ...] = ()


def surviving(
    policies: Policies,
    rule: str,
    cases: Sequence[Expectation],
    *,
    limit: int = LIMIT,
    seconds: float = SECONDS,
    equivalent: Equivalence = is_equivalent,
) -> Survivors:
    """Tests the cases of a policy: which small changes of its rule would they not notice?

    A case notices a mutant if the label, or whether the rule is violated where the case names rules, is another one
    than under the rule itself.

    Args:
        policies: the loaded policies.
        rule: the id of the policy.
        cases: the cases, also traces; those without an expectation notice nothing.
        limit: the greatest number of mutants.
        seconds: the time after which no further mutant is tested.
        equivalent: decides whether a mutant means the same as the rule.

    Raises:
        InputError: no policy has the id, or the policies come from no policy file.
    """
    mutants, source = mutants_of(policies, rule, limit=limit), source_of(policies, rule)
    if not mutants.mutants:
        return Survivors((), left_out=mutants.left_out)
    if concerns_the_end(policies, rule) and not any(isinstance(case, ExpectedTrace) for case in cases):
        return Survivors((), left_out=(f"rule {rule!r} is only violated at the end, and no case is a trace",))
    trial, end, late = _MutantTrial(policies, source, cases), time.monotonic() + seconds, 0
    unnoticed: list[Mutant] = []
    for mutant in mutants.mutants:
        if time.monotonic() > end:
            late += 1
        elif not trial.notices(mutant):
            unnoticed.append(mutant)
    survivors = [mutant for mutant in unnoticed if time.monotonic() > end or not equivalent(policies, source, mutant)]
    left_out = (*mutants.left_out, *([f"{late} mutants: {seconds:g} seconds were over"] if late else []))
    noticed = len(mutants.mutants) - late - len(unnoticed)
    return Survivors(tuple(survivors), noticed, len(unnoticed) - len(survivors), left_out)


def concerns_the_end(policies: Policies, rule: str) -> bool:
    """Whether no call can violate a rule, but only the end of the conversation."""
    rules = next(policy_rule.rules for policy_rule in policies.rules if policy_rule.id == rule)
    return all(isinstance(rule, ast.After | ast.Exists) for rule in rules)


class _MutantTrial:
    """Judges cases by one rule and its mutants. The other rules of the file are judged once."""

    def __init__(self, policies: Policies, source: RuleSource, cases: Iterable[Expectation]) -> None:
        self._rule = source.id
        assert policies.source is not None, "the rule was found in it"
        others = tuple(
            rule for rule in policies.source.rules if rule.id != source.id and rule.kind in ("temporal", "solver")
        )
        rest, alone = compiled(policies, others), single(policies, source)
        expecting = [case for case in cases if case.label is not None or case.rules is not None]
        self._cases = [(case, judge_expected(rest, case).label) for case in expecting]
        self._expected = [self._outcome(alone, *case) for case in self._cases]

    def notices(self, mutant: Mutant) -> bool:
        """Whether a case has another outcome under a mutant."""
        pairs = zip(self._cases, self._expected, strict=True)
        return any(self._outcome(mutant.policies, *pair) != expected for pair, expected in pairs)

    def _outcome(self, policies: Policies, case: Expectation, others: int) -> tuple[int, bool]:
        """The label of a case, and whether the rule is violated if the case names rules."""
        verdict = judge_expected(policies, case)
        label = 0 if case.label is None else max(verdict.label, others)
        return label, case.rules is not None and self._rule in verdict.rules
