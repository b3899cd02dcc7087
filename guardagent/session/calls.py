"""The calls of a session that are allowed and not settled: their permits and their outcomes."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from guardagent.errors import InputError, SessionBusyError
from guardagent.policy.evaluation.monitor_interface import ClockError, Reading, SessionCall
from guardagent.policy.language.values import EXPECTED, MICROSECONDS
from guardagent.session.permit import Permit
from guardagent.session.session_verdicts import SessionVerdicts
from guardagent.session.shared_history import HistoryChangedError
from guardagent.session.state import MAX_TRIES
from guardagent.types import freeze, thaw
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
