"""Teams of AutoGen in which one speaks after another: round robin, swarm, Magentic-One, and those of other managers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from guardagent.frameworks.autogen.extractor.agents import Agent, are_certain, participants
from guardagent.frameworks.autogen.extractor.selection import AUTOGEN
from guardagent.frameworks.autogen.extractor.stops import Stop
from guardagent.workflow.extraction.framework_objects import is_a, private_attribute
from guardagent.workflow.extraction.regions import Assembly, Region, RegionEntry, RegionExit

_DISTRIBUTION = "autogen-agentchat"
_RESUMES = "goes on where it stopped"
_PEOPLE = ("user", "human")


@dataclass(frozen=True)
class Turn:
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
    stop = Stop.of(team)
    whole_rounds = stop.max_turns is not None and stop.max_turns % len(participants(team)) == 0
    if is_a(team, AUTOGEN, "RoundRobinGroupChat") and whole_rounds and not stop.has_condition:
        return frozenset()
    if is_a(team, AUTOGEN, "MagenticOneGroupChat"):
        return frozenset()
    return region.nodes if stop else frozenset()


def round_robin(assembly: Assembly, _team: Any, turns: list[Turn], stop: Stop) -> Region:
    """Everyone in turn, from the first."""
    for place, turn in enumerate(turns):
        for following, more in _next(turns, place + 1):
            back = following >= len(turns)
            exits = [replace(leave, back=back, condition=_and(leave.condition, more)) for leave in turn.region.exits]
            assembly.connect(exits, turns[following % len(turns)].later)
    entries = [_passing(entry, more) for place, more in _next(turns, 0) for entry in turns[place].region.entries]
    return Region(tuple(entries), leaving(assembly, turns, stop))


def _next(turns: list[Turn], place: int) -> Iterator[tuple[int, str]]:
    """Who is next from a place on: the one there, or the one after, where that is a team that stops at once."""
    passed: list[str] = []
    for following in range(place, place + len(turns)):
        yield following, " and ".join(passed)
        turn = turns[following % len(turns)]
        if not turn.region.empty:
            return
        passed.append(f"{turn.name} stops at once")


def _passing(entry: RegionEntry, condition: str) -> RegionEntry:
    return replace(entry, kind="conditional", condition=condition) if condition else entry


def _and(*conditions: str) -> str:
    return " and ".join(filter(None, conditions))


def leaving(assembly: Assembly, turns: Iterable[Turn], stop: Stop) -> tuple[RegionExit, ...]:
    """The ways out of a team that can stop after any turn, or by handing off to somebody outside."""
    turns = tuple(turns)
    outside = tuple(RegionExit(node) for node in _outsiders(assembly, turns, stop).values())
    if not stop:
        return outside
    return (*(_stopped(leave, stop) for turn in turns for leave in turn.region.exits), *outside)


def _stopped(leave: RegionExit, stop: Stop) -> RegionExit:
    return replace(leave, condition=_and(leave.condition, stop.words), conditional=True)


def _outsiders(assembly: Assembly, turns: tuple[Turn, ...], stop: Stop) -> dict[str, str]:
    """A node for everybody who is no participant and to whom a hand-off stops the team: a person goes on then."""
    names = {turn.name for turn in turns}
    found: dict[str, str] = {}
    for turn in turns:
        for tool, target in _handoffs(turn).items():
            if target in stop.handoffs and target not in names:
                found[target] = found.get(target) or _person(assembly, target)
                hand_off(assembly, turn, tool, [RegionEntry(found[target])])
    return found


def _handoffs(turn: Turn) -> dict[str, str]:
    if turn.is_team:
        return {}
    return dict(Agent(turn.runner).handoffs or {})


def hand_off(assembly: Assembly, turn: Turn, tool: str, entries: Iterable[RegionEntry]) -> None:
    """Connects a participant with whom it hands off to."""
    assembly.connect([replace(leave, condition=tool, conditional=True) for leave in turn.region.exits], entries)


def _person(assembly: Assembly, name: str, **metadata: Any) -> str:
    node = assembly.id(object(), name)
    return assembly.describe(node, "human", name, outside=True, **metadata)


def swarm(assembly: Assembly, _team: Any, turns: list[Turn], stop: Stop) -> Region:
    """Who was handed off to speaks, and goes on until it hands off itself."""
    names = {turn.name: turn for turn in turns}
    strangers: dict[str, str] = {}
    for turn in turns:
        for tool, target in _targets(assembly, turn, turns).items():
            if target in names:
                hand_off(assembly, turn, tool, names[target].region.entries)
            elif target not in stop.handoffs:
                strangers[target] = strangers.get(target) or _stranger(assembly, target)
                hand_off(assembly, turn, tool, [RegionEntry(strangers[target])])
        if not Agent(turn.runner).is_person or turn is turns[0]:  # a person answers a hand-off by handing back
            keeps = [replace(leave, condition="hands off to nobody", back=True) for leave in turn.region.exits]
            assembly.connect(keeps, turn.region.entries)
    people = tuple(RegionExit(node) for target, node in strangers.items() if target.lower() in _PEOPLE)
    return Region(turns[0].region.entries, (*leaving(assembly, turns, stop), *people))


def _targets(assembly: Assembly, turn: Turn, turns: list[Turn]) -> dict[str, str]:
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


def _stranger(assembly: Assembly, target: str) -> str:
    """Somebody who is neither a participant nor named by a termination condition: handing off to them is an error."""
    assembly.note(f"a hand-off to {target!r} ends in an error: there is no such participant, and no HandoffTermination")
    if target.lower() in _PEOPLE:
        assembly.note(f"that {target!r} is a person is a guess from the name")
        return _person(assembly, target, guess=True)
    node = assembly.id(object(), target)
    return assembly.describe(node, "passthrough", target, outside=True, guess=True)


def magentic(assembly: Assembly, team: Any, turns: list[Turn], stop: Stop) -> Region:
    """An orchestrator that plans, says who is next, and answers at the end."""
    name = str(private_attribute(team, "_group_chat_manager_name", _DISTRIBUTION))
    node = assembly.describe(assembly.id(object(), name), "llm", name, orchestrates=True)
    for turn in turns:
        chosen = [
            replace(one, kind="conditional", condition="the orchestrator chooses it") for one in turn.region.entries
        ]
        assembly.connect([RegionExit(node)], chosen)
        assembly.connect(turn.region.exits, [RegionEntry(node)])
    done = RegionExit(node, "the task is done, or max_turns is reached", conditional=True)
    after = leaving(assembly, turns, stop) if stop.has_condition else ()
    return Region((RegionEntry(node),), (done, *after), frozenset({node}))


def any_order(assembly: Assembly, team: Any, turns: list[Turn], stop: Stop) -> Region:
    """A team of a manager that is not known: anybody after anybody."""
    name = type(team).__name__
    own = are_certain(team) and name != "GraphFlow"
    why = f"{name} is a team of the program itself" if own else "its graph, or all who take part, or their order"
    why += "" if own else ", are not known"
    assembly.note(f"who speaks when in {team.name} cannot be known: {why}")
    for turn in turns:
        widen(assembly, turn.region.nodes)
        for following in turns:
            assembly.connect([replace(leave, conditional=True) for leave in turn.region.exits], following.later)
    entries = tuple(replace(entry, kind="conditional") for turn in turns for entry in turn.region.entries)
    return Region(entries, leaving(assembly, turns, replace(stop, words=stop.words or "its manager stops")))


def widen(assembly: Assembly, nodes: Iterable[str]) -> None:
    """Marks nodes from which more edges lead than in truth."""
    for node in nodes:
        assembly.mark(node, widened=True)
