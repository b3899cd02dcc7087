"""The verdicts of a session: a judgement with the messages, the evidence and the remedies of its violations.

A repeated request for a claimed call gets its verdict from the history. The verdict on a withheld answer reaches the
user without any part of the answer.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from guardagent.errors import error_text
from guardagent.policy.evaluation.monitor_interface import Explanation, MonitorResult, SessionCall, blank_explanation
from guardagent.policy.monitors.conversation import Broken, Judgement
from guardagent.policy.monitors.remedies import Remedies, message_of
from guardagent.policy.monitors.rule import RuleMetadata
from guardagent.policy.policies import Policies
from guardagent.session.calls import CallHistory, same_call
from guardagent.types import (
    EMPTY,
    Decision,
    Denial,
    Grant,
    Usage,
    Verdict,
    Violation,
    quick_verdict,
    quick_violation,
    thaw,
)

NO_USAGE = Usage()
_NEW_ID = "propose the call again with a new id"
_GRAVITY = (Decision.HALT, Decision.DENY, Decision.ESCALATE, Decision.WARN)
_WITHOUT_MESSAGE = "the rule forbids this answer"


def verdict_on(
    history: CallHistory,
    call: SessionCall,
    judgement: Judgement | None,
    decision: Decision,
    started: float,
    grant: Grant | None = None,
    lifted: Decision | None = None,
) -> Verdict:
    """The verdict on a call.

    Args:
        history: the history before the call.
        call: the call.
        judgement: its judgement; None if every check passed.
        decision: the decision.
        started: when the check began.
        grant: gives the permit of the call.
        lifted: the violations with this decision are approved.
    """
    notes, details = notes_on(history) if history.conversation.context.in_flight else ((), EMPTY)
    if judgement is None:
        elapsed = (time.perf_counter() - started) * 1000
        return quick_verdict(decision, notes, (), (), details, None, None, "policy", NO_USAGE, elapsed, (), (), grant)
    if lifted is not None:
        approved = [source.id for source, _ in judgement.broken if source.on_violation is lifted]
        details = {**details, "approved": approved}
        judgement.broken = tuple([rule for rule in judgement.broken if rule[0].on_violation is not lifted])
    shown = call.shown()
    violations, withheld = violations_of(history, judgement, call, call.facts, shown)
    requests = judgement.request_verdicts
    reasons: tuple[str, ...]
    if len(violations) == 1:  # the common case
        reasons = (violations[0].message,)
    else:
        reasons = tuple([violation.message for violation in violations])
    if judgement.reasons or notes:
        reasons += (*judgement.reasons, *notes)
    return quick_verdict(
        decision,
        reasons,
        violations,
        judgement.errors,
        details,
        None,
        None,
        "policy",
        sum((verdict.usage for verdict in requests), NO_USAGE) if requests else NO_USAGE,
        (time.perf_counter() - started) * 1000,
        (),
        (),
        grant,
        Denial(call.tool, shown["args"] if violations else call.args, withheld),
    )


def violations_of(
    history: CallHistory,
    judgement: Judgement,
    call: SessionCall | None,
    facts: Mapping[str, Any],
    shown: Mapping[str, Any] | None = None,
) -> tuple[tuple[Violation, ...], tuple[str, ...]]:
    """(violations, withheld details) of a call, or of the end of the conversation. `shown`: the call as evidence."""
    violations: list[Violation] = []
    withheld = judgement.withheld
    for source, result in _gravest_first(judgement.broken):
        explanation, remedy = _explained(history, source, result, call, facts)
        evidence: dict[str, Any] = {} if shown is None else {"call": shown}
        if source.in_pack:
            explanation = replace(blank_explanation(), withheld=explanation.withheld)
        if explanation.needed:
            evidence["needed"] = explanation.needed
        if explanation.missing:
            evidence["missing"] = " or ".join(explanation.missing)
        if explanation.evidence:
            evidence.update(explanation.evidence)
        message = message_of(source, explanation, remedy, earlier=call is not None)
        violations.append(quick_violation(source.id, message, evidence, remedy))
        if explanation.withheld:
            withheld += tuple([f"{source.id}: {detail}" for detail in dict.fromkeys(explanation.withheld)])
    return tuple(violations), withheld


def _gravest_first(broken: Broken) -> Broken:
    """The violated rules in the order of their responses: what nobody can lift comes before what asks a person."""
    return broken if len(broken) < 2 else tuple(sorted(broken, key=lambda rule: _GRAVITY.index(rule[0].on_violation)))


def _explained(
    history: CallHistory,
    source: RuleMetadata,
    result: MonitorResult,
    call: SessionCall | None,
    facts: Mapping[str, Any],
) -> tuple[Explanation, str | None]:
    """The explanation of a violation and its remedy. Errors here do not affect the denial."""
    explanation: Explanation | None = None
    try:
        explanation = result.explain()
        if source.remedy is None and not explanation.sequences and explanation.changes is None:
            return explanation, None  # nothing can be suggested
        remedies = Remedies(history.conversation, call, facts, halted=history.halted is not None)
        return explanation, remedies.remedy(source, explanation)
    except Exception as error:  # noqa: BLE001 - as above
        explanation = explanation or blank_explanation()
        explanation.withheld += (f"its explanation failed: {error_text(error)}",)
        return explanation, None


def notes_on(history: CallHistory) -> tuple[tuple[str, ...], Mapping[str, Any]]:
    """Notes and details for the host about calls in flight."""
    in_flight = history.conversation.context.in_flight
    if not in_flight:
        return (), EMPTY
    notes = tuple([f"{call.tool!r} (call {call.place}) is in flight: record its outcome" for call in in_flight])
    return notes, {"in_flight": [{"call": call.place, **call.shown()} for call in in_flight]}


def refused(problem: str, started: float) -> Verdict:
    """The verdict on a call that cannot be judged."""
    elapsed = (time.perf_counter() - started) * 1000
    reasons = (f"could not be checked: {problem}",)
    return Verdict(Decision.DENY, reasons, errors=(problem,), checked_by="policy", elapsed_ms=elapsed)


def claimed_verdict(history: CallHistory, call: SessionCall, request: str, started: float) -> Verdict | None:
    """The verdict on a call whose id was claimed before; None if it is new, and now claimed.

    The same request for the same call gets its verdict again. Another request for the call is refused, since the
    program that made the first one may run it.
    """
    if call.id in history.barred:
        return refused(f"call {call.id!r} was withdrawn before it was checked; {_NEW_ID}", started)
    earlier = None if call.id is None else history.claimed(call.id)
    if earlier is None:
        call.claim = {"request": request}
        return None
    if not same_call(earlier, call):
        return refused(f"the id {call.id!r} belongs to another call; {_NEW_ID}", started)
    if earlier.status is not None:
        return refused(f"call {call.id!r} has ended already; {_NEW_ID}", started)
    assert earlier.claim is not None
    if earlier.claim["request"] != request:
        return refused(
            f"call {call.id!r} is in flight for another request, which may run it: record its outcome", started
        )
    stored = thaw(earlier.claim["verdict"])
    return Verdict(
        Decision[stored["decision"].upper()],
        tuple(stored["reasons"]),
        tuple([Violation(**violation) for violation in stored["violations"]]),
        details=stored["details"],
        checked_by=stored["checked_by"],
        elapsed_ms=stored["elapsed_ms"],
    )


def without_answer_text(policies: Policies, verdict: Verdict) -> Verdict:
    """Returns a denial with the messages of the rules' authors; causes and evidence can quote the answer."""
    if not verdict.label:
        return verdict
    messages = {rule.id: rule.source.message_line or _WITHOUT_MESSAGE for rule in policies.rules}
    violations = tuple(
        Violation(violation.policy, messages.get(violation.policy, _WITHOUT_MESSAGE), remedy=violation.remedy)
        for violation in verdict.violations
    )
    rules = dict.fromkeys(error.partition(": ")[0] for error in verdict.errors)
    errors = tuple(f"{rule if rule in messages else 'the answer'}: could not be checked" for rule in rules)
    reasons = (*[violation.message for violation in violations], *errors)
    return replace(verdict, reasons=reasons, violations=violations, errors=errors, details={}, denial=Denial())
