"""`guardagent mcp-proxy --accept-tools FILE`: writes a lock file of a server's tools, and shows the changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from guardagent._support.files import save_text
from guardagent.enforcement import ToolSpec
from guardagent.enforcement.names import difference, read_tools_lock, tools_lock
from guardagent.errors import InputError
from guardagent.frameworks.mcp.adapter.links import Target
from guardagent.frameworks.mcp.adapter.probe import tools_of


def accept_tools(target: Target, path: Path) -> str:
    """Writes the lock file. Returns its changes, for the operator.

    Raises:
        InputError: the file is not a lock file or not writable, or the server does not start or lists a name twice.
        GuardError: the server does not answer.
    """
    before = read_tools_lock(path) if path.exists() else []
    after = asyncio.run(tools_of(target))
    names = [tool.name for tool in after]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"the server lists two tools {twice[0]!r}; expected unique names")
    save_text(path, tools_lock(after))
    return "\n".join([*_changes(before, after), f"{path}: tools {len(after)}"])


def _changes(before: list[ToolSpec], after: list[ToolSpec]) -> Iterator[str]:
    old, new = ({tool.name: tool for tool in tools} for tools in (before, after))
    for name in sorted(old.keys() | new.keys()):
        if change := difference(old.get(name), new.get(name)):
            yield change
