"""The rules of benchmarks/tau agree with the labels of the cases; their functions answer, or say that they cannot."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from guardagent import load_policies
from guardagent.sandbox.toolbox import Toolbox

TAU = Path(__file__).parents[2] / "benchmarks" / "tau"
DOMAINS = ("retail", "airline")
Functions = Mapping[str, Callable[..., Any]]


def policies_of(domain: str) -> Any:
    return load_policies(TAU / f"{domain}.yaml")


def verdict_on(case: dict[str, Any], policies: Any) -> tuple[int, list[str]]:
    """Label and rules of a case, as `guardagent check` gives them."""
    from guardagent.batch.cases import judge_case
    from guardagent.batch.records import read_case

    verdict = judge_case(policies, read_case(json.dumps(case), "cases", 1, policies.failed_output))
    return verdict.label, sorted(verdict.rules)


@pytest.mark.parametrize(("domain", "labels", "rules"), [("retail", 0.99, 0.99), ("airline", 0.99, 0.98)])
def test_verdicts_agree_with_the_labels(domain: str, labels: float, rules: float, shared: Path) -> None:
    """Labels, and exactly the rules that are broken."""
    policies = policies_of(domain)
    cases = [json.loads(line) for line in (shared / "tau" / f"{domain}.jsonl").read_text().splitlines()]
    verdicts = [verdict_on(case, policies) for case in cases]
    pairs = list(zip(cases, verdicts, strict=True))
    assert sum(case["label"] == label for case, (label, _) in pairs) >= labels * len(cases)
    assert sum(sorted(case["rules"]) == named for case, (_, named) in pairs) >= rules * len(cases)


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_rule_is_there(domain: str, shared: Path) -> None:
    """Each rule of the list has a policy of its id, and there is no other."""
    listed = json.loads((shared / "tau" / "rules.json").read_text())[domain]
    assert set(policies_of(domain).ids) == set(listed)


@pytest.mark.slow
def test_solver_rules_give_the_same_verdicts(shared: Path) -> None:
    """airline-solver.yaml says the same as airline.yaml, of the cases and of what is left when facts are taken out."""
    pytest.importorskip("z3", reason="the extra `solver` is not installed")
    policies, solver = policies_of("airline"), load_policies(TAU / "airline-solver.yaml")
    assert solver.ids == policies.ids
    chance = random.Random(7)  # noqa: S311 - the same every time
    for line in (shared / "tau" / "airline.jsonl").read_text().splitlines():
        case = json.loads(line)
        assert verdict_on(case, solver) == verdict_on(case, policies), case["id"]
        for facts in (case["context"], case["proposed"]["args"]):
            if facts:
                facts[chance.choice(sorted(facts))] = None
        assert verdict_on(case, solver) == verdict_on(case, policies), case["id"]


def retail_case(**changes: Any) -> dict[str, Any]:
    """A customer cancels an order of theirs, as they may."""
    order = {
        "user_id": "ann_1",
        "status": "pending",
        "items": [{"item_id": "11", "product_id": "1", "price": 0.1}],
        "payment_history": [{"transaction_type": "payment", "amount": 0.1, "payment_method_id": "card_1"}],
    }
    case = {
        "id": "invented",
        "history": [
            {"tool": "find_user_id_by_email", "args": {"email": "ann@example.com"}, "output": "ann_1"},
            {"tool": "get_order_details", "args": {"order_id": "#1"}, "output": json.dumps(order)},
        ],
        "user_confirmed": True,
        "context": {},
        "state": {"now": "2024-05-15T15:00:00", "orders": {"#1": order}, "users": {}, "products": {}},
        "proposed": {"tool": "cancel_pending_order", "args": {"order_id": "#1", "reason": "no longer needed"}},
    }
    return {**case, **changes}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (0, [])),
        ({"user_confirmed": None}, (1, [])),
        ({"user_confirmed": False}, (1, ["R3_confirm"])),
        ({"history": []}, (1, ["R17_status_checked", "R1_auth"])),
        ({"state": {"orders": {}}}, (1, [])),
    ],
)
def test_retail(changes: dict[str, Any], expected: tuple[int, list[str]]) -> None:
    """A known violation names its rule; an unknown fact denies without one."""
    assert verdict_on(retail_case(**changes), policies_of("retail")) == expected


def airline_case(booked: str = "2024-05-15T10:00:00", status: str = "available", **changes: Any) -> dict[str, Any]:
    """A customer cancels a flight in economy that was booked today, as they may."""
    flight = {"flight_number": "F1", "date": "2024-05-20"}
    record = {"user_id": "ann_1", "cabin": "economy", "insurance": "no", "created_at": booked, "flights": [flight]}
    case = {
        "id": "invented",
        "history": [{"tool": "get_user_details", "args": {"user_id": "ann_1"}, "output": "{}"}],
        "user_confirmed": True,
        "context": {"user_id_provided": None, "cancel_reason": "other"},
        "state": {
            "now": "2024-05-15T15:00:00-05:00",
            "reservations": {"R1": record},
            "flights": {"F1": {"dates": {"2024-05-20": {"status": status}}}},
        },
        "proposed": {"tool": "cancel_reservation", "args": {"reservation_id": "R1"}},
    }
    return {**case, **changes}


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (airline_case(), (0, [])),
        (airline_case("2024-05-14T15:00:00"), (0, [])),
        (airline_case("2024-05-14T14:59:59"), (1, ["A20_cancel_eligibility"])),
        (airline_case("2024-05-14T14:59:59", "cancelled"), (0, [])),
        (airline_case("2024-05-14T20:00:01Z"), (0, [])),
        (airline_case(status="landed"), (1, ["A21_flown"])),
        (airline_case("some day"), (1, [])),
        (airline_case(history=[]), (1, ["A2_user_id"])),
        (airline_case(context={"user_id_provided": "ann_1", "cancel_reason": ""}), (1, ["A19_cancel_reason"])),
    ],
)
def test_airline(case: dict[str, Any], expected: tuple[int, list[str]]) -> None:
    """The 24 hours are counted to the second and across zones; a flight of unknown state denies."""
    assert verdict_on(case, policies_of("airline")) == expected


@pytest.fixture(params=DOMAINS)
def functions(request: pytest.FixtureRequest) -> Functions:
    """The state functions of a domain."""
    return Toolbox([TAU / f"{request.param}_state.py"]).functions


@pytest.mark.parametrize("odd", [None, "text", 7, [], {}, {"orders": [], "users": "", "reservations": 1, "flights": 7}])
def test_functions_answer_or_give_none(functions: Functions, odd: Any) -> None:
    """No record, whatever else there is, is no answer."""
    for function in functions.values():
        arguments = function.__code__.co_argcount - 1
        assert function(odd, *["F1"] * arguments) is None
