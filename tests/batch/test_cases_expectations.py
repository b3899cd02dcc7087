"""Cases and traces with an expected verdict."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guardagent import load_policies
from guardagent.batch.cases import judge_expected, read_expected
from guardagent.errors import ContentError

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
