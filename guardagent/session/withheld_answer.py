"""The verdict on a withheld answer as the user may read it: without any part of the answer."""

from __future__ import annotations

from dataclasses import replace

from guardagent.policy.policies import Policies
from guardagent.types import Denial, Verdict, Violation

_WITHOUT_MESSAGE = "the rule forbids this answer"


def without_answer_text(policies: Policies, verdict: Verdict) -> Verdict:
    """Returns a denial with the messages of the rules' authors; causes and evidence can quote the answer."""
    if not verdict.label:
        return verdict
    messages = {rule.id: rule.source.message_line or _WITHOUT_MESSAGE for rule in policies.rules}
    violations = tuple(
        Violation(one.policy, messages.get(one.policy, _WITHOUT_MESSAGE), remedy=one.remedy)
        for one in verdict.violations
    )
    rules = dict.fromkeys(error.partition(": ")[0] for error in verdict.errors)
    errors = tuple(f"{rule if rule in messages else 'the answer'}: could not be checked" for rule in rules)
    reasons = (*[one.message for one in violations], *errors)
    return replace(verdict, reasons=reasons, violations=violations, errors=errors, details={}, denial=Denial())
