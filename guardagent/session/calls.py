"""The calls of a session that are allowed and not settled: permits, outcomes, and claims of other programs.

A program that runs a call itself claims it with a request of its own, and settles it in any process. The history has
the request and the verdict of a claimed call. A repetition of the request gets the verdict again, in any process that
shares the history, and the call has one place. Only the program that runs a claimed call settles it: its outcome, or
that it never ran. Each of these takes the next place in the history, so that a process which was stopped, and goes on
late, changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from guardagent.errors import InputError, SessionBusyError
from guardagent.policy.evaluation.monitor_interface import CallStatus, ClockError, Reading, SessionCall
from guardagent.policy.language.values import EXPECTED, MICROSECONDS
from guardagent.policy.monitors.conversation import Judgement
from guardagent.session.snapshot import HistoryChangedError, SessionEndedError
from guardagent.session.state import MAX_TRIES, Permit, SessionVerdicts, refused
from guardagent.types import Decision, Verdict, Violation, freeze, sorted_json, thaw
from guardagent.types.values import readable_copy

NO_TIME = f"the clock returned no time; {EXPECTED}"


class OpenCalls(SessionVerdicts):
    """Permits of calls in flight, and the record of their outcomes."""

    def permit_of(self, call: SessionCall) -> Permit | None:
        """The permit of a call that is in flight."""
        with self._lock:
            here = call in self._conversation.context.in_flight or call in self._lapsed
            if not here or self._mementos is not None:
                return None
            if call.permit is None:
                nonce = secrets.token_hex(16)
                digest = self.policies.digest
                call.permit = Permit(call.tool, call.args, digest, self.id, call.place, call.expires, nonce)
            return call.permit  # type: ignore[no-any-return]

    def use(
        self,
        permit: Permit,
        tool: str | None = None,
        args: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
    ) -> Mapping[str, Any]:
        """Uses a permit just before its call runs: once, before it expires, and for exactly the judged call.

        Args:
            permit: the permit of a call in flight.
            tool: the tool that is about to run, to compare with the permit.
            args: its arguments, to compare with the permit.
            timeout: seconds to wait for a running check; None waits without limit.

        Returns:
            The judged arguments as plain values.

        Raises:
            InputError: the permit is void.
            SessionBusyError: a running check exceeds `timeout`; the permit stays valid.
        """
        if not self._lock.acquire(timeout=-1 if timeout is None else timeout):
            raise SessionBusyError("another check of the conversation is running; the call may not run yet: try again")
        try:
            return self._use(permit, tool, args)
        finally:
            self._lock.release()

    def _use(self, permit: Permit, tool: str | None, args: Mapping[str, Any] | None) -> Mapping[str, Any]:
        call = self._call_of(permit)
        if call.used:
            raise InputError(f"the permit of {call.tool!r} (call {call.place}) was already used; check the call again")
        if call.lapsed or _seconds(self._clock.read()) > call.expires:
            raise InputError(f"the permit of {call.tool!r} (call {call.place}) has expired; check the call again")
        if (tool is not None and tool != call.tool) or (args is not None and freeze(args) != call.args):
            raise InputError(
                f"the permit is for another call; expected {call.tool!r} with the arguments that were judged"
            )
        self._conversation.began(call)
        self._follow()
        return thaw(call.args)  # type: ignore[no-any-return]

    def withdraw(self, permit: Permit, why: str = "it was not run", *, never_ran: bool = False) -> None:
        """Withdraws an allowed call that never runs. Rules ignore it from then on.

        Until a permit is used, later calls are judged as if its call might never run.

        Args:
            permit: the permit of a call in flight.
            why: the reason.
            never_ran: confirms that the permit was used but the call did not run.

        Raises:
            InputError: no such call is in flight, or its permit was used, so that it may be running.
        """
        with self._lock:
            call = self._call_of(permit)
            if call.lapsed:
                return
            if call.used and not never_ran:
                raise InputError(
                    f"{call.tool!r} (call {call.place}) may be running, since its permit was used; record its outcome"
                )
            self._settle(call, why, "withdrawn")

    def lapsed(self) -> tuple[Permit, ...]:
        """The permits that expired unused since the last call of this method. Their calls were withdrawn."""
        with self._lock:
            lapsed, self._lapses_reported = self._lapsed[self._lapses_reported :], len(self._lapsed)
            permits = [self.permit_of(call) for call in lapsed]
            return tuple(permit for permit in permits if permit is not None)

    def _lapse(self) -> None:
        """Withdraws the calls whose permits were requested and expired unused.

        A call whose permit was never requested, or that another process may have started, can have run: it stays in
        flight.
        """
        if self._mementos is not None or not self._conversation.context.in_flight:
            return
        try:
            now = _seconds(self._clock.read())
        except ClockError:  # no call has certainly expired
            return
        for call in list(self._conversation.context.in_flight):
            if call.expires < now and call.permit_requested and not call.used and not call.may_have_started:
                self._settle(call, "its permit expired unused", "withdrawn")
                call.lapsed = True
                self._lapsed.append(call)

    def _reinstate(self, call: SessionCall) -> SessionCall:
        """Records a withdrawn call as in flight again, because it ran without using its permit."""
        again = call.copied()
        again.permit, again.used, again.lapsed = call.permit, True, False
        again.output, again.status, again.reservation = None, None, None
        self._reserve_and_retry(again)
        at, call.permit = self._lapsed.index(call), None
        del self._lapsed[at]
        self._lapses_reported -= at < self._lapses_reported
        return again

    def _reserve_and_retry(self, call: SessionCall) -> None:
        for _ in range(MAX_TRIES):
            try:
                judgement, call.time = self._judge(call, call.applicability), None  # it ran at an unknown time
                return self._reserve(call, judgement)
            except HistoryChangedError:
                self.catch_up()
        raise HistoryChangedError(
            f"other processes kept extending the history; {call.tool!r} was not recorded; try again"
        )

    def _call_of(self, permit: Any) -> SessionCall:
        for call in (*self._conversation.context.in_flight, *self._lapsed):
            if call.permit is not None and call.permit == permit:
                return call
        raise InputError("the permit does not belong to a call in flight of this session; nothing was recorded")

    def record(self, output: Any = None, failed: bool | None = False, permit: Permit | None = None) -> None:  # noqa: FBT001, FBT002 - the public contract
        """Records the outcome of a call in flight.

        Args:
            output: the output of the tool.
            failed: whether the call failed; None if unknown. An output that matches the policy's `failed_output` counts
                as failed in any case.
            permit: the permit of the call; needed if several calls are in flight.

        Raises:
            InputError: no such call is in flight.
        """
        with self._lock:
            call = self._only_call() if permit is None else self._call_of(permit)
            try:
                kept, status = readable_copy(output), self.status_of(output, failed)
            except RecursionError:
                raise InputError(f"the output of {call.tool!r} is nested too deeply; record it as a string") from None
            call = self._reinstate(call) if call.lapsed else call
            self._settle(call, kept, status)

    def _only_call(self) -> SessionCall:
        in_flight = self._conversation.context.in_flight
        if self._lapsed:
            in_flight = [*in_flight, *self._lapsed]
        if len(in_flight) == 1:
            return in_flight[0]
        if not in_flight:
            raise InputError("there is nothing to record, since no call is in flight; check the call first")
        names = ", ".join(f"{call.tool!r} (call {call.place})" for call in in_flight)
        raise InputError(f"several calls are in flight: {names}; expected the permit of the call to record")


def _seconds(reading: Reading) -> float:
    """The seconds of a reading, for permits.

    Raises:
        ClockError: they are unknown.
    """
    moment = reading[0]
    if moment is None:
        raise ClockError(NO_TIME)
    return moment / MICROSECONDS


_NEW_ID = "propose the call again with a new id"


class NotClaimedError(InputError):
    """No claimed call has this id."""


class ClaimConflictError(InputError):
    """The call was settled differently."""


@dataclass(frozen=True, slots=True)
class ClaimSettlement:
    """The end of a claimed call.

    Attributes:
        call: the call.
        status: its outcome.
        repeated: whether it had been settled in this way before.
    """

    call: SessionCall
    status: CallStatus
    repeated: bool


class ClaimedCalls(OpenCalls):
    """Claims of calls, and their settlement by the id of the call."""

    def claimed(self, call_id: str) -> SessionCall | None:
        """The claimed call with this id."""
        with self._lock:
            calls = self._conversation.calls
            if len(calls) < self._claims_read:  # places of the history were taken back
                self._claims_read = 0
                self._claims.clear()
            for call in calls[self._claims_read :]:
                if call.claim is not None and call.id is not None:
                    self._claims[call.id] = call.place
            self._claims_read = len(calls)
            place = self._claims.get(call_id)
            found = None if place is None else calls[place - 1]
            return found if found is not None and found.id == call_id else None

    def claimed_verdict(self, call: SessionCall, request: str, started: float) -> Verdict | None:
        """The verdict on a call whose id was claimed before; None if it is new, and now claimed.

        The same request for the same call gets its verdict again. Another request for the call is refused, since the
        program that made the first one may run it.
        """
        if call.id in self._barred:
            return refused(f"call {call.id!r} was withdrawn before it was checked; {_NEW_ID}", started)
        earlier = None if call.id is None else self.claimed(call.id)
        if earlier is None:
            call.claim = {"request": request}
            return None
        if not _same_call(earlier, call):
            return refused(f"the id {call.id!r} belongs to another call; {_NEW_ID}", started)
        if earlier.status is not None:
            return refused(f"call {call.id!r} has ended already; {_NEW_ID}", started)
        assert earlier.claim is not None
        if earlier.claim["request"] != request:
            return refused(
                f"call {call.id!r} is in flight for another request, which may run it: record its outcome", started
            )
        return _verdict_of(thaw(earlier.claim["verdict"]))

    def settle_claimed(self, call_id: str, output: Any, failed: bool | None) -> ClaimSettlement:  # noqa: FBT001
        """Records the outcome of a claimed call, once.

        Raises:
            NotClaimedError: no claimed call has this id.
            ClaimConflictError: another outcome was recorded.
        """
        try:
            kept, status = readable_copy(output), self.status_of(output, failed)
        except RecursionError:
            raise InputError("the output is nested too deeply; record it as a string") from None
        return self._settle_once(call_id, kept, status)

    def withdraw_claimed(self, call_id: str, why: str) -> ClaimSettlement | None:
        """Withdraws a claimed call that never ran. An id that was never claimed cannot be claimed later.

        Raises:
            ClaimConflictError: an outcome was recorded.
        """
        for _ in range(MAX_TRIES):
            with self._lock:
                if self.claimed(call_id) is not None:
                    return self._settle_once(call_id, why, "withdrawn")
                if call_id in self._barred:
                    return None
                try:
                    self._publish({"barred": call_id})
                except HistoryChangedError:
                    self.catch_up()
                else:
                    self._barred.add(call_id)
                    return None
        raise HistoryChangedError("other processes kept extending the history; nothing was withdrawn; try again")

    def close(self, why: str) -> None:
        """Closes the conversation for all processes: no call is allowed from then on.

        Raises:
            SessionEndedError: it has ended.
        """
        for _ in range(MAX_TRIES):
            with self._lock:
                if self._halted == why:
                    return
                try:
                    self._halt(why)
                except HistoryChangedError:
                    self.catch_up()
                else:
                    return
        raise HistoryChangedError("other processes kept extending the history; the conversation goes on; try again")

    def _reserve_claimed(self, call: SessionCall, judgement: Judgement | None, verdict: Verdict) -> None:
        """Adds an allowed call to the history. A claimed one may run from then on."""
        if call.claim is None:
            self._reserve(call, judgement)
            return
        found = verdict.to_dict()
        # A rule, or a reason, may have a value that is no JSON.
        plain = json.loads(verdict.to_json()) if found["reasons"] or found["violations"] or found["details"] else found
        call.claim = {**call.claim, "verdict": plain}
        self._reserve(call, judgement)
        call.used = call.may_have_started = True

    def _settle_once(self, call_id: str, output: Any, status: CallStatus) -> ClaimSettlement:
        with self._lock:
            call = self.claimed(call_id)
            if call is None:
                raise NotClaimedError(f"no call {call_id!r} is in flight; expected the id of a call that was allowed")
            if call.status is None:
                try:
                    self._settle(call, output, status)
                except (SessionEndedError, HistoryChangedError):
                    raise
                except InputError:
                    if call.status is None:
                        raise  # otherwise another process was faster
                else:
                    return ClaimSettlement(call, status, repeated=False)
            if call.status != status or (status != "withdrawn" and _text(call.output) != _text(output)):
                raise ClaimConflictError(
                    f"call {call_id!r} ended with the outcome {call.status!r}; nothing was recorded again"
                )
            return ClaimSettlement(call, call.status, repeated=True)

    def _publish(self, entry: Mapping[str, Any]) -> None:
        if self._journal is not None:
            self._journal.append(entry)


def _verdict_of(stored: Mapping[str, Any]) -> Verdict:
    """The verdict of an allowed call, from the history."""
    found = [Violation(**one) for one in stored["violations"]]
    return Verdict(
        Decision[stored["decision"].upper()],
        tuple(stored["reasons"]),
        tuple(found),
        details=stored["details"],
        checked_by=stored["checked_by"],
        elapsed_ms=stored["elapsed_ms"],
    )


def _same_call(one: SessionCall, other: SessionCall) -> bool:
    def named(call: SessionCall) -> tuple[Any, ...]:
        return call.tool, _text(call.args), call.action, call.tags, call.agent, _text(call.principal)

    return named(one) == named(other)


def _text(value: Any) -> str:
    return hashlib.sha256(sorted_json(value).encode("utf-8", "surrogatepass")).hexdigest()
