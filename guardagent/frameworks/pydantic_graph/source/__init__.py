"""Reads the source of Pydantic AI and pydantic-graph programs: agents and graphs become stubs."""

from __future__ import annotations

from dataclasses import replace

from guardagent.frameworks.pydantic_graph import extractor as live
from guardagent.frameworks.pydantic_graph.extractor.agents import is_agent
from guardagent.frameworks.pydantic_graph.package import PACKAGES as PACKAGES
from guardagent.frameworks.pydantic_graph.source import agents, builder, classes
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.python_source.interpreter import Interpreter
from guardagent.workflow.python_source.stubs import ObjectStub
from guardagent.workflow.python_source.values import Arguments, Values

CONSTANTS: dict[str, object] = {}
KINDS = (*agents.KINDS, *classes.KINDS, *builder.KINDS)


def is_workflow(value: object) -> bool:
    return isinstance(value, ObjectStub) and (is_agent(value) or live.is_graph(value))


def extract(value: ObjectStub, name: str) -> Graph:
    """The graph of an agent or a graph, with notes on what the source does not determine."""
    stage = value.interpreter.converter
    graph = live.extract(value, name)
    return replace(graph, notes=(*graph.notes, *stage.notes))


def called(interpreter: Interpreter, target: object, arguments: Arguments, line: int) -> Values | None:
    """The values of a call of a decorator or a function; None for other calls, as KINDS describes the classes."""
    return agents.called(interpreter, target, arguments, line)
