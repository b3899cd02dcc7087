"""Tasks, agents and crews of a file that are no workflows of their own: parts of flows, or tasks without a crew."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from guardagent.frameworks.crewai.extractor.objects import is_kind
from guardagent.frameworks.crewai.source.kinds import CREW
from guardagent.frameworks.crewai.source.reader import is_crew_class
from guardagent.workflow.python_source.modules import ProgramObject
from guardagent.workflow.python_source.stubs import ObjectStub, make
from guardagent.workflow.python_source.values import Arguments, Class, Sequence, exactly

if TYPE_CHECKING:
    from guardagent.workflow.python_source.interpreter import Interpreter
    from guardagent.workflow.python_source.workflows import FoundWorkflow

NAME = "tasks"
_REASON = "the file makes tasks but no crew; the order of their definitions is assumed"


@dataclass(frozen=True, eq=False)
class LooseTasks:
    """The tasks of a file without a crew, in order of their definitions."""

    tasks: tuple[object, ...]
    file: str
    line: int


def arranged(interpreter: Interpreter, found: list[FoundWorkflow]) -> list[FoundWorkflow]:
    """Leaves out tasks and agents beside a crew or a flow, which run by themselves only if the file runs them.

    Without a crew or a flow, the tasks become one workflow, without their agents.
    """
    started = {id(one) for one in interpreter.started}
    parts = [one for one in found if is_kind(one.value, "Task", "BaseAgent") and id(one.value) not in started]
    tasks = [one for one in parts if is_kind(one.value, "Task")]
    rest = [one for one in found if one not in parts]
    if any(_is_whole(one.value) for one in rest):
        return _without_parts_of_flows(rest)
    if not tasks:
        return found
    return [*rest, _combined(tasks, {one.name for one in rest}) if len(tasks) > 1 else tasks[0]]


def _is_whole(value: object) -> bool:
    """Whether a value is a crew or a flow, or a class of either or its object."""
    of_class = isinstance(value, ProgramObject) and not isinstance(value, ObjectStub)
    return of_class or isinstance(value, Class) or is_kind(value, "Crew", "Flow")


def _without_parts_of_flows(found: list[FoundWorkflow]) -> list[FoundWorkflow]:
    """Leaves out crews from functions and classes that the methods of a flow of the file name."""
    classes = [made for one in found for made in (one.value, getattr(one.value, "made_of", None))
               if isinstance(made, Class) and not is_crew_class(made)]  # fmt: skip
    used = {node.id for made in classes for node in ast.walk(made.tree) if isinstance(node, ast.Name)}
    used -= {made.tree.name for made in classes}
    return [one for one in found if one.bound or one.name.partition(".")[0] not in used or not _is_crew(one.value)]


def _is_crew(value: object) -> bool:
    return is_kind(value, "Crew") or is_crew_class(value)


def _combined(tasks: list[FoundWorkflow], taken: Iterable[str]) -> FoundWorkflow:
    first = tasks[0]
    value = LooseTasks(tuple(one.value for one in tasks), *first.site)
    return replace(first, name=NAME if NAME not in taken else f"{NAME}.{first.name}", value=value)


def crew_of(interpreter: Interpreter, loose: LooseTasks) -> ObjectStub:
    """The crew that would run the tasks."""
    tasks = exactly(Sequence(tuple(map(exactly, loose.tasks))))
    return make(interpreter, CREW, Arguments(keywords={"tasks": tasks}), loose.line, order_assumed=exactly(_REASON))
