"""The tools of one agent, as an extractor collects them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class AgentTools:
    """The tools of one agent.

    Attributes:
        names: what the model calls them.
        gated: those that wait for a person.
        gated_when: of those that do not always wait, what decides it.
        unknown: sets of tools whose members are known only when the agent runs.
        runs: what a tool runs in its turn: an agent, or a node of a workflow, by the tool's name.
        escalates: one of them can tell the loop around the agent to end.
        unseen: what they run that could not be seen, in words.
        notes: what a person should know.
    """

    names: list[str] = field(default_factory=list)
    gated: list[str] = field(default_factory=list)
    gated_when: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    runs: list[tuple[str, object]] = field(default_factory=list)
    escalates: bool = False
    opaque_calls: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, gate: str | None = None) -> None:
        """A tool; `gate` is None where it does not wait, empty where it always does, else what decides it.

        Of two tools of one name it is not known which is called: both have to wait.
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

    def all_notes(self) -> list[str]:
        """What a person should know of the tools."""
        return [
            *self.notes,
            *(f"may call tools that cannot be seen: {what}" for what in dict.fromkeys(self.opaque_calls)),
        ]

    def metadata(self) -> dict[str, Any]:
        """What is said of the tools in a node's metadata."""
        return {
            "gated_when": self.gated_when,
            "unknown_tools": tuple(self.unknown),
            "tools_unknown": bool(self.unknown or self.opaque_calls),
            "widened": bool(self.unknown),
        }
