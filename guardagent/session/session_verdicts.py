"""Verdicts of a session: the violations of a judgement, with messages, evidence and remedies."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from guardagent.errors import error_text
from guardagent.policy.evaluation.monitor_interface import Explanation, MonitorResult, SessionCall, blank_explanation
from guardagent.policy.monitors.conversation import Judgement
from guardagent.policy.monitors.remedies import Remedies, message_of
from guardagent.policy.monitors.rule import RuleMetadata
from guardagent.session.state import CallHistory
from guardagent.types import EMPTY, Decision, Denial, Grant, Usage, Verdict, Violation, quick_verdict, quick_violation

NO_USAGE = Usage()


class SessionVerdicts(CallHistory):
    """Turns judgements into verdicts."""

    def _verdict(
        self,
        call: SessionCall,
        judgement: Judgement | None,
        decision: Decision,
        started: float,
        grant: Grant | None = None,
        lifted: Decision | None = None,
    ) -> Verdict:
        notes, details = self._notes() if self._conversation.context.in_flight else ((), EMPTY)
        if judgement is None:
            elapsed = (time.perf_counter() - started) * 1000
            return quick_verdict(
                decision, notes, (), (), details, None, None, "policy", NO_USAGE, elapsed, (), (), grant
            )
        if lifted is not None:
            details = {
                **details,
                "approved": [source.id for source, _ in judgement.broken if source.on_violation is lifted],
            }
            judgement.broken = tuple([one for one in judgement.broken if one[0].on_violation is not lifted])
        shown = call.shown()
        violations, withheld = self._violations(judgement, call, shown)
        reasons: tuple[str, ...]
        reasons = (
            (violations[0].message,) if len(violations) == 1 else tuple([violation.message for violation in violations])
        )
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
            sum((verdict.usage for verdict in judgement.request_verdicts), Usage())
            if judgement.request_verdicts
            else NO_USAGE,
            (time.perf_counter() - started) * 1000,
            (),
            (),
            grant,
            Denial(call.tool, shown["args"] if violations else call.args, withheld),
        )

    def _violations(
        self, judgement: Judgement, call: SessionCall | None, shown: Mapping[str, Any] | None = None
    ) -> tuple[tuple[Violation, ...], tuple[str, ...]]:
        """(violations, withheld details). `shown`: the call as evidence."""
        violations: list[Violation] = []
        withheld = judgement.withheld
        for source, result in judgement.broken:
            found, remedy = self._explained(source, result, call)
            evidence: dict[str, Any] = {} if shown is None else {"call": shown}
            if found.needed:
                evidence["needed"] = found.needed
            if found.missing:
                evidence["missing"] = " or ".join(found.missing)
            if found.evidence:
                evidence.update(found.evidence)
            message = message_of(source, found, remedy, earlier=call is not None)
            violations.append(quick_violation(source.id, message, evidence, remedy))
            if found.withheld:
                withheld += tuple([f"{source.id}: {one}" for one in dict.fromkeys(found.withheld)])
        return tuple(violations), withheld

    def _explained(
        self, source: RuleMetadata, result: MonitorResult, call: SessionCall | None
    ) -> tuple[Explanation, str | None]:
        """The explanation of a violation and its remedy. Errors here do not affect the denial."""
        found: Explanation | None = None
        try:
            found = result.explain()
            if source.remedy is None and not found.sequences and found.changes is None:
                return found, None  # nothing can be suggested
            facts = self._facts if call is None else call.facts
            return found, Remedies(self._conversation, call, facts, halted=self._halted is not None).remedy(
                source, found
            )
        except Exception as error:  # noqa: BLE001 - as above
            found = found or blank_explanation()
            found.withheld += (f"its explanation failed: {error_text(error)}",)
            return found, None

    def _notes(self) -> tuple[tuple[str, ...], Mapping[str, Any]]:
        """Notes and details for the host about calls in flight."""
        open_calls = self._conversation.context.in_flight
        if not open_calls:
            return (), EMPTY
        shown = [{"call": call.place, **call.shown()} for call in open_calls]
        notes = tuple([f"{call.tool!r} (call {call.place}) is in flight: record its outcome" for call in open_calls])
        return notes, {"in_flight": shown}


def refused(problem: str, started: float) -> Verdict:
    elapsed = (time.perf_counter() - started) * 1000
    reasons = (f"could not be checked: {problem}",)
    return Verdict(Decision.DENY, reasons, errors=(problem,), checked_by="policy", elapsed_ms=elapsed)
