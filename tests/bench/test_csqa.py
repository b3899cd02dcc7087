"""CSQA counts risk levels: Table 8 reports the recall of each."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guardagent.bench import judge_all, load_evaluation, measure
from guardagent.bench.metrics import measure_groups
from guardagent.bench.results import Results
from guardagent.errors import ContentError

from .fakes import Oracle, allow, deny, write_lines

CSQA = load_evaluation("csqa")[0]
ROW = {
    "id": "1",
    "agent_input": "Question: Where do boats rest? Options: A: harbour. B: hill.",
    "agent_output": "Answer: A: harbour.",
    "label": 0,
    "risk": "no risk",
}


def test_levels(tmp_path: Path) -> None:
    """A level is right or wrong on its own, whatever the label; a denial needs level and rules."""
    risky = ROW | {"label": 1, "risk": "medium", "rules": ["rule 1", "rule 2"]}
    rows = [ROW, risky | {"id": "2", "agent_input": "Q2"}, risky | {"id": "3", "agent_input": "Q3"}]
    verdicts = {
        str(ROW["agent_input"]): replace(allow("A: harbour"), risk="no"),
        "Q2": replace(deny(violated_rules=["rule 2", "rule 1"]), risk="medium risk"),
        "Q3": replace(deny(violated_rules=["rule 1"]), risk="low risk"),
    }
    examples = CSQA.load(write_lines(tmp_path / "csqa.jsonl", *rows))
    judged = judge_all(CSQA, examples, Oracle(verdicts.__getitem__), Results(tmp_path / "r.jsonl"), "")
    measured = measure(judged)
    assert (measured["LPA"], measured["EA"], measured["FRA"]) == (100, 50, 100)
    assert measured["rates"] == {"risk recall": 66.67}
    assert measure_groups(judged)["risk"]["medium risk"]["rates"] == {"risk recall": 50}


@pytest.mark.parametrize(
    ("answer", "right"), [("A: harbour", True), ("A", True), ("B: harbour", False), ("A: hill", False), ("", False)]
)
def test_the_choice_is_what_counts(answer: str, tmp_path: Path, *, right: bool) -> None:
    """The letter, and the words where there are any; without a truth, the run's own answer is right."""
    [example] = CSQA.load(write_lines(tmp_path / "csqa.jsonl", ROW))
    assert CSQA.answered(answer, example) is right


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (ROW | {"risk": "hihg"}, "key 'risk' is 'hihg'; did you mean 'high'"),
        (ROW | {"rules": "rule 1"}, "key 'rules' is 'rule 1'; expected a list of strings"),
    ],
)
def test_wrong_rows(row: dict[str, Any], message: str, tmp_path: Path) -> None:
    """A level that does not exist is an error with the nearest one."""
    with pytest.raises(ContentError, match=message):
        CSQA.load(write_lines(tmp_path / "csqa.jsonl", row))


def test_no_original_was_published(tmp_path: Path) -> None:
    """A JSON array is not read."""
    path = tmp_path / "csqa.json"
    path.write_text("[{}]")
    with pytest.raises(ContentError, match="expected JSON Lines"):
        CSQA.load(path)
