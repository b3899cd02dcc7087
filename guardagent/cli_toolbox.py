"""`guardagent toolbox accept`: a person reads a proposed function, and takes it into a toolbox."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from guardagent.errors import ContentError, InputError

File = Annotated[Path, typer.Argument(help="The proposed function's file, as `compile` wrote it.")]
Folder = Annotated[Path, typer.Option("--toolbox", help="The folder of functions that takes it.")]
Yes = Annotated[bool, typer.Option("--yes", help="Take it without asking: you have read it.")]


def register(app: typer.Typer) -> None:
    """Adds the command to an app."""
    app.command("accept")(accept)


def accept(file: File, *, toolbox: Folder, yes: Yes = False) -> None:
    """Show a proposed function with its tests, and add it to a toolbox once a person has agreed. Nothing of it runs."""
    from guardagent._files import read_text, save_text
    from guardagent.toolbox import Toolbox

    tools = Toolbox([file])  # read, never run
    source, tests = read_text(file), file.with_name(f"test_{file.name}")
    files = {toolbox / file.name: source} | ({toolbox / f"_{tests.name}": read_text(tests)} if tests.exists() else {})
    for text in files.values():
        _refuse_unseen(text, file)
    taken = Toolbox.load(*([toolbox] if _holds_functions(toolbox) else []))
    if clash := next((name for name in tools if name in taken), ""):
        raise InputError(f"{file}: the function {clash!r} is in the toolbox already ({taken[clash].path})")
    if there := next((path for path in files if path.exists()), None):
        raise InputError(f"{there}: exists already; expected a folder without this file")
    _print("\n\n".join(text.strip() for text in files.values()))
    if not _agreed(file, toolbox, yes=yes):
        _print("Nothing was added.")
        raise typer.Exit(1)
    for path, text in files.items():
        save_text(path, text)
    _print(
        "\n".join(["Added:", *map(str, files), "Programs that use this toolbox can call it now; run its tests first."])
    )


def _agreed(file: Path, toolbox: Path, *, yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise InputError(f"{file}: nobody is there to agree; expected a terminal, or --yes from whoever has read it")
    return typer.confirm(f"Add this to {toolbox}? It will run as code of yours, outside of the sandbox")


def _holds_functions(toolbox: Path) -> bool:
    if not toolbox.is_dir():
        raise InputError(f"{toolbox}: no such folder; expected one of yours that takes functions")
    return any(not path.name.startswith("_") for path in toolbox.glob("*.py"))


def _refuse_unseen(text: str, file: Path) -> None:
    for number, line in enumerate(text.split("\n"), start=1):
        if odd := next((one for one in line if not one.isprintable() and one != "\t"), None):
            raise ContentError(f"holds the character {odd!a}, which nobody sees; expected visible ones", file, number)


def _print(text: str) -> None:
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")
