"""Bounded replanning (*Solver-Aided Verification*, 3.2): a denied step goes back to the agent with what would mend it.

    result = enforce(agent_step, session)

`agent_step(feedback)` gives the agent's next step: a call `(tool, args)`, a list of calls to run together, or None
where it makes none. It is first asked with None, then with why its last step was denied. After so many replans without
an allowed step, control returns to the user.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from guardagent.errors import InputError
from guardagent.session.permit import Permit
from guardagent.session.session import Session
from guardagent.session.together import Call, judge_together, withdraw
from guardagent.types import EMPTY, Decision, Verdict, freeze, unchecked_verdict

MAX_REPLANS = 3  # the paper's
_EXPECTED = "expected a call (tool, args), a list of calls, or None"

AgentStep = Callable[[str | None], Any]
AsyncAgentStep = Callable[[str | None], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class AllowedCall:
    """A call that may run now, with the arguments that were judged. It is in flight: record its outcome."""

    tool: str
    args: Mapping[str, Any]
    verdict: Verdict
    permit: Permit


@dataclass(frozen=True, slots=True)
class Enforced:
    """What came of a step of the agent.

    Attributes:
        calls: what may run; empty where control returns to the user or the host.
        verdict: the last one: on what may run, or on what ended it; None where the agent made no call.
        replans: how often the agent was asked again.
        denied: how many denied calls violated each rule, by its id.
        unchecked: how many denied calls could not be checked, or were no calls.
        gave_up: whether the last replan was denied, too.
        why: how it ended, in words.
    """

    calls: tuple[AllowedCall, ...] = ()
    verdict: Verdict | None = None
    replans: int = 0
    denied: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    unchecked: int = 0
    gave_up: bool = False
    why: str = ""


def enforce(agent_step: AgentStep, session: Session, max_replans: int = MAX_REPLANS, **options: Any) -> Enforced:
    """Asks the agent for its next step until one is allowed, at most `max_replans` times more.

    Calls proposed together are allowed all or none; one that would halt or escalate is put by itself. A halt ends it at
    once; an escalated call goes back to the host, which may `session.approve(result.verdict)`. What `agent_step` raises
    passes through, with nothing placed.

    Args:
        agent_step: gives the next step, from why the last one was denied.
        session: judges it.
        max_replans: how often the agent may try again.
        options: those of `session.check`, such as `facts`.

    Raises:
        InputError: `max_replans` is no number of times, or `agent_step` a coroutine function.
    """
    planning = _Planning(session, max_replans, options)
    while True:
        step = agent_step(planning.feedback)
        if inspect.isawaitable(step):
            _discard(step)
            raise InputError("agent_step is a coroutine function; expected `await aenforce(...)`")
        if (result := planning.take(step)) is not None:
            return result


async def aenforce(
    agent_step: AsyncAgentStep, session: Session, max_replans: int = MAX_REPLANS, **options: Any
) -> Enforced:
    """As `enforce`, of a coroutine function."""
    planning = _Planning(session, max_replans, options)
    while True:
        step = agent_step(planning.feedback)
        if not inspect.isawaitable(step):
            raise InputError("agent_step is no coroutine function; expected `enforce(...)`, without await")
        if (result := planning.take(await step)) is not None:
            return result


def _discard(step: Any) -> None:
    """A coroutine that never runs says so unless it is closed."""
    if inspect.iscoroutine(step):
        step.close()


class _Planning:
    """Where the planning of one step stands: `feedback` is what the agent is asked with next."""

    def __init__(self, session: Session, max_replans: int, options: Mapping[str, Any]) -> None:
        if type(max_replans) is not int or max_replans < 0:
            raise InputError(f"max_replans is {max_replans!r}; expected a whole number from 0")
        if "reserve" in options:
            raise InputError("enforce takes no `reserve`; what it allows is to run")
        self.feedback: str | None = None
        self._session = session
        self._left = max_replans
        self._options = options
        self._replans = 0
        self._denied: Counter[str] = Counter()
        self._unchecked = 0

    def take(self, step: Any) -> Enforced | None:
        """What came of a step; None where the agent is to be asked again."""
        try:
            calls = _calls(step)
        except InputError as error:
            return self._again([(_NO_CALL, unchecked_verdict(str(error), checked_by="policy"))])
        if not calls:
            return self._ended("the agent proposes no call", None)
        judged = list(zip(*judge_together(self._session, calls, self._options), strict=True))
        worst = max((verdict for _, verdict in judged), key=lambda verdict: verdict.decision.severity)
        if worst.decision is Decision.ESCALATE:
            withdraw(self._session, [verdict for _, verdict in judged])
            return self._ended("a person's approval is needed", worst)
        if worst.decision is Decision.HALT or self._session.halted:
            self._count(judged)
            withdraw(self._session, [verdict for _, verdict in judged])
            return self._ended("the session is halted", worst)
        if worst.label == 0:
            calls_to_run = [AllowedCall(tool, freeze(args), one, one.permit) for (tool, args), one in judged]
            return self._ended("allowed", worst, tuple(calls_to_run))
        withdraw(self._session, [verdict for _, verdict in judged])
        return self._again(judged)

    def _again(self, judged: Sequence[tuple[Call, Verdict]]) -> Enforced | None:
        self._count(judged)
        verdict = next(verdict for _, verdict in judged if verdict.label)
        if not self._left:
            times = f"all {self._replans + 1} steps were" if self._replans else "the step was"
            reasons = "; ".join(verdict.reasons)
            return self._ended(f"{times} denied; of the last one: {reasons}", verdict, gave_up=True)
        self._left -= 1
        self._replans += 1
        self.feedback = _feedback(judged)
        return None

    def _count(self, judged: Sequence[tuple[Call, Verdict]]) -> None:
        denials = [verdict for _, verdict in judged if verdict.label]
        self._denied.update(rule for verdict in denials for rule in verdict.rules)
        self._unchecked += sum(not verdict.rules for verdict in denials)

    def _ended(
        self, why: str, verdict: Verdict | None, calls: tuple[AllowedCall, ...] = (), *, gave_up: bool = False
    ) -> Enforced:
        denied = MappingProxyType(dict(self._denied))
        return Enforced(calls, verdict, self._replans, denied, self._unchecked, gave_up, why)


_NO_CALL: Call = ("", EMPTY)


def _calls(step: Any) -> list[Call]:
    """The calls of a step.

    Raises:
        InputError: it is no step.
    """
    if step is None:
        return []
    if _is_call(step):
        return [(step[0], step[1])]
    if not isinstance(step, list | tuple):
        raise InputError(f"the step is a {type(step).__name__}; {_EXPECTED}")
    for call in step:
        if not _is_call(call):
            raise InputError(f"a call of the step is {_shown(call)}; {_EXPECTED}")
    return [(call[0], call[1]) for call in step]


def _is_call(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) == 2
        and isinstance(value[0], str)
        and isinstance(value[1], Mapping)
    )


def _shown(value: Any) -> str:
    return (
        f"a {type(value).__name__} of {len(value)}" if isinstance(value, list | tuple) else f"a {type(value).__name__}"
    )


def _feedback(judged: Sequence[tuple[Call, Verdict]]) -> str:
    """Why a step was denied, for the model."""
    if len(judged) == 1:
        return judged[0][1].feedback()
    said = [f"{call[0]} (call {at} of {len(judged)}): {_of(verdict)}" for at, (call, verdict) in enumerate(judged, 1)]
    return "\n".join(["None of these calls was made, as not all of them are allowed.", *said])


def _of(verdict: Verdict) -> str:
    return verdict.feedback() if verdict.label else "nothing stands against this one."
