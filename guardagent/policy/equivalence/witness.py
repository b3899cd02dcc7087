"""A conversation on which two drafts can differ: a case, or a trace if its end is judged."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from guardagent.types import Event, thaw

NO_FACTS: Mapping[str, Any] = {"user_confirmed": None, "context": {}}
"""The facts that every case has."""

Path = tuple[str | int, ...]
"""The place of a value in a witness, such as `("proposed", "args", "amount")`."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A constant of the drafts that a value of the witness is compared with."""

    path: Path
    value: Any


@dataclass(frozen=True, slots=True)
class Witness:
    """A conversation, with what the host knows about it.

    Attributes:
        history: the earlier calls, in order.
        proposed: the call to judge; None if the conversation ends and its obligations are judged.
        facts, state, principal: as in a case; None if unknown.
        now: the time of the proposed call; None if unknown.
        limits: the constants of the drafts near its values, for questions about it.
        windows: the durations in the drafts, in seconds.
        missing: the tools that a draft requires in the history, and that were not called.
        unknown: what a draft needs to know and does not, in natural language.
    """

    history: tuple[Event, ...] = ()
    proposed: Event | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] | None = None
    principal: Mapping[str, Any] | None = None
    now: dt.datetime | None = None
    limits: tuple[Limit, ...] = field(default=(), compare=False)
    windows: tuple[float, ...] = field(default=(), compare=False)
    missing: tuple[str, ...] = field(default=(), compare=False)
    unknown: tuple[str, ...] = field(default=(), compare=False)

    @property
    def is_case(self) -> bool:
        """Whether it can be written as a case: a call is judged, and no call has an action, a decision or tags."""
        calls = [*self.history, self.proposed]
        return all(one is not None and not (one.action or one.decision or one.tags) for one in calls)

    def record(self, id: str = "witness") -> dict[str, Any]:  # noqa: A002 - the key of the format
        """The witness as a line of a file of cases; of a file of traces if it is no case."""
        known = {"facts": self.facts, "state": self.state, "principal": self.principal}
        found = {"id": id, **{name: thaw(value) for name, value in known.items() if value}}
        history = [_case_call(one) for one in self.history]
        if self.is_case:
            assert self.proposed is not None
            proposed = {"tool": self.proposed.tool, "args": thaw(self.proposed.args)}
            now = {} if self.now is None else {"now": self.now.isoformat()}
            return {**found, "history": history, "proposed": proposed, **now}
        last = [] if self.proposed is None else [_case_call(self.proposed, self.now)]
        return {**found, "events": [*history, *last]}


def _case_call(event: Event, now: dt.datetime | None = None) -> dict[str, Any]:
    """A call as in a case or a trace; a call without an outcome has neither an output nor `failed`."""
    return dict(_keys(event, event.time or now))


def _keys(event: Event, time: Any) -> Iterator[tuple[str, Any]]:
    yield "tool", event.tool
    yield "args", thaw(event.args)
    if event.status in ("ok", "failed"):
        yield "output", thaw(event.output)
        yield "failed", event.status == "failed"
    for name in ("action", "decision"):
        if getattr(event, name):
            yield name, getattr(event, name)
    if event.tags:
        yield "tags", sorted(event.tags)
    if time is not None:
        yield "time", time.isoformat() if isinstance(time, dt.datetime) else time
