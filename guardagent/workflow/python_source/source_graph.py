"""Reads the graph of a workflow from a Python file alone, without importing or running it.

The interpreter goes through the file statement by statement (`interpreter.py`), and one reader per framework evaluates
the calls of that framework. A reader is the module `source` of a framework, with

    PACKAGES: tuple[str, ...]                            its top packages, as in `package.py`
    CONSTANTS: dict[str, object]                         the values of some of its names, by their paths
    called(interpreter, target, arguments, line)         applies a call and returns its value; None for other calls
    is_workflow(value: object) -> bool                   whether a value stands for a workflow
    extract(value, name: str) -> Graph                   the graph of a workflow

A reader can also have `KINDS`, the classes of the framework with stubs (`stubs.py`), which are extracted like live
objects; `piped` and `anded(interpreter, left, right)`, which evaluate `a | b` and `a & b`; and
`opened(interpreter, value)`, which returns the argument of `extract`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType

from guardagent.errors import ContentError, GuardError, InputError, UnknownNameError
from guardagent.workflow.extraction.registry import FRAMEWORKS, SOURCES
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.python_source.evaluation.values import Class, Function, PartialFunction, Values, exactly
from guardagent.workflow.python_source.programs.interpreter import Interpreter
from guardagent.workflow.python_source.programs.scopes import FlowScope, ProgramObject

_USUAL = ("graph", "app", "workflow", "agent", "crew", "team", "flow", "root_agent", "main")


def graph_of_source(path: Path, name: str = "") -> Graph:
    """Returns the graph of the workflow that a file defines.

    Args:
        path: the Python file.
        name: the variable with the workflow, or the function that returns it; by default the only workflow of the
            file, or the one with the most usual name.

    Raises:
        InputError: the file does not exist, is not Python, or defines no known workflow.
    """
    interpreter = Interpreter(path, _readers())
    scope = interpreter.run(_parsed(path))
    found = _workflows(interpreter, scope, name)
    if name:
        if name not in found:
            raise UnknownNameError("workflow", name, found, str(path))
        return _graph(interpreter, found[name], f"{path}:{name}")
    if not found:
        known = ", ".join(one.FRAMEWORK for _, one in FRAMEWORKS.load_all() if one.PACKAGES)
        raise InputError(f"{path}: its source defines no workflow; expected one of {known}")
    chosen = _chosen(found, interpreter.started)
    graph = _graph(interpreter, found[chosen], str(path))
    others = [other for other in found if found[other] is not found[chosen]]
    if not others:
        return graph
    note = f"{path}: read {chosen!r} of the workflows {', '.join(map(repr, found))}; use '{path}:NAME' for another"
    return replace(graph, notes=(*graph.notes, note))


def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}; expected a Python file") from None
    except SyntaxError as error:
        raise ContentError(f"not Python: {error.msg}", path, error.lineno) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{path}: not Python: {error}") from None


def _workflows(interpreter: Interpreter, scope: FlowScope, name: str) -> dict[str, object]:
    """Returns the workflows that names of the file are bound to; if there are none, those that its functions return."""
    found = {where: value for where, value in _bound_values(scope.names) if _reader_of(value) is not None}
    if name in found or (found and not name):
        return found
    found |= {} if name else _run_by_program(interpreter)
    for one, values in list(scope.names.items()):
        for value in values.known if not name or one == name.partition(".")[0] else ():
            found |= _built_by(interpreter, one, value)
    return (
        found
        or _run_by_program(interpreter, name)
        or _in_modules(scope, name)
        or _constructed_by_program(interpreter, name)
    )


def _in_modules(scope: FlowScope, name: str) -> dict[str, object]:
    """Returns the workflows of the modules that a file imports, if it has none itself."""
    modules = {
        place: one
        for place, values in scope.names.items()
        for one in values.known
        if isinstance(one, ProgramObject) and one.made_of is None
    }
    return {
        f"{place}.{inner}": one
        for place, module in modules.items()
        for inner, values in module.attributes.items()
        for one in values.known
        if _reader_of(one) is not None and name in ("", f"{place}.{inner}")
    }


def _run_by_program(interpreter: Interpreter, name: str = "") -> dict[str, object]:
    """Returns the workflows that functions of the program construct and run, but neither store nor return."""
    run = [one for one in interpreter.started if _reader_of(one) is not None]
    return {name or str(getattr(one, "name", "workflow")): one for one in dict.fromkeys(run)}


def _constructed_by_program(interpreter: Interpreter, name: str) -> dict[str, object]:
    """Returns the workflows that functions of the program construct and pass to unknown code."""
    result = [one for one in interpreter.objects if _reader_of(one) is not None]
    inner = {id(part) for one in result for part in getattr(one, "parts", lambda: ())()}
    return {str(getattr(one, "name", "workflow")): one for one in result if id(one) not in inner and not name}


def _built_by(interpreter: Interpreter, name: str, value: object) -> dict[str, object]:
    """Returns the workflows that a function returns, or that an object of a class stores or builds."""
    if isinstance(value, Function | PartialFunction):
        result = _workflow_of(interpreter.run_function(value))
        return {} if result is None else {name: result}
    if not isinstance(value, Class):
        return {}
    one = interpreter.make(value)
    held = {place: inner for place, inner in _bound_values({name: exactly(one)}) if _reader_of(inner) is not None}
    if held:
        return held
    methods = [node.name for node in value.tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    built = {
        f"{name}.{method}": _workflow_of(interpreter.run_function(found))
        for method in methods
        if not method.startswith("__")
        for found in interpreter.attribute(one, method).known
        if isinstance(found, Function | PartialFunction)
    }
    return {place: inner for place, inner in built.items() if inner is not None}


def _workflow_of(values: Values) -> object | None:
    return next((value for value in values.known if _reader_of(value) is not None), None)


def _bound_values(names: dict[str, Values]) -> Iterable[tuple[str, object]]:
    """Yields the values of the names of a file, and of the attributes of their objects."""
    for name, values in names.items():
        for value in values.known:
            yield name, value
            if isinstance(value, ProgramObject) and isinstance(value.made_of, Class) and _reader_of(value) is None:
                for attribute, inner in value.attributes.items():
                    yield from ((f"{name}.{attribute}", one) for one in inner.known)


def _chosen(found: dict[str, object], started: list[object]) -> str:
    """Chooses a workflow: one with a usual name, one that the program runs, or the last that is not part of another."""
    usual = [name for name in _USUAL if name in found]
    run = [name for name in found if any(found[name] is one for one in started)]
    if usual or run:
        return (usual or run)[0]
    inner = {id(part) for value in found.values() for part in getattr(value, "parts", lambda: ())()}
    outer = [name for name, value in found.items() if id(value) not in inner]
    return (outer or list(found))[-1]


def _graph(interpreter: Interpreter, value: object, name: str) -> Graph:
    reader = _reader_of(value)
    assert reader is not None
    if hasattr(reader, "opened"):
        value = reader.opened(interpreter, value)
    try:
        return reader.extract(value, name)  # type: ignore[no-any-return]
    except GuardError:
        raise
    except Exception as error:  # the source does not determine all that the extractor needs
        raise InputError(
            f"{name}: its graph cannot be determined from the source alone: {type(error).__name__}: {error}; "
            f"expected agents that are made by plain calls; verify the object instead, as in 'FILE.py:NAME'"
        ) from error


def _reader_of(value: object) -> ModuleType | None:
    return next((reader for reader in _readers() if reader.is_workflow(value)), None)


@cache
def _readers() -> tuple[ModuleType, ...]:
    return tuple(SOURCES.load(name) for name, one in FRAMEWORKS.load_all() if one.PACKAGES)
