"""Reads a graph from its JSON, and says where what is wrong stands: `graph.json: nodes[3].kind: ...`."""

from __future__ import annotations

import gc
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from guardagent.errors import InputError, nearest
from guardagent.types import EMPTY, freeze
from guardagent.workflow.graph import EDGE_KINDS, NODE_KINDS, Edge, Graph, Node

MAX_BYTES = 1_500_000_000
_GRAPH_KEYS = ("name", "framework", "entry_id", "exit_ids", "nodes", "edges")
_NODE_KEYS = frozenset({"id", "kind", "label", "tools", "gated_tools", "metadata"})
_EDGE_KEYS = frozenset({"source", "target", "kind", "condition"})


def read_graph(path: Path | str) -> Graph:
    """The graph in a JSON file.

    Raises:
        InputError: it cannot be read, or is no graph; with the place in it, and what was expected there.
    """
    path = Path(path)
    with _without_collections():
        return graph_of(_loaded(path), path)


@contextmanager
def _without_collections() -> Iterator[None]:
    """A large graph is millions of objects, none of them garbage: looking for some takes most of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _loaded(path: Path) -> Any:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path}: is larger than {MAX_BYTES:,} bytes")
        return json.loads(path.read_bytes(), object_pairs_hook=_object)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except _TwiceError as error:
        raise InputError(f"{path}: the key {error} stands twice in one object; expected it once") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: is no JSON: {error.msg}") from None
    except (ValueError, RecursionError, UnicodeError) as error:
        raise InputError(f"{path}: is no JSON: {error}") from None


class _TwiceError(Exception):
    pass


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(repr(next(name for name in names if names.count(name) > 1)))
    return found


def graph_of(value: Any, path: Path | str = "graph") -> Graph:
    """The graph of a JSON value.

    Raises:
        InputError: as `read_graph`.
    """
    reader = _Reader(path)
    reader.keys(value, "", frozenset(_GRAPH_KEYS), required=("entry_id", "exit_ids", "nodes", "edges"))
    nodes = [reader.node(one, at) for at, one in enumerate(reader.items(value, "nodes"))]
    ids = {node.id for node in nodes}
    if len(ids) < len(nodes):
        reader.twice(nodes)
    edges = [reader.edge(one, at, ids) for at, one in enumerate(reader.items(value, "edges"))]
    graph = Graph(
        name=reader.text(value, "name", default=Path(path).stem),
        framework=reader.text(value, "framework", default="json"),
        entry_id=reader.text(value, "entry_id"),
        exit_ids=tuple(reader.texts(value, "exit_ids")),
        nodes=tuple(nodes),
        edges=tuple(edges),
    )
    reader.ends(graph, ids)
    return graph


class _Reader:
    def __init__(self, path: Path | str) -> None:
        self._path = path

    def wrong(self, place: str, problem: str) -> NoReturn:
        raise InputError(f"{self._path}: {f'{place}: ' if place else ''}{problem}")

    def keys(self, value: Any, place: str, known: Collection[str], required: Collection[str]) -> None:
        if type(value) is not dict:
            self.wrong(place, f"is a {type(value).__name__}; expected an object with {', '.join(required)}")
        for key in value:
            if key not in known:
                self.wrong(place, f"unknown key {key!r}{nearest(key, known)}")
        for key in required:
            if key not in value:
                self.wrong(place, f"has no {key!r}; expected {', '.join(required)}")

    def items(self, value: Mapping[str, Any], key: str) -> list[Any]:
        found = value.get(key, [])
        if type(found) is not list:
            self.wrong(key, f"is a {type(found).__name__}; expected a list")
        return found

    def text(self, value: Mapping[str, Any], key: str, place: str = "", default: str | None = None) -> str:
        found = value.get(key, default)
        if type(found) is not str or (default is None and not found):
            self.wrong(f"{place}{key}", f"is {str(found)[:60]!r}; expected a text")
        return found

    def texts(self, value: Mapping[str, Any], key: str, place: str = "") -> list[str]:
        found = value.get(key, [])
        if type(found) is not list or not all(type(one) is str and one for one in found):
            self.wrong(f"{place}{key}", "is no list of texts; expected one")
        return found

    def choice(self, value: Mapping[str, Any], key: str, place: str, known: Collection[str], default: str) -> Any:
        found = value.get(key, default)
        if found not in known:
            self.wrong(f"{place}{key}", f"unknown kind {str(found)[:60]!r}{nearest(str(found)[:60], known)}")
        return found

    def node(self, value: Any, at: int) -> Node:
        place = f"nodes[{at}]"
        if type(value) is not dict or not value.keys() <= _NODE_KEYS or "id" not in value or "kind" not in value:
            self.keys(value, place, _NODE_KEYS, required=("id", "kind"))
        place += "."
        metadata = value.get("metadata") or EMPTY
        if metadata is not EMPTY and type(metadata) is not dict:
            self.wrong(f"{place}metadata", f"is a {type(metadata).__name__}; expected an object")
        tools, gated = self.texts(value, "tools", place), self.texts(value, "gated_tools", place)
        if gated and not set(gated) <= set(tools):
            unknown = min(set(gated) - set(tools))
            self.wrong(f"{place}gated_tools", f"{unknown!r} is none of its tools{nearest(unknown, tools)}")
        return Node(
            self.text(value, "id", place),
            self.choice(value, "kind", place, NODE_KINDS, ""),
            self.text(value, "label", place, default=""),
            tuple(tools),
            tuple(gated),
            metadata if metadata is EMPTY else freeze(metadata),
        )

    def edge(self, value: Any, at: int, ids: Collection[str]) -> Edge:
        place = f"edges[{at}]"
        if type(value) is not dict or not value.keys() <= _EDGE_KEYS or "source" not in value or "target" not in value:
            self.keys(value, place, _EDGE_KEYS, required=("source", "target"))
        place += "."
        for end in ("source", "target"):
            if value[end] not in ids:
                self.wrong(f"{place}{end}", f"there is no node {str(value[end])[:60]!r}; expected the id of one")
        kind = self.choice(value, "kind", place, EDGE_KINDS, "direct")
        return Edge(value["source"], value["target"], kind, self.text(value, "condition", place, default=""))

    def twice(self, nodes: list[Node]) -> NoReturn:
        seen: set[str] = set()
        for at, node in enumerate(nodes):
            if node.id in seen:
                self.wrong(f"nodes[{at}].id", f"{node.id!r} is the id of another node already; expected one of its own")
            seen.add(node.id)
        raise AssertionError

    def ends(self, graph: Graph, ids: Collection[str]) -> None:
        """There is one entry, and at least one exit."""
        entries = [node.id for node in graph.nodes if node.kind == "entry"]
        if entries != [graph.entry_id]:
            found = ", ".join(map(repr, entries[:5])) or "none"
            self.wrong(
                "entry_id", f"is {graph.entry_id!r}, and the nodes of kind entry are {found}; expected just that one"
            )
        if not graph.exit_ids:
            self.wrong("exit_ids", "is empty; expected at least one exit")
        for exit_id in graph.exit_ids:
            if exit_id not in ids or graph.by_id[exit_id].kind != "exit":
                self.wrong("exit_ids", f"{exit_id!r} is no node of kind exit")
