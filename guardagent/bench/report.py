"""Renders the results as Markdown: a table beside the paper's, and one table per breakdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from guardagent.bench.evaluation import Evaluation, PaperRow
from guardagent.bench.generation_report import generated_tables, markdown
from guardagent.bench.metrics import METRICS

Block = Mapping[str, Any]

NOT_RUN = {
    "program": "not run: --mode program",
    "generate": "not run: needs a model (--mode generate --model M)",
    "model-only": "not run: needs a model (--mode model-only --model M)",
}


def table(summary: Block, evaluation: Evaluation) -> str:
    """The content of table.md."""
    paper = evaluation.paper
    parts = [
        f"# {summary['name']}",
        about(summary),
        _main_table(summary, paper),
        _notes(summary, paper),
        *(_group_table(summary, dimension, paper) for dimension in summary["groups"]),
        *generated_tables(summary, evaluation),
    ]
    return "\n\n".join(parts) + "\n"


def shares(block: Block) -> dict[str, float | None]:
    """The metrics of a block by name: the paper's five, then those of the evaluation."""
    return {**{name: block[name] for name in METRICS}, **block["rates"]}


def percent_text(values: Mapping[str, float | None], metric: str) -> str:
    """Formats a percentage with one decimal; `n/a` for an empty denominator, a dash if not reported."""
    if metric not in values:
        return "-"
    value = values[metric]
    return "n/a" if value is None else f"{value:.1f}"


def about(summary: Block) -> str:
    """A sentence with version, mode, model and settings."""
    model = f", model {summary['model']}" if summary["model"] else ""
    all_settings = {name: value for name, value in summary["settings"].items() if name not in ("mode", "model")}
    settings_in_use = {name: value for name, value in all_settings.items() if value is not None and value is not False}
    changed = [name if value is True else f"{name} {value}" for name, value in settings_in_use.items()]
    settings = f" Settings: {', '.join(changed).replace('_', ' ')}." if changed else ""
    if summary["mode"] == "generate" and not all_settings["required_checks"]:
        settings += " Without the host's required checks, as in the paper."
    return (
        f"GuardAgent {summary['version']}, mode {summary['mode']}{model}, guarding {summary['agent']}, "
        f"on the {summary['n']} runs of {summary['data']}. All metrics in percent.{settings}"
    )


def _main_table(summary: Block, paper: Sequence[PaperRow]) -> str:
    metrics = list(shares(summary))
    rows = [line("**this run**", "measured", summary["n"], shares(summary), metrics)]
    ran = {summary["mode"]}
    if summary["mode"] == "auto":
        alone = summary["unknown"]["program_alone"]
        rows.append(line("its program alone", "measured", alone["n"], shares(alone), metrics))
        ran.add("program")
    rows += [line(mode, reason, None, {}, metrics) for mode, reason in NOT_RUN.items() if mode not in ran]
    rows += [_paper_line(row.method, row, metrics) for row in paper if row.group is None]
    return markdown(["guard", "source", "n", *metrics], rows)


def _paper_line(first: str, row: PaperRow, metrics: Sequence[str]) -> list[str]:
    return line(first, f"paper ({row.source})", row.n, row.values, metrics)


def line(
    first: str, source: str, n: int | None, values: Mapping[str, float | None], metrics: Sequence[str]
) -> list[str]:
    """A row of a table."""
    return [first, source, "-" if n is None else str(n), *(percent_text(values, name) for name in metrics)]


def _notes(summary: Block, paper: Sequence[PaperRow]) -> str:
    counts, times = summary["counts"], summary["elapsed_ms"]
    right = f"{counts['right_runs']} of the {counts['TN'] + counts['FP']} runs that must pass"
    passed = f"{percent_text(summary, 'FRA_of_right_runs')} percent of these"
    lines = [
        f"- {right} gave the right answer without a guard; {passed} passed with the right answer.",
        f"- Denied because they could not be checked: {summary['errors']}. Model calls: {_calls(summary)}.",
        f"- Not decided by the program: {percent_text(summary['unknown'], 'share')} percent of the runs.",
        f"- Time per verdict: median {times['median']:.1f} ms, p99 {times['p99']:.1f} ms.",
    ]
    if wrong := [row["id"] for row in summary["wrong"]]:
        more = f" and {len(wrong) - 20} more" if len(wrong) > 20 else ""
        lines.append(f"- Rows with an error ({len(wrong)}; see summary.json): {', '.join(wrong[:20])}{more}.")
    if paper:
        lines.append("- Rows marked *paper* are quoted; their authors measured them on other examples.")
    return "\n".join(lines)


def _calls(summary: Block) -> str:
    cached = (summary["generated"] or {"cached": 0})["cached"]
    from_cache = f", {cached} of them answered from the cache" if cached else ""
    return f"{summary['model_calls']}{from_cache}"


def _group_table(summary: Block, dimension: str, paper: Sequence[PaperRow]) -> str:
    groups = summary["groups"][dimension]
    values = {group: shares(block) for group, block in groups.items()}
    metrics = [name for name in shares(summary) if any(block[name] is not None for block in values.values())]
    rows = []
    for group, block in values.items():
        rows.append(line(group, "measured", groups[group]["n"], block, metrics))
        quoted = (row for row in paper if row.group == (dimension, group))
        rows += [_paper_line(f"{group}: {row.method}", row, metrics) for row in quoted]
    return f"## By {dimension}\n\n" + markdown([dimension, "source", "n", *metrics], rows)
