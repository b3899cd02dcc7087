"""Reads the graph of a workflow from a Python file alone, without importing or running it.

The interpreter goes through the file statement by statement (`interpreter.py`), and one reader per framework evaluates
the calls of that framework. A reader is the module `source` of a framework, with

    PACKAGES: tuple[str, ...]                            its top packages, as in `package.py`
    CONSTANTS: dict[str, object]                         the values of some of its names, by their paths
    called(interpreter, target, arguments, line)         applies a call and returns its value; None for other calls
    is_workflow(value: object) -> bool                   whether a value stands for a workflow
    extract(value, name: str) -> Graph                   the graph of a workflow

A reader can also have `KINDS`, the classes of the framework with stubs (`stubs.py`), which are extracted like live
objects; `piped` and `anded(interpreter, left, right)`, which evaluate `a | b` and `a & b`;
`opened(interpreter, value)`, which returns the argument of `extract`; `unwrapped(value)`, which returns the
workflow that a value only runs; and `arranged(interpreter, found)`, which joins or leaves out parts of workflows.
"""

from __future__ import annotations

import ast
import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType

from guardagent.errors import ContentError, GuardError, InputError, UnknownNameError
from guardagent.workflow.extraction.registry import FRAMEWORKS, SOURCES
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.model.listing import GraphListing, UnreadPlace, WorkflowGraph
from guardagent.workflow.python_source.interpreter import Interpreter
from guardagent.workflow.python_source.stubs import converter_of
from guardagent.workflow.python_source.workflows import USUAL_NAMES, FoundWorkflow, ProgramWorkflows


def graph_of_source(path: Path, name: str = "") -> Graph:
    """Returns the graph of a workflow of a file.

    Args:
        path: the Python file.
        name: the variable with the workflow, or the function that returns or runs it; by default the only workflow
            of the file, or the one with the most usual name.

    Raises:
        InputError: the file does not exist, is not Python, or defines no known workflow.
    """
    if name:
        interpreter, workflows = _program(path)
        value = workflows.named(name)
        if value is None:
            raise UnknownNameError(
                "workflow", name, [one.name for one in _found(interpreter, path, workflows)], str(path)
            )
        return _graph(interpreter, value, f"{path}:{name}")
    interpreter, results = _read(path)
    chosen = _chosen([one for one, _ in results], interpreter)
    graph = next(made for one, made in results if one is chosen)
    if isinstance(graph, GuardError):
        raise graph
    if len(results) == 1:
        return graph
    names = ", ".join(repr(one.name) for one, _ in results)
    note = f"{path}: read {chosen.name!r} of the workflows {names}; use '{path}:NAME' for another"
    return replace(graph, notes=(*graph.notes, note))


def graphs_of_source(path: Path, *, always_named: bool = False) -> GraphListing:
    """Returns the graphs of all workflows of a file that stand alone, in order of its lines.

    A workflow whose graph cannot be determined is listed as unread, unless it is the only one.

    Args:
        path: the Python file.
        always_named: the name of a graph has the name of its workflow, also if the file has only one.

    Raises:
        InputError: as `graph_of_source`.
    """
    interpreter, results = _read(path)
    if len(results) == 1 and isinstance(results[0][1], GuardError):
        raise results[0][1]
    unread = [_unread(path, one.site[1], str(made)) for one, made in results if isinstance(made, GuardError)]
    only = len(results) == 1 and not unread and not always_named
    graphs = [_named(path, one, made, only=only) for one, made in results if isinstance(made, Graph)]
    # Workflows of functions that were not followed may be missing.
    late = [note for note in interpreter.not_followed if not any(note in one.graph.notes for one in graphs)]
    if late and only:
        graphs = [replace(graphs[0], graph=replace(graphs[0].graph, notes=(*graphs[0].graph.notes, *late)))]
        late = []
    unread += [_unread(path, 1, note) for note in late]
    return GraphListing(str(path), tuple(graphs), tuple(unread))


def _read(path: Path) -> tuple[Interpreter, list[tuple[FoundWorkflow, Graph | GuardError]]]:
    """Returns the workflows of a file with their graphs or errors."""
    interpreter, workflows = _program(path)
    # Functions, which are interpreted with unknown arguments, must not change what the script makes.
    early = {id(one.value): _graph_or_error(interpreter, one, path) for one in workflows.of_script()}
    found = _found(interpreter, path, workflows)
    results = [(one, early.get(id(one.value)) or _graph_or_error(interpreter, one, path)) for one in found]
    return interpreter, list({_content(one, made): (one, made) for one, made in results}.values())


def _content(one: FoundWorkflow, made: Graph | GuardError) -> object:
    """Returns a key for a workflow; without a name of its own, it equals others of its line with the same graph."""
    return one.name if one.bound or not isinstance(made, Graph) else (one.site, made.digest)


def _graph_or_error(interpreter: Interpreter, one: FoundWorkflow, path: Path) -> Graph | GuardError:
    try:
        return _graph(interpreter, one.value, str(path))
    except GuardError as error:
        return error


def _named(path: Path, one: FoundWorkflow, graph: Graph, *, only: bool) -> WorkflowGraph:
    named = graph if only else replace(graph, name=f"{path}:{one.name}")
    file = str(path) if one.site[0] == os.path.abspath(path) else one.site[0]  # noqa: PTH100 - as the interpreter
    return WorkflowGraph(one.name, file, one.site[1], named)


def _unread(path: Path, line: int, reason: str) -> UnreadPlace:
    return UnreadPlace(str(path), line, reason.removeprefix(f"{path}: "))


def _program(path: Path) -> tuple[Interpreter, ProgramWorkflows]:
    interpreter = Interpreter(path, _readers())
    return interpreter, ProgramWorkflows(interpreter, interpreter.run(_parsed(path)), _workflow_of)


def _found(interpreter: Interpreter, path: Path, workflows: ProgramWorkflows) -> list[FoundWorkflow]:
    found = workflows.all() or workflows.imported()
    if not found:
        known = ", ".join(one.FRAMEWORK for _, one in FRAMEWORKS.load_all() if one.PACKAGES)
        why = "".join(f" ({note})" for note in interpreter.not_followed)
        raise NoWorkflowError(f"{path}: its source defines no workflow{why}; expected one of {known}")
    return found


class NoWorkflowError(InputError):
    """A file that could be read defines no workflow."""


def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}; expected a Python file") from None
    except SyntaxError as error:
        raise ContentError(f"not Python: {error.msg}", path, error.lineno) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{path}: not Python: {error}") from None


def _chosen(found: list[FoundWorkflow], interpreter: Interpreter) -> FoundWorkflow:
    """Chooses a workflow: one with a usual name, one that the program runs, or the last."""
    named = {one.name: one for one in found}
    usual = [named[name] for name in USUAL_NAMES if name in named and named[name].bound]
    run = [one for one in found if any(one.value is _workflow_of(started) for started in interpreter.started)]
    return (usual or run or found[-1:])[0]


def _graph(interpreter: Interpreter, value: object, name: str) -> Graph:
    reader = _reader_of(value)
    assert reader is not None
    if hasattr(reader, "opened"):
        value = reader.opened(interpreter, value)
    before = converter_of(interpreter)
    interpreter.converter = before.copy()  # its notes are those of one graph
    try:
        graph: Graph = reader.extract(value, name)
    except GuardError:
        raise
    except Exception as error:  # the source does not determine all that the extractor needs
        raise InputError(
            f"{name}: its graph cannot be determined from the source alone: {type(error).__name__}: {error}; "
            f"expected agents that are made by plain calls; verify the object instead, as in 'FILE.py:NAME'"
        ) from error
    finally:
        interpreter.converter = before
    return replace(graph, notes=(*graph.notes, *interpreter.not_followed))


def _workflow_of(value: object) -> object | None:
    """Returns a workflow, or the one that a value only runs; None for other values."""
    reader = _reader_of(value)
    if reader is None:
        return None
    return reader.unwrapped(value) if hasattr(reader, "unwrapped") else value


def _reader_of(value: object) -> ModuleType | None:
    return next((reader for reader in _readers() if reader.is_workflow(value)), None)


@cache
def _readers() -> tuple[ModuleType, ...]:
    return tuple(SOURCES.load(name) for name, one in FRAMEWORKS.load_all() if one.PACKAGES)
