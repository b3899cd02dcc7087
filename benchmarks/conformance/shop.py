"""The shop: a database in memory, and the tools that work on it. They enforce no rules."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

Database = dict[str, Any]

_TEXT, _CENTS = {"type": "string"}, {"type": "integer"}


def _tool(name: str, description: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TOOLS = [
    _tool("sign_in", "Signs a customer in; gives the customer's id.", email=_TEXT, pin=_TEXT),
    _tool("list_orders", "The orders of a customer.", customer_id=_TEXT),
    _tool("view_order", "Everything about an order.", order_id=_TEXT),
    _tool("list_payments", "The payment methods of a customer.", customer_id=_TEXT),
    _tool("cancel_order", "Cancels an order.", order_id=_TEXT, reason=_TEXT),
    _tool("refund_order", "Refunds cents to a payment method.", order_id=_TEXT, payment_id=_TEXT, amount=_CENTS),
    _tool("move_order", "Sends an order to another address.", order_id=_TEXT, address_id=_TEXT),
    _tool("add_address", "Gives a customer another address.", customer_id=_TEXT, street=_TEXT),
    _tool("give_voucher", "Gives a voucher of some cents for an order.", order_id=_TEXT, amount=_CENTS),
    _tool("hand_over", "Hands the conversation over to a person.", reason=_TEXT),
    _tool("export_customers", "Writes the list of all customers to a file."),
]


class SimulatedShop:
    """Runs calls on a database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._tools: dict[str, Callable[..., Any]] = {
            tool["function"]["name"]: getattr(self, f"_{tool['function']['name']}") for tool in TOOLS
        }

    def run(self, tool: str, arguments: Any) -> Any:
        """The output of a call; arguments may be a text of JSON, as a careless host takes it. `Error: …` on failure."""
        try:
            args = json.loads(arguments) if isinstance(arguments, str) else arguments
            return self._tools[tool](**args)
        except Exception as error:  # noqa: BLE001 - whatever an agent made up
            return f"Error: {type(error).__name__}: {error}"

    def _sign_in(self, email: str, pin: str) -> Any:
        keys = [key for key, row in self.database["customers"].items() if (row["email"], row["pin"]) == (email, pin)]
        return {"customer": keys[0]} if keys else "Error: wrong email or pin"

    def _list_orders(self, customer_id: str, **_: Any) -> Any:
        return [key for key, row in self.database["orders"].items() if row["customer"] == customer_id]

    def _view_order(self, order_id: str, **_: Any) -> Any:
        return json.loads(json.dumps(self.database["orders"][order_id]))

    def _list_payments(self, customer_id: str, **_: Any) -> Any:
        return [key for key, row in self.database["payments"].items() if row["customer"] == customer_id]

    def _cancel_order(self, order_id: str, reason: str, **_: Any) -> Any:
        self.database["orders"][order_id] |= {"status": "cancelled", "reason": reason}
        return "cancelled"

    def _refund_order(self, order_id: str, payment_id: str, amount: Any, **_: Any) -> Any:
        self.database["orders"][order_id]["refunds"].append({"payment": payment_id, "amount": int(amount)})
        return "refunded"

    def _move_order(self, order_id: str, address_id: str, **_: Any) -> Any:
        self.database["orders"][order_id]["address"] = address_id
        return "moved"

    def _add_address(self, customer_id: str, street: str, **_: Any) -> Any:
        key = f"A{len(self.database['addresses']) + 1}"
        self.database["addresses"][key] = {"customer": customer_id, "street": street}
        return {"address": key}

    def _give_voucher(self, order_id: str, amount: Any, **_: Any) -> Any:
        customer = self.database["orders"][order_id]["customer"]
        self.database["vouchers"].append({"customer": customer, "order": order_id, "amount": int(amount)})
        return "given"

    def _hand_over(self, reason: str, **_: Any) -> Any:
        self.database["handed_over"] = reason
        return "a person will go on"

    def _export_customers(self, **_: Any) -> Any:
        self.database["exports"] += 1
        return [row["email"] for row in self.database["customers"].values()]
