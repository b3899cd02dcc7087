"""The tools of a host's agents, and their comparison with the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from guardagent.enforcement.enforcement_point import EnforcementPoint
from guardagent.enforcement.names import ToolSpec

UNREAD = "Not accepted by the operator yet: each call is denied."
"""The description of a server's tool that the operator has not accepted."""


class ListedTools:
    """The tools of one attachment.

    Args:
        guard: compares them with its rules.

    Attributes:
        specs: the tools by name.
    """

    def __init__(self, guard: EnforcementPoint) -> None:
        self._guard = guard
        self.specs: dict[str, ToolSpec] = {}
        self._checked: dict[str, ToolSpec] | None = None

    def add(self, *specs: ToolSpec) -> None:
        self.specs.update({one.name: one for one in specs})

    @property
    def changed(self) -> bool:
        """Whether there are tools that were not compared with the rules as they are now."""
        return self._checked != self.specs

    def check(self) -> None:
        """Compares new or changed tools with the rules.

        Raises:
            InputError: a rule names a tool that is probably a misspelling of one of these.
        """
        if self.changed:
            self._guard.attach(self.specs.values())
            self._checked = dict(self.specs)


def unaccepted_names(guard: EnforcementPoint, servers: Mapping[str, Sequence[ToolSpec]]) -> set[str]:
    """Compares the tools of servers with the accepted ones. Returns the names of those that may not be called.

    Args:
        guard: holds the accepted tools.
        servers: the complete list of each server, by its key.
    """
    for server, listed in servers.items():
        guard.update_server_tools(server, listed)
    names = {one.name for listed in servers.values() for one in listed}
    return {name for name in names if guard.accepted.unaccepted(name) is not None}
