"""Judges one recorded conversation again: its calls in order, with the outcomes that were recorded.

The policy, the values of log entries and the steps of conversations come first. The calls that ran are the history,
whatever the candidate says of them. Nothing outside is read or changed, and no model is called.

What the log hides or cuts becomes an unknown value that is marked as unrecorded. A rule that depends on such a value is
undecidable, even if it only asks whether the value is known. A rule that holds whatever the value is stays decided.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NoReturn

from guardagent.errors import InputError, ModelError
from guardagent.log.records import MARK, MAX_STRING
from guardagent.log.verification import ParsedEntry, Selection
from guardagent.models import Message
from guardagent.policy.evaluation.call_outcomes import is_failure
from guardagent.policy.evaluation.monitor_interface import CallStatus, Clock, MonitorResult, Reading, SessionCall
from guardagent.policy.language import ast
from guardagent.policy.language.values import Unknown, Unrecorded, parsed_instant
from guardagent.policy.load import load_policies
from guardagent.policy.monitors.conversation import ConversationState, Judgement
from guardagent.policy.monitors.remedies import message_of
from guardagent.policy.monitors.rule import Rule, RuleMetadata
from guardagent.policy.policies import Policies
from guardagent.types import EMPTY, Check, Decision, freeze

# --- the policy


@dataclass(frozen=True, slots=True)
class NoModel:
    """Stands for the model of a policy that is only replayed."""

    def complete(self, messages: Sequence[Message]) -> NoReturn:  # noqa: ARG002 - as of a model
        """Refuses to answer.

        Raises:
            ModelError: always.
        """
        raise ModelError("a replay calls no model")


def load_replay_policy(path: Path | str, locked: Path | None = None) -> ReplayPolicy:
    """Loads a policy file for a replay.

    Raises:
        InputError: as `load_policies`.
    """
    return ReplayPolicy(load_policies(path, model=NoModel(), locked=locked))


@dataclass(frozen=True)
class ReplayPolicy:
    """A policy with which calls are replayed."""

    policies: Policies

    @cached_property
    def ids(self) -> frozenset[str]:
        return frozenset(self.policies.ids)

    def rules_of(self, call: SessionCall) -> Iterator[Rule]:
        """Yields the rules that judge a call."""
        numbers = (number for number, _ in self.policies.applicability(call).monitors)
        yield from dict.fromkeys(self.policies.rule_of[number] for number in numbers)

    def model_rules(self, call: SessionCall) -> Iterator[str]:
        """Yields the rules that need a model to read the conversation."""
        for number, monitor in self.policies.applicability(call).monitors:
            asks = getattr(monitor, "asks", None)
            if asks is not None and asks(call.tool):
                yield self.policies.rule_of[number].id

    def rules_with(self, kind: type, call: SessionCall) -> Iterator[str]:
        """Yields the rules about a call that have a node of a type."""
        yield from (rule.id for rule in self.rules_of(call) if kind in self._node_types[rule.id])

    @cached_property
    def _node_types(self) -> dict[str, set[type]]:
        return {rule.id: {type(node) for read in rule.rules for node in ast.walk(read)} for rule in self.policies.rules}

    def scoped_rules(self) -> Iterator[str]:
        """Yields the rules with a scope."""
        yield from (rule.id for rule in self.policies.rules if rule.source.applies_to is not None)
        yield from (source.id for source, _ in self.policies.requests if source.applies_to is not None)

    def history_rules(self, call: SessionCall) -> Iterator[str]:
        """Yields the rules whose result for a call depends on earlier calls."""
        for number, monitor in self.policies.applicability(call).monitors:
            rule = self.policies.rule_of[number]
            if not rule.simple or monitor.looks_back(call):
                yield rule.id


# --- values of log entries


def unrecorded(why: str) -> Unknown:
    """Returns an unknown value that a log does not hold."""
    return Unknown(Unrecorded(why))


_REDACTED = unrecorded("the log redacts a value that the rule reads")
_CUT = unrecorded("the log cuts a value that the rule reads")
_OBJECT = unrecorded("the log describes an object that the rule reads, but does not hold it")
_NO_FACT = unrecorded("the log does not hold a fact that the rule reads; declare the facts of the host with '--facts'")
STATE = unrecorded("the log does not hold the state")
_MARKS = {"redacted": _REDACTED, "cut": _CUT}


def recorded_value(value: Any) -> Any:
    """Returns the value that the log was given, read-only; unknown where the log does not hold it."""
    if isinstance(value, dict):
        return _mapping(value)
    if isinstance(value, list):
        return tuple(map(recorded_value, value))
    return _REDACTED if isinstance(value, str) and MARK in value else value


def _mapping(value: dict[str, Any]) -> Any:
    if len(value) == 1:
        ((key, inside),) = value.items()
        if key in _MARKS:
            return _MARKS[key]
        if key == "$object":
            return _object(inside)
    if any(MARK in key for key in value):
        return _REDACTED
    if any(len(key) == MAX_STRING + 1 and key.endswith("…") for key in value):
        return _CUT
    return MappingProxyType({key: recorded_value(item) for key, item in value.items()})


def _object(description: Any) -> Any:
    """Returns a value that JSON lacks, if its description determines it."""
    try:
        kind, inside = description
        if kind == "dict":
            return MappingProxyType({recorded_value(key): recorded_value(item) for key, item in inside})
        return _DECODERS[kind](inside)
    except (KeyError, TypeError, ValueError, InvalidOperation):
        return _OBJECT


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "decimal.Decimal": Decimal,
    "float": float,
    "int": lambda text: int(text, 16),
}


def is_complete(value: Any) -> bool:
    """Whether a decoded value has no unrecorded part."""
    if isinstance(value, Mapping):
        return all(map(is_complete, value.values()))
    if isinstance(value, tuple):
        return all(map(is_complete, value))
    return type(value) is not Unknown


class RecordedFacts(dict[str, Any]):
    """The facts of a log entry. It holds those of the call alone, so any other fact is unrecorded, not missing."""

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ARG002 - as of a mapping
        return super().get(name, _NO_FACT)


# --- steps of an audit log or a traces file

StepKind = Literal["verdict", "outcome", "end"]
Progress = Callable[[int, int], None]
_KINDS = ("verdict", "outcome", "approval", "end")
_STATUSES = ("ok", "failed", "unknown", "withdrawn")


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """The decision on a call, as logged.

    Attributes:
        decision: its name.
        rules: the ids of the violated rules.
        errors: the checks that could not be made.
        lifted: the rules whose escalation a reviewer had lifted.
    """

    decision: str = ""
    rules: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    lifted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LoggedCall:
    """A proposed call of a log or trace.

    Attributes:
        position: where it is recorded.
        tool: its name in the rules.
        args: its arguments; None if the log does not hold them.
        facts: the facts of its check.
        shown: the call as recorded, for people.
        place: its place in the history, if the log has it.
        nonce: identifies its permit.
        complete: whether every value is recorded.
        time: the time of its check: of a log without it, that of the entry; None if it is unknown.
        zone: the time zone of the clock, if the log has it.
        principal: on whose behalf it was made.
        agent: the agent that proposed it.
        redacts_agent: whether the log hides which agent proposed it.
    """

    position: Mapping[str, Any]
    tool: str
    args: Mapping[str, Any] | None
    facts: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    action: str | None = None
    decision: str | None = None
    tags: frozenset[str] = frozenset()
    call_id: str | None = None
    shown: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    place: int | None = None
    nonce: str | None = None
    complete: bool = True
    time: float | str | dt.datetime | None = None
    zone: str | None = None
    principal: Any = None
    agent: str | None = None
    redacts_agent: bool = False


@dataclass(frozen=True, slots=True)
class LogStep:
    """One step of a conversation: a verdict on a call, the outcome of a call, or the end.

    Attributes:
        kind: which of them.
        conversation: the conversation; None if the log does not tell it.
        call: the call; at the end, what the log holds in place of one.
        logged: the logged decision of a verdict or end.
        status: the status of an outcome.
        output: its output.
        in_flight: whether the call of the outcome may still be running.
        last: whether it is the last step of its conversation.
    """

    kind: StepKind
    conversation: str | None
    call: LoggedCall
    logged: RecordedDecision = RecordedDecision()
    status: Any = None
    output: Any = None
    in_flight: bool = False
    last: bool = False


def no_progress(_done: int, _total: int) -> None:
    """Ignores the progress."""


class _Escalations:
    """The escalated calls of one conversation, and those that a reviewer has approved since."""

    __slots__ = ("lifted", "open")

    def __init__(self) -> None:
        self.open: dict[str, frozenset[str]] = {}
        self.lifted: dict[str, frozenset[str]] = {}

    def answer(self, call: str, answer: Any) -> None:
        if answer == "approve" and call in self.open:
            self.lifted[call] = self.open[call]

    def note(self, call: str, step: LogStep) -> None:
        if step.kind == "verdict":
            self.open.pop(call, None)
            if step.logged.decision == "escalate":
                self.open[call] = frozenset(step.logged.rules)


@dataclass(slots=True)
class LogSteps:
    """The steps of an audit log.

    Attributes:
        path: the log, or its address.
        aliases: a tool's name in the host -> its name in the rules.
        facts: the facts of the host at every call; None if they are unknown.
        progress: receives the number of the current entry, and that of the last one.
        selects: selects the conversations of entries with these fields; None selects all.
    """

    path: Path | str
    aliases: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] | None = None
    progress: Progress = no_progress
    selects: Callable[[Mapping[str, Any]], bool] | None = None

    def __iter__(self) -> Iterator[LogStep]:
        """Iterates over the log twice: at first only for the last entry of each conversation.

        Raises:
            InputError: the log cannot be read.
        """
        last: dict[str | None, int] = {}
        selected = set()
        for log_entry in self._entries():
            last[_conversation(log_entry)] = log_entry.entry.seq
            if self.selects is None or self.selects(log_entry.fields):
                selected.add(_conversation(log_entry))
        end = max(last.values(), default=0)  # others may append meanwhile
        escalations: dict[str | None, _Escalations] = {}
        for log_entry in self._entries():
            if log_entry.entry.seq > end:
                break
            self.progress(log_entry.entry.seq, end)
            name, call = _conversation(log_entry), json.dumps(log_entry.fields.get("call_id"), sort_keys=True)
            if name not in selected:
                continue
            waiting = escalations.setdefault(name, _Escalations())
            is_last = last[name] == log_entry.entry.seq
            if log_entry.fields["kind"] == "approval":
                waiting.answer(call, log_entry.fields.get("answer"))
            else:
                lifted = waiting.lifted.pop(call, frozenset()) if log_entry.fields["kind"] == "verdict" else frozenset()
                lifted |= frozenset(log_entry.fields.get("grants") or ())
                step = self._step(log_entry, lifted, last=is_last)
                waiting.note(call, step)
                yield step
            if is_last:
                del escalations[name]

    def _entries(self) -> Iterator[ParsedEntry]:
        return (entry for entry in Selection().entries(self.path) if entry.fields.get("kind") in _KINDS)

    def _step(self, parsed_entry: ParsedEntry, lifted: frozenset[str], *, last: bool) -> LogStep:
        fields, conversation = parsed_entry.fields, _conversation(parsed_entry)
        if fields["kind"] == "end":
            return LogStep("end", conversation, self._call(parsed_entry), _logged(fields), last=last)
        if fields["kind"] == "verdict":
            return LogStep("verdict", conversation, self._call(parsed_entry), _logged(fields, lifted), last=last)
        status, in_flight = fields.get("status"), fields.get("ended") is False
        status = status if status in _STATUSES else "unknown"
        output = recorded_value(fields.get("output"))
        return LogStep(
            "outcome",
            conversation,
            self._call(parsed_entry),
            status=status,
            output=output,
            in_flight=in_flight,
            last=last,
        )

    def _call(self, parsed_entry: ParsedEntry) -> LoggedCall:
        fields = parsed_entry.fields
        args, facts = recorded_value(fields.get("args", {})), recorded_value(fields.get("facts", {}))
        tool, permit, agent = fields.get("tool"), fields.get("permit"), fields.get("agent")
        readable = isinstance(args, Mapping) and isinstance(tool, str)
        place, nonce = (permit.get("place"), permit.get("nonce_hash")) if isinstance(permit, dict) else (None, None)
        return LoggedCall(
            {"entry": parsed_entry.entry.seq, "time": fields.get("time")},
            self.aliases.get(tool, tool) if isinstance(tool, str) else "",
            args if readable else None,
            self._facts(facts),
            _string(fields.get("action")),
            None,
            frozenset(map(str, _list(fields.get("tags")))),
            _string(fields.get("call_id")),
            {"tool": tool, "args": fields.get("args", {})},
            place if isinstance(place, int) else None,
            _string(nonce),
            is_complete(args) and is_complete(facts) and self.facts is not None,
            *_time(fields),
            fields.get("principal"),
            _string(recorded_value(agent)),
            isinstance(agent, dict),
        )

    def _facts(self, facts: Any) -> Mapping[str, Any]:
        if not isinstance(facts, Mapping):
            return RecordedFacts()
        return RecordedFacts(facts) if self.facts is None else {**self.facts, **facts}


def _time(fields: Mapping[str, Any]) -> tuple[float | dt.datetime | None, str | None]:
    """The time of the check and its zone. The time of an entry is in UTC, whatever the zone of the session is."""
    now, written = fields.get("now"), fields.get("time")
    if isinstance(now, dict):
        time = now.get("time")
        return time if isinstance(time, int | float) else None, _string(now.get("zone"))
    try:
        return (parsed_instant(written).timestamp() if isinstance(written, str) else None), None
    except ValueError:
        return None, None


def _conversation(parsed_entry: ParsedEntry) -> str | None:
    """The key of an entry's conversation. Names redacted with a key stay distinct; without one they do not."""
    value = parsed_entry.fields.get("conversation")
    if isinstance(value, dict):
        mark = value.get("redacted")
        return f"redacted {mark}" if isinstance(mark, str) and mark.startswith("hmac-") else None
    return value if isinstance(value, str) and value else None


def _logged(fields: Mapping[str, Any], lifted: frozenset[str] = frozenset()) -> RecordedDecision:
    rules, errors = (tuple(map(str, _list(fields.get(name)))) for name in ("rules", "errors"))
    return RecordedDecision(str(fields.get("decision")), rules, errors, lifted)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


# --- a conversation, judged again

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
        for_memory: judges calls only as far as rules remember them: no program and no model runs.
    """

    def __init__(
        self, candidate: ReplayPolicy, state: Any, facts: Mapping[str, Any] = EMPTY, *, for_memory: bool = False
    ) -> None:
        self._candidate, self._for_memory = candidate, for_memory
        self._state = ConversationState(candidate.policies, state, facts, clock=Clock(lambda: None))
        self._state.requests = tuple(request for request in candidate.policies.requests if not _asks_model(request[1]))
        self._open: list[JudgedCall] = []
        self._uncertain: list[tuple[SessionCall, str]] = []  # calls whose arguments or outcomes are unknown
        self._problem = ""  # why no program can judge
        self._earlier: dict[str, str] = {}  # rules that were undecidable for a call, with the reason
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
            self._note_incomplete()
        self._disordered |= recorded.place is not None and recorded.place != call.place
        self._redacts_agents |= recorded.redacts_agent
        judged = self._state.judge(call, call.applicability, reading=self._reading(recorded, call)) or Judgement()
        answers = self._answers(judged, dict(self._unclear(call, judged)), lifted)
        self._earlier = {**answers.undecidable, **self._earlier}
        return answers, JudgedCall(recorded, call, judged)

    def end(self, principal: Any = None) -> RuleAnswers:
        """Returns the answers at the end of the conversation. `principal`: that of the session."""
        self._state.context.session_principal = freeze(principal)
        rules = self._candidate.policies.rules
        unclear = dict(self._uncertain_rules(rules))
        if self._disordered:
            unclear.update({rule.id: _OTHER_ORDER for rule in rules})
        if self._redacts_agents:
            unclear.update(dict.fromkeys(self._candidate.scoped_rules(), _NO_AGENT))
        judged = self._state.pending_obligations()
        composed = {rule.id for rule in rules if not rule.simple}
        for source, _ in judged.broken:  # perhaps at an earlier call already, which would have been denied
            if source.id in composed & self._earlier.keys():
                unclear.setdefault(source.id, self._earlier[source.id])
        return self._answers(judged, unclear, frozenset(), at_end=True)

    def memory(self) -> dict[str, Any]:
        """Returns what the rules remember of the calls, as an entry of a shared history has it.

        Raises:
            InputError: it depends on something that the history does not hold.
        """
        calls, rule_of = self._state.calls, self._candidate.policies.rule_of
        remembering = {rule_of[number].id for call in calls for number, _ in call.applicability.stateful}
        for rule, why in self._earlier.items():
            if rule in remembering:
                raise InputError(f"rule {rule!r} cannot be decided for an earlier call: {why}")
        dumped = self._state.dumped()
        return {"memory": dict(enumerate(dumped["memory"])), "said": dumped["said"]}

    def _note_incomplete(self) -> None:
        """Only programs that see complete values judge `request:` policies."""
        self._problem, self._state.requests = _INCOMPLETE, ()

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
        if self._for_memory:
            call.applicability = call.applicability.for_memory()
        return call

    def _unclear(self, call: SessionCall, judged: Judgement) -> Iterator[tuple[str, str]]:
        """Yields the rules that the log leaves undecided for other reasons than a value, with the reason."""
        candidate = self._candidate
        if self._uncertain and self._uncertain[-1][0] is call:
            yield NO_RULE, self._uncertain[-1][1]
        yield from self._uncertain_rules(candidate.rules_of(call))
        yield from ((rule, _COUNTERS) for rule in candidate.rules_with(ast.CounterValue, call))
        if (self._state.context.check_time or (None, None))[1] is None:
            yield from ((rule, _NO_ZONE) for rule in candidate.rules_with(ast.Zone, call))
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
        problem = self._problem or (_OTHER_ORDER if self._disordered else "")
        for source, check in self._candidate.policies.requests:
            if _asks_model(check):
                yield source.id, "a model would have to judge it"
            elif problem:
                yield source.id, problem

    def _rules_of_begun_calls(self, call: SessionCall, judged: Judgement) -> Iterator[str]:
        """Yields the rules whose answers would differ if the calls in flight had begun, so that they surely run."""
        trial = self._state.copied()
        for begun_call in trial.context.in_flight:
            trial.began(begun_call)
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
            elif value is None and rule != NO_RULE and self._problem:
                unclear.setdefault(rule, self._problem)
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
        place = self._find(step.call)
        if place is None:
            call = self._session_call(step.call)
            self._uncertain.append(
                (call, f"the log has an outcome of {call.tool!r} without the call that it belongs to")
            )
            self._disordered = True
            return
        if step.in_flight:
            return
        self._open.remove(place)
        if not is_complete(step.output):
            self._note_incomplete()
        status = step.status if final else self._status(place.call, step.status, step.output)
        self._state.settle(place.call, step.output, status)

    def _find(self, call: LoggedCall) -> JudgedCall | None:
        """Returns the call in flight to which an outcome belongs: by its permit, else its id, else its tool."""
        same_tool = [judged_call for judged_call in self._open if judged_call.recorded.tool == call.tool]
        if call.nonce is not None:
            return next((judged_call for judged_call in self._open if judged_call.recorded.nonce == call.nonce), None)
        if call.call_id is not None:
            same_tool = [judged_call for judged_call in same_tool if judged_call.recorded.call_id == call.call_id]
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


def _asks_model(check: Check) -> bool:
    return bool(getattr(check, "asks_model", False))


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
    results: Iterator[tuple[RuleMetadata, MonitorResult]] = (pair for pair in judged.broken if pair[0].id == rule)
    for source, result in results:
        return message_of(source, result.explain(), None, earlier=not at_end)
    prefix = f"{rule}: " if rule else ""
    return next((error.removeprefix(prefix) for error in judged.errors if error.startswith(prefix)), "")
