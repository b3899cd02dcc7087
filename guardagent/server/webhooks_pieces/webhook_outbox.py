"""The messages that are still to be sent, in the state that servers share.

A message is stored before the change that it tells about: a server that is killed in between loses none. When it
is due, its content comes from the approval as it is then; if the change never took place, nothing is sent.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace

from guardagent.server.settings_pieces.webhook_settings import WebhookEvent, WebhookSettings
from guardagent.server.state import StateStore, StoredItem

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
        for url, one in self._webhooks.items():
            if event in one.events and (one.tenants is None or tenant in one.tenants):
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
    found = asdict(message)
    del found["id"]
    return found
