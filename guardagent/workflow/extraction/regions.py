"""Regions of a graph and their composition, for frameworks in which agents contain other agents.

A region is the part of a graph that one agent or a group of agents adds, with its entries and exits. Extractors build
regions from the inside and connect them from the outside. At last, `cancelled_nodes` finds the nodes that are cancelled
when one of several parallel branches ends the run for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from guardagent.workflow.model.graph import (
    END,
    START,
    EdgeKind,
    Graph,
    GraphBuilder,
    MarkKey,
    Node,
    NodeKind,
    Unseen,
    merged,
    unknown_parts,
)


@dataclass(frozen=True)
class RegionEntry:
    """An entry of a region; `parallel` if a run takes it together with others."""

    node: str
    kind: EdgeKind = "direct"
    condition: str = ""


@dataclass(frozen=True)
class RegionExit:
    """An exit of a region.

    Attributes:
        node: the last node.
        condition: when a run leaves there.
        conditional: the run can also continue elsewhere.
        escalated: the run leaves the enclosing loop, too.
        joins: the next node waits for all exits that join.
        back: the next node begins another round of a loop.
    """

    node: str
    condition: str = ""
    conditional: bool = False
    escalated: bool = False
    joins: bool = False
    back: bool = False


@dataclass(frozen=True)
class Region:
    """A part of a graph, with its entries and exits.

    Attributes:
        nodes: all of its nodes.
        empty: a run can pass the region without a node.
    """

    entries: tuple[RegionEntry, ...] = ()
    exits: tuple[RegionExit, ...] = ()
    nodes: frozenset[str] = frozenset()
    empty: bool = False


EMPTY_REGION = Region(empty=True)


def single(node: str, *, conditional: bool = False, condition: str = "") -> Region:
    """Returns the region of one node."""
    return Region((RegionEntry(node),), (RegionExit(node, condition, conditional),), frozenset({node}))


class Assembly:
    """Collects the nodes of objects, and connects regions."""

    def __init__(self) -> None:
        self._drafts: dict[str, Node] = {}
        self._edges: dict[tuple[str, str, EdgeKind], dict[str, None]] = {}
        self._ids: dict[int, tuple[object, str]] = {}  # with the objects, so that Python does not reuse their ids
        self._used_ids = {START, END}
        self._joins: dict[str, dict[str, None]] = {}
        self._notes: list[str] = []

    def id(self, owner: object, name: str, within: tuple[str, ...] = ()) -> str:
        """Returns the node of an object: its name, or a path if the name is in use."""
        if id(owner) not in self._ids:
            self._ids[id(owner)] = (owner, self._unused_id(name, within))
            self._used_ids.add(self._ids[id(owner)][1])
        return self._ids[id(owner)][1]

    def _unused_id(self, name: str, within: tuple[str, ...]) -> str:
        places = ["/".join((*within[depth:], name)) for depth in range(len(within), -1, -1)]
        numbered = (f"{places[-1]}#{number}" for number in range(2, len(self._used_ids) + 3))
        return next(place for place in (*places, *numbered) if place not in self._used_ids)

    def has(self, node: str) -> bool:
        """Whether a node has a description."""
        return node in self._drafts

    def kind(self, node: str) -> NodeKind | None:
        """Returns the kind of a node; None if it has no description."""
        return self._drafts[node].kind if node in self._drafts else None

    def set_kind(self, node: str, kind: NodeKind) -> None:
        """Changes the kind of a node."""
        self._drafts[node] = replace(self._drafts[node], kind=kind)

    def metadata_of(self, node: str, key: str) -> Any:
        """Returns the metadata of a node under a key; None if there is none."""
        return self._drafts[node].metadata.get(key)

    def describe(
        self,
        node: str,
        kind: NodeKind,
        label: str,
        *,
        tools: Iterable[str] = (),
        gated_tools: Iterable[str] = (),
        **metadata: Any,
    ) -> str:
        """Describes a node, and returns its id; leaves out empty values of `metadata`."""
        known = {key: value for key, value in metadata.items() if value not in (None, (), [], {}, False, "")}
        self._drafts[node] = Node(node, kind, label, tuple(tools), tuple(gated_tools), known)
        return node

    def mark(self, node: str, **metadata: Any) -> None:
        """Adds metadata to a node."""
        draft = self._drafts[node]
        self._drafts[node] = replace(draft, metadata={**draft.metadata, **metadata})

    def mark_unknown(self, node: str, key: MarkKey, *unknown: Unseen | str) -> None:
        """Marks a node with what is unknown about its tools or its edges; the notes of the graph follow."""
        self.mark(node, **{key: merged(self.metadata_of(node, key), *unknown)})

    def note(self, text: str) -> None:
        """Adds a remark for human readers."""
        self._notes.append(text)

    def connect(self, exits: Iterable[RegionExit], entries: Iterable[RegionEntry]) -> None:
        """Connects every exit with every entry."""
        exits, entries = tuple(exits), tuple(entries)
        joining = {region_exit.node for region_exit in exits if region_exit.joins}
        for entry in entries:
            for region_exit in exits:
                kind: EdgeKind = (
                    "loop" if region_exit.back else "conditional" if region_exit.conditional else entry.kind
                )
                self._edges.setdefault((region_exit.node, entry.node, kind), {})[
                    entry.condition or region_exit.condition
                ] = None
            if len(joining) > 1 and entry.node != END:
                self._joins.setdefault(entry.node, {}).update(dict.fromkeys(sorted(joining)))

    def insert(self, graph: Graph, name: str) -> Region:
        """Adds the nodes of another graph under a name, and returns its region."""
        ids = {node.id: self.id(node, node.id, (name,)) for node in graph.nodes if node.id not in (START, END)}
        for node in graph.nodes:
            if node.id in ids:
                shown = {"tools": node.tools, "gated_tools": node.gated_tools, **node.metadata}
                self.describe(ids[node.id], node.kind, node.label, **shown)
        for edge in graph.edges:
            if edge.source in ids and edge.target in ids:
                self._edges.setdefault((ids[edge.source], ids[edge.target], edge.kind), {})[edge.condition] = None
        marked = set(map(str, unknown_parts(graph.nodes)))
        self._notes += [note for note in graph.notes if note not in marked]
        entries = [
            RegionEntry(ids[edge.target], edge.kind, edge.condition) for edge in graph.edges if edge.source == START
        ]
        exits = [
            RegionExit(ids[edge.source], edge.condition, edge.kind == "conditional")
            for edge in graph.edges
            if edge.target == END and edge.source in ids
        ]
        return Region(tuple(entries), tuple(exits), frozenset(ids.values()))

    def join(self, node: str, before: Iterable[str]) -> None:
        """Makes a node wait for all nodes of `before`."""
        self._joins.setdefault(node, {}).update(dict.fromkeys(before))

    def graph(self, name: str, framework: str, whole: Region) -> Graph:
        """Returns the graph of a run through one region."""
        self.connect([RegionExit(START)], whole.entries)
        self.connect(whole.exits, [RegionEntry(END)])
        if whole.empty:
            self.connect([RegionExit(START)], [RegionEntry(END)])
        builder = GraphBuilder(name, framework)
        for node, draft in self._drafts.items():
            metadata = {**draft.metadata, **({"join": tuple(self._joins[node])} if node in self._joins else {})}
            builder.node(
                node, draft.kind, label=draft.label, tools=draft.tools, gated_tools=draft.gated_tools, **metadata
            )
        self._emit(builder)
        for note in self._notes:
            builder.note(note)
        return builder.graph()

    def _emit(self, builder: GraphBuilder) -> None:
        """Adds one edge for each pair of nodes and kind, with all conditions; edges of a router are conditional."""
        merged: dict[tuple[str, str, EdgeKind], dict[str, None]] = {}
        for (source, target, kind), conditions in self._edges.items():
            draft = self._drafts.get(source)
            final: EdgeKind = "conditional" if draft is not None and draft.kind == "router" else kind
            merged.setdefault((source, target, final), {}).update(conditions)
        for (source, target, kind), conditions in sorted(merged.items(), key=lambda item: item[0][0] != START):
            builder.edge(source, target, kind, " or ".join(filter(None, conditions)))


def sequence(assembly: Assembly, regions: Iterable[Region]) -> Region:
    """Returns regions in sequence; after an escalation, the following exits leave the enclosing loop."""
    whole = Region(empty=True)
    for region in regions:
        assembly.connect(whole.exits, region.entries)
        whole = Region(
            (*whole.entries, *(region.entries if whole.empty else ())),
            (*_propagated(whole.exits, region), *(whole.exits if region.empty else ())),
            whole.nodes | region.nodes,
            whole.empty and region.empty,
        )
    return whole


def _propagated(before: Iterable[RegionExit], region: Region) -> Iterable[RegionExit]:
    """Yields the exits of a region, escalated if a run can enter the region escalated."""
    states = {region_exit.escalated for region_exit in before} or {False}
    for region_exit in region.exits:
        for escalated in sorted(states):
            yield replace(region_exit, escalated=region_exit.escalated or escalated)


def parallel(assembly: Assembly, regions: Iterable[Region], cancelling: Iterable[bool] = ()) -> Region:
    """Returns regions in parallel; the next node waits for all of them.

    Args:
        assembly: the assembly that connects them.
        regions: the branches.
        cancelling: for each branch, whether an escalation in it cancels the others.
    """
    several = tuple(regions)
    running = [region for region in several if region.entries]
    if len(running) < 2:
        return sequence(assembly, several)
    entries = [replace(entry, kind="parallel") for region in running for entry in region.entries]
    exits = [replace(leave, joins=True) for region in running for leave in region.exits]
    if any(leave.escalated for leave in exits):
        exits += [replace(leave, escalated=True) for leave in exits if not leave.escalated]
    nodes = frozenset(node for region in running for node in region.nodes)
    cut = nodes - {leave.node for leave in exits} if any(cancelling) else frozenset()
    exits += [RegionExit(node, "escalate", conditional=True, escalated=True) for node in sorted(cut)]
    return Region(tuple(entries), tuple(exits), nodes, all(region.empty for region in several))


def alternatives(assembly: Assembly, regions: Iterable[Region], repeated: bool) -> Region:  # noqa: FBT001
    """Returns a choice between regions; with `repeated`, any number of them in any order."""
    several = tuple(regions)
    entries = tuple(replace(entry, kind="conditional") for region in several for entry in region.entries)
    exits = tuple(replace(leave, conditional=True) for region in several for leave in region.exits)
    if repeated:
        assembly.connect(exits, entries)
        escalated = any(leave.escalated for leave in exits)
        exits += tuple(replace(leave, escalated=True) for leave in exits if escalated and not leave.escalated)
    nodes = frozenset(node for region in several for node in region.nodes)
    return Region(entries, exits, nodes, repeated or any(region.empty for region in several))


# --- nodes that are cancelled or abandoned

CONDITION = "another branch ended the run"


def cancelled_nodes(following: Mapping[str, Iterable[str]], branches: Iterable[str], joins: Iterable[str]) -> list[str]:
    """Returns the nodes of parallel branches after which the run can end because another branch ends it.

    Args:
        following: the successors of each node.
        branches: the first nodes of the branches.
        joins: the nodes that wait for all branches that lead to them.
    """
    first = list(branches)
    under_way = reachable_nodes(following, first)
    is_closed = any(not _leads(following, first, END, past=join) for join in joins if join in under_way)
    if is_closed or not _leads(following, first, END):
        return []
    return [node for node in under_way if END not in following.get(node, ())]


def abandoned_nodes(
    following: Mapping[str, Iterable[str]], begins: Iterable[str], branches: Iterable[str], join: str,
    joins: Iterable[str],
) -> list[str]:  # fmt: skip
    """Returns the nodes of branches that are abandoned when another branch reaches a join first.

    Args:
        following: the successors of each node.
        begins: the first nodes of the run.
        branches: the first nodes of the branches.
        join: the node that waits only for the first branch.
        joins: all nodes that wait; the branches that such a node awaits on every path to `join` are complete by then.
    """
    start = list(begins)
    over: set[str] = set()
    for other in joins:
        if other != join and not _leads(following, start, join, past=other):
            over |= {other, *reachable_nodes(following, start, other)}
    left = [node for node in reachable_nodes(following, branches, join) if node not in over]
    return [node for node in left if join not in following.get(node, ())]


def reachable_nodes(following: Mapping[str, Iterable[str]], begins: Iterable[str], past: str = END) -> list[str]:
    """Returns the reachable nodes, except the end, without passing the node `past`."""
    reachable_nodes: dict[str, None] = {}
    pending = list(begins)
    while pending:
        node = pending.pop(0)
        if node not in reachable_nodes and node not in {END, past}:
            reachable_nodes[node] = None
            pending.extend(following.get(node, ()))
    return list(reachable_nodes)


def _leads(following: Mapping[str, Iterable[str]], begins: list[str], target: str, past: str = END) -> bool:
    """Whether a node can be reached without passing the node `past`."""
    return target in begins or any(
        target in following.get(node, ()) for node in reachable_nodes(following, begins, past)
    )
