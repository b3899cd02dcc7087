"""The interface of monitors: calls and their context in, results and explanations out.

The clock of a session gives the time of each check, with its zone. The functions at the end are the properties of a
call in rules: `output(f)`, `args(f)`, `tool(f)`, `time(f)` and `failed(f)`.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, Literal, Self

from guardagent.errors import InputError
from guardagent.policy.evaluation.counters import CountedAmount, CounterReader
from guardagent.policy.evaluation.history_index import HistoryIndex, OnDemand
from guardagent.policy.language.values import (
    MICROSECONDS,
    OpenOutcome,
    Truth,
    Unknown,
    moment_of,
    name_of_zone,
    seconds_of,
    zone_named,
)
from guardagent.policy.provenance.recorder import SourceRecorder
from guardagent.types import EMPTY, Event, Permit, freeze, new, thaw

# --- time

HostClock = Callable[[], float | dt.datetime | None]
"""Returns seconds since the epoch, or a datetime with its zone; None for an unknown time."""


class ClockError(InputError):
    """The clock of the host cannot be read, or went back.

    Attributes:
        detail: the message with the clock's own error.
    """

    def __init__(self, problem: str, error: object = "") -> None:
        super().__init__(problem)
        self.detail = f"{problem}: {error}" if error else problem


Reading = tuple[int | None, str | None]
"""A reading of a clock: microseconds since the epoch, and the name of the zone; None if unknown."""


class Clock:
    """Reads the clock of the host.

    Args:
        read: the clock.
        zone: the zone of `hour(now)` and the like; by default that of the datetimes that the clock returns.

    Raises:
        InputError: the zone is invalid.
    """

    __slots__ = ("_read", "_zone")

    def __init__(self, read: HostClock = time.time, zone: dt.tzinfo | str | None = None) -> None:
        if not callable(read):
            raise InputError(f"'clock' has the type {type(read).__name__!r}; expected a function without parameters")
        self._read, self._zone = read, None if zone is None else _zone_name(zone)

    def read(self) -> Reading:
        """Reads the clock.

        Raises:
            ClockError: the clock raised an error, or returned something else than an instant.
        """
        if self._read is time.time:  # the common case
            return time.time_ns() // 1000, self._zone
        try:
            return self.reading_of(self._read())
        except ValueError as error:
            raise ClockError(f"the clock returned no instant: {error}") from None
        except Exception as error:
            raise ClockError(f"the clock raised {type(error).__name__}", error) from error

    def reading_of(self, value: float | dt.datetime | None) -> Reading:
        """The reading for an instant of the host.

        Raises:
            ValueError: the value is not an instant.
        """
        zone = self._zone
        if value is None:
            return None, zone
        if zone is None and isinstance(value, dt.datetime) and value.tzinfo is not None:
            zone = name_of_zone(value.tzinfo)
        return moment_of(value), zone


def _zone_name(zone: dt.tzinfo | str) -> str:
    if isinstance(zone, str) and zone_named(zone) is not None:
        return zone
    try:
        if isinstance(zone, dt.tzinfo):
            return name_of_zone(zone)
    except ValueError as error:
        raise InputError(str(error)) from None
    raise InputError(f"there is no time zone {zone!r} on this machine; expected a name such as 'Europe/Berlin'")


def require_forward(moment: int, latest: int) -> None:
    """Raises an error if a moment is earlier than the latest call.

    Raises:
        ClockError: it is earlier.
    """
    if moment < latest:
        behind = float(seconds_of(latest - moment))
        raise ClockError(f"the clock went back: it is {behind:g} seconds before the last call of the conversation")


# --- calls

_UNREAD = object()

CallStatus = Literal["ok", "failed", "unknown", "withdrawn"]
"""The outcome of a call. A withdrawn call was allowed but never ran; rules ignore it."""

_ADDED_FIELDS = (
    "principal",
    "time",
    "provenance",
    "reservation",
    "claim",
    "sent",
    "spent",
)  # stored if present; older dumps lack them
_STORED_FIELDS = ("tool", "args", "action", "decision", "agent", "id", "facts", "output", "status", "expires", "used")
_NO_TIME = Unknown("the time is unknown")
WITH_ZONE = 'name the zone in the rule, as in weekday(now, "Europe/Berlin")'
_NO_ZONE = Unknown(
    f"the clock of the session has no time zone; {WITH_ZONE}, set 'zone', or return datetimes with a zone"
)


class SessionCall:
    """One call of a session as rules read it. `status` is None while the call is in flight.

    `assumed_status` is a hypothetical outcome of a call in flight. `time` is the time of the check that allowed the
    call, in microseconds since the epoch; None if unknown. It never decreases from call to call.
    """

    action: str | None = None
    decision: str | None = None
    tags: frozenset[str] = frozenset()
    agent: str | None = None
    id: str | None = None
    facts: Mapping[str, Any] = EMPTY
    principal: Mapping[str, Any] | None = None
    output: Any = None
    status: CallStatus | None = None
    assumed_status: CallStatus | None = None
    time: int | None = None
    provenance: Mapping[str, Any] | None = None  # what the recorder of sources keeps with the call
    permit: Permit | None = None
    applicability: Any = None  # the checks of the policy that apply to the call
    expires = 0.0
    permit_requested = False  # whether the host requested the permit, and so uses permits
    used = False
    may_have_started = False  # whether it was restored in flight, and may already run
    claim: Mapping[str, Any] | None = None  # for a call that another program runs: its request, and the verdict
    lapsed = False  # whether it was withdrawn after its permit expired
    sent: tuple[str, Mapping[str, Any]] | None = (
        None  # the tool and arguments that run: those of a tool that calls this
    )
    counted: tuple[CountedAmount, ...] = ()  # its amounts in counters across conversations
    spent: Mapping[str, str] | None = None  # the usage of models that counters count with this call
    reservation: str | None = None  # the id of its reservation in the store of counters

    def __init__(self, tool: str, args: Mapping[str, Any], place: int = 0) -> None:
        self.tool = tool
        self.args = args
        self.place = place

    def labelled(self, action: str | None, decision: str | None, tags: frozenset[str]) -> Self:
        """Sets the action, the decision and the tags; returns the call."""
        self.action, self.decision, self.tags = action, decision, tags
        return self

    @property
    def runs(self) -> tuple[str, Mapping[str, Any]]:
        """(the tool, the arguments) that the host runs."""
        return self.sent or (self.tool, self.args)

    @property
    def possible_statuses(self) -> tuple[CallStatus, ...]:
        """The possible outcomes. A call that has not started can still be withdrawn."""
        return ("ok", "failed") if self.used and not self.may_have_started else ("ok", "failed", "withdrawn")

    @property
    def may_be_withdrawn(self) -> bool:
        return self.assumed_status is None and (not self.used or self.may_have_started)

    def event(self) -> Event:
        """An immutable record of the call."""
        status = None if self.status == "withdrawn" else self.status
        return Event(
            self.tool, self.args, freeze(self.output), status, self.action, self.decision, self.tags,
            self.agent, self.id, None if self.time is None else self.time / MICROSECONDS, self.principal,
        )  # fmt: skip

    def copied(self) -> SessionCall:
        """A copy of the call for another session, without the permit."""
        copy = SessionCall(self.tool, self.args, self.place)
        copy.__dict__.update(self.__dict__)
        copy.permit = None
        return copy

    def dumped(self) -> dict[str, Any]:
        """The call as JSON."""
        added = {name: thaw(value) for name in _ADDED_FIELDS if (value := getattr(self, name)) is not None}
        stored = {name: thaw(getattr(self, name)) for name in _STORED_FIELDS}
        return {**stored, **added, "tags": sorted(self.tags)}

    @classmethod
    def loaded(cls, place: int, data: Mapping[str, Any]) -> SessionCall:
        """Restores a dumped call at its place in the history."""
        call = cls(data["tool"], freeze(data["args"]), place)
        for name in _STORED_FIELDS:
            setattr(call, name, freeze(data[name]))
        for name in _ADDED_FIELDS:
            setattr(call, name, freeze(data.get(name)))
        call.sent = None if call.sent is None else (call.sent[0], call.sent[1])
        return call.labelled(call.action, call.decision, frozenset(data["tags"]))

    def shown(self) -> dict[str, Any]:
        """The call as evidence."""
        return {"tool": self.tool, "args": thaw(self.args)}


class RuleContext:
    """The data that rules of a session are evaluated on.

    Attributes:
        facts: the current facts of the host.
        principal: the principal of the current call, as rules read it; None if there is none.
        session_principal: that of the session.
        state_source: the state, or a callable that returns the current state.
        indexes: the history indexes, by number.
        messages: the messages of the conversation, or a callable that returns the current ones.
        in_flight: the calls without an outcome.
        counters: the counters across conversations; None if the policy has none.
        before_place: only calls before this place count; None for a proposed call.
        clock: the clock of the host.
        latest: the time of the latest call.
        began: the time of the first call; 0 without one, None if it is unknown.
        as_of: the call whose time is `now`, while its outcome is judged; None for a proposed call.
        check_time: the reading of the clock for the current check; None if it is not read yet.
        provenance: the sources of values; None if no rule reads them.
    """

    __slots__ = (
        "__weakref__",
        "_state",
        "as_of",
        "before_place",
        "began",
        "check_time",
        "clock",
        "counters",
        "facts",
        "in_flight",
        "indexes",
        "latest",
        "messages",
        "principal",
        "provenance",
        "session_principal",
        "state_source",
    )  # fmt: skip

    def __init__(
        self,
        facts: Mapping[str, Any],
        state_source: Any,
        indexes: OnDemand[HistoryIndex],
        messages: Any = (),
        clock: Clock | None = None,
        principal: Mapping[str, Any] | None = None,
    ) -> None:
        self.clock = clock or Clock()
        self.latest = 0
        self.began: int | None = 0
        self.as_of: SessionCall | None = None
        self.check_time: Reading | None = None
        self.facts = facts
        self.principal = self.session_principal = principal
        self.state_source = state_source
        self.indexes = indexes
        self.messages = messages
        self.in_flight: list[SessionCall] = []
        self.counters: CounterReader | None = None
        self.before_place: int | None = None
        self.provenance: SourceRecorder | None = None
        self._state: Any = _UNREAD

    def state(self) -> Any:
        """The current state. A callable source is read once per check."""
        if self._state is _UNREAD:
            self._state = self.state_source() if callable(self.state_source) else self.state_source
        return self._state

    @property
    def state_now(self) -> Any:
        """The state that the current check has read; if it has read none, its source."""
        return self.state_source if self._state is _UNREAD else self._state

    def refresh(self, facts: Mapping[str, Any], principal: Mapping[str, Any] | None = None) -> None:
        """Sets new facts and the call's principal, and discards the cached state and counters."""
        self.facts = facts
        self.principal = self.session_principal if principal is None else principal
        self._state = _UNREAD
        if self.counters is not None:
            self.counters.refresh()

    def reading(self) -> Reading:
        """The time of the check. The clock is read once per check, and only if something needs the time.

        Raises:
            ClockError: the clock cannot be read.
        """
        if self.check_time is None:
            self.check_time = self.clock.read()
        return self.check_time

    def time_of(self, reading: Reading) -> int | None:
        """The time of a call that is checked now; None if unknown or earlier than that of the latest call."""
        moment = reading[0]
        return moment if moment is not None and moment >= self.latest else None

    def moment(self) -> int | Unknown:
        """The time of the check in microseconds since the epoch. For a recorded call: that of its own check.

        Raises:
            ClockError: the clock cannot be read, or went back.
        """
        call = self.as_of
        moment = self.reading()[0] if call is None else call.time
        if moment is None:
            return _NO_TIME
        if call is None:
            require_forward(moment, self.latest)
        return moment

    def now(self) -> int | Fraction | Unknown:
        """The time of the check in seconds since the epoch; errors as for `moment`."""
        moment = self.moment()
        return moment if isinstance(moment, Unknown) else seconds_of(moment)

    def elapsed(self) -> int | Fraction | Unknown:
        """The seconds from the first call to the check, or to that of the recorded call; errors as for `moment`."""
        moment = self.moment()
        if isinstance(moment, Unknown):
            return moment
        return _NO_TIME if self.began is None else seconds_of(moment - (self.began or moment))

    def note_time(self, moment: int | None) -> None:
        """Notes the time of the next call of the history; None if it is unknown."""
        self.began = moment if self.began == 0 else self.began
        self.latest = self.latest if moment is None else moment

    def zone(self) -> str | Unknown:
        """The name of the clock's time zone; errors as for `reading`."""
        return self.reading()[1] or _NO_ZONE


# --- results

CallSequence = tuple[tuple[str, Mapping[str, Any]], ...]  # calls in order, with their known arguments


@dataclass(slots=True)
class Explanation:
    """The explanation of a result. Only `withheld` contains values that the conversation and the caller have not seen.

    Attributes:
        needed: the condition that does not hold.
        missing: the missing calls.
        because: the facts behind the result.
        evidence: further evidence for machines.
        sequences: alternative sequences of calls that would make the call compliant.
        changes: changed arguments that would make the call compliant, and their description.
        withheld: hidden values, for the operator.
        timed: whether time decides, so that a call that was made before can be worth another try.
    """

    needed: str = ""
    missing: tuple[str, ...] = ()
    because: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    sequences: tuple[CallSequence, ...] = ()
    changes: tuple[Mapping[str, Any] | None, str] | None = None
    withheld: tuple[str, ...] = ()
    timed: bool = False


def blank_explanation() -> Explanation:
    """An empty explanation, in a third of the time of `Explanation()`."""
    explanation: Explanation = new(Explanation)
    explanation.needed, explanation.missing, explanation.because, explanation.evidence = "", (), "", EMPTY
    explanation.sequences, explanation.changes, explanation.withheld, explanation.timed = (), None, (), False
    return explanation


@dataclass(slots=True)
class MonitorResult:
    """The result of an unsatisfied monitor: false or unknown.

    Attributes:
        value: false or unknown.
        explain: returns the explanation.
        suggested: the tools of the calls that the explanation can suggest, if it is the same at any later time. None if
            `explain` has to be called at once, since it would see other values later.
    """

    value: Truth
    explain: Callable[[], Explanation] = Explanation
    suggested: tuple[str, ...] | None = None

    @classmethod
    def merged(cls, value: Truth, results: Sequence[MonitorResult], between: str) -> MonitorResult:
        """One result for several."""
        return cls(value, partial(_merged, results, between))

    @classmethod
    def violated(cls, explain: Callable[[], Explanation], suggested: tuple[str, ...] | None = None) -> MonitorResult:
        """The result of a monitor that is certainly false, in half the time of `MonitorResult(...)`."""
        result: MonitorResult = new(cls)
        result.value, result.explain, result.suggested = False, explain, suggested
        return result


def _merged(results: Sequence[MonitorResult], between: str) -> Explanation:
    explanations = [monitor_result.explain() for monitor_result in results]
    return Explanation(
        needed=between.join(dict.fromkeys(explanation.needed for explanation in explanations if explanation.needed)),
        missing=tuple(dict.fromkeys(call for explanation in explanations for call in explanation.missing)),
        because="; ".join(dict.fromkeys(explanation.because for explanation in explanations if explanation.because)),
        evidence={name: value for explanation in explanations for name, value in explanation.evidence.items()},
        sequences=tuple(way for explanation in explanations for way in explanation.sequences),
        changes=next((explanation.changes for explanation in explanations if explanation.changes), None),
        withheld=tuple(value for explanation in explanations for value in explanation.withheld),
        timed=any(explanation.timed for explanation in explanations),
    )


class Monitor:
    """Monitors a part of a rule. All of its state about a session is in the memory that `start` creates.

    By default it concerns the calls of its tools, keeps nothing, and is only about the proposed call.

    Attributes:
        tools: the tools that it refers to.
        stateful: whether it must process reserved and settled calls.
    """

    tools: frozenset[str]
    stateful: bool

    # A monitor may have `screened(code, number, kind)`: an expression for the screen of a kind of call, true only if
    # `judge` returns None; or None. Its memory is `memory[number]`.

    def concerns(self, call: SessionCall) -> bool:
        """Whether calls with this tool, action, decision and tags can affect the monitor."""
        return call.tool in self.tools

    def looks_back(self, call: SessionCall) -> bool:
        """Whether the result for such a call can depend on earlier calls."""
        raise NotImplementedError

    def reports(self, call: SessionCall) -> bool:  # noqa: ARG002 - for subclasses
        """Whether `judge` can return a result for such a call, or `reserved` has to see it before `settled` does."""
        return True

    def start(self) -> Any:
        """Creates the memory for a new session."""

    def judge(self, context: RuleContext, call: SessionCall, memory: Any) -> MonitorResult | None:
        """Judges a proposed call, assuming that it succeeds; returns None if the monitor stays satisfiable."""
        raise NotImplementedError

    def reserved(self, context: RuleContext, call: SessionCall, memory: Any, result: MonitorResult | None) -> None:
        """Processes a call that is now in flight, with the result of `judge` for it."""

    def began(self, memory: Any) -> None:
        """Processes the start of a call in flight: it can no longer be withdrawn."""

    def settled(self, context: RuleContext, call: SessionCall, memory: Any) -> None:
        """Processes the outcome of a call. A withdrawn call is ignored from then on."""

    def ended(self, context: RuleContext, memory: Any) -> MonitorResult | None:
        """Judges the end of the conversation; returns None if satisfied."""

    def satisfiable(self, memory: Any) -> Truth:  # noqa: ARG002 - for subclasses
        """Whether some continuation satisfies the monitor."""
        return True

    def satisfied(self, memory: Any) -> bool:  # noqa: ARG002 - for subclasses
        """Whether every continuation satisfies the monitor."""
        return False

    def copied(self, memory: Any, calls: Mapping[SessionCall, SessionCall]) -> Any:
        """A copy of the memory for another session, with some calls replaced."""

    def dumped(self, memory: Any) -> Any:
        """The memory as JSON. Calls become their places."""

    def loaded(self, data: Any, calls: Sequence[SessionCall]) -> Any:
        """Restores a dumped memory."""


# --- properties of calls


def output_of(call: Any) -> Any:
    if type(call) is Unknown:
        return call
    if call.status is None:
        return Unknown(_pending(call, f"the outcome of {call.tool!r} (call {call.place}) is not recorded yet"))
    return Unknown(f"{call.tool!r} (call {call.place}) has no output") if call.output is None else call.output


def args_of(call: Any) -> Any:
    return call if type(call) is Unknown else call.args


def tool_of(call: Any) -> Any:
    return call if type(call) is Unknown else call.tool


_ROLES = frozenset({"user", "assistant", "system", "developer", "tool", "function"})  # another may stand for each
_LISTED = ", ".join(sorted(_ROLES))
_TEXTS = frozenset({None, "text", "input_text", "output_text"})  # types of parts


def text_of_messages(source: Any, role: str) -> str | Unknown:
    """The text of the messages of a role, the newest last; unknown if one of them is more than text."""
    messages = source() if callable(source) else source
    if not messages or not isinstance(messages, Iterable):
        return Unknown("the host gives no messages")
    texts: list[str] = []
    for message in messages:
        fields = message if isinstance(message, Mapping) else getattr(message, "__dict__", {})
        if fields.get("role") == role:
            content = fields.get("content")
            parts: Sequence[Any] = content if isinstance(content, list | tuple) and content else [content]
            for part in parts:
                is_part = part is not content and isinstance(part, Mapping) and part.get("type") in _TEXTS
                text = part.get("text") if is_part else part
                if not isinstance(text, str):
                    return Unknown(f"a message of the role {role!r} is not only text")
                texts.append(text)
        elif fields.get("role") not in _ROLES:
            return Unknown(f"a message has no known role; expected a mapping with 'content' and 'role': {_LISTED}")
    return "\n".join(texts)


def time_of(call: Any) -> Any:
    if type(call) is Unknown:
        return call
    if call.time is None:
        return Unknown(f"the time of {call.tool!r} (call {call.place}) is unknown")
    return seconds_of(call.time)


def failed(call: Any) -> Truth:
    if type(call) is Unknown:
        return call
    status = call.status or call.assumed_status
    if status == "ok":
        return False
    if status == "failed":
        return True
    return Unknown(_pending(call, f"it is unknown whether {call.tool!r} (call {call.place}) failed"))


def _pending(call: Any, cause: str) -> str:
    return OpenOutcome(cause) if call.status is None and call.assumed_status is None else cause
