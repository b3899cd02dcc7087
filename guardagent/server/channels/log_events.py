"""Messages about entries of the logs: denials, halts, stops, and changes of tokens.

A server reads what was added to the log of each tenant since the last look, whichever server wrote it, and puts
messages into the outbox. Its place in each log is in the state, so that no restart and no other server loses one. A
message has the number of its entry; its content is read when it is sent.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from guardagent.errors import GuardError
from guardagent.server.channels import LONGEST, POLL_SECONDS, Channel, Outbox
from guardagent.server.service import repeated
from guardagent.server.service.stores import LogQueries
from guardagent.server.settings import LOG_EVENTS, LogEvent, is_among
from guardagent.server.state import StateStore

_logger = logging.getLogger("guardagent")
_KIND, _NAME = "followed", "log"  # of the place up to which a log was read
_VERDICTS = ("verdict", "answer")  # the kinds of entries with a verdict that counts
_BY_DECISION: Mapping[str, LogEvent] = {"deny": "call.denied", "halt": "call.halted"}
_BY_KIND: Mapping[str, LogEvent] = {"stop": "stop.made", "stop_lifted": "stop.lifted"}
_BY_ACTION: Mapping[str, LogEvent] = {
    "created": "token.created",
    "rotated": "token.rotated",
    "revoked": "token.revoked",
}
_MARKS = ('"deny"', '"halt"', '"kind":"stop', '"kind":"token"')  # each entry of an event has one of them
_FIELDS = "call_id agent decision rules policy stop by why tenant session token action principal roles expires".split()
_CONTENT = ("args", "reasons")  # which may have arguments


class LogFollower:
    """Puts messages about entries of logs into the outbox.

    Args:
        log: reads the logs.
        state: has the places up to which they were read.
        outbox: gets the messages.
        channels: those that want some of the events; without any, nothing is read.
        tenants: returns the tenants with a log.
        clock: returns the seconds since the epoch.
    """

    def __init__(
        self,
        log: LogQueries,
        state: StateStore,
        outbox: Outbox,
        channels: Sequence[Channel],
        tenants: Callable[[], Iterable[str]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._log, self._state, self._outbox, self._tenants, self._clock = log, state, outbox, tenants, clock
        self._channels = [channel for channel in channels if LOG_EVENTS & {*channel.events}]

    def running(self) -> contextlib.AbstractContextManager[Any]:
        """Follows the logs meanwhile. Entries that a log has when it is first followed are not told."""
        if not self._channels:
            return contextlib.nullcontext()
        for tenant in self._followed():
            if self._state.get(_KIND, tenant, _NAME) is None:
                self._state.add(_KIND, tenant, _NAME, {"seq": self._log.last(tenant)})
        return repeated("following the logs", POLL_SECONDS, lambda _is_stopped: self.follow())

    def follow(self) -> None:
        """Reads what is new in the logs. What fails for a tenant begins at the same place the next time."""
        for tenant in self._followed():
            try:
                self._follow(tenant)
            except GuardError as error:
                _logger.warning("the log of %r cannot be followed at present: %s", tenant, error)

    def _follow(self, tenant: str) -> None:
        item = self._state.get(_KIND, tenant, _NAME)
        seen = 0 if item is None else item.value["seq"]
        last, events = seen, []
        for entry in self._log.newest(tenant, seen):
            last = max(last, entry.seq)
            fields = json.loads(entry.text) if any(mark in entry.text for mark in _MARKS) else {}
            if (event := event_of(fields)) is not None and self._clock() - _time_of(fields) < LONGEST:
                events.append((event, entry.seq))
        for event, seq in reversed(events):
            self._outbox.add(event, tenant, "", 0.0, step=seq)
        if item is None:
            self._state.add(_KIND, tenant, _NAME, {"seq": last})
        elif last > seen:
            self._state.replace(_KIND, tenant, _NAME, item.version, {"seq": last})

    def _followed(self) -> list[str]:
        tenants = dict.fromkeys(self._tenants())
        return [name for name in tenants if any(is_among(name, channel.tenants) for channel in self._channels)]


def event_of(fields: Mapping[str, Any]) -> LogEvent | None:
    """Returns the event that an entry of a log is; None for others."""
    kind = fields.get("kind")
    if kind in _VERDICTS:
        return _BY_DECISION.get(str(fields.get("decision")))
    return _BY_ACTION.get(str(fields.get("action"))) if kind == "token" else _BY_KIND.get(str(kind))


def data_of(tenant: str, fields: Mapping[str, Any], *, with_arguments: bool) -> dict[str, Any]:
    """Returns what a message says about an entry.

    Args:
        tenant: the tenant of the log.
        fields: the entry.
        with_arguments: whether it has the arguments, and the reasons, which may repeat them.
    """
    names = (*_FIELDS, *(_CONTENT if with_arguments else ()))
    data = {"seq": fields["seq"], "tenant": tenant, "time": fields["time"]}
    if "tool" in fields:
        data["tool"] = fields["tool"]
    if isinstance(conversation := fields.get("conversation"), str):
        data["session"] = conversation.removeprefix(f"{tenant}/")
    return {**data, **{name: fields[name] for name in names if fields.get(name) is not None and name not in data}}


def _time_of(fields: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(fields["time"]).timestamp()
