"""Teams of AutoGen in which one speaks after another: round robin, swarm, Magentic-One, and those of other managers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from guardagent.frameworks.autogen.extractor.agents import Agent, are_certain, participants
from guardagent.frameworks.autogen.extractor.selection import AUTOGEN
from guardagent.frameworks.autogen.extractor.termination import Termination
from guardagent.workflow.extraction.framework_objects import is_a, private_attribute
from guardagent.workflow.extraction.regions import Assembly, Region, RegionEntry, RegionExit

_DISTRIBUTION = "autogen-agentchat"
_RESUMES = "goes on where it stopped"
_PEOPLE = ("user", "human")


@dataclass(frozen=True)
class TeamTurn:
    """A participant of a team, with what it adds to the graph; empty for a team that can stop before its first turn."""

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
        """Where it is entered, other than at the very beginning: a team goes on where it stopped."""
        if not self.is_team:
            return self.region.entries
        begins = {entry.node for entry in self.region.entries}
        more = (RegionEntry(node, "conditional", _RESUMES) for node in sorted(resumable(self.runner, self.region)))
        return (*self.region.entries, *(entry for entry in more if entry.node not in begins))


def resumable(team: Any, region: Region) -> frozenset[str]:
    """The nodes where a team can go on that was stopped after any turn."""
    stop = Termination.of(team)
    whole_rounds = stop.max_turns is not None and stop.max_turns % len(participants(team)) == 0
    if is_a(team, AUTOGEN, "RoundRobinGroupChat") and whole_rounds and not stop.has_condition:
        return frozenset()
    if is_a(team, AUTOGEN, "MagenticOneGroupChat"):
        return frozenset()
    return region.nodes if stop else frozenset()


def round_robin(assembly: Assembly, _team: Any, turns: list[TeamTurn], stop: Termination) -> Region:
    """Everyone in turn, from the first."""
    for place, turn in enumerate(turns):
        for following, more in _next_turns(turns, place + 1):
            back = following >= len(turns)
            exits = [replace(leave, back=back, condition=_and(leave.condition, more)) for leave in turn.region.exits]
            assembly.connect(exits, turns[following % len(turns)].later)
    entries = [_when(entry, more) for place, more in _next_turns(turns, 0) for entry in turns[place].region.entries]
    return Region(tuple(entries), exits_of(assembly, turns, stop))


def _next_turns(turns: list[TeamTurn], place: int) -> Iterator[tuple[int, str]]:
    """Who is next from a place on: the one there, or the one after, where that is a team that stops at once."""
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
    """The ways out of a team that can stop after any turn, or by handing off to somebody outside."""
    turns = tuple(turns)
    outside = tuple(RegionExit(node) for node in _outside_targets(assembly, turns, stop).values())
    if not stop:
        return outside
    return (*(_stop_exit(leave, stop) for turn in turns for leave in turn.region.exits), *outside)


def _stop_exit(leave: RegionExit, stop: Termination) -> RegionExit:
    return replace(leave, condition=_and(leave.condition, stop.description), conditional=True)


def _outside_targets(assembly: Assembly, turns: tuple[TeamTurn, ...], stop: Termination) -> dict[str, str]:
    """A node for everybody who is no participant and to whom a hand-off stops the team: a person goes on then."""
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
    """Connects a participant with whom it hands off to."""
    assembly.connect([replace(leave, condition=tool, conditional=True) for leave in turn.region.exits], entries)


def _person(assembly: Assembly, name: str, **metadata: Any) -> str:
    node = assembly.id(object(), name)
    return assembly.describe(node, "human", name, outside=True, **metadata)


def swarm(assembly: Assembly, _team: Any, turns: list[TeamTurn], stop: Termination) -> Region:
    """Who was handed off to speaks, and goes on until it hands off itself."""
    by_name = {turn.name: turn for turn in turns}
    unknown_targets: dict[str, str] = {}
    for turn in turns:
        for tool, target in _swarm_targets(assembly, turn, turns).items():
            if target in by_name:
                connect_handoff(assembly, turn, tool, by_name[target].region.entries)
            elif target not in stop.handoffs:
                unknown_targets[target] = unknown_targets.get(target) or _unknown_target(assembly, target)
                connect_handoff(assembly, turn, tool, [RegionEntry(unknown_targets[target])])
        if not Agent(turn.runner).is_person or turn is turns[0]:  # a person answers a hand-off by handing back
            keeps = [replace(leave, condition="hands off to nobody", back=True) for leave in turn.region.exits]
            assembly.connect(keeps, turn.region.entries)
    people = tuple(RegionExit(node) for target, node in unknown_targets.items() if target.lower() in _PEOPLE)
    return Region(turns[0].region.entries, (*exits_of(assembly, turns, stop), *people))


def _swarm_targets(assembly: Assembly, turn: TeamTurn, turns: list[TeamTurn]) -> dict[str, str]:
    """To whom a participant of a swarm can hand off, by the name of the tool."""
    agent = Agent(turn.runner)
    if agent.is_person:
        back = [one for one in turns if turn.name in _handoffs(one).values()]
        return {f"hands back to {one.name}": one.name for one in back}
    if agent.handoffs is None:
        widen(assembly, turn.region.nodes)
        assembly.note(f"to whom {turn.name} hands off cannot be known: it is taken to be everybody")
        return {f"hands off to {one.name}": one.name for one in turns if one is not turn}
    return dict(agent.handoffs)


def _unknown_target(assembly: Assembly, target: str) -> str:
    """Somebody who is neither a participant nor named by a termination condition: handing off to them is an error."""
    assembly.note(f"a hand-off to {target!r} ends in an error: there is no such participant, and no HandoffTermination")
    if target.lower() in _PEOPLE:
        assembly.note(f"that {target!r} is a person is a guess from the name")
        return _person(assembly, target, guess=True)
    node = assembly.id(object(), target)
    return assembly.describe(node, "passthrough", target, outside=True, guess=True)


def magentic(assembly: Assembly, team: Any, turns: list[TeamTurn], stop: Termination) -> Region:
    """An orchestrator that plans, says who is next, and answers at the end."""
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
    """A team of a manager that is not known: anybody after anybody."""
    name = type(team).__name__
    custom = are_certain(team) and name != "GraphFlow"
    reason = f"{name} is a team of the program itself" if custom else "its graph, or all who take part, or their order"
    reason += "" if custom else ", are not known"
    assembly.note(f"who speaks when in {team.name} cannot be known: {reason}")
    for turn in turns:
        widen(assembly, turn.region.nodes)
        for following in turns:
            assembly.connect([replace(leave, conditional=True) for leave in turn.region.exits], following.later)
    entries = tuple(replace(entry, kind="conditional") for turn in turns for entry in turn.region.entries)
    return Region(
        entries, exits_of(assembly, turns, replace(stop, description=stop.description or "its manager stops"))
    )


def widen(assembly: Assembly, nodes: Iterable[str]) -> None:
    """Marks nodes from which more edges lead than in truth."""
    for node in nodes:
        assembly.mark(node, widened=True)
