"""Webhooks: signed messages about approvals, which no restart loses.

A message is stored in the state that servers share, before the change that it tells about: a server that is killed in
between loses none. When it is due, its content comes from the approval as it is then; if the change never took place,
nothing is sent. The signature follows the Standard Webhooks scheme. Each address has a thread, so that a slow one holds
up no other.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import logging
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from guardagent.errors import error_text
from guardagent.server.approvals import ApprovalDesk, ApprovalRecord
from guardagent.server.service import UnknownItemError
from guardagent.server.settings import WebhookEvent, WebhookSettings
from guardagent.server.state import StateStore, StoredItem

# --- messages that are still to be sent

KIND, TENANT = "webhook", ""
LEASE_SECONDS = 60.0
LONGEST = 3 * 86_400.0  # seconds for which a message is sent again
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 3600.0
_PAGE = 200


@dataclass(frozen=True, slots=True)
class WebhookMessage:
    """A message that is to be sent.

    Attributes:
        id: the same each time it is sent, so that a receiver recognizes repetitions.
        url: where it goes.
        event: what it tells about.
        approval: the id of the approval.
        step: the number of the answer; 0 for other events.
        requested: when the approval was requested; another request of the same call has another time.
        due: when it is to be sent, in seconds since the epoch.
        stored: when it was first due.
        attempts: how often it was sent in vain.
    """

    id: str
    url: str
    event: WebhookEvent
    tenant: str
    approval: str
    step: int
    requested: float
    due: float
    stored: float
    attempts: int = 0


class WebhookOutbox:
    """Stores messages, and hands each out to one server at a time.

    Args:
        state: stores them.
        webhooks: the addresses.
        clock: returns the seconds since the epoch.
    """

    def __init__(
        self, state: StateStore, webhooks: Mapping[str, WebhookSettings], clock: Callable[[], float] = time.time
    ) -> None:
        self._state, self._webhooks, self._clock = state, webhooks, clock

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
        """Stores a message for each address that wants it.

        Raises:
            StateError: it cannot be stored; then the change must not take place.
        """
        when = self._clock() if due is None else due
        for url, webhook in self._webhooks.items():
            if event in webhook.events and (webhook.tenants is None or tenant in webhook.tenants):
                text = json.dumps([url, event, tenant, approval, requested, step])
                name = f"msg_{hashlib.sha256(text.encode()).hexdigest()[:32]}"
                message = WebhookMessage(name, url, event, tenant, approval, step, requested, when, when)
                self._state.add(KIND, TENANT, name, _content(message))

    def claim(self, url: str) -> Iterator[WebhookMessage]:
        """Yields the messages to an address that are due. No other server gets one of them meanwhile."""
        for item in self._items():
            message = WebhookMessage(item.name, **item.value)
            now = self._clock()
            if message.url != url or message.due > now:
                continue
            leased = replace(message, due=now + LEASE_SECONDS)
            if self._state.replace(KIND, TENANT, item.name, item.version, _content(leased)):
                yield message

    def sent(self, message: WebhookMessage) -> None:
        """Forgets a message that was sent, or need not be."""
        self._state.delete(KIND, TENANT, message.id)

    def failed(self, message: WebhookMessage) -> bool:
        """Puts a message off. Returns whether it is abandoned instead."""
        now = self._clock()
        if now - message.stored > LONGEST:
            self.sent(message)
            return True
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(message.attempts, 20))
        item = self._state.get(KIND, TENANT, message.id)
        if item is not None:
            later = replace(message, due=now + pause, attempts=message.attempts + 1)
            self._state.replace(KIND, TENANT, message.id, item.version, _content(later))
        return False

    def _items(self) -> Iterator[StoredItem]:
        before = None
        while True:
            items = self._state.page(KIND, TENANT, before, _PAGE)
            yield from items
            if len(items) < _PAGE:
                return
            before = items[-1].number


def _content(message: WebhookMessage) -> dict[str, object]:
    content = asdict(message)
    del content["id"]
    return content


# --- content and signature


def content_of(message: WebhookMessage, record: ApprovalRecord | None, *, with_arguments: bool) -> bytes | None:
    """Returns the body; None if what it would tell has not taken place.

    Args:
        message: the message.
        record: the approval as it is now; None if there is none.
        with_arguments: whether the body has the arguments of the call.
    """
    if record is None or record.created != message.requested or not _took_place(message, record):
        return None
    data: dict[str, Any] = {
        "id": message.approval,
        "tenant": message.tenant,
        "status": record.status,
        "policy": record.policy,
        "rules": list(record.rules),
        "tool": record.call["tool"],
        "session": record.session,
        "requested_by": record.requested_by,
        "quorum": record.quorum,
        "agreeing": list(record.agreeing),
        "deadline": _time(record.deadline),
    }
    if message.step:
        step = record.steps[message.step - 1]
        data["answer"] = {"by": step["by"], "choice": step["choice"], "reason": step["reason"], "at": _time(step["at"])}
    if with_arguments:
        data |= {"args": record.call["args"], "edited_args": record.args}
    body = {"type": message.event, "timestamp": _time(message.stored), "data": data}
    return json.dumps(body, ensure_ascii=True, default=str).encode()


def headers_of(message: WebhookMessage, body: bytes, secrets: Iterable[bytes], now: float) -> Mapping[str, str]:
    """Returns the headers of a message: its id, the time, and a signature by each secret."""
    signed = f"{message.id}.{int(now)}.".encode() + body
    signatures = [base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode() for secret in secrets]
    return {
        "content-type": "application/json",
        "user-agent": "guardagent",
        "webhook-id": message.id,
        "webhook-timestamp": str(int(now)),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def _took_place(message: WebhookMessage, record: ApprovalRecord) -> bool:
    if message.event == "approval.expired":
        return record.status == "expired"
    return message.event == "approval.requested" or len(record.steps) >= message.step


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# --- delivery

SEND_SECONDS = 10.0
POLL_SECONDS = 1.0
GRACE_SECONDS = 60.0  # after which a change that a message announces has taken place, or never will
_log = logging.getLogger("guardagent")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Another address would get a message that was signed for this one."""

    def redirect_request(self, *_args: Any, **_more: Any) -> None:
        return None


class WebhookDelivery:
    """Sends what the outbox has.

    Args:
        outbox: the messages.
        approvals: the approvals that they tell about.
        webhooks: the addresses.
        clock: returns the seconds since the epoch.

    Attributes:
        counts: (host of the address, `sent`, `failed` or `abandoned`) -> number.
    """

    def __init__(
        self,
        outbox: WebhookOutbox,
        approvals: ApprovalDesk,
        webhooks: Mapping[str, WebhookSettings],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._outbox, self._approvals, self._webhooks, self._clock = outbox, approvals, webhooks, clock
        self._opener = urllib.request.build_opener(_NoRedirects)
        self.counts = Counter[tuple[str, str]]()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Sends messages meanwhile."""
        stopped = threading.Event()
        threads = [
            threading.Thread(target=self._run, args=(url, stopped), name="webhooks", daemon=True)
            for url in self._webhooks
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stopped.set()
            for thread in threads:
                thread.join(SEND_SECONDS)

    def _run(self, url: str, stopped: threading.Event) -> None:
        while not stopped.wait(POLL_SECONDS):
            try:
                for message in self._outbox.claim(url):
                    self.send(message)
                    if stopped.is_set():
                        return
            except Exception as error:  # noqa: BLE001 - the next round tries again
                _log.error("webhooks cannot be sent at present: %s", error_text(error))

    def send(self, message: WebhookMessage) -> None:
        """Sends a message that was claimed, and notes whether it arrived."""
        settings = self._webhooks[message.url]
        body = content_of(message, self._record(message), with_arguments=settings.include_arguments)
        if body is None:
            if self._clock() - message.stored > GRACE_SECONDS or message.event == "approval.expired":
                self._outbox.sent(message)
            else:
                self._outbox.failed(message)
            return
        problem = self._post(message, body, settings)
        host = urlsplit(message.url).hostname or ""
        if not problem:
            self._outbox.sent(message)
            self.counts[host, "sent"] += 1
            return
        is_abandoned = self._outbox.failed(message)
        self.counts[host, "abandoned" if is_abandoned else "failed"] += 1
        more = "; it is abandoned" if is_abandoned else "; it will be sent again"
        _log.warning("the webhook %s to %s was not accepted: %s%s", message.id, host, problem, more)

    def _record(self, message: WebhookMessage) -> ApprovalRecord | None:
        try:
            return self._approvals.read(message.tenant, message.approval)[0]
        except UnknownItemError:
            return None

    def _post(self, message: WebhookMessage, body: bytes, settings: WebhookSettings) -> str:
        """Sends a request. Returns what was wrong; empty if the receiver accepted it."""
        try:
            headers = headers_of(message, body, settings.secrets(), self._clock())
            request = urllib.request.Request(message.url, body, dict(headers), method="POST")  # noqa: S310 - https
            with self._opener.open(request, timeout=SEND_SECONDS) as answer:
                return "" if 200 <= answer.status < 300 else f"status {answer.status}"
        except urllib.error.HTTPError as error:
            with error:
                return f"status {error.code}"
        except Exception as error:  # noqa: BLE001 - of the network, or an answer that is not HTTP
            return error_text(error)[:200]
