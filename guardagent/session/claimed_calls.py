"""Calls that another program runs: it claims a call with a request of its own, and settles it in any process.

The history has the request and the verdict of a claimed call. A repetition of the request gets the verdict again, in
any process that shares the history, and the call has one place. Only the program that runs a claimed call settles it:
its outcome, or that it never ran. Each of these takes the next place in the history, so that a process which was
stopped, and goes on late, changes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from guardagent.errors import InputError
from guardagent.policy.evaluation.monitor_interface import CallStatus, SessionCall
from guardagent.policy.monitors.conversation import Judgement
from guardagent.session.calls import OpenCalls
from guardagent.session.session_verdicts import refused
from guardagent.session.shared_history import HistoryChangedError, SessionEndedError
from guardagent.session.state import MAX_TRIES
from guardagent.types import Decision, Verdict, Violation, sorted_json, thaw
from guardagent.types.values import readable_copy

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
