"""The format in which the programs state their expected graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Case = Callable[..., Callable[[Any], Any]]

_KINDS = {">": "direct", "?": "conditional", "*": "parallel", "@": "loop"}


def expected(nodes: str, edges: str, **more: Any) -> dict[str, Any]:
    """A graph in few words.

    Args:
        nodes: `name` for a model's step, `name:kind` for any other.
        edges: `a>b` direct, `a?b` conditional, `a*b` parallel, `a@b` back from what a function ran.
        more: `tools` and `gated`, lists by node; `widened`, names of nodes; `waits`, lists of lists by node.
    """
    parts = [name.partition(":") for name in nodes.split()]
    kinds = {name: kind or "llm" for name, _, kind in parts}
    return {"nodes": kinds, "edges": {_edge(one) for one in edges.split()}, **more}


def _edge(text: str) -> tuple[str, str, str]:
    mark = next(mark for mark in _KINDS if mark in text)
    source, _, target = text.partition(mark)
    return source, target, _KINDS[mark]


def cases() -> tuple[dict[str, tuple[Any, dict[str, Any]]], Case]:
    """Returns the programs of a file by their names, and a decorator `case(nodes, edges, **more)` that adds one."""
    programs: dict[str, tuple[Any, dict[str, Any]]] = {}

    def case(nodes: str, edges: str, **more: Any) -> Callable[[Any], Any]:
        def register(build: Any) -> Any:
            programs[build.__name__] = (build, expected(nodes, edges, **more))
            return build

        return register

    return programs, case
