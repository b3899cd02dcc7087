"""Extracts the workflow graph of a flow of Acme Flows (tested on acme-flows 1.0): its steps in sequence.

Imports nothing of Acme Flows and runs nothing.
"""

from __future__ import annotations

from typing import Any

from guardagent.frameworks._template.package import FRAMEWORK
from guardagent.workflow.extraction import UnknownValue, is_a
from guardagent.workflow.model.graph import END, START, TOOLS, Graph, GraphBuilder


def recognises(target: object) -> bool:
    return is_a(target, "acme_flows", "Flow")


def extract(target: Any, name: str) -> Graph:
    """The graph of a flow."""
    builder, before = GraphBuilder(name, FRAMEWORK), START
    for step in target.steps:
        if isinstance(step, UnknownValue):  # the source does not determine the step: record it as unseen
            builder.mark(START, TOOLS, f"not all steps of {name!r} could be seen")
            continue
        builder.node(step.name, "tool", tools=[step.tool])
        builder.edge(before, step.name)
        before = step.name
    builder.edge(before, END)
    return builder.graph()
