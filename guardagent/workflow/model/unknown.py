"""The parts of a graph that an extractor could not see, each with its reason and its place in the source.

Two keys of a node's metadata hold such a mark: `tools_unknown` says why the node may call tools that are not listed,
and `widened` says why its edges are assumed. The notes of a graph, its reports and its proofs read the marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from guardagent.errors import name_hint

MarkKey = Literal["tools_unknown", "widened"]
TOOLS: MarkKey = "tools_unknown"
EDGES: MarkKey = "widened"
MARKS: tuple[MarkKey, ...] = (TOOLS, EDGES)
_KEYS = ("reason", "line", "file")
_UNRECORDED = "the reason is not recorded"
MOST_REASONS = 4  # in one mark


@dataclass(frozen=True, slots=True)
class Unseen:
    """One thing that could not be seen.

    Attributes:
        reason: the reason, as the end of a sentence.
        line: the line in the source, if it is known.
        file: the file of the line; empty if it is the file of the node.
    """

    reason: str
    line: int | None = None
    file: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.file and self.line else f"line {self.line}: " if self.line else ""
        return f"{place}{self.reason}"

    def inside(self, what: str) -> Unseen:
        """Returns the same as a part of something, such as a tool."""
        return replace(self, reason=f"{what}: {self.reason}")

    def to_dict(self) -> dict[str, Any]:
        return {"reason": self.reason, "line": self.line, **({"file": self.file} if self.file else {})}


class MarkedNode(Protocol):
    """The part of a node that has its marks."""

    @property
    def id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class UnknownPart:
    """An unknown part of a graph: the node, the key of the mark, and what could not be seen.

    A mark on the entry is for parts of the workflow that have no node.
    """

    node: MarkedNode
    key: MarkKey
    unknown: Unseen

    def __str__(self) -> str:
        if self.key == TOOLS:
            whose = "the workflow" if self.node.kind == "entry" else f"{self.node.id}:"
            return f"{whose} may call tools that cannot be seen: {self.unknown}"
        return f"{self.node.id}: its edges are assumed: {self.unknown}"

    def to_dict(self) -> dict[str, Any]:
        return {"node": self.node.id, "mark": self.key, **self.unknown.to_dict()}


def mark(*several: Unseen | str | None) -> dict[str, Any] | None:
    """Returns the mark for a node's metadata; None if nothing is unknown. The first one gives the place."""
    found = list(dict.fromkeys(Unseen(one) if isinstance(one, str) else one for one in several if one))
    if not found:
        return None
    more = [f"and {len(found) - MOST_REASONS} more"] if len(found) > MOST_REASONS else []
    reasons = "; ".join([found[0].reason, *map(str, found[1:MOST_REASONS]), *more])
    return replace(found[0], reason=reasons).to_dict()


def merged(old: object, *more: Unseen | str | None) -> dict[str, Any] | None:
    """Returns the mark for what another mark says, and more."""
    return mark(_read(old) if old else None, *more)


def unknown_tools(node: MarkedNode) -> Unseen | None:
    """Returns why a node may call tools that are not listed; None if all its tools are known."""
    metadata = node.metadata
    if not metadata:
        return None
    if value := metadata.get(TOOLS):
        return _read(value)
    if several := metadata.get("unknown_tools"):
        return Unseen(f"the members of {', '.join(map(repr, several))} are known only at run time")
    return None


def assumed_edges(node: MarkedNode) -> Unseen | None:
    """Returns why the edges out of a node are assumed; None if they are known."""
    value = node.metadata.get(EDGES) if node.metadata else None
    return _read(value) if value else None


def unknown_parts(nodes: Iterable[MarkedNode]) -> Iterator[UnknownPart]:
    """Yields the unknown parts of a graph, node by node."""
    for node in nodes:
        if not node.metadata:
            continue
        tools, edges = unknown_tools(node), assumed_edges(node)
        if tools:
            yield UnknownPart(node, TOOLS, tools)
        if edges and edges != tools:
            yield UnknownPart(node, EDGES, edges)


def _read(value: object) -> Unseen:
    """Reads a mark; any other true value is a mark without a reason, as earlier versions wrote."""
    if not isinstance(value, Mapping):
        return Unseen(_UNRECORDED)
    return Unseen(str(value.get("reason") or _UNRECORDED), value.get("line"), str(value.get("file") or ""))


def mark_problem(metadata: Mapping[str, Any]) -> tuple[str, str] | None:
    """Returns the place and the problem of a wrong mark in the metadata of a JSON file; None if there is none."""
    for key in MARKS:
        value = metadata.get(key)
        if value is None or type(value) is bool:
            continue
        if not isinstance(value, Mapping):
            return key, "expected true, or an object with 'reason' and 'line'"
        if problem := _problem_in(value):
            return f"{key}.{problem[0]}" if problem[0] else key, problem[1]
    return None


def _problem_in(value: Mapping[str, Any]) -> tuple[str, str] | None:
    if wrong := next((one for one in value if one not in _KEYS), None):
        return "", f"unknown key {wrong[:60]!r}{name_hint(wrong[:60], _KEYS)}"
    reason, line, file = (value.get(key) for key in _KEYS)
    if type(reason) is not str or not reason:
        return "reason", "expected a string that says why"
    if line is not None and (type(line) is not int or line < 1):
        return "line", "expected a line number from 1, or null"
    if "file" in value and (type(file) is not str or not file):
        return "file", "expected the path of a file"
    return None
