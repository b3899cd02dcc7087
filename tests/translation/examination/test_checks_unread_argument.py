"""Arguments that no rule reads."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from guardagent.translation.examination import examine_policy
from guardagent.translation.tools import tools_of
from tests.translation.examination.shop import context

STRING, NUMBER, IDS = {"type": "string"}, {"type": "number"}, {"type": "array", "items": {"type": "string"}}
TOOLS = {
    "exchange_items": {
        "order_id": STRING,
        "item_ids": IDS,
        "amount": {"anyOf": [NUMBER, {"type": "null"}]},
        "reason": {"enum": ["broken", "late"]},
        "summary": STRING,
        "message_ids": IDS,
        "color": STRING,
    },
    "get_items": {"order_id": STRING, "item_ids": IDS},
}
RULE = "before(exchange_items(order_id=o), true, f:get_items(order_id=o), true)"


def found(*rules: str, **frame: Any) -> list[str]:
    tools = tools_of({name: {"type": "object", "properties": tool} for name, tool in TOOLS.items()}, "tools")
    inputs = replace(context(), tools=tools, samples=None)
    policies = [{"id": f"r{at}", "temporal": rule} for at, rule in enumerate(rules)]
    text = json.dumps({**inputs.frame, **frame, "policies": policies})
    problems = [problem for problem in examine_policy(text, inputs, {}) if problem.kind == "unread_argument"]
    assert not any(problem.fatal for problem in problems)
    return [problem.message.partition(";")[0].removeprefix("no rule reads ") for problem in problems]


def test_ids_and_amounts_that_no_rule_reads_are_named() -> None:
    """Free text, choices and reading tools are not."""
    assert found(RULE) == [f"`{argument}` of `exchange_items`" for argument in ("item_ids", "amount", "message_ids")]


@pytest.mark.parametrize(
    "rule",
    [
        "forall(f:exchange_items(), len(args(f).item_ids) < 3)",
        'forall(exchange_items(item_ids=xs), all(x in xs, x != "a"))',
        "forall(exchange_items(), count(f:exchange_items(item_ids=xs)) < 3)",
    ],
)
def test_any_reading_counts(rule: str) -> None:
    assert "`item_ids` of `exchange_items`" not in found(RULE, rule)


def test_reading_all_arguments_reads_each() -> None:
    assert found(RULE, 'forall(f:exchange_items(), !mentions(args(f), "W0"))') == []


def test_a_counter_reads() -> None:
    counters = {"sums": {"on": "exchange_items(order_id=o, amount=a)", "key": "o", "sum": "a"}}
    rule = "forall(exchange_items(order_id=o), counter(sums, o) <= 100)"
    assert "`amount` of `exchange_items`" not in found(RULE, rule, counters=counters)


def test_a_tool_that_never_runs_or_that_no_rule_names_has_none() -> None:
    assert found("forall(exchange_items(), false)") == []
    assert found('forall(get_items(order_id=o), o != "x")') == []
