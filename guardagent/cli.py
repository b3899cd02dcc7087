"""The command line. Exit status: 0 allowed or clean, 1 denied, 2 the input is wrong, 3 it could not be checked."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guardagent import __version__
from guardagent._files import parse_json, read_text
from guardagent.errors import GuardError, InputError, ModelError
from guardagent.guard import GuardAgent
from guardagent.types import Verdict

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(
    name="guardagent",
    help="Keeps LLM agents inside the rules their operators set.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
toolbox_app = typer.Typer(help="The functions that guard programs may call.", no_args_is_help=True)
memory_app = typer.Typer(help="The known target agents and their demonstrations.", no_args_is_help=True)
app.add_typer(toolbox_app, name="toolbox")
app.add_typer(memory_app, name="memory")


class Mode(StrEnum):
    AUTO = "auto"
    PROGRAM = "program"
    GENERATE = "generate"


AgentName = Annotated[str | None, typer.Option("--agent", help="A known agent: a folder in the memory.")]
RequestFile = Annotated[str | None, typer.Option("--request", help="The guard request, in words (a file).")]
SpecificationFile = Annotated[str | None, typer.Option("--specification", help="What the agent does (a file).")]
InputFile = Annotated[str, typer.Option("--input", help="What the agent was asked (a file, - for stdin).")]
OutputFile = Annotated[str, typer.Option("--output-log", help="What the agent did and answered (a file, -).")]
FactsFile = Annotated[str | None, typer.Option("--facts", help="What the host knows: a JSON object (a file).")]
ModelName = Annotated[
    str | None, typer.Option("--model", help="The model that writes code; no use in this version yet.")
]
ModeName = Annotated[Mode, typer.Option("--mode", help="Judge by a stored program, or generate one.")]
ToolboxFolder = Annotated[list[str] | None, typer.Option("--toolbox", help="A folder of functions to add; repeatable.")]
MemoryFolder = Annotated[str | None, typer.Option("--memory", help="A folder with one folder per agent.")]
SandboxName = Annotated[str, typer.Option("--sandbox", help="The engine that runs programs: auto, monty, restricted.")]
RequireHardening = Annotated[
    bool,
    typer.Option(
        "--require-hardening",
        envvar="GUARDAGENT_REQUIRE_HARDENING",
        help="Deny where a hardening layer is missing; see doctor.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


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
        _fail(f"internal error, nothing was checked: {type(error).__name__}: {error}", 3)


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
    show_code: Annotated[bool, typer.Option("--show-code", help="Show the program that decided.")] = False,
    as_json: Json = False,
) -> None:
    """Judge one run of an agent: its input and its output log."""
    _one_stdin(input, output_log, request, specification, facts)
    guard_agent = GuardAgent(
        read_text(request) if request else "",
        read_text(specification) if specification else "",
        agent=agent,
        model=model,
        mode=mode.value,
        toolbox=toolbox,
        memory=memory,
        sandbox=sandbox,
        require_hardening=require_hardening,
    )
    with guard_agent:
        verdict = guard_agent.guard(read_text(input), read_text(output_log), _facts(facts))
    if show_code and guard_agent.program:
        from guardagent.render import show_code as show

        show(guard_agent.program, _console(stderr=as_json))
    _report(verdict, as_json=as_json)


@app.command()
def run(
    program: Annotated[str, typer.Argument(help="A guard program (a Python file).")],
    *,
    input: InputFile,  # noqa: A002
    output_log: OutputFile,
    facts: FactsFile = None,
    toolbox: ToolboxFolder = None,
    sandbox: SandboxName = "auto",
    require_hardening: RequireHardening = False,
    as_json: Json = False,
) -> None:
    """Run one guard program file in the sandbox, over one run of an agent."""
    from guardagent.guard import judge_with
    from guardagent.program import read_program
    from guardagent.sandbox import load_sandbox
    from guardagent.toolbox import Toolbox

    _one_stdin(program, input, output_log, facts)
    engine = load_sandbox(sandbox, require_hardening=require_hardening)
    tools = Toolbox.load(*(toolbox or []))
    check = judge_with(read_program(program), engine, tools)
    verdict = check(read_text(input), read_text(output_log), _facts(facts))
    engine.close()
    _report(verdict, as_json=as_json)


@toolbox_app.command("list")
def toolbox_list(*, toolbox: ToolboxFolder = None, as_json: Json = False) -> None:
    """List the functions, without running any of their code."""
    from guardagent.toolbox import Toolbox

    tools = Toolbox.load(*(toolbox or []))
    if as_json:
        rows = [{"name": t.name, "signature": t.signature, "summary": t.summary} for t in tools.values()]
        print(json.dumps({"functions": rows}, ensure_ascii=False))
        return
    console, width = _console(), max(map(len, tools))
    for tool in tools.values():
        console.print(f"{tool.name:{width}}", style="bold red" if tool.is_check else "bold cyan", end="")
        console.print(f"  {tool.summary}", markup=False, highlight=False)


@toolbox_app.command("show")
def toolbox_show(name: str, *, toolbox: ToolboxFolder = None) -> None:
    """Show one function: its signature and documentation."""
    from guardagent.toolbox import Toolbox

    tool = Toolbox.load(*(toolbox or []))[name]
    _console().print(f"{tool.describe()}\n\n{tool.path}:{tool.line}", markup=False, highlight=False)


@memory_app.command("list")
def memory_list(*, memory: MemoryFolder = None, as_json: Json = False) -> None:
    """List the known agents and what is known of them."""
    from guardagent.memory import Memory, load_agent

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
    console = _console()
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
    from guardagent.memory import add_demonstrations

    count = add_demonstrations(Path(memory) / agent, demonstrations)
    print(f"added {count} to {Path(memory) / agent / 'demonstrations.jsonl'}")


@app.command()
def bench(
    name: Annotated[str, typer.Argument(help="eicu-ac, mind2web-sc, csqa, or one of your own.")],
    *,
    data: Annotated[Path, typer.Option("--data", help="The data set (a file).")],
    out: Annotated[Path, typer.Option("--out", help="Where the results go (a folder; an interrupted run resumes).")],
    model: ModelName = None,
    mode: ModeName = Mode.AUTO,
    toolbox: ToolboxFolder = None,
    memory: MemoryFolder = None,
    as_json: Json = False,
) -> None:
    """Run one evaluation, with the paper's metrics."""
    from guardagent.bench import run_evaluation

    try:
        summary = run_evaluation(
            name,
            data,
            out,
            mode=mode.value,
            model=model,
            toolbox=toolbox,
            memory=memory,
            progress=sys.stderr.isatty(),
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
    from guardagent.starter import create

    _console().print(create(folder), markup=False, highlight=False)


@app.command()
def doctor(*, as_json: Json = False) -> None:
    """Say what protects this machine, and what to do where a layer is missing: exit 0 if nothing is, else 1."""
    from guardagent.doctor import examine, to_dict

    findings = examine()
    missing = any(finding.problem for finding in findings)
    if as_json:
        print(json.dumps(to_dict(findings), ensure_ascii=False))
    else:
        from guardagent.render import show_findings

        show_findings(findings, _console())
    raise typer.Exit(1 if missing else 0)


@app.command()
def demo() -> None:
    """A two-minute tour: guards for a health-records, a web and a Q&A agent, offline."""
    from guardagent.demo import tour

    tour(_console())


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


def _report(verdict: Verdict, *, as_json: bool) -> None:
    if as_json:
        print(verdict.to_json())
    else:
        from guardagent.render import show_verdict

        show_verdict(verdict, _console())
    raise typer.Exit(3 if verdict.errors else verdict.label)


def _facts(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    value = parse_json(read_text(path), path)
    if not isinstance(value, dict):
        raise InputError(f"{path}: holds a {type(value).__name__}; expected a JSON object of facts")
    return value


def _one_stdin(*paths: str | None) -> None:
    if paths.count("-") > 1:
        raise InputError("standard input (-) is named twice; expected it at most once")


def _console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, soft_wrap=True)


def _fail(message: str, status: int) -> None:
    print(f"guardagent: {message}", file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    main()
