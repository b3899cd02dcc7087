"""The format in which the programs state their expected graphs."""

from __future__ import annotations

from typing import Any

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
