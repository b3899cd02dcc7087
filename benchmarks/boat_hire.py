# ruff: noqa: E501, FBT003, RUF024 - tables of rules and cases
"""A policy document of a boat hire with sixty sentences, its tools, and a model that translates it as scripted.

Each rule has two formulas that say the same in other words; for ten of them there is one that says something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from guardagent.models import Completion, Message
from guardagent.translation.readings.cases import case_text

NOW = "2026-03-02T10:00:00Z"  # a Monday


@dataclass(frozen=True)
class SentenceRule:
    """A sentence with its rule.

    Attributes:
        first: the formula, or the solver rule.
        second: the same in other words.
        tool: of the proposed calls.
        allowed, violating, unknown: the cases: arguments, and under `_` the other keys of the case.
        other: a formula with another meaning, if any. The author of the rule calls such a sentence ambiguous.
        more: more keys of the rule.
    """

    sentence: str
    id: str
    first: Any
    second: Any
    tool: str
    allowed: Sequence[Mapping[str, Any]]
    violating: Sequence[Mapping[str, Any]]
    unknown: Mapping[str, Any] | None = None
    other: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)

    def rule(self, number: int) -> dict[str, Any]:
        """The rule as an answer has it."""
        return {
            "id": self.id,
            "quotes": [{"sentence": number, "words": self.sentence.rstrip(".")}],
            **_formula(self.first),
            "message": f"Not allowed: {self.sentence}",
            **self.more,
            "cases": list(self.cases()),
        }

    def ambiguity(self, number: int, *, differs: bool) -> dict[str, Any]:
        """The sentence as ambiguous; unless it `differs`, the other reading says the same."""
        other = {"id": self.id, **_formula(self.other if differs else self.second)}
        readings = ["As written.", "In the other sense."]
        question = {"question": f"How is {self.id} meant?", "readings": readings, "follows": 1}
        return {"sentence": number, **question, "otherwise": [other]}

    def cases(self) -> Iterator[dict[str, Any]]:
        for at, call in enumerate(self.allowed, 1):
            yield self._case(f"allowed {at}", 0, [], call)
        for at, call in enumerate(self.violating, 1):
            yield self._case(f"violating {at}", 1, [self.id], call)
        if self.unknown is not None:
            yield self._case("unknown", 1, [], self.unknown)

    def _case(self, name: str, label: int, rules: list[str], args: Mapping[str, Any]) -> dict[str, Any]:
        own = {key: value for key, value in args.items() if key != "_"}
        proposed = {"tool": self.tool, "args": own}
        return {"id": name, **args.get("_", {}), "proposed": proposed, "label": label, "rules": rules}


def _formula(formula: Any) -> dict[str, Any]:
    return formula if isinstance(formula, dict) else {"temporal": formula}


def called(tool: str, output: str = "ok", at: str | None = None, **args: Any) -> dict[str, Any]:
    return {"tool": tool, "args": args, "output": output, **({"time": at} if at else {})}


def after(*calls: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"_": {"history": list(calls), **more}}


def facts(**values: Any) -> dict[str, Any]:
    return {"_": {"facts": values, "now": NOW}}


def state(**values: Any) -> dict[str, Any]:
    return {"_": {"state": values}}


def role(*roles: str) -> dict[str, Any]:
    return {"_": {"principal": {"id": "u1", "roles": list(roles)}}}


_BOOKING = called("get_booking", '{"customer": "c1", "status": "open"}', booking="b1")
_CLOSED = called("get_booking", '{"customer": "c1", "status": "closed"}', booking="b1")
_CUSTOMER = called("get_customer", '{"address": "ann@example.com"}', customer="c1")


def failed(tool: str, at: str = NOW, **args: Any) -> dict[str, Any]:
    return called(tool, "Error: no", at, **args)


def _solver(smt: str, tool: str, **variables: str) -> dict[str, Any]:
    sources = {name: {"from": place} for name, place in variables.items()}
    return {"solver": {"smt": smt, "tools": {tool: {"permit": "allowed", "variables": sources}}}}


_WAIVING = "(declare-const fee Real) (declare-const member Bool) (declare-const years Int) (declare-const allowed Bool)"
_TRIP = """(declare-datatypes ((Class 0)) (((a) (b) (c))))
(declare-const licence Class) (declare-const people Int) (declare-const night Bool) (declare-const allowed Bool)"""
_FEE = {"fee": "args.fee", "member": "fact(member)", "years": "fact(years)"}
_TRIP_PLACES = {"licence": "args.licence", "people": "args.people", "night": "args.night"}


def _fee(member: Any, years: Any, fee: float) -> dict[str, Any]:
    return {"customer": "c1", "fee": fee, **facts(member=member, years=years)}


def _trip(licence: str, people: int, *, night: bool) -> dict[str, Any]:
    return {"licence": licence, "people": people, "night": night}


SECTIONS: Mapping[str, Sequence[Any]] = {
    "The office": [
        ("Our boats lie at the north quay.", "definition"),
        ("A customer is a person with a record in our system.", "definition"),
        ("Greet everybody who comes in.", "not_enforceable"),
        ("Amounts are in euros.", "definition"),
        SentenceRule(
            "Only the manager pays money out.",
            "manager_pays",
            'forall(pay_out(), "manager" in principal.roles)',
            'forall(pay_out(), !("manager" in principal.roles) -> false)',
            "pay_out",
            [{"amount": 5, **role("manager")}, {"amount": 5, **role("clerk", "manager")}],
            [{"amount": 5, **role("clerk")}, {"amount": 5, **role()}],
            {"amount": 5},
        ),
        SentenceRule(
            "A payment above 1,000 euros needs an approval.",
            "payment_approval",
            "forall(pay_out(amount=a), a <= 1000)",
            "forall(pay_out(amount=x), !(x > 1000))",
            "pay_out",
            [{"amount": 1000}, {"amount": 999}],
            [{"amount": 1001}, {"amount": 2000}],
            {},
            more={"on_violation": "escalate"},
        ),
        SentenceRule(
            "Prices are changed by the manager or the owner.",
            "who_changes_prices",
            'forall(change_price(), "manager" in principal.roles || "owner" in principal.roles)',
            'forall(change_price(), "owner" in principal.roles || "manager" in principal.roles)',
            "change_price",
            [{"price": 5, **role("manager")}, {"price": 5, **role("owner")}],
            [{"price": 5, **role("clerk")}, {"price": 5, **role()}],
            {"price": 5},
            other='forall(change_price(), "manager" in principal.roles)',
        ),
        SentenceRule(
            "No price is changed while the office is closed.",
            "prices_in_office_hours",
            "G(tool:change_price -> (!tool:close_office S tool:open_office))",
            "G(!tool:change_price || (!tool:close_office S tool:open_office))",
            "change_price",
            [{"price": 5, **after(called("open_office"))}, {"price": 5, **after(called("open_office"), _BOOKING)}],
            [{"price": 5}, {"price": 5, **after(called("open_office"), called("close_office"))}],
        ),
        ("Keep the desk tidy.", "not_enforceable"),
        ("Never promise good weather.", "not_enforceable"),
    ],
    "Bookings": [
        ("A booking is the promise of one boat for one day.", "definition"),
        SentenceRule(
            "A boat takes at most eight people.",
            "people_limit",
            "forall(book_boat(people=n), n <= 8)",
            "forall(book_boat(people=x), !(8 < x))",
            "book_boat",
            [{"people": 8}, {"people": 7}],
            [{"people": 9}, {"people": 80}],
            {},
            other="forall(book_boat(people=n), n < 8)",
        ),
        ("A trip with nine people is therefore not possible.", "implied"),
        SentenceRule(
            "A boat is hired for at least one hour and for at most ten.",
            "hours_limit",
            "forall(book_boat(hours=h), 1 <= h && h <= 10)",
            "forall(book_boat(hours=x), x >= 1) AND forall(book_boat(hours=y), y <= 10)",
            "book_boat",
            [{"hours": 1}, {"hours": 10}],
            [{"hours": 0}, {"hours": 11}],
            {},
        ),
        SentenceRule(
            "The deposit is at least 50 euros and ten more for each hour.",
            "deposit",
            "forall(book_boat(deposit=d, hours=h), d >= 50 + 10 * h)",
            "forall(book_boat(deposit=d, hours=h), d - h * 10 >= 50)",
            "book_boat",
            [{"deposit": 60, "hours": 1}, {"deposit": 150, "hours": 10}],
            [{"deposit": 59, "hours": 1}, {"deposit": 149, "hours": 10}],
            {"hours": 1},
            other="forall(book_boat(deposit=d, hours=h), d >= 50 && d >= 10 * h)",
        ),
        SentenceRule(
            "Before a boat is booked, the licence of the customer is checked.",
            "licence_checked",
            "before(book_boat(customer=c), true, f:check_licence(customer=c), true)",
            "forall(book_boat(customer=c), some(f:check_licence(customer=c), !failed(f)))",
            "book_boat",
            [{"customer": "c1", **after(called("check_licence", customer="c1"))}],
            [{"customer": "c1"}, {"customer": "c2", **after(called("check_licence", customer="c1"))}],
            after(called("check_licence", customer="c1")),
            other="G(tool:book_boat -> O tool:check_licence)",
        ),
        SentenceRule(
            "Customers are at least 18 years old.",
            "age",
            "forall(book_boat(), fact(customer_age) >= 18)",
            "forall(book_boat(), 18 <= fact(customer_age))",
            "book_boat",
            [facts(customer_age=18), facts(customer_age=80)],
            [facts(customer_age=17), facts(customer_age=2)],
            facts(),
        ),
        SentenceRule(
            "One customer books at most three boats.",
            "three_boats",
            "forall(book_boat(customer=c), count(f:book_boat(customer=c), !failed(f)) < 3)",
            "forall(book_boat(customer=c), count(f:book_boat(customer=c), !failed(f)) <= 2)",
            "book_boat",
            [
                {
                    "customer": "c1",
                    **after(*[called("book_boat", customer="c1")] * 2, failed("book_boat", customer="c1")),
                },
                {"customer": "c2", **after(*[called("book_boat", customer="c1")] * 3)},
            ],
            [{"customer": "c1", **after(*[called("book_boat", customer="c1")] * 3)}],
            after(*[called("book_boat", customer="c1")] * 3),
            other="forall(book_boat(customer=c), count(f:book_boat(customer=c), !failed(f)) <= 3)",
        ),
        ("Ask what the customers want to see.", "not_enforceable"),
        SentenceRule(
            "A booking is changed only by somebody who read it within the last two hours.",
            "fresh_booking",
            "forall(change_booking(booking=b), some(f:get_booking(booking=b), !failed(f), within 2h))",
            "forall(change_booking(booking=x), count(g:get_booking(booking=x), !failed(g), within 2h) >= 1)",
            "change_booking",
            [{"booking": "b1", **after(called("get_booking", at="2026-03-02T08:00:00Z", booking="b1"), now=NOW)}],
            [
                {"booking": "b1", "_": {"now": NOW}},
                {"booking": "b1", **after(called("get_booking", at="2026-03-02T07:59:59Z", booking="b1"), now=NOW)},
                {"booking": "b2", **after(called("get_booking", at="2026-03-02T08:00:00Z", booking="b1"), now=NOW)},
                {"booking": "b1", **after(failed("get_booking", booking="b1"), now=NOW)},
            ],
            after(called("get_booking", at=NOW, booking="b1"), now=NOW),
        ),
        SentenceRule(
            "A booking is never deleted.",
            "no_deletion",
            "G !tool:delete_booking",
            "forall(delete_booking(), false)",
            "delete_booking",
            [],
            [{}, {"booking": "b1"}],
        ),
        SentenceRule(
            "Only open bookings are cancelled.",
            "open_bookings",
            'before(cancel_booking(booking=b), true, f:get_booking(booking=b), output(f).status == "open")',
            'forall(cancel_booking(booking=b), some(g:get_booking(booking=b), "open" == output(g).status && !failed(g)))',
            "cancel_booking",
            [{"booking": "b1", **after(_BOOKING)}],
            [{"booking": "b1", **after(_CLOSED)}, {"booking": "b2", **after(_BOOKING)}, {"booking": "b1"}],
            after(_BOOKING),
        ),
        SentenceRule(
            "A booking is cancelled within 24 hours after it was made.",
            "cancellation_period",
            "forall(cancel_booking(), now - time(fact(booked_at)) <= 24h)",
            "forall(cancel_booking(), !(now - time(fact(booked_at)) > 24h))",
            "cancel_booking",
            [facts(booked_at="2026-03-01T10:00:00Z"), facts(booked_at="2026-03-02T09:00:00Z")],
            [facts(booked_at="2026-03-01T09:59:59Z"), facts(booked_at="2026-02-01T10:00:00Z")],
            facts(),
            other="forall(cancel_booking(), now - time(fact(booked_at)) < 24h)",
        ),
        ("Be patient with people who cannot decide.", "not_enforceable"),
        ("A day begins at midnight.", "definition"),
    ],
    "Money": [
        SentenceRule(
            "A refund is at most 300 euros.",
            "refund_limit",
            "forall(refund(amount=a), a <= 300)",
            "forall(refund(amount=a), 300 >= a)",
            "refund",
            [{"amount": 300}, {"amount": 299}],
            [{"amount": 301}, {"amount": 3000}],
            {},
            other="forall(refund(amount=a), a < 300)",
        ),
        ("A refund of 400 euros is therefore not possible.", "implied"),
        SentenceRule(
            "A refund is paid only for a booking of the same customer.",
            "own_booking",
            "before(refund(booking=b, customer=c), true, f:get_booking(booking=b), output(f).customer == c)",
            "forall(refund(customer=x, booking=y), some(g:get_booking(booking=y), x == output(g).customer && !failed(g)))",
            "refund",
            [{"booking": "b1", "customer": "c1", **after(_BOOKING)}],
            [
                {"booking": "b1", "customer": "c2", **after(_BOOKING)},
                {"booking": "b2", "customer": "c1", **after(_BOOKING)},
                {"booking": "b1", "customer": "c1"},
            ],
            {"booking": "b1", **after(_BOOKING)},
        ),
        SentenceRule(
            "The refunds of one customer are at most 500 euros within 24 hours.",
            "refunds_of_a_day",
            "forall(refund(customer=c, amount=a), "
            "sum(f:refund(customer=c), !failed(f), args(f).amount, within 24h) + a <= 500)",
            "forall(refund(customer=c, amount=a), "
            "a + sum(g:refund(customer=c), !failed(g), args(g).amount, within 24h) <= 500)",
            "refund",
            [
                {
                    "customer": "c1",
                    "amount": 300,
                    **after(
                        called("refund", at=NOW, customer="c1", amount=200),
                        failed("refund", customer="c1", amount=9),
                        now=NOW,
                    ),
                },
                {"customer": "c1", "amount": 500, **after(called("refund", customer="c2", amount=200), now=NOW)},
                {
                    "customer": "c1",
                    "amount": 301,
                    **after(called("refund", at="2026-03-01T09:59:59Z", customer="c1", amount=200), now=NOW),
                },
            ],
            [
                {
                    "customer": "c1",
                    "amount": 301,
                    **after(called("refund", at="2026-03-01T10:00:00Z", customer="c1", amount=200), now=NOW),
                },
            ],
            {"customer": "c1", "_": {"now": NOW}},
            other="forall(refund(customer=c, amount=a), sum(f:refund(customer=c), !failed(f), args(f).amount) + a <= 500)",
        ),
        SentenceRule(
            "A customer is charged only for fuel, damage or lateness.",
            "reasons",
            'forall(charge(reason=r), r in ["fuel", "damage", "lateness"])',
            'forall(charge(reason=r), r == "lateness" || r == "fuel" || r == "damage")',
            "charge",
            [{"reason": "fuel"}, {"reason": "damage"}, {"reason": "lateness"}],
            [{"reason": "mood"}, {"reason": ""}],
            {},
        ),
        SentenceRule(
            "A discount is at most 15 percent, except for members.",
            "discount_limit",
            "forall(give_discount(percent=p), p <= 15 || fact(member) == true)",
            "forall(give_discount(percent=p), p > 15 -> fact(member) == true)",
            "give_discount",
            [{"percent": 15, **facts(member=False)}, {"percent": 16, **facts(member=True)}],
            [{"percent": 16, **facts(member=False)}, {"percent": 100, **facts(member=False)}],
            {"percent": 16},
        ),
        SentenceRule(
            "A customer gets a discount once.",
            "one_discount",
            "forall(give_discount(customer=c), count(f:give_discount(customer=c), !failed(f)) == 0)",
            "forall(give_discount(customer=c), count(g:give_discount(customer=c), !failed(g)) < 1)",
            "give_discount",
            [
                {"customer": "c1", **after(failed("give_discount", customer="c1"))},
                {"customer": "c2", **after(called("give_discount", customer="c1"))},
            ],
            [{"customer": "c1", **after(called("give_discount", customer="c1"))}],
            after(called("give_discount", customer="c1")),
        ),
        SentenceRule(
            "A fee of up to 20 euros is waived for members, and one of up to 50 after five years.",
            "waiving",
            _solver(
                f"{_WAIVING} (assert (= allowed (or (and member (<= fee 20.0)) (and (>= years 5) (<= fee 50.0)))))",
                "waive_fee",
                **_FEE,
            ),
            _solver(
                f"{_WAIVING} (assert (= allowed (and (=> (> fee 50.0) false) (=> (< years 5) (and member (<= fee 20.0)))"
                " (=> (> fee 20.0) (>= years 5)))))"
                " ; members with a small fee are fine anyway\n",
                "waive_fee",
                **_FEE,
            ),
            "waive_fee",
            [_fee(True, 0, 20), _fee(False, 5, 50)],
            [_fee(True, 4, 21), _fee(False, 4, 20), _fee(False, 5, 51)],
            {"customer": "c1", "fee": 20, **facts(member=False)},
        ),
        ("Count the money twice.", "not_enforceable"),
        ("Prices include the tax.", "definition"),
    ],
    "Trips": [
        ("A trip is the time between the hand-over and the return.", "definition"),
        SentenceRule(
            "A boat is handed over only after an inspection.",
            "inspected",
            "before(hand_over(boat=b), true, f:inspect_boat(boat=b), true)",
            "forall(hand_over(boat=x), some(i:inspect_boat(boat=y), y == x && !failed(i)))",
            "hand_over",
            [{"boat": "x1", **after(called("inspect_boat", boat="x1"))}],
            [{"boat": "x1"}, {"boat": "x2", **after(called("inspect_boat", boat="x1"))}],
            after(called("inspect_boat", boat="x1")),
        ),
        SentenceRule(
            "A boat that is in repair is not handed over.",
            "in_repair",
            "forall(hand_over(), state.in_repair == false)",
            "forall(hand_over(), false == state.in_repair)",
            "hand_over",
            [{"boat": "x1", **state(in_repair=False)}],
            [{"boat": "x1", **state(in_repair=True)}, {"boat": "x1", **state(in_repair=True, wind=2)}],
            {"boat": "x1"},
        ),
        SentenceRule(
            "No boat leaves when the wind is stronger than six.",
            "wind",
            "forall(hand_over(), state.wind <= 6)",
            "forall(hand_over(), !(state.wind > 6))",
            "hand_over",
            [{"boat": "x1", **state(wind=6)}, {"boat": "x1", **state(wind=5)}],
            [{"boat": "x1", **state(wind=7)}, {"boat": "x1", **state(wind=9)}],
            {"boat": "x1"},
        ),
        SentenceRule(
            "With a child on board, belts are on board as well.",
            "belts",
            "forall(hand_over(), fact(child_on_board) == true -> fact(belts_on_board) == true)",
            "forall(hand_over(), fact(belts_on_board) == true || !(fact(child_on_board) == true))",
            "hand_over",
            [facts(child_on_board=True, belts_on_board=True), facts(child_on_board=False, belts_on_board=False)],
            [
                facts(child_on_board=True, belts_on_board=False),
                {"boat": "x", **facts(child_on_board=True, belts_on_board=False)},
            ],
            facts(belts_on_board=False),
        ),
        SentenceRule(
            "The engine is started only once the belts are handed out.",
            "belts_before_engine",
            "G(tool:start_engine -> O tool:hand_out_belts)",
            "!tool:start_engine W tool:hand_out_belts",
            "start_engine",
            [after(called("hand_out_belts")), after(_BOOKING, called("hand_out_belts"))],
            [{}, after(_BOOKING)],
        ),
        SentenceRule(
            "At night, a trip needs a licence of class A, or class B and fewer than six people.",
            "night_trips",
            _solver(
                f"{_TRIP} (assert (= allowed (or (not night) (= licence a) (and (= licence b) (< people 6)))))",
                "plan_trip",
                **_TRIP_PLACES,
            ),
            _solver(
                f"{_TRIP} (assert (= allowed (=> night (and (distinct licence c) (=> (= licence b) (<= people 5))))))",
                "plan_trip",
                **_TRIP_PLACES,
            ),
            "plan_trip",
            [_trip("a", 6, night=True), _trip("b", 5, night=True), _trip("c", 8, night=False)],
            [_trip("b", 6, night=True), _trip("c", 5, night=True)],
            {"licence": "b", "people": 6},
        ),
        SentenceRule(
            "After a boat is taken back, it is inspected.",
            "inspected_after",
            "after(take_back(boat=b), true, inspect_boat(boat=b), true)",
            "after(take_back(boat=x), true, g:inspect_boat(boat=x), true)",
            "take_back",
            [{"boat": "x1"}],
            [],
        ),
        ("Show the customers how to steer.", "not_enforceable"),
        ("Wish them a good trip.", "not_enforceable"),
        ("The captain must have slept well.", "fact"),
        ("The wind is measured in Beaufort.", "definition"),
    ],
    "Fuel": [
        SentenceRule(
            "One order of fuel has at most 500 litres.",
            "order_limit",
            "forall(order_fuel(litres=n), n <= 500)",
            "forall(f:order_fuel(), args(f).litres <= 500)",
            "order_fuel",
            [{"litres": 500}, {"litres": 499}],
            [{"litres": 501}, {"litres": 5000}],
            {},
            other="forall(order_fuel(litres=n), n < 500)",
        ),
        ("Larger amounts are split.", "implied"),
        SentenceRule(
            "In a week, at most 1,000 litres are ordered.",
            "litres_of_a_week",
            "forall(order_fuel(litres=n), sum(f:order_fuel(), !failed(f), args(f).litres, within 7d) + n <= 1000)",
            "forall(order_fuel(litres=n), n <= 1000 - sum(f:order_fuel(), !failed(f), args(f).litres, within 7d))",
            "order_fuel",
            [
                {
                    "litres": 400,
                    **after(called("order_fuel", at=NOW, litres=600), failed("order_fuel", litres=9), now=NOW),
                },
                {"litres": 401, **after(called("order_fuel", at="2026-02-23T09:59:59Z", litres=600), now=NOW)},
            ],
            [
                {"litres": 401, **after(called("order_fuel", at=NOW, litres=600), now=NOW)},
                {"litres": 401, **after(called("order_fuel", at="2026-02-23T10:00:00Z", litres=600), now=NOW)},
            ],
            {"_": {"now": NOW}},
        ),
        SentenceRule(
            "Fuel is ordered on weekdays from eight until four o'clock.",
            "fuel_hours",
            "forall(order_fuel(), weekday(now) <= 5 && hour(now) >= 8 && hour(now) < 16)",
            "forall(order_fuel(), 8 <= hour(now)) AND forall(order_fuel(), hour(now) < 16 && !(weekday(now) > 5))",
            "order_fuel",
            [{"_": {"now": "2026-03-02T08:00:00Z"}}, {"_": {"now": "2026-03-06T15:59:59Z"}}],
            [
                {"_": {"now": "2026-03-02T07:59:59Z"}},
                {"_": {"now": "2026-03-06T16:00:00Z"}},
                {"_": {"now": "2026-03-07T10:00:00Z"}},
            ],
            {"litres": 5},
            other="forall(order_fuel(), weekday(now) <= 5 && hour(now) >= 8 && hour(now) <= 16)",
        ),
        SentenceRule(
            "Fuel comes from North Quay or Harbour Oil.",
            "suppliers",
            'forall(order_fuel(supplier=s), s in ["North Quay", "Harbour Oil"])',
            'forall(order_fuel(supplier=s), s == "Harbour Oil" || s == "North Quay")',
            "order_fuel",
            [{"supplier": "North Quay"}, {"supplier": "Harbour Oil"}],
            [{"supplier": "Cheap Oil"}, {"supplier": ""}],
            {},
        ),
        SentenceRule(
            "Fuel is ordered only after the tank was measured.",
            "tank_measured",
            "G(tool:order_fuel -> O tool:measure_tank)",
            "before(order_fuel(), true, measure_tank(), true)",
            "order_fuel",
            [after(called("measure_tank")), after(called("measure_tank"), _BOOKING)],
            [{}, after(_BOOKING), after(failed("measure_tank"))],
        ),
        ("Do not smoke near the tank.", "not_enforceable"),
    ],
    "Messages": [
        SentenceRule(
            "Messages go only to the address in the record of the customer.",
            "own_address",
            "before(send_message(customer=c, address=a), true, f:get_customer(customer=c), output(f).address == a)",
            "forall(send_message(address=y, customer=x), some(g:get_customer(customer=x), !failed(g) && y == output(g).address))",
            "send_message",
            [{"customer": "c1", "address": "ann@example.com", **after(_CUSTOMER)}],
            [
                {"customer": "c1", "address": "eve@example.com", **after(_CUSTOMER)},
                {"customer": "c2", "address": "ann@example.com", **after(_CUSTOMER)},
                {"customer": "c1", "address": "ann@example.com"},
            ],
            {"customer": "c1", **after(_CUSTOMER)},
        ),
        SentenceRule(
            "One customer gets at most two messages within an hour.",
            "two_messages",
            "forall(send_message(customer=c), count(f:send_message(customer=c), !failed(f), within 1h) < 2)",
            "forall(send_message(customer=c), count(f:send_message(customer=c), !failed(f), within 1h) <= 1)",
            "send_message",
            [
                {
                    "customer": "c1",
                    **after(
                        called("send_message", at=NOW, customer="c1"), failed("send_message", customer="c1"), now=NOW
                    ),
                },
                {"customer": "c2", **after(*[called("send_message", at=NOW, customer="c1")] * 2, now=NOW)},
                {
                    "customer": "c1",
                    **after(*[called("send_message", at="2026-03-02T08:59:59Z", customer="c1")] * 2, now=NOW),
                },
            ],
            [
                {
                    "customer": "c1",
                    **after(*[called("send_message", at="2026-03-02T09:00:00Z", customer="c1")] * 2, now=NOW),
                },
            ],
            after(*[called("send_message", at=NOW, customer="c1")] * 2, now=NOW),
        ),
        SentenceRule(
            "A notice to everybody is written, then read by a second person, then sent.",
            "notices",
            "seq(write_notice(notice=n), review_notice(notice=n), send_notice(notice=n))",
            "seq(write_notice(notice=x), review_notice(notice=x), send_notice(notice=x))",
            "send_notice",
            [{"notice": "n1", **after(called("write_notice", notice="n1"), called("review_notice", notice="n1"))}],
            [
                {"notice": "n1"},
                {"notice": "n1", **after(called("write_notice", notice="n1"))},
                {"notice": "n2", **after(called("write_notice", notice="n1"), called("review_notice", notice="n1"))},
            ],
        ),
        ("Write in plain words.", "not_enforceable"),
        ("Answer within one day, if you can.", "not_enforceable"),
        ("A notice is a text on the board.", "definition"),
    ],
}
DOCUMENT = "# Boat hire\n\n" + "\n\n".join(
    "\n\n".join(
        [f"## {title}", *(entry.sentence if isinstance(entry, SentenceRule) else entry[0] for entry in content)]
    )
    for title, content in SECTIONS.items()
)
"""The document in Markdown."""

_RULES = {rule.sentence: rule for content in SECTIONS.values() for rule in content if isinstance(rule, SentenceRule)}
_FATES = {
    entry[0]: entry[1] for content in SECTIONS.values() for entry in content if not isinstance(entry, SentenceRule)
}
_FACTS = {
    "state.in_repair": "whether the boat is in repair",
    "state.wind": "the wind in Beaufort",
    "member": "whether the customer is a member",
    "years": "the years since the first booking",
    "customer_age": "the age in years",
    "booked_at": "the time of the booking (ISO 8601)",
    "child_on_board": "whether a child comes along",
    "belts_on_board": "whether there are belts for everybody",
}
_TYPES = {
    **dict.fromkeys(("amount", "people", "hours", "deposit", "fee", "litres", "percent", "price"), {"type": "number"}),
    "night": {"type": "boolean"},
}
_TOOLS = {
    "pay_out": "to amount",
    "change_price": "boat price",
    "open_office": "",
    "close_office": "",
    "get_customer": "customer",
    "check_licence": "customer",
    "get_booking": "booking",
    "book_boat": "customer boat hours people deposit",
    "change_booking": "booking hours people",
    "cancel_booking": "booking",
    "delete_booking": "booking",
    "refund": "booking customer amount",
    "charge": "customer amount reason",
    "give_discount": "customer percent",
    "waive_fee": "customer fee",
    "inspect_boat": "boat",
    "hand_over": "boat",
    "take_back": "boat",
    "hand_out_belts": "",
    "start_engine": "",
    "plan_trip": "licence people night",
    "order_fuel": "litres supplier",
    "measure_tank": "",
    "send_message": "customer address text",
    "write_notice": "notice",
    "review_notice": "notice",
    "send_notice": "notice",
}
TOOLS = {
    "tools": [
        {
            "name": name,
            "description": f"The tool {name.replace('_', ' ')}.",
            "inputSchema": {
                "type": "object",
                "properties": {part: _TYPES.get(part, {"type": "string"}) for part in arguments.split()},
            },
        }
        for name, arguments in _TOOLS.items()
    ]
}
TRACES = "".join(
    json.dumps(
        {
            "id": f"t{at}",
            "events": [
                {**_CUSTOMER, "time": NOW, "status": "ok"},
                {**_BOOKING, "time": NOW, "status": "ok"},
                {"tool": "get_booking", "args": {"booking": f"b{at}"}, "output": "Error: no such booking", "time": NOW},
                {"tool": "measure_tank", "args": {}, "output": "ok", "time": NOW, "status": "ok"},
            ],
        }
    )
    + "\n"
    for at in range(20)
)
"""Recorded conversations, as JSON Lines."""


class ScriptedTranslator:
    """A model that knows the document. The ambiguities that it names mean something else only if it `differs`.

    Attributes:
        calls: the number of answers so far.
        words: the words of all prompts.
    """

    def __init__(self, *, differs: bool = False) -> None:
        self._differs = differs
        self.calls = self.words = 0

    def complete(self, messages: Sequence[Message]) -> Completion:
        """Answers a prompt."""
        self.calls += 1
        self.words += sum(len(message.content.split()) for message in messages)
        user = messages[-1].content
        answer = _read(user) if "You read cases" in user else self._translated(user)
        written = yaml.safe_dump(json.loads(json.dumps(answer)), sort_keys=False, width=100)  # without aliases
        return Completion(f"```yaml\n{written}```\n")

    def _translated(self, user: str) -> dict[str, Any]:
        if "You sort the sentences" in user:
            texts = _numbered(user, "document")
            return _survey({number: texts[number] for number in map(int, re.findall(r"\d+", _data(user, "sentences")))})
        numbers = _numbered(user, "sentences")
        rules = {number: _RULES[text] for number, text in numbers.items()}
        return {
            "rules": [rule.rule(number) for number, rule in rules.items()],
            "ambiguous": [
                rule.ambiguity(number, differs=self._differs) for number, rule in rules.items() if rule.other
            ],
        }


def _data(user: str, label: str) -> str:
    wanted = re.search(rf"<data {label} \w+>\n(.*?)\n</data", user, re.DOTALL)
    assert wanted, f"a request names its {label}"
    return wanted[1]


def _numbered(user: str, label: str) -> dict[int, str]:
    pairs = re.findall(r"^\[(\d+)\] (?:#+ |- )?(.*)$", _data(user, label), re.MULTILINE)
    return {int(at): text for at, text in pairs}


def _read(user: str) -> dict[str, Any]:
    """Judges the cases of a request, as the document means them."""
    sentences, verdicts = _numbered(user, "document"), list[dict[str, Any]]()
    for number, sentence, case in re.findall(
        r"^(\d+)\. \[(\d+)\] (?:\[\d+\] )*(.*)$", _data(user, "cases"), re.MULTILINE
    ):
        known = _RULES[sentences[int(sentence)]].cases()
        labels = [each["label"] for each in known if case_text(each) == case]
        verdicts.append({"case": int(number), "verdict": "against" if labels[0] else "fine"})
    return {"cases": verdicts}


def _survey(numbers: Mapping[int, str]) -> dict[str, Any]:
    described: Iterable[dict[str, str]] = ({"name": name, "description": about} for name, about in _FACTS.items())
    sentences = [_surveyed(number, text) for number, text in numbers.items()]
    return {"failed_output": "^Error", "facts": list(described), "sentences": sentences}


def _surveyed(number: int, text: str) -> dict[str, Any]:
    fate = "rule" if text in _RULES else _FATES.get(text, "definition")
    why = {"not_enforceable": "No call shows it.", "fact": "Only the host can know it."}.get(fate)
    implied = {"implied_by": [number - 1]} if fate == "implied" else {}
    return {"number": number, "fate": fate, **({"reason": why} if why else {}), **implied}
