"""Replays the traces of a file together, if the policy counts calls across conversations.

The events of all traces are replayed in the order of their times, against counters that begin at zero. So each event
needs a time, and one process has to see all of them.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from guardagent.batch.audit import judge_trace, replay
from guardagent.batch.lines import LineReader, open_bytes
from guardagent.batch.records import Trace, read_trace
from guardagent.errors import InputError, error_text
from guardagent.policy.policies import Policies
from guardagent.session.counters import CounterStore, new_counters
from guardagent.types import Verdict, unchecked_verdict


@dataclass(slots=True)
class TraceJudge:
    """Judges the traces of a file one by one, or together if the policy has counters.

    Attributes:
        path: the file.
    """

    path: str
    _verdicts: deque[Verdict] = field(default_factory=deque)

    def __call__(self, policies: Policies, trace: Trace) -> Verdict:
        return self._verdicts.popleft() if policies.counters else judge_trace(policies, trace)

    def prepare(self, policies: Policies, *, workers: int = 1, resume: bool = False) -> None:
        """Judges all traces, if the policy has counters.

        Raises:
            InputError: the traces cannot be replayed together; with the cause.
        """
        if not policies.counters:
            return
        for option, unfit in (("--workers", workers > 1), ("--resume", resume), ("-", self.path == "-")):
            if unfit:
                raise InputError(f"{_names(policies)}, so all traces are replayed together: {_ADVICE[option]}")
        self._verdicts = deque(judge_together(policies, list(self._traces(policies))))

    def _traces(self, policies: Policies) -> Iterator[Trace]:
        """Yields the readable traces. The run itself reports the others."""
        with open_bytes(self.path) as file:
            for chunk in LineReader(file).chunks():
                for line in chunk.lines:
                    try:
                        trace = read_trace(line.text(self.path), self.path, line.number, policies.failed_output)
                    except (InputError, RecursionError):
                        continue
                    require_times(policies, trace, f"{self.path}:{line.number}")
                    yield trace


_ADVICE = {
    "--workers": "run it without '--workers'",
    "--resume": "run it without '--resume'",
    "-": "expected a file, since standard input can be read only once",
}


def judge_together(policies: Policies, traces: Sequence[Trace]) -> list[Verdict]:
    """Judges traces whose events have times, in the order of these times; returns their verdicts."""
    store, now = new_counters(policies), [0.0]
    verdicts: list[Verdict | None] = [None] * len(traces)
    replays = [_Replay(policies, trace, store, now) for trace in traces]
    waiting = [(one.next_time, at) for at, one in enumerate(replays)]
    heapq.heapify(waiting)
    while waiting:
        now[0], at = heapq.heappop(waiting)
        verdicts[at] = replays[at].step()
        if verdicts[at] is None:
            heapq.heappush(waiting, (replays[at].next_time, at))
    return [one for one in verdicts if one is not None]


class _Replay:
    """One trace, replayed step by step."""

    def __init__(self, policies: Policies, trace: Trace, store: CounterStore | None, now: Sequence[float]) -> None:
        session = policies.session(
            trace.state,
            trace.facts,
            counters=store,
            clock=lambda: now[0],
            principal=trace.principal,
            on_difference=False,
        )
        self._times = deque(step.time or 0.0 for step in trace.steps)
        self._steps = replay(session, trace)

    @property
    def next_time(self) -> float:
        return self._times[0] if self._times else 0.0

    def step(self) -> Verdict | None:
        """Replays the next event; returns the verdict after the last one."""
        try:
            next(self._steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        except Exception as error:  # noqa: BLE001 - what crashes is denied
            return unchecked_verdict(error_text(error), checked_by="policy")
        last = self._times.popleft()
        if not self._times:
            self._times.append(last)  # the end of the trace
        return None


def require_times(policies: Policies, trace: Trace, place: str) -> None:
    last = float("-inf")
    for index, step in enumerate(trace.steps):
        if step.time is None:
            raise InputError(
                f"{place}: events[{index}] has no 'time'; {_names(policies)}, which are replayed in the order of time: "
                "add the time of each call's check, in seconds since the epoch"
            )
        if step.time < last:
            raise InputError(
                f"{place}: the 'time' of events[{index}] is earlier than that of the event before it; "
                f"{_names(policies)}, which are replayed in the order of time: correct the times"
            )
        last = step.time


def _names(policies: Policies) -> str:
    names = ", ".join(repr(counter.name) for counter in policies.counters)
    return f"the policy has counters across conversations ({names})"
