"""Builds the graphs of conversations: chats of two agents, queues of chats, and group chats."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from guardagent.frameworks.autogen.package import FRAMEWORK
from guardagent.frameworks.autogen.source.chats.conversations import ChatCall, ChatSequence
from guardagent.frameworks.autogen.source.chats.patterns import PatternSpeakers
from guardagent.frameworks.autogen.source.chats.speakers import GroupSpeakers
from guardagent.frameworks.autogen.source.chats.tools import PACKAGE
from guardagent.frameworks.autogen.source.participants import ChatParticipant, is_manager
from guardagent.workflow.extraction.objects import is_a
from guardagent.workflow.extraction.regions import EMPTY_REGION, Assembly, Region, RegionEntry, RegionExit, single
from guardagent.workflow.model.graph import EDGES, Graph
from guardagent.workflow.python_source.stubs import converter_of
from guardagent.workflow.python_source.values import Values

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
            one = ChatParticipant(agent)
            node = self.assembly.id(agent, one.name)
            region = single(node)
            self._regions[id(agent)] = agent, region
            tools = one.tools if one.is_known else None
            self.assembly.describe(
                node, one.kind, one.name, tools=tools.names if tools else (), gated_tools=tools.gated if tools else (),
                **one.metadata,
            )  # fmt: skip
            inner = [self._nested(agent, nested) for nested in (one.nested if one.is_known else ())]
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
        self.assembly.connect([one for one in whole.exits if one.node != mine.node], [mine])
        return whole

    def conversation(self, several: ChatSequence) -> Region:
        """Chats in sequence."""
        whole = EMPTY_REGION
        for chat in several.chats:
            region = self._chat(chat, several)
            begins = {entry.node for entry in region.entries}  # a person who ended a chat starts the next one
            leaves = [one for one in whole.exits if one.condition != _PERSON or one.node not in begins]
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
        entries = dict.fromkeys(one for region in regions for one in region.entries)
        exits = dict.fromkeys(one for region in regions for one in region.exits)
        return Region(tuple(entries), tuple(exits), frozenset[str]().union(*(one.nodes for one in regions)))

    @staticmethod
    def _known(values: Values, role: str, around: ChatSequence) -> list[Any]:
        converter = converter_of(around.interpreter)
        found = [converter.convert(one) for one in values.known]
        return found if found and values.complete else [*found, converter.unknown_of(values, role)]

    def _chat_of(self, sender: Any, recipient: Any, limit: int | None) -> Region:
        first = self.agent(sender)
        if is_manager(recipient):
            return self.group(recipient.groupchat, sender)
        second = self.agent(recipient)
        self.assembly.connect(first.exits, second.entries)
        starts, answers = ChatParticipant(sender), ChatParticipant(recipient)
        goes_on = limit != 1 and not starts.never_replies
        if goes_on:
            self.assembly.connect([replace(one, back=True) for one in second.exits], first.entries)
        exits = [_exit(one, _LIMIT) for one in second.exits if limit is not None]
        if not goes_on or not starts.asks:
            exits += [_exit(one, _ENDS) for one in second.exits]
        else:
            exits += [_exit(one, _PERSON) for one in first.exits]
        if goes_on and answers.ends_chats:
            region, why = (second, _PERSON) if answers.asks else (first, _ENDS)
            exits += [_exit(one, why) for one in region.exits]
            if limit is not None and not answers.asks:  # without an answer, the sender takes its next turn
                self.assembly.connect([replace(one, back=True) for one in first.exits], first.entries)
        elif goes_on:
            self.assembly.mark(next(iter(first.entries)).node, may_stop=True)
        return Region(first.entries, tuple(dict.fromkeys(exits)), first.nodes | second.nodes)

    def group(self, group: Any, sender: Any) -> Region:
        """A group chat, which an agent starts with its message, or an unknown one."""
        return self._speakers(GroupSpeakers(group), sender)

    def _speakers(self, speakers: GroupSpeakers | PatternSpeakers, sender: Any = None) -> Region:
        regions = [self._member(one) for one in speakers.agents]
        for agent, region in zip(speakers.agents, regions, strict=True):
            self._connect(speakers, regions, agent, region)
        starts = tuple(
            RegionEntry(entry.node, "conditional" if one.why else "direct", one.why)
            for one in speakers.after(None) for entry in regions[one.place].entries
        ) if sender is None else self.agent(sender).entries  # fmt: skip
        outside = sender is not None and not any(one is sender for one in speakers.agents)
        if outside:
            self._connect(speakers, regions, sender, self.agent(sender))
        for why in speakers.unknown:
            for region in regions:
                for node in region.nodes:
                    self.assembly.mark_unknown(node, EDGES, why)
        nodes = frozenset[str]().union(*(one.nodes for one in regions), self.agent(sender).nodes if outside else ())
        exits = tuple(_exit(leave, _LIMIT) for region in regions for leave in region.exits)
        return Region(starts, exits, nodes)

    def _member(self, agent: Any) -> Region:
        return self.group(agent.groupchat, None) if is_manager(agent) else self.agent(agent)

    def _connect(
        self, speakers: GroupSpeakers | PatternSpeakers, regions: list[Region], agent: Any, region: Region
    ) -> None:
        places: Iterable[Any] = speakers.after(agent)
        here = next((place for place, one in enumerate(speakers.agents) if one is agent), -1)
        for one in places:
            back = not one.why and one.place <= here
            exits = [RegionExit(leave.node, one.why, conditional=bool(one.why), back=back) for leave in region.exits]
            self.assembly.connect(exits, regions[one.place].entries)


def _exit(leave: RegionExit, why: str) -> RegionExit:
    return RegionExit(leave.node, why, conditional=True)


def _limit(values: Values) -> int | None:
    """The limit of turns; None without one, -1 if it is unknown."""
    known = values.known[0] if values.complete and len(values.known) == 1 else -1
    return known if known is None or isinstance(known, int) else -1
