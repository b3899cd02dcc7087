"""A graph is read from JSON: errors name their place, and other files are rejected early."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from guardagent.errors import InputError
from guardagent.workflow.model.graph import (
    START,
    Graph,
    GraphBuilder,
    Node,
    Unseen,
    mark,
    merged,
    unknown_parts,
    unknown_tools,
)
from guardagent.workflow.model.graph_json import JsonError, JsonText, graph_of, read_graph
from tests.conftest import Write
from tests.tiers import slow_after, slow_but_every


def fine(**changed: Any) -> dict[str, Any]:
    """Returns a graph of three nodes as JSON, with some members changed; None removes one."""
    graph = {
        "name": "small",
        "framework": "json",
        "entry_id": "s",
        "exit_ids": ["e"],
        "nodes": [
            {"id": "s", "kind": "entry"},
            {
                "id": "t",
                "kind": "tool",
                "label": "T",
                "tools": ["a", "b"],
                "gated_tools": ["b"],
                "metadata": {"x": [1]},
            },
            {"id": "e", "kind": "exit", "label": "", "tools": [], "gated_tools": [], "metadata": {}},
        ],
        "edges": [
            {"source": "s", "target": "t"},
            {"source": "t", "target": "e", "kind": "conditional", "condition": "done"},
        ],
    }
    return {key: value for key, value in {**graph, **changed}.items() if value is not None}


def with_node(**changed: Any) -> dict[str, Any]:
    """Returns the same graph with a changed second node."""
    graph = fine()
    graph["nodes"][1] |= changed
    return graph


def with_edge(**changed: Any) -> dict[str, Any]:
    """Returns the same graph with a changed second edge."""
    graph = fine()
    graph["edges"][1] |= changed
    return graph


def without(part: str, at: int, key: str) -> dict[str, Any]:
    graph = fine()
    del graph[part][at][key]
    return graph


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else 0


# --- what is right


def test_a_graph_is_read_and_written_again(write: Write) -> None:
    """Missing members have their defaults."""
    graph = read_graph(write("graph.json", json.dumps(fine())))
    assert [(node.id, node.kind, node.label, node.tools, node.gated_tools) for node in graph.nodes] == [
        ("s", "entry", "", (), ()),
        ("t", "tool", "T", ("a", "b"), ("b",)),
        ("e", "exit", "", (), ()),
    ]
    assert [(edge.source, edge.target, edge.kind, edge.condition) for edge in graph.edges] == [
        ("s", "t", "direct", ""),
        ("t", "e", "conditional", "done"),
    ]
    assert graph_of(graph.to_dict()) == graph
    assert graph_of(fine()) == graph


def test_a_name_and_a_framework_may_be_left_out(write: Write) -> None:
    """The name of the file is the default."""
    graph = read_graph(write("flow.json", json.dumps(fine(name=None, framework=None))))
    assert (graph.name, graph.framework) == ("flow", "json")


def reordered(graph: Mapping[str, Any]) -> dict[str, Any]:
    return {key: graph[key] for key in ("edges", "exit_ids", "nodes", "entry_id", "framework", "name")}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(fine()),
        json.dumps(fine(), indent=2),
        json.dumps(fine(), separators=(",", ":")),
        json.dumps(reordered(fine())),
        "\ufeff \n" + json.dumps(fine(), indent="\t") + "\r\n ",
        json.dumps(fine()).replace(":", " : ").replace(",", " ,\n"),
    ],
)
def test_layout_and_order_do_not_matter(write: Write, text: str) -> None:
    """Whitespace, a byte order mark and the order of members have no effect."""
    assert read_graph(write("graph.json", text)) == graph_of(fine())


def test_a_tool_that_a_node_names_twice_is_one(write: Write) -> None:
    """The node has the tool once, as in a graph builder."""
    assert graph_of(with_node(tools=["a", "b", "a"])).nodes[1].tools == ("a", "b")


def large(size: int, labels: Callable[[int], str]) -> Graph:
    """Returns a chain with arbitrary labels."""
    graph = fine(
        nodes=[
            {"id": f"n{at}", "kind": {0: "entry", size - 1: "exit"}.get(at, "llm"), "label": labels(at)}
            for at in range(size)
        ],
        edges=[{"source": f"n{at}", "target": f"n{at + 1}", "condition": labels(at)} for at in range(size - 1)],
        entry_id="n0",
        exit_ids=[f"n{size - 1}"],
    )
    return graph_of(graph)


@pytest.mark.parametrize(
    "label", slow_after(1, ["}, {", "\\", '":', "", '"},{"', "a: b", "\\\\", "[", "]", "é\u2028🙂", "}\n,{"])
)
@pytest.mark.parametrize(("indent", "ascii"), [(None, True), (1, False)])
def test_large_graphs_are_read_as_small_ones(write: Write, label: str, indent: int | None, ascii: bool) -> None:  # noqa: A002
    """No string makes the chunks end at a wrong place."""
    chance = random.Random(1)  # noqa: S311 - a fixed seed
    graph = large(5_000, lambda _: label * chance.randrange(3))
    text = json.dumps(graph.to_dict(), indent=indent, ensure_ascii=ascii)
    assert read_graph(write("graph.json", text)) == graph


# --- what is wrong

WRONG: dict[str, tuple[Any, str]] = {
    "no object": ([], "is a list; expected an object with 'entry_id', 'exit_ids', 'nodes', 'edges'"),
    "a number": (5, "is a number; expected an object"),
    "a text": ("graph", "is a string; expected an object"),
    "null": (None, "is null; expected an object"),
    "true": (True, "is true; expected an object"),
    "an empty object": ({}, "has no 'entry_id'; expected 'entry_id', 'exit_ids', 'nodes', 'edges'"),
    "an unknown key": (fine(node=[]), "unknown key 'node'; did you mean 'nodes'"),
    "no nodes": (fine(nodes=None), "has no 'nodes'"),
    "no edges": (fine(edges=None), "has no 'edges'"),
    "no exits": (fine(exit_ids=None), "has no 'exit_ids'"),
    "nodes that are no list": (fine(nodes={}), "nodes: is an object; expected a list"),
    "edges that are no list": (fine(edges="none"), "edges: is a string; expected a list"),
    "exits that are no list": (fine(exit_ids="e"), "exit_ids: is a string; expected a list"),
    "a name that is not a string": (fine(name=5), "name: is a number; expected a string"),
    "a framework that is not a string": (fine(framework=[]), "framework: is a list; expected a string"),
    "an entry that is not a string": (fine(entry_id=["s"]), "entry_id: is a list; expected a string"),
    "an exit that is not a string": (fine(exit_ids=["e", 7]), r"exit_ids\[1\]: is a number; expected a string"),
    "a node of another type": (fine(nodes=["s"]), r"nodes\[0\]: is a string; expected an object with 'id', 'kind'"),
    "a node with an unknown key": (with_node(tool=["a"]), r"nodes\[1\]: unknown key 'tool'; did you mean 'tools'"),
    "a node without an id": (without("nodes", 1, "id"), r"nodes\[1\]: has no 'id'; expected 'id', 'kind'"),
    "a node without a kind": (without("nodes", 2, "kind"), r"nodes\[2\]: has no 'kind'"),
    "an id that is not a string": (with_node(id=1), r"nodes\[1\].id: is a number; expected a string"),
    "an empty id": (with_node(id=""), r"nodes\[1\].id: is empty; expected a string"),
    "an id that stands twice": (with_node(id="s"), r"nodes\[1\].id: 's' is already the id of another node"),
    "an unknown kind": (with_node(kind="tol"), r"nodes\[1\].kind: unknown kind 'tol'; did you mean 'tool'"),
    "a kind that is a list": (with_node(kind=["tool"]), r"nodes\[1\].kind: is a list; expected one of 'entry', 'exit'"),
    "a kind that is null": (with_node(kind=None), r"nodes\[1\].kind: is null; expected one of 'entry', 'exit'"),
    "a label that is null": (with_node(label=None), r"nodes\[1\].label: is null; expected a string"),
    "tools that are no list": (with_node(tools="a"), r"nodes\[1\].tools: is a string; expected a list of strings"),
    "a tool that is not a string": (with_node(tools=["a", None]), r"nodes\[1\].tools\[1\]: is null; expected a string"),
    "an empty tool": (with_node(tools=[""]), r"nodes\[1\].tools\[0\]: is empty; expected a string"),
    "gated tools that are no list": (with_node(gated_tools={}), r"nodes\[1\].gated_tools: is an object"),
    "a gated tool that is none": (
        with_node(gated_tools=["bb"]),
        "gated_tools: 'bb' is not one of its tools; did you mean",
    ),
    "a gated tool of no tools": (with_node(tools=[]), "gated_tools: 'b' is not one of its tools"),
    "metadata that is a list": (with_node(metadata=[]), r"nodes\[1\].metadata: is a list; expected an object"),
    "metadata that is null": (with_node(metadata=None), r"nodes\[1\].metadata: is null; expected an object"),
    "metadata that is deep": (with_node(metadata={"x": nested(60)}), r"nodes\[1\].metadata: is nested more than 50"),
    "a join that is a string": (with_node(metadata={"join": "s"}), r"nodes\[1\].metadata.join: expected a list of the"),
    "a join of no node": (with_node(metadata={"join": ["s", "x"]}), r"metadata.join: 'x' is not another node"),
    "a join of itself": (with_node(metadata={"join": ["t"]}), r"metadata.join: 't' is not another node"),
    "an edge that is not an object": (fine(edges=[["s", "t"]]), r"edges\[0\]: is a list; expected an object"),
    "an edge with an unknown key": (with_edge(to="e"), r"edges\[1\]: unknown key 'to'"),
    "an edge without a source": (
        without("edges", 1, "source"),
        r"edges\[1\]: has no 'source'; expected 'source', 'target'",
    ),
    "an edge without a target": (without("edges", 0, "target"), r"edges\[0\]: has no 'target'"),
    "an edge from nowhere": (with_edge(source="x"), r"edges\[1\].source: there is no node 'x'; expected the id"),
    "an edge to nowhere": (with_edge(target="x"), r"edges\[1\].target: there is no node 'x'; expected the id"),
    "an edge to no text": (with_edge(target={}), r"edges\[1\].target: is an object; expected a string"),
    "an unknown kind of edge": (
        with_edge(kind="directt"),
        r"edges\[1\].kind: unknown kind 'directt'; did you mean 'dir",
    ),
    "a kind of edge that is an object": (
        with_edge(kind={}),
        r"edges\[1\].kind: is an object; expected one of 'direct'",
    ),
    "a condition that is not a string": (
        with_edge(condition=True),
        r"edges\[1\].condition: is true; expected a string",
    ),
    "no entry": (fine(entry_id="none"), "entry_id: is 'none', but the nodes of kind 'entry' are 's'; expected only"),
    "no node of kind entry": (fine(nodes=fine()["nodes"][1:], edges=[]), "the nodes of kind 'entry' are none"),
    "two entries": (with_node(kind="entry"), "entry_id: is 's', but the nodes of kind 'entry' are 's', 't'"),
    "an empty list of exits": (fine(exit_ids=[]), "exit_ids: is empty; expected at least one exit"),
    "an exit without a node": (fine(exit_ids=["e", "x"]), r"exit_ids\[1\]: 'x' is not a node of kind 'exit'"),
    "an exit of another kind": (fine(exit_ids=["t"]), r"exit_ids\[0\]: 't' is not a node of kind 'exit'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_error_names_its_place(write: Write, case: str) -> None:
    """This holds for files and values, and for any order of members."""
    value, problem = WRONG[case]
    values = [value, reordered(value)] if isinstance(value, dict) and len(value) == 6 else [value]
    for content in values:
        path = write("graph.json", json.dumps(content))
        for read in (partial(read_graph, path), partial(graph_of, content, path)):
            with pytest.raises(InputError, match=problem) as raised:
                read()
            assert str(raised.value).startswith(f"{path}: ")


NO_JSON: dict[str, tuple[str | bytes, str]] = {
    "nothing": ("", "is nothing; expected an object"),
    "space": (" \n ", "is nothing; expected an object"),
    "prose": ("a graph", "is not a JSON value; expected an object"),
    "an end that is missing": ('{"name": "a"', r":1: expected '}'"),
    "a comma too many": ('{\n"name": "a",\n}', r":3: is not a JSON value; expected a key"),
    "a missing comma": ('{"name": "a" "framework": "b"}', r":1: expected '}'"),
    "a missing colon": ('{"name" "a"}', r":1: expected ':'"),
    "a missing value": ('{"name":\n}', ": name: is not a JSON value; expected a string"),
    "a text without end": ('{"name": "a}', r":1: Unterminated string"),
    "something after it": (json.dumps(fine()) + "\n{}", r":2: expected the end of the file"),
    "a key that stands twice": ('{"name": "a",\n"name": "b"}', r":2: key 'name' appears twice"),
    "NaN": ('{"nodes": [\n{"id": NaN}]}', r":2: NaN is not a JSON value"),
    "a number that is too long": (f'{{"nodes": [{{"id": {"1" * 5000}}}]}}', r":1: Exceeds the limit"),
    "half a character": (r'{"name": "\ud800"}', r":1: .*surrogates not allowed"),
    "deep nesting": ('{"nodes": ' + "[" * 200_000, r":1: is nested too deeply"),
    "bytes that are no text": (b'{"name":\n"\xff"}', r":2: is not text"),
}


@pytest.mark.parametrize("case", NO_JSON)
def test_invalid_json_is_an_error_with_its_line(write: Write, case: str) -> None:
    """The message also says what was expected."""
    text, problem = NO_JSON[case]
    with pytest.raises(InputError, match=rf"graph\.json.*({problem})"):
        read_graph(write("graph.json", text))


@pytest.mark.parametrize(
    ("part", "twice"),
    slow_but_every(
        2,
        [
            ("nodes", '{"id": "x", "kind": "llm", "id": "y"}'),
            ("nodes", '{"id": "x", "kind": "llm", "metadata": {"a": 1, "a": 1}}'),
            ("edges", '{"source": "n0", "target": "n1", "target": "n2"}'),
            ("edges", '{"source": "n0", "target" : "n1", "condition": "a:b", "target" : "n2"}'),
        ],
    ),
)
def test_a_duplicate_key_in_a_large_graph(write: Write, part: str, twice: str) -> None:
    """The duplicate is found at any place."""
    text = json.dumps(large(5_000, lambda _: "").to_dict(), indent=1)
    for place in (0.3, 0.9):
        start = text.index(f'"{part}"') + int(place * 400_000)
        cut = text.index("\n  },", start) + len("\n  },")
        changed = f"{text[:cut]} {twice},{text[cut:]}"
        with pytest.raises(InputError, match=r"graph.json:(\d+): key '\w+' appears twice") as raised:
            read_graph(write("graph.json", changed))
        assert abs(int(str(raised.value).split(":")[1]) - text.count("\n", 0, cut) - 1) <= 1


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """A missing file and a folder are errors."""
    with pytest.raises(InputError, match=r"none\.json: cannot be read: No such file"):
        read_graph(tmp_path / "none.json")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_graph(tmp_path)


HUGE = {
    "a list of objects": ("[", '{"a": 1}, '),
    "a list of lists": ("[", "[], "),
    "members": ("{", '"nodes": [], '),
    "one unknown member": ('{"data": [', "{}, "),
    "nodes that are empty": ('{"nodes": [', "{}, "),
    "nodes that are lists": ('{"nodes": [', "[0], "),
    "edges that are empty": ('{"edges": [', "{}, "),
    "a long text": ('{"name": "', "abcdefgh"),
    "lines": ("", "no graph at all\n"),
    "brackets": ('{"nodes": ', "["),
    "exits": ('{"exit_ids": [', "{}, "),
}


@pytest.mark.parametrize("case", slow_but_every(3, HUGE))
def test_a_large_json_file_that_is_not_a_graph(tmp_path: Path, case: str) -> None:
    """Twenty million bytes are rejected much faster than they could be read."""
    start, more = HUGE[case]
    path = tmp_path / "huge.json"
    path.write_text(start + more * (20_000_000 // len(more)))
    started = time.process_time()
    with pytest.raises(InputError, match=r"huge\.json"):
        read_graph(path)
    assert time.process_time() - started < 2


# --- the text, piece by piece


def pieces(text: JsonText) -> Iterator[tuple[str, Any]]:
    for key in text.members():
        yield key, list(text.items()) if text.kind() == "a list" else text.value()
    text.end()


@pytest.mark.parametrize("seed", slow_after(2, range(12)))
def test_pieces_equal_what_json_parses(seed: int) -> None:
    """Random objects with random whitespace have equal values."""
    chance = random.Random(seed)  # noqa: S311 - a fixed seed

    def value(depth: int) -> Any:
        kinds: list[Callable[[], Any]] = [
            lambda: chance.choice([None, True, 0, -1.5, "", "}, {", 'a"b', "é\\", "🙂"]),
            lambda: [value(depth - 1) for _ in range(chance.randrange(4))],
            lambda: {f"k{at}": value(depth - 1) for at in range(chance.randrange(4))},
        ]
        return chance.choice(kinds)() if depth else kinds[0]()

    made = {f"k{at}": value(4) for at in range(6)}
    many = [{"a": value(1), "b": value(1)} for _ in range(chance.choice([0, 20_000]))]
    text = json.dumps({**made, "many": many}, indent=chance.choice([None, 1]), ensure_ascii=chance.random() < 0.5)
    assert dict(pieces(JsonText(text.encode()))) == {**made, "many": many}


@pytest.mark.parametrize("seed", slow_after(1, range(4)))
def test_broken_pieces_are_errors_of_one_sort(seed: int) -> None:
    """With a character removed, doubled or changed, the result is a `JsonError` or equals that of json."""
    chance = random.Random(seed)  # noqa: S311 - a fixed seed
    text = json.dumps(fine(), indent=1)
    for _ in range(500):
        at = chance.randrange(len(text))
        broken = text[:at] + chance.choice(["", text[at] * 2, chance.choice('{}[],:"\\0ae \n')]) + text[at + 1 :]
        assert outcome(broken) == expected(broken), broken


def outcome(text: str) -> Any:
    try:
        return dict(pieces(JsonText(text.encode()))) if JsonText(text.encode()).kind() == "an object" else None
    except JsonError:
        return None


def expected(text: str) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError
        return dict(pairs)

    try:
        value = json.loads(text, object_pairs_hook=unique)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


# --- the marks of unknown tools and assumed edges


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
