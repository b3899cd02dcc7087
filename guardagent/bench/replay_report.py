"""Renders the results of an evaluation of trajectories as a Markdown table and a plot."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from guardagent.bench.generation_report import markdown

Block = Mapping[str, Any]


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
        rows.append(["with guard", "bounds", *(f"{one['lower']:.1f} to {one['upper']:.1f}" for one in after)])
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
    """Draws pass^k over k; without matplotlib, prints a note instead."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        sys.stderr.write("no plot: matplotlib is not installed; install 'guardagent[bench]'\n")
        return
    figure = Figure(figsize=(6, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    ks = [int(k) for k in summary["without_guard"]["pass"]]
    axis.plot(ks, list(summary["without_guard"]["pass"].values()), "o-", color="#2f4b7c", label="without guard")
    if summary["with_guard"]:
        bounds = list(summary["with_guard"]["pass"].values())
        lower, upper = [one["lower"] for one in bounds], [one["upper"] for one in bounds]
        axis.fill_between(ks, lower, upper, color="#d1495b", alpha=0.3, label="with guard (bounds)")
        axis.plot(ks, lower, "_", color="#d1495b")
        axis.plot(ks, upper, "_", color="#d1495b")
    axis.set(title=f"{summary['data']} (n={summary['n']})", xlabel="k", ylabel="pass^k, percent", ylim=(0, 105))
    axis.set_xticks(ks)
    axis.legend(frameon=False)
    figure.savefig(path, dpi=120)
