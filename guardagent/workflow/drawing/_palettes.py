"""The colours of each kind of node; each kind also has a distinct shape, so either is enough."""

from __future__ import annotations

from dataclasses import dataclass

from guardagent.workflow.model.graph import NodeKind


@dataclass(frozen=True, slots=True)
class Palette:
    """The light and dark colours of a kind of node."""

    fill: str
    stroke: str
    ink: str
    dark_fill: str
    dark_stroke: str
    dark_ink: str


PALETTES: dict[NodeKind, Palette] = {
    "entry": Palette("#334155", "#334155", "#ffffff", "#cbd5e1", "#cbd5e1", "#0f172a"),
    "exit": Palette("#f1f5f9", "#334155", "#0f172a", "#1e293b", "#cbd5e1", "#f1f5f9"),
    "tool": Palette("#e3eeff", "#1d5fc4", "#0b2a5b", "#13294b", "#6ea8fe", "#dbe9ff"),
    "llm": Palette("#f0e8ff", "#7c3aed", "#34136f", "#2b1c4d", "#b794f6", "#eee5ff"),
    "router": Palette("#fff2cf", "#a85a00", "#5a2f00", "#3d2c08", "#f2b53c", "#ffedc2"),
    "human": Palette("#dbf6e5", "#0b7a4b", "#06432a", "#0d3526", "#4fd18f", "#d3f8e3"),
    "subgraph": Palette("#def4f7", "#0e7490", "#083f4f", "#0c333d", "#4cc3dc", "#d3f3fa"),
    "passthrough": Palette("#f4f4f5", "#6b7280", "#27272a", "#27272a", "#a1a1aa", "#f4f4f5"),
}
