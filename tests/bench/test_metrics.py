"""The metrics are those of the paper's Section 5.1."""

from pathlib import Path

import pytest

from guardagent.bench import Evaluation, judge_all, measure
from guardagent.bench.metrics import measure_cost, measure_groups, wrong_rows
from guardagent.bench.results import Results, Row
from guardagent.types import unchecked_verdict

from .fakes import Oracle, allow, deny, example

VERDICTS = {
    "input a": deny(rule="r"),  # denied and explained
    "input b": deny(rule="other"),  # denied, explained wrongly
    "input c": allow("yes"),  # missed
    "input d": allow("yes"),  # passed
    "input e": allow("no"),  # the run's own answer is wrong
    "input f": unchecked_verdict("no model"),  # denied without reason
}
EXAMPLES = [
    example("a", 1),
    example("b", 1),
    example("c", 1, shift="night"),
    example("d", 0),
    example("e", 0, output="no"),
    example("f", 0, shift="night"),
]


@pytest.fixture
def rows(small: Evaluation, tmp_path: Path) -> list[Row]:
    return judge_all(small, EXAMPLES, Oracle(VERDICTS.__getitem__), Results(tmp_path / "results.jsonl"), "setup")


def test_hand_computed(rows: list[Row]) -> None:
    """Each metric has its own denominator."""
    measured = measure(rows)
    assert measured["LPA"] == 66.67
    assert measured["LPP"] == 66.67
    assert measured["LPR"] == 66.67
    assert measured["EA"] == 33.33
    assert measured["FRA"] == 33.33
    assert measured["FRA_of_right_runs"] == 50
    assert measured["counts"] == {"TP": 2, "FP": 1, "TN": 2, "FN": 1, "right_runs": 2}


def test_empty_denominators_are_null(rows: list[Row]) -> None:
    """Nothing denied has no precision, nothing to deny no recall and no explanations."""
    measured = measure([row for row in rows if row["id"] == "d"])
    assert (measured["LPP"], measured["LPR"], measured["EA"], measured["FRA"]) == (None, None, None, 100)


def test_groups_and_cost(rows: list[Row]) -> None:
    """A group has the same metrics over its own rows; what could not be checked is counted."""
    assert measure_groups(rows)["shift"]["night"]["LPA"] == 0
    assert measure_cost(rows)["errors"] == 1
    assert measure_cost(rows)["elapsed_ms"] == {"median": 1.0, "p99": 3.0}


def test_what_is_wrong_is_listed(rows: list[Row]) -> None:
    """Every lost point is named by id, and whether the run or the guard lost it."""
    assert [(row["id"], row["wrong"][-1]) for row in wrong_rows(rows)] == [
        ("b", "denied with another explanation than the truth's"),
        ("c", "allowed; must be denied"),
        ("e", "allowed with a wrong answer; the run's own answer is wrong"),
        ("f", "denied; must pass"),
    ]
