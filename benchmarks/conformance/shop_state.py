"""State functions over the shop's database; None for a missing record."""

from __future__ import annotations

from typing import Any


def _of(state: dict[str, Any], table: str, key: str, field: str) -> Any:
    row = state[table].get(key) if isinstance(key, str) else None
    return None if row is None else row[field]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def owner(state: dict[str, Any], order_id: str) -> str | None:
    """The customer of an order."""
    return _text(_of(state, "orders", order_id, "customer"))


def status(state: dict[str, Any], order_id: str) -> str | None:
    """Open, shipped, returned or cancelled."""
    return _text(_of(state, "orders", order_id, "status"))


def late(state: dict[str, Any], order_id: str) -> bool | None:
    """Whether an order is late."""
    value = _of(state, "orders", order_id, "late")
    return value if isinstance(value, bool) else None


def paid_with(state: dict[str, Any], order_id: str) -> str | None:
    """The payment method of an order."""
    return _text(_of(state, "orders", order_id, "payment"))


def refundable(state: dict[str, Any], order_id: str) -> int | None:
    """The total of an order minus its refunds."""
    total = _of(state, "orders", order_id, "total")
    return None if total is None else total - sum(refund["amount"] for refund in state["orders"][order_id]["refunds"])


def payment_owner(state: dict[str, Any], payment_id: str) -> str | None:
    """The customer of a payment method."""
    return _text(_of(state, "payments", payment_id, "customer"))


def payment_kind(state: dict[str, Any], payment_id: str) -> str | None:
    """Card or voucher."""
    return _text(_of(state, "payments", payment_id, "kind"))


def address_owner(state: dict[str, Any], address_id: str) -> str | None:
    """The customer of an address."""
    return _text(_of(state, "addresses", address_id, "customer"))
