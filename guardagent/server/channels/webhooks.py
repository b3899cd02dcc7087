"""Webhooks: JSON about approvals and events to programs, signed as Standard Webhooks has it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from standardwebhooks import Webhook

from guardagent.log.records import timestamp
from guardagent.server.approvals import ApprovalRecord, shown
from guardagent.server.cards import card_of, page_address
from guardagent.server.channels import OutboxMessage, data_of, post
from guardagent.server.service.guard_service import GuardService
from guardagent.server.settings import WebhookSettings


class WebhookChannel:
    """An address that receives events.

    Args:
        service: has the approvals.
        settings: the address.
    """

    def __init__(self, service: GuardService, settings: WebhookSettings) -> None:
        self._service, self._settings = service, settings
        self.targets: tuple[str, ...] = (settings.url,)
        self.host, self.events, self.tenants = urlsplit(settings.url).hostname or "", settings.events, settings.tenants

    def deliver(self, message: OutboxMessage, record: ApprovalRecord, version: int) -> None:
        """Sends a message about an approval.

        Raises:
            InputError: the secrets cannot be read.
            DeliveryError, OSError: as `post`.
        """
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
            "may_answer": record.may_answer(message.stored),
            "deadline": timestamp(record.deadline),
        }
        if message.step:
            step = record.steps[message.step - 1]
            data["answer"] = {**{key: step[key] for key in ("by", "choice", "reason")}, "at": timestamp(step["at"])}
        if self._settings.include_arguments:
            data |= {"args": record.call["args"], "edited_args": record.args}
        if self._settings.card:
            card = card_of(self._service, message.tenant, shown(message.approval, version, record, time.time()))
            sections = [{"title": title, "text": text} for title, text in card.sections]
            url = page_address(self._service, message.approval)
            data["card"] = {"title": card.title, "sections": sections, "url": url}
        self._post(message, timestamp(message.stored), data)

    def report(self, message: OutboxMessage, entry: Mapping[str, Any]) -> None:
        """Sends a message about an entry of the log; raises as `deliver`."""
        data = data_of(message.tenant, entry, with_arguments=self._settings.include_arguments)
        self._post(message, entry["time"], data)

    def _post(self, message: OutboxMessage, when: str, data: Mapping[str, Any]) -> None:
        content = {"type": message.event, "timestamp": when, "data": data}
        body = json.dumps(content, ensure_ascii=True, default=str)
        post(message.target, body.encode(), headers_of(message.id, body, self._settings.secrets()))


def headers_of(name: str, body: str, secrets: Iterable[bytes]) -> Mapping[str, str]:
    """Returns the headers of a message: its id, the time, and a signature by each secret."""
    now = datetime.now(UTC)
    return {
        "content-type": "application/json",
        "user-agent": "guardagent",
        "webhook-id": name,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(Webhook(secret).sign(name, now, body) for secret in secrets),
    }
