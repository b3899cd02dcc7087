"""The commands on functions of a toolbox: `toolbox list`, `show`, and `accept` of a proposed one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from guardagent.cli.options import Json, ToolboxFolder
from guardagent.cli.output import note, print_json, print_line, screen
from guardagent.errors import ContentError, InputError

File = Annotated[Path, typer.Argument(help="The proposed function's file, as `compile` wrote it.")]
Folder = Annotated[Path, typer.Option("--toolbox", help="The folder of functions that takes it.")]
Yes = Annotated[bool, typer.Option("--yes", help="Take it without asking: you have read it.")]


def list_functions(*, toolbox: ToolboxFolder = None, as_json: Json = False) -> None:
    """List the functions, without running any of their code."""
    from guardagent.sandbox.toolbox import Toolbox

    tools = Toolbox.load(*(toolbox or []))
    if as_json:
        rows = [{"name": t.name, "signature": t.signature, "summary": t.summary} for t in tools.values()]
        print_json({"functions": rows})
        return
    console, width = screen(), max(map(len, tools))
    for tool in tools.values():
        console.print(f"{tool.name:{width}}", style="bold red" if tool.is_check else "bold cyan", end="")
        console.print(f"  {tool.summary}", markup=False, highlight=False)


def show(name: str, *, toolbox: ToolboxFolder = None, as_json: Json = False) -> None:
    """Show one function: its signature and documentation."""
    from guardagent.sandbox.toolbox import Toolbox

    tool = Toolbox.load(*(toolbox or []))[name]
    if as_json:
        place = {"path": str(tool.path), "line": tool.line}
        print_json({"name": tool.name, "signature": tool.signature, "doc": tool.doc, **place})
    else:
        print_line(f"{tool.describe()}\n\n{tool.path}:{tool.line}")


def accept(file: File, *, toolbox: Folder, yes: Yes = False, as_json: Json = False) -> None:
    """Show a proposed function with its tests; once a person has agreed, run the tests, and add it where they pass.

    Before that, nothing of it runs. The tests run as any code of yours, in a process of their own. The folder is made
    where it does not exist. With --json, what there is to read stands on standard error.
    """
    from guardagent._support.files import read_text, save_text
    from guardagent._terminal import printable
    from guardagent.sandbox.proposed_tests import failure_report
    from guardagent.sandbox.toolbox import Toolbox

    tools = Toolbox([file])  # read, never run
    tests = file.with_name(f"test_{file.name}")
    if not tests.is_file():
        raise InputError(f"{tests}: no such file; expected the tests of the proposed function")
    sources = {file.name: read_text(file), tests.name: read_text(tests)}
    files = {toolbox / file.name: sources[file.name], toolbox / f"_{tests.name}": sources[tests.name]}
    for text in files.values():
        _refuse_invisible(text, file)
    existing = Toolbox.load(*([toolbox] if _holds_functions(toolbox) else []))
    if clash := next((name for name in tools if name in existing), ""):
        raise InputError(f"{file}: the function {clash!r} is in the toolbox already ({existing[clash].path})")
    if there := next((path for path in files if path.exists()), None):
        raise InputError(f"{there}: exists already; expected a folder without this file")
    (note if as_json else print_line)("\n\n".join(text.strip() for text in files.values()))
    if not _confirmed(file, toolbox, yes=yes, as_json=as_json):
        _end("Nothing was added.", [], as_json=as_json)
    if problem := failure_report(sources, tests.name):
        _end(f"{printable(problem)}\n\nIts tests do not pass. Nothing was added.", [], as_json=as_json)
    _make_folder(toolbox)
    for path, text in files.items():
        save_text(path, text)
    names = [*map(str, files)]
    message = "\n".join(["Its tests pass. Added:", *names, "Programs that use this toolbox can call it now."])
    _end(message, names, as_json=as_json)


def _end(message: str, added: list[str], *, as_json: bool) -> NoReturn:
    if as_json:
        print_json({"added": added, "message": message})
    else:
        print_line(message)
    raise typer.Exit(0 if added else 1)


def _confirmed(file: Path, toolbox: Path, *, yes: bool, as_json: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise InputError(f"{file}: nobody is there to agree; expected a terminal, or --yes from whoever has read it")
    return typer.confirm(f"Add this to {toolbox}? It will run as code of yours, outside of the sandbox", err=as_json)


def _holds_functions(toolbox: Path) -> bool:
    if toolbox.exists() and not toolbox.is_dir():
        raise InputError(f"{toolbox}: is a file; expected a folder of yours, which is made where it does not exist")
    return any(not path.name.startswith("_") for path in toolbox.glob("*.py"))


def _make_folder(toolbox: Path) -> None:
    try:
        toolbox.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{toolbox}: cannot be made: {error.strerror}; expected a folder of yours") from None


def _refuse_invisible(text: str, file: Path) -> None:
    for number, line in enumerate(text.split("\n"), start=1):
        if odd := next((one for one in line if not one.isprintable() and one != "\t"), None):
            raise ContentError(f"holds the character {odd!a}, which nobody sees; expected visible ones", file, number)
