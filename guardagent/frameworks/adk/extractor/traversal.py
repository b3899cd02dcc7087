"""Asks for the regions of other agents: as much of the way through a program as its parts need."""

from __future__ import annotations

from typing import Any, Protocol

from guardagent.workflow.extraction.regions import Assembly, Region


class Traversal(Protocol):
    """Goes through agents and workflows, each once."""

    assembly: Assembly

    def region(self, target: Any, within: tuple[str, ...] = ()) -> Region:
        """Adds an agent, a node of a workflow, a tool or a function."""

    def structure(self, agent: Any, within: tuple[str, ...]) -> Region:
        """Adds the parts of an agent that its framework class runs."""

    def call(self, caller: str, name: str, target: Any) -> None:
        """A node calls something by a name, and goes on when that is done."""
