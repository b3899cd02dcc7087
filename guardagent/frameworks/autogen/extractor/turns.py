"""Turns in teams of AutoGen: when a team stops, and who speaks next in each kind of team.

In a graph flow, the directed graph determines the next speakers; `ActivationAnalysis` decides whether one is certain,
given edge conditions and waits. A flow also stops where no edge condition holds, where the next speaker waits for
others that never come, and where its termination condition is met. These early stops are exits of a flow inside another
team; for a flow by itself they are omitted, with a note.

Round robin, swarm, Magentic-One and teams with other managers take turns by their own rules.

In a selector group chat, a function or a model chooses the next speaker. The model chooses only if the function chose
nobody. Its candidates are those of a function, or everyone but the speaker that it chose last; AutoGen 0.7 accepts any
participant from it, candidate or not.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from guardagent.errors import InputError, name_hint
from guardagent.frameworks.autogen.extractor.agents import (
    AUTOGEN,
    Agent,
    SpeakerChoice,
    are_certain,
    participants,
    possible_orders,
    speaker_choice,
    speakers,
)
from guardagent.workflow.extraction import (
    Alternatives,
    Assembly,
    Region,
    RegionEntry,
    RegionExit,
    UnknownValue,
    is_a,
    private_attribute,
)
from guardagent.workflow.model.graph import EDGES, EdgeKind
from guardagent.workflow.python_source.outcomes import code_of, source_text


@dataclass(frozen=True)
class ActivationEdge:
    """An edge, with the name of its source."""

    source: str
    edge: Any

    @property
    def group(self) -> tuple[str, str]:
        """Its target, and its activation group there."""
        return str(self.edge.target), str(self.edge.activation_group)

    @property
    def is_certain(self) -> bool:
        return condition_text(self.edge) is None


def condition_text(edge: Any) -> str | None:
    """The condition of an edge: a string to be mentioned, or the source of a function; None if it has none."""
    if edge.condition_function is not None:
        return source_text(edge.condition_function)
    return edge.condition if isinstance(edge.condition, str) else None


def is_exhaustive(edges: list[Any]) -> bool:
    """Whether some edge can always be taken: one has no condition, or two are complementary."""
    if any(condition_text(edge) is None for edge in edges):
        return True
    mentions = [_mention(edge) for edge in edges]
    return any((text, not wanted) in mentions for text, wanted in filter(None, mentions))


def _mention(edge: Any) -> tuple[str, bool] | None:
    """The string that an edge requires to be mentioned, or not; None for another condition."""
    if isinstance(edge.condition, str):
        return edge.condition, True
    tree = code_of(edge.condition_function)
    compared = tree.body if isinstance(tree, ast.Lambda) else None
    match compared:
        case ast.Compare(left=ast.Constant(value=str(text)), ops=[ast.In() | ast.NotIn() as sign]):
            return text, isinstance(sign, ast.In)
    return None


class ActivationAnalysis:
    """The waits between the speakers of a graph."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.edges = [ActivationEdge(name, edge) for name, node in graph.nodes.items() for edge in node.edges]
        self._starts = set(graph.get_start_nodes())

    def may_block(self, name: str) -> bool:
        """Whether the successors of a speaker may wait for others that never come."""
        known = self._always_reached(name)
        return not is_exhaustive(
            [edge.edge for edge in self.edges if edge.source == name and self._activates(edge, known)]
        )

    def _activates(self, edge: ActivationEdge, known: Iterable[str]) -> bool:
        """Whether an edge activates its target, immediately or together with edges that are certain."""
        group = self._groups[edge.group]
        others = [sibling for sibling in group if sibling is not edge]
        return edge.edge.activation_condition == "any" or all(
            sibling.is_certain and sibling.source in known for sibling in others
        )

    @cached_property
    def _groups(self) -> Mapping[tuple[str, str], list[ActivationEdge]]:
        activation_edges: dict[tuple[str, str], list[ActivationEdge]] = {}
        for way in self.edges:
            activation_edges.setdefault(way.group, []).append(way)
        return activation_edges

    def _always_reached(self, name: str) -> frozenset[str]:
        """The speakers in every run in which this one speaks."""
        reached = {*self._starts, *(self._predecessors.get(name) or ())}
        while more := set(self._successors(reached)) - reached:
            reached |= more
        return frozenset(reached)

    def _successors(self, known: set[str]) -> Iterator[str]:
        for edge in self.edges:
            if edge.source in known and edge.is_certain and self._activates(edge, known):
                yield edge.group[0]

    @cached_property
    def _predecessors(self) -> dict[str, frozenset[str] | None]:
        """The speakers certain to have spoken when each one speaks, itself included; None if it is unreachable."""
        predecessors: dict[str, frozenset[str] | None] = dict.fromkeys(self.graph.nodes)
        changed = True
        while changed:
            now = {name: self._required(name, predecessors) for name in predecessors}
            changed, predecessors = now != predecessors, now
        return predecessors

    def _required(self, name: str, required: Mapping[str, frozenset[str] | None]) -> frozenset[str] | None:
        alternatives = [frozenset[str]()] if name in self._starts else []
        for (target, _), group in self._groups.items():
            if target == name:
                alternatives.extend(self._before_group(group, required))
        return frozenset.intersection(*alternatives) | {name} if alternatives else None

    @staticmethod
    def _before_group(
        group: list[ActivationEdge], required: Mapping[str, frozenset[str] | None]
    ) -> list[frozenset[str]]:
        before = [required[way.source] for way in group]
        known = [name_set for name_set in before if name_set is not None]
        if group[0].edge.activation_condition == "any":
            return known
        return [frozenset[str]().union(*known)] if len(known) == len(before) else []


# --- termination

_DISTRIBUTION = "autogen-agentchat"


@dataclass(frozen=True)
class Termination:
    """The conditions under which a team stops.

    Attributes:
        description: the condition and the limit as text; empty if there are none.
        handoffs: the hand-off targets that stop it.
        max_turns: its limit of turns.
        has_condition: it has a termination condition.
    """

    description: str = ""
    handoffs: frozenset[str] = frozenset()
    max_turns: int | None = None
    has_condition: bool = False

    @classmethod
    def of(cls, team: Any) -> Termination:
        condition = private_attribute(team, "_termination_condition", _DISTRIBUTION)
        turns = private_attribute(team, "_max_turns", _DISTRIBUTION)
        parts = [_description(condition)] if condition is not None else []
        limit = turns if isinstance(turns, int) else None
        parts += [f"max_turns={limit}" if limit is not None else "max_turns"] if turns is not None else []
        targets = frozenset(
            str(private_attribute(handoff_condition, "_target", _DISTRIBUTION))
            for handoff_condition in _handoff_conditions(condition)
        )
        return cls(" | ".join(parts), targets, limit, condition is not None)

    def __bool__(self) -> bool:
        return bool(self.description)


def _handoff_conditions(condition: Any) -> Iterator[Any]:
    if is_a(condition, AUTOGEN, "HandoffTermination"):
        yield condition
    for part in _parts(condition):
        yield from _handoff_conditions(part)


def _parts(condition: Any) -> tuple[Any, ...]:
    """The operands of a combined condition."""
    if is_a(condition, AUTOGEN, "AndTerminationCondition", "OrTerminationCondition"):
        return tuple(private_attribute(condition, "_conditions", _DISTRIBUTION))
    return ()


def _description(condition: Any) -> str:
    if parts := _parts(condition):
        sign = " & " if is_a(condition, AUTOGEN, "AndTerminationCondition") else " | "
        return f"({sign.join(map(_description, parts))})"
    if isinstance(condition, UnknownValue | Alternatives):
        return "an unknown condition"
    values = ", ".join(f"{name}={value!r}" for name, value in _config(condition).items() if value not in (None, False))
    return f"{type(condition).__name__}({values})"


def _config(condition: Any) -> dict[str, Any]:
    """The configuration of a condition; empty if it is a function."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return dict(condition.dump_component().config)
    except Exception:  # noqa: BLE001 - a condition of the program may raise anything; this is only a description
        return {}


# --- teams that take turns

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
        round_robin(assembly, team, [_perhaps(by_runner[id(participant)]) for participant in order], stop)
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
    outside_targets: dict[str, str] = {}
    for turn in turns:
        for tool, target in _handoffs(turn).items():
            if target in stop.handoffs and target not in names:
                outside_targets[target] = outside_targets.get(target) or _person(assembly, target)
                connect_handoff(assembly, turn, tool, [RegionEntry(outside_targets[target])])
    return outside_targets


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
        back = [team_turn for team_turn in turns if turn.name in _handoffs(team_turn).values()]
        return {f"hands back to {sender.name}": sender.name for sender in back}
    if agent.handoffs is None:
        why = f"the hand-off targets of {turn.name!r} are unknown; they are assumed to be all participants"
        widen(assembly, turn.region.nodes, why)
        return {f"hands off to {team_turn.name}": team_turn.name for team_turn in turns if team_turn is not turn}
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
            replace(entry, kind="conditional", condition="the orchestrator chooses it") for entry in turn.region.entries
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


# --- graph flows

STOPS_EARLY = "stops early"


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
        is_parallel = sum(condition_text(edge) is None for edge in edges) > 1
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
        waits = [
            source for which, sources in groups.values() if which == "all" and len(sources) > 1 for source in sources
        ]
        for entry in turn.region.entries:
            if waits:
                assembly.join(
                    entry.node, [leave.node for source_name in waits for leave in by_name[source_name].region.exits]
                )
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


# --- selector group chats

_BY_FUNCTION, _BY_MODEL = "selector_func chooses it", "the model chooses it"
_NO_CANDIDATE = "the model names it, though it is not a candidate"
_TASK = "user"  # the source of a task given as a string


def selector(assembly: Assembly, team: Any, turns: list[TeamTurn], stop: Termination) -> Region:
    """Connects each participant with its possible successors."""
    selection = SpeakerSelection(assembly, team, turns)
    entries = tuple(
        replace(entry, kind="conditional", condition=why)
        for turn, why in selection.successors(None)
        for entry in turn.region.entries
    )
    for turn in turns:
        for following, why in selection.successors(turn):
            assembly.connect([_with_condition(leave, why) for leave in turn.region.exits], following.later)
    return Region(entries, exits_of(assembly, turns, stop))


def _with_condition(leave: RegionExit, why: str) -> RegionExit:
    return replace(leave, condition=" and ".join(filter(None, (leave.condition, why))), conditional=True)


@dataclass
class SpeakerSelection:
    """The possible successors of each speaker."""

    assembly: Assembly
    team: Any
    turns: list[TeamTurn]

    def __post_init__(self) -> None:
        self.function = private_attribute(self.team, "_selector_func", _DISTRIBUTION)
        self.candidates = private_attribute(self.team, "_candidate_func", _DISTRIBUTION)
        self.repeats = private_attribute(self.team, "_allow_repeated_speaker", _DISTRIBUTION)
        self._by_function = {
            turn.name for speaker in self.turns for turn in self._members(self._choice(speaker, self.function))
        }

    def successors(self, last: TeamTurn | None) -> Iterator[tuple[TeamTurn, str]]:
        """The possible successors; includes a repeated choice after a team that stops before its first turn."""
        names = list(self.after(last))
        yield from names
        if last is not None and any(turn.region.empty and why != _BY_FUNCTION for turn, why in names):
            yield last, _BY_MODEL

    def after(self, last: TeamTurn | None) -> Iterator[tuple[TeamTurn, str]]:
        """The possible next speakers after one, or at the start, each with the reason."""
        choice = self._choice(last, self.function)
        self._note_unknown(choice, last, "selector_func")
        for turn in self._members(choice):
            yield turn, _BY_FUNCTION
        if choice.may_be_none or choice.unknown:
            yield from self._by_model(last)

    def _choice(self, last: TeamTurn | None, function: Any) -> SpeakerChoice:
        """The speakers that a function can choose; a missing function chooses nobody."""
        if function is None:
            return SpeakerChoice(may_be_none=True)
        sources = (_TASK,) if last is None else speakers(last.runner)
        return speaker_choice(function, sources, has_spoken=last is not None)

    def _members(self, choice: SpeakerChoice) -> list[TeamTurn]:
        return [turn for turn in self.turns if choice.unknown or turn.name in choice.names]

    def _by_model(self, last: TeamTurn | None) -> Iterator[tuple[TeamTurn, str]]:
        if self.candidates is None:
            offered = [turn for turn in self.turns if self._may_follow(turn, last)]
            self._note_repeats(offered)
            yield from ((turn, _BY_MODEL) for turn in offered)
            yield from self._repeated_team(offered, last)
            return
        choice = self._choice(last, self.candidates)
        self._note_unknown(choice, last, "candidate_func")
        offered = self._members(choice)
        for turn in offered:
            yield turn, _BY_MODEL
        if len(offered) > 1:
            yield from self._repeated_team(offered, last)
            yield from self._non_candidates(offered, last)

    def _non_candidates(self, offered: list[TeamTurn], last: TeamTurn | None) -> Iterator[tuple[TeamTurn, str]]:
        others = [turn for turn in self.turns if turn not in offered and self._may_follow(turn, last)]
        if others:
            why = f"in {self.team.name!r}, AutoGen 0.7 accepts the name of any participant from the model"
            self._widen(last, why)
        yield from ((turn, _NO_CANDIDATE) for turn in others)

    def _may_follow(self, turn: TeamTurn, last: TeamTurn | None) -> bool:
        """Whether the model can choose a speaker: not the one it chose last, unless repeats are allowed."""
        return self.repeats or turn is not last or turn.name in self._by_function

    def _repeated_team(self, offered: list[TeamTurn], last: TeamTurn | None) -> Iterator[tuple[TeamTurn, str]]:
        """A team that runs again, if the model names no other: unlike for an agent, its calls come in a new order."""
        if len(offered) > 1 and last is not None and last.is_team and last not in offered:
            yield last, "the model names no other"

    def _note_repeats(self, offered: list[TeamTurn]) -> None:
        if len(offered) > 1 and not self.repeats:
            self.assembly.note(
                f"in {self.team.name!r}, the last speaker repeats if the model names no other after all attempts; "
                "these edges are omitted"
            )

    def _note_unknown(self, choice: SpeakerChoice, last: TeamTurn | None, what: str) -> None:
        if choice.unknown:
            why = f"the choice of the {what} of {self.team.name!r} is unknown; it is assumed to be any participant"
            self._widen(last, why)
        for name in sorted(choice.names - {turn.name for turn in self.turns}):
            self.assembly.note(
                f"the {what} of {self.team.name!r} names {name!r}, which is not a participant: an error at run time"
            )

    def _widen(self, last: TeamTurn | None, why: str) -> None:
        if last is None:
            self.assembly.note(why)
        else:
            widen(self.assembly, last.region.nodes, why)
