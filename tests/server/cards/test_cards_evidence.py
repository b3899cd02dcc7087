"""The values of the evidence that differ from a call."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from guardagent.server.cards import differences, evidence_of
from tests._support.work import calls_within

ORDER = {"id": "c1", "tool": "look", "args": {"order": "W1"}, "output": {"order": "W1", "total": 120}}
OTHER = {"id": "c2", "tool": "look", "args": {"order": "W2"}, "output": '{"order": "W2", "total": 90}'}


@pytest.mark.parametrize(
    ("args", "facts", "calls", "expected"),
    [
        ({"order": "W1", "amount": 500}, None, [ORDER, OTHER], {"amount": {"total": 120}}),
        ({"order": "W1", "amount": 120}, None, [ORDER, OTHER], {}),
        ({"order": "W1", "amount": "120"}, None, [ORDER], {}),
        ({"order": "W1"}, None, [OTHER], {"order": {"order": "W2"}}),
        ({"amount": 500}, {"limit": 200}, [], {"amount": {"limit": 200}}),
        ({"lines": [{"total": 7}]}, None, [ORDER], {"lines[0].total": {"total": 120}}),
        ({"amount": 500, "ok": True}, None, [{**ORDER, "output": "found"}], {}),
        ({"order": "W1", "amount": 500}, None, [{**ORDER, "output": [{"total": 7}]}], {"amount": {"[0].total": 7}}),
        ({"order": "W1", "amount": 500}, None, [{**ORDER, "output": {"n": list(range(9))}}], {}),
    ],
)
def test_differences(args: dict[str, Any], facts: Any, calls: Any, expected: dict[str, Any]) -> None:
    compared = differences(args, evidence_of(facts, calls))
    assert {name: {path: value for _, path, value in fields} for name, fields in compared.items()} == expected


def test_evidence_is_complete_and_the_newest_first() -> None:
    output = '{"lines": [], "note": null, "at": [{"x": 1}]}'
    evidence = evidence_of({"limit": 1}, [ORDER, {**OTHER, "output": output}, {**ORDER, "output": None}])
    assert [item.title for item in evidence] == ["Facts from the host", 'c2: look(order="W2")', 'c1: look(order="W1")']
    assert evidence[1].fields == {"lines": [], "note": None, "at[0].x": 1}


@pytest.mark.parametrize("output", ["[" * 100_000, "[" * 990 + "]" * 990, '{"a": NaN}', "9" * 5000])
def test_an_output_that_is_no_plain_json_is_a_text(output: str) -> None:
    [item] = evidence_of(None, [{**ORDER, "output": output}])
    assert item.value == output


def test_the_work_grows_with_the_arguments() -> None:
    """A call with many values cannot keep reviewers from its page."""

    def work(count: int) -> int:
        calls = [{"id": "c1", "tool": "get", "args": {"id": "W1"}, "output": {"rows": list(range(7, count + 7))}}]
        evidence = evidence_of({}, calls)
        return calls_within(partial(differences, {"rows": list(range(count)), "id": "W1"}, evidence))

    assert work(2_000) < 15 * work(200)
