"""pass^k and joint^k."""

from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent.batch.arrow.schema import VERDICTS
from guardagent.batch.report import PassRates, make_report
from guardagent.batch.report.figures import TaskRuns
from guardagent.batch.report.results_folder import RuleCodes, VerdictBatch
from tests.batch.report.results import results, verdict


def rates_of(rows: list[dict[str, Any]], limit: int = 1000) -> PassRates:
    runs = TaskRuns(limit)
    runs.add(VerdictBatch(pa.RecordBatch.from_pylist(rows, VERDICTS), RuleCodes([])))
    return runs.rates()


RUNS = st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.booleans()), min_size=1, max_size=14)


@given(RUNS)
def test_the_rates_are_means_over_all_choices_of_runs(drawn: Any) -> None:
    """Without replacement, over the tasks with enough runs."""
    rows = [
        verdict(str(at), *([] if clean else [("rule", 1)]), task=task, success=success)
        for at, (task, success, clean) in enumerate(drawn)
    ]
    for rate in rates_of(rows).rates:
        tasks = [[run for run in drawn if run[0] == task] for task in "abc"]
        choices = [list(combinations(runs, rate.k)) for runs in tasks if len(runs) >= rate.k]
        passed = [mean(all(run[1] for run in chosen) for chosen in choice) for choice in choices]
        joint = [mean(all(run[1] and run[2] for run in chosen) for chosen in choice) for choice in choices]
        assert rate.tasks == len(choices)
        assert rate.passed == pytest.approx(mean(passed))
        assert rate.joint == pytest.approx(mean(joint))
    assert len(rates_of(rows).rates) == min(8, max(sum(run[0] == task for run in drawn) for task in "abc"))


def test_runs_of_unknown_success_are_counted_apart(tmp_path: Path) -> None:
    """Traces without a task are no runs; a run with errors is no run without violations."""
    rows = [
        verdict("a", task="t", success=True), verdict("b", task="t", success=True, errors=["no state"]),
        verdict("c", task="t"), verdict("d", success=True), verdict("e"),
    ]  # fmt: skip
    pass_rates = make_report(str(results(tmp_path / "out", rows))).pass_rates
    assert (pass_rates.tasks, pass_rates.runs, pass_rates.unknown, pass_rates.sample) == (1, 2, 1, 1)
    assert [(rate.k, rate.passed, rate.joint) for rate in pass_rates.rates] == [(1, 1.0, 0.5), (2, 1.0, 0.0)]


def test_too_many_tasks_become_a_sample_of_whole_tasks() -> None:
    """Each task that is left has all of its runs."""
    rows = [verdict(f"{task} {run}", task=f"t{task}", success=True) for run in range(3) for task in range(200)]
    rates = rates_of(rows, limit=50)
    assert rates.sample >= 4
    assert 0 < rates.tasks <= 50
    assert rates.runs == 3 * rates.tasks
