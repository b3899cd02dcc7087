"""The verdicts of a session: a judgement with the messages, the evidence and the remedies of its violations.

A repeated request for a claimed call gets its verdict from the history. The verdict on a withheld answer reaches the
user without any part of the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from guardagent.errors import error_text
from guardagent.policy.evaluation.monitor_interface import Explanation, MonitorResult, SessionCall, blank_explanation
from guardagent.policy.monitors.conversation import Broken, Judgement
from guardagent.policy.monitors.remedies import FixedRemedies, Remedies, earlier_calls, message_of
from guardagent.policy.monitors.rule import RuleMetadata
from guardagent.policy.policies import Policies
from guardagent.session.calls import CallHistory, same_call
from guardagent.types import (
    EMPTY,
    NO_USAGE,
    Decision,
    Denial,
    Grant,
    Verdict,
    Violation,
    new_tuple,
    quick_verdict,
    quick_violation,
    rule_of_error,
    thaw,
)

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
    conversation = history.conversation
    notes, details = notes_on(history) if conversation.context.in_flight else ((), EMPTY)
    if judgement is None:
        elapsed = (time.perf_counter() - started) * 1000
        return quick_verdict(decision, notes, (), (), details, None, None, "policy", NO_USAGE, elapsed, (), (), grant)
    if lifted is not None:
        approved = [source.id for source, _ in judgement.broken if source.on_violation is lifted]
        details = {**details, "approved": approved}
        judgement.broken = tuple([rule for rule in judgement.broken if rule[0].on_violation is not lifted])
    elif judgement.grants and decision <= Decision.WARN:
        details = {**details, "grants": dict(judgement.grants)}
    broken, requests = judgement.broken, judgement.request_verdicts
    usage = sum((verdict.usage for verdict in requests), NO_USAGE) if requests else NO_USAGE
    tool, args, more = call.tool, call.args, judgement.reasons + notes
    halted, earlier = history.halted is not None, earlier_calls(conversation, tool, broken)
    remedies: Callable[[], Remedies]
    if earlier is None:
        remedies = partial(Remedies, conversation, call, call.facts, halted=halted)
    else:
        remedies = partial(FixedRemedies, conversation.policies, tool, earlier, halted=halted)
    text = partial(_text, remedies, tool, args, broken, judgement.withheld, more)
    rules = (broken[0][0].id,) if len(broken) == 1 else tuple(sorted([source.id for source, _ in broken]))
    denial = new_tuple(Denial, (tool, args, (), rules, text))
    elapsed = (time.perf_counter() - started) * 1000
    errors = judgement.errors
    verdict = quick_verdict(
        decision, (), (), errors, details, None, None, "policy", usage, elapsed, (), (), grant, denial
    )
    if earlier is None:
        _ = verdict.reasons  # now, since a remedy depends on what can change
    return verdict


def _text(
    remedies: Callable[[], Remedies],
    tool: str,
    args: Mapping[str, Any],
    broken: Broken,
    withheld: tuple[str, ...],
    more: tuple[str, ...],
) -> tuple[tuple[str, ...], tuple[Violation, ...], Denial]:
    """(the reasons, the violations, the denial) of a verdict on a call."""
    plain = thaw(args)
    violations, withheld = violations_of(remedies, broken, withheld, {"tool": tool, "args": plain})
    reasons = (violations[0].message,) if len(violations) == 1 else tuple([part.message for part in violations])
    return reasons + more, violations, new_tuple(Denial, (tool, plain, withheld, (), None))


def violations_of(
    remedies: Callable[[], Remedies],
    broken: Broken,
    withheld: tuple[str, ...] = (),
    shown: Mapping[str, Any] | None = None,
) -> tuple[tuple[Violation, ...], tuple[str, ...]]:
    """(violations, withheld details) of a call as evidence shows it; without one, of the end of the conversation."""
    violations: list[Violation] = []
    for source, result in _gravest_first(broken):
        explanation, remedy = _explained(remedies, source, result)
        evidence: dict[str, Any] = {} if shown is None else {"call": shown}
        if source.in_pack:
            explanation = replace(blank_explanation(), withheld=explanation.withheld)
        if explanation.needed:
            evidence["needed"] = explanation.needed
        if explanation.missing:
            evidence["missing"] = " or ".join(explanation.missing)
        if explanation.evidence:
            evidence.update(explanation.evidence)
        message = message_of(source, explanation, remedy, earlier=shown is not None)
        violations.append(quick_violation(source.id, message, evidence, remedy))
        if explanation.withheld:
            withheld += tuple([f"{source.id}: {detail}" for detail in dict.fromkeys(explanation.withheld)])
    return tuple(violations), withheld


def _gravest_first(broken: Broken) -> Broken:
    """The violated rules in the order of their responses: what nobody can lift comes before what asks a person."""
    return broken if len(broken) < 2 else tuple(sorted(broken, key=lambda rule: _GRAVITY.index(rule[0].on_violation)))


def _explained(
    remedies: Callable[[], Remedies], source: RuleMetadata, result: MonitorResult
) -> tuple[Explanation, str | None]:
    """The explanation of a violation and its remedy. Errors here do not affect the denial."""
    explanation: Explanation | None = None
    try:
        explanation = result.explain()
        if source.remedy is None and not explanation.sequences and explanation.changes is None:
            return explanation, None  # nothing can be suggested
        return explanation, remedies().remedy(source, explanation)
    except Exception as error:  # noqa: BLE001 - as above
        explanation = explanation or blank_explanation()
        withheld = (*explanation.withheld, f"its explanation failed: {error_text(error)}")
        return replace(explanation, withheld=withheld), None


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
    rules = dict.fromkeys(rule_of_error(error, messages) for error in verdict.errors)
    errors = tuple(f"{rule or 'the answer'}: could not be checked" for rule in rules)
    reasons = (*[violation.message for violation in violations], *errors)
    return replace(verdict, reasons=reasons, violations=violations, errors=errors, details={}, denial=Denial())
