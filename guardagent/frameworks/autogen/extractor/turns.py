"""Teams that take turns: round robin, swarm, Magentic-One, and teams with other managers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from guardagent.frameworks.autogen.extractor.agents import Agent, are_certain, participants, possible_orders
from guardagent.frameworks.autogen.extractor.selection import AUTOGEN
from guardagent.frameworks.autogen.extractor.termination import Termination
from guardagent.workflow.extraction.objects import is_a, private_attribute
from guardagent.workflow.extraction.regions import Assembly, Region, RegionEntry, RegionExit
from guardagent.workflow.model.graph import EDGES

_DISTRIBUTION = "autogen-agentchat"
_RESUMES = "goes on where it stopped"
_PEOPLE = ("user", "human")


@dataclass(frozen=True)
class TeamTurn:
    """A participant of a team, with its region; empty if it is a team that can stop before its first turn."""

    runner: Any
    region: Region

    @property
    def name(self) -> str:
        return str(self.runner.name)

    @property
    def is_team(self) -> bool:
        return is_a(self.runner, AUTOGEN, "Team")

    @property
    def later(self) -> tuple[RegionEntry, ...]:
        """The entries for later turns: a team resumes where it stopped."""
        if not self.is_team:
            return self.region.entries
        begins = {entry.node for entry in self.region.entries}
        more = (RegionEntry(node, "conditional", _RESUMES) for node in sorted(resumable(self.runner, self.region)))
        return (*self.region.entries, *(entry for entry in more if entry.node not in begins))


def resumable(team: Any, region: Region) -> frozenset[str]:
    """The nodes at which a stopped team can resume."""
    stop = Termination.of(team)
    whole_rounds = stop.max_turns is not None and stop.max_turns % len(participants(team)) == 0
    if is_a(team, AUTOGEN, "RoundRobinGroupChat") and whole_rounds and not stop.has_condition:
        return frozenset()
    if is_a(team, AUTOGEN, "MagenticOneGroupChat"):
        return frozenset()
    return region.nodes if stop else frozenset()


def round_robin(assembly: Assembly, _team: Any, turns: list[TeamTurn], stop: Termination) -> Region:
    """Connects the participants in a cycle."""
    for place, turn in enumerate(turns):
        for following, more in _next_turns(turns, place + 1):
            back = following >= len(turns)
            exits = [replace(leave, back=back, condition=_and(leave.condition, more)) for leave in turn.region.exits]
            assembly.connect(exits, turns[following % len(turns)].later)
    entries = [_when(entry, more) for place, more in _next_turns(turns, 0) for entry in turns[place].region.entries]
    return Region(tuple(entries), exits_of(assembly, turns, stop))


def round_robins(assembly: Assembly, team: Any, turns: list[TeamTurn], stop: Termination) -> Region:
    """Connects the participants in one of several cycles, if conditions decide who takes part."""
    by_runner = {id(turn.runner): turn for turn in turns}
    regions = [
        round_robin(assembly, team, [_perhaps(by_runner[id(one)]) for one in order], stop)
        for order in possible_orders(team)
    ]
    entries = {entry: None for region in regions for entry in region.entries}
    if len(entries) > 1:
        entries = {_when(entry, "it takes part"): None for entry in entries}
    exits = {leave: None for region in regions for leave in region.exits}
    return Region(tuple(entries), tuple(exits))


def _perhaps(turn: TeamTurn) -> TeamTurn:
    """A turn whose followers depend on who takes part."""
    exits = tuple(replace(leave, conditional=True) for leave in turn.region.exits)
    return replace(turn, region=replace(turn.region, exits=exits))


def _next_turns(turns: list[TeamTurn], place: int) -> Iterator[tuple[int, str]]:
    """The possible next turns from an index on: later ones if a team stops immediately."""
    passed: list[str] = []
    for following in range(place, place + len(turns)):
        yield following, " and ".join(passed)
        turn = turns[following % len(turns)]
        if not turn.region.empty:
            return
        passed.append(f"{turn.name} stops at once")


def _when(entry: RegionEntry, condition: str) -> RegionEntry:
    return replace(entry, kind="conditional", condition=condition) if condition else entry


def _and(*conditions: str) -> str:
    return " and ".join(filter(None, conditions))


def exits_of(assembly: Assembly, turns: Iterable[TeamTurn], stop: Termination) -> tuple[RegionExit, ...]:
    """The exits of a team, which can stop after any turn, or by a hand-off to an outsider."""
    turns = tuple(turns)
    outside = tuple(RegionExit(node) for node in _outside_targets(assembly, turns, stop).values())
    if not stop:
        return outside
    return (*(_stop_exit(leave, stop) for turn in turns for leave in turn.region.exits), *outside)


def _stop_exit(leave: RegionExit, stop: Termination) -> RegionExit:
    return replace(leave, condition=_and(leave.condition, stop.description), conditional=True)


def _outside_targets(assembly: Assembly, turns: tuple[TeamTurn, ...], stop: Termination) -> dict[str, str]:
    """Adds a `human` node for each hand-off target that stops the team and is not a participant."""
    names = {turn.name for turn in turns}
    found: dict[str, str] = {}
    for turn in turns:
        for tool, target in _handoffs(turn).items():
            if target in stop.handoffs and target not in names:
                found[target] = found.get(target) or _person(assembly, target)
                connect_handoff(assembly, turn, tool, [RegionEntry(found[target])])
    return found


def _handoffs(turn: TeamTurn) -> dict[str, str]:
    if turn.is_team:
        return {}
    return dict(Agent(turn.runner).handoffs or {})


def connect_handoff(assembly: Assembly, turn: TeamTurn, tool: str, entries: Iterable[RegionEntry]) -> None:
    """Connects a participant with a hand-off target."""
    assembly.connect([replace(leave, condition=tool, conditional=True) for leave in turn.region.exits], entries)


def _person(assembly: Assembly, name: str, **metadata: Any) -> str:
    node = assembly.id(object(), name)
    return assembly.describe(node, "human", name, outside=True, **metadata)


def swarm(assembly: Assembly, _team: Any, turns: list[TeamTurn], stop: Termination) -> Region:
    """Connects each participant with its hand-off targets; without a hand-off, it speaks again."""
    by_name = {turn.name: turn for turn in turns}
    unknown_targets: dict[str, str] = {}
    for turn in turns:
        for tool, target in _swarm_targets(assembly, turn, turns).items():
            if target in by_name:
                connect_handoff(assembly, turn, tool, by_name[target].region.entries)
            elif target not in stop.handoffs:
                unknown_targets[target] = unknown_targets.get(target) or _unknown_target(assembly, target)
                connect_handoff(assembly, turn, tool, [RegionEntry(unknown_targets[target])])
        if not Agent(turn.runner).is_person or turn is turns[0]:  # a user proxy answers a hand-off by handing back
            keeps = [replace(leave, condition="has no handoff target", back=True) for leave in turn.region.exits]
            assembly.connect(keeps, turn.region.entries)
    people = tuple(RegionExit(node) for target, node in unknown_targets.items() if target.lower() in _PEOPLE)
    return Region(turns[0].region.entries, (*exits_of(assembly, turns, stop), *people))


def _swarm_targets(assembly: Assembly, turn: TeamTurn, turns: list[TeamTurn]) -> dict[str, str]:
    """The hand-off targets of a participant of a swarm, by tool name."""
    agent = Agent(turn.runner)
    if agent.is_person:
        back = [one for one in turns if turn.name in _handoffs(one).values()]
        return {f"hands back to {one.name}": one.name for one in back}
    if agent.handoffs is None:
        why = f"the hand-off targets of {turn.name!r} are unknown; they are assumed to be all participants"
        widen(assembly, turn.region.nodes, why)
        return {f"hands off to {one.name}": one.name for one in turns if one is not turn}
    return dict(agent.handoffs)


def _unknown_target(assembly: Assembly, target: str) -> str:
    """Adds a node for an unknown hand-off target, which causes an error at run time."""
    assembly.note(f"a hand-off to {target!r} ends in an error: no participant or HandoffTermination has this name")
    if target.lower() in _PEOPLE:
        assembly.note(f"{target!r} is assumed to be a person because of the name")
        return _person(assembly, target, guess=True)
    node = assembly.id(object(), target)
    return assembly.describe(node, "passthrough", target, outside=True, guess=True)


def magentic(assembly: Assembly, team: Any, turns: list[TeamTurn], stop: Termination) -> Region:
    """Connects an orchestrator, which plans, chooses the next speaker and answers, with the participants."""
    name = str(private_attribute(team, "_group_chat_manager_name", _DISTRIBUTION))
    node = assembly.describe(assembly.id(object(), name), "llm", name, orchestrates=True)
    for turn in turns:
        speaker_choice = [
            replace(one, kind="conditional", condition="the orchestrator chooses it") for one in turn.region.entries
        ]
        assembly.connect([RegionExit(node)], speaker_choice)
        assembly.connect(turn.region.exits, [RegionEntry(node)])
    done = RegionExit(node, "the task is done, or max_turns is reached", conditional=True)
    after = exits_of(assembly, turns, stop) if stop.has_condition else ()
    return Region((RegionEntry(node),), (done, *after), frozenset({node}))


def any_order(assembly: Assembly, team: Any, turns: list[TeamTurn], stop: Termination) -> Region:
    """Connects all participants with each other, for a team with an unknown manager."""
    name = type(team).__name__
    custom = are_certain(team) and name != "GraphFlow"
    reason = f"{name} is a class of the program" if custom else "its graph, participants or their order are unknown"
    why = f"the order of speakers in {team.name!r} is unknown: {reason}"
    for turn in turns:
        widen(assembly, turn.region.nodes, why)
        for following in turns:
            assembly.connect([replace(leave, conditional=True) for leave in turn.region.exits], following.later)
    entries = tuple(replace(entry, kind="conditional") for turn in turns for entry in turn.region.entries)
    return Region(
        entries, exits_of(assembly, turns, replace(stop, description=stop.description or "its manager stops"))
    )


def widen(assembly: Assembly, nodes: Iterable[str], why: str) -> None:
    """Marks nodes with more edges than at run time."""
    for node in nodes:
        assembly.mark_unknown(node, EDGES, why)
