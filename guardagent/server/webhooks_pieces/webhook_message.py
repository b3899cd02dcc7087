"""The content of a message, and its signature by the Standard Webhooks scheme."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from guardagent.server.approval_record import ApprovalRecord
from guardagent.server.webhooks_pieces.webhook_outbox import WebhookMessage


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
    signatures = [base64.b64encode(hmac.digest(one, signed, hashlib.sha256)).decode() for one in secrets]
    return {
        "content-type": "application/json",
        "user-agent": "guardagent",
        "webhook-id": message.id,
        "webhook-timestamp": str(int(now)),
        "webhook-signature": " ".join(f"v1,{one}" for one in signatures),
    }


def _took_place(message: WebhookMessage, record: ApprovalRecord) -> bool:
    if message.event == "approval.expired":
        return record.status == "expired"
    return message.event == "approval.requested" or len(record.steps) >= message.step


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
