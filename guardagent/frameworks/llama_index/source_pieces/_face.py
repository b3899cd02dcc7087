"""Reads the source of LlamaIndex programs: workflows, agents and tools become stubs, extracted like live objects."""

from __future__ import annotations

from dataclasses import replace

from guardagent.frameworks.llama_index import extractor as live
from guardagent.frameworks.llama_index import source
from guardagent.frameworks.llama_index.extractor.steps import LIBRARIES
from guardagent.frameworks.llama_index.package import PACKAGES as PACKAGES
from guardagent.frameworks.llama_index.source_pieces import agents
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.python_source.interpreter import Interpreter
from guardagent.workflow.python_source.stubs import ObjectStub, converter_of
from guardagent.workflow.python_source.values import Arguments, Class, Values
from guardagent.workflow.python_source.workflows import derives_from

CONSTANTS: dict[str, object] = {}
KINDS = (*source.STEP_KINDS, *agents.AGENT_KINDS)


def is_workflow(value: object) -> bool:
    if isinstance(value, Class):
        return any(derives_from(value, package, "Workflow") for package in LIBRARIES)
    return isinstance(value, ObjectStub) and live.recognises(value)


def opened(interpreter: Interpreter, value: ObjectStub | Class) -> ObjectStub:
    """Returns a workflow; for a class, the object that the program makes of it, or one with unknown arguments."""
    if isinstance(value, ObjectStub):
        return value
    made = [one for one in interpreter.objects if isinstance(one, ObjectStub) and one.made_of is value]
    created = made[-1] if made else interpreter.make(value)
    assert isinstance(created, ObjectStub)
    return created


def extract(value: ObjectStub, name: str) -> Graph:
    """The graph of a workflow, a team or an agent, with notes on what the source does not determine."""
    stage = converter_of(value.interpreter)
    graph = live.extract(value, name)
    return replace(graph, notes=(*graph.notes, *stage.notes))


def called(interpreter: Interpreter, target: object, arguments: Arguments, line: int) -> Values | None:
    """The values of a call of a decorator or a function; None for other calls, as KINDS describes the classes."""
    found = source.called_step(interpreter, target, arguments)
    return agents.called_agent(interpreter, target, arguments, line) if found is None else found
