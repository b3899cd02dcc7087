"""Cases that notice small changes of a rule."""

from __future__ import annotations

import json
from typing import Any

from guardagent import load_policies
from guardagent.batch.cases import Expectation, read_expected
from guardagent.batch.records import Case, read_case
from guardagent.batch.survivors import surviving

RULES = [
    {"id": "limit", "temporal": "forall(refund(amount=a), a <= 500)"},
    {"id": "no_export", "temporal": "forall(export(), false)"},
    {"id": "close", "temporal": "after(open(), true, close(), true)"},
]
POLICIES = load_policies(data={"version": 1, "policies": RULES})


def case(tool: str, label: int | None, **more: Any) -> Case:
    args = {name: more.pop(name) for name in ("amount",) if name in more}
    record = {"id": 1, "proposed": {"tool": tool, "args": args}, **more}
    return read_case(json.dumps(record if label is None else {**record, "label": label}), "cases", 1)


def conversation(label: int, *tools: str) -> Expectation:
    """A whole conversation."""
    record = {"id": label, "events": [{"tool": tool, "args": {}, "failed": False} for tool in tools], "label": label}
    return read_expected(json.dumps(record), "cases", 1)


def texts(*cases: Expectation, rule: str = "limit", **options: Any) -> set[str]:
    return {mutant.text for mutant in surviving(POLICIES, rule, cases, **options).found}


def test_boundary_cases_notice_a_moved_limit() -> None:
    """Just below and just above; a case far away does not."""
    over, at = case("refund", 1, amount=501), case("refund", 0, amount=500)
    assert "forall(refund(amount=a), a < 500)" in texts(case("refund", 0, amount=10), over)
    assert texts(at, over) == set()


def test_a_case_without_an_expectation_notices_nothing() -> None:
    """All mutants survive."""
    survivors = surviving(POLICIES, "limit", [case("refund", None, amount=501)])
    assert (len(survivors.found), survivors.noticed) == (5, 0)


def test_a_case_that_another_rule_denies_needs_the_names_of_rules() -> None:
    """The label alone says nothing about this rule."""
    both = [{"id": "none", "temporal": "forall(refund(), false)"}, RULES[0]]
    policies = load_policies(data={"version": 1, "policies": both})
    denied = case("refund", 1, amount=501)
    assert surviving(policies, "limit", [denied]).noticed == 0
    assert surviving(policies, "limit", [case("refund", 1, amount=501, rules=["limit", "none"])]).noticed > 0


def test_equivalent_mutants_do_not_survive() -> None:
    """Whoever decides it."""
    survivors = surviving(POLICIES, "limit", [], equivalent=lambda *_: True)
    assert (survivors.found, survivors.equivalent) == ((), 5)


def test_traces_notice_changes_of_a_rule_about_the_end() -> None:
    """One whose call comes too early is denied by the rule, and allowed by `before` in its place."""
    assert texts(conversation(1, "open"), rule="close") == {"before(open(), true, close(), true)"}
    assert texts(conversation(1, "close", "open"), rule="close") == set()


def test_the_result_names_what_it_left_out() -> None:
    """For want of time, and where one call cannot violate the rule."""
    assert surviving(POLICIES, "limit", [], seconds=-1.0).left_out == ("5 mutants: -1 seconds were over",)
    assert "only violated at the end" in surviving(POLICIES, "close", []).left_out[0]
