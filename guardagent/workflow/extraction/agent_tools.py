"""The tools of one agent, as an extractor collects them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from guardagent.workflow.model.unknown import Unseen, mark


@dataclass
class AgentTools:
    """The tools of one agent.

    Attributes:
        names: the names of the tools for the model.
        gated: the tools that wait for human approval.
        gated_when: for tools that do not always wait, the condition.
        unknown: sets of tools whose members are known only at run time.
        runs: the agent or workflow node that a tool runs, with the name of the tool.
        escalates: one of the tools can end the loop around the agent.
        opaque_calls: their calls that could not be seen.
        notes: remarks for human readers.
    """

    names: list[str] = field(default_factory=list)
    gated: list[str] = field(default_factory=list)
    gated_when: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    runs: list[tuple[str, object]] = field(default_factory=list)
    escalates: bool = False
    opaque_calls: list[Unseen | str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, gate: str | None = None) -> None:
        """Adds a tool; `gate` is None if it is not gated, empty if it is always gated, else the condition.

        If two tools share a name, the name is gated only if both are: either tool may be the one called.
        """
        again, waits = name in self.names, name in self.gated
        if not again:
            self.names.append(name)
        if gate is None or (again and not waits):
            self.gated = [one for one in self.gated if one != name]
            self.gated_when.pop(name, None)
            return
        if not waits:
            self.gated.append(name)
        if gate:
            self.gated_when[name] = gate

    def metadata(self) -> dict[str, Any]:
        """Returns the metadata of the tools for a node."""
        named = ", ".join(map(repr, self.unknown))
        members = f"the members of {named} are known only at run time" if named else None
        return {
            "gated_when": self.gated_when,
            "unknown_tools": tuple(self.unknown),
            "tools_unknown": mark(*self.opaque_calls, members),
            "widened": mark(members),
        }
