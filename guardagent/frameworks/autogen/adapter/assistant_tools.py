"""The tools and hand-offs of one agent."""

from __future__ import annotations

import logging
from typing import Any, Protocol

from guardagent.enforcement import EnforcementPoint, ToolSpec
from guardagent.errors import InputError
from guardagent.frameworks.autogen.adapter.calls import AutoGenCalls
from guardagent.frameworks.autogen.adapter.tools import guard_of_workbench, guard_tools_of, guarded_workbench

_log = logging.getLogger("guardagent")


class AssistantOwner(Protocol):
    """Guards agents."""

    guard: EnforcementPoint
    calls: AutoGenCalls

    def tool(self, tool: Any, name: str, target: str | None = None) -> Any:
        """Returns the guarded form of a tool."""

    def listed(self, server: str, specs: list[ToolSpec]) -> set[str]:
        """Compares a server's list with the accepted tools. Returns the names of the tools that may be called."""

    def check_tools(self) -> None:
        """Compares new or changed tools with the rules."""


class AssistantTools:
    """Guards the tools of one agent. Implements `ToolOwner`.

    Args:
        attachment: guards the agent.
        agent: the agent.
    """

    def __init__(self, attachment: AssistantOwner, agent: Any) -> None:
        self._attachment, self._agent = attachment, agent
        self._places: dict[str, str] = {}  # name -> its workbench

    @property
    def calls(self) -> AutoGenCalls:
        return self._attachment.calls

    def workbench(self, workbench: Any, place: str) -> Any:
        """Returns the guarded form of a workbench.

        Raises:
            InputError: it has another guard, or a tool that cannot be guarded.
        """
        owner = guard_of_workbench(workbench)
        if owner is None:
            workbench = guarded_workbench(workbench, self, place)
        elif owner.calls.guard is not self._attachment.guard:
            raise InputError("a workbench has another guard already; expected the workbench itself")
        guard_tools_of(workbench)
        return workbench

    def handoff(self, tool: Any) -> Any:
        """Returns the guarded form of a hand-off."""
        handoff = self._agent._handoffs.get(tool.name)  # noqa: SLF001 - there is no public way to it
        if handoff is None:
            raise InputError(f"the hand-off {tool.name!r} of {self._agent.name!r} has no target; expected a Handoff")
        return self._attachment.tool(tool, tool.name, handoff.target)

    def tool(self, tool: Any, name: str, place: str) -> Any:
        if self._places.setdefault(name, place) != place:
            raise InputError(f"two workbenches of {self._agent.name!r} have a tool {name!r}; expected different names")
        return self._attachment.tool(tool, name)

    def listed(self, server: str, specs: list[ToolSpec], place: str) -> dict[str, bool]:
        own = [one for one in specs if self._places.setdefault(one.name, place) == place]
        for one in specs:
            if one not in own:
                _log.warning("the tool %r of %s has the name of another tool, and is left out", one.name, server)
        allowed = self._attachment.listed(server, own)
        return {one.name: one.name in allowed for one in own}

    def check_tools(self) -> None:
        self._attachment.check_tools()
