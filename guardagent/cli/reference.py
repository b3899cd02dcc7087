"""A Markdown page for each command, made from the command itself.

`make docs` writes them anew: `python -m guardagent.cli.reference docs/commands`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from guardagent.cli.commands import COMMANDS, command_line

_ENDING = """
Every command ends with one of the [exit statuses](../verdicts.md#exit-status). With `--json` it prints JSON on standard
output and nothing else; progress and diagnostics go to standard error."""


def pages() -> dict[str, str]:
    """The pages by file name: one for each command, and `index.md`, which lists them."""
    root = command_line()
    context = _context(root, "guardagent", None)
    rows = [f"| [`{name}`]({name}.md) | {place.help} |" for name, place in COMMANDS.items()]
    index = ["# Commands", "", _line(root.help), "", "| command | does |", "|---|---|", *rows, _ENDING]
    lines = {name: _page(root.get_command(context, name), name, context) for name in COMMANDS}
    return {f"{name}.md": "\n".join(page) + "\n" for name, page in {"index": index, **lines}.items()}


def _page(command: Any, name: str, parent: Any, level: int = 1) -> Iterator[str]:
    context = _context(command, name, parent)
    yield from (f"{'#' * level} {context.command_path}", "", _line(command.help), "")
    yield from ("```text", _line(command.get_usage(context)), "```", "")
    yield from ("| argument or option | meaning |", "|---|---|")
    for parameter in command.get_params(context):
        if record := parameter.get_help_record(context):
            yield "| `{}` | {} |".format(*(_line(text).replace("|", "\\|") for text in record))
    for child in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield ""
        yield from _page(command.get_command(context, child), child, context, level + 1)


def _context(command: Any, name: str, parent: Any) -> Any:
    return command.make_context(name, [], parent, resilient_parsing=True)


def _line(text: str | None) -> str:
    return " ".join((text or "").split())


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    for file, page in pages().items():
        (folder / file).write_text(page, encoding="utf-8")
