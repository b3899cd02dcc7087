"""The accepted declarations of tools that servers list.

A lock file determines the accepted tools; without one, the first list of each server does. A tool that is added or
changed later is denied until the operator accepts it. Tools of the agent's own code are not affected.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass

from guardagent.enforcement.approval import escaped
from guardagent.enforcement.names import ToolSpec
from guardagent.types import thaw

MAX_LINES, MAX_CHARACTERS = 200, 2000  # limits of a difference, and of each of its lines

_log = logging.getLogger("guardagent")


@dataclass(frozen=True, slots=True)
class UnacceptedTool:
    """A tool that was not accepted.

    Attributes:
        problem: the message for the model, without text from the server.
        difference: the changes, for the operator.
    """

    problem: str
    difference: str


class AcceptedTools:
    """The accepted declaration of each tool.

    Args:
        locked: the tools of a lock file; then no list of a server is accepted automatically.
    """

    def __init__(self, locked: Iterable[ToolSpec] | None = None) -> None:
        self._locked = locked is not None
        self._known = {spec.name: spec for spec in locked or ()}
        self._servers: set[str] = set()
        self._unaccepted: dict[str, UnacceptedTool] = {}

    def update(self, server: str, tools: Iterable[ToolSpec]) -> list[ToolSpec]:
        """Compares a server's complete list with the accepted tools. Returns the tools that may be called.

        An unaccepted tool stays unaccepted even if its server restores it: the model may have seen either version.
        """
        tools = list(tools)
        if not self._locked and server not in self._servers:
            for tool in tools:
                self._known.setdefault(tool.name, tool)  # a server cannot take over the name of another server's tool
        self._servers.add(server)
        for tool in tools:
            if not self.matches(tool):
                self._mark_unaccepted(server, tool)
        return [tool for tool in tools if self.matches(tool) and tool.name not in self._unaccepted]

    def accept(self, tools: Iterable[ToolSpec]) -> None:
        """Accepts tools that the operator has reviewed."""
        for tool in tools:
            self._known[tool.name] = tool
            self._unaccepted.pop(tool.name, None)

    def matches(self, tool: ToolSpec) -> bool:
        """Whether a tool's declaration equals the accepted one."""
        known = self._known.get(tool.name)
        return known is not None and known.digest == tool.digest

    def known(self, name: str) -> ToolSpec | None:
        """Returns the declaration that a model may read; None if the tool is unknown or unaccepted."""
        return self._known.get(name) if name not in self._unaccepted else None

    def unaccepted(self, name: str) -> UnacceptedTool | None:
        return self._unaccepted.get(name)

    def _mark_unaccepted(self, server: str, tool: ToolSpec) -> None:
        known = self._known.get(tool.name)
        state = "is new" if known is None else f"has another {_changed(known, tool)} than the one that was accepted"
        changes = difference(known, tool)
        problem = f"the tool {tool.name!r} of {server} {state}; it is denied until the operator has looked at it"
        late = UnacceptedTool(problem, changes)
        if self._unaccepted.get(tool.name) != late:
            _log.warning("%s, and accepts it:\n%s", problem, changes)
        self._unaccepted[tool.name] = late


def difference(before: ToolSpec | None, after: ToolSpec | None) -> str:
    """Returns a line diff of two declarations of a tool, with invisible characters escaped."""
    old, new = _lines(before), _lines(after)
    start = _common_prefix(old, new)
    old, new = old[start:], new[start:]
    end = _common_prefix(old[::-1], new[::-1])
    lines = [f"-{one}" for one in old[: len(old) - end]] + [f"+{one}" for one in new[: len(new) - end]]
    more = len(lines) - MAX_LINES
    return "\n".join(lines[:MAX_LINES] + ([f"... and {more} more lines"] if more > 0 else []))


def _common_prefix(old: list[str], new: list[str]) -> int:
    """Counts the equal lines at the start."""
    return next(
        (at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), min(len(old), len(new))
    )


def _lines(tool: ToolSpec | None) -> list[str]:
    if tool is None:
        return []
    described = [f"description {escaped(line)}" for line in tool.description.split("\n")]
    schema = json.dumps(thaw(tool.schema), indent=1, sort_keys=True, default=repr).split("\n")
    return [
        _shorten(line) for line in (f"tool {escaped(tool.name)}", *described, *(f"schema {line}" for line in schema))
    ]


def _shorten(line: str) -> str:
    more = len(line) - MAX_CHARACTERS
    return f"{line[:MAX_CHARACTERS]}... and {more} more characters" if more > 0 else line


def _changed(before: ToolSpec, after: ToolSpec) -> str:
    parts = ["description"] if before.description != after.description else []
    return " and another ".join([*parts, "schema"] if thaw(before.schema) != thaw(after.schema) or not parts else parts)
