"""Judges one recorded conversation again: its calls in order, with the outcomes that were recorded.

The calls that ran are the history, whatever the candidate says of them. Nothing outside is read or changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from guardagent.batch.replay.candidate import ReplayPolicy
from guardagent.batch.replay.log_steps import LoggedCall, LogStep
from guardagent.batch.replay.recorded_values import is_complete
from guardagent.policy.evaluation.call_outcomes import is_failure
from guardagent.policy.evaluation.monitor_interface import CallStatus, Clock, MonitorResult, Reading, SessionCall
from guardagent.policy.language.values import parsed_instant
from guardagent.policy.monitors.conversation import ConversationState, Judgement
from guardagent.policy.monitors.remedies import message_of
from guardagent.policy.monitors.rule import Rule, RuleMetadata
from guardagent.types import EMPTY, Check, Decision, freeze

NO_RULE = ""
"""Stands for the checks beyond the rules: undeclared tools and arguments, and `unlisted: deny`."""
UNKNOWN = "unknown"
"""The answer of a rule that cannot be decided for a reason of its own, which denies."""

_NO_ARGUMENTS = "the log does not hold the arguments of a call of {!r}"
_INCOMPLETE = "the log does not hold every value that a program reads"
_OTHER_ORDER = "the log lacks earlier calls of this conversation, or has them in another order"
_COUNTERS = "counters across conversations are not replayed"
_NO_ZONE = "the log does not hold the time zone of the clock"
_NO_AGENT = "the log redacts the agents, and the scope of the rule can depend on them"
_MAY_RUN = "the log does not tell whether a call in flight had begun"


def _no_reason(_rule: str) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class RuleAnswers:
    """The answers of a policy's rules to one call, or to the end of a conversation.

    Attributes:
        decision: the decision; None if an undecidable rule could change it.
        rules: rule id -> the decision of each violated rule, or `unknown`.
        undecidable: rule id -> the reason why the log does not determine its answer.
        reason: returns the reason of a rule's answer.
    """

    decision: str | None
    rules: Mapping[str, str] = field(default_factory=dict)
    undecidable: Mapping[str, str] = field(default_factory=dict)
    reason: Callable[[str], str] = _no_reason


class _RecordedState(ConversationState):
    """The calls of a recorded conversation. Only programs that see complete values judge its `request:` policies."""

    problem = ""  # why no program can judge

    def request_checks(self, judged: Judgement) -> Iterable[tuple[RuleMetadata, Check]]:
        for source, check in super().request_checks(judged):
            if self.problem or getattr(check, "asks_model", False):
                continue
            yield source, check


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """A proposed call with its judgement, to be recorded if it was allowed."""

    recorded: LoggedCall
    call: SessionCall
    judgement: Judgement


class ReplayedConversation:
    """One conversation under a candidate.

    Args:
        candidate: the policy.
        state: the state for `state(...)`.
        facts: the facts at the beginning.
    """

    def __init__(self, candidate: ReplayPolicy, state: Any, facts: Mapping[str, Any] = EMPTY) -> None:
        self._candidate = candidate
        self._state = _RecordedState(candidate.policies, state, facts, clock=Clock(lambda: None))
        self._open: list[JudgedCall] = []
        self._uncertain: list[tuple[SessionCall, str]] = []  # calls whose arguments or outcomes are unknown
        self._disordered = self._redacts_agents = False

    def has_begun_anew(self, call: LoggedCall) -> bool:
        """Whether a call is the first of another conversation with the same id."""
        return call.place == 1 and bool(self._state.calls)

    def change_state(self, state: Any) -> None:
        """Sets the state for `state(...)` from now on."""
        self._state.context.state_source = state

    # --- judging

    def judge(self, recorded: LoggedCall, lifted: frozenset[str] = frozenset()) -> tuple[RuleAnswers, JudgedCall]:
        """Returns the answers to a proposed call, and its judgement. `lifted`: rules that a reviewer approved."""
        call = self._session_call(recorded)
        if recorded.args is None:
            self._uncertain.append((call, _NO_ARGUMENTS.format(recorded.tool)))
        if not recorded.complete:
            self._state.problem = _INCOMPLETE
        self._disordered |= recorded.place is not None and recorded.place != call.place
        self._redacts_agents |= recorded.redacts_agent
        judged = self._state.judge(call, call.applicability, reading=self._reading(recorded, call)) or Judgement()
        unclear = dict(self._unclear(call, judged))
        return self._answers(judged, unclear, lifted), JudgedCall(recorded, call, judged)

    def end(self, principal: Any = None) -> RuleAnswers:
        """Returns the answers at the end of the conversation. `principal`: that of the session."""
        self._state.context.session_principal = freeze(principal)
        rules = self._candidate.policies.rules
        unclear = dict(self._uncertain_rules(rules))
        if self._disordered:
            unclear.update({rule.id: _OTHER_ORDER for rule in rules})
        if self._redacts_agents:
            unclear.update(dict.fromkeys(self._candidate.scoped_rules(), _NO_AGENT))
        return self._answers(self._state.pending_obligations(), unclear, frozenset(), at_end=True)

    def _reading(self, recorded: LoggedCall, call: SessionCall) -> Reading:
        """The time of the check, which also becomes the time of the call."""
        clock, time = self._state.context.clock, recorded.time
        try:
            reading = clock.reading_of(parsed_instant(time) if isinstance(time, str) else time)
        except ValueError:
            reading = clock.reading_of(None)
        reading = (reading[0], recorded.zone or reading[1])
        call.time = self._state.context.time_of(reading)
        return reading

    def _session_call(self, recorded: LoggedCall) -> SessionCall:
        call = SessionCall(recorded.tool, recorded.args or EMPTY, len(self._state.calls) + 1)
        call.labelled(recorded.action, recorded.decision, recorded.tags)
        call.facts, call.id, call.agent = recorded.facts, recorded.call_id, recorded.agent
        call.principal = freeze(recorded.principal)
        call.applicability = self._candidate.policies.applicability(call)
        return call

    def _unclear(self, call: SessionCall, judged: Judgement) -> Iterator[tuple[str, str]]:
        """Yields the rules that the log leaves undecided for other reasons than a value, with the reason."""
        candidate = self._candidate
        if self._uncertain and self._uncertain[-1][0] is call:
            yield NO_RULE, self._uncertain[-1][1]
        yield from self._uncertain_rules(candidate.rules_of(call))
        yield from ((rule, _COUNTERS) for rule in candidate.counter_rules(call))
        if (self._state.context.check_time or (None, None))[1] is None:
            yield from ((rule, _NO_ZONE) for rule in candidate.zone_rules(call))
        if self._redacts_agents:
            yield from ((rule, _NO_AGENT) for rule in candidate.scoped_rules())
        yield from ((rule, "a model would have to read the conversation") for rule in candidate.model_rules(call))
        if self._disordered:
            yield from ((rule, _OTHER_ORDER) for rule in candidate.history_rules(call))
        if NO_RULE not in judged.undecided:
            yield from self._unclear_requests()
        if self._state.context.in_flight and (judged.broken or judged.undecided):
            yield from ((rule, _MAY_RUN) for rule in self._rules_of_begun_calls(call, judged))

    def _uncertain_rules(self, rules: Iterable[Rule]) -> Iterator[tuple[str, str]]:
        for rule in rules if self._uncertain else ():
            for call, why in self._uncertain:
                labels = {f"action:{call.action}", f"decision:{call.decision}", *call.tags}
                if call.tool in rule.tools or rule.labels & labels:
                    yield rule.id, why

    def _unclear_requests(self) -> Iterator[tuple[str, str]]:
        problem = self._state.problem or (_OTHER_ORDER if self._disordered else "")
        for source, check in self._candidate.policies.requests:
            if getattr(check, "asks_model", False):
                yield source.id, "a model would have to judge it"
            elif problem:
                yield source.id, problem

    def _rules_of_begun_calls(self, call: SessionCall, judged: Judgement) -> Iterator[str]:
        """Yields the rules whose answers would differ if the calls in flight had begun, so that they surely run."""
        trial = self._state.copied()
        for one in trial.context.in_flight:
            trial.began(one)
        other = trial.judge(call, replace(call.applicability, needs_more_checks=False)) or Judgement()
        first, second = _standing(judged), _standing(other)
        for rule in self._candidate.policies.rules:
            if first.get(rule.id) != second.get(rule.id):
                yield rule.id

    def _answers(
        self, judged: Judgement, unclear: dict[str, str], lifted: frozenset[str], *, at_end: bool = False
    ) -> RuleAnswers:
        rules = {source.id: str(source.on_violation) for source, _ in judged.broken}
        for rule, value in judged.undecided.items():
            if rule in rules:
                continue
            rules[rule] = UNKNOWN if rule else str(Decision.DENY)
            if value is not None and value.unrecorded:
                unclear.setdefault(rule, "; ".join(value.why))
            elif value is None and rule != NO_RULE and self._state.problem:
                unclear.setdefault(rule, self._state.problem)
        rules = {rule: answer for rule, answer in rules.items() if rule not in unclear}
        if lifted.issuperset(escalated := [rule for rule, answer in rules.items() if answer == "escalate"]):
            rules = {rule: answer for rule, answer in rules.items() if rule not in escalated}
        return RuleAnswers(_decision(rules, unclear), rules, unclear, partial(_reason, judged, at_end))

    # --- recording

    def reserve(self, judged: JudgedCall) -> None:
        """Adds a call that was allowed to the history, as in flight."""
        self._state.reserve(judged.call, judged.judgement)
        self._open.append(judged)

    def settle(self, step: LogStep, *, final: bool = False) -> None:
        """Records the outcome of a call in flight. `final`: whether the candidate's `failed_output` is applied."""
        assert step.call is not None
        found = self._find(step.call)
        if found is None:
            call = self._session_call(step.call)
            self._uncertain.append(
                (call, f"the log has an outcome of {call.tool!r} without the call that it belongs to")
            )
            self._disordered = True
            return
        if step.in_flight:
            return
        self._open.remove(found)
        if not is_complete(step.output):
            self._state.problem = _INCOMPLETE
        status = step.status if final else self._status(found.call, step.status, step.output)
        self._state.settle(found.call, step.output, status)

    def _find(self, call: LoggedCall) -> JudgedCall | None:
        """Returns the call in flight to which an outcome belongs: by its permit, else its id, else its tool."""
        same_tool = [one for one in self._open if one.recorded.tool == call.tool]
        if call.nonce is not None:
            return next((one for one in self._open if one.recorded.nonce == call.nonce), None)
        if call.call_id is not None:
            same_tool = [one for one in same_tool if one.recorded.call_id == call.call_id]
        return same_tool[-1] if same_tool else None

    def _status(self, call: SessionCall, status: CallStatus, output: Any) -> CallStatus:
        """The status of a call. An output that matches the candidate's `failed_output` is a failure."""
        pattern = self._candidate.policies.failed_output
        if pattern is None or status not in ("ok", "unknown"):
            return status
        if not is_complete(output):
            self._uncertain.append((call, f"the log does not tell whether the output of {call.tool!r} is a failure"))
            return status
        return "failed" if is_failure(pattern, output) else status


def _standing(judged: Judgement) -> dict[str, str]:
    violated = {source.id: "violated" for source, _ in judged.broken}
    return {**dict.fromkeys(judged.undecided, UNKNOWN), **violated}


def _decision(rules: Mapping[str, str], unclear: Mapping[str, str]) -> str | None:
    """The decision of a guard: an escalation that no approval can lift is a denial."""
    if unclear:
        return None
    decisions = [Decision.DENY if answer == UNKNOWN else Decision(answer) for answer in rules.values()]
    worst = max(decisions, default=Decision.ALLOW)
    return str(Decision.DENY if worst is Decision.ESCALATE and Decision.DENY in decisions else worst)


def _reason(judged: Judgement, at_end: bool, rule: str) -> str:  # noqa: FBT001 - a value
    """The reason of a rule's answer. Call it before the next step: later it may see other values."""
    results: Iterator[tuple[RuleMetadata, MonitorResult]] = (one for one in judged.broken if one[0].id == rule)
    for source, result in results:
        return message_of(source, result.explain(), None, earlier=not at_end)
    prefix = f"{rule}: " if rule else ""
    return next((error.removeprefix(prefix) for error in judged.errors if error.startswith(prefix)), "")
