"""Graph flows: the directed graph determines the next speakers.

A flow also stops where no edge condition holds, where the next speaker waits for others that never come, and where its
termination condition is met. These early stops are exits of a flow inside another team; for a flow by itself they are
omitted, with a note.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from guardagent.errors import InputError, name_hint
from guardagent.frameworks.autogen.extractor.activation import ActivationAnalysis, condition_text, is_exhaustive
from guardagent.frameworks.autogen.extractor.termination import Termination
from guardagent.frameworks.autogen.extractor.turns import TeamTurn
from guardagent.workflow.extraction.objects import private_attribute
from guardagent.workflow.extraction.regions import Assembly, Region
from guardagent.workflow.model.graph import EdgeKind

STOPS_EARLY = "stops early"
_DISTRIBUTION = "autogen-agentchat"


def graph_of(team: Any) -> Any:
    """The graph of a flow; may be unknown when read from source."""
    return private_attribute(team, "_graph", _DISTRIBUTION)


def flow(assembly: Assembly, team: Any, turns: list[TeamTurn], stop: Termination) -> Region:
    """Connects the participants by the edges of the graph."""
    graph = graph_of(team)
    by_name = {turn.name: turn for turn in turns}
    for name in graph.nodes:
        if name not in by_name:
            raise InputError(
                f"the graph of {team.name!r} names {name!r}, which is not a participant{name_hint(name, by_name)}"
            )
    for name, node in graph.nodes.items():
        _connect(assembly, by_name, by_name[name], node.edges)
    _groups(assembly, by_name, graph)
    starts = sorted(graph.get_start_nodes(), key=list(graph.nodes).index)
    entries = [entry for name in starts for entry in by_name[name].region.entries]
    waits = ActivationAnalysis(graph)
    exits = [leave for name in graph.nodes if not graph.nodes[name].edges for leave in by_name[name].region.exits]
    exits += [
        replace(leave, condition=f"{STOPS_EARLY}: {why}", conditional=True)
        for name, node in graph.nodes.items()
        for why in _early_stops(name, node.edges, stop, waits)
        for leave in by_name[name].region.exits
    ]
    kind: EdgeKind = "parallel" if len(starts) > 1 else "direct"
    return Region(tuple(replace(entry, kind=kind) for entry in entries), tuple(exits))


def _connect(assembly: Assembly, by_name: dict[str, TeamTurn], turn: TeamTurn, edges: list[Any]) -> None:
    for edge in edges:
        condition = condition_text(edge)
        is_parallel = sum(condition_text(one) is None for one in edges) > 1
        entries = by_name[edge.target].region.entries
        entries = tuple(replace(entry, kind="parallel") for entry in entries) if is_parallel else entries
        exits = [
            replace(leave, condition=condition or "", conditional=condition is not None) for leave in turn.region.exits
        ]
        assembly.connect(exits, entries)


def _groups(assembly: Assembly, by_name: dict[str, TeamTurn], graph: Any) -> None:
    """Marks the nodes that wait: for all edges of an activation group, or for any."""
    for name, turn in by_name.items():
        groups: dict[str, tuple[str, list[str]]] = {}
        for source, node in graph.nodes.items():
            for edge in (edge for edge in node.edges if edge.target == name):
                _, sources = groups.setdefault(edge.activation_group, (edge.activation_condition, []))
                sources.extend([source] if source not in sources else [])
        waits = [one for which, sources in groups.values() if which == "all" and len(sources) > 1 for one in sources]
        for entry in turn.region.entries:
            if waits:
                assembly.join(entry.node, [leave.node for one in waits for leave in by_name[one].region.exits])
            if len(groups) > 1 or any(which == "any" for which, _ in groups.values()):
                assembly.mark(entry.node, activation={group: [which, *rest] for group, (which, rest) in groups.items()})


def _early_stops(name: str, edges: list[Any], stop: Termination, waits: ActivationAnalysis) -> list[str]:
    """The reasons why a flow can stop after a node with outgoing edges."""
    if not edges:
        return []
    unmet = [] if is_exhaustive(edges) else ["no condition holds"]
    waiting = ["the next speaker waits for others that never come"] if not unmet and waits.may_block(name) else []
    return [*unmet, *waiting, *([stop.description] if stop else [])]


def without_early_stops(assembly: Assembly, team: Any, region: Region) -> Region:
    """The region of a flow by itself, which is assumed to run to its end."""
    early = [leave for leave in region.exits if leave.condition.startswith(STOPS_EARLY)]
    for why in dict.fromkeys(leave.condition.removeprefix(STOPS_EARLY) for leave in early):
        where = ", ".join(leave.node for leave in early if leave.condition.endswith(why))
        assembly.note(f"{team.name!r} can also stop early{why} (after {where}); these edges are omitted")
    for leave in early:
        assembly.mark(leave.node, may_stop=True)
    return replace(region, exits=tuple(leave for leave in region.exits if leave not in early))
