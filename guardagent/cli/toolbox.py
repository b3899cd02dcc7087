"""The commands `toolbox list`, `toolbox show` and `toolbox accept`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from guardagent.cli.options import Json, ToolboxFolder
from guardagent.cli.output import note, print_json, print_line, screen
from guardagent.errors import ContentError, InputError

File = Annotated[Path, typer.Argument(help="The file of the proposed function, written by 'compile'.")]
TargetToolbox = Annotated[Path, typer.Option("--toolbox", help="The toolbox folder to add it to; created if missing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Add it without confirmation: you have reviewed it.")]


def list_functions(*, toolbox: ToolboxFolder = None, as_json: Json = False) -> None:
    """List the toolbox functions without running them."""
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
    """Show the signature and documentation of one function."""
    from guardagent.sandbox.toolbox import Toolbox

    tool = Toolbox.load(*(toolbox or []))[name]
    if as_json:
        place = {"path": str(tool.path), "line": tool.line}
        print_json({"name": tool.name, "signature": tool.signature, "doc": tool.doc, **place})
    else:
        print_line(f"{tool.describe()}\n\n{tool.path}:{tool.line}")


def accept(file: File, *, toolbox: TargetToolbox, yes: Yes = False, as_json: Json = False) -> None:
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
    if as_json:
        print_json({"added": added, "message": message})
    else:
        print_line(message)
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
        if odd := next((one for one in line if not one.isprintable() and one != "\t"), None):
            raise ContentError(
                f"contains the invisible character {odd!a}; expected visible characters only", file, number
            )
