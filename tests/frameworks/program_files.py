"""Loads test programs with their expected graphs, and compares graphs with them."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from guardagent.workflow.model.graph import END, START, Graph

PROGRAMS = Path(__file__).parent / "programs"
Case = tuple[Callable[[], Any], dict[str, Any]]


def load(path: Path) -> ModuleType:
    """A file of programs as a module; warnings of frameworks during import are ignored."""
    sys.path.insert(0, str(path.parent))
    try:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def cases(pattern: str) -> dict[str, Case]:
    """The programs of some files, by name."""
    return {name: case for path in sorted(PROGRAMS.glob(pattern)) for name, case in load(path).CASES.items()}


def shape(graph: Graph) -> dict[str, Any]:
    """The shape of a graph, in the terms of the programs."""
    nodes = [node for node in graph.nodes if node.id not in {START, END}]
    return {
        "nodes": {node.id: node.kind for node in nodes},
        "edges": {(edge.source, edge.target, edge.kind) for edge in graph.edges},
        "tools": {node.id: list(node.tools) for node in nodes if node.tools},
        "gated": {node.id: list(node.gated_tools) for node in nodes if node.gated_tools},
        "widened": {node.id for node in nodes if node.metadata.get("widened")},
    }


def stated(expected: dict[str, Any]) -> dict[str, Any]:
    """The shape of an expected graph."""
    lists = {key: {node: text.split() for node, text in expected.get(key, {}).items()} for key in ("tools", "gated")}
    return {
        "nodes": expected["nodes"],
        "edges": expected["edges"],
        **lists,
        "widened": set(expected.get("widened", "").split()),
    }


def conditions(graph: Graph) -> dict[tuple[str, str], str]:
    """The condition of each edge that has one."""
    return {(edge.source, edge.target): edge.condition for edge in graph.edges if edge.condition}
