"""Each kind of problem of a draft."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guardagent.errors import InputError
from guardagent.policy.documents import read_document
from guardagent.policy.review.record import NeededFact
from guardagent.translation.drafts import Ambiguity, Draft, Problem
from guardagent.translation.examination import examine, examine_policy
from guardagent.translation.samples import FactDescription
from guardagent.translation.tools import ToolSchema
from tests.translation.examination.shop import TRACES, case, context, draft, problems, rule, samples

BEFORE = "before(refund(order_id=o), true, f:get_order(order_id=o), {})"
SOLVER = {
    "smt": "(declare-const amount {})",
    "tools": {"refund": {"permit": "true", "variables": {"amount": {"from": "args.{}"}}}},
}


def solver(sort: str, argument: str) -> dict[str, Any]:
    text = json.dumps(SOLVER).replace("const amount {}", f"const amount {sort}").replace("args.{}", f"args.{argument}")
    return {"solver": json.loads(text), "message": "No."}


def farther(record: Mapping[str, Any]) -> dict[str, Any]:
    """A case far away from the limit."""
    amount = record["proposed"]["args"].get("amount")
    args = {} if amount is None else {"amount": 900 if amount > 500 else 10}
    return {**record, "proposed": {"tool": "refund", "args": args}}


def test_a_draft_without_problems() -> None:
    """Its cases notice every mutant."""
    assert problems(draft()) == []


def test_a_rule_that_only_asks_what_is_known_needs_no_unknown_case() -> None:
    """Nothing can be unknown to it, and each of its mutants is noticed."""
    cases = (
        case("yes", 0, [], user_confirmed=True),
        case("no", 0, [], user_confirmed=False),
        case("null", 1, ["refund_limit"], user_confirmed=None),
        case("missing", 1, ["refund_limit"]),
    )
    of = draft(rule("forall(refund(), known(fact(user_confirmed)))", cases=cases))
    assert problems(of, "case") + problems(of, "mutant") == []


KINDS = {
    "two rules that do not load": (
        draft(rule("forall(refnd(), false)"), rule("forall(refund(amount=a), b < 1)", id="b")),
        "syntax",
        ["unknown tool 'refnd'; did you mean 'refund'?", "unknown variable 'b'"],
    ),
    "a definition, without the rule that uses it": (
        draft(
            rule("forall(refund(amount=a), small(a))"), declarations={"define": {"small(a)": "a <", "big(a)": "a > 1"}}
        ),
        "syntax",
        ["define.small(a): unexpected end"],
    ),
    "a rule for a model": (draft(rule(rule={"request": "Be nice"})), "syntax", ["'request' is not a key of a drafted"]),
    "a tag that is a tool elsewhere": (
        draft(rule("G !(basket)", id="a"), rule("G !(@buys)", id="b"), declarations={"tags": {"buys": ["refnd"]}}),
        "syntax",
        ["unknown tool 'refnd'"],
    ),
    "an argument": (
        draft(rule("forall(refund(amuont=a), a <= 500)")),
        "argument",
        ["'amuont' of 'refund'; did you mean"],
    ),
    "an argument of a solver rule": (draft(rule(rule=solver("Real", "amuont"))), "argument", ["'amuont' of 'refund'"]),
    "an argument of a case": (
        draft(rule(cases=(*rule().cases, case("e", 1, [], args={"amont": 5})))),
        "argument",
        ["a case has an unknown argument 'amont' of 'refund'"],
    ),
    "a number for a string": (
        draft(rule("forall(refund(order_id=o), o > 5)")),
        "type",
        ["order_id > 5, but the argument 'order_id' of 'refund' is of the type string"],
    ),
    "a value that the schema does not have": (
        draft(rule('forall(cancel(reason=r), r in ["no longer neded"])')),
        "type",
        ["reason == 'no longer neded', but the argument 'reason' of 'cancel' is one of 'no longer needed', 'by"],
    ),
    "a string for a number of an output": (
        draft(rule(BEFORE.format("output(f).items[0].price == '5'"))),
        "type",
        ["the output 'items.[].price' of 'get_order' is of the type integer"],
    ),
    "a sort": (
        draft(rule(rule=solver("String", "amount"))),
        "type",
        ["has the sort String, but the argument 'amount'"],
    ),
    "a field of an output": (
        draft(rule(BEFORE.format('output(f).state.now == "paid"'))),
        "output",
        ["reads 'state' in the output of 'get_order', which no output shows; did you mean 'status'?"],
    ),
    "a field of an item": (
        draft(rule(BEFORE.format("all(x in output(f).items, x.prise > 1)"))),
        "output",
        ["reads 'prise' in 'items.[]' of 'get_order'"],
    ),
    "a fact": (
        draft(
            rule("forall(refund(), fact(context.usr) == fact(user) && fact(order.total) > 1 && fact(order.tax) > 1)")
        ),
        "fact",
        ["the fact 'context.usr'", "the fact 'order.tax'"],
    ),
    "the state": (draft(rule("forall(refund(), state.open && state.closed)")), "fact", ["the state 'state.closed'"]),
    "no quote": (draft(rule(quotes={})), "grounding", ["quotes no sentence"]),
    "a quote of another sentence": (
        draft(rule(quotes={2: "Only the owner of an order"})),
        "grounding",
        ["stands in sentence 4, not in sentence 2"],
    ),
    "an invented quote": (
        draft(rule(quotes={2: "at most 50 dollars"})),
        "grounding",
        ["is not in sentence 2; expected"],
    ),
    "a short quote": (draft(rule(quotes={2: "dollars"})), "grounding", ["too short"]),
    "a wrong case": (
        draft(rule(cases=(*rule().cases, case("e", 0, [], args={"amount": 600})))),
        "case",
        ["case 'e': expected label 0 with rules [], got label 1 with rules ['refund_limit'], because: A refund is"],
    ),
    "a violation that is only unknown": (
        draft(rule(cases=(*rule().cases, case("e", 1)))),
        "case",
        ["denied only because something is unknown: refund_limit: argument 'amount' is missing"],
    ),
    "a case of another rule": (
        draft(rule(cases=(*rule().cases, case("e", 1, ["other"])))),
        "case",
        ["names 'other', but judges this rule alone"],
    ),
    "a record that is not a case": (
        draft(rule(cases=(*rule().cases, {"id": "e", "proposd": {}, "label": 1}))),
        "case",
        ["proposd: is not a key of this format; did you mean 'proposed'?"],
    ),
    "the same id twice": (draft(rule(cases=(*rule().cases, rule().cases[0]))), "case", ["two cases have the id"]),
    "no cases": (
        draft(rule(cases=())),
        "case",
        ["lack one that is allowed (label 0), one that violates it (rules ['refund_limit']), one that stands"],
    ),
    "a limit without its case": (
        draft(rule(cases=tuple(map(farther, rule().cases)))),
        "mutant",
        ["no case notices these changes of the rule: (1) limit moved"],
    ),
    "a rule about the end": (
        draft(rule("exists(refund(amount=5))", cases=(case("a", 0, []),))),
        "untested",
        ["only violated at the end"],
    ),
    "a sentence without a fate": (draft(sentences=(2, 3)), "sentence", ["sentence 3 has no rule, no reason"]),
    "a rule about other sentences": (
        draft(sentences=(3,), declined={3: "It is implied."}),
        "sentence",
        ["rests on none of the sentences to translate, which are 3"],
    ),
    "an id": (draft(rule(id="Refund limit")), "id", ["'Refund limit' is unusable"]),
    "an id twice": (draft(rule(), rule()), "id", ["2 rules have the id 'refund_limit'"]),
    "no message": (draft(rule(rule={"temporal": "forall(refund(), false)"})), "message", ["no 'message'"]),
    "a contradiction": (
        draft(rule("forall(refund(amount=a), a <= 5)"), rule("forall(refund(amount=a), a > 5)", id="b")),
        "contradictory",
        ["'refund' can never be called"],
    ),
    "a rule that nothing violates": (draft(rule("forall(refund(), 1 < 2)")), "vacuous", ["nothing violates"]),
    "a rule that another one implies": (
        draft(rule(), rule("forall(refund(amount=a), a <= 50)", id="b")),
        "shadowed",
        ["b"],
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_of_problem_is_found(name: str) -> None:
    """All of the kind, and nothing else of it."""
    of, kind, expected = KINDS[name]
    reported = problems(of, kind)
    assert len(reported) == len(expected), problems(of)
    for problem, text in zip(reported, expected, strict=True):
        assert text in problem.message


FATAL = {"syntax", "argument", "fact", "grounding", "case", "id", "contradictory", "vacuous"}


def test_what_cannot_be_used_is_fatal() -> None:
    """Missing cases and short quotes are not."""
    mild = {"a short quote", "no cases", "a quote of another sentence, beside a good one"}
    for name, (of, kind, _) in KINDS.items():
        reported = problems(of, kind)
        assert all(problem.fatal is (kind in FATAL and name not in mild) for problem in reported), name


def test_a_wrong_quote_beside_a_good_one_is_not_fatal() -> None:
    """The rule is grounded."""
    quotes = {2: "must not refund more than 500 dollars", 3: "must refund everything"}
    assert [problem.fatal for problem in problems(draft(rule(quotes=quotes)), "grounding")] == [False]


@pytest.mark.parametrize(
    ("number", "quote"),
    [
        (3, "looks up an order 'before' it REFUNDS"),
        (3, "It looks up  an\norder … refunds the order."),
        (4, "owner of an order may cancel ... listed reasons"),
        (2, "Refunds"),
    ],
)
def test_layout_case_and_gaps_do_not_matter(number: int, quote: str) -> None:
    """A heading can be quoted too, but it is short."""
    reported = problems(draft(rule(quotes={number: quote}), sentences=(number,)), "grounding")
    assert [problem.message for problem in reported if "short" not in problem.message] == []


def test_a_whole_cell_is_no_short_quote(tmp_path: Path) -> None:
    (tmp_path / "policy.md").write_text("| kind | most |\n|---|---|\n| fast refund | 50 dollars, or euros |\n")
    document = read_document(tmp_path / "policy.md")
    for quote, count in (("50", 1), ("refund", 1), ("Fast refund", 0), ("fast refund | 50 dollars, or euros", 0)):
        of = draft(rule(quotes={2: quote}), sentences=(2,))
        assert len(problems(of, "grounding", document=document)) == count, quote


def test_parts_of_a_quote_keep_their_order() -> None:
    """And whole words."""
    for quote in ("refunds the order … looks up", "looks up an ord"):
        assert problems(draft(rule(quotes={3: quote}), sentences=(3,)), "grounding")[0].fatal


def test_two_quotes_of_a_sentence_come_in_any_order() -> None:
    """Each on a line; one that is not there is not made up for by the other."""
    for quote, expected in (("refunds the order\nlooks up", []), ("refunds the order\nlooks it up", ["is not in"])):
        reported = problems(draft(rule(quotes={3: quote}), sentences=(3,)), "grounding")
        assert [each in str(reported) for each in expected] == [True] * len(reported)


def test_declared_facts_are_known() -> None:
    """In the context, in the draft, and in samples; a path within them too."""
    paths = 'fact("context.age").years > 1 && state.shop.open && fact(user) == "a"'
    draft_rule = rule(f"forall(refund(), fact(user_confirmed) && {paths})")
    of = draft(draft_rule, facts=(NeededFact("context.age"), NeededFact("state.shop")))
    assert problems(of, "fact") == []
    assert len(problems(of, "fact", samples=None, facts=(FactDescription("user"),))) == 1


def test_nothing_is_compared_without_samples_and_schemas() -> None:
    """An unknown shape is no problem."""
    draft_rule = rule(BEFORE.format('output(f).state == 5 && fact(user) == "a"'))
    assert problems(draft(draft_rule), "output", samples=None) == []


def test_an_output_schema_counts() -> None:
    """With references and alternatives."""
    schema = {
        "anyOf": [{"type": "null"}, {"$ref": "#/$defs/order"}],
        "$defs": {"order": {"properties": {"status": {"enum": ["paid"]}, "next": {"$ref": "#/$defs/order"}}}},
    }
    tools = tuple(replace(tool, output_schema=schema) if tool.name == "get_order" else tool for tool in context().tools)
    options: dict[str, Any] = {"tools": tools, "samples": None}
    assert problems(draft(rule(BEFORE.format('output(f).next.next.status == "paid"'))), "output", **options) == []
    assert len(problems(draft(rule(BEFORE.format('output(f).next.total == "paid"'))), "output", **options)) == 1
    assert len(problems(draft(rule(BEFORE.format('output(f).status == "open"'))), "type", **options)) == 1


def test_a_tool_without_properties_takes_any_argument() -> None:
    """Its author says nothing."""
    assert problems(draft(), "argument", tools=(ToolSchema("refund", "", {"type": "object", "properties": {}}),)) == []


def test_an_unknown_failed_output_is_reported_with_the_outputs_that_look_like_failures() -> None:
    """Of the tools that a rule needs."""
    needs = rule("forall(get_order(order_id=o), some(f:refund(order_id=o), true))")
    reported = problems(draft(needs), "failure", failed_output="")
    assert "outputs begin with 'Error:'" in reported[0].message
    assert problems(draft(), "failure", failed_output="") == []
    assert problems(draft(needs), "failure", failed_output="", samples=None) == []


def test_a_draft_without_rules_is_fine_if_it_says_why() -> None:
    """Every sentence is declined or ambiguous."""
    of = Draft((3, 5), declined={5: "Nobody can check it."}, ambiguities=(Ambiguity(3, "Always?", ("yes", "no")),))
    assert problems(of) == []


def test_a_broken_frame_is_one_problem() -> None:
    """Not one for each rule."""
    reported = problems(draft(rule(), rule(id="b")), "syntax", failed_output="[")
    assert ["the rest of the policy file is wrong: failed_output" in problem.message for problem in reported] == [True]


HOSTILE: list[Any] = [
    5,
    None,
    [],
    {"temporal": None, "message": "m"},
    {"temporal": float("nan"), "message": "m"},
    {"temporal": [["forall(refund(), false)"]], "message": "m"},
    {"temporal": "!" * 19_000 + "true", "message": "m"},
    {"temporal": f"forall(refund(), {'!' * 19_000}true)", "message": "m"},
    {"temporal": f"forall(refund(amount=a), {'(' * 9000}a{')' * 9000} <= 5)", "message": "m"},
    {"temporal": f"forall(refund(amount=a), a < 1{'0' * 9000})", "message": "m"},
    {"temporal": "forall(refund(amount=a), a < 1e400)", "message": "m"},
    {"temporal": "forall(refund(order_id=a), a matches /(a+)+(a+)+(a*)*b/)", "message": "m"},
    {"temporal": "forall(refund(order_id=a), a matches /(?=a)b/)", "message": "m"},
    {"temporal": "forall(refund(), false)", "message": "\ud800"},
    {"temporal": "forall(refund(), false)", "message": 5},
    {"temporal": "forall(refund(), false)", "message": "m", "on_violation": ["block"]},
    {"temporal": "forall(refund(), false)", "message": "m", 5: 6},
    {"solver": 5, "message": "m"},
    {"solver": {"smt_file": "/etc/passwd"}, "message": "m"},
    {"solver": {"smt": "(" * 10_000, "tools": {}}, "message": "m"},
]


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_rules_are_problems(value: Any) -> None:
    """Never exceptions."""
    reported = examine(draft(replace(rule(), rule=value)), context())
    assert reported
    json.dumps([problem.message for problem in reported])


@pytest.mark.parametrize("value", [float("nan"), "\ud800", None])
def test_hostile_cases_are_problems(value: Any) -> None:
    """Also those that JSON cannot hold."""
    record = {"id": value, "proposed": {"tool": "refund", "args": {"amount": value}}, "label": 1, "rules": []}
    reported = problems(draft(rule(cases=(*rule().cases, record))))
    assert [problem.kind for problem in reported if problem.fatal] or value is None


def test_long_rules_are_not_even_loaded() -> None:
    """Nobody confirms them, and proofs about them take too long."""
    parts = " && ".join(f"a != {number}" for number in range(300))
    assert "split it" in problems(draft(rule(f"forall(refund(amount=a), {parts})")), "syntax")[0].message


def test_hostile_names_are_problems() -> None:
    """Ids with line feeds, and declarations that are broken or in a circle."""
    assert problems(draft(rule(id="a\nb")))[0].fatal
    for value in ({"x(": "1"}, {"a": "b", "b": "a"}):
        assert problems(draft(declarations={"define": value}))
    assert samples().tools


# --- the assembled policy: its lint, its cases, and recorded calls


LIMIT = "forall(refund(amount=a), a <= 500)"


def policy(**rules: str) -> str:
    """The text of a policy file."""
    written = [{"id": name, "temporal": rule} for name, rule in rules.items()]
    return json.dumps({**context().frame, "unlisted": "allow", "policies": written})


def examined(kind: str, text: str, **options: object) -> list[Problem]:
    cases = options.pop("cases", {})
    return [problem for problem in examine_policy(text, context(), cases, **options) if problem.kind == kind]  # type: ignore[arg-type]


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    path = tmp_path / "traces.jsonl"
    path.write_text("\n".join(map(json.dumps, TRACES)))
    return path


def test_executed_calls_that_a_rule_denies_are_counted(traces: Path) -> None:
    """Failed calls are not among them."""
    problem = examined("too_tight", policy(refund_limit=LIMIT), traces=traces)[0]
    assert "1 of 2 executed calls of 'refund' violate the rule" in problem.message
    assert (problem.rule, problem.fatal) == ("refund_limit", False)
    assert problem.example == """'t1' events[1]: refund {"order_id": "W1", "amount": 700}"""


def test_executed_calls_that_are_only_unknown_are_counted(traces: Path) -> None:
    """The message says what is unknown."""
    rule = {"user: confirmed": "forall(refund(amount=a), a < 10 || fact(user_confirmed) == true)"}
    text = policy(**rule)
    problem = examined("unknown_in_traces", text, traces=traces)[0]
    assert "2 of 2 executed calls of 'refund' are denied only because something is unknown" in problem.message
    assert "the fact 'user_confirmed' is unknown" in problem.message
    assert problem.rule == "user: confirmed"


def test_a_file_of_cases_counts_their_histories(tmp_path: Path) -> None:
    """Nobody knows whether their proposed calls ran."""
    path = tmp_path / "cases.jsonl"
    record = case("c", 1, args={"amount": 900}, history=TRACES[0]["events"])
    path.write_text(json.dumps(record))
    assert "1 of 2" in examined("too_tight", policy(refund_limit=LIMIT), traces=path)[0].message


def test_the_history_of_a_case_is_not_judged_by_its_state_and_facts(tmp_path: Path) -> None:
    """They are those of the proposed call: an earlier one was made at another time."""
    path = tmp_path / "cases.jsonl"
    record = case("c", 1, args={"amount": 900}, history=TRACES[0]["events"]) | {"user_confirmed": False}
    path.write_text(json.dumps(record | {"state": {"open": False}}))
    text = policy(
        refund_limit=LIMIT,
        confirmed="forall(refund(), fact(user_confirmed) == true)",
        known="forall(refund(), known(fact(role)))",
        opened="forall(refund(), state.open == true)",
    )
    assert {problem.rule for problem in examined("too_tight", text, traces=path)} == {"refund_limit"}
    assert examined("unknown_in_traces", text, traces=path) == []


def test_contradictions_are_fatal_and_loose_ends_are_not() -> None:
    """All that lint finds is here."""
    text = policy(a="forall(refund(amount=a), a < 5)", b="forall(refund(amount=a), a > 5)")
    assert {(problem.kind, problem.fatal) for problem in examine_policy(text, context(), {})} == {
        ("contradictory", True),
        ("uncovered", False),
        ("unread_argument", False),
    }


def test_a_policy_that_does_not_load_is_one_problem(tmp_path: Path) -> None:
    """Traces that cannot be read are an error of their owner."""
    assert [problem.kind for problem in examine_policy(policy(a="forall(refund("), context(), {})] == ["syntax"]
    with pytest.raises(InputError, match=r"none\.jsonl"):
        examine_policy(policy(a=LIMIT), context(), {}, tmp_path / "none.jsonl")
