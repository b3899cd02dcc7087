"""The marks of unknown tools and assumed edges."""

from __future__ import annotations

from typing import Any

import pytest

from guardagent.errors import InputError
from guardagent.workflow.model.graph import (
    START,
    GraphBuilder,
    Node,
    Unseen,
    mark,
    merged,
    unknown_parts,
    unknown_tools,
)
from guardagent.workflow.model.graph_json import graph_of

NODES = [{"id": "__start__", "kind": "entry"}, {"id": "__end__", "kind": "exit"}]


def _json(**metadata: Any) -> dict[str, Any]:
    nodes = [*NODES, {"id": "a", "kind": "llm", "metadata": metadata}]
    edges = [{"source": "__start__", "target": "a"}, {"source": "a", "target": "__end__"}]
    return {"entry_id": "__start__", "exit_ids": ["__end__"], "nodes": nodes, "edges": edges}


def test_several_unknowns_are_one_mark() -> None:
    """The first gives the place; equal ones count once, and nothing unknown is no mark."""
    assert mark(None, "", Unseen("x", 3), Unseen("x", 3), "y") == {"reason": "x; y", "line": 3}
    assert merged(mark("x"), "y") == {"reason": "x; y", "line": None}
    assert mark() is None


def test_a_note_says_what_is_unknown() -> None:
    """Notes come from the marks; the file of the node is left out."""
    builder = GraphBuilder("g", "test")
    builder.node("a", "llm", file="a.py", tools_unknown=mark(Unseen("x", 3, "a.py")))
    builder.mark("a", "widened", Unseen("y", 4, "b.py"))
    builder.mark(START, "tools_unknown", "z")
    assert builder.graph().notes == (
        "the workflow may call tools that cannot be seen: z",
        "a: may call tools that cannot be seen: line 3: x",
        "a: its edges are assumed: b.py:4: y",
    )


def test_a_mark_of_an_earlier_version_is_read() -> None:
    """Those are true, or a list of unknown sets of tools."""
    (part,) = unknown_parts(graph_of(_json(tools_unknown=True)).nodes)
    assert str(part) == "a: may call tools that cannot be seen: the reason is not recorded"
    assert unknown_tools(Node("a", metadata={"unknown_tools": ("files.*",)})) is not None
    assert not list(unknown_parts(graph_of(_json(tools_unknown=False)).nodes))


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ("why", "tools_unknown: "),
        ({}, "tools_unknown.reason: "),
        ({"reason": ""}, "tools_unknown.reason: "),
        ({"reason": "x", "line": "3"}, "tools_unknown.line: "),
        ({"reason": "x", "line": 0}, "tools_unknown.line: "),
        ({"reason": "x", "file": ""}, "tools_unknown.file: "),
        ({"reason": "x", "lines": 1}, "tools_unknown: unknown key 'lines'"),
    ],
)
def test_a_wrong_mark_is_an_error(wrong: object, place: str) -> None:
    """The message names its place."""
    with pytest.raises(InputError) as raised:
        graph_of(_json(tools_unknown=wrong))
    assert f"nodes[2].metadata.{place}" in str(raised.value)
