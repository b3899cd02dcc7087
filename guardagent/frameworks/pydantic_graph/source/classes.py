"""Graphs of classes derived from `BaseNode`, in source code: the nodes to which each `run` is declared to lead."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from guardagent.workflow.extraction import UnknownValue
from guardagent.workflow.python_source.stubs import ClassStub, ObjectStub, Program, framework_kind
from guardagent.workflow.python_source.types import annotated_types
from guardagent.workflow.python_source.values import (
    UNKNOWN,
    Arguments,
    Class,
    Function,
    ImportedName,
    LiveValue,
    NameScope,
    PartialFunction,
    Sequence,
    Table,
    Values,
    exactly,
    is_member_of,
    path_of,
)

LIBRARY = "pydantic_graph"
_RUNS = ("run", "run_sync", "iter", "iter_from_persistence", "mermaid_code", "mermaid_image", "mermaid_save")


@dataclass(frozen=True, eq=False)
class EdgeLabel(LiveValue):
    """An edge of a class; `label` is its description."""

    label: str = ""


@dataclass(frozen=True, eq=False)
class NodeDeclaration(LiveValue):
    """A class in a graph, with the nodes to which its `run` is declared to lead.

    Attributes:
        node: the class; an `UnknownValue` if it is not in the program.
        returns_base_node: the declaration leaves the next node open.
    """

    node: Any
    next_node_edges: dict[str, EdgeLabel] = field(default_factory=dict)
    end_edge: EdgeLabel | None = None
    returns_base_node: bool = False
    note: str | None = None


@dataclass(frozen=True)
class DeclaredTarget:
    """A type in the return annotation of `run`, with the label of its edge."""

    type: object
    label: str = ""
    annotations: tuple[object, ...] = ()


def node_class(interpreter: Program, made_of: Class) -> Any:
    """The Python class for a node class of the program, whose `bound_run` is its method of an unknown object."""
    kind = interpreter.converter.type_of(made_of, framework_kind(interpreter, made_of))
    if not hasattr(kind, "bound_run"):
        run = interpreter.member(made_of, "run")
        if isinstance(run, Function | PartialFunction):
            owner = exactly(interpreter.make(made_of))  # type: ignore[attr-defined]
            kind.bound_run = interpreter.converter.function(PartialFunction(run, Arguments((owner,))))
            targets = [
                (interpreter.class_shown(declared_target.type), declared_target.label)
                for declared_target in declared_targets(interpreter, run)
            ]
            kind.declared_labels = [(target, label) for target, label in targets if label]
    return kind


def is_node_class(interpreter: Program, value: object) -> bool:
    class_stub = framework_kind(interpreter, value) if isinstance(value, Class) else None
    return class_stub is not None and class_stub.name == "BaseNode"


def declared_targets(interpreter: Program, function: object) -> list[DeclaredTarget]:
    """The types in the return annotation of a function."""
    while isinstance(function, PartialFunction):
        function = function.function
    if not isinstance(function, Function) or (returns := getattr(function.tree, "returns", None)) is None:
        return []
    return list(_targets(interpreter, returns, function.scope))


def _targets(interpreter: Program, node: ast.expr, scope: NameScope) -> Iterator[DeclaredTarget]:
    match node:
        case ast.Constant(value=str(text)):
            try:
                yield from _targets(interpreter, ast.parse(text, mode="eval").body, scope)
            except (SyntaxError, ValueError):
                yield DeclaredTarget(UNKNOWN)
        case ast.BinOp(left=left, right=right):
            yield from _targets(interpreter, left, scope)
            yield from _targets(interpreter, right, scope)
        case ast.Subscript(value=generic, slice=ast.Tuple(elts=parts)) if _last(generic) == "Union":
            for part in parts:
                yield from _targets(interpreter, part, scope)
        case ast.Subscript(value=generic, slice=ast.Tuple(elts=[inner, *marks])) if _last(generic) == "Annotated":
            known = tuple(value for mark in marks for value in interpreter.value(mark, scope).known)
            label = next((text for mark in marks if (text := _label(mark))), "")
            for target in _targets(interpreter, inner, scope):
                yield DeclaredTarget(target.type, label, known)
        case _:
            types = [
                annotated_type.type
                for annotated_type in annotated_types(interpreter, node, scope)
                if not annotated_type.within
            ]
            yield from map(DeclaredTarget, types or [UNKNOWN])


def _last(node: ast.expr) -> str:
    return getattr(node, "id", getattr(node, "attr", ""))


def _label(mark: ast.expr) -> str:
    """The label in `Edge(label="...")`."""
    if not isinstance(mark, ast.Call) or _last(mark.func) != "Edge":
        return ""
    values = [*(keyword.value for keyword in mark.keywords if keyword.arg == "label"), *mark.args]
    return next(
        (value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)), ""
    )


def _declaration(interpreter: Program, made_of: Class, ids: dict[int, str]) -> NodeDeclaration:
    following: dict[str, EdgeLabel] = {}
    end, is_open = None, False
    targets = declared_targets(interpreter, interpreter.member(made_of, "run"))
    for target in targets:
        if is_member_of(target.type, LIBRARY, "End"):
            end = EdgeLabel(target.label)
        elif isinstance(target.type, Class) and id(target.type.tree) in ids:
            following[ids[id(target.type.tree)]] = EdgeLabel(target.label)
        elif isinstance(target.type, ImportedName) and path_of(target.type).rpartition(".")[2] in ids.values():
            following[path_of(target.type).rpartition(".")[2]] = EdgeLabel(target.label)
        else:
            is_open = True
    return NodeDeclaration(node_class(interpreter, made_of), following, end, is_open or not targets)


def _settle_graph(stub: ObjectStub) -> None:
    """Reads the classes of a graph; a list that the source does not determine may have any others."""
    interpreter, nodes = stub.interpreter, stub.attributes["nodes"]
    listed = [value for several in nodes.known for item in _items(several) for value in item.known]
    whole = nodes.complete and all(item.complete for several in nodes.known for item in _items(several))
    known = list({id(node_class.tree): node_class for node_class in listed if isinstance(node_class, Class)}.values())
    others = list(
        dict.fromkeys(
            path_of(value).rpartition(".")[2] or "unknown" for value in listed if not isinstance(value, Class)
        )
    )
    names = [*others, *([] if whole and listed else ["unknown"])]
    ids: dict[int, str] = {id(node_class.tree): node_class.tree.name for node_class in known}
    ids |= {-place - 1: name for place, name in enumerate(names)}
    node_declarations: dict[str, NodeDeclaration] = {
        node_class.tree.name: _declaration(interpreter, node_class, ids) for node_class in known
    }
    node_declarations |= {name: NodeDeclaration(UnknownValue(name), returns_base_node=True) for name in names}
    stub.attributes["start_nodes"] = exactly(Sequence(()))
    stub.attributes["node_defs"] = exactly(
        Table(tuple((exactly(name), exactly(node_declaration)) for name, node_declaration in node_declarations.items()))
    )


def _items(value: object) -> tuple[Values, ...]:
    if isinstance(value, Sequence):
        return value.items
    return tuple(map(exactly, value)) if isinstance(value, list | tuple) else (UNKNOWN,)


def _started(owner: ObjectStub, arguments: Arguments, _line: int) -> Values:
    """Records a run, and the node with which it starts."""
    owner.interpreter.started.append(owner)
    first = arguments.values_of("start_node", 0)
    kinds = [
        value.made_of for value in first.known if isinstance(value, ObjectStub) and isinstance(value.made_of, Class)
    ]
    if "node_defs" in owner.attributes:
        names = tuple(exactly(kind.tree.name) for kind in kinds)
        before = [item for held in owner.attributes["start_nodes"].known for item in held.items]
        known = owner.attributes["start_nodes"].complete and first.complete and len(kinds) == len(first.known)
        owner.attributes["start_nodes"] = Values((Sequence((*before, *names)),), known)
    return UNKNOWN


STARTS = dict.fromkeys(_RUNS, _started)
KINDS = (
    ClassStub("BaseNode", f"{LIBRARY}.basenode"),
    ClassStub("Graph", f"{LIBRARY}.graph", fields={"nodes": [], "name": None, "state_type": None, "run_end_type": None},
              positional=(), finish=_settle_graph, fallbacks={"name": None, "start_nodes": []}, methods=STARTS),
)  # fmt: skip
