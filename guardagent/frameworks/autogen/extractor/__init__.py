"""Extracts the workflow graph of agents and teams of AutoGen AgentChat.

The parts of a team are private in AutoGen 0.7; a version that lacks one of these attributes is an error. A team with a
termination condition, or a limit of turns, can stop after any turn: which turn meets the condition is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from guardagent.errors import InputError
from guardagent.frameworks.autogen.extractor.agents import AUTOGEN, Agent, are_certain, participants, possible_orders
from guardagent.frameworks.autogen.extractor.turns import (
    TeamTurn,
    Termination,
    any_order,
    flow,
    graph_of,
    magentic,
    round_robin,
    round_robins,
    selector,
    swarm,
    without_early_stops,
)
from guardagent.frameworks.autogen.package import FRAMEWORK
from guardagent.workflow.extraction import (
    Alternatives,
    Assembly,
    Region,
    RegionEntry,
    RegionExit,
    UnknownValue,
    from_module,
    is_a,
    private_attribute,
    single,
)
from guardagent.workflow.model.graph import Graph, mark

_TEAMS: dict[str, Callable[[Assembly, Any, list[TeamTurn], Termination], Region]] = {
    "RoundRobinGroupChat": round_robin,
    "SelectorGroupChat": selector,
    "Swarm": swarm,
    "GraphFlow": flow,
    "MagenticOneGroupChat": magentic,
    "BaseGroupChat": any_order,
}


def recognises(target: object) -> bool:
    return from_module(target, AUTOGEN)


def extract(target: Any, name: str) -> Graph:
    """The graph of a team, or of a single agent.

    Raises:
        InputError: it is neither, or an unsupported version of AutoGen created it.
    """
    if not is_a(target, AUTOGEN, "Team", "ChatAgent"):
        raise InputError(f"a {type(target).__name__} of AutoGen is not a workflow; expected a team or an agent")
    program = TeamRegions()
    whole = program.region(target, ())
    if is_a(target, AUTOGEN, "GraphFlow"):
        whole = without_early_stops(program.assembly, target, whole)
    whole = replace(whole, empty=False)  # the task is assumed not to stop the team immediately
    return program.assembly.graph(name, FRAMEWORK, whole)


class TeamRegions:
    """Builds the regions of nested agents and teams, innermost first."""

    def __init__(self) -> None:
        self.assembly = Assembly()
        self._regions: dict[int, tuple[Any, Region]] = {}  # keeps the object, so that its id is not reused

    def region(self, runner: Any, within: tuple[str, ...]) -> Region:
        """The region of an agent or a team; each object is added once."""
        if id(runner) not in self._regions:
            self._regions[id(runner)] = (runner, Region())
            is_team = is_a(runner, AUTOGEN, "Team")
            region = self._team(runner, within) if is_team else self._agent(Agent(runner), within)
            self._regions[id(runner)] = (runner, region)
        return self._regions[id(runner)][1]

    def _agent(self, agent: Agent, within: tuple[str, ...]) -> Region:
        node = self.assembly.id(agent.agent, agent.name, within)
        region = single(node)
        self._regions[id(agent.agent)] = (agent.agent, region)  # one of its tools may lead back to it
        tools = agent.tools
        self.assembly.describe(
            node, agent.kind, agent.name, tools=tools.names, gated_tools=tools.gated,
            team=within[-1] if within else None, **agent.metadata,
        )  # fmt: skip
        inner = [self._add_runner(node, run.tool, run.runner, (*within, agent.name)) for run in tools.runs]
        inner += self._inner_team(agent, node, (*within, agent.name))
        for note in agent.notes:
            self.assembly.note(note)
        entries = region.entries
        if agent.team is not None:
            entries = (*inner[-1].entries, *(entries if inner[-1].empty else ()))
        return Region(entries, region.exits, region.nodes.union(*(inner_region.nodes for inner_region in inner)))

    def _add_runner(self, node: str, tool: str, runner: Any, within: tuple[str, ...]) -> Region:
        """Adds the runner of a tool, with edges from and to the agent."""
        inner = self.region(runner, within)
        self.assembly.connect([RegionExit(node, f"calls {tool}", conditional=True)], TeamTurn(runner, inner).later)
        self.assembly.connect(inner.exits, [RegionEntry(node)])
        return inner

    def _inner_team(self, agent: Agent, node: str, within: tuple[str, ...]) -> list[Region]:
        """Adds the inner team that an agent runs before it answers; it restarts each time."""
        if agent.team is None:
            return []
        inner = self.region(agent.team, within)
        self.assembly.connect(inner.exits, [RegionEntry(node)])
        return [inner]

    def _team(self, team: Any, within: tuple[str, ...]) -> Region:
        private_attribute(team, "name", "autogen-agentchat")  # teams have names since 0.7
        build = next((_TEAMS[kind.__name__] for kind in type(team).__mro__ if _is_known(kind)), None)
        unknown = is_a(team, AUTOGEN, "GraphFlow") and isinstance(graph_of(team), UnknownValue | Alternatives)
        if build is not None and (unknown or not are_certain(team)):
            build = round_robins if build is round_robin and possible_orders(team) else any_order
        if build is None:
            return self._unknown_team(team, within)
        for participant in participants(team):
            if not is_a(participant, AUTOGEN, "Team"):
                self.assembly.id(
                    participant, str(participant.name), within
                )  # agents of an outer team keep unqualified names
        turns = [self._turn(member, within) for member in participants(team)]
        stop = Termination.of(team)
        region = build(self.assembly, team, turns, stop)
        nodes = region.nodes.union(*(turn.region.nodes for turn in turns))
        # The input messages can meet the condition before anyone has spoken.
        return replace(
            region, nodes=nodes, empty=stop.has_condition and not is_a(team, AUTOGEN, "MagenticOneGroupChat")
        )

    def _turn(self, runner: Any, within: tuple[str, ...]) -> TeamTurn:
        is_team = is_a(runner, AUTOGEN, "Team")
        return TeamTurn(runner, self.region(runner, (*within, str(runner.name)) if is_team else within))

    def _unknown_team(self, team: Any, within: tuple[str, ...]) -> Region:
        """The region of a team with unknown participants."""
        node = self.assembly.id(team, str(team.name), within)
        why = mark(
            f"{team.name!r} is a {type(team).__name__}, a class that is not supported: verify what it runs separately"
        )
        self.assembly.describe(node, "subgraph", str(team.name), widened=why, tools_unknown=why)
        return single(node)


def _is_known(kind: type) -> bool:
    return kind.__name__ in _TEAMS and kind.__module__.startswith(f"{AUTOGEN}.")
