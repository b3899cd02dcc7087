"""Adds up the cart with exact decimals and compares the total with the buyer's limit."""

import re
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import reduce
from typing import List, NamedTuple

LINE = re.compile(
    r"""
    ^\s*(?P<quantity>\d+)\s*x\s+      # how many
    (?P<name>[^@]+?)\s*               # what
    @\s*(?P<price>[\d.]+)\s*$         # for how much each
    """,
    re.VERBOSE | re.MULTILINE,
)
CENT = Decimal("0.01")


class Item(NamedTuple):
    name: str
    quantity: int
    price: Decimal

    def subtotal(self) -> Decimal:
        return self.price * self.quantity


def read_cart(text: str) -> List[Item]:
    items = []
    for m in LINE.finditer(text):
        try:
            price = Decimal(m["price"])
        except InvalidOperation:
            continue
        items.append(Item(m["name"], int(m["quantity"]), price))
    return items


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    items = read_cart(agent_output)
    total = reduce(lambda acc, item: acc + item.subtotal(), items, Decimal(0))
    vat = (total * Decimal("0.19")).quantize(CENT, rounding=ROUND_HALF_UP)
    gross = total + vat
    limit = float(facts.get("limit", 100))
    rules = {
        "limit": {"info": "gross", "operator": "<=", "value": limit, "violation": f"{gross:.2f} is over {limit:.2f}"},
        "member": {"info": "member", "operator": "==", "value": True, "violation": "only members may check out"},
    }
    denied, violations = check_rule(rules, {"gross": float(gross), "member": bool(facts.get("member"))})
    width = max((len(item.name) for item in items), default=4)
    lines = [f"{item.name:<{width}} {item.quantity:>3} {item.subtotal():>10.2f}" for item in items]
    print("\n".join(lines))
    return {
        "label": 1 if denied else 0,
        "reasons": [*violations.values()],
        "details": {"net": str(total), "vat": str(vat), "gross": f"{gross:,.2f}", "lines": lines},
        "answer": None if denied else f"Order placed for {gross:.2f}",
    }
