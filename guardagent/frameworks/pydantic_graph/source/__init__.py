"""Reads the source of Pydantic AI and pydantic-graph programs: agents and graphs become stubs."""

from __future__ import annotations

from guardagent.frameworks.pydantic_graph import extractor as live
from guardagent.frameworks.pydantic_graph.extractor.agents import is_agent
from guardagent.frameworks.pydantic_graph.package import PACKAGES as PACKAGES
from guardagent.frameworks.pydantic_graph.source import agents, builder, classes
from guardagent.workflow.python_source.interpreter import Interpreter
from guardagent.workflow.python_source.stubs import ObjectStub
from guardagent.workflow.python_source.values import Arguments, Values

extract = live.extract
CONSTANTS: dict[str, object] = {}
KINDS = (*agents.KINDS, *classes.KINDS, *builder.KINDS)


def is_workflow(value: object) -> bool:
    return isinstance(value, ObjectStub) and (is_agent(value) or live.is_graph(value))


def called(interpreter: Interpreter, target: object, arguments: Arguments, line: int) -> Values | None:
    """The values of a call of a decorator or a function; None for other calls, as KINDS describes the classes."""
    return agents.called(interpreter, target, arguments, line)
