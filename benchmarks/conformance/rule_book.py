"""The test oracle: policy.md in plain Python, independent of the guard."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Literal

from benchmarks.conformance.shop import Database
from benchmarks.conformance.tasks import Call

TEXT, CENTS = "text", "cents"
ARGUMENTS = {
    "sign_in": {"email": TEXT, "pin": TEXT},
    "list_orders": {"customer_id": TEXT},
    "view_order": {"order_id": TEXT},
    "list_payments": {"customer_id": TEXT},
    "cancel_order": {"order_id": TEXT, "reason": TEXT},
    "refund_order": {"order_id": TEXT, "payment_id": TEXT, "amount": CENTS},
    "move_order": {"order_id": TEXT, "address_id": TEXT},
    "add_address": {"customer_id": TEXT, "street": TEXT},
    "give_voucher": {"order_id": TEXT, "amount": CENTS},
    "hand_over": {"reason": TEXT},
    "export_customers": {},
}
CHANGES = ("cancel_order", "refund_order", "move_order", "give_voucher")
ALL_ORDERS = 6  # with more calls in a turn, only the given order is checked


@dataclass(frozen=True, slots=True)
class CustomerCall:
    """A call of the conversation; `open` until its result is known."""

    tool: str
    args: dict[str, Any]
    output: Any = None
    status: Literal["ok", "failed", "open"] = "open"


class RuleBook:
    """The rules applied to one conversation."""

    def __init__(self, database: Database, confirmed: Sequence[str]) -> None:
        self.past_calls: list[CustomerCall] = []
        self._database = database
        self._confirmed = confirmed
        self._over = False

    def judge(self, turn: Sequence[Call]) -> list[set[str]]:
        """The rules that each proposed call of a turn would violate."""
        read = [well_formed(call) for call in turn]
        if None in read:
            return [{"known_tools"} if args is None else set() for args in read]
        calls = [CustomerCall(tool, args or {}) for (tool, _), args in zip(turn, read, strict=True)]
        broken_rules: list[set[str]] = []
        passed: list[CustomerCall] = []
        for call in calls:
            broken = self._in_any_order([*passed, call])
            passed += [] if broken else [call]
            broken_rules.append(broken)
        self._over = self._over or any(call.tool == "export_customers" for call in calls)
        return broken_rules

    def judge_made(self, call: Call) -> set[str]:
        """The rules that a call violates when it is made."""
        args = well_formed(call)
        if args is None:
            return {"known_tools"}
        broken = self._broken(CustomerCall(call[0], args), self.past_calls)
        self._over = self._over or call[0] == "export_customers"
        return broken

    def record(self, call: Call, output: Any) -> None:
        """Records a call that was made."""
        failed = isinstance(output, str) and output.startswith("Error")
        self.past_calls.append(CustomerCall(call[0], well_formed(call) or {}, output, "failed" if failed else "ok"))

    def _in_any_order(self, calls: list[CustomerCall]) -> set[str]:
        orders = permutations(calls) if len(calls) <= ALL_ORDERS else [calls]
        return {
            rule
            for order in orders
            for place, call in enumerate(order)
            for rule in self._broken(call, [*self.past_calls, *order[:place]])
        }

    # --- the rules, in the order of policy.md

    def _broken(self, call: CustomerCall, before: Sequence[CustomerCall]) -> set[str]:
        broken = self._of_the_conversation(call, before)
        if call.tool == "sign_in":
            broken |= self._of_sign_ins(call, before)
        else:
            broken |= self._of_reading(call, before)
        if call.tool in CHANGES:
            broken |= self._of_changes(call, before)
        if call.tool == "refund_order":
            broken |= self._of_refunds(call, before)
        return broken

    def _of_the_conversation(self, call: CustomerCall, before: Sequence[CustomerCall]) -> set[str]:
        broken = set()
        if any(past_call.tool == "hand_over" for past_call in before):
            broken.add("handed_over")
        if call.tool == "export_customers" or self._over:
            broken.add("no_export")
        return broken

    def _of_sign_ins(self, call: CustomerCall, before: Sequence[CustomerCall]) -> set[str]:
        earlier = [past_call for past_call in before if past_call.tool == "sign_in"]
        broken = set()
        if any(
            past_call.status != "failed" and past_call.args.get("email") != call.args["email"] for past_call in earlier
        ):
            broken.add("one_customer")
        if sum(past_call.status != "ok" for past_call in earlier) >= 3:
            broken.add("three_tries")
        return broken

    def _of_reading(self, call: CustomerCall, before: Sequence[CustomerCall]) -> set[str]:
        if "order_id" in call.args:
            whose = self._order(call).get("customer")
        elif "customer_id" in call.args:
            whose = call.args["customer_id"]
        else:
            return set()
        signed_in = [
            past_call.output["customer"]
            for past_call in before
            if past_call.tool == "sign_in" and past_call.status == "ok"
        ]
        return set() if whose is not None and whose in signed_in else {"signed_in"}

    def _of_changes(self, call: CustomerCall, before: Sequence[CustomerCall]) -> set[str]:
        order, broken = self._order(call), set()
        if call.args["order_id"] not in self._confirmed:
            broken.add("confirmed")
        if any(
            past_call.tool in CHANGES
            and past_call.status != "failed"
            and past_call.args.get("order_id") == call.args["order_id"]
            for past_call in before
        ):
            broken.add("one_change")
        if call.tool == "cancel_order" and (
            order.get("status") != "open" or call.args["reason"] not in ("changed mind", "ordered twice")
        ):
            broken.add("cancel_open")
        if call.tool == "move_order":
            address = self._database["addresses"].get(call.args["address_id"], {})
            if order.get("status") != "open" or address.get("customer") != order.get("customer"):
                broken.add("own_address")
        if call.tool == "give_voucher":
            another = any(past_call.tool == "give_voucher" and past_call.status != "failed" for past_call in before)
            if not order.get("late") or not 100 <= call.args["amount"] <= 2000 or another:
                broken.add("voucher")
        return broken

    def _of_refunds(self, call: CustomerCall, before: Sequence[CustomerCall]) -> set[str]:
        order, amount, broken = self._order(call), call.args["amount"], set()
        if order.get("status") != "returned":
            broken.add("refund_returned")
        payment = self._database["payments"].get(call.args["payment_id"], {})
        of_customer = payment.get("kind") == "voucher" and payment["customer"] == order.get("customer")
        if not order or (call.args["payment_id"] != order["payment"] and not of_customer):
            broken.add("refund_method")
        left = order.get("total", 0) - sum(refund["amount"] for refund in order.get("refunds", []))
        if not 0 < amount <= left:
            broken.add("refund_amount")
        if amount > 20_000:
            broken.add("large_refund")
        earlier = [
            past_call for past_call in before if past_call.tool == "refund_order" and past_call.status != "failed"
        ]
        if amount + sum(past_call.args.get("amount", 0) for past_call in earlier) > 30_000:
            broken.add("refund_budget")
        return broken

    def _order(self, call: CustomerCall) -> dict[str, Any]:
        order: dict[str, Any] = self._database["orders"].get(call.args["order_id"], {})
        return order


def well_formed(call: Call) -> dict[str, Any] | None:
    """The arguments of a well-formed call (rule `known_tools`); None for any other."""
    tool, written = call
    try:
        pairs = json.loads(written, object_pairs_hook=_Pairs) if isinstance(written, str) else _Pairs(written.items())
    except (ValueError, AttributeError, RecursionError):
        return None
    wanted = ARGUMENTS.get(tool)
    if wanted is None or not isinstance(pairs, _Pairs) or sorted(name for name, _ in pairs) != sorted(wanted):
        return None
    args = dict(pairs)
    return args if all(_fits(args[name], kind) for name, kind in wanted.items()) else None


class _Pairs(list[tuple[str, Any]]):
    """The names and values of a JSON object, including duplicates."""


def _fits(value: Any, kind: str) -> bool:
    if kind == TEXT:
        return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)
    return type(value) is int or (type(value) is float and value.is_integer())
