"""The history of a session: calls are reserved and settled, here and for other processes that share the session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from guardagent.errors import InputError
from guardagent.policy.evaluation.call_outcomes import is_failure
from guardagent.policy.evaluation.monitor_interface import CallStatus, SessionCall
from guardagent.policy.monitors.conversation import Judgement
from guardagent.session.session_state import SessionState
from guardagent.session.shared_history import HistoryChangedError, SessionEndedError

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
