"""Observes calls that have already happened: they are recorded with their outcomes, whatever the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from guardagent.errors import InputError
from guardagent.policy.evaluation.monitor_interface import CallStatus, Clock, Reading, SessionCall
from guardagent.policy.monitors.conversation import Judgement
from guardagent.policy.policies import Applicability
from guardagent.session.checks import ALLOW, ALLOWED, Checks
from guardagent.types import ATOMS, Event, Verdict, new
from guardagent.types.values import readable_copy

ReplayedStep = tuple[Event, Any, Mapping[str, Any] | None, Any]


class Observations(Checks):
    """Judges and records calls that have already happened."""

    def observe(
        self, event: Event, state: Any = None, facts: Mapping[str, Any] | None = None, *, judge: bool = True
    ) -> Verdict:
        """Records a call that has already happened, whatever the verdict. It never halts the session.

        Args:
            event: the call with its outcome. Without a status, the policy's `failed_output` decides; without that
                pattern the status is unknown. Its `time` is `now` for this call; without it, the clock gives `now`, and
                the time of the call is unknown.
            state: the state for `state(...)` from this call on; None keeps the current one.
            facts: facts for this call; they override those of the conversation.
            judge: False records the call without judging it.

        Raises:
            InputError: the time of the event is invalid.
        """
        started = time.perf_counter()
        with self._lock:
            call, reading = self._observed(event, state, facts)
            judgement = self._conversation.judge(call, call.applicability, reading=reading) or Judgement()
            verdict = self._verdict(call, judgement, judgement.decision(), started) if judge else ALLOWED
            self._reserve(call, judgement)
            self._settle(call, readable_copy(event.output), event.status or self._observed_status(event))
            return verdict

    def replay(self, steps: Iterable[ReplayedStep], report: Callable[[int, Verdict], None]) -> None:
        """Observes the next events of a finished trace, with the same verdicts as `observe` in less time.

        The history then has a gap for each event that no rule looks at.

        Args:
            steps: each event, with the new state and the facts for `observe`; the last value is ignored.
            report: receives the index of a step and its verdict, but no plain allowance: one without a warning and
                without the use of a model.
        """
        with self._lock:
            conversation, passed = self._conversation, False
            alone = conversation.is_alone and not self._is_followed and not self.policies.is_scoped
            for index, (event, state, facts, _) in enumerate(steps):
                if alone:
                    applicability = self.policies.for_everyone(event)
                    passed = (
                        applicability.unjudged
                        and type(event.output) in ATOMS
                        and event.status is not None
                        and state is None
                        and facts is None
                        and event.principal is None
                    )
                    if passed:
                        reading = None if event.time is None else _reading_of(self._clock, event)
                        if applicability.ignored:
                            conversation.add_ignored(reading)
                        else:
                            conversation.add_unjudged(event, applicability, self._facts, reading)
                        continue
                    verdict = self._replayed(event, state, facts, applicability)
                else:
                    verdict = self.observe(event, state, facts)
                if verdict is not None and (verdict.decision is not ALLOW or verdict.usage.calls):
                    report(index, verdict)
            if passed:
                conversation.context.refresh(self._facts)

    def _replayed(
        self, event: Event, state: Any, facts: Mapping[str, Any] | None, applicability: Applicability
    ) -> Verdict | None:
        """As `observe`; None if every check passes."""
        started, conversation = time.perf_counter(), self._conversation
        call, reading = self._observed(event, state, facts, applicability)
        judgement = conversation.judge(call, applicability, reading=reading)
        verdict = None if judgement is None else self._verdict(call, judgement, judgement.decision(), started)
        output = event.output
        if type(output) not in ATOMS:
            output = readable_copy(output)
        conversation.add_settled(call, judgement, output, event.status or self._observed_status(event))
        return verdict

    def _observed(
        self,
        event: Event,
        state: Any,
        facts: Mapping[str, Any] | None,
        applicability: Applicability | None = None,
    ) -> tuple[SessionCall, Reading | None]:
        """(the call that has happened, the time of its check); sets the new state."""
        conversation, reading = self._conversation, None
        if state is not None:
            conversation.context.state_source = state
        call: SessionCall = new(SessionCall)
        call.tool, call.args, call.place = event.tool, event.args, len(conversation.calls) + 1
        call.action, call.decision, call.tags = event.action, event.decision, event.tags
        call.agent, call.id = event.agent, event.id
        call.facts = self._facts if facts is None else {**self._facts, **facts}
        if event.time is not None:
            reading = _reading_of(self._clock, event)
            call.time = conversation.context.time_of(reading)
        call.principal = self._principal if event.principal is None else self._principal_of(event.principal)
        call.applicability = applicability or self.policies.applicability(call)
        return call, reading

    def _observed_status(self, event: Event) -> CallStatus:
        """The status of an event without one."""
        return self.status_of(event.output, None if self.policies.failed_output is None else False)


def _reading_of(clock: Clock, event: Event) -> Reading:
    try:
        return clock.reading_of(event.time)
    except ValueError as error:
        raise InputError(f"the time of the event {event.tool!r} is invalid: {error}") from None
