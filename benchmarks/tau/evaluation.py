"""tau-bench's trajectories, with and without a guard: pass^k, and precision and recall of the write calls."""

from __future__ import annotations

import json
from typing import Any

from guardagent.bench import RecordedCall, Replay, State

_AIRLINE = {
    "book_reservation",
    "cancel_reservation",
    "send_certificate",
    "update_reservation_baggages",
    "update_reservation_flights",
    "update_reservation_passengers",
}
_RETAIL = {
    "cancel_pending_order",
    "exchange_delivered_order_items",
    "modify_pending_order_address",
    "modify_pending_order_items",
    "modify_pending_order_payment",
    "modify_user_address",
    "return_delivered_order_items",
}
_RECORDS = {"reservation_id": "reservations", "order_id": "orders"}


def absorb(state: State, call: RecordedCall) -> None:
    """Replaces the record that a write call returns; its effects on other records are not visible."""
    record = _object(call.output) if call.tool in EVALUATION.writes else None
    if record is None:
        return
    for key, kind in _RECORDS.items():
        if isinstance(record.get(key), str):
            state.setdefault(kind, {})[record[key]] = record
    user = call.args.get("user_id")
    if call.tool == "modify_user_address" and isinstance(user, str):
        state.setdefault("users", {})[user] = record


def _object(output: Any) -> dict[str, Any] | None:
    try:
        value = json.loads(output) if isinstance(output, str) else output
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


EVALUATION = Replay(writes=frozenset(_AIRLINE | _RETAIL), absorb=absorb)
