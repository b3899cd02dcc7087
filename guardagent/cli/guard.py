"""The commands `guard` and `run`.

`guard` judges one run of an agent. `run` runs a guard program over one run of an agent, or over many labelled runs.
"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guardagent.cli import options
from guardagent.cli.options import note, print_json, report, screen, unreadable_lines
from guardagent.errors import InputError

if TYPE_CHECKING:
    from guardagent.batch.results import RunJudge
    from guardagent.types import Verdict


class Mode(StrEnum):
    AUTO = "auto"
    PROGRAM = "program"
    GENERATE = "generate"


_INPUT = typer.Option("--input", help="The agent's input (a file, or - for standard input).")
_OUTPUT_LOG = typer.Option("--output-log", help="The agent's actions and answer (a file, or -).")
ModeName = Annotated[Mode, typer.Option("--mode", help="Run a stored program, generate one, or choose (auto).")]


def guard(
    *,
    input: Annotated[str, _INPUT],  # noqa: A002 - the option's public name
    output_log: Annotated[str, _OUTPUT_LOG],
    agent: options.AgentName = None,
    request: options.RequestFile = None,
    specification: options.SpecificationFile = None,
    facts: options.FactsText = None,
    model: options.ModelName = None,
    mode: ModeName = Mode.AUTO,
    toolbox: options.ToolboxFolder = None,
    memory: options.MemoryFolder = None,
    sandbox: options.SandboxName = "auto",
    require_hardening: options.RequireHardening = False,
    shots: Annotated[int, typer.Option("--shots", help="The number of demonstrations shown to the model.")] = 3,
    max_distance: Annotated[
        float | None,
        typer.Option("--max-distance", help="The greatest distance of a demonstration: 0 equal, 1 nothing alike."),
    ] = None,
    debug_rounds: options.DebugRounds = 3,
    votes: options.Votes = 1,
    prompts: options.PromptsFolder = None,
    redact: options.Redact = None,
    prices: options.Prices = None,
    timeout: options.Timeout = None,
    max_cost: options.MaxCost = None,
    cache: options.CacheFolder = None,
    remember: Annotated[
        bool, typer.Option("--remember", help="Keep executed guards for 'memory review'; needs your own '--memory'.")
    ] = False,
    shadow: Annotated[
        float, typer.Option("--shadow", help="The share of runs (0 to 1) to judge again by the other mode.")
    ] = 0.0,
    locked: options.Locked = None,
    show_code: Annotated[bool, typer.Option("--show-code", help="Show the program that decided.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the prompts, plan, code, errors and calls behind the verdict.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Judge one run of an agent by its input and output log."""
    from guardagent._support.files import read_text
    from guardagent.guard import GuardAgent

    options.refuse_two_stdin(input, output_log, request, specification, facts)
    guard_agent = GuardAgent(
        read_text(request) if request else "",
        read_text(specification) if specification else "",
        agent=agent,
        model=options.model_of(model, prices, timeout),
        mode=mode.value,
        toolbox=toolbox,
        memory=memory,
        sandbox=sandbox,
        require_hardening=require_hardening,
        shots=shots,
        max_distance=max_distance,
        debug_rounds=debug_rounds,
        votes=votes,
        prompts=prompts,
        redact=redact or (),
        max_cost=max_cost,
        cache=cache,
        remember="review" if remember else "no",
        locked=locked,
        shadow=shadow,
    )
    with guard_agent:  # closes after the verdict is printed, so that a shadow run delays nobody
        verdict = guard_agent.guard(read_text(input), read_text(output_log), options.read_facts(facts))
        if show_code:
            from guardagent.cli.render import show_code as show

            show(guard_agent.program or _last_code(verdict), screen(stderr=as_json))
        report(verdict, as_json=as_json, explain=explain)


def _last_code(verdict: Verdict) -> str:
    """The last version of the generated code that ran; empty if none did."""
    return next((step.text for step in reversed(verdict.story) if step.name == "run"), "")


# --- run


Program = Annotated[str, typer.Argument(help="The guard program (a Python file).")]
Examples = Annotated[
    str | None,
    typer.Option("--examples", help="Instead of one run: labelled runs, one JSON object per line (a file, or -)."),
]


def run(
    program: Program,
    *,
    input: Annotated[str | None, _INPUT] = None,  # noqa: A002 - the option's public name
    output_log: Annotated[str | None, _OUTPUT_LOG] = None,
    examples: Examples = None,
    facts: options.FactsText = None,
    toolbox: options.ToolboxFolder = None,
    sandbox: options.SandboxName = "auto",
    require_hardening: options.RequireHardening = False,
    locked: options.Locked = None,
    as_json: options.Json = False,
) -> None:
    """Run a guard program in the sandbox.

    Judges one run of an agent, or measures the program over labelled runs.
    """
    from guardagent._support.files import read_text
    from guardagent.guard import judge_with
    from guardagent.programs.program_file import fresh_program
    from guardagent.sandbox import load_sandbox

    _one_or_many(input, output_log, facts, examples)
    options.refuse_two_stdin(program, input, output_log, facts, examples)
    engine = load_sandbox(sandbox, require_hardening=require_hardening)
    tools = options.toolbox_of(toolbox)
    source = fresh_program(program, tools)
    if locked is not None:
        from guardagent.programs.lock import Lock, programs, toolboxes

        Lock.load(locked).require([*programs(Path(program)), *toolboxes(tools)])
    judge = judge_with(source, engine, tools)
    try:
        if examples is not None:
            raise typer.Exit(_measure(examples, judge, as_json=as_json))
        verdict = judge(read_text(str(input)), read_text(str(output_log)), options.read_facts(facts))
    finally:
        engine.close()
    report(verdict, as_json=as_json)


def _one_or_many(run_input: str | None, log: str | None, facts: str | None, examples: str | None) -> None:
    if examples is not None and (run_input, log, facts) != (None, None, None):
        raise InputError("'--examples' holds whole runs; expected no '--input', '--output-log' or '--facts'")
    if examples is None and (run_input is None or log is None):
        raise InputError("nothing to judge; expected '--input' and '--output-log', or '--examples'")


def _measure(examples: str, judge: RunJudge, *, as_json: bool) -> int:
    """Prints the result of each labelled run and the metrics, and returns the exit status."""
    from guardagent.batch.results import VerdictMetrics, judge_runs
    from guardagent.cli.render import show_labelled, summary

    metrics, console = VerdictMetrics(), screen()
    with unreadable_lines(as_json=as_json) as unreadable:
        for result in judge_runs(examples, judge):
            metrics.add(result)
            if result.error:
                unreadable(result.error)
            elif as_json:
                print_json({**json.loads(result.row), "expected": {"label": result.expected_label}})
            else:
                show_labelled(result, console)
    note(summary(metrics, "runs"))
    return metrics.status
