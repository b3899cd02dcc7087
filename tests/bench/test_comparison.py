"""Evaluations side by side: every number is one of the results read, and what is missing stays empty."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from guardagent.bench import run_evaluation
from guardagent.bench.comparison import compare, comparison_table
from guardagent.errors import ContentError, InputError
from guardagent.testing import ScriptedModel
from tests.bench.scripted_guard import data, guarding
from tests.conftest import Cli

USAGE = {"calls": 3, "cached": 0, "prompt_tokens": 6000, "completion_tokens": 1000, "cost": None, "seconds": 12.0}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder with the results of all three modes."""
    file = data(tmp_path)
    for mode in ("program", "generate", "model-only"):
        model = None if mode == "program" else ScriptedModel(guarding)
        settings: dict[str, Any] = {} if mode == "program" else {"debug_rounds": 1}
        run_evaluation("eicu-ac", file, tmp_path / mode, mode=mode, model=model, **settings)
    return tmp_path


def report(folder: Path, *, passed: bool = True, **usage: Any) -> Path:
    path = folder / "report.json"
    path.write_text(json.dumps({"passed": passed, "usage": USAGE | usage}))
    return path


def test_three_modes_side_by_side(results: Path, cli: Cli) -> None:
    """Metrics as each run's own summary has them, costs as its rows have them."""
    folders = [results / mode for mode in ("program", "generate", "model-only")]
    ran = cli("bench-compare", *folders, "--compiled", report(results), "--out", results / "out", "--json")
    comparison = json.loads(ran.out)
    assert (ran.status, comparison["not_run"], [run["mode"] for run in comparison["runs"]]) == (
        0,
        [],
        ["program", "generate", "model-only"],
    )
    for folder, run in zip(folders, comparison["runs"], strict=True):
        summary = json.loads((folder / "summary.json").read_text())
        rows = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
        assert (run["LPA"], run["EA"]) == (summary["LPA"], summary["EA"])
        assert run["per_check"]["model calls"] == summary["model_calls"] / 5
        assert run["per_check"]["seconds"] == pytest.approx(sum(row["elapsed_ms"] for row in rows) / 5000, abs=1e-6)
    program, generate = (run["per_check"] for run in comparison["runs"][:2])
    assert (program["model calls"], program["prompt tokens"], program["US dollars"]) == (0, 0, 0)
    checks = comparison["break_even"][0]
    assert checks["model calls"] == 2, "three calls once, 2.4 for each check"
    assert checks["prompt tokens"] == -(-6000 // generate["prompt tokens"])
    assert checks["US dollars"] is None
    assert json.loads((results / "out" / "compare.json").read_text()) == comparison


@pytest.mark.slow
def test_the_table_quotes_the_paper_and_leaves_empty_what_is_not_known(results: Path) -> None:
    """The paper's rows are marked; a mode that was not run is a row that says so."""
    table = comparison_table(compare([results / "program", results / "generate"], report(results)))
    assert "| program | measured (" in table
    assert "| model-only | not run: needs a model (--mode model-only --model M) | - |" in table
    assert "| GuardAgent, GPT-4 | paper (arXiv 2406.09187, Table 6) |  |  |  | 45.4 |  |  |  |  |" in table
    assert "| GuardAgent | paper (arXiv 2406.09187, Table 7) |  |  |  |  |  | 298 | 571 | 195 |" in table
    assert "| compiling, once | measured | 3 | 6000 | 1000 | 12 |  |" in table
    assert "US dollars unknown: not reported by the model." in table


@pytest.mark.slow
def test_without_a_report_or_a_generating_run_there_is_no_break_even(results: Path) -> None:
    """And a note says so."""
    comparison = compare([results / "program"])
    assert comparison.break_even() == []
    assert [note.split(":")[0] for note in comparison.notes] == ["No break-even", "No break-even"]
    assert "## Break-even" not in comparison_table(comparison)


@pytest.mark.slow
def test_a_cached_answer_says_nothing_of_time(results: Path) -> None:
    """Neither in a run nor in compiling: seconds stay empty, tokens do not."""
    for _ in range(2):
        (results / "again" / "results.jsonl").unlink(missing_ok=True)
        run_evaluation(
            "eicu-ac",
            results / "data.jsonl",
            results / "again",
            mode="generate",
            model=ScriptedModel(guarding),
            debug_rounds=1,
            cache=results / "cache",
        )
    comparison = compare([results / "again"], report(results, cached=1))
    assert comparison.runs[0].per_check["seconds"] is None
    assert comparison.runs[0].per_check["prompt tokens"]
    assert comparison.compiled is not None
    assert (comparison.compiled["seconds"], comparison.compiled["prompt tokens"]) == (None, 6000)
    assert len(comparison.notes) == 2


def test_what_cannot_be_compared_is_refused(results: Path, tmp_path: Path, cli: Cli) -> None:
    """A run that did not end, other data, other rows, a report that is none or of no program."""
    program = results / "program"
    with pytest.raises(InputError, match="expected the folder of a completed 'bench'"):
        compare([tmp_path])
    with pytest.raises(ContentError, match="key 'usage' is missing"):
        compare([program], program / "summary.json")
    with pytest.raises(ContentError, match="a failed compilation"):
        compare([program], report(tmp_path, passed=False))
    summary = json.loads((program / "summary.json").read_text())
    (program / "summary.json").write_text(json.dumps({**summary, "data_sha256": "0" * 64}))
    assert "runs of one evaluation over the same data" in cli("bench-compare", program, results / "generate").err
    (program / "summary.json").write_text(json.dumps({**summary, "n": 6}))
    with pytest.raises(ContentError, match="has 5 rows, but the summary counts 6"):
        compare([program])
    (program / "summary.json").write_text(json.dumps({"name": "eicu-ac"}))
    with pytest.raises(ContentError, match="key 'agent' is missing"):
        compare([program])
