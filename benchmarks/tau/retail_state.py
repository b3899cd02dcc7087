"""State functions over the shop's records; None if the records have no answer.

`state` has `users`, `orders` and `products`, each a mapping of ids to records, as tau-bench keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

_CENT = Decimal("0.01")


def order_status(state: Any, order_id: Any) -> str | None:
    """The status of an order: "pending", "delivered", ..."""
    return _text(_at(state, "orders", order_id, "status"))


def order_owner(state: Any, order_id: Any) -> str | None:
    """The id of the customer who placed an order."""
    return _text(_at(state, "orders", order_id, "user_id"))


def items_in_order(state: Any, order_id: Any) -> list[str] | None:
    """The item ids of an order. An item that was bought twice appears twice."""
    ids = [_text(_at(item, "item_id")) for item in _items(state, order_id) or [None]]
    return None if None in ids else [id_ for id_ in ids if id_]


def original_payment(state: Any, order_id: Any) -> str | None:
    """The payment method that an order was first paid with."""
    return _text(_at(_first_payment(state, order_id), "payment_method_id"))


def order_total(state: Any, order_id: Any) -> float | None:
    """The amount first paid for an order."""
    return _plain(_money(_at(_first_payment(state, order_id), "amount")))


def profile_payments(state: Any, order_id: Any) -> list[str] | None:
    """The payment methods in the profile of the customer who placed an order."""
    methods = _profile(state, order_id)
    return None if methods is None else list(methods)


def profile_gift_cards(state: Any, order_id: Any) -> list[str] | None:
    """The gift cards in the profile of the customer who placed an order."""
    methods = _profile(state, order_id)
    return None if methods is None else [name for name in methods if _at(methods, name, "source") == "gift_card"]


def gift_card_balance(state: Any, order_id: Any, payment_id: Any) -> float | None:
    """The balance of a gift card of the customer who placed an order."""
    return _plain(_money(_at(_profile(state, order_id), payment_id, "balance")))


def swaps(state: Any, order_id: Any, item_ids: Any, new_item_ids: Any) -> list[dict[str, Any]] | None:
    """The pairs of an exchange, by position.

    Returns:
        One record per pair: `item`, `product` and `price` from the order; `new_item`, `new_product`, `new_price` and
        `available` from the catalogue. An unknown field is None; the whole result is None if the lists differ in
        length.
    """
    old, new = _list(item_ids), _list(new_item_ids)
    if old is None or new is None or len(old) != len(new):
        return None
    return [_swap(state, order_id, *pair) for pair in zip(old, new, strict=True)]


def price_difference(state: Any, order_id: Any, item_ids: Any, new_item_ids: Any) -> float | None:
    """The price of the new items minus that of the old ones."""
    total = Decimal(0)
    for swap in swaps(state, order_id, item_ids, new_item_ids) or [{}]:
        new, old = _money(swap.get("new_price")), _money(swap.get("price"))
        if new is None or old is None:
            return None
        total += new - old
    return float(total)


def _swap(state: Any, order_id: Any, item_id: Any, new_item_id: Any) -> dict[str, Any]:
    old = next((item for item in _items(state, order_id) or [] if _at(item, "item_id") == item_id), None)
    product = _product_of(state, new_item_id)
    new = _at(state, "products", product, "variants", new_item_id)
    return {
        "item": item_id,
        "product": _text(_at(old, "product_id")),
        "price": _at(old, "price"),
        "new_item": new_item_id,
        "new_product": product,
        "new_price": _at(new, "price"),
        "available": _at(new, "available"),
    }


def _product_of(state: Any, item_id: Any) -> str | None:
    products = _at(state, "products")
    if not isinstance(products, Mapping):
        return None
    return next((name for name in products if _at(products, name, "variants", item_id) is not None), None)


def _items(state: Any, order_id: Any) -> list[Any] | None:
    return _list(_at(state, "orders", order_id, "items"))


def _first_payment(state: Any, order_id: Any) -> Any:
    paid = _list(_at(state, "orders", order_id, "payment_history")) or []
    return next((entry for entry in paid if _at(entry, "transaction_type") == "payment"), None)


def _profile(state: Any, order_id: Any) -> Mapping[str, Any] | None:
    methods = _at(state, "users", order_owner(state, order_id), "payment_methods")
    return methods if isinstance(methods, Mapping) else None


def _at(value: Any, *keys: Any) -> Any:
    """The value at a path of keys, or None if the path does not exist."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) and isinstance(key, str) else None
    return value


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _list(value: Any) -> list[Any] | None:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str | bytes) else None


def _money(value: Any) -> Decimal | None:
    """Rounds an amount to cents: sums of floats have rounding errors."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    exact = Decimal(str(value))
    return exact.quantize(_CENT) if exact.is_finite() and abs(exact) < 10**20 else None


def _plain(amount: Decimal | None) -> float | None:
    return None if amount is None else float(amount)
