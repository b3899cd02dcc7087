"""The assembled policy: its lint, its cases, and recorded calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from guardagent.errors import InputError
from guardagent.translation.drafts import Problem
from guardagent.translation.examination import examine_policy
from tests.translation.examination.shop import TRACES, case, context, rule

LIMIT = "forall(refund(amount=a), a <= 500)"


def policy(**rules: str) -> str:
    """The text of a policy file."""
    written = [{"id": name, "temporal": rule} for name, rule in rules.items()]
    return json.dumps({**context().frame, "unlisted": "allow", "policies": written})


def found(kind: str, text: str, **options: object) -> list[Problem]:
    cases = options.pop("cases", {})
    return [problem for problem in examine_policy(text, context(), cases, **options) if problem.kind == kind]  # type: ignore[arg-type]


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    path = tmp_path / "traces.jsonl"
    path.write_text("\n".join(map(json.dumps, TRACES)))
    return path


def test_cases_that_another_rule_denies_hold() -> None:
    """The other rule decides, and this one is violated no more than before."""
    text = policy(refund_limit=LIMIT, never="forall(refund(), false)")
    assert found("case", text, cases={"refund_limit": rule().cases}) == []


def test_cases_that_their_rule_decides_otherwise_do_not_hold() -> None:
    """As after an answer moved the limit; each problem shows the case."""
    changed = found("case", policy(refund_limit=LIMIT.replace("500", "400")), cases={"refund_limit": rule().cases})
    assert [problem.message for problem in changed] == [
        "case 'at the limit' violates the rule in the whole policy; alone it does not violate",
        "case 'below' violates the rule in the whole policy; alone it does not violate",
    ]
    assert changed[0].fatal
    assert '"amount": 500' in changed[0].example
    unknown = {"refund_limit": [case("u", 1, [])]}
    assert "is allowed by the whole" in found("case", policy(refund_limit="G !tool:cancel"), cases=unknown)[0].message
    assert "does not have it" in found("case", policy(refund_limit=LIMIT), cases={"gone": []})[0].message


def test_executed_calls_that_a_rule_denies_are_counted(traces: Path) -> None:
    """Failed calls are not among them."""
    problem = found("too_tight", policy(refund_limit=LIMIT), traces=traces)[0]
    assert "1 of 2 executed calls of 'refund' violate the rule" in problem.message
    assert (problem.rule, problem.fatal) == ("refund_limit", False)
    assert problem.example == """'t1' events[1]: refund {"order_id": "W1", "amount": 700}"""


def test_executed_calls_that_are_only_unknown_are_counted(traces: Path) -> None:
    """The message says what is unknown."""
    text = policy(confirmed="forall(refund(amount=a), a < 10 || fact(user_confirmed) == true)")
    problem = found("unknown_in_traces", text, traces=traces)[0]
    assert "2 of 2 executed calls of 'refund' are denied only because something is unknown" in problem.message
    assert "the fact 'user_confirmed' is unknown" in problem.message
    assert problem.rule == "confirmed"


def test_a_file_of_cases_counts_their_histories(tmp_path: Path) -> None:
    """Nobody knows whether their proposed calls ran."""
    path = tmp_path / "cases.jsonl"
    record = case("c", 1, args={"amount": 900}, history=TRACES[0]["events"])
    path.write_text(json.dumps(record))
    assert "1 of 2" in found("too_tight", policy(refund_limit=LIMIT), traces=path)[0].message


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
    assert {problem.rule for problem in found("too_tight", text, traces=path)} == {"refund_limit"}
    assert found("unknown_in_traces", text, traces=path) == []


def test_contradictions_are_fatal_and_loose_ends_are_not() -> None:
    """All that lint finds is here."""
    text = policy(a="forall(refund(amount=a), a < 5)", b="forall(refund(amount=a), a > 5)")
    assert {(problem.kind, problem.fatal) for problem in examine_policy(text, context(), {})} == {
        ("contradictory", True),
        ("uncovered", False),
        ("unread_argument", False),
    }


def test_a_policy_that_does_not_load_is_one_problem(tmp_path: Path) -> None:
    """From a text or a file; traces that cannot be read are an error of their owner."""
    path = tmp_path / "policies.yaml"
    path.write_text(policy(a="forall(refund("))
    for source in (path, path.read_text()):
        assert [problem.kind for problem in examine_policy(source, context(), {})] == ["syntax"]
    path.write_text(policy(a=LIMIT))
    with pytest.raises(InputError, match=r"none\.jsonl"):
        examine_policy(path, context(), {}, tmp_path / "none.jsonl")
