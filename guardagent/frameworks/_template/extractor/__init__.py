"""The workflow graph of a flow of Acme Flows (tried on acme-flows 1.0): its steps, one after another.

Nothing of Acme Flows is imported, and nothing is run.
"""

from __future__ import annotations

from typing import Any

from guardagent.frameworks._template.package import FRAMEWORK
from guardagent.workflow.extraction.framework_objects import UnknownValue, is_a
from guardagent.workflow.model.graph import END, START, Graph, GraphBuilder


def recognises(target: object) -> bool:
    return is_a(target, "acme_flows", "Flow")


def extract(target: Any, name: str) -> Graph:
    """The graph of a flow."""
    builder, before = GraphBuilder(name, FRAMEWORK), START
    for step in target.steps:
        if isinstance(step, UnknownValue):  # of a source that does not tell: what cannot be seen is never left out
            builder.note_hidden_tools(f"{name}: not all of its steps could be seen")
            continue
        builder.node(step.name, "tool", tools=[step.tool])
        builder.edge(before, step.name)
        before = step.name
    builder.edge(before, END)
    return builder.graph()
