"""What the parts of a rule have in common: how one is asked, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol, Self

from guardagent.policy.evaluation.history_index import HistoryIndex
from guardagent.policy.language.values import Truth
from guardagent.types import EMPTY, Event, freeze, thaw

_UNREAD = object()

CallStatus = Literal["ok", "failed", "unknown", "withdrawn"]
"""How a call ended. A withdrawn one was allowed and never ran: to the rules it has not been."""

_STORED_FIELDS = ("tool", "args", "action", "decision", "agent", "id", "facts", "output", "status", "expires", "used")


class SessionCall:
    """One call of a session, and what a rule reads of it. `status` is None while its outcome is open.

    `assumed_status` is an outcome that is tried out while it is open.
    """

    action: str | None = None
    decision: str | None = None
    tags: frozenset[str] = frozenset()
    agent: str | None = None
    id: str | None = None
    facts: Mapping[str, Any] = EMPTY
    output: Any = None
    status: CallStatus | None = None
    assumed_status: CallStatus | None = None
    permit: Any = None
    applicability: Any = None  # what it has to do with the policy
    expires = 0.0
    permit_requested = False  # whether the host has asked for its permit, so that it is one that uses permits
    used = False
    may_have_started = False  # whether it was in flight when its session was restored, and may have begun before
    lapsed = False  # whether it was withdrawn because its permit had expired

    def __init__(self, tool: str, args: Mapping[str, Any], place: int = 0) -> None:
        self.tool = tool
        self.args = args
        self.place = place

    def labelled(self, action: str | None, decision: str | None, tags: frozenset[str]) -> Self:
        """The same call, with what else it is."""
        self.action, self.decision, self.tags = action, decision, tags
        return self

    @property
    def possible_statuses(self) -> tuple[CallStatus, ...]:
        """The ways in which it can still end: what has not begun to run may never do so."""
        return ("ok", "failed") if self.used and not self.may_have_started else ("ok", "failed", "withdrawn")

    @property
    def may_be_withdrawn(self) -> bool:
        return self.assumed_status is None and (not self.used or self.may_have_started)

    def event(self) -> Event:
        """The call as it is now, for others to keep."""
        status = None if self.status == "withdrawn" else self.status
        return Event(
            self.tool, self.args, freeze(self.output), status, self.action, self.decision, self.tags,
            self.agent, self.id,
        )  # fmt: skip

    def copied(self) -> SessionCall:
        """The same call, for a session that may end it otherwise."""
        copy = SessionCall(self.tool, self.args, self.place)
        copy.__dict__.update(self.__dict__)
        copy.permit = None
        return copy

    def dumped(self) -> dict[str, Any]:
        """The call as JSON."""
        return {**{name: thaw(getattr(self, name)) for name in _STORED_FIELDS}, "tags": sorted(self.tags)}

    @classmethod
    def loaded(cls, place: int, data: Mapping[str, Any]) -> SessionCall:
        """The call that was dumped, at its place."""
        call = cls(data["tool"], freeze(data["args"]), place)
        for name in _STORED_FIELDS:
            setattr(call, name, freeze(data[name]))
        return call.labelled(call.action, call.decision, frozenset(data["tags"]))

    def shown(self) -> dict[str, Any]:
        """The call as evidence."""
        return {"tool": self.tool, "args": thaw(self.args)}


class RuleContext:
    """What the rules of a session look at.

    Attributes:
        facts: what the host knows at this moment.
        state_source: the state, or a callable that gives it as it is now.
        indexes: the views of the history, by their numbers.
        messages: the conversation's messages, or a callable that gives them as they are now.
        in_flight: the calls whose outcomes are open.
        before_place: the place of the call that is looked back from; None for a call that is only proposed.
    """

    __slots__ = ("_state", "before_place", "facts", "in_flight", "indexes", "messages", "state_source")

    def __init__(
        self, facts: Mapping[str, Any], state_source: Any, indexes: list[HistoryIndex], messages: Any = ()
    ) -> None:
        self.facts = facts
        self.state_source = state_source
        self.indexes = indexes
        self.messages = messages
        self.in_flight: list[SessionCall] = []
        self.before_place: int | None = None
        self._state: Any = _UNREAD

    def state(self) -> Any:
        """The state as it is now; of a source that has to be asked, as it was at the first question of a check."""
        if self._state is _UNREAD:
            self._state = self.state_source() if callable(self.state_source) else self.state_source
        return self._state

    def refresh(self, facts: Mapping[str, Any]) -> None:
        """Another moment has come."""
        self.facts = facts
        self._state = _UNREAD


CallSequence = tuple[
    tuple[str, Mapping[str, Any]], ...
]  # calls one after the other, with what is known of their arguments


@dataclass(slots=True)
class Explanation:
    """What there is to say of a finding. All but `withheld` shows only what the conversation saw or the caller gave.

    Attributes:
        needed: the condition that was not met.
        missing: calls that are missing.
        because: facts that made it so.
        evidence: what else there is for machines.
        sequences: calls that would mend it, any of them.
        changes: the proposed call with other arguments that would mend it, and that in words.
        withheld: the values that were not shown, for the operator.
    """

    needed: str = ""
    missing: tuple[str, ...] = ()
    because: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    sequences: tuple[CallSequence, ...] = ()
    changes: tuple[Mapping[str, Any] | None, str] | None = None
    withheld: tuple[str, ...] = ()


@dataclass(slots=True)
class MonitorResult:
    """Why a part of a rule is not satisfied: false or unknown. `explain` says why, at once or not at all."""

    value: Truth
    explain: Callable[[], Explanation] = Explanation

    @classmethod
    def merged(cls, value: Truth, results: Sequence[MonitorResult], between: str) -> MonitorResult:
        """What several findings come to."""
        return cls(value, partial(_merged, results, between))


def _merged(results: Sequence[MonitorResult], between: str) -> Explanation:
    found = [one.explain() for one in results]
    return Explanation(
        needed=between.join(dict.fromkeys(one.needed for one in found if one.needed)),
        missing=tuple(dict.fromkeys(call for one in found for call in one.missing)),
        because="; ".join(dict.fromkeys(one.because for one in found if one.because)),
        evidence={name: value for one in found for name, value in one.evidence.items()},
        sequences=tuple(way for one in found for way in one.sequences),
        changes=next((one.changes for one in found if one.changes), None),
        withheld=tuple(value for one in found for value in one.withheld),
    )


class Monitor(Protocol):
    """A part of a rule: all that it remembers of a session is the memory that it made.

    Attributes:
        tools: the tools that it names.
        stateful: whether it has to be told of calls that take their places, and of their outcomes.
    """

    tools: frozenset[str]
    stateful: bool

    def concerns(self, call: SessionCall) -> bool:
        """Whether such a call can change anything; by its tool, action, decision and tags alone."""

    def looks_back(self, call: SessionCall) -> bool:
        """Whether what is found of such a call may depend on earlier ones."""

    def start(self) -> Any:
        """The memory of a new session."""

    def judge(self, context: RuleContext, call: SessionCall, memory: Any) -> MonitorResult | None:
        """Whether the part could still be kept if this call came next and went well."""

    def reserved(self, context: RuleContext, call: SessionCall, memory: Any, result: MonitorResult | None) -> None:
        """The call takes its place; what was found of it before is given."""

    def began(self, memory: Any) -> None:
        """A call in flight is about to run: it can no longer be withdrawn."""

    def settled(self, context: RuleContext, call: SessionCall, memory: Any) -> None:
        """The outcome of a call is recorded; one that was withdrawn has not been."""

    def ended(self, context: RuleContext, memory: Any) -> MonitorResult | None:
        """Whether the part is kept if nothing follows."""

    def satisfiable(self, memory: Any) -> Truth:
        """Whether it can still be kept."""

    def satisfied(self, memory: Any) -> bool:
        """Whether nothing that follows can break it."""

    def copied(self, memory: Any, calls: Mapping[SessionCall, SessionCall]) -> Any:
        """A memory of its own for another session, in which other calls stand for some."""

    def dumped(self, memory: Any) -> Any:
        """The memory as JSON, in which a call is its place."""

    def loaded(self, data: Any, calls: Sequence[SessionCall]) -> Any:
        """The memory that was dumped."""
