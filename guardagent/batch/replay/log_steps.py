"""Reads an audit log or a traces file as steps of conversations, one at a time."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from guardagent.batch.replay.recorded_values import RecordedFacts, is_complete, recorded_value
from guardagent.log.verification import ParsedEntry, Selection
from guardagent.policy.language.values import parsed_instant
from guardagent.types import EMPTY

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

    decision: str
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
        call: the call, except at the end.
        logged: the logged decision of a verdict or end.
        status: the status of an outcome.
        output: its output.
        in_flight: whether the call of the outcome may still be running.
        last: whether it is the last step of its conversation.
    """

    kind: StepKind
    conversation: str | None
    call: LoggedCall | None = None
    logged: RecordedDecision | None = None
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
        if step.kind == "verdict" and step.logged is not None:
            self.open.pop(call, None)
            if step.logged.decision == "escalate":
                self.open[call] = frozenset(step.logged.rules)


@dataclass(slots=True)
class LogSteps:
    """The steps of an audit log.

    Attributes:
        path: the log.
        aliases: a tool's name in the host -> its name in the rules.
        facts: the facts of the host at every call; None if they are unknown.
        progress: receives the number of the current entry, and that of the last one.
    """

    path: Path
    aliases: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] | None = None
    progress: Progress = no_progress

    def __iter__(self) -> Iterator[LogStep]:
        """Iterates over the log twice: at first only for the last entry of each conversation.

        Raises:
            InputError: the log cannot be read.
        """
        last = {_conversation(one): one.entry.seq for one in self._entries()}
        end = max(last.values(), default=0)  # others may append meanwhile
        escalations: dict[str | None, _Escalations] = {}
        for one in self._entries():
            if one.entry.seq > end:
                break
            self.progress(one.entry.seq, end)
            name, call = _conversation(one), json.dumps(one.fields.get("call_id"), sort_keys=True)
            waiting = escalations.setdefault(name, _Escalations())
            is_last = last[name] == one.entry.seq
            if one.fields["kind"] == "approval":
                waiting.answer(call, one.fields.get("answer"))
            else:
                lifted = waiting.lifted.pop(call, frozenset()) if one.fields["kind"] == "verdict" else frozenset()
                step = self._step(one, lifted, last=is_last)
                waiting.note(call, step)
                yield step
            if is_last:
                del escalations[name]

    def _entries(self) -> Iterator[ParsedEntry]:
        return (one for one in Selection().entries(self.path) if one.fields.get("kind") in _KINDS)

    def _step(self, one: ParsedEntry, lifted: frozenset[str], *, last: bool) -> LogStep:
        fields, conversation = one.fields, _conversation(one)
        if fields["kind"] == "end":
            return LogStep("end", conversation, self._call(one), _logged(fields), last=last)
        if fields["kind"] == "verdict":
            return LogStep("verdict", conversation, self._call(one), _logged(fields, lifted), last=last)
        status, in_flight = fields.get("status"), fields.get("ended") is False
        status = status if status in _STATUSES else "unknown"
        output = recorded_value(fields.get("output"))
        return LogStep(
            "outcome", conversation, self._call(one), status=status, output=output, in_flight=in_flight, last=last
        )

    def _call(self, one: ParsedEntry) -> LoggedCall:
        fields = one.fields
        args, facts = recorded_value(fields.get("args", {})), recorded_value(fields.get("facts", {}))
        tool, permit, agent = fields.get("tool"), fields.get("permit"), fields.get("agent")
        readable = isinstance(args, Mapping) and isinstance(tool, str)
        place, nonce = (permit.get("place"), permit.get("nonce_hash")) if isinstance(permit, dict) else (None, None)
        return LoggedCall(
            {"entry": one.entry.seq, "time": fields.get("time")},
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


def _conversation(one: ParsedEntry) -> str | None:
    """The key of an entry's conversation. Names redacted with a key stay distinct; without one they do not."""
    value = one.fields.get("conversation")
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
