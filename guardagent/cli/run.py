"""The command `run`: runs a guard program over one run of an agent, or over many labelled runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guardagent.cli.options import (
    FactsText,
    Json,
    Locked,
    RequireHardening,
    SandboxName,
    ToolboxFolder,
    read_facts,
    refuse_two_stdin,
)
from guardagent.cli.output import note, print_json, report, screen, unreadable
from guardagent.errors import InputError

if TYPE_CHECKING:
    from guardagent.batch.labelled_runs import RunJudge

Program = Annotated[str, typer.Argument(help="The guard program (a Python file).")]
RunInput = Annotated[str | None, typer.Option("--input", help="The agent's input (a file, or - for standard input).")]
RunOutputLog = Annotated[
    str | None, typer.Option("--output-log", help="The agent's actions and answer (a file, or -).")
]
Examples = Annotated[
    str | None,
    typer.Option("--examples", help="Instead of one run: labelled runs, one JSON object per line (a file, or -)."),
]


def run(
    program: Program,
    *,
    input: RunInput = None,  # noqa: A002 - the option's public name
    output_log: RunOutputLog = None,
    examples: Examples = None,
    facts: FactsText = None,
    toolbox: ToolboxFolder = None,
    sandbox: SandboxName = "auto",
    require_hardening: RequireHardening = False,
    locked: Locked = None,
    as_json: Json = False,
) -> None:
    """Run a guard program in the sandbox.

    Judges one run of an agent, or measures the program over labelled runs.
    """
    from guardagent._support.files import read_text
    from guardagent.guard import judge_with
    from guardagent.programs.program_file import fresh_program
    from guardagent.sandbox import load_sandbox
    from guardagent.sandbox.toolbox import Toolbox

    _one_or_many(input, output_log, facts, examples)
    refuse_two_stdin(program, input, output_log, facts, examples)
    engine = load_sandbox(sandbox, require_hardening=require_hardening)
    tools = Toolbox.load(*(toolbox or []))
    source = fresh_program(program, tools)
    if locked is not None:
        from guardagent.programs.lock import Lock, programs, toolboxes

        Lock.load(locked).require([*programs(Path(program)), *toolboxes(tools)])
    judge = judge_with(source, engine, tools)
    try:
        if examples is not None:
            raise typer.Exit(_measure(examples, judge, as_json=as_json))
        verdict = judge(read_text(str(input)), read_text(str(output_log)), read_facts(facts))
    finally:
        engine.close()
    report(verdict, as_json=as_json)


def _one_or_many(one: str | None, log: str | None, facts: str | None, examples: str | None) -> None:
    if examples is not None and (one, log, facts) != (None, None, None):
        raise InputError("'--examples' holds whole runs; expected no '--input', '--output-log' or '--facts'")
    if examples is None and (one is None or log is None):
        raise InputError("nothing to judge; expected '--input' and '--output-log', or '--examples'")


def _measure(examples: str, judge: RunJudge, *, as_json: bool) -> int:
    """Prints the result of each labelled run and the metrics, and returns the exit status."""
    from guardagent.batch.jobs import VerdictMetrics
    from guardagent.batch.labelled_runs import judge_runs
    from guardagent.cli.render_results import show_labelled, summary

    metrics, console = VerdictMetrics(), screen()
    for result in judge_runs(examples, judge):
        metrics.add(result)
        if result.error:
            unreadable(result.error, as_json=as_json)
        elif as_json:
            print_json({**json.loads(result.row), "expected": {"label": result.expected_label}})
        else:
            show_labelled(result, console)
    note(summary(metrics, "runs"))
    return metrics.status
