"""The state of a session: its parts, its history of calls, its verdicts, and the permits of allowed calls.

The parts are the rules, the conversation, the principal and who else learns of the calls. Calls are reserved and
settled in the history, here and for other processes that share the session. A verdict has the violations of a judgement
with messages, evidence and remedies. A permit is bound to everything that was judged.
"""

from __future__ import annotations

import datetime as dt
import math
import secrets
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from guardagent.errors import InputError, error_text
from guardagent.policy.evaluation.call_outcomes import is_failure
from guardagent.policy.evaluation.monitor_interface import (
    CallStatus,
    Clock,
    ClockError,
    Explanation,
    HostClock,
    MonitorResult,
    SessionCall,
    blank_explanation,
)
from guardagent.policy.language.values import seconds_of
from guardagent.policy.monitors.conversation import ConversationState, Judgement
from guardagent.policy.monitors.remedies import Remedies, message_of
from guardagent.policy.monitors.rule import RuleMetadata
from guardagent.policy.policies import Applicability, Policies
from guardagent.policy.provenance.recorder import LIMIT as PROVENANCE_BYTES
from guardagent.session.snapshot import HistoryChangedError, Journal, SessionEndedError
from guardagent.types import (
    EMPTY,
    Decision,
    Denial,
    Grant,
    Usage,
    Verdict,
    Violation,
    freeze,
    quick_verdict,
    quick_violation,
)
from guardagent.types.values import SessionPrincipal, read_principal

if TYPE_CHECKING:
    from guardagent.session.counters import CounterStore, SessionCounters
    from guardagent.session.shadow import OnDifference, SessionShadow


PERMIT_SECONDS = 300.0


class SessionState:
    """The parts of a session, without its operations; see `Session`."""

    def __init__(
        self,
        policies: Policies,
        state: Any = None,
        facts: Mapping[str, Any] = EMPTY,
        *,
        messages: Any = (),
        id: str | None = None,  # noqa: A002 - what it is
        permit_seconds: float = PERMIT_SECONDS,
        clock: HostClock = time.time,
        zone: dt.tzinfo | str | None = None,
        journal: Journal | None = None,
        provenance_bytes: int = PROVENANCE_BYTES,
        counters: CounterStore | str | None = None,
        principal: Mapping[str, Any] | SessionPrincipal | None = None,
        on_behalf_of: Mapping[str, Any] | SessionPrincipal | None = None,
        on_difference: OnDifference | Literal[False] | None = None,
    ) -> None:
        if not isinstance(facts, Mapping):
            raise InputError(f"'facts' has the type {type(facts).__name__!r}; expected a mapping of names to values")
        self.policies = policies
        self.id = id or secrets.token_hex(8)
        self._facts: Mapping[str, Any] = freeze(facts)
        self._clock = Clock(clock, zone)
        self.principal = read_principal(principal, on_behalf_of)
        self._principal = None if self.principal is None else self.principal.value
        self._conversation = ConversationState(
            policies,
            state,
            self._facts,
            messages,
            self._clock,
            provenance_bytes=provenance_bytes,
            principal=self._principal,
        )
        self._provenance_bytes = provenance_bytes
        self._halted: str | None = None
        self._approved = 0
        self._permit_seconds = permit_seconds
        self._lock = threading.RLock()
        self._journal = journal
        self._counters: SessionCounters | None = None
        if policies.counters:
            from guardagent.session.counters import SessionCounters

            self._counters = SessionCounters.of(policies, counters, self._now, self.id)
        self._conversation.context.counters = self._counters
        self._lapsed: list[SessionCall] = []  # withdrawn after their permits expired, and not recorded since
        self._lapses_reported = 0  # the number of them that `lapsed` has returned
        self._mementos: list[Any] | None = None  # of a fork: the mementos of its trial calls
        self._claims: dict[str, int] = {}  # the id of a claimed call -> its place, for the calls read so far
        self._claims_read = 0
        self._barred: set[str] = set()  # ids that were withdrawn before they were claimed
        self._is_followed = journal is not None or self._counters is not None  # whether others learn of the calls
        self._shadow: SessionShadow | None = None
        if policies.shadow is not None and on_difference is not False:
            from guardagent.session.shadow import SessionShadow, log_difference

            self._shadow = SessionShadow(policies.shadow, self.id, self._facts, on_difference or log_difference)
            self._is_followed = True

    def _now(self) -> float:
        """The time of the check in seconds, for the counters; not a number if it is unknown."""
        moment = self._conversation.context.reading()[0]
        return math.nan if moment is None else float(seconds_of(moment))

    @property
    def check_time(self) -> tuple[int, str | None] | None:
        """The time of the last check in microseconds, and the zone of the clock; None if the time is unknown."""
        try:
            moment, zone = self._conversation.context.reading()
        except ClockError:
            return None
        return None if moment is None else (moment, zone)

    def _principal_of(self, principal: Mapping[str, Any] | SessionPrincipal | None) -> Mapping[str, Any] | None:
        """The principal of a call, as rules read it.

        Raises:
            InputError: it is invalid, or has more than the session's.
        """
        part = read_principal(principal)
        if part is None:
            return self._principal
        if self.principal is None:
            raise InputError(
                f"principal {part.id!r} of the call has none to narrow; expected a principal of the session"
            )
        return self.principal.narrowed(part).value

    def _judge(self, call: SessionCall, applicability: Applicability) -> Judgement | None:
        if self._halted is None:
            return self._conversation.judge(call, applicability)
        judgement = Judgement()
        judgement.fail(f"the session was halted by {self._halted}")
        return judgement

    def _follow(self) -> None:
        """Lets the candidate follow the calls of this session."""
        if self._shadow is not None:
            self._shadow.follow(self._conversation.calls, self._conversation.context.state_now)


MAX_TRIES = 50  # attempts to record an outcome while other processes extend the history


class CallHistory(SessionState):
    """Reserves and settles calls in the history, in the counters and for other processes."""

    def _reserve(self, call: SessionCall, judgement: Judgement | None) -> None:
        if not self._is_followed:  # the common case
            self._conversation.reserve(call, judgement)
            return
        if self._counters is None:
            self._add_to_history(call, judgement)
            return
        if call.reservation is None:  # it runs, whatever the counters say
            self._counters.reserve(call)
        try:
            self._add_to_history(call, judgement)
        except BaseException:
            self._counters.release(call)
            raise

    def _add_to_history(self, call: SessionCall, judgement: Judgement | None) -> None:
        conversation, journal = self._conversation, self._journal
        if journal is None:
            conversation.reserve(call, judgement)
            return
        memento = conversation.memento(call)
        conversation.reserve(call, judgement)
        try:
            journal.append(conversation.history_entry(call))
        except BaseException:
            conversation.forget(memento)
            raise

    def _settle(self, call: SessionCall, output: Any, status: CallStatus) -> None:
        if not self._is_followed:  # the common case
            self._conversation.settle(call, output, status)
            return
        self._settle_in_history(call, output, status)
        if self._counters is not None:
            self._counters.settle(call)

    def _settle_in_history(self, call: SessionCall, output: Any, status: CallStatus) -> None:
        self._settle_and_publish(call, output, status)
        self._follow()

    def _settle_and_publish(self, call: SessionCall, output: Any, status: CallStatus) -> None:
        conversation, journal = self._conversation, self._journal
        if journal is None:
            conversation.settle(call, output, status)
            return
        for _ in range(MAX_TRIES):
            if call.status is not None:
                raise InputError(
                    f"the outcome of {call.tool!r} (call {call.place}) was already recorded by another process"
                )
            try:
                conversation.settle(call, output, status, lambda: journal.append(conversation.history_entry(call)))
            except HistoryChangedError:
                self.catch_up()
            else:
                return
        raise HistoryChangedError(
            f"other processes kept extending the history; the outcome of {call.tool!r} was not recorded; try again"
        )

    def _halt(self, why: str) -> None:
        if self._journal is not None:
            self._journal.append({"halted": why})
        self._halted = why

    def catch_up(self) -> None:
        """Applies the history entries of other processes that share this session.

        Raises:
            SessionEndedError: another process ended the conversation.
            InputError: as for `Journal.news`.
        """
        if self._journal is None:
            return
        with self._lock:
            try:
                news = self._journal.news()
            except SessionEndedError:
                self.retire("another process, which ended it")
                raise
            self._require_principal(news)
            self._halted = next((one["halted"] for one in news if "halted" in one), self._halted)
            try:
                self._barred.update(one["barred"] for one in news if "barred" in one)
                self._conversation.apply_entries(one for one in news if "placed" in one or "settled" in one)
            except Exception:
                self.retire("an unreadable shared history")
                raise
            self._settle_counters([self._conversation.calls[one["settled"] - 1] for one in news if "settled" in one])
            self._follow()

    def _settle_counters(self, calls: Iterable[SessionCall]) -> None:
        """Settles calls in the counters, in case that the process that recorded their outcomes ended before it did."""
        if self._counters is not None:
            for call in calls:
                self._counters.settle(call)

    def _require_principal(self, news: Iterable[Mapping[str, Any]]) -> None:
        """Requires the calls of other processes to be of this session's principal, or of a part of it.

        Raises:
            InputError: another process continues the conversation for another principal.
        """
        for entry in news:
            if "placed" in entry and (principal := entry["placed"].get("principal")) != self._principal:
                try:
                    self._principal_of(principal or {"id": ""})
                except InputError as error:
                    self.retire("a call of another principal")
                    raise InputError(
                        f"another process continues this conversation for another principal: {error}"
                    ) from None

    def retire(self, why: str = "the restoration of its snapshot") -> None:
        """Retires this session after another one took over: it denies every call from then on."""
        with self._lock:
            self._halted = self._halted or why

    def status_of(self, output: Any, failed: bool | None) -> CallStatus:  # noqa: FBT001 - as in `record`
        """The status of a call with this output; see `record`."""
        pattern = self.policies.failed_output
        if pattern is not None and is_failure(pattern, output):
            return "failed"
        return "unknown" if failed is None else "failed" if failed else "ok"


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


@dataclass(frozen=True, slots=True)
class Permit:
    """Permits one call. Any change voids it; it is used once, before the call runs.

    Attributes:
        policy: the digest of the policy.
        session: the id of the session.
        place: the place of the call in the history, from 1.
        expires: the expiry in seconds since the epoch.
        nonce: a secret random value.
    """

    tool: str
    args: Mapping[str, Any]
    policy: str
    session: str
    place: int
    expires: float
    nonce: str = field(repr=False)
