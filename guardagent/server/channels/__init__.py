"""Channels: messages about approvals and events to people and programs, which no restart loses.

A message is stored in the state that servers share, before the change that it tells about: a server that is killed in
between loses none. When it is due, its content comes from the approval as it is then; if the change never took place,
nothing is sent. Each channel has a module here and a thread, so that a slow one holds up no other.

For messages about entries of the logs (denials, halts, stops, and changes of tokens), a server reads what was added to
the log of each tenant since the last look, whichever server wrote it, and puts messages into the outbox. Its place in
each log is in the state, so that no restart and no other server loses one. A message has the number of its entry; its
content is read when it is sent.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Protocol, cast

from guardagent._support.plugins import Plugins
from guardagent.errors import GuardError, error_text
from guardagent.server.approvals import ApprovalDesk, ApprovalRecord
from guardagent.server.service import UnknownItemError, repeated
from guardagent.server.service.stores import LogQueries
from guardagent.server.settings import LOG_EVENTS, LogEvent, WebhookEvent, is_among
from guardagent.server.state import StateStore, StoredItem

_CLASSES = {"webhooks": "WebhookChannel", "slack": "SlackChannel", "email": "EmailChannel"}
CHANNELS = Plugins("channel", "", (), members={name: f"{__name__}.{name}:{cls}" for name, cls in _CLASSES.items()})
"""The channels by their keys in the settings. Each is made from a service and a part of its settings."""


class DeliveryError(GuardError):
    """A message did not arrive, and is to be sent again."""


class Channel(Protocol):
    """A way to tell people or programs about approvals.

    Attributes:
        host: where it sends, for metrics and messages.
        targets: the names of its receivers, each of whom gets messages of their own.
        events: the events that it tells about.
        tenants: the tenants whose approvals it tells about; None for all.
    """

    host: str
    targets: tuple[str, ...]
    tenants: frozenset[str] | None

    @property
    def events(self) -> tuple[WebhookEvent, ...]: ...

    def deliver(self, message: OutboxMessage, record: ApprovalRecord, version: int) -> None:
        """Sends a message about an approval as it is now. If it raises any error, it is called again later."""


class ReportingChannel(Channel, Protocol):
    """A channel whose settings may name events of a log."""

    def report(self, message: OutboxMessage, entry: Mapping[str, Any]) -> None:
        """Sends a message about an entry of the log, as `deliver`."""


def channels_of(service: Any) -> list[Channel]:
    """Returns the channels of a server's settings.

    Args:
        service: the `GuardService`; its module needs this one.

    Raises:
        InputError: a secret cannot be read, or an extra is missing.
    """
    channels: list[Channel] = []
    for name in CHANNELS.members:
        channels += [CHANNELS.load(name)(service, settings) for settings in getattr(service.settings, name)]
    return channels


# --- messages that are still to be sent

KIND, TENANT = "webhook", ""
CARD = "card"  # the places of messages that stay up to date
LEASE_SECONDS = 60.0
LONGEST = 3 * 86_400.0  # seconds for which a message is sent again
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 3600.0
_PAGE = 200


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    """A message that is to be sent.

    Attributes:
        id: the same each time it is sent, so that a receiver recognizes repetitions.
        target: who gets it.
        event: what it tells about.
        approval: the id of the approval; empty for an entry of the log.
        step: the number of the answer, or of the entry; 0 for other events.
        requested: when the approval was requested; another request of the same call has another time.
        due: when it is to be sent, in seconds since the epoch.
        stored: when it was first due.
        attempts: how often it was sent in vain.
    """

    id: str
    target: str
    event: WebhookEvent
    tenant: str
    approval: str
    step: int
    requested: float
    due: float
    stored: float
    attempts: int = 0

    @classmethod
    def of(cls, item: StoredItem) -> OutboxMessage:
        """Returns the message of a stored value."""
        values = dict(item.value)
        return cls(item.name, values.pop("url"), **values)

    @property
    def content(self) -> dict[str, object]:
        """Its value in a store, as releases with webhooks alone read it, too."""
        content = asdict(self)
        del content["id"]
        return {"url": content.pop("target"), **content}


class Outbox:
    """Stores messages, and hands each out to one server at a time.

    Args:
        state: stores them.
        channels: where they go.
        clock: returns the seconds since the epoch.
    """

    def __init__(self, state: StateStore, channels: Sequence[Channel], clock: Callable[[], float] = time.time) -> None:
        self._state, self._channels, self._clock = state, channels, clock

    def add(
        self,
        event: WebhookEvent,
        tenant: str,
        approval: str,
        requested: float,
        *,
        step: int = 0,
        due: float | None = None,
    ) -> None:
        """Stores a message for each receiver who wants it.

        Raises:
            StateError: it cannot be stored; then the change must not take place.
        """
        when = self._clock() if due is None else due
        for channel in self._channels:
            for target in channel.targets if event in channel.events and is_among(tenant, channel.tenants) else ():
                text = json.dumps([target, event, tenant, approval, requested, step or due or 0])
                name = f"msg_{hashlib.sha256(text.encode()).hexdigest()[:32]}"
                message = OutboxMessage(name, target, event, tenant, approval, step, requested, when, when)
                self._state.add(KIND, TENANT, name, message.content)

    def claim(self, channel: Channel) -> Iterator[OutboxMessage]:
        """Yields the messages of a channel that are due. No other server gets one of them meanwhile."""
        for item in self._items():
            message, now = OutboxMessage.of(item), self._clock()
            is_wanted = message.target in channel.targets and is_among(message.tenant, channel.tenants)
            if not is_wanted or message.due > now:
                continue
            leased = replace(message, due=now + LEASE_SECONDS)
            if self._state.replace(KIND, TENANT, item.name, item.version, leased.content):
                yield message

    def sent(self, message: OutboxMessage) -> None:
        """Forgets a message that was sent, or need not be."""
        self._state.delete(KIND, TENANT, message.id)

    def failed(self, message: OutboxMessage) -> bool:
        """Puts a message off. Returns whether it is abandoned instead."""
        now = self._clock()
        if now - message.stored > LONGEST:
            self.sent(message)
            return True
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(message.attempts, 20))
        item = self._state.get(KIND, TENANT, message.id)
        if item is not None:
            later = replace(message, due=now + pause, attempts=message.attempts + 1)
            self._state.replace(KIND, TENANT, message.id, item.version, later.content)
        return False

    def _items(self) -> Iterator[StoredItem]:
        before = None
        while True:
            items = self._state.page(KIND, TENANT, before, _PAGE)
            yield from items
            if len(items) < _PAGE:
                return
            before = items[-1].number


# --- delivery

SEND_SECONDS = 10.0
POLL_SECONDS = 1.0
GRACE_SECONDS = 60.0  # after which a change that a message announces has taken place, or never will
_TIMED = ("approval.expired", "approval.escalated")  # when they are due, it is certain whether they take place
_MOST_BYTES = 1_000_000  # of an answer
_log = logging.getLogger("guardagent")


class ChannelDelivery:
    """Sends what the outbox has.

    Args:
        outbox: the messages.
        approvals: the approvals that they tell about.
        channels: where they go.
        entry: returns an entry of a tenant's log by its number; None if there is none any more.
        clock: returns the seconds since the epoch.

    Attributes:
        channels: where they go.
        counts: (host of the channel, `sent`, `failed` or `abandoned`) -> number.
    """

    def __init__(
        self,
        outbox: Outbox,
        approvals: ApprovalDesk,
        channels: Sequence[Channel],
        entry: Callable[[str, int], Mapping[str, Any] | None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._outbox, self._approvals, self.channels, self._entry = outbox, approvals, channels, entry
        self._clock = clock
        self.counts = Counter[tuple[str, str]]()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Sends messages meanwhile."""
        with contextlib.ExitStack() as stack:
            for channel in self.channels:
                stack.enter_context(repeated(f"sending to {channel.host}", POLL_SECONDS, partial(self._send, channel)))
            yield

    def _send(self, channel: Channel, is_stopped: Callable[[], bool]) -> None:
        for message in self._outbox.claim(channel):
            self.send(channel, message)
            if is_stopped():
                return

    def send(self, channel: Channel, message: OutboxMessage) -> None:
        """Sends a message that was claimed, and notes whether it arrived."""
        deliver = self._delivery(channel, message)
        if deliver is None:
            if self._clock() - message.stored > GRACE_SECONDS or message.event in _TIMED:
                self._outbox.sent(message)
            else:
                self._outbox.failed(message)
            return
        try:
            deliver()
        except Exception as error:  # noqa: BLE001 - of the network, or an answer that is not of its protocol
            problem = str(error) if isinstance(error, DeliveryError) else error_text(error)[:200]
            is_abandoned = self._outbox.failed(message)
            self.counts[channel.host, "abandoned" if is_abandoned else "failed"] += 1
            more = "; it is abandoned" if is_abandoned else "; it will be sent again"
            _log.warning("the message %s to %s was not accepted: %s%s", message.id, channel.host, problem, more)
        else:
            self._outbox.sent(message)
            self.counts[channel.host, "sent"] += 1

    def _delivery(self, channel: Channel, message: OutboxMessage) -> Callable[[], None] | None:
        """Returns what sends a message about the present state; None if it tells of nothing that took place."""
        if message.event in LOG_EVENTS:
            entry = self._entry(message.tenant, message.step)
            return None if entry is None else partial(cast(ReportingChannel, channel).report, message, entry)
        try:
            record, version = self._approvals.read(message.tenant, message.approval)
        except UnknownItemError:
            return None
        took_place = record.created == message.requested and _took_place(message, record)
        return partial(channel.deliver, message, record, version) if took_place else None


def _took_place(message: OutboxMessage, record: ApprovalRecord) -> bool:
    if message.event == "approval.expired":
        return record.status == "expired" and message.stored == record.deadline  # not later, if its session ended
    if message.event == "approval.escalated":
        return record.status == "pending"
    return message.event == "approval.requested" or len(record.steps) >= message.step


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Another address would get a message that was meant, or signed, for this one."""

    def redirect_request(self, *_args: Any, **_more: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


def post(url: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    """Sends a request to an address of the settings, follows no redirect, and returns the body of the answer.

    Raises:
        DeliveryError: the answer is not 2xx.
        OSError: there is no answer.
    """
    request = urllib.request.Request(url, body, dict(headers), method="POST")  # noqa: S310 - https
    try:
        with _OPENER.open(request, timeout=SEND_SECONDS) as answer:
            content: bytes = answer.read(_MOST_BYTES)
            return content
    except urllib.error.HTTPError as error:
        with error:
            raise DeliveryError(f"status {error.code}") from None


# --- entries of the logs

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
