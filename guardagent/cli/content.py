"""The commands `memory`, `toolbox` and `pack`: list, show, review and add stored content."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from guardagent.cli import options
from guardagent.cli.options import note, print_json, print_line, print_result, screen
from guardagent.errors import ContentError, InputError

AgentMemory = Annotated[str, typer.Option("--memory", help="The memory that holds the agent's folder.")]


def list_agents(*, memory: options.MemoryFolder = None, as_json: options.Json = False) -> None:
    """List the known agents with their demonstrations, program and required checks."""
    from guardagent.programs.memory.agents import load_agent

    folders = options.memory_of(memory).names()
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
        print_json({"agents": rows})
        return
    console = screen()
    for row in rows:
        console.print(row["name"], style="bold cyan", end="")
        program = "a program" if row["program"] else "no program"
        checks = f"required checks: {len(row['required_checks'])}"
        console.print(f"  {row['demonstrations']} demonstrations, {program}, {checks}  ({row['path']})", markup=False)


def add(
    demonstrations: Annotated[
        str, typer.Argument(help="Demonstrations (JSON Lines; a file, or - for standard input).")
    ],
    *,
    agent: Annotated[str, typer.Option("--agent", help="The agent that they belong to.")],
    memory: AgentMemory,
    as_json: options.Json = False,
) -> None:
    """Add demonstrations to an agent in your own memory.

    If one is invalid, none is added.
    """
    from guardagent.programs.memory.agents import add_demonstrations, storage_location

    folder = Path(memory) / agent
    count = add_demonstrations(folder, demonstrations)
    place = str(storage_location(folder))
    print_result({"added": count, "to": place}, f"added {count} to {place}", as_json=as_json)


def export(
    *,
    agent: Annotated[str, typer.Option("--agent", help="The agent.")],
    memory: options.MemoryFolder = None,
    as_json: options.JsonLines = False,  # noqa: ARG001 - the output is always JSON Lines
) -> None:
    """Print all demonstrations of an agent as JSON Lines."""
    for demonstration in options.memory_of(memory).agent(agent).demonstrations:
        print_line(demonstration.to_json())


def review(
    *,
    agent: Annotated[str, typer.Option("--agent", help="The agent.")],
    memory: AgentMemory,
    accept: Annotated[
        list[str] | None, typer.Option("--accept", help="Add the entry with this id as a demonstration; repeatable.")
    ] = None,
    reject: Annotated[
        list[str] | None, typer.Option("--reject", help="Discard the entry with this id; repeatable.")
    ] = None,
    right: Annotated[
        list[str] | None,
        typer.Option(
            "--right",
            help="Say who judged right, and keep it as an example: ID=program, ID=generated or ID=neither; repeatable.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Accept or reject entries that await review.

    These are executed guards, and runs on which program and model disagreed. Without options, asks for each on a
    terminal, and lists them elsewhere.
    """
    from guardagent.programs.memory.review import Choices, ReviewQueue, apply_choices, prompt_each, show_queue

    folder = options.memory_of(memory).agent(agent).path
    choices = Choices.of(accept or (), reject or (), right or ())
    if not choices:
        waiting = ReviewQueue.of(folder)
        if as_json:
            print_json(waiting.to_dict())
            return
        if not sys.stdin.isatty():
            show_queue(waiting, screen())
            return
        choices = prompt_each(waiting, screen())
    apply_choices(folder, choices)
    accepted = len(choices.accepted) + len(choices.right)
    counts = {"accepted": accepted, "rejected": len(choices.rejected), "waiting": len(ReviewQueue.of(folder))}
    print_result(counts, ", ".join(f"{count} {name}" for name, count in counts.items()), as_json=as_json)


# --- toolbox


File = Annotated[Path, typer.Argument(help="The file of the proposed function, written by 'compile'.")]
TargetToolbox = Annotated[Path, typer.Option("--toolbox", help="The toolbox folder to add it to; created if missing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Add it without confirmation: you have reviewed it.")]


def list_functions(*, toolbox: options.ToolboxFolder = None, as_json: options.Json = False) -> None:
    """List the toolbox functions without running them."""
    tools = options.toolbox_of(toolbox)
    if as_json:
        rows = [{"name": t.name, "signature": t.signature, "summary": t.summary} for t in tools.values()]
        print_json({"functions": rows})
        return
    console, width = screen(), max(map(len, tools))
    for tool in tools.values():
        console.print(f"{tool.name:{width}}", style="bold red" if tool.is_check else "bold cyan", end="")
        console.print(f"  {tool.summary}", markup=False, highlight=False)


def show(name: str, *, toolbox: options.ToolboxFolder = None, as_json: options.Json = False) -> None:
    """Show the signature and documentation of one function."""
    tool = options.toolbox_of(toolbox)[name]
    place = {"path": str(tool.path), "line": tool.line}
    shown = {"name": tool.name, "signature": tool.signature, "doc": tool.doc, **place}
    print_result(shown, f"{tool.describe()}\n\n{tool.path}:{tool.line}", as_json=as_json)


def accept(file: File, *, toolbox: TargetToolbox, yes: Yes = False, as_json: options.Json = False) -> None:
    """Review a proposed function and add it to a toolbox.

    Shows the function with its tests. After confirmation, runs the tests, and adds the function if they pass; before
    that, none of its code runs. The tests run unconfined, in a process of their own. With '--json', the code is shown
    on standard error.
    """
    from guardagent._support.files import read_text, save_text
    from guardagent._terminal import printable
    from guardagent.sandbox.proposed_tests import failure_report
    from guardagent.sandbox.toolbox import Toolbox

    tools = Toolbox([file])  # parsed, never run
    tests = file.with_name(f"test_{file.name}")
    if not tests.is_file():
        raise InputError(f"{tests}: no such file; expected the tests of the proposed function")
    sources = {file.name: read_text(file), tests.name: read_text(tests)}
    files = {toolbox / file.name: sources[file.name], toolbox / f"_{tests.name}": sources[tests.name]}
    for text in files.values():
        _refuse_invisible(text, file)
    existing = Toolbox.load(*([toolbox] if _holds_functions(toolbox) else []))
    if clash := next((name for name in tools if name in existing), ""):
        raise InputError(f"{file}: the toolbox already has a function {clash!r} ({existing[clash].path})")
    if there := next((path for path in files if path.exists()), None):
        raise InputError(f"{there}: already exists; expected a folder without this file")
    (note if as_json else print_line)("\n\n".join(text.strip() for text in files.values()))
    if not _confirmed(file, toolbox, yes=yes, as_json=as_json):
        _end("Nothing was added.", [], as_json=as_json)
    if problem := failure_report(sources, tests.name):
        _end(f"{printable(problem)}\n\nThe tests do not pass. Nothing was added.", [], as_json=as_json)
    _make_folder(toolbox)
    for path, text in files.items():
        save_text(path, text)
    names = [*map(str, files)]
    message = "\n".join(["The tests pass. Added:", *names, "Programs that use this toolbox can now call the function."])
    _end(message, names, as_json=as_json)


def _end(message: str, added: list[str], *, as_json: bool) -> NoReturn:
    print_result({"added": added, "message": message}, message, as_json=as_json)
    raise typer.Exit(0 if added else 1)


def _confirmed(file: Path, toolbox: Path, *, yes: bool, as_json: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise InputError(f"{file}: no terminal to confirm on; expected a terminal, or '--yes' after a review")
    return typer.confirm(f"Add this to {toolbox}? It will run as your own code, outside the sandbox", err=as_json)


def _holds_functions(toolbox: Path) -> bool:
    if toolbox.exists() and not toolbox.is_dir():
        raise InputError(f"{toolbox}: is a file; expected a folder, which is created if missing")
    return any(not path.name.startswith("_") for path in toolbox.glob("*.py"))


def _make_folder(toolbox: Path) -> None:
    try:
        toolbox.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{toolbox}: cannot be created: {error.strerror}; expected a writable folder") from None


def _refuse_invisible(text: str, file: Path) -> None:
    for number, line in enumerate(text.split("\n"), start=1):
        if odd := next((character for character in line if not character.isprintable() and character != "\t"), None):
            raise ContentError(
                f"contains the invisible character {odd!a}; expected visible characters only", file, number
            )


# --- pack


PackName = Annotated[str, typer.Argument(metavar="NAME", help="The pack, such as shell.")]
Target = Annotated[Path, typer.Option("-p", "--policies", help="The policy file to change; created if missing.")]
Trial = Annotated[bool, typer.Option("--trial", help="A violation of its rules only warns.")]


def list_packs(*, as_json: options.Json = False) -> None:
    """List the rule sets that ship."""
    from guardagent.packs.catalogue import packs

    shipped_packs = packs()
    if as_json:
        print_json({"packs": [{"name": f"guardagent:{pack.name}", "summary": pack.summary} for pack in shipped_packs]})
        return
    width = max(len(pack.name) for pack in shipped_packs)
    for pack in shipped_packs:
        print_line(f"guardagent:{pack.name:{width}}  {pack.summary}")


def show_pack(name: PackName, *, as_json: options.Json = False) -> None:
    """Show the page, the rules and the parameters of a pack."""
    from guardagent.packs.catalogue import pack

    rule_set = pack(name)
    described = rule_set.description()
    if as_json:
        print_json(described)
        return
    print_line(rule_set.page.rstrip() + "\n")
    print_line(f"Rules: {', '.join(described['rules'])}")
    print_line("".join(f"Constant {name}: {value!r}\n" for name, value in described["constants"].items()).rstrip())
    print_line("".join(f"Tag {tag}: {', '.join(tools)}\n" for tag, tools in described["tools"].items()).rstrip())
    print_line(f"Folder: {rule_set.folder}")


def include_pack(
    name: PackName, *, policies: Target = Path("policies.yaml"), trial: Trial = False, as_json: options.Json = False
) -> None:
    """Add a pack to 'include:' of a policy file."""
    from guardagent.packs.catalogue import add_pack, pack

    entry = add_pack(pack(name), policies, trial=trial)
    print_result({"policies": str(policies), "entry": entry}, f"{policies}: includes {entry}", as_json=as_json)
