"""The command `bench`: runs one evaluation."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from guardagent.cli.options import (
    CacheFolder,
    DebugRounds,
    FactsText,
    Json,
    MaxCost,
    MemoryFolder,
    ModelName,
    Prices,
    PromptsFolder,
    Timeout,
    ToolboxFolder,
    Votes,
    model_of,
    read_facts,
)
from guardagent.cli.output import note, print_json, print_line


class BenchMode(StrEnum):
    AUTO = "auto"
    PROGRAM = "program"
    GENERATE = "generate"
    MODEL_ONLY = "model-only"


def _in_checkout(name: str) -> str:
    """Checks first that a checkout is at hand: the wheel does not contain the evaluations."""
    from guardagent._support.files import shipped_folder

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
    model: ModelName = None,
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
    votes: Votes = 1,
    debug_rounds: DebugRounds = 3,
    prompts: PromptsFolder = None,
    prices: Prices = None,
    timeout: Timeout = None,
    max_cost: MaxCost = None,
    cache: CacheFolder = None,
    workers: Annotated[int, typer.Option("--workers", help="The number of examples judged at once.")] = 1,
    toolbox: ToolboxFolder = None,
    memory: MemoryFolder = None,
    policies: Annotated[Path | None, typer.Option("-p", "--policies", help="For tau: the guard's policy file.")] = None,
    state: Annotated[Path | None, typer.Option("--state", help="For tau: the guard's state (JSON).")] = None,
    facts: FactsText = None,
    as_json: Json = False,
) -> None:
    """Run one evaluation and report the paper's metrics.

    Needs a checkout of the project with its folder benchmarks/.
    """
    from guardagent.bench import run_evaluation

    try:
        summary = run_evaluation(
            name,
            data,
            out,
            progress=sys.stderr.isatty(),
            mode=mode.value,
            model=model_of(model, prices, timeout),
            shots=k,
            least_similar=least_similar,
            without_toolbox=without_toolbox,
            without_memory=without_memory,
            without_code_instructions=without_code_instructions,
            required_checks=required_checks,
            votes=votes,
            debug_rounds=debug_rounds,
            prompts=prompts,
            max_cost=max_cost,
            cache=cache,
            workers=workers,
            toolbox=toolbox,
            memory=memory,
            policies=policies,
            state=state,
            facts=read_facts(facts) if facts is not None else None,
        )
    except KeyboardInterrupt:
        note(f"guardagent: interrupted; run the same command again to resume ({out})")
        raise typer.Exit(130) from None
    if as_json:
        print_json(summary)
    else:
        print_line((out / "table.md").read_text(encoding="utf-8"))
        note(f"Results written to {out}")
