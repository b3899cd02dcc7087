"""Rules that a person changed in the policy file after they were translated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from guardagent.policy.policies import Policies
from guardagent.policy.review import rule_hashes
from guardagent.policy.review.record import ReviewedRule, ReviewFinding
from guardagent.policy.words import policies_in_words
from guardagent.translation.change import Kept
from guardagent.translation.drafts import Draft
from guardagent.translation.examination.examined import expects_violation, judged_cases

Cases = tuple[Mapping[str, Any], ...]


def with_edits(kept: Kept, policies: Policies) -> Kept:
    """Returns what stands, with the edits of people.

    An edited rule has the readings `edited`, loses the findings about its former text, and keeps the cases that hold. A
    finding names the others.

    Args:
        kept: what stands.
        policies: the present policy file.

    Raises:
        InputError: a file that the policy refers to cannot be read.
    """
    changed = _changed(kept, policies)
    edited = changed | {one.id for one in kept.rules if one.readings == "edited"}
    holding = {one.id: _holding(one, policies) for one in kept.rules if one.id in edited}
    lost = [
        _finding(one, holding[one.id]) for one in kept.rules if len(one.cases) > len(holding.get(one.id, one.cases))
    ]
    return replace(
        kept,
        drafts=tuple(_with_cases(one, holding) for one in kept.drafts),
        rules=tuple(
            replace(one, readings="edited", cases=holding[one.id]) if one.id in edited else one for one in kept.rules
        ),
        findings=(*(one for one in kept.findings if not changed.intersection(one.rules)), *lost),
    )


def _changed(kept: Kept, policies: Policies) -> set[str]:
    """The rules with another hash; if all have one, as a key such as `unlisted` changed, those with other words."""
    hashes, words = rule_hashes(policies), policies_in_words(policies)
    changed = [one for one in kept.rules if hashes[one.id] != one.hash]
    if len(changed) == len(kept.rules):
        changed = [one for one in changed if words[one.id].text != one.words]
    return {one.id for one in changed}


def _holding(rule: ReviewedRule, policies: Policies) -> Cases:
    """The cases to which the rule gives the expected verdict."""
    judged = zip(rule.cases, judged_cases(policies, rule.id, rule.cases), strict=True)
    return tuple(
        record
        for record, one in judged
        if one.case and one.verdict and (rule.id in one.verdict.rules) is expects_violation(one.case, rule.id)
    )


def _with_cases(draft: Draft, cases: Mapping[str, Cases]) -> Draft:
    return replace(draft, rules=tuple(replace(one, cases=cases.get(one.id, one.cases)) for one in draft.rules))


def _finding(rule: ReviewedRule, holding: Cases) -> ReviewFinding:
    lost = ", ".join(repr(one.get("id")) for one in rule.cases if one not in holding)
    text = f"The rule was changed by hand. These cases of its translation do not hold and are left out: {lost}."
    return ReviewFinding("edited", text, tuple(rule.quotes), (rule.id,), blocking=False)
