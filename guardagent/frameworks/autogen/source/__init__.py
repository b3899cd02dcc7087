"""Reads the source of AutoGen programs: agents, teams and tools become stubs, extracted like live objects."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from guardagent.frameworks.autogen import extractor as live
from guardagent.frameworks.autogen.package import PACKAGES as PACKAGES
from guardagent.frameworks.autogen.source import kinds as autogen_kinds
from guardagent.workflow.extraction.framework_objects import is_a
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.python_source.evaluation.values import Arguments, Values
from guardagent.workflow.python_source.programs.stubs import ObjectStub, converter_of

if TYPE_CHECKING:
    from guardagent.workflow.python_source.programs.interpreter import Interpreter

CONSTANTS: dict[str, object] = {}
KINDS = autogen_kinds.KINDS


def is_workflow(value: object) -> bool:
    return isinstance(value, ObjectStub) and is_a(value, autogen_kinds.CHAT, "Team", "ChatAgent")


def extract(value: ObjectStub, name: str) -> Graph:
    """The graph of a team or an agent, with notes on what the source does not determine."""
    stage = converter_of(value.interpreter)
    graph = live.extract(value, name)
    return replace(graph, notes=(*graph.notes, *stage.notes))


def called(_interpreter: Interpreter, _target: object, _arguments: Arguments, _line: int) -> Values | None:
    """Returns None: AutoGen has no relevant functions, and KINDS describes its classes."""
    return None


def piped(_interpreter: Interpreter, left: Values, right: Values) -> Values | None:
    """`one | other` of termination conditions."""
    return autogen_kinds.combined("|", left, right)


def anded(_interpreter: Interpreter, left: Values, right: Values) -> Values | None:
    """`one & other` of termination conditions."""
    return autogen_kinds.combined("&", left, right)
