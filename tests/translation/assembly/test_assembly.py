"""Drafts as one policy: names and ids have one meaning each, and every case keeps its own."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from guardagent.policy.language.parser import read_rule
from guardagent.policy.load import declarations_of
from guardagent.translation.assembly import PolicyAssembly, assemble
from guardagent.translation.drafts import Draft, RuleDraft
from tests._support.work import calls_within
from tests.conftest import Cli
from tests.translation.drafts import context, limit, plain, proposed


def records(lines: str) -> dict[str, Any]:
    return {load["id"]: load for load in map(json.loads, lines.splitlines())}


def kinds(assembly: PolicyAssembly) -> list[str]:
    return [problem.kind for problem in assembly.problems]


def test_a_policy_passes_its_own_tests(cli: Cli, tmp_path: Path) -> None:
    """With the real commands; where two rules deny, the case names both."""
    end = {"id": "end", "events": [{"tool": "open", "args": {}, "output": "ok"}], "label": 1, "rules": ["closed"]}
    closed = plain("after(open(), true, close(), true)", "closed", 3)
    closed = replace(closed, rules=(replace(closed.rules[0], cases=(end,)),))
    assembled = assemble([limit("refund", 500), limit("refund", 900, "most", 2), closed], context(), title="The shop")
    assert assembled.problems == ()
    for name, text in (
        ("policies.yaml", assembled.text),
        ("policies.cases.jsonl", assembled.cases),
        ("t.jsonl", assembled.traces),
    ):
        (tmp_path / name).write_text(text)
    assert cli("test", tmp_path / "policies.yaml", tmp_path / "policies.cases.jsonl").status == 0
    assert cli("audit", tmp_path / "t.jsonl", "--policies", tmp_path / "policies.yaml").status == 1
    assert records(assembled.cases)["most/over"]["rules"] == ["limit", "most"]
    assert records(assembled.cases)["most/at"]["label"] == 1  # the other rule denies it
    assert records(assembled.traces)["closed/end"]["rules"] == ["closed"]


def test_one_id_for_two_rules() -> None:
    """The later rule is renamed, also in its cases; an id that a third draft has is left to it."""
    assembled = assemble([limit("refund", 500), limit("pay", 300), limit("close", 5, "limit_2")], context())
    assert [rule.id for rule in assembled.rules] == ["limit", "limit_3", "limit_2"]
    assert assembled.renamed == ({}, {"limit": "limit_3"}, {})
    assert records(assembled.cases)["limit_3/over"]["rules"] == ["limit_3"]
    assert assembled.problems == ()


def test_one_rule_for_two_sentences() -> None:
    """It stands once, with the quotes of both, whichever its id; another response makes another rule."""
    assembled = assemble([limit("pay", 5), limit("pay", 5, "b", 2), limit("pay", 5, "c", 3)], context())
    assert [(rule.id, dict(rule.quotes)) for rule in assembled.rules] == [
        ("limit", dict.fromkeys((1, 2, 3), "at most 5"))
    ]
    assert assembled.renamed == ({}, {"b": "limit"}, {"c": "limit"})
    assert assembled.problems == ()
    other = plain("forall(pay(amount=a), a <= 5)", "b", 2, on_violation="escalate")
    assert len(assemble([limit("pay", 5), other], context()).rules) == 2


CONSTANT = {"constants": {"most": 5}}
SMALL = {"define": {"small(x)": "x <= most"}}


def part(condition: str, tool: str = "pay", **declarations: Any) -> Draft:
    return Draft(
        (1,), (RuleDraft(tool, {"temporal": f"forall({tool}(amount=a), {condition})"}, {1: "x"}),), declarations
    )


@pytest.mark.parametrize(
    ("second", "names"),
    [
        (part("a <= most", "refund", constants={"most": 5}), {"most"}),
        (part("a <= most", "refund", constants={"most": 9}), {"most", "most_2"}),
        (part("most(a)", "refund", define={"most(x)": "x <= 9"}), {"most", "most_2"}),
        (part("small(a)", "refund", define={"small(most)": "most <= 9"}), {"most", "small"}),
        (
            part("small(a)", "refund", define={"small(x)": "x <= most"}, constants={"most": 9}),
            {"most", "most_2", "small"},
        ),
        (part("count(f:@most(amount=a)) < 2", "refund", tags={"most": ["pay", "close"]}), {"most"}),
        (
            part(
                "counter(most, a) <= most + most_2",
                "refund",
                counters={"most": {"on": "pay(amount=x)", "key": "x + most", "sum": "most_2"}},
                constants={"most": 9, "most_2": 1},
            ),
            {"most", "most_2", "most_3"},
        ),
        (part("a <= 9", "refund", constants={"most": 9}), {"most"}),
    ],
)
def test_one_name_with_two_meanings(second: Draft, names: set[str]) -> None:
    """Each rule keeps the meaning that it has alone: the expanded syntax trees are equal."""
    first = part("a <= most", constants={"most": 5})
    assembled = assemble([first, second], context())
    assert assembled.policies is not None, assembled.problems
    assert {
        key.split("(")[0] for section in ("constants", "define") for key in assembled.content.get(section, {})
    } == names
    for draft in (first, second):
        alone = draft.policies(context())
        (rule,) = draft.rules
        expected = read_rule(str(rule.rule["temporal"]), declarations_of(alone))
        assert [tree for loaded in assembled.policies.rules if loaded.id == rule.id for tree in loaded.rules] == [
            expected
        ]


def test_names_of_solver_rules() -> None:
    """Expressions of variables have names of ours; SMT-LIB text has none."""
    variable = {"from": "args.amount - most", "sort": "Int"}
    solver = {"smt": "(declare-const most Int)", "tools": {"pay": {"permit": "(<= a 0)", "variables": {"a": variable}}}}
    cases = (proposed("at", "pay", {"amount": 9}), proposed("over", "pay", {"amount": 10}, "s"))
    draft = Draft((2,), (RuleDraft("s", {"solver": solver}, {2: "x"}, cases),), {"constants": {"most": 9}})
    assembled = assemble([limit("refund", "most", constants={"most": 5}), draft], context())
    assert assembled.problems == ()
    assert "from: args.amount - most_2\n" in assembled.text
    assert "(declare-const most Int)" in assembled.text


@pytest.mark.parametrize("swapped", [False, True])
def test_a_variable_with_the_name_of_a_constant(*, swapped: bool) -> None:
    """The later draft gets another name, be it that of the constant or of the variable."""
    first, second = (
        part("a <= most", constants={"most": 5}),
        plain('forall(refund(amount=most), most != "most")', "other"),
    )
    assembled = assemble([second, first] if swapped else [first, second], context())
    assert assembled.problems == ()
    text = 'forall(refund(amount=most_2), most_2 != "most")'
    assert swapped == (text not in assembled.text)
    assert swapped == ("most_2: 5" in assembled.text)


def test_a_label_with_two_meanings_needs_another_draft() -> None:
    """Labels are in strings, which are no names in the syntax tree."""
    parts = [part('!("own" in sources(a))', tool, labels={"own": tool}) for tool in ("pay", "refund")]
    assembled = assemble([parts[0], replace(parts[1], sentences=(7,))], context())
    assert [(problem.kind, problem.sentences, problem.fatal) for problem in assembled.problems] == [
        ("name", (7,), True)
    ]
    assert (assembled.text, assembled.cases, assembled.content) == ("", "", {})
    assert (
        assemble([parts[0], replace(parts[0], rules=(replace(parts[0].rules[0], id="b"),))], context()).problems == ()
    )


@pytest.mark.parametrize(
    "rule",
    ["forall(", "forall(pay(amount=a), b)", "forall(stop(), true)", "!" * 19_000 + "tool:pay", "forall(pay(), \ud800)"],
)
def test_an_invalid_rule_is_a_problem(rule: str) -> None:
    """Never an error, and never a policy without the rule."""
    assembled = assemble([limit("pay", 5), plain(rule, "bad", 2)], context())
    assert [(problem.kind, problem.fatal) for problem in assembled.problems] == [("syntax", True)]
    assert assembled.text == ""


@pytest.mark.parametrize("parts", [[], [Draft((1, 2))], [Draft((1,), declarations=CONSTANT)]])
def test_an_empty_policy_is_a_problem(parts: list[Draft]) -> None:
    """There is no file without rules."""
    parts_assemble = assemble(parts, context())
    assert (kinds(parts_assemble), parts_assemble.text, parts_assemble.policies) == (["empty"], "", None)


def test_a_case_that_the_whole_policy_judges_otherwise() -> None:
    """The expectation of the rule alone decides; other rules may also deny or be unknown."""
    contradicted = [
        proposed("a", "pay", {"amount": 1}, "limit"),
        proposed("b", "pay", {"amount": 9}),
        {**proposed("c", "pay", {"amount": 1}), "label": 1},
        {"id": "d", "proposed": {"tool": "pay"}, "lable": 1},
        {"id": "e", "proposed": {"tool": "pay", "args": {"x": float("nan")}}, "label": 0},
        {"id": "f", "proposed": {"tool": "pay", "args": {"x": "\ud800"}}, "label": 0},
        {"id": "g", "proposed": {"tool": "pay", "args": {"x": {1}}}, "label": 0},
    ]
    fine = [
        {**proposed("unknown", "pay", {}), "label": 1},
        proposed("g", "pay", {"amount": 5}),
        proposed("g", "pay", {"amount": 4}),
        proposed("limit/h", "pay", {"amount": 3}),
    ]
    (rule,) = limit("pay", 5).rules
    assembled = assemble([Draft((1,), (replace(rule, cases=(*contradicted, *fine)),))], context())
    assert [problem.message.split("'")[1] for problem in assembled.problems] == [
        f"limit/{example['id']}" for example in contradicted
    ]
    assert all(problem.fatal for problem in assembled.problems), "it blocks"
    assert list(records(assembled.cases))[3:] == ["limit/unknown", "limit/g (2)", "limit/g (3)", "limit/h"]


def test_an_allowed_case_has_what_other_rules_need() -> None:
    """As their own cases say it; one that another rule forbids stays denied."""
    needs = plain("forall(pay(id=o), some(f:get_order(id=o), !failed(f)))", "needs", 2)
    earlier = {"tool": "get_order", "args": {"id": "A"}, "output": "ok", "failed": False}
    allowed = {**proposed("known", "pay", {"id": "A"}), "history": [earlier]}
    (most,) = limit("pay", 5).rules
    most = replace(
        most, cases=(proposed("at", "pay", {"amount": 5, "id": "B"}), proposed("no id", "pay", {"amount": 5}))
    )
    drafts = [Draft((1,), (most,)), replace(needs, rules=(replace(needs.rules[0], cases=(allowed,)),))]
    drafts.append(limit("pay", 4, "lower", 3, constants={"x": 4}))
    cases = records(assemble(drafts[:2], context()).cases)
    assert cases["limit/at"]["history"] == [{**earlier, "args": {"id": "B"}}]
    assert [case["label"] for case in cases.values()] == [0, 0, 0]
    assert records(assemble(drafts, context()).cases)["limit/at"]["label"] == 1


def test_the_work_does_not_grow_out_of_hand() -> None:
    """Each case is judged by all rules; forty rules with five cases each are a document of some pages."""
    parts = [
        replace(
            draft,
            rules=tuple(
                replace(rule, cases=rule.cases + tuple({**rule.cases[0], "id": name} for name in "abc"))
                for rule in draft.rules
            ),
        )
        for draft in (limit("pay", "most", f"r{at}", at, constants={"most": at}) for at in range(1, 41))
    ]
    assembled = assemble(parts, context())
    assert (len(assembled.rules), len(assembled.cases.splitlines()), assembled.problems) == (40, 200, ())
    few, all_parts = (calls_within(partial(assemble, some, context())) for some in (parts[:10], parts))
    assert all_parts < 12 * few
