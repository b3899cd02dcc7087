"""The shadow of a session: a candidate policy that judges the same calls, without any effect on the session.

The session only hands over what happened. One background thread of the process judges it, in order, and reports the
decisions that differ. Nothing waits for that thread: at most `CAPACITY` steps wait for it, and a candidate that falls
behind loses the rest of its conversations, which is reported. A candidate that crashes is reported in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from guardagent._support.execution import WorkerThread
from guardagent.errors import error_text
from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.monitors.conversation import ConversationState, Judgement
from guardagent.policy.policies import Policies
from guardagent.types import Verdict, thaw

if TYPE_CHECKING:
    import logging

CAPACITY = 10_000  # steps that wait for the background thread

_worker = WorkerThread(CAPACITY)


@dataclass(frozen=True, slots=True)
class ShadowDifference:
    """A call, or the end of a conversation, on which a candidate decides otherwise.

    Attributes:
        session: the id of the session.
        tool: the tool; empty at the end.
        args: the arguments of the call.
        call_id: the host's id of the call.
        agent: the agent that proposed it.
        live: the decision in force, and its violated rules.
        candidate: the candidate's decision, its violated rules, and the rules that it could not decide.
        errors: the causes of the latter, or the reason why the candidate no longer judges.
        policy: the digest of the candidate.
    """

    session: str
    tool: str
    args: Mapping[str, Any]
    call_id: str | None
    agent: str | None
    live: Mapping[str, Any]
    candidate: Mapping[str, Any]
    errors: tuple[str, ...]
    policy: str

    def __str__(self) -> str:
        rules = ", ".join((*self.candidate.get("rules", ()), *self.candidate.get("undecided", ())))
        decision = f"{self.live.get('decision')} -> {self.candidate.get('decision')}"
        what = self.tool or "the end of the conversation"
        return f"shadow: {what} in {self.session!r}: {decision}{f' ({rules})' if rules else ''}"


OnDifference = Callable[[ShadowDifference], None]


def log_difference(difference: ShadowDifference) -> None:
    """Reports a difference to the logger `guardagent`, without arguments."""
    _log().warning("%s", difference)


def wait_for_shadows() -> None:
    """Waits until the candidates have judged everything so far, for tests and before a process ends."""
    _worker.wait()


class SessionShadow:
    """The candidate's side of one session. The session calls it under its lock; all work is done in the background.

    Args:
        candidate: the candidate.
        session: the id of the session.
        facts: the facts of the session.
        report: receives each difference, in the background.
        worker: the background thread.
    """

    def __init__(
        self,
        candidate: Policies,
        session: str,
        facts: Mapping[str, Any],
        report: OnDifference,
        worker: WorkerThread = _worker,
    ) -> None:
        self._candidate, self._session, self._report, self._worker = candidate, session, report, worker
        self._placed = 0  # the calls that were handed over
        self._open: dict[int, bool] = {}  # place of a call in flight -> whether its beginning was handed over
        self._stopped = False
        self._state = ConversationState(candidate, None, facts)  # from here on, of the background thread
        self._calls: dict[int, SessionCall] = {}
        self._judged: tuple[int, Judgement] = (0, Judgement())  # the place of the last judged call, and its judgement

    # --- on the session's side

    def check(self, call: SessionCall, verdict: Verdict, state: Any) -> None:
        """Hands over a judged call, before it is added to the history. `state`: as the session has read it."""
        self._submit(partial(self._judge, call.copied(), _live(verdict), state))

    def end(self, verdict: Verdict, state: Any) -> None:
        """Hands over the end of the conversation."""
        self._submit(partial(self._judge_end, _live(verdict), state))

    def follow(self, calls: Sequence[SessionCall], state: Any) -> None:
        """Hands over the calls that were added, have begun, or have ended."""
        for call in calls[self._placed :]:
            added = call.copied()
            added.output, added.status = None, None
            self._submit(partial(self._add, added))
            self._open[call.place] = False
        self._placed = len(calls)
        for place, begun in list(self._open.items()):
            call = calls[place - 1]
            if call.used and not begun:
                self._open[place] = True
                self._submit(partial(self._begin, place))
            if call.status is not None:
                del self._open[place]
                self._submit(partial(self._settle, place, call.output, call.status, state))

    def _submit(self, work: Callable[[], None]) -> None:
        if not self._stopped and not self._worker.submit(partial(self._run, work)):
            self._give_up("it is too slow: too many steps are waiting")

    # --- in the background

    def _run(self, work: Callable[[], None]) -> None:
        if self._stopped:
            return
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - code of the candidate may even raise SystemExit
            self._give_up(error_text(error))

    def _judge(self, call: SessionCall, live: Mapping[str, Any], state: Any) -> None:
        self._state.context.state_source = state
        self._read_anew(call)
        judged = self._state.judge(call, call.applicability) or Judgement()
        self._judged = call.place, judged
        self._compare(call, live, judged)

    def _judge_end(self, live: Mapping[str, Any], state: Any) -> None:
        self._state.context.state_source = state
        self._compare(None, live, self._state.pending_obligations())

    def _add(self, call: SessionCall) -> None:
        self._read_anew(call)
        self._calls[call.place] = call
        place, judged = self._judged
        if place != call.place:  # another process judged it
            judged = self._state.judge(call, call.applicability) or Judgement()
        self._state.reserve(call, judged)

    def _read_anew(self, call: SessionCall) -> None:
        """Reads a call as the candidate does: it may resolve other tools that call tools."""
        (call.tool, call.args), call.sent = call.runs, None
        call.applicability = self._candidate.dispatched(call, self._candidate.applicability(call))

    def _begin(self, place: int) -> None:
        self._state.began(self._calls[place])

    def _settle(self, place: int, output: Any, status: Any, state: Any) -> None:
        self._state.context.state_source = state
        self._state.settle(self._calls.pop(place), output, status)

    def _compare(self, call: SessionCall | None, live: Mapping[str, Any], judged: Judgement) -> None:
        candidate = {
            "decision": str(judged.decision()),
            "rules": tuple(source.id for source, _ in judged.broken),
            "undecided": tuple(rule for rule in judged.undecided if rule),
        }
        if candidate["decision"] == live["decision"] and set(candidate["rules"]) == set(live["rules"]):
            return
        call = call or SessionCall("", {})
        args, errors, policy = thaw(call.args), tuple(judged.errors), self._candidate.digest
        difference = ShadowDifference(
            self._session, call.tool, args, call.id, call.agent, live, candidate, errors, policy
        )
        try:
            self._report(difference)
        except Exception as error:  # noqa: BLE001 - a host's function
            _log().error("a difference of the candidate could not be reported: %s", error_text(error))

    def _give_up(self, why: str) -> None:
        self._stopped = True
        _log().error("the candidate no longer judges the session %r: %s", self._session, why)


def _live(verdict: Verdict) -> dict[str, Any]:
    return {"decision": str(verdict.decision), "rules": verdict.rules}


def _log() -> logging.Logger:
    import logging  # here: most sessions log nothing

    return logging.getLogger("guardagent")
