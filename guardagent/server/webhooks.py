"""Sends messages, in a thread for each address, so that a slow one holds up no other."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from guardagent.errors import error_text
from guardagent.server.approval_record import ApprovalRecord
from guardagent.server.approvals import ApprovalDesk
from guardagent.server.service.errors import UnknownItemError
from guardagent.server.settings_pieces.webhook_settings import WebhookSettings
from guardagent.server.webhooks_pieces.webhook_message import content_of, headers_of
from guardagent.server.webhooks_pieces.webhook_outbox import WebhookMessage, WebhookOutbox

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
        for one in threads:
            one.start()
        try:
            yield
        finally:
            stopped.set()
            for one in threads:
                one.join(SEND_SECONDS)

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
        except Exception as error:  # noqa: BLE001 - of the network, or an answer that is no HTTP
            return error_text(error)[:200]
