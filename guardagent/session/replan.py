"""Bounded replanning (*Solver-Aided Verification*, 3.2): a denied step goes back to the agent with a remedy.

    result = enforce(agent_step, session)

`agent_step(feedback)` returns the agent's next step: a call `(tool, args)`, a list of calls to run together, or None
for no call. The first feedback is None; later feedback explains the denial of the last step. After the last replan
without an allowed step, control returns to the user. Calls to run together are all allowed, or none.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from guardagent.errors import InputError
from guardagent.session.session import Session
from guardagent.types import EMPTY, Decision, Permit, Verdict, freeze, unchecked_verdict

MAX_REPLANS = 3  # as in the paper
_EXPECTED = "expected a call '(tool, args)', a list of calls, or None"

ProposedCall = tuple[str, Mapping[str, Any]]  # a tool and its arguments
AgentStep = Callable[[str | None], Any]
AsyncAgentStep = Callable[[str | None], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class AllowedCall:
    """A call that may run now, with the judged arguments. It is in flight: record its outcome."""

    tool: str
    args: Mapping[str, Any]
    verdict: Verdict
    permit: Permit


@dataclass(frozen=True, slots=True)
class ReplanResult:
    """The result of replanning one step.

    Attributes:
        calls: the calls that may run; empty if control returns to the user or the host.
        verdict: the last verdict; None if the agent made no call.
        replans: the number of replans.
        denied: the number of denied calls that violated each rule, by rule id.
        unchecked: the number of denied calls that could not be checked or were invalid.
        gave_up: whether the last replan was denied too.
        why: the outcome in natural language.
    """

    calls: tuple[AllowedCall, ...] = ()
    verdict: Verdict | None = None
    replans: int = 0
    denied: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    unchecked: int = 0
    gave_up: bool = False
    why: str = ""


def enforce(agent_step: AgentStep, session: Session, max_replans: int = MAX_REPLANS, **options: Any) -> ReplanResult:
    """Requests steps from the agent until one is allowed, with at most `max_replans` replans.

    Calls proposed together are allowed all or none; a call that would halt or escalate is judged alone. A halt ends the
    loop at once; an escalated call goes back to the host, which can `session.approve(result.verdict)`. Errors of
    `agent_step` propagate, and no call is in flight then.

    Args:
        agent_step: returns the next step for the feedback on the last one.
        session: judges the calls.
        max_replans: the maximum number of replans.
        options: the options of `session.check`, such as `facts`.

    Raises:
        InputError: `max_replans` is not a whole number from 0, or `agent_step` is a coroutine function.
    """
    planning = _Replanner(session, max_replans, options)
    while True:
        step = agent_step(planning.feedback)
        if inspect.isawaitable(step):
            _discard(step)
            raise InputError("'agent_step' is a coroutine function; use 'await aenforce(...)'")
        if (result := planning.result_of(step)) is not None:
            return result


async def aenforce(
    agent_step: AsyncAgentStep, session: Session, max_replans: int = MAX_REPLANS, **options: Any
) -> ReplanResult:
    """Runs `enforce` with a coroutine function."""
    planning = _Replanner(session, max_replans, options)
    while True:
        step = agent_step(planning.feedback)
        if not inspect.isawaitable(step):
            raise InputError("'agent_step' is not a coroutine function; use 'enforce(...)' without await")
        if (result := planning.result_of(await step)) is not None:
            return result


def _discard(step: Any) -> None:
    """Closes a coroutine, to avoid the warning that it was never awaited."""
    if inspect.iscoroutine(step):
        step.close()


class _Replanner:
    """The state of replanning one step. `feedback` is the next feedback to the agent."""

    def __init__(self, session: Session, max_replans: int, options: Mapping[str, Any]) -> None:
        if type(max_replans) is not int or max_replans < 0:
            raise InputError(f"'max_replans' is {max_replans!r}; expected a whole number from 0")
        if "reserve" in options:
            raise InputError("'enforce' does not accept 'reserve'; it always reserves the calls that it allows")
        self.feedback: str | None = None
        self._session = session
        self._left = max_replans
        self._options = options
        self._replans = 0
        self._denied: Counter[str] = Counter()
        self._unchecked = 0

    def result_of(self, step: Any) -> ReplanResult | None:
        """The result of a step; None if the agent must replan."""
        try:
            calls = _calls(step)
        except InputError as error:
            return self._replan([(_NO_CALL, unchecked_verdict(str(error), checked_by="policy"))])
        if not calls:
            return self._result("the agent proposed no call", None)
        verdicts = list(zip(*judge_jointly(self._session, calls, self._options), strict=True))
        worst = max((verdict for _, verdict in verdicts), key=lambda verdict: verdict.decision.severity)
        if worst.label == 0 and not self._session.halted:
            allowed = [AllowedCall(tool, freeze(args), verdict, verdict.permit) for (tool, args), verdict in verdicts]
            return self._result("allowed", worst, tuple(allowed))
        withdraw(self._session, [verdict for _, verdict in verdicts])
        if worst.decision is Decision.ESCALATE:
            return self._result("human approval is required", worst)
        if worst.decision is Decision.HALT or self._session.halted:
            self._count(verdicts)
            return self._result("the session is halted", worst)
        return self._replan(verdicts)

    def _replan(self, verdicts: Sequence[tuple[ProposedCall, Verdict]]) -> ReplanResult | None:
        self._count(verdicts)
        verdict = next(verdict for _, verdict in verdicts if verdict.label)
        if not self._left:
            times = f"all {self._replans + 1} steps were" if self._replans else "the step was"
            reasons = "; ".join(verdict.reasons)
            return self._result(f"{times} denied; reasons for the last one: {reasons}", verdict, gave_up=True)
        self._left -= 1
        self._replans += 1
        self.feedback = _feedback(verdicts)
        return None

    def _count(self, verdicts: Sequence[tuple[ProposedCall, Verdict]]) -> None:
        denials = [verdict for _, verdict in verdicts if verdict.label]
        self._denied.update(rule for verdict in denials for rule in verdict.rules)
        self._unchecked += sum(not verdict.rules for verdict in denials)

    def _result(
        self, why: str, verdict: Verdict | None, calls: tuple[AllowedCall, ...] = (), *, gave_up: bool = False
    ) -> ReplanResult:
        denied = MappingProxyType(dict(self._denied))
        return ReplanResult(calls, verdict, self._replans, denied, self._unchecked, gave_up, why)


_NO_CALL: ProposedCall = ("", EMPTY)


def _calls(step: Any) -> list[ProposedCall]:
    """The calls of a step.

    Raises:
        InputError: the value is not a valid step.
    """
    if step is None:
        return []
    if _is_call(step):
        return [(step[0], step[1])]
    if not isinstance(step, list | tuple):
        raise InputError(f"the step has the type {type(step).__name__!r}; {_EXPECTED}")
    for call in step:
        if not _is_call(call):
            raise InputError(f"a call of the step is {_type_text(call)}; {_EXPECTED}")
    return [(call[0], call[1]) for call in step]


def _is_call(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) == 2
        and isinstance(value[0], str)
        and isinstance(value[1], Mapping)
    )


def _type_text(value: Any) -> str:
    return (
        f"a {type(value).__name__} of {len(value)}" if isinstance(value, list | tuple) else f"a {type(value).__name__}"
    )


def _feedback(verdicts: Sequence[tuple[ProposedCall, Verdict]]) -> str:
    """The feedback on a denied step for the model."""
    if len(verdicts) == 1:
        return verdicts[0][1].feedback()
    feedback_lines = [
        f"{call[0]} (call {at} of {len(verdicts)}): {_feedback_on(verdict)}"
        for at, (call, verdict) in enumerate(verdicts, 1)
    ]
    return "\n".join(["None of these calls was made, because not all of them are allowed.", *feedback_lines])


def _feedback_on(verdict: Verdict) -> str:
    return verdict.feedback() if verdict.label else "this call alone would be allowed."


# --- calls that are proposed together


def judge_jointly(
    session: Session, calls: Sequence[ProposedCall], options: Mapping[str, Any]
) -> tuple[Sequence[ProposedCall], Sequence[Verdict]]:
    """Returns the judged calls and their verdicts. Calls are recorded as in flight only if all are allowed.

    If a call would halt or escalate by itself, only the most severe such call is judged and returned. So a halt takes
    effect, and an approval refers to one call.

    Args:
        session: judges the calls.
        calls: the calls; at least one.
        options: the options of `session.check`.
    """
    if len(calls) == 1:
        return calls, [session.check(*calls[0], **options)]
    alone = [session.check(*call, **options, reserve=False) for call in calls]
    worst = max(range(len(calls)), key=lambda at: alone[at].decision.severity)
    if _escalates(alone[worst]):
        return judge_jointly(session, [calls[worst]], options)
    tried = session.fork().check_all(calls, **options)
    if any(verdict.label for verdict in tried):
        return calls, [_as_denial(verdict) if _escalates(verdict) else verdict for verdict in tried]
    return calls, session.check_all(calls, **options)


def _escalates(verdict: Verdict) -> bool:
    return verdict.decision >= Decision.ESCALATE


def _as_denial(verdict: Verdict) -> Verdict:
    """Downgrades a verdict that escalates or halts only in combination with calls that do not run."""
    return replace(verdict, decision=Decision.DENY, grant=None)


def withdraw(session: Session, verdicts: Sequence[Verdict]) -> None:
    """Withdraws allowed calls that do not run, because a concurrent call of another thread led to a denial."""
    for verdict in verdicts:
        if verdict.permit is not None and verdict.label == 0:
            session.withdraw(verdict.permit, "proposed together with a call that was denied")
