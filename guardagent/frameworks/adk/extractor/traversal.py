"""The interface by which the parts of an extraction request the regions of other agents."""

from __future__ import annotations

from typing import Any, Protocol

from guardagent.workflow.extraction.regions import Assembly, Region


class Traversal(Protocol):
    """Visits agents and workflows, each once."""

    assembly: Assembly

    def region(self, target: Any, within: tuple[str, ...] = ()) -> Region:
        """The region of an agent, a node of a workflow, a tool or a function."""

    def structure(self, agent: Any, within: tuple[str, ...]) -> Region:
        """The region of an agent, as its framework class runs it."""

    def call(self, caller: str, name: str, target: Any) -> None:
        """Adds a call by a node, which continues when the callee returns."""
