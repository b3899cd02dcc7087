"""Reads the source of AutoGen programs: agents, teams and tools become stubs, extracted like live objects.

Programs in the style of AutoGen 0.2 and AG2 before 1.0 have agents that chat in pairs, queues and groups. A chat is a
call there, not an object, so only a source reader can find it: `initiate_chat` and the like make a `ChatSequence`,
whose agents are stubs. Tools belong to the agent that executes them, as in a run.

The graph of a conversation follows its next speakers, which depend on the last one. In a group chat, the method of
selection, the allowed transitions and repeats decide, and a call of a tool goes to an agent that executes it. In a
group of AG2 under a pattern, hand-offs come first, then the work after a turn.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from guardagent.errors import InputError
from guardagent.frameworks.autogen import extractor as live
from guardagent.frameworks.autogen.extractor.agents import CODE
from guardagent.frameworks.autogen.package import FRAMEWORK
from guardagent.frameworks.autogen.source import kinds, runtime
from guardagent.frameworks.autogen.source.participants import (
    AFTER,
    ANYONE,
    CONDITIONS,
    PACKAGE,
    STAY,
    TERMINATE,
    USER,
    ChatCall,
    ChatParticipant,
    ChatSequence,
    is_manager,
    targets_of,
)
from guardagent.workflow.extraction import (
    EMPTY_REGION,
    Alternatives,
    Assembly,
    Region,
    RegionEntry,
    RegionExit,
    UnknownValue,
    flattened,
    is_a,
    single,
)
from guardagent.workflow.model.graph import EDGES, Graph
from guardagent.workflow.python_source.bodies import ReadableFunction
from guardagent.workflow.python_source.interpreter import Interpreter
from guardagent.workflow.python_source.outcomes import Outcomes
from guardagent.workflow.python_source.stubs import FunctionStub, ObjectStub
from guardagent.workflow.python_source.values import Arguments, ImportedName, NameScope, Stub, Values, exactly

_METHODS = {"auto", "manual", "random", "round_robin"}
_BY_MODEL, _BY_PERSON, _BY_CHANCE = "the model chooses it", "a person chooses it", "chosen at random"
_BY_FUNCTION, _BY_TOOL = "speaker_selection_method chooses it", "executes the tool that it calls"
_WHY = {"auto": _BY_MODEL, "manual": _BY_PERSON, "random": _BY_CHANCE, "round_robin": ""}


@dataclass(frozen=True)
class NextSpeaker:
    """A possible next speaker: its place in the list of agents, and why it follows."""

    place: int
    why: str


class _TransitionEvaluator(Outcomes):
    """Evaluates a function of the last speaker; objects are equal if they are the same."""

    def __init__(self, last: Any, name: str) -> None:
        super().__init__()
        self.last, self.last_name = last, name

    def attribute(self, owner: object, name: str) -> Values:
        if owner is self.last and name == "name":
            self.known_reads += 1
            return exactly(self.last_name)
        return super().attribute(owner, name)

    def _compare(self, node: ast.Compare, scope: NameScope) -> Values:
        left, right = self.value(node.left, scope), self.value(node.comparators[0], scope)
        if len(node.ops) == 1 and left.known == (self.last,) and left.complete:
            elements = right
            if isinstance(node.ops[0], ast.In | ast.NotIn):
                elements = self.elements(right)
            if elements.complete and elements.known and all(isinstance(element, Stub) for element in elements.known):
                self.known_reads += 1
                same, positive = self.last in elements.known, isinstance(node.ops[0], ast.Eq | ast.Is | ast.In)
                is_list = isinstance(node.ops[0], ast.In | ast.NotIn)
                return exactly(same is positive) if is_list or len(elements.known) == 1 else Values((True, False))
        return super()._compare(node, scope)


class GroupSpeakers:
    """The agents of a group chat, and who follows whom."""

    def __init__(self, group: Any) -> None:
        self.group = group
        listed = group.agents
        self.agents = flattened(listed)
        self.in_order = not any(isinstance(member, Alternatives) for member in listed)
        self._members = [ChatParticipant(agent) for agent in self.agents]
        self.unknown: dict[str, None] = {}

    def after(self, last: Any) -> list[NextSpeaker]:
        """The possible next speakers after an agent; of one outside of the group, or None, the first speakers."""
        names = list(self._selected(last))
        names += [NextSpeaker(place, _BY_TOOL) for place in self._executors(last)]
        return list({name.place: name for name in reversed(names)}.values())

    def _selected(self, last: Any) -> Iterator[NextSpeaker]:
        method = self.group.speaker_selection_method
        if isinstance(method, str):
            yield from self._by_method(method.lower(), last)
        elif isinstance(method, ReadableFunction) and last is not None:
            yield from self._by_function(method, last)
        else:
            if isinstance(method, UnknownValue):
                self.unknown[f"the speaker_selection_method of line {self.group.line} is unknown"] = None
            yield from self._by_method("auto", last)

    def _by_function(self, function: ReadableFunction, last: Any) -> Iterator[NextSpeaker]:
        evaluator = _TransitionEvaluator(last, ChatParticipant(last).name)
        code, bound = function.source()[1], function.bound_arguments
        declared = Arguments((*bound.positional, exactly(last), exactly(self.group)), bound.keywords, bound.open)
        results = evaluator.call(code, declared) if code is not None else Values((), complete=False)
        others = False
        for choice in results.known:
            if isinstance(choice, str) and str(choice).lower() in _METHODS:
                yield from self._by_method(str(choice).lower(), last)
            elif place := [place for place, agent in enumerate(self.agents) if agent is choice]:
                yield NextSpeaker(place[0], _BY_FUNCTION)
            else:
                others |= choice is not None
        if others or not results.complete:
            name = getattr(function, "__name__", "the function")
            self.unknown[f"the choice of {name!r} is unknown; it is assumed to be any agent"] = None
            yield from (NextSpeaker(place, _BY_FUNCTION) for place in range(len(self.agents)))

    def _by_method(self, method: str, last: Any) -> Iterator[NextSpeaker]:
        eligible = self._eligible(last)
        if method != "round_robin" or not self.in_order:
            if method == "round_robin":
                self.unknown["the order of the agents is unknown"] = None
            yield from (NextSpeaker(place, _WHY.get(method, _BY_MODEL)) for place in eligible)
            return
        count, here = len(self.agents), self._place(last)
        following = (place % count for place in range(here + 1, here + 1 + count))
        yield from (
            NextSpeaker(place, "") for place in [position for position in following if position in eligible][:1]
        )

    def _place(self, agent: Any) -> int:
        return next((place for place, member in enumerate(self.agents) if member is agent), -1)

    def _eligible(self, last: Any) -> list[int]:
        """The places of the agents that may follow; all after an agent outside of the group."""
        everyone = list(range(len(self.agents)))
        if self._place(last) < 0:
            return everyone
        table = self.group.allowed_or_disallowed_speaker_transitions
        if isinstance(table, dict):
            named = table.get(last)
            listed = [self._place(agent) for agent in flattened(named)] if isinstance(named, list) else []
            allowed = self.group.speaker_transitions_type != "disallowed"
            return [place for place in everyone if (place in listed) is allowed]
        if table is not None:
            self.unknown["the allowed transitions are unknown"] = None
            return everyone
        repeats = self.group.allow_repeat_speaker
        may_repeat = any(agent is last for agent in repeats) if isinstance(repeats, list) else repeats is not False
        return [place for place in everyone if may_repeat or self.agents[place] is not last]

    def _executors(self, last: Any) -> Iterator[int]:
        """The places of the agents that execute the tools which an agent can call."""
        if last is None or self._place(last) < 0:
            return
        proposed = ChatParticipant(last).proposed
        for place, member in enumerate(self._members):
            executed = set(member.tools.names) - {CODE}
            passed = member.is_known and bool(member.passed_to) and proposed is None
            if (executed if proposed is None else executed & proposed) or passed:
                yield place


# --- groups of AG2 under a pattern

_HANDOFF, _AFTER_WORK, _RETURNS = "a hand-off", "", "the person answers"
_SETS_ALL = {"RoundRobinPattern", "RandomPattern"}
"""The patterns that replace the work after a turn of all their agents."""

_AFTER_BY_PATTERN = {"AutoPattern": [ANYONE], "ManualPattern": [ANYONE], "RandomPattern": [ANYONE]}


class PatternSpeakers:
    """The agents of a group, with its person last, and who follows whom."""

    def __init__(self, pattern: Any) -> None:
        self.pattern = pattern
        listed = pattern.agents
        user = pattern.user_agent
        self.user = user if user is not None else None
        members = flattened(listed)
        if type(pattern).__name__ == "RoundRobinPattern":  # the first agent begins its round
            members.sort(key=lambda member: member is not pattern.initial_agent)
        self.agents = [*members, *([self.user] if self.user is not None else [])]
        self.unknown: dict[str, None] = {}
        if any(isinstance(member, Alternatives) for member in listed):
            self.unknown["the order of the agents is unknown"] = None
        self._found: dict[int, list[NextSpeaker]] = {}

    def after(self, last: Any) -> list[NextSpeaker]:
        """The possible next speakers after an agent; the first one for None."""
        if last is None:
            return list(self._of_targets([self.pattern.initial_agent], None, ""))
        if id(last) not in self._found:
            names = list(self._next(last))
            self._found[id(last)] = list({name.place: name for name in reversed(names)}.values())
        return self._found[id(last)]

    def _next(self, last: Any) -> Iterator[NextSpeaker]:
        handoffs = getattr(last, "handoffs", None)
        yield from self._of_targets(getattr(handoffs, CONDITIONS, ()), last, _HANDOFF)
        yield from self._of_targets(self._of_tools(last), last, "a tool hands off")
        own = list(getattr(handoffs, AFTER, ()))
        sets_all = type(self.pattern).__name__ in _SETS_ALL
        if last is self.user and not own and not sets_all:  # it answers the agent that spoke before
            for place, agent in enumerate(self.agents):
                if agent is not last and any(self.agents[each.place] is last for each in self.after(agent)):
                    yield NextSpeaker(place, _RETURNS)
            return
        yield from self._of_targets(own if own and not sets_all else self._default(last), last, _AFTER_WORK)

    def _default(self, last: Any) -> list[Any]:
        """The targets after the work of an agent that names none."""
        kind = type(self.pattern).__name__
        if kind == "RoundRobinPattern":
            return [self.agents[(self._place(last) + 1) % len(self.agents)]]
        if kind in _AFTER_BY_PATTERN:
            return _AFTER_BY_PATTERN[kind]
        declared = self.pattern.group_after_work
        return [declared] if declared is not None else [TERMINATE]

    def _of_targets(self, several: Iterable[Any], last: Any, why: str) -> Iterator[NextSpeaker]:
        for target in (target for each in several for target in targets_of(each)):
            places, chosen = self._places(target, last), target == ANYONE
            yield from (
                NextSpeaker(place, why or ("the group manager chooses it" if chosen else "")) for place in places
            )

    def _places(self, target: Any, last: Any) -> list[int]:
        if isinstance(target, str):
            if target == TERMINATE:
                return []
            if target == STAY:
                return [self._place(last)]
            if target == USER:
                return [len(self.agents) - 1] if self.user is not None else []
            others = type(self.pattern).__name__ == "RandomPattern"
            if target == ANYONE:
                return [place for place, agent in enumerate(self.agents) if not others or agent is not last]
            return [place for place, agent in enumerate(self.agents) if ChatParticipant(agent).name == target]
        if (place := self._place(target)) >= 0:
            return [place]
        if is_a(target, PACKAGE, "OnCondition", "NestedChatTarget", "GroupChatTarget") or isinstance(
            target, UnknownValue | ReadableFunction | Alternatives
        ):
            self.unknown["a hand-off target is unknown; it is assumed to be any agent"] = None
            return list(range(len(self.agents)))
        return []

    def _of_tools(self, last: Any) -> Iterator[Any]:
        """The targets in the results of the tools of an agent."""
        for tool in ChatParticipant(last).functions:
            if isinstance(tool, FunctionStub) and isinstance(self.pattern.interpreter, Interpreter):
                results = self.pattern.interpreter.run_function(tool.function)
                named = ("ReplyResult", "SwarmResult", "ConversableAgent")
                yield from (target for target in results.known if is_a(target, PACKAGE, *named))

    def _place(self, agent: Any) -> int:
        return next((place for place, member in enumerate(self.agents) if member is agent), -1)


# --- graphs

_ENDS, _LIMIT, _PERSON = "the chat ends", "the limit of turns is reached", "a person ends the chat"


def graph_of(value: Any, name: str) -> Graph:
    """The graph of a conversation, of a group, or of an agent alone."""
    program = ChatRegions()
    whole = program.whole(value)
    return program.assembly.graph(name, FRAMEWORK, replace(whole, empty=False))


class ChatRegions:
    """Builds the regions of agents and of their chats; each agent is added once."""

    def __init__(self) -> None:
        self.assembly = Assembly()
        self._regions: dict[int, tuple[Any, Region]] = {}  # keeps the object, so that its id is not reused

    def whole(self, value: Any) -> Region:
        if isinstance(value, ChatSequence):
            return self.conversation(value)
        if is_a(value, PACKAGE, "GroupChat"):
            return self.group(value, None)
        if is_a(value, PACKAGE, "Pattern"):
            return self._speakers(PatternSpeakers(value))
        return self.group(value.groupchat, None) if is_manager(value) else self.agent(value)

    def agent(self, agent: Any) -> Region:
        """The region of one agent, with the chats that it holds before it answers."""
        if id(agent) not in self._regions:
            participant = ChatParticipant(agent)
            node = self.assembly.id(agent, participant.name)
            region = single(node)
            self._regions[id(agent)] = agent, region
            tools = participant.tools if participant.is_known else None
            self.assembly.describe(
                node, participant.kind, participant.name, tools=tools.names if tools else (),
                gated_tools=tools.gated if tools else (), **participant.metadata,
            )  # fmt: skip
            inner = [self._nested(agent, nested) for nested in (participant.nested if participant.is_known else ())]
            if is_a(agent, PACKAGE, "SocietyOfMindAgent") and is_manager(agent.chat_manager):
                inner.append(self.group(agent.chat_manager.groupchat, None))
                self.assembly.connect([RegionExit(node, conditional=True)], inner[-1].entries)
                self.assembly.connect(inner[-1].exits, region.entries)
            nodes = region.nodes.union(*(each.nodes for each in inner))
            self._regions[id(agent)] = agent, replace(region, nodes=nodes)
        return self._regions[id(agent)][1]

    def _nested(self, agent: Any, nested: ChatSequence) -> Region:
        """Adds the chats that an agent holds before it answers, with edges from and to the agent."""
        whole = self.conversation(nested)
        (mine,) = self.agent(agent).entries
        self.assembly.connect([region_exit for region_exit in whole.exits if region_exit.node != mine.node], [mine])
        return whole

    def conversation(self, several: ChatSequence) -> Region:
        """Chats in sequence."""
        whole = EMPTY_REGION
        for chat in several.chats:
            region = self._chat(chat, several)
            begins = {entry.node for entry in region.entries}  # a person who ended a chat starts the next one
            leaves = [
                region_exit
                for region_exit in whole.exits
                if region_exit.condition != _PERSON or region_exit.node not in begins
            ]
            self.assembly.connect(leaves, region.entries)
            nodes = whole.nodes | region.nodes
            whole = Region(region.entries if whole.empty else whole.entries, region.exits, nodes)
        if not several.complete:
            for node in whole.nodes:
                self.assembly.mark_unknown(node, EDGES, f"not all chats of line {several.line} are known")
        return whole

    def _chat(self, chat: ChatCall, around: ChatSequence) -> Region:
        """A chat between any of the possible senders and recipients."""
        regions = [
            self._chat_of(sender, recipient, _limit(chat.max_turns))
            for sender in self._known(chat.sender, "sender", around)
            for recipient in self._known(chat.recipient, "recipient", around)
        ]
        entries = dict.fromkeys(entry for region in regions for entry in region.entries)
        exits = dict.fromkeys(region_exit for region in regions for region_exit in region.exits)
        return Region(tuple(entries), tuple(exits), frozenset[str]().union(*(region.nodes for region in regions)))

    @staticmethod
    def _known(values: Values, role: str, around: ChatSequence) -> list[Any]:
        converter = around.interpreter.converter
        parts = [converter.convert(value) for value in values.known]
        return parts if parts and values.complete else [*parts, converter.unknown_of(values, role)]

    def _chat_of(self, sender: Any, recipient: Any, limit: int | None) -> Region:
        first = self.agent(sender)
        if is_manager(recipient):
            return self.group(recipient.groupchat, sender)
        second = self.agent(recipient)
        self.assembly.connect(first.exits, second.entries)
        starts, answers = ChatParticipant(sender), ChatParticipant(recipient)
        goes_on = limit != 1 and not starts.never_replies
        if goes_on:
            self.assembly.connect([replace(region_exit, back=True) for region_exit in second.exits], first.entries)
        exits = [_exit(region_exit, _LIMIT) for region_exit in second.exits if limit is not None]
        if not goes_on or not starts.asks:
            exits += [_exit(region_exit, _ENDS) for region_exit in second.exits]
        else:
            exits += [_exit(region_exit, _PERSON) for region_exit in first.exits]
        if goes_on and answers.ends_chats:
            region, why = (second, _PERSON) if answers.asks else (first, _ENDS)
            exits += [_exit(region_exit, why) for region_exit in region.exits]
            if limit is not None and not answers.asks:  # without an answer, the sender takes its next turn
                self.assembly.connect([replace(region_exit, back=True) for region_exit in first.exits], first.entries)
        elif goes_on:
            self.assembly.mark(next(iter(first.entries)).node, may_stop=True)
        return Region(first.entries, tuple(dict.fromkeys(exits)), first.nodes | second.nodes)

    def group(self, group: Any, sender: Any) -> Region:
        """A group chat, which an agent starts with its message, or an unknown one."""
        return self._speakers(GroupSpeakers(group), sender)

    def _speakers(self, speakers: GroupSpeakers | PatternSpeakers, sender: Any = None) -> Region:
        regions = [self._member(agent) for agent in speakers.agents]
        for agent, region in zip(speakers.agents, regions, strict=True):
            self._connect(speakers, regions, agent, region)
        starts = tuple(
            RegionEntry(entry.node, "conditional" if speaker.why else "direct", speaker.why)
            for speaker in speakers.after(None) for entry in regions[speaker.place].entries
        ) if sender is None else self.agent(sender).entries  # fmt: skip
        outside = sender is not None and not any(agent is sender for agent in speakers.agents)
        if outside:
            self._connect(speakers, regions, sender, self.agent(sender))
        for why in speakers.unknown:
            for region in regions:
                for node in region.nodes:
                    self.assembly.mark_unknown(node, EDGES, why)
        nodes = frozenset[str]().union(
            *(region.nodes for region in regions), self.agent(sender).nodes if outside else ()
        )
        exits = tuple(_exit(leave, _LIMIT) for region in regions for leave in region.exits)
        return Region(starts, exits, nodes)

    def _member(self, agent: Any) -> Region:
        return self.group(agent.groupchat, None) if is_manager(agent) else self.agent(agent)

    def _connect(
        self, speakers: GroupSpeakers | PatternSpeakers, regions: list[Region], agent: Any, region: Region
    ) -> None:
        places: Iterable[Any] = speakers.after(agent)
        here = next((place for place, member in enumerate(speakers.agents) if member is agent), -1)
        for speaker in places:
            back = not speaker.why and speaker.place <= here
            exits = [
                RegionExit(leave.node, speaker.why, conditional=bool(speaker.why), back=back) for leave in region.exits
            ]
            self.assembly.connect(exits, regions[speaker.place].entries)


def _exit(leave: RegionExit, why: str) -> RegionExit:
    return RegionExit(leave.node, why, conditional=True)


def _limit(values: Values) -> int | None:
    """The limit of turns; None without one, -1 if it is unknown."""
    known = values.known[0] if values.complete and len(values.known) == 1 else -1
    return known if known is None or isinstance(known, int) else -1


KINDS = (*kinds.KINDS, *kinds.CHAT_KINDS)


def is_workflow(value: object) -> bool:
    of_teams = isinstance(value, ObjectStub) and is_a(value, kinds.CHAT, "Team", "ChatAgent")
    return of_teams or _is_runtime(value) or kinds.is_workflow(value)


def _is_runtime(value: object) -> bool:
    """Whether a value is a runtime of AutoGen Core."""
    return isinstance(value, ObjectStub) and is_a(value, kinds.CORE, runtime.RUNTIME.name)


def extract(value: ObjectStub | ChatSequence, name: str) -> Graph:
    """The graph of a team, an agent, a conversation or a runtime.

    Raises:
        InputError: the agents of a runtime of AutoGen Core are unknown.
    """
    if isinstance(value, ObjectStub) and _is_runtime(value):
        if (graph := runtime.graph_of(value, name)) is None:
            raise InputError(
                f"{value.file}:{value.line}: the agents of a {type(value).__name__} are not known from the source; "
                f"expected 'register' with this runtime, a team, an agent or a chat, or the graph as JSON"
            )
        return graph
    return graph_of(value, name) if kinds.is_workflow(value) else live.extract(value, name)


def called(interpreter: Interpreter, target: object, arguments: Arguments, line: int) -> Values | None:
    """Applies the functions that start chats and register agents; the classes of KINDS have the rest."""
    if isinstance(target, ImportedName) and runtime.is_handler_mark(target.path):
        return arguments.get("func", 0)
    if not interpreter.executing:
        return None
    return kinds.called(interpreter, target, arguments, line) or runtime.called(interpreter, target, arguments)


def piped(_interpreter: Interpreter, left: Values, right: Values) -> Values | None:
    """`one | other` of termination conditions."""
    return kinds.combined("|", left, right)


def anded(_interpreter: Interpreter, left: Values, right: Values) -> Values | None:
    """`one & other` of termination conditions."""
    return kinds.combined("&", left, right)
