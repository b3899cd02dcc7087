"""Reads a graph from JSON, piece by piece; errors name their place: `graph.json: nodes[3].kind: ...`.

`JsonText` reads an object member by member, and a list item by item. The values of a large file are therefore never in
memory at once, and a file with other content is rejected where it differs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from guardagent._support import json_values
from guardagent._support.execution import without_garbage_collection
from guardagent.errors import InputError, name_hint
from guardagent.types import EMPTY, freeze
from guardagent.workflow.analysis.paths import GraphIndex
from guardagent.workflow.model.graph import EDGE_KINDS, NODE_KINDS, Edge, Graph, Node, mark_problem

_CHUNK = 200_000  # characters that are read at once
_BETWEEN = re.compile(r"\}(?=[ \t\n\r]*,[ \t\n\r]*\{)")  # between objects of a list, but also within a string
_SPACE = re.compile(r"[ \t\n\r]*")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # half of a surrogate pair: invalid without the other half
Scan = Callable[[str, int], tuple[Any, int]]
_KINDS = {"{": "an object", "[": "a list", '"': "a string", "t": "true", "f": "false", "n": "null", "": "nothing"}
_KINDS |= dict.fromkeys("-0123456789", "a number")


class JsonError(Exception):
    """The file is not valid JSON; has the line and the problem."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.line = line


class JsonText:
    """A JSON text with a position.

    All methods raise `JsonError`. Read each value completely before the next one.

    Args:
        data: the bytes of a file.
    """

    def __init__(self, data: bytes) -> None:
        self._text, self._at = "", 0
        try:
            self._text = data.decode(json.detect_encoding(data))
        except UnicodeDecodeError as error:
            raise JsonError(f"is not text: {error.reason}", data.count(b"\n", 0, error.start) + 1) from None
        self._no_chunk_before = 0
        self._scan = _scanner(self._text, json_values.unique_keys)
        self._scan_quickly = _scanner(self._text, None)  # of a duplicate key, it takes the last value
        self._skip()

    def kind(self) -> str:
        """Names the kind of the value at this position."""
        return _KINDS.get(self._text[self._at : self._at + 1], "not a JSON value")

    def value(self) -> Any:
        """Reads the value at this position."""
        try:
            value, self._at = self._scan(self._text, self._at)
        except json.JSONDecodeError as error:
            self._fail(error.msg, error.pos)
        except StopIteration as stop:
            self._fail("expected a value", stop.value)
        except RecursionError:
            self._fail("is nested too deeply", self._at)
        except ValueError as error:
            self._fail(str(error), self._at)
        self._skip()
        return value

    def members(self) -> Iterator[str]:
        """Yields the keys of the object at this position; read the value after each key."""
        seen: set[str] = set()
        for _ in self._separated("}"):
            if self.kind() != "a string":
                self._fail(f"is {self.kind()}; expected a key", self._at)
            key = self.value()
            if key in seen:
                self._fail(json_values.duplicate_key_message(key), self._at)
            seen.add(key)
            self._expect(":")
            yield key

    def items(self) -> Iterator[Any]:
        """Yields the items of the list at this position."""
        for _ in self._separated("]"):
            yield from self._chunk() or [self.value()]

    def _chunk(self) -> list[Any]:
        """Reads many items at once if they are valid objects; else returns an empty list."""
        if self._at < self._no_chunk_before:
            return []
        between = _BETWEEN.search(self._text, self._at + _CHUNK)
        self._no_chunk_before = between.end() if between else len(self._text)
        if between is None:
            return []
        text = f"[{self._text[self._at : between.end()]}]"
        try:
            items, end = self._scan_quickly(text, 0)
            if text.count(":") != sum(map(dict.__len__, items)):  # a duplicate key, or keys or colons in values
                items, end = self._scan(text, 0)
        except (ValueError, StopIteration, RecursionError, TypeError):
            return []  # the chunk ends within an item, or has an error: reading item by item finds which
        if end < len(text):
            return []  # the list ends earlier
        self._at = between.end()
        self._skip()
        return items  # type: ignore[no-any-return]

    def end(self) -> None:
        """Checks that the text ends here."""
        if self._at < len(self._text):
            self._fail("expected the end of the file", self._at)

    def _separated(self, closing: str) -> Iterator[None]:
        """Yields before each member or item, for the caller to read it."""
        self._at += 1
        self._skip()
        if self._text.startswith(closing, self._at):
            self._expect(closing)
            return
        yield
        while self._text.startswith(",", self._at):
            self._expect(",")
            yield
        self._expect(closing)

    def _expect(self, sign: str) -> None:
        if not self._text.startswith(sign, self._at):
            self._fail(f"expected {sign!r}", self._at)
        self._at += 1
        self._skip()

    def _skip(self) -> None:
        self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]  # it also matches an empty string

    def _fail(self, problem: str, at: int) -> NoReturn:
        raise JsonError(problem, self._text.count("\n", 0, at) + 1) from None


def _scanner(text: str, hook: Callable[[list[tuple[str, Any]]], Any] | None) -> Scan:
    """Returns a function that reads one value and returns it with its end."""
    scan: Scan = json_values.decoder(object_pairs_hook=hook).scan_once  # type: ignore[attr-defined]
    if not _SURROGATE.search(text):
        return scan

    def scan_whole(text: str, at: int) -> tuple[Any, int]:
        value, end = scan(text, at)
        json.dumps(value, ensure_ascii=False).encode()  # fails on a lone surrogate
        return value, end

    return scan_whole


# --- graphs

MAX_BYTES = 1_500_000_000
MAX_DEPTH = 50  # of the metadata of a node
_EXPECTED = {
    "name": "a string",
    "framework": "a string",
    "entry_id": "a string",
    "exit_ids": "a list",
    "nodes": "a list",
    "edges": "a list",
    "notes": "a list",
    "file": "a string",
    "line": "a number",
}
_PLACE = ("file", "line")  # where a graph of a list was found; they are not part of it
_REQUIRED = ("entry_id", "exit_ids", "nodes", "edges")
_NODE_KEYS = frozenset({"id", "kind", "label", "tools", "gated_tools", "metadata"})
_EDGE_KEYS = frozenset({"source", "target", "kind", "condition"})
_KINDS_OF_NODES = {kind: kind for kind in NODE_KINDS}  # so that equal strings are one object
_KINDS_OF_EDGES = {kind: kind for kind in EDGE_KINDS}
_NONE: list[str] = []
_NOTES_MISSING = (
    "the file has no 'notes' about hidden parts of the workflow, so nothing is proved for every run; write it again "
    "with 'guardagent graph TARGET --format json --out FILE', or add '\"notes\": []' if it was written by hand"
)

Member = tuple[str, str, Callable[[], Any]]  # (key, kind of its value, function that returns the value)


def read_graph(path: Path | str) -> Graph:
    """Reads the graph in a JSON file.

    Raises:
        InputError: the file cannot be read or is not a graph; the message names the place and what was expected.
    """
    path = Path(path)
    try:
        with without_garbage_collection():
            if path.stat().st_size > MAX_BYTES:
                raise InputError(f"{path}: is larger than {MAX_BYTES:,} bytes")
            text = JsonText(path.read_bytes())
            return _GraphReader(path).graph(text.kind(), _members(text))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except JsonError as error:
        raise InputError(f"{path}:{error.line}: {error}") from None


def graph_of(value: Any, path: Path | str = "graph") -> Graph:
    """Reads the graph of a JSON value.

    Raises:
        InputError: as `read_graph`.
    """
    return _GraphReader(path).graph(_kind(value), _parsed_members(value))


def _members(text: JsonText) -> Iterator[Member]:
    for key in text.members():
        kind = text.kind()
        yield key, kind, text.items if kind == "a list" else text.value
    text.end()


def _parsed_members(value: Any) -> Iterator[Member]:
    for key in value:
        yield key, _kind(value[key]), partial(value.get, key)


def _kind(value: Any) -> str:
    """Names the kind of a JSON value."""
    kinds = {dict: "an object", list: "a list", str: "a string", bool: str(value).lower(), type(None): "null"}
    return kinds.get(type(value), "a number")


class _GraphReader:
    """Reads one graph: valid parts fast, invalid parts again to find the error.

    Args:
        path: the file, with which messages begin.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = path
        self._ids: list[str] = []
        self._numbers: dict[str, int] = {}
        self._tools: dict[tuple[str, ...], tuple[str, ...]] = {}  # many nodes have the same tools

    def fail(self, place: str, problem: str) -> NoReturn:
        raise InputError(f"{self._path}: {f'{place}: ' if place else ''}{problem}")

    def graph(self, kind: str, members: Iterable[Member]) -> Graph:
        if kind != "an object":
            self.fail("", f"is {kind}; expected an object with {', '.join(map(repr, _REQUIRED))}")
        graph: dict[str, Any] = {"name": Path(self._path).stem, "framework": "json"}
        for key, its_kind, read in members:
            if key not in _EXPECTED:
                self.fail("", f"unknown key {key!r}{name_hint(key, _EXPECTED)}")
            if its_kind != _EXPECTED[key]:
                self.fail(key, f"is {its_kind}; expected {_EXPECTED[key]}")
            graph[key] = self.member(key, read(), nodes_known="nodes" in graph)
        if missing := [key for key in _REQUIRED if key not in graph]:
            self.fail("", f"has no {missing[0]!r}; expected {', '.join(map(repr, _REQUIRED))}")
        return self.assembled(graph)

    def member(self, key: str, value: Any, *, nodes_known: bool) -> Any:
        """Reads a member of the graph; of edges before the nodes, checks only their form."""
        match key:
            case "nodes":
                return tuple([self.node(entry, at) for at, entry in enumerate(value)])
            case "edges":
                return (
                    self.edges(value) if nodes_known else [self.check_edge(entry, at) for at, entry in enumerate(value)]
                )
            case "exit_ids" | "notes":
                return tuple([self.string(entry, f"{key}[{at}]") for at, entry in enumerate(value)])
        return value

    def assembled(self, values: dict[str, Any]) -> Graph:
        if type(values["edges"]) is list:
            values["edges"] = self.edges(values["edges"])
        edges, sources, targets = values.pop("edges")
        if values["framework"] != "json":  # written by an extractor; a graph written by hand needs no notes
            values.setdefault("notes", (_NOTES_MISSING,))
        for key in _PLACE:
            values.pop(key, None)
        graph = Graph(**values, edges=edges)
        self.check_ends(graph)
        self.check_joins(graph)
        GraphIndex(self._ids, self._numbers, sources, targets).kept_on(graph)
        return graph

    def check_joins(self, graph: Graph) -> None:
        """Checks that each node waits for other nodes of the graph, or for some that are not known (`true`)."""
        for at, node in enumerate(graph.nodes):
            join, place = node.metadata.get("join"), f"nodes[{at}].metadata.join"
            if join is None or type(join) is bool:
                continue
            if not isinstance(join, tuple):
                self.fail(place, "expected a list of the nodes for which it waits, or true")
            for name in join:
                if type(name) is not str or name not in self._numbers or name == node.id:
                    self.fail(place, f"{str(name)[:60]!r} is not another node; expected the id of one")

    # --- nodes

    def node(self, value: Any, at: int) -> Node:
        if type(value) is not dict:
            self.fail_node(value, at)
        get = value.get
        name, kind, label = get("id"), get("kind"), get("label", "")
        tools, gated, metadata = get("tools", _NONE), get("gated_tools", _NONE), get("metadata", EMPTY)
        if not (
            type(name) is type(kind) is type(label) is str
            and name
            and kind in _KINDS_OF_NODES
            and name not in self._numbers
            and value.keys() <= _NODE_KEYS
            and type(tools) is type(gated) is list
            and (not tools or (_are_strings(tools) and _are_strings(gated)))
            and (tools or not gated)
            and (not gated or set(gated) <= set(tools))
            and (
                metadata is EMPTY
                or (type(metadata) is dict and not _is_deeper(metadata, MAX_DEPTH) and not mark_problem(metadata))
            )
        ):
            self.fail_node(value, at)
        self._numbers[name] = len(self._ids)
        self._ids.append(name)
        return Node(
            name,
            _KINDS_OF_NODES[kind],
            label,
            self.shared(tools) if tools else (),
            self.shared(gated) if gated else (),
            freeze(metadata) if metadata else EMPTY,
        )

    def shared(self, tools: list[str]) -> tuple[str, ...]:
        once = tuple(tools) if len(tools) == 1 else tuple(dict.fromkeys(tools))
        return self._tools.setdefault(once, once)

    def fail_node(self, value: Any, at: int) -> NoReturn:
        place = f"nodes[{at}]"
        self.keys(value, place, _NODE_KEYS, required=("id", "kind"))
        place += "."
        name = self.string(value["id"], f"{place}id")
        if name in self._numbers:
            self.fail(f"{place}id", f"{name!r} is already the id of another node; expected a unique id")
        self.choice(value["kind"], f"{place}kind", NODE_KINDS)
        self.string(value.get("label", ""), f"{place}label", empty=True)
        tools, gated = self.strings(value, "tools", place), self.strings(value, "gated_tools", place)
        if unknown := sorted(set(gated) - set(tools)):
            self.fail(f"{place}gated_tools", f"{unknown[0]!r} is not one of its tools{name_hint(unknown[0], tools)}")
        metadata = value.get("metadata", {})
        if type(metadata) is not dict:
            self.fail(f"{place}metadata", f"is {_kind(metadata)}; expected an object")
        if _is_deeper(metadata, MAX_DEPTH):
            self.fail(f"{place}metadata", f"is nested more than {MAX_DEPTH} levels deep")
        where, problem = mark_problem(metadata) or ("", "")
        self.fail(f"{place}metadata.{where}", problem)

    # --- edges

    def edges(self, values: Iterable[Any]) -> tuple[tuple[Edge, ...], list[int], list[int]]:
        """Reads the edges, with the numbers of their sources and targets."""
        numbers, kinds = self._numbers, _KINDS_OF_EDGES
        edges, sources, targets = [], [], []
        for at, value in enumerate(values):
            try:
                first, second = value["source"], value["target"]
                source, target = numbers[first], numbers[second]
                kind, condition = kinds[value.get("kind", "direct")], value.get("condition", "")
            except (LookupError, TypeError, AttributeError):
                self.fail_edge(value, at)
            if type(condition) is not str or not value.keys() <= _EDGE_KEYS:
                self.fail_edge(value, at)
            sources.append(source)
            targets.append(target)
            edges.append(Edge(first, second, kind, condition))
        return tuple(edges), sources, targets

    def fail_edge(self, value: Any, at: int) -> NoReturn:
        self.check_edge(value, at)
        for end in ("source", "target"):
            if value[end] not in self._numbers:
                self.fail(f"edges[{at}].{end}", f"there is no node {value[end][:60]!r}; expected the id of a node")
        raise AssertionError(value)

    def check_edge(self, value: Any, at: int) -> Any:
        """Checks an edge, except whether its nodes exist."""
        place = f"edges[{at}]"
        self.keys(value, place, _EDGE_KEYS, required=("source", "target"))
        self.string(value["source"], f"{place}.source")
        self.string(value["target"], f"{place}.target")
        self.choice(value.get("kind", "direct"), f"{place}.kind", EDGE_KINDS)
        self.string(value.get("condition", ""), f"{place}.condition", empty=True)
        return value

    # --- small pieces

    def keys(self, value: Any, place: str, known: Collection[str], required: Collection[str]) -> None:
        if type(value) is not dict:
            self.fail(place, f"is {_kind(value)}; expected an object with {', '.join(map(repr, required))}")
        for key in value:
            if key not in known:
                self.fail(place, f"unknown key {key[:60]!r}{name_hint(key[:60], known)}")
        for key in required:
            if key not in value:
                self.fail(place, f"has no {key!r}; expected {', '.join(map(repr, required))}")

    def string(self, value: Any, place: str, *, empty: bool = False) -> str:
        if type(value) is not str or not (value or empty):
            self.fail(place, f"is {_kind(value) if value != '' else 'empty'}; expected a string")
        return value

    def strings(self, value: Mapping[str, Any], key: str, place: str) -> list[str]:
        strings = value.get(key, _NONE)
        if type(strings) is not list:
            self.fail(f"{place}{key}", f"is {_kind(strings)}; expected a list of strings")
        for at, string in enumerate(strings):
            self.string(string, f"{place}{key}[{at}]")
        return strings

    def choice(self, value: Any, place: str, known: Collection[str]) -> None:
        if type(value) is not str:
            self.fail(place, f"is {_kind(value)}; expected one of {', '.join(map(repr, known))}")
        if value not in known:
            self.fail(place, f"unknown kind {value[:60]!r}{name_hint(value[:60], known)}")

    def check_ends(self, graph: Graph) -> None:
        """Checks that there is one entry and at least one exit."""
        entries = [node.id for node in graph.nodes if node.kind == "entry"]
        if entries != [graph.entry_id]:
            names = ", ".join(map(repr, entries[:5])) or "none"
            self.fail(
                "entry_id", f"is {graph.entry_id!r}, but the nodes of kind 'entry' are {names}; expected only this one"
            )
        if not graph.exit_ids:
            self.fail("exit_ids", "is empty; expected at least one exit")
        for at, exit_id in enumerate(graph.exit_ids):
            number = self._numbers.get(exit_id)
            if number is None or graph.nodes[number].kind != "exit":
                self.fail(f"exit_ids[{at}]", f"{exit_id!r} is not a node of kind 'exit'")


def _are_strings(values: list[Any]) -> bool:
    return all([type(value) is str and value for value in values])  # noqa: C419 - for few values, a list is quicker


def _is_deeper(value: Any, depth: int) -> bool:
    """Whether objects and lists are nested deeper than `depth`."""
    inner = value.values() if type(value) is dict else value if type(value) is list else ()
    return bool(inner) and (depth == 0 or any(_is_deeper(part, depth - 1) for part in inner))
