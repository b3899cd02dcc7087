"""Evaluations of recorded trajectories: pass^k and write calls, without and with a guard, as a table and a plot.

It is unknown what the agent would have done instead of a denied call. So the outcome of a trial with a denial is
unknown, and pass^k with the guard is a pair of bounds.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from guardagent._support.files import read_json_lines
from guardagent._version import __version__
from guardagent.batch.results import ResultLog
from guardagent.bench.evaluation import Replay
from guardagent.bench.metrics import WriteCalls, match_expected, pass_hat_k
from guardagent.bench.results import line_of, markdown, new_figure, refuse_rows, results_folder, write_results
from guardagent.bench.trajectories import Trajectory, TrajectoryGuard, read_state, read_trajectories
from guardagent.errors import InputError
from guardagent.types import Verdict

Block = Mapping[str, Any]
Row = dict[str, Any]


def replay_table(summary: Block) -> str:
    """The content of table.md."""
    parts = [f"# {summary['name']}", _about(summary), _pass_table(summary), _calls_table(summary), _notes(summary)]
    return "\n\n".join(parts) + "\n"


def _about(summary: Block) -> str:
    guard = "no guard"
    if summary["with_guard"]:
        facts = ", ".join(f"{name} {value!r}" for name, value in summary["facts"].items()) or "none"
        guard = (
            f"guard {summary['policies']}, state {summary['state'] or 'none'}, facts assumed in every trial: {facts}"
        )
    return (
        f"GuardAgent {summary['version']}, on {summary['n']} trials of {summary['tasks']} tasks in {summary['data']}; "
        f"{guard}. All shares in percent."
    )


def _pass_table(summary: Block) -> str:
    before = summary["without_guard"]["pass"]
    rows = [["without guard", "measured", *(f"{value:.1f}" for value in before.values())]]
    if summary["with_guard"]:
        after = summary["with_guard"]["pass"].values()
        rows.append(
            ["with guard", "bounds", *(f"{interval['lower']:.1f} to {interval['upper']:.1f}" for interval in after)]
        )
    return markdown(["", "source", *(f"pass^{k}" for k in before)], rows)


def _calls_table(summary: Block) -> str:
    columns = ["expected", "made", "right", "precision", "recall"]
    rows = [["without guard", "measured", *_numbers(summary["without_guard"], columns)]]
    if summary["with_guard"]:
        rows.append(["with guard", "calls left", *_numbers(summary["with_guard"], columns)])
    return "## Write calls\n\n" + markdown(["", "source", *columns], rows)


def _notes(summary: Block) -> str:
    trials = summary["trials"]
    lines = [f"- Failed write calls, which are not counted as made: {summary['failed_write_calls']}."]
    if trials["fewest"] < trials["most"]:
        lines.append(f"- Tasks have {trials['fewest']} to {trials['most']} trials; the largest k is the fewest.")
    if left_out := summary["trials_without_expected_calls"]:
        lines.append(f"- Trials without expected calls, left out of the write calls: {left_out}.")
    if summary["with_guard"]:
        lines += _guard_notes(summary["with_guard"])
    return "\n".join(lines)


def _guard_notes(guard: Block) -> list[str]:
    denied = guard["denied"]
    rules = ", ".join(f"{rule} {count}" for rule, count in denied["rules"].items()) or "none"
    unknown, succeeded = guard["unknown_trials"], guard["unknown_that_succeeded"]
    trials = (
        f"- Trials with a denied call: {unknown}, of which {succeeded} succeeded without the guard. "
        "It is unknown what the agent would have done instead: the lower bound counts them all as failed, the upper "
        "bound all as succeeded."
    )
    calls = (
        f"- Denied write calls: {denied['calls']}; {denied['expected']} expected, {denied['not_expected']} not, "
        f"{denied['failed']} failed anyway. Could not be checked: {denied['could_not_be_checked']}. By rule: {rules}."
    )
    return [trials, calls]


def _numbers(block: Block, columns: Sequence[str]) -> list[str]:
    values = [block["write_calls"][column] for column in columns]
    return ["n/a" if value is None else f"{value:g}" for value in values]


def draw_replay(path: Path, summary: Block) -> None:
    """Draws pass^k over k.

    Raises:
        ImportError: matplotlib is not installed.
    """
    figure = new_figure(6, 4)
    axis = figure.subplots()
    ks = [int(k) for k in summary["without_guard"]["pass"]]
    axis.plot(ks, list(summary["without_guard"]["pass"].values()), "o-", color="#2f4b7c", label="without guard")
    if summary["with_guard"]:
        bounds = list(summary["with_guard"]["pass"].values())
        lower, upper = [interval["lower"] for interval in bounds], [interval["upper"] for interval in bounds]
        axis.fill_between(ks, lower, upper, color="#d1495b", alpha=0.3, label="with guard (bounds)")
        axis.plot(ks, lower, "_", color="#d1495b")
        axis.plot(ks, upper, "_", color="#d1495b")
    axis.set(title=f"{summary['data']} (n={summary['n']})", xlabel="k", ylabel="pass^k, percent", ylim=(0, 105))
    axis.set_xticks(ks)
    axis.legend(frameon=False)
    figure.savefig(path, dpi=120)


def run_replay(
    evaluation: Replay,
    name: str,
    data: Path,
    out: Path,
    *,
    policies: Path | None = None,
    state: Path | None = None,
    facts: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Measures a file of trajectories and writes results.jsonl, summary.json, table.md and plot.png into a folder.

    Args:
        evaluation: the tools that write, and their effect on the state.
        name: the name of the evaluation.
        data: the trajectories in the format of tau-bench.
        out: the folder.
        policies: the guard's policy file; without one, the trajectories are measured without a guard.
        state: the records at the beginning of every trial, for the guard.
        facts: the facts of every trial, for the guard.

    Returns:
        The summary.

    Raises:
        InputError: a file is invalid, or the folder holds other results.
    """
    guard = _guard(evaluation, policies, state, facts)
    rows = [row_of(trajectory, evaluation.writes, guard) for trajectory in read_trajectories(data)]
    about = {
        "name": name,
        "data": data.name,
        "data_sha256": hashlib.sha256(data.read_bytes()).hexdigest(),
        "policies": policies and policies.name,
        "policies_digest": guard and guard.policies.digest,
        "state": state and state.name,
        "facts": {} if guard is None else dict(guard.facts),
    }
    summary = summarize(rows, about)
    _write(out, rows, summary)
    return summary


def _guard(
    evaluation: Replay, policies: Path | None, state: Path | None, facts: Mapping[str, Any] | None
) -> TrajectoryGuard | None:
    from guardagent.policy.load import load_policies

    if policies is None:
        if (state, facts) != (None, None):
            raise InputError("'--state' and '--facts' need a guard; expected '--policies FILE' too")
        return None
    records = None if state is None else read_state(state)
    return TrajectoryGuard(load_policies(policies), evaluation.writes, records, evaluation.absorb, facts or {})


# --- a trial


def row_of(trajectory: Trajectory, writes: frozenset[str], guard: TrajectoryGuard | None) -> Row:
    """The row of a trial. A failed write call changed nothing, and does not count as made."""
    verdicts = [None] * len(trajectory.calls) if guard is None else guard.verdicts(trajectory)
    calls = [(call, verdict) for call, verdict in zip(trajectory.calls, verdicts, strict=True) if call.tool in writes]
    actual = [(call.tool, call.args) for call, _ in calls if not call.failed]
    planned = trajectory.expected
    expected = None if planned is None else [call for call in planned if call[0] in writes]
    right = iter(match_expected(actual, expected or []))
    call_rows = []
    for call, verdict in calls:
        is_expected = None if call.failed or expected is None else next(right)
        row = {"tool": call.tool, "args": call.args, "failed": call.failed, "expected": is_expected}
        call_rows.append(row | ({} if verdict is None else _verdict_fields(verdict)))
    return {
        "id": trajectory.id,
        "task": trajectory.task,
        "trial": trajectory.trial,
        "success": trajectory.success,
        "expected": None if expected is None else len(expected),
        "calls": call_rows,
        "guard": None if guard is None else _guarded_outcome(call_rows, expected),
    }


def _verdict_fields(verdict: Verdict) -> dict[str, Any]:
    return {"decision": str(verdict.decision), "rules": list(verdict.rules), "errors": list(verdict.errors)}


def _guarded_outcome(calls: Sequence[Mapping[str, Any]], expected: Sequence[Any] | None) -> dict[str, Any]:
    """The outcome of a trial with the guard: `unchanged` without a denial, else `unknown`."""
    left = [call for call in calls if not _denied(call)]
    actual = [(call["tool"], call["args"]) for call in left if not call["failed"]]
    return {
        "outcome": "unchanged" if len(left) == len(calls) else "unknown",
        "made": len(actual),
        "right": None if expected is None else sum(match_expected(actual, expected)),
    }


def _denied(call: Mapping[str, Any]) -> bool:
    return call.get("decision") not in (None, "allow", "warn")


# --- all trials


def summarize(rows: Sequence[Row], about: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of all trials. Write calls are counted for tasks with expected calls."""
    rows_with_expected = [row for row in rows if row["expected"] is not None]
    calls = [call for row in rows_with_expected for call in row["calls"]]
    done = [call for call in calls if not call["failed"]]
    before = WriteCalls(
        sum(row["expected"] for row in rows_with_expected), len(done), sum(call["expected"] for call in done)
    )
    tasks = _by_task(rows)
    trials = [len(task) for task in tasks]
    return {
        **about,
        "version": __version__,
        "n": len(rows),
        "tasks": len(tasks),
        "trials": {"fewest": min(trials), "most": max(trials)},
        "trials_without_expected_calls": len(rows) - len(rows_with_expected),
        "failed_write_calls": len(calls) - len(done),
        "without_guard": {
            "pass": {str(k): v for k, v in pass_hat_k([[row["success"] for row in task] for task in tasks]).items()},
            "write_calls": before.to_dict(),
        },
        "with_guard": _with_guard(rows, rows_with_expected, tasks) if rows[0]["guard"] else None,
    }


def _by_task(rows: Sequence[Row]) -> list[list[Row]]:
    by_task: dict[Any, list[Row]] = {}
    for row in rows:
        by_task.setdefault(row["task"], []).append(row)
    return list(by_task.values())


def _with_guard(
    rows: Sequence[Row], rows_with_expected: Sequence[Row], tasks: Sequence[Sequence[Row]]
) -> dict[str, Any]:
    after = WriteCalls(
        sum(row["expected"] for row in rows_with_expected),
        sum(row["guard"]["made"] for row in rows_with_expected),
        sum(row["guard"]["right"] for row in rows_with_expected),
    )
    unknown = [row for row in rows if row["guard"]["outcome"] == "unknown"]
    lower = pass_hat_k([[_succeeds(row, unknown=False) for row in task] for task in tasks])
    upper = pass_hat_k([[_succeeds(row, unknown=True) for row in task] for task in tasks])
    return {
        "pass": {str(k): {"lower": lower[k], "upper": upper[k]} for k in lower},
        "unknown_trials": len(unknown),
        "unknown_that_succeeded": sum(row["success"] for row in unknown),
        "write_calls": after.to_dict(),
        "denied": _denials(rows),
    }


def _succeeds(row: Row, *, unknown: bool) -> bool:
    return bool(row["success"]) if row["guard"]["outcome"] == "unchanged" else unknown


def _denials(rows: Sequence[Row]) -> dict[str, Any]:
    """The numbers of denied write calls: expected, not expected, failed anyway, and by rule."""
    denied = [call for row in rows for call in row["calls"] if _denied(call)]
    return {
        "calls": len(denied),
        "expected": sum(call["expected"] is True for call in denied),
        "not_expected": sum(call["expected"] is False for call in denied),
        "failed": sum(call["failed"] for call in denied),
        "could_not_be_checked": sum(not call["rules"] for call in denied),
        "rules": dict(sorted(Counter(rule for call in denied for rule in call["rules"]).items())),
    }


# --- the files


def _write(out: Path, rows: Sequence[Row], summary: Mapping[str, Any]) -> None:
    with ResultLog(results_folder(out) / "results.jsonl") as log:
        ids = {row["id"] for row in rows}
        before = read_json_lines(log.path) if log.path.exists() and log.path.stat().st_size else ()
        refuse_rows(log.path, [row.get("id") for _, row in before if "guard" not in row or row.get("id") not in ids])
        (out / "summary.json").unlink(missing_ok=True)  # only a complete run has one
        log.replace(map(line_of, rows))
    write_results(out, replay_table(summary), lambda path: draw_replay(path, summary), summary)
