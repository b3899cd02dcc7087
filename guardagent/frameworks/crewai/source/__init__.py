"""Reads the source of CrewAI programs: crews, agents and flows become stubs, extracted like live objects."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from guardagent.frameworks.crewai import extractor as live
from guardagent.frameworks.crewai.extractor.objects import CREWAI, is_kind
from guardagent.frameworks.crewai.package import PACKAGES as PACKAGES
from guardagent.frameworks.crewai.source import kinds as crewai_kinds
from guardagent.frameworks.crewai.source.flow_definition import DECORATORS, CombinedCondition, Decorator
from guardagent.frameworks.crewai.source.reader import is_crew_class, reader_of
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.python_source.evaluation.evaluator import Evaluator
from guardagent.workflow.python_source.evaluation.values import (
    Arguments,
    Class,
    Function,
    ImportedName,
    PartialFunction,
    Values,
    exactly,
    path_of,
    plain_string,
)
from guardagent.workflow.python_source.programs.scopes import ProgramObject
from guardagent.workflow.python_source.programs.stubs import ObjectStub, converter_of, make

if TYPE_CHECKING:
    from guardagent.workflow.python_source.programs.interpreter import Interpreter

KINDS = crewai_kinds.KINDS
CONSTANTS: dict[str, object] = {
    f"{module}.Process.{name}": name
    for module in (CREWAI, f"{CREWAI}.process")
    for name in ("sequential", "hierarchical")
}
_MARKER_DECORATORS = set(
    "agent task crew tool llm callback cache_handler before_kickoff after_kickoff output_json output_pydantic".split()
)


def is_workflow(value: object) -> bool:
    if isinstance(value, ObjectStub):
        return is_kind(value, "Flow", "Crew", "Task", "BaseAgent")
    if isinstance(value, Class):
        return is_crew_class(value) or _is_flow(value)
    return isinstance(value, ProgramObject) and is_crew_class(value.made_of)


def _is_flow(made_of: Class) -> bool:
    """Whether a class is derived from `Flow` of CrewAI."""
    evaluator = Evaluator(live=False, follow=lambda _function: False)
    for base in made_of.tree.bases:
        node = base.value if isinstance(base, ast.Subscript) else base
        for one in evaluator.value(node, made_of.scope).known:
            path = path_of(one)
            if path.startswith(f"{CREWAI}.") and path.endswith(".Flow"):
                return True
            if isinstance(one, Class) and one is not made_of and _is_flow(one):
                return True
    return False


@dataclass(frozen=True)
class InterpretedWorkflow:
    """A workflow of a program, with the interpreter of the program."""

    interpreter: Interpreter
    value: object


def opened(interpreter: Interpreter, value: object) -> InterpretedWorkflow:
    """Pairs a workflow with its interpreter, as a class holds no reference to it."""
    return InterpretedWorkflow(interpreter, value)


def extract(found: InterpretedWorkflow, name: str) -> Graph:
    """The graph of a crew, a flow, a class of either, a task or an agent, with notes on unknown values."""
    interpreter, value = found.interpreter, found.value
    reader = reader_of(interpreter)
    created: object = interpreter.make(value) if isinstance(value, Class) else value
    if isinstance(created, ProgramObject) and is_crew_class(created.made_of):
        created = live.crew_of(
            reader, created, f"the class {getattr(getattr(created.made_of, 'tree', None), 'name', '')}"
        )
    graph = live.extract(created, name, reader)
    return replace(graph, notes=(*graph.notes, *converter_of(interpreter).notes))


def called(interpreter: Interpreter, target: object, arguments: Arguments, line: int) -> Values | None:
    """The values of a call of CrewAI's decorators and conditions; None for other calls."""
    first = arguments.get("", 0)
    if isinstance(target, PartialFunction) and _makes_crew(target):
        return reader_of(interpreter).call(target, arguments)
    if isinstance(target, Decorator):
        return _tools(interpreter, first, target.arguments, line) if target.name == "tool" else first
    if target is staticmethod and first is not None and any(isinstance(one, ObjectStub) for one in first.known):
        return first
    path = target.path if isinstance(target, ImportedName) else ""
    name = path.rpartition(".")[2]
    if path.partition(".")[0] != CREWAI:
        return None
    if name in {"and_", "or_"}:
        return exactly(CombinedCondition(name.rstrip("_"), arguments.positional))
    if name in DECORATORS:
        return exactly(Decorator(name, arguments))
    if name == "tool" and not path.startswith(f"{CREWAI}.project"):
        functions = first is not None and any(isinstance(one, Function | PartialFunction) for one in first.known)
        return _tools(interpreter, first, Arguments(), line) if functions else exactly(Decorator(name, arguments))
    return first if name in _MARKER_DECORATORS or name == "CrewBase" else None


def _makes_crew(target: PartialFunction) -> bool:
    """Whether a target is the `@crew` method of a class with `@CrewBase`."""
    owners = target.arguments.positional[0].known if target.arguments.positional else ()
    marks = getattr(getattr(target.function, "tree", None), "decorator_list", ())
    names = {getattr(one, "id", getattr(one, "attr", "")) for one in marks}
    return "crew" in names and any(isinstance(one, ProgramObject) and is_crew_class(one.made_of) for one in owners)


def _tools(interpreter: Interpreter, functions: Values | None, options: Arguments, line: int) -> Values | None:
    """The tools of `@tool` and `@tool("name")`."""
    if functions is None:
        return None
    name_values = options.get("", 0)
    names = [plain_string(one) for one in name_values.known if isinstance(one, str)] if name_values is not None else []
    created = []
    for one in functions.known:
        name = names[0] if names else str(getattr(getattr(one, "tree", None), "name", "tool"))
        fields = {"name": exactly(name), "func": exactly(one)}
        created.append(make(interpreter, crewai_kinds.TOOL, Arguments((), fields), line))
    return Values(tuple(created), functions.complete)
