"""The checks of drafts and policies, and those of other packages beside them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guardagent.translation import examination
from guardagent.translation.drafts import Draft
from guardagent.translation.examination import examine, examine_policy
from guardagent.translation.examination.checks import CHECKS
from guardagent.translation.tools import ToolSchema, tools_of
from tests._support.plugin_package import register
from tests.translation.examination.shop import case, context, draft, problems, rule

# --- the checks of other packages run beside the shipped ones


CHECK = """
from guardagent.translation.drafts import Problem
WHOLE_POLICY = {whole}


def check(examined):
    yield Problem("acme", "whole: {whole}")
"""


def test_checks_of_other_packages_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of whole policies sees no draft, and one of drafts no policy."""
    for whole in (False, True):
        (tmp_path / f"acme_{whole}.py").write_text(CHECK.format(whole=whole))
    monkeypatch.syspath_prepend(tmp_path)
    register(tmp_path, "acme", {"tests.draft_checks": {"one": "acme_False", "two": "acme_True"}})
    monkeypatch.setattr(examination, "CHECKS", replace(CHECKS, group="tests.draft_checks"))
    policy = json.dumps({**context().frame, "policies": [{"id": "a", "temporal": "G !tool:cancel"}]})
    of_draft, of_policy = examine(draft(), replace(context())), examine_policy(policy, context(), {})
    assert [problem.message for problem in of_draft] == ["whole: False"]
    assert [problem.message for problem in of_policy if problem.kind == "acme"] == ["whole: True"]


# --- rules about any change, and the tools that they judge


WRITING = tuple(ToolSchema(name, "", {"type": "object"}) for name in ("refund", "cancel", "rename", "get_order"))


def any_tool_problems(temporal: str, words: str = "before any other change") -> list[str]:
    draft = Draft((2,), (rule(temporal, quotes={2: words}, cases=()),))
    return [problem.message for problem in problems(draft, "any_tool", tools=WRITING)]


def test_a_writing_tool_that_is_left_out_is_named() -> None:
    """A tool that only reads may be."""
    (message,) = any_tool_problems("forall(refund|cancel(), fact(user_confirmed) == true)")
    assert "'any other change'" in message
    assert "judges cancel, refund, but not rename, which may" in message


@pytest.mark.parametrize(
    ("temporal", "words"),
    [
        ("forall(refund|cancel|rename(), fact(user_confirmed) == true)", "any other change"),
        ("forall(f:*(), fact(user_confirmed) == true)", "any other change"),
        ("forall(refund|cancel(), fact(user_confirmed) == true)", "any refund"),
        ("forall(refund(), fact(user_confirmed) == true)", "any update of a refund"),
    ],
)
def test_a_rule_about_all_of_them_or_about_one_kind_is_right(temporal: str, words: str) -> None:
    assert any_tool_problems(temporal, words) == []


# --- rules that allow a call as soon as a value is missing


def missing_value_problems(temporal: str, **known: Any) -> list[str]:
    denied = case("denied", 1, ["refund_limit"], args={"order_id": "W1"}, **known)
    draft = Draft((2,), (rule(temporal, cases=(denied,)),))
    return [problem.message for problem in problems(draft, "missing_value")]


@pytest.mark.parametrize(
    ("temporal", "known", "name"),
    [
        ("forall(refund(), !known(state.open) || state.open == true)", {"state": {"open": False}}, "'state.open'"),
        ('forall(refund(), known(fact(user)) -> fact(user) == "a")', {"facts": {"user": "b"}}, "the fact 'user'"),
        (
            "forall(refund(order_id=o), !known(state.orders[o].paid) || state.orders[o].paid == true)",
            {"state": {"orders": {"W1": {"paid": False}}}},
            "'state.orders'",
        ),
    ],
)
def test_a_missing_value_that_allows_is_named(temporal: str, known: dict[str, Any], name: str) -> None:
    (message,) = missing_value_problems(temporal, **known)
    assert f"allows it if {name} is missing" in message


@pytest.mark.parametrize(
    "temporal",
    [
        "forall(refund(), state.open == true)",
        "forall(refund(), known(state.open) && state.open == true)",
        "forall(refund(amount=a), (!known(a) || a <= 5) && state.open == true)",
    ],
)
def test_a_rule_that_denies_without_the_value_is_right(temporal: str) -> None:
    """An optional argument may be missing."""
    assert missing_value_problems(temporal, state={"open": False}) == []


# --- earlier calls that no case has


def earlier_problems(temporal: str, *earlier: dict[str, Any]) -> list[str]:
    history = [{"tool": "get_order", "args": {"order_id": "W1"}, "output": {}, "failed": False}, *earlier]
    cases = (case("one", 0, [], args={"order_id": "W1", "amount": 5}, history=history),)
    draft = Draft((2,), (rule(temporal, cases=cases),))
    return [
        problem.message for problem in problems(draft, "case") if "whether it counts by the document" in problem.message
    ]


@pytest.mark.parametrize(
    ("temporal", "lacking"),
    [
        ("forall(refund(order_id=o), count(refund(order_id=o)) < 9)", "of 'refund' failed"),
        ("forall(refund(), count(f:refund(), !failed(f)) < 9)", "of 'refund' has another 'order_id' than the call"),
        ("before(refund(), true, get_order(), true)", "of 'get_order' has another 'order_id' than the call"),
        (
            "forall(refund(), known(output(last(get_order()))))",
            "of 'get_order' failed, and one in which a call of 'get_order' has",
        ),
    ],
)
def test_an_earlier_call_that_no_case_has_is_named(temporal: str, lacking: str) -> None:
    """It failed, or has another id, and the rule does not say whether it counts; one case of it is enough."""
    (message,) = earlier_problems(temporal)
    assert lacking in message
    args = {"order_id": "W2"}
    failed = [{"tool": tool, "args": args, "output": "no", "failed": True} for tool in ("refund", "get_order")]
    assert earlier_problems(temporal, *failed) == []


def test_a_rule_that_says_which_earlier_calls_count_needs_no_such_case() -> None:
    """Its mutants ask for cases."""
    for condition in ("count(f:refund(order_id=o), !failed(f)) < 9", "some(get_order(order_id=o))"):
        assert earlier_problems(f"forall(refund(order_id=o), {condition})") == []


def test_an_argument_whose_schema_is_a_truth_value_can_be_anything() -> None:
    """It is no id, and no check fails because of it."""
    tools = tools_of({name: {"properties": {"order_id": True, "amount": True}} for name in ("refund", "cancel")}, "")
    assert problems(draft(), "unexamined", tools=tools) == []


# --- arguments that no rule reads


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


def unread_arguments(*rules: str, **frame: Any) -> list[str]:
    tools = tools_of({name: {"type": "object", "properties": tool} for name, tool in TOOLS.items()}, "tools")
    inputs = replace(context(), tools=tools, samples=None)
    policies = [{"id": f"r{at}", "temporal": rule} for at, rule in enumerate(rules)]
    text = json.dumps({**inputs.frame, **frame, "policies": policies})
    problems = [problem for problem in examine_policy(text, inputs, {}) if problem.kind == "unread_argument"]
    assert not any(problem.fatal for problem in problems)
    return [problem.message.partition(";")[0].removeprefix("no rule reads ") for problem in problems]


def test_ids_and_amounts_that_no_rule_reads_are_named() -> None:
    """Free text, choices and reading tools are not."""
    assert unread_arguments(RULE) == [
        f"`{argument}` of `exchange_items`" for argument in ("item_ids", "amount", "message_ids")
    ]


@pytest.mark.parametrize(
    "rule",
    [
        "forall(f:exchange_items(), len(args(f).item_ids) < 3)",
        'forall(exchange_items(item_ids=xs), all(x in xs, x != "a"))',
        "forall(exchange_items(), count(f:exchange_items(item_ids=xs)) < 3)",
    ],
)
def test_any_reading_counts(rule: str) -> None:
    assert "`item_ids` of `exchange_items`" not in unread_arguments(RULE, rule)


def test_reading_all_arguments_reads_each() -> None:
    assert unread_arguments(RULE, 'forall(f:exchange_items(), !mentions(args(f), "W0"))') == []


def test_a_counter_reads() -> None:
    counters = {"sums": {"on": "exchange_items(order_id=o, amount=a)", "key": "o", "sum": "a"}}
    rule = "forall(exchange_items(order_id=o), counter(sums, o) <= 100)"
    assert "`amount` of `exchange_items`" not in unread_arguments(RULE, rule, counters=counters)


def test_a_tool_that_never_runs_or_that_no_rule_names_has_none() -> None:
    assert unread_arguments("forall(exchange_items(), false)") == []
    assert unread_arguments('forall(get_items(order_id=o), o != "x")') == []
