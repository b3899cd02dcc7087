"""The command line. Exit status: 0 allowed or clean, 1 denied, 2 the input is wrong, 3 it could not be checked."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from guardagent import __version__
from guardagent._support.files import read_text
from guardagent.cli import compare as cli_compare
from guardagent.cli import compile as cli_compile
from guardagent.cli import lint as cli_lint
from guardagent.cli import lock as cli_lock
from guardagent.cli import log as cli_log
from guardagent.cli import mcp as cli_mcp
from guardagent.cli import policies as cli_policies
from guardagent.cli import run as cli_run
from guardagent.cli import toolbox as cli_toolbox
from guardagent.cli import workflow as cli_workflow
from guardagent.cli.options import (
    FactsFile,
    Json,
    Prices,
    RequireHardening,
    SandboxName,
    Timeout,
    ToolboxFolder,
    model_of,
    read_facts,
    refuse_two_stdin,
    report,
    screen,
)
from guardagent.errors import GuardError, InputError, ModelError, in_words
from guardagent.guard import GuardAgent
from guardagent.types import Verdict

app = typer.Typer(
    name="guardagent",
    help="Keeps LLM agents inside the rules their operators set.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
toolbox_app = typer.Typer(help="The functions that guard programs may call.", no_args_is_help=True)
log_app = typer.Typer(help="Audit logs: what guards have decided.", no_args_is_help=True)
memory_app = typer.Typer(help="The known target agents and their demonstrations.", no_args_is_help=True)
app.add_typer(toolbox_app, name="toolbox")
app.add_typer(memory_app, name="memory")
app.add_typer(log_app, name="log")


class Mode(StrEnum):
    AUTO = "auto"
    PROGRAM = "program"
    GENERATE = "generate"


class BenchMode(StrEnum):
    AUTO = "auto"
    PROGRAM = "program"
    GENERATE = "generate"
    MODEL_ONLY = "model-only"


AgentName = Annotated[str | None, typer.Option("--agent", help="A known agent: a folder in the memory.")]
RequestFile = Annotated[str | None, typer.Option("--request", help="The guard request, in words (a file).")]
SpecificationFile = Annotated[str | None, typer.Option("--specification", help="What the agent does (a file).")]
InputFile = Annotated[str, typer.Option("--input", help="What the agent was asked (a file, - for stdin).")]
OutputFile = Annotated[str, typer.Option("--output-log", help="What the agent did and answered (a file, -).")]
ModelName = Annotated[
    str | None,
    typer.Option("--model", help="The model that writes code, such as openai/gpt-4.1. [env: GUARDAGENT_MODEL]"),
]
ModeName = Annotated[Mode, typer.Option("--mode", help="Judge by a stored program, or generate one.")]
MemoryFolder = Annotated[str | None, typer.Option("--memory", help="A folder with one folder per agent.")]
Locked = Annotated[
    Path | None, typer.Option("--locked", help="A lock file; nothing runs that does not stand in it. See lock.")
]


def main(arguments: list[str] | None = None) -> None:
    """Runs a command; a mistake in what it was given ends with a message, never with a traceback."""
    if sys.stdout is None:
        sys.exit(3)  # no verdict could be delivered
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        app(args=arguments)
    except ModelError as error:
        _fail(str(error), 3)
    except InputError as error:
        _fail(str(error), 2)
    except GuardError as error:
        _fail(str(error), 3)
    except Exception as error:  # noqa: BLE001 - a bug of ours must not look like an allowance, nor like a crash
        _fail(f"internal error, nothing was checked: {in_words(error)}", 3)


@app.command()
def guard(
    *,
    input: InputFile,  # noqa: A002 - the option's public name
    output_log: OutputFile,
    agent: AgentName = None,
    request: RequestFile = None,
    specification: SpecificationFile = None,
    facts: FactsFile = None,
    model: ModelName = None,
    mode: ModeName = Mode.AUTO,
    toolbox: ToolboxFolder = None,
    memory: MemoryFolder = None,
    sandbox: SandboxName = "auto",
    require_hardening: RequireHardening = False,
    shots: Annotated[int, typer.Option("--shots", help="How many demonstrations the model is shown.")] = 3,
    max_distance: Annotated[
        float | None, typer.Option("--max-distance", help="How far from the run they may be: 0 equal, 1 nothing alike.")
    ] = None,
    debug_rounds: Annotated[int, typer.Option("--debug-rounds", help="How often it may mend what it wrote.")] = 3,
    votes: Annotated[int, typer.Option("--votes", help="How many plans vote on the verdict.")] = 1,
    prompts: Annotated[str | None, typer.Option("--prompts", help="A folder of templates of your own.")] = None,
    redact: Annotated[
        list[str] | None, typer.Option("--redact", help="What no model may see: a regular expression; repeatable.")
    ] = None,
    prices: Prices = None,
    timeout: Timeout = None,
    max_cost: Annotated[float | None, typer.Option("--max-cost", help="US dollars that a check may take.")] = None,
    cache: Annotated[str | None, typer.Option("--cache", help="A folder that keeps the model's answers.")] = None,
    remember: Annotated[
        bool, typer.Option("--remember", help="Keep what was executed for `memory review`; needs a --memory of yours.")
    ] = False,
    shadow: Annotated[
        float, typer.Option("--shadow", help="Have a share of the runs (0 to 1) judged again, by the other mode.")
    ] = 0.0,
    locked: Locked = None,
    show_code: Annotated[bool, typer.Option("--show-code", help="Show the program that decided.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show all that led to the verdict: prompts, plan, code, errors, calls.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Judge one run of an agent: its input and its output log."""
    refuse_two_stdin(input, output_log, request, specification, facts)
    guard_agent = GuardAgent(
        read_text(request) if request else "",
        read_text(specification) if specification else "",
        agent=agent,
        model=model_of(model, prices, timeout),
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
    with guard_agent:  # it closes after the verdict is out: what is judged again keeps nobody waiting for it
        verdict = guard_agent.guard(read_text(input), read_text(output_log), read_facts(facts))
        if show_code:
            from guardagent.cli.render import show_code as show

            show(guard_agent.program or _last_code(verdict), screen(stderr=as_json))
        report(verdict, as_json=as_json, explain=explain)


cli_run.register(app)
cli_policies.register(app)
cli_workflow.register(app)
cli_lint.register(app)
cli_lock.register(app)
cli_log.register(log_app)
cli_mcp.register(app)
cli_compile.register(app)
cli_compare.register(app)
cli_toolbox.register(toolbox_app)


@toolbox_app.command("list")
def toolbox_list(*, toolbox: ToolboxFolder = None, as_json: Json = False) -> None:
    """List the functions, without running any of their code."""
    from guardagent.sandbox.toolbox import Toolbox

    tools = Toolbox.load(*(toolbox or []))
    if as_json:
        rows = [{"name": t.name, "signature": t.signature, "summary": t.summary} for t in tools.values()]
        print(json.dumps({"functions": rows}, ensure_ascii=False))
        return
    console, width = screen(), max(map(len, tools))
    for tool in tools.values():
        console.print(f"{tool.name:{width}}", style="bold red" if tool.is_check else "bold cyan", end="")
        console.print(f"  {tool.summary}", markup=False, highlight=False)


@toolbox_app.command("show")
def toolbox_show(name: str, *, toolbox: ToolboxFolder = None) -> None:
    """Show one function: its signature and documentation."""
    from guardagent.sandbox.toolbox import Toolbox

    tool = Toolbox.load(*(toolbox or []))[name]
    screen().print(f"{tool.describe()}\n\n{tool.path}:{tool.line}", markup=False, highlight=False)


@memory_app.command("list")
def memory_list(*, memory: MemoryFolder = None, as_json: Json = False) -> None:
    """List the known agents and what is known of them."""
    from guardagent.programs.memory.agents import Memory, load_agent

    folders = Memory(*([memory] if memory else [])).names()
    agents = [load_agent(path) for path in folders.values()]
    rows: list[dict[str, Any]] = [
        {
            "name": agent.name,
            "demonstrations": len(agent.demonstrations),
            "program": agent.program is not None,
            "required_checks": [check.text for check in agent.required],
            "path": str(agent.path),
        }
        for agent in agents
    ]
    if as_json:
        print(json.dumps({"agents": rows}, ensure_ascii=False))
        return
    console = screen()
    for row in rows:
        console.print(row["name"], style="bold cyan", end="")
        program = "a program" if row["program"] else "no program"
        checks = f"required checks: {len(row['required_checks'])}"
        console.print(f"  {row['demonstrations']} demonstrations, {program}, {checks}  ({row['path']})", markup=False)


@memory_app.command("add")
def memory_add(
    demonstrations: Annotated[str, typer.Argument(help="Demonstrations to add (JSON Lines, - for stdin).")],
    *,
    agent: Annotated[str, typer.Option("--agent", help="The agent they belong to.")],
    memory: Annotated[str, typer.Option("--memory", help="The folder with that agent's folder.")],
) -> None:
    """Add demonstrations to an agent of yours; each is validated first, and all are added or none."""
    from guardagent.programs.memory.additions import add_demonstrations, place

    folder = Path(memory) / agent
    count = add_demonstrations(folder, demonstrations)
    print(f"added {count} to {place(folder)}")


@memory_app.command("export")
def memory_export(
    *, agent: Annotated[str, typer.Option("--agent", help="Whose they are.")], memory: MemoryFolder = None
) -> None:
    """Print all demonstrations of an agent (JSON Lines), wherever they are kept."""
    from guardagent.programs.memory.agents import Memory

    for one in Memory(*([memory] if memory else [])).agent(agent).demonstrations:
        print(one.to_json())


@memory_app.command("review")
def memory_review(
    *,
    agent: Annotated[str, typer.Option("--agent", help="The agent whose memory may grow.")],
    memory: Annotated[str, typer.Option("--memory", help="The folder with that agent's folder.")],
    accept: Annotated[list[str] | None, typer.Option("--accept", help="Make it one (an id); repeatable.")] = None,
    reject: Annotated[list[str] | None, typer.Option("--reject", help="Drop it (an id); repeatable.")] = None,
    right: Annotated[
        list[str] | None,
        typer.Option("--right", help="Make it an example: ID=program, ID=generated or ID=neither; repeatable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Confirm or drop what waits: guards that were executed, and runs that program and model judged differently."""
    from guardagent.programs.memory.agents import Memory
    from guardagent.programs.memory.review import Choices, Waiting, ask_each, settle_all, show_waiting

    folder = Memory(memory).agent(agent).path
    choices = Choices.of(accept or (), reject or (), right or ())
    if not choices:
        waiting = Waiting.of(folder)
        if as_json:
            print(json.dumps(waiting.to_dict(), ensure_ascii=False))
            return
        if not sys.stdin.isatty():
            show_waiting(waiting, screen())
            return
        choices = ask_each(waiting, screen())
    settle_all(folder, choices)
    accepted = len(choices.accepted) + len(choices.right)
    print(f"{accepted} accepted, {len(choices.rejected)} rejected, {len(Waiting.of(folder))} waiting")


def _in_checkout(name: str) -> str:
    """The name, where there are evaluations: they are no part of what is installed."""
    from guardagent._support.content import shipped

    shipped("benchmarks")
    return name


@app.command()
def bench(
    name: Annotated[
        str,
        typer.Argument(
            help="eicu-ac, mind2web-sc, csqa, tau, or one of your own.", callback=_in_checkout, is_eager=True
        ),
    ],
    *,
    data: Annotated[Path, typer.Option("--data", help="The data set (a file).")],
    out: Annotated[Path, typer.Option("--out", help="Where the results go (a folder; an interrupted run resumes).")],
    model: ModelName = None,
    mode: Annotated[BenchMode, typer.Option("--mode", help="What judges.")] = BenchMode.AUTO,
    k: Annotated[int | None, typer.Option("--k", help="How many demonstrations (default: as the paper).")] = None,
    least_similar: Annotated[bool, typer.Option("--least-similar", help="The farthest demonstrations.")] = False,
    without_toolbox: Annotated[bool, typer.Option("--without-toolbox", help="The model writes the check.")] = False,
    without_memory: Annotated[bool, typer.Option("--without-memory", help="No demonstrations.")] = False,
    without_code_instructions: Annotated[
        bool, typer.Option("--without-code-instructions", help="model-only, in any way the model likes.")
    ] = False,
    required_checks: Annotated[
        bool, typer.Option("--required-checks", help="Make the host's own checks too, as in a deployed guard.")
    ] = False,
    votes: Annotated[int, typer.Option("--votes", help="How many plans vote on the verdict.")] = 1,
    debug_rounds: Annotated[int, typer.Option("--debug-rounds", help="How often the model may mend its code.")] = 3,
    prompts: Annotated[str | None, typer.Option("--prompts", help="A folder of templates of your own.")] = None,
    prices: Prices = None,
    timeout: Timeout = None,
    max_cost: Annotated[float | None, typer.Option("--max-cost", help="US dollars that a check may take.")] = None,
    cache: Annotated[str | None, typer.Option("--cache", help="A folder that keeps the model's answers.")] = None,
    workers: Annotated[int, typer.Option("--workers", help="How many examples are judged at once.")] = 1,
    toolbox: ToolboxFolder = None,
    memory: MemoryFolder = None,
    policies: Annotated[Path | None, typer.Option("--policies", help="tau: the guard's policy file.")] = None,
    state: Annotated[Path | None, typer.Option("--state", help="tau: the records, for the guard (JSON).")] = None,
    facts: Annotated[Path | None, typer.Option("--facts", help="tau: facts of every trial (a JSON object).")] = None,
    as_json: Json = False,
) -> None:
    """Run one evaluation, with the paper's metrics. Needs a checkout of the project, with its benchmarks/."""
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
            facts=facts,
        )
    except KeyboardInterrupt:
        _fail(f"interrupted; the same command goes on where it stopped ({out})", 130)
    if as_json:
        print(json.dumps(summary, ensure_ascii=False))
    else:
        print((out / "table.md").read_text(encoding="utf-8"))
        print(f"Written to {out}", file=sys.stderr)


@app.command()
def init(folder: Annotated[Path, typer.Argument(help="A new folder.")]) -> None:
    """Make a starter project: one toolbox function, one agent, and runs to try."""
    from guardagent.cli.starter import create

    screen().print(create(folder), markup=False, highlight=False)


@app.command()
def doctor(*, as_json: Json = False) -> None:
    """Say what protects this machine, and what to do where a layer is missing: exit 0 if nothing is, else 1."""
    from guardagent.sandbox.doctor import examine, to_dict

    findings = examine()
    missing = any(finding.problem for finding in findings)
    if as_json:
        print(json.dumps(to_dict(findings), ensure_ascii=False))
    else:
        from guardagent.cli.render import show_findings

        show_findings(findings, screen())
    raise typer.Exit(1 if missing else 0)


@app.command()
def demo() -> None:
    """A two-minute tour: guards for a health-records, a web and a Q&A agent, offline."""
    from guardagent.cli.demo import tour

    tour(screen())


def _version(wanted: bool) -> None:  # noqa: FBT001 - a Typer callback
    if wanted:
        print(f"guardagent {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Keeps LLM agents inside the rules their operators set."""


def _last_code(verdict: Verdict) -> str:
    """The last version of the code that a model wrote and that ran; empty where none did."""
    return next((step.text for step in reversed(verdict.story) if step.name == "run"), "")


def _fail(message: str, status: int) -> None:
    print(f"guardagent: {message}", file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    main()
