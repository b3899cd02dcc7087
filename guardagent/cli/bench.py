"""The commands `bench`, `bench-compare` and `report`.

`bench` runs one evaluation, `bench-compare` compares the results of several, and `report` has figures on the results of
an audit.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from guardagent._support.files import save_bytes, save_text, shipped_folder
from guardagent.cli import options
from guardagent.cli.options import interrupt_message, note, print_json, print_line, print_result
from guardagent.errors import InputError


class BenchMode(StrEnum):
    AUTO = "auto"
    PROGRAM = "program"
    GENERATE = "generate"
    MODEL_ONLY = "model-only"


def _in_checkout(name: str) -> str:
    """Checks first that a checkout is at hand: the wheel does not contain the evaluations."""
    shipped_folder("benchmarks")
    return name


def bench(
    name: Annotated[
        str,
        typer.Argument(
            help="The evaluation: eicu-ac, mind2web-sc, csqa, tau, or your own.", callback=_in_checkout, is_eager=True
        ),
    ],
    *,
    data: Annotated[Path, typer.Option("--data", help="The data set (a file).")],
    out: Annotated[Path, typer.Option("--out", help="The folder for the results; an interrupted run resumes.")],
    model: options.ModelName = None,
    mode: Annotated[BenchMode, typer.Option("--mode", help="The guard that judges the examples.")] = BenchMode.AUTO,
    k: Annotated[int | None, typer.Option("--k", help="The number of demonstrations (default: the paper's).")] = None,
    least_similar: Annotated[
        bool, typer.Option("--least-similar", help="Show the least similar demonstrations.")
    ] = False,
    without_toolbox: Annotated[
        bool, typer.Option("--without-toolbox", help="Let the model write the check itself.")
    ] = False,
    without_memory: Annotated[bool, typer.Option("--without-memory", help="Show no demonstrations.")] = False,
    without_code_instructions: Annotated[
        bool, typer.Option("--without-code-instructions", help="With model-only: give no instructions about code.")
    ] = False,
    required_checks: Annotated[
        bool, typer.Option("--required-checks", help="Also run the host's required checks, as a deployed guard does.")
    ] = False,
    votes: options.Votes = 1,
    debug_rounds: options.DebugRounds = 3,
    prompts: options.PromptsFolder = None,
    prices: options.Prices = None,
    timeout: options.Timeout = None,
    max_tokens: options.MaxTokens = None,
    max_cost: options.MaxCost = None,
    cache: options.CacheFolder = None,
    workers: Annotated[int, typer.Option("--workers", help="The number of examples judged at once.")] = 1,
    toolbox: options.ToolboxFolder = None,
    memory: options.MemoryFolder = None,
    policies: Annotated[Path | None, typer.Option("-p", "--policies", help="For tau: the guard's policy file.")] = None,
    state: Annotated[Path | None, typer.Option("--state", help="For tau: the guard's state (JSON).")] = None,
    facts: options.FactsText = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Only say how many calls, words and dollars it takes; call no model.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Run one evaluation and report the paper's metrics.

    Needs a checkout of the project with its folder benchmarks/.
    """
    from guardagent import bench as evaluations

    settings: dict[str, Any] = {
        "mode": mode.value,
        "model": options.model_of(model, prices, timeout, max_tokens),
        "shots": k,
        "least_similar": least_similar,
        "without_toolbox": without_toolbox,
        "without_memory": without_memory,
        "without_code_instructions": without_code_instructions,
        "required_checks": required_checks,
        "votes": votes,
        "debug_rounds": debug_rounds,
        "prompts": prompts,
        "max_cost": max_cost,
        "cache": cache,
        "workers": workers,
        "toolbox": toolbox,
        "memory": memory,
    }
    if estimate:
        counts = evaluations.estimate(name, data, **settings)
        print_result(counts, _estimate_text(counts), as_json=as_json)
        return
    known = options.read_facts(facts) if facts is not None else None
    with interrupt_message(lambda: f"; run the same command again to resume ({out})"):
        summary = evaluations.run_evaluation(
            name,
            data,
            out,
            progress=sys.stderr.isatty(),
            policies=policies,
            state=state,
            facts=known,
            **settings,
        )
    if as_json:
        print_json(summary)
    else:
        print_line((out / "table.md").read_text(encoding="utf-8"))
        note(f"Results written to {out}")


def _estimate_text(counts: Mapping[str, Any]) -> str:
    price = "an unknown price (no '--prices')" if counts["dollars"] is None else f"about ${counts['dollars']:,.2f}"
    words = f"{counts['prompt_words']:,} words of prompts and {counts['answer_words']:,} of answers"
    calls = f"{counts['examples'] or 0:,} examples take {counts['model_calls']:,} model calls"
    return f"{calls} with {words}, for {price}. Repairs come on top."


# --- bench-compare


Folders = Annotated[list[Path], typer.Argument(help="Folders written by 'bench --out' over the same data.")]
Compiled = Annotated[
    Path | None, typer.Option("--compiled", help="The report of 'compile --json', for the break-even (a file).")
]
ComparisonFolder = Annotated[Path | None, typer.Option("--out", help="The folder for compare.md and compare.json.")]


def bench_compare(
    folders: Folders, *, compiled: Compiled = None, out: ComparisonFolder = None, as_json: options.Json = False
) -> None:
    """Compare the results of several evaluations.

    Reports metrics, the cost of a check, and the number of checks after which compiling pays off.
    """
    from guardagent.bench.comparison import compare, comparison_table
    from guardagent.bench.results import results_folder

    comparison = compare(folders, compiled)
    table = comparison_table(comparison)
    if out is not None:
        save_text(results_folder(out) / "compare.md", table)
        save_text(out / "compare.json", json.dumps(comparison.to_dict(), indent=2, ensure_ascii=False) + "\n")
    if as_json:
        print_json(comparison.to_dict())
    else:
        sys.stdout.write(table)


# --- report


Results = Annotated[str, typer.Argument(metavar="RESULTS", help="The folder of 'audit --out', or its URL.")]
Format = Annotated[
    str | None,
    typer.Option("--format", help="markdown, html, parquet or json (default: by the suffix of FILE, else markdown)."),
]
ReportOut = Annotated[
    Path | None, typer.Option("-o", "--out", metavar="FILE", help="The file to write (default: standard output).")
]
Top = Annotated[int, typer.Option("--top", min=0, max=1000, help="The number of telling traces.")]
Since = Annotated[str | None, typer.Option("--since", metavar="DATE", help="The first day of last events (UTC).")]
Against = Annotated[
    str | None, typer.Option("--against", metavar="FOLDER", help="The results of an earlier audit, to compare with.")
]
Until = Annotated[str | None, typer.Option("--until", metavar="DATE", help="The last day of last events (UTC).")]


def report(
    results: Results,
    *,
    format: Format = None,  # noqa: A002 - as the option is called
    out: ReportOut = None,
    top: Top = 10,
    since: Since = None,
    until: Until = None,
    against: Against = None,
) -> None:
    """Report on the results of an audit.

    Has a summary, rules by week, near misses, times, the most telling traces, and pass^k over repeated tasks. Exits
    with 3 if parts of an audit are missing; verdicts do not change the status.
    """
    from guardagent.batch.report import make_report, parse_period
    from guardagent.batch.report.formats import FORMATS, format_of, render

    chosen = format or format_of(out)
    FORMATS.load(chosen, "--format")  # before the results are read
    if chosen == "parquet" and out is None and sys.stdout.isatty():
        raise InputError("'--format parquet' is binary; expected '-o FILE', or a pipe")
    figures = make_report(results, parse_period(since, until), top=top, against=against)
    _write_report(render(figures, chosen), out)
    if incomplete := [audit for audit in (figures, figures.against) if audit and not audit.complete]:
        for audit in incomplete:
            note(f"guardagent: {audit.missing:,} of {audit.partitions:,} parts are missing; resume the audit")
        raise typer.Exit(3)


def _write_report(content: bytes, out: Path | None) -> None:
    if out is not None:
        save_bytes(out, content)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.flush()
