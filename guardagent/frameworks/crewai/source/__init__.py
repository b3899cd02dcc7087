"""Reads the source of CrewAI programs: crews, agents and flows become stubs, extracted like live objects."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from guardagent.frameworks.crewai import extractor as live
from guardagent.frameworks.crewai.extractor.objects import CREWAI, is_kind
from guardagent.frameworks.crewai.package import PACKAGES as PACKAGES
from guardagent.frameworks.crewai.source import kinds
from guardagent.frameworks.crewai.source.kinds import (
    DECORATORS,
    CombinedCondition,
    Decorator,
    LooseTasks,
    is_crew_class,
    reader_of,
)
from guardagent.frameworks.crewai.source.kinds import arranged as arranged
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.python_source.modules import ProgramObject
from guardagent.workflow.python_source.stubs import ObjectStub, make
from guardagent.workflow.python_source.values import (
    Arguments,
    Class,
    Function,
    ImportedName,
    PartialFunction,
    Values,
    exactly,
    plain_string,
)
from guardagent.workflow.python_source.workflows import derives_from

if TYPE_CHECKING:
    from guardagent.workflow.python_source.interpreter import Interpreter

KINDS = kinds.KINDS
CONSTANTS: dict[str, object] = {
    f"{module}.Process.{name}": name
    for module in (CREWAI, f"{CREWAI}.process")
    for name in ("sequential", "hierarchical")
}
_MARKER_DECORATORS = set(
    "agent task crew tool llm callback cache_handler before_kickoff after_kickoff output_json output_pydantic".split()
)


def is_workflow(value: object) -> bool:
    if isinstance(value, LooseTasks):
        return True
    if isinstance(value, ObjectStub):
        return is_kind(value, "Flow", "Crew", "Task", "BaseAgent")
    if isinstance(value, Class):
        return is_crew_class(value) or derives_from(value, CREWAI, "Flow")
    return isinstance(value, ProgramObject) and is_crew_class(value.made_of)


@dataclass(frozen=True)
class InterpretedWorkflow:
    """A workflow of a program, with the interpreter of the program."""

    interpreter: Interpreter
    value: object


def opened(interpreter: Interpreter, value: object) -> InterpretedWorkflow:
    """Pairs a workflow with its interpreter, as a class holds no reference to it."""
    return InterpretedWorkflow(interpreter, value)


def extract(workflow: InterpretedWorkflow, name: str) -> Graph:
    """The graph of a crew, a flow, a class of either, a task or an agent."""
    interpreter, value = workflow.interpreter, workflow.value
    reader = reader_of(interpreter)
    created: object = interpreter.make(value) if isinstance(value, Class) else value
    if isinstance(value, LooseTasks):
        created = kinds.crew_of(interpreter, value)
    if isinstance(created, ProgramObject) and is_crew_class(created.made_of):
        created = live.crew_of(
            reader, created, f"the class {getattr(getattr(created.made_of, 'tree', None), 'name', '')}"
        )
    return live.extract(created, name, reader)


def called(interpreter: Interpreter, target: object, arguments: Arguments, line: int) -> Values | None:
    """The values of a call of CrewAI's decorators and conditions; None for other calls."""
    first = arguments.get("", 0)
    if isinstance(target, Class) and is_crew_class(target) and not _any(arguments):
        return exactly(reader_of(interpreter).object_of(target))
    if isinstance(target, PartialFunction) and _makes_crew(target):
        before, interpreter.current_file = interpreter.current_file, Path(getattr(target.function, "file", ""))
        try:
            return reader_of(interpreter).call(target, arguments)
        finally:
            interpreter.current_file = before
    if isinstance(target, Decorator):
        return _tools(interpreter, first, target.arguments, line) if target.name == "tool" else first
    path = target.path if isinstance(target, ImportedName) else ""
    name = path.rpartition(".")[2]
    if path.partition(".")[0] not in PACKAGES:
        return None
    if name in {"and_", "or_"}:
        return exactly(CombinedCondition(name.rstrip("_"), arguments.positional))
    if name in DECORATORS:
        return exactly(Decorator(name, arguments))
    if name == "tool" and not path.startswith(f"{CREWAI}.project"):
        functions = first is not None and any(isinstance(value, Function | PartialFunction) for value in first.known)
        return _tools(interpreter, first, Arguments(), line) if functions else exactly(Decorator(name, arguments))
    return first if name in _MARKER_DECORATORS or name == "CrewBase" else None


def _makes_crew(target: PartialFunction) -> bool:
    """Whether a target is the `@crew` method of a class with `@CrewBase`."""
    owners = target.arguments.positional[0].known if target.arguments.positional else ()
    marks = getattr(getattr(target.function, "tree", None), "decorator_list", ())
    names = {getattr(mark, "id", getattr(mark, "attr", "")) for mark in marks}
    return "crew" in names and any(
        isinstance(owner, ProgramObject) and is_crew_class(owner.made_of) for owner in owners
    )


def _tools(interpreter: Interpreter, functions: Values | None, options: Arguments, line: int) -> Values | None:
    """The tools of `@tool` and `@tool("name")`."""
    if functions is None:
        return None
    name_values = options.get("", 0)
    names = (
        [plain_string(name_value) for name_value in name_values.known if isinstance(name_value, str)]
        if name_values is not None
        else []
    )
    created = []
    for function in functions.known:
        name = names[0] if names else str(getattr(getattr(function, "tree", None), "name", "tool"))
        fields = {"name": exactly(name), "func": exactly(function)}
        created.append(make(interpreter, kinds.TOOL, Arguments((), fields), line))
    return Values(tuple(created), functions.complete)


def _any(arguments: Arguments) -> bool:
    return bool(arguments.positional or arguments.keywords or arguments.open)
