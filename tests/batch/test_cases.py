"""A case is judged by its proposed call alone, and a verdict is compared with what its case expects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from guardagent import Policies, Verdict, load_policies
from guardagent.batch.cases import (
    Difference,
    difference,
    explained,
    judge_case,
    judge_expected,
    read_expectation,
    read_expected,
    unknown_rule_hint,
)
from guardagent.batch.records import read_case
from guardagent.batch.results import ConfusionMatrix, Result, VerdictMetrics
from guardagent.errors import ContentError
from tests.shop import LOGIN, call, case, write_policies


@pytest.fixture
def policies(tmp_path: Path) -> Policies:
    return load_policies(write_policies(tmp_path))


def judged(policies: Policies, record: dict[str, Any]) -> Verdict:
    return judge_case(policies, read_case(json.dumps(record), "cases.jsonl", 1, policies.failed_output))


def test_the_proposed_call_is_judged(policies: Policies) -> None:
    """Its history satisfies preconditions: an allowed call, a denied one, and an escalated one."""
    assert judged(policies, case("a", amount=5)).rules == ()
    assert judged(policies, case("b", history=[], amount=5)).rules == ("login_first",)
    verdict = judged(policies, case("c", history=[], amount=500))
    assert (verdict.rules, verdict.decision) == (("login_first", "small_refunds"), "escalate")


def test_a_failed_call_satisfies_nothing(policies: Policies) -> None:
    """An output that matches the pattern is a failure; so is `failed`, whatever the output is."""
    for login in (call("login", "Error: wrong password"), {**LOGIN, "failed": True}, {"tool": "login", "args": {}}):
        assert judged(policies, case("a", history=[login], amount=5)).rules == ("login_first",)
    assert judged(policies, case("a", history=[{**LOGIN, "output": "Error", "failed": False}], amount=5)).label == 0


def test_an_unknown_outcome_is_named_where_it_decides(policies: Policies) -> None:
    """Only then: a refund that is too large stays too large."""
    silent = {"tool": "login", "args": {}}
    assert "the outcome of 'login' is unknown" in judged(policies, case("a", history=[silent], amount=5)).reasons[-1]
    assert "unknown" not in "".join(judged(policies, case("a", history=[{**silent, "failed": True}], amount=5)).reasons)
    verdict = judged(policies, case("a", history=[{**LOGIN, "failed": False}, silent], amount=500))
    assert verdict.rules == ("small_refunds",)
    assert "unknown" not in "".join(verdict.reasons)


def test_a_rule_whose_id_begins_that_of_another_has_no_part_in_its_errors() -> None:
    rules = [{"id": "a", "temporal": "G !tool:wipe"}, {"id": "a: b", "temporal": "forall(refund(), fact(sure))"}]
    policies = load_policies(data={"version": 1, "policies": rules})
    results = explained(policies, read_case(json.dumps(case("c", amount=5)), "c.jsonl", 1))["rules"]
    assert {rule: (result["result"], result["causes"]) for rule, result in results.items()} == {
        "a: b": ("undecided", ["a: b: the fact 'sure' is unknown"])
    }


def test_older_violations_are_not_reported_again(policies: Policies) -> None:
    """A call that should never have been made denies no other one."""
    assert judged(policies, case("a", history=[call("refund", amount=900), LOGIN], amount=5)).label == 0


def test_a_pending_obligation_does_not_deny_a_case(policies: Policies) -> None:
    """A case is not a complete conversation: it has no end."""
    assert judged(policies, case("a", amount=5, order=1)).label == 0


def test_state_is_that_of_the_case(policies: Policies) -> None:
    """Without a state, a rule that needs it is unknown, which denies without a violation."""
    stocked = judged(policies, case("a", "buy", more={"state": {"stock": {"hat": 1}}}, item="hat", price=1))
    empty = judged(policies, case("b", "buy", more={"state": {"stock": {"hat": 0}}}, item="hat", price=1))
    unknown = judged(policies, case("c", "buy", item="hat", price=1))
    assert [verdict.label for verdict in (stocked, empty, unknown)] == [0, 1, 1]
    assert (empty.rules, unknown.rules) == (("in_stock",), ())
    assert "in_stock" in unknown.errors[0]


def result(label: int, *rules: str, expected: int | None = None, wanted: tuple[str, ...] | None = None) -> Result:
    return Result(1, "", "{}", label, rules, expected_label=expected, expected_rules=wanted)


def test_words_of_the_user_are_messages_of_a_case() -> None:
    policies = load_policies(
        text="""
version: 1
policies:
  - {id: named, temporal: "forall(refund(order=o), mentions(text(user), o))"}
"""
    )
    words = [{"role": "user", "content": "Refund order W1, please."}]
    record = {"id": "a", "messages": words, "proposed": {"tool": "refund", "args": {"order": "W1"}}}
    assert judged(policies, record).label == 0
    assert judged(policies, {**record, "messages": [{**words[0], "content": "Refund W2."}]}).rules == ("named",)
    assert judged(policies, {**record, "messages": []}).errors == ("named: the host gives no messages",)
    with pytest.raises(ContentError, match=r"messages\[0\]"):
        judged(policies, {**record, "messages": ["Refund W1."]})


@pytest.mark.parametrize("now", ["2026-01-31T12:00:00Z", 1.0])
def test_times_that_go_back_are_named_where_they_decide(now: Any) -> None:
    policies = load_policies(data={"version": 1, "policies": [{"id": "r", "temporal": "forall(pay(), elapsed < 9)"}]})
    history = [{"tool": "a", "time": at} for at in ("2026-01-31T12:00:01Z", "2026-01-31T12:00:00Z")]
    verdict = judged(policies, {"id": "a", "history": history, "now": now, "proposed": {"tool": "pay"}})
    assert ("by time" in verdict.reasons[-1]) is bool(verdict.errors)


def test_only_what_is_expected_can_differ() -> None:
    """A label, a set of rules, or both."""
    assert not difference(result(1, "a"))
    assert not difference(result(1, "a", expected=1))
    assert not difference(result(1, "a", "b", wanted=("b", "a")))
    assert difference(result(1, "a", expected=0)) == Difference((0, 1))
    assert difference(result(1, "a", "b", expected=1, wanted=("c", "b"))) == Difference(None, ("c",), ("a",))
    assert difference(result(1, expected=1, wanted=("a",))) == Difference(None, ("a",))


def test_a_case_of_a_test_expects_something() -> None:
    """A case without an expectation is refused, since it would always pass."""
    text = '{"id": "a", "history": [], "proposed": {"tool": "t", "args": {}}'
    assert read_expectation(text + ', "rules": []}', "f", 1).rules == ()
    with pytest.raises(ContentError, match="f:4: has no expectation; expected 'label', 'rules' or both"):
        read_expectation(text + "}", "f", 4)


def test_an_expected_rule_that_does_not_exist_is_named() -> None:
    """The hint has the nearest rule."""
    assert unknown_rule_hint("login_first", ["login_first"]) == ""
    assert "no such policy; did you mean 'login_first'" in unknown_rule_hint("login_frist", ["login_first"])


def test_metrics_are_those_of_the_labels() -> None:
    """A denial is the positive class; a record without a label is not measured."""
    metrics = VerdictMetrics.for_rules(["a"])
    for label, expected in ((1, 1), (1, 1), (1, 0), (0, 1), (0, 0), (1, None)):
        metrics.add(result(label, expected=expected))
    assert metrics.labels == ConfusionMatrix(tp=2, fp=1, fn=1, tn=1)
    assert (metrics.labels.accuracy, metrics.labels.precision, metrics.labels.recall) == (3 / 5, 2 / 3, 2 / 3)
    assert ConfusionMatrix(tn=4).precision is None
    assert ConfusionMatrix(tn=4).recall is None


def test_each_rule_has_its_row() -> None:
    """An expected rule that does not exist has a row, too."""
    metrics = VerdictMetrics.for_rules(["a", "b"])
    metrics.add(result(1, "a", wanted=("a",)))
    metrics.add(result(1, "a", wanted=("b", "c")))
    metrics.add(result(1, "b"))
    assert metrics.violated == {"a": 2, "b": 1}
    assert {rule: (matrix.tp, matrix.fp, matrix.fn) for rule, matrix in metrics.rules.items()} == {
        "a": (1, 1, 0), "b": (0, 0, 1), "c": (0, 0, 1),
    }  # fmt: skip
    assert VerdictMetrics.from_dict(metrics.to_dict()) == metrics


def test_the_exit_status_is_that_of_the_worst_line() -> None:
    """Unreadable, then not checked, then denied; what was expected never matters."""
    metrics = VerdictMetrics()
    statuses = [metrics.status]
    wrong = Result(1, "", "{}", 0, expected_label=1, expected_rules=("a",))
    denied, unchecked = Result(2, "", "{}", 1), Result(3, "", "{}", 1, unchecked=True)
    for result in (wrong, denied, unchecked, Result(4, error="f:4: bad"), denied):
        metrics.add(result)
        statuses.append(metrics.status)
    assert statuses == [0, 0, 1, 3, 2, 2]


# --- cases and traces with an expected verdict


POLICIES = load_policies(
    data={"version": 1, "policies": [{"id": "close", "temporal": "after(open(), true, close(), true)"}]}
)
OPEN: dict[str, Any] = {"tool": "open", "args": {}, "failed": False}
CLOSE: dict[str, Any] = {"tool": "close", "args": {}, "failed": False}


@pytest.mark.parametrize(
    ("record", "label"),
    [
        ({"events": [OPEN, CLOSE], "label": 0}, 0),
        ({"events": [OPEN], "rules": ["close"]}, 1),
        ({"events": [], "label": 0}, 0),
        ({"history": [], "proposed": OPEN, "label": 0}, 0),
    ],
)
def test_a_trace_is_judged_to_its_end_and_a_case_is_not(record: dict[str, Any], label: int) -> None:
    expected = read_expected(json.dumps({"id": 1, **record}), "cases", 1)
    assert (expected.id, judge_expected(POLICIES, expected).label) == (1, label)


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"events": [OPEN]}, "has no expectation"),
        ({"events": [OPEN], "label": 2}, "expected 0 or 1"),
        ({"events": [OPEN], "proposed": CLOSE, "label": 1}, "'events' and 'proposed'"),
        ({"events": [OPEN], "history": [CLOSE], "label": 1}, "'events' and 'history'"),
        ({"events": {}, "label": 1}, "events"),
        ({"events": [3], "label": 1}, "events"),
        ({"label": 1}, "proposed"),
    ],
)
def test_a_record_that_would_lose_something_is_an_error(record: dict[str, Any], problem: str) -> None:
    with pytest.raises(ContentError, match=problem):
        read_expected(json.dumps({"id": 1, **record}), "cases", 1)
