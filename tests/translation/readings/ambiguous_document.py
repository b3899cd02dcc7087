"""A document with twelve sentences that can be read in two ways, and drafts that read them so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from guardagent.policy.documents import parse_document
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafts import Ambiguity, Draft, RuleDraft
from guardagent.translation.tools import ToolSchema

_TOOLS = {
    "refund": {"order": "string", "amount": "number"},
    "give_voucher": {"customer": "string"},
    "verify": {},
    "close_account": {"customer": "string"},
    "change_address": {"customer": "string"},
    "notify": {"customer": "string"},
    "export": {},
    "move_parcel": {"parcel": "string", "depot": "string"},
    "get_parcel": {"id": "string"},
    "get_depot": {"id": "string"},
    "give_discount": {"items": "array", "percent": "number"},
    "cancel_invoice": {"id": "string"},
    "place_order": {"net": "number", "gross": "number"},
    "get_order": {"order": "string"},
    "ship": {"order": "string"},
    "log_in": {"name": "string"},
    "give_coupon": {"order": "string"},
}


def tool(name: str, arguments: Mapping[str, str]) -> ToolSchema:
    """Returns a tool that requires no argument."""
    properties = {key: {"type": kind} for key, kind in arguments.items()}
    return ToolSchema(name, "", {"type": "object", "properties": properties})


def context_of(sentences: Iterable[str], tools: Iterable[ToolSchema] = ()) -> TranslationContext:
    """Returns a context with a document, one paragraph for each sentence."""
    document = parse_document("\n\n".join(sentences).encode(), "policy.txt", "text")
    return TranslationContext(document, tuple(tools) or tuple(tool(*entry) for entry in _TOOLS.items()))


@dataclass(frozen=True)
class Reading:
    """One reading of a sentence: its rule, and what the rule needs."""

    rule: Any
    declarations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def draft(self, number: int, id: str = "rule", *ambiguities: Ambiguity) -> Draft:  # noqa: A002 - the key
        """Returns the draft of a sentence that says this."""
        keys = {"temporal": self.rule} if isinstance(self.rule, str) else self.rule
        rule = RuleDraft(f"{id}_{number}", keys, {number: "…"})
        return Draft((number,), (rule,), self.declarations, ambiguities=ambiguities)


@dataclass(frozen=True)
class Planted:
    """A sentence with two readings, and the first of them in other words."""

    sentence: str
    first: Reading
    second: Reading
    same: Reading


_DAY = "forall(give_voucher(customer=c), count(f:give_voucher(customer=c), {}) < 3)"
_AGE = "now - fact(issued_at)"
_ONCE = {"coupons": {"on": "give_coupon(order=o)", "key": "o"}}
_OTHER_NAME = {"given": {"on": "give_coupon(order=o)", "key": "o"}}

PLANTED = (
    Planted(
        "Refunds are possible up to 100 euros.",
        Reading("forall(refund(amount=a), a <= 100)"),
        Reading("forall(refund(amount=a), a < 100)"),
        Reading("NOT exists(refund(amount=x), x > most)", {"constants": {"most": 100}}),
    ),
    Planted(
        "A customer gets three vouchers per day.",
        Reading(_DAY.format("!failed(f), within 24h")),
        Reading(_DAY.format("!failed(f) && date(time(f)) == date(now)")),
        Reading(_DAY.format("!failed(f), within 1440m")),
    ),
    Planted(
        "Customers are verified before an account is closed.",
        Reading('forall(close_account(), "customer" in principal.roles -> some(verify()))'),
        Reading("forall(close_account(), some(verify()))"),
        Reading('forall(close_account(), some(verify()) || !("customer" in principal.roles))'),
    ),
    Planted(
        "After an address was changed, the customer is notified.",
        Reading("G(tool:change_address -> X tool:notify)"),
        Reading("G(tool:change_address -> F tool:notify)"),
        Reading("G(!tool:change_address || X tool:notify)"),
    ),
    Planted(
        "An export needs a ticket or an approval.",
        Reading("forall(export(), fact(ticket) || fact(approval))"),
        Reading("forall(export(), (fact(ticket) || fact(approval)) && !(fact(ticket) && fact(approval)))"),
        Reading("forall(export(), !fact(ticket) -> fact(approval))"),
    ),
    Planted(
        "When parcels are moved to depots, they must be open.",
        Reading("forall(move_parcel(depot=d), some(f:get_depot(id=d), output(f).open == true))"),
        Reading("forall(move_parcel(parcel=p), some(f:get_parcel(id=p), output(f).open == true))"),
        Reading("before(move_parcel(depot=d), true, g:get_depot(id=d), output(g).open == true)"),
    ),
    Planted(
        "Discounts on an order are at most 20 percent.",
        Reading("forall(give_discount(percent=p), p <= 20)"),
        Reading("forall(give_discount(items=xs), all(x in xs, x.percent <= 20))"),
        Reading("forall(give_discount(percent=p), !(p > 20))"),
    ),
    Planted(
        "An invoice can be cancelled within two business days.",
        Reading("forall(cancel_invoice(), now - fact(issued_at) <= 48h)"),
        Reading(f"forall(cancel_invoice(), {_AGE} <= 48h || (weekday(now) < 3 && {_AGE} <= 96h))"),
        Reading("forall(cancel_invoice(), fact(issued_at) >= now - 2d)"),
    ),
    Planted(
        "Orders of more than 500 euros are not placed.",
        Reading("forall(place_order(net=n), n <= 500)"),
        Reading("forall(place_order(gross=g), g <= 500)"),
        Reading("forall(place_order(net=n), few(n))", {"define": {"few(amount)": "amount <= 500"}}),
    ),
    Planted(
        "The agent should look an order up before it is shipped.",
        Reading("forall(ship(order=o), some(get_order(order=o)))"),
        Reading({"temporal": "forall(ship(order=o), some(get_order(order=o)))", "on_violation": "warn"}),
        Reading("before(ship(order=o), true, get_order(order=o), true)"),
    ),
    Planted(
        "After three attempts to log in, no other one is made.",
        Reading("forall(log_in(), count(f:log_in()) < 3)"),
        Reading("forall(log_in(), count(f:log_in(), !failed(f)) < 3)"),
        Reading("forall(log_in(), count(f:log_in()) <= 2)"),
    ),
    Planted(
        "A coupon is given once per order.",
        Reading("forall(give_coupon(order=o), counter(coupons, o) == 0)", {"counters": _ONCE}),
        Reading("forall(give_coupon(order=o), count(f:give_coupon(order=o), !failed(f)) == 0)"),
        Reading("forall(give_coupon(order=i), counter(given, i) == 0)", {"counters": _OTHER_NAME}),
    ),
)

CONTEXT = context_of(planted.sentence for planted in PLANTED)
