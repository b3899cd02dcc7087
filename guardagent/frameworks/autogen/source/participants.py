"""The participants of chats in AutoGen 0.2 and AG2: chats, tools, the facts of each agent, and hand-offs.

A program starts chats by calls. It registers a tool for the agent that proposes calls, and for the agent that executes
them. The facts of an agent are its kind, its tools, and how it ends a chat. In AG2, agents name the targets of their
hand-offs, which hold in the groups of a pattern.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType
from typing import Any

from guardagent.frameworks.autogen.extractor.agents import CODE
from guardagent.workflow.extraction import AgentTools, UnknownValue, defined_outside, is_a
from guardagent.workflow.model.graph import NodeKind, mark
from guardagent.workflow.python_source.bodies import ReadableFunction, opaque_calls_in, summarize
from guardagent.workflow.python_source.stubs import REQUIRED, ClassStub, ObjectStub, Program, make
from guardagent.workflow.python_source.values import (
    UNKNOWN,
    Arguments,
    Attribute,
    CallResult,
    ImportedName,
    LiveValue,
    Sequence,
    Values,
    exactly,
    path_of,
)

PACKAGE = "autogen"
NO_LIMIT = exactly(None)


@dataclass(frozen=True, eq=False)
class ChatCall(LiveValue):
    """One chat of two agents: who starts it, with whom, and its limit of turns."""

    sender: Values
    recipient: Values
    max_turns: Values = NO_LIMIT


@dataclass(frozen=True, eq=False)
class ChatSequence(LiveValue):
    """Chats in sequence, that one call starts.

    Attributes:
        chats: the chats in order.
        complete: there are no other chats.
        interpreter: the interpreter of the program.
        file: the file of the call.
        line: the line of the call.
    """

    chats: tuple[ChatCall, ...]
    complete: bool
    interpreter: Program
    file: str
    line: int

    @property
    def has_agents(self) -> bool:
        """Whether any of its agents is known."""
        return any(
            isinstance(value, ObjectStub)
            for chat in self.chats
            for value in (*chat.sender.known, *chat.recipient.known)
        )


@dataclass(frozen=True, eq=False)
class RegisteredTool(LiveValue):
    """A tool of an agent, by the name that models see, with its function if it is known."""

    name: str
    function: object = None


def start(interpreter: Program, chats: tuple[ChatCall, ...], line: int, *, complete: bool = True) -> None:
    """Records that the program starts chats."""
    made = ChatSequence(chats, complete, interpreter, str(interpreter.current_file), line)
    if made.has_agents:
        interpreter.started.append(made)


def chats_of(interpreter: Program, queue: Values, sender: Values) -> tuple[tuple[ChatCall, ...], bool]:
    """Returns the chats of a queue, a list of dictionaries, and whether these are all."""
    items = interpreter.ordered_elements(queue)
    chat_calls: list[ChatCall] = []
    for item in items if items is not None else [interpreter.elements(queue)]:
        for queued_chat in item.known:
            fields = {key.known[0]: value for key, value in interpreter.pairs(queued_chat) or () if key.strings}
            if "recipient" in fields:
                limit = fields.get("max_turns", NO_LIMIT)
                chat_calls.append(ChatCall(fields.get("sender", sender), fields["recipient"], limit))
    return tuple(chat_calls), items is not None and all(item.complete for item in items)


def add_to(stub: ObjectStub, attribute: str, *values: Values) -> None:
    """Adds to a list of a stub."""
    before = stub.attributes.get(attribute)
    old = before.known[0].items if before is not None and before.known else ()
    stub.attributes[attribute] = exactly(Sequence((*old, *values)))


def initiate_chat(agent: ObjectStub, arguments: Arguments, line: int) -> Values:
    """`agent.initiate_chat(recipient, ...)`."""
    limit = arguments.get("max_turns") or NO_LIMIT
    start(agent.interpreter, (ChatCall(exactly(agent), arguments.values_of("recipient", 0), limit),), line)
    return UNKNOWN


def initiate_chats(agent: ObjectStub, arguments: Arguments, line: int) -> Values:
    """`agent.initiate_chats([{"recipient": ...}, ...])`."""
    chats, complete = chats_of(agent.interpreter, arguments.values_of("chat_queue", 0), exactly(agent))
    start(agent.interpreter, chats, line, complete=complete)
    return UNKNOWN


def run(agent: ObjectStub, arguments: Arguments, line: int) -> Values:
    """`agent.run(...)`: a chat with a recipient, or the agent alone with some tools."""
    if "recipient" in arguments.keywords:
        return initiate_chat(agent, arguments, line)
    tools = arguments.get("tools")
    add_to(agent, "_listed_tools", *([tools] if tools is not None else []))
    agent.interpreter.started.append(agent)
    return UNKNOWN


def register_nested_chats(agent: ObjectStub, arguments: Arguments, line: int) -> Values:
    """`agent.register_nested_chats([...], trigger=...)`: chats that the agent holds before it answers."""
    chats, complete = chats_of(agent.interpreter, arguments.values_of("chat_queue", 0), exactly(agent))
    nested = ChatSequence(chats, complete, agent.interpreter, str(agent.interpreter.current_file), line)
    add_to(agent, "_nested", exactly(nested))
    return exactly(None)


# --- the registration of tools

EXECUTES, PROPOSES = "_executes", "_proposes"


@dataclass(frozen=True, eq=False)
class ToolRegistration(LiveValue):
    """The result of `agent.register_for_execution(...)` or `register_for_llm(...)`: it takes the function."""

    agent: ObjectStub
    attribute: str
    name: Values | None

    def apply(self, functions: Values) -> Values:
        register(self.agent, self.attribute, functions, self.name)
        return functions


def register(agent: ObjectStub, attribute: str, functions: Values, name: Values | None) -> None:
    """Registers a tool with an agent."""
    converter = agent.interpreter.converter
    declared = [value for value in (name.known if name is not None else ()) if isinstance(value, str)]
    for function in functions.known:
        shown = converter.convert(function)
        named = declared[0] if declared else getattr(shown, "__name__", None) or getattr(shown, "name", "function")
        add_to(agent, attribute, exactly(RegisteredTool(str(named), shown)))
    if not functions.known:
        add_to(agent, attribute, exactly(RegisteredTool(str(declared[0]), None)) if declared else UNKNOWN)


def for_execution(agent: ObjectStub, arguments: Arguments, _line: int) -> Values:
    return exactly(ToolRegistration(agent, EXECUTES, arguments.get("name", 0)))


def for_llm(agent: ObjectStub, arguments: Arguments, _line: int) -> Values:
    return exactly(ToolRegistration(agent, PROPOSES, arguments.get("name")))


def function_map(agent: ObjectStub, arguments: Arguments, _line: int) -> Values:
    """`agent.register_function(function_map={...})`."""
    add_to(agent, "_function_maps", arguments.values_of("function_map", 0))
    return exactly(None)


def register_function(arguments: Arguments) -> Values:
    """`register_function(f, caller=..., executor=...)`."""
    functions, name = arguments.values_of("f", 0), arguments.get("name", 3)
    for attribute, place, key in ((PROPOSES, 1, "caller"), (EXECUTES, 2, "executor")):
        for agent in agents_in(arguments.values_of(key, place)):
            register(agent, attribute, functions, name)
    return exactly(None)


def agents_in(values: Values) -> list[ObjectStub]:
    return [
        value for value in values.known if isinstance(value, ObjectStub) and is_a(value, PACKAGE, "ConversableAgent")
    ]


_OF_A_TOOL = {
    "register_tool": (EXECUTES, PROPOSES), "register_for_execution": (EXECUTES,), "register_for_llm": (PROPOSES,),
}  # fmt: skip


def passed_on(target: object, arguments: Arguments, line: int) -> None:
    """Notes that unknown code gets agents: a tool registers itself with them, other code can register any tools."""
    agents = [agent for values in (*arguments.positional, *arguments.keywords.values()) for agent in agents_in(values)]
    if not agents:
        return
    if isinstance(target, Attribute) and target.name in _OF_A_TOOL:
        for attribute in _OF_A_TOOL[target.name]:
            register(agents[0], attribute, exactly(target.owner), None)
    elif name := _unknown_function(target):
        for agent in agents:
            add_to(agent, "_passed_to", exactly(f"{name}(...) in line {line} can register tools"))


def _unknown_function(target: object) -> str:
    """The name of a function of another library; a class only holds the agents that it gets."""
    while isinstance(target, Attribute | CallResult):
        name = target.name if isinstance(target, Attribute) else ""
        if isinstance(target, Attribute) and isinstance(target.owner, CallResult):
            return name if name[:1].islower() else ""
        target = target.owner if isinstance(target, Attribute) and not path_of(target) else None
    path = path_of(target) if isinstance(target, ImportedName) else ""
    head, last = path.partition(".")[0], path.rpartition(".")[2]
    known = head in sys.stdlib_module_names or head == PACKAGE
    return last if last[:1].islower() and not known else ""


# --- participants

_OWN_REPLIES = ("generate_reply", "a_generate_reply", "generate_oai_reply", "receive", "a_receive")


@dataclass(frozen=True, eq=False)
class ChatParticipant:
    """The facts of an agent; of an unknown agent, only its name."""

    agent: Any

    @property
    def name(self) -> str:
        return str(self.agent.name)

    @property
    def is_known(self) -> bool:
        return isinstance(self.agent, ObjectStub)

    @cached_property
    def mode(self) -> str:
        """The time at which it asks a person: ALWAYS, TERMINATE or NEVER."""
        declared = self.agent.human_input_mode if self.is_known else "NEVER"
        return declared if isinstance(declared, str) else "TERMINATE"

    @cached_property
    def has_model(self) -> bool:
        declared = getattr(self.agent, "llm_config", None)
        return declared is not False and not (declared is None and is_a(self.agent, PACKAGE, "UserProxyAgent"))

    @property
    def executes_code(self) -> bool:
        return self.is_known and self.agent.code_execution_config is not False

    @property
    def asks(self) -> bool:
        """Whether a person ends its chats."""
        return self.mode == "ALWAYS" or (self.mode == "TERMINATE" and not self.has_model)

    @property
    def never_replies(self) -> bool:
        """Whether it only sends the first message."""
        return self.is_known and self.mode == "NEVER" and self.agent.max_consecutive_auto_reply == 0

    @property
    def ends_chats(self) -> bool:
        """Whether its arguments say when it ends a chat; every agent also ends one after the message 'TERMINATE'."""
        if not self.is_known:
            return False
        declared = (self.agent.is_termination_msg, self.agent.max_consecutive_auto_reply)
        return self.mode == "ALWAYS" or any(setting is not None for setting in declared)

    @property
    def kind(self) -> NodeKind:
        if self.tools.names:
            return "tool"
        if self.asks:
            return "human"
        if self.has_model:
            return "llm"
        return "tool" if self.tools.unknown else "passthrough"

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of its node."""
        if not self.is_known:
            return {"agent": "unknown", "tools_unknown": mark("the agent is unknown")}
        unknown = [*self.tools.unknown, *self.passed_to, *self._own_replies]
        return {
            "file": self.agent.file,
            "line": self.agent.line,
            "agent": type(self.agent).__name__,
            "model_chooses": bool(self.tools.names),
            "tools_unknown": mark(*unknown, *self.tools.opaque_calls),
        }

    @property
    def functions(self) -> list[Any]:
        """The functions of its tools, as far as they are known."""
        return (
            [registered_tool.function for registered_tool in self._executed if registered_tool is not None]
            if self.is_known
            else []
        )

    @cached_property
    def tools(self) -> AgentTools:
        """The tools that it executes."""
        agent_tools = AgentTools()
        if not self.is_known:
            return agent_tools
        for tool in self._executed:
            if tool is None:
                agent_tools.unknown.append("not all of its tools are known from the source")
                continue
            body = None if tool.function is None else summarize(tool.function)
            gated = self.mode == "ALWAYS" or (body is not None and body.always_asks)
            agent_tools.add(tool.name, "" if gated else None)
            agent_tools.opaque_calls += [
                opaque_call.inside(f"the tool {tool.name!r}") for opaque_call in opaque_calls_in(tool.function)
            ]
        if self.executes_code:
            agent_tools.add(CODE, "" if self.mode == "ALWAYS" else None)
        return agent_tools

    @property
    def _executed(self) -> Iterator[RegisteredTool | None]:
        yield from self._registered(EXECUTES)
        for table in (self.agent.attributes["function_map"], *self._items("_function_maps")):
            yield from self._mapped(table)
        for several in self._items("_listed_tools"):
            elements = self.agent.interpreter.elements(several)
            yield from (self._tool(element) for element in (elements if several.known else several).known)
            if not elements.complete:
                yield None

    @property
    def proposed(self) -> frozenset[str] | None:
        """The tools that its model can call in a group, executed by another agent; None if unknown."""
        if not self.is_known:
            return None
        names = list(self._registered(PROPOSES))
        config = getattr(self.agent, "llm_config", None)
        lists_functions = isinstance(config, Mapping) and ("functions" in config or "tools" in config)
        if None in names or lists_functions or self.passed_to:
            return None
        return frozenset(name.name for name in names if name is not None)

    @property
    def nested(self) -> list[ChatSequence]:
        """The chats that it holds before it answers."""
        return [value for values in self._items("_nested") for value in values.known if isinstance(value, ChatSequence)]

    def _items(self, attribute: str) -> tuple[Values, ...]:
        held = self.agent.attributes.get(attribute)
        known = held.known[0] if held is not None and held.known else None
        return known.items if isinstance(known, Sequence) else ()

    def _registered(self, attribute: str) -> Iterator[RegisteredTool | None]:
        for values in self._items(attribute):
            yield from (value for value in values.known if isinstance(value, RegisteredTool))
            if not values.complete:
                yield None

    def _mapped(self, tables: Values) -> Iterator[RegisteredTool | None]:
        for table in tables.known:
            pairs = self.agent.interpreter.pairs(table)
            if pairs is None and table is not None:
                yield None
            for key, values in pairs or ():
                function = self._shown(values.known[0]) if values.known else None
                yield from (RegisteredTool(str(name), function) for name in key.strings or ())
                if key.strings is None:
                    yield None
        if not tables.complete:
            yield None

    def _tool(self, value: object) -> RegisteredTool:
        shown = self._shown(value)
        return RegisteredTool(str(getattr(shown, "__name__", None) or getattr(shown, "name", "function")), shown)

    def _shown(self, value: object) -> Any:
        return self.agent.interpreter.converter.convert(value)

    @property
    def passed_to(self) -> list[str]:
        return [str(value) for values in self._items("_passed_to") for value in values.known]

    @property
    def _own_replies(self) -> list[Any]:
        """The calls of a reply method of its class that cannot be seen."""
        method = defined_outside(self.agent, PACKAGE, *_OWN_REPLIES)
        known = isinstance(method, FunctionType | ReadableFunction)
        return list(summarize(method).opaque_calls_for()) if known else []


def is_manager(agent: Any) -> bool:
    return is_a(agent, PACKAGE, "GroupChatManager")


# --- hand-offs and group patterns of AG2

_GROUP = f"{PACKAGE}.agentchat.group"
CONDITIONS, AFTER = "_conditions", "_after_works"
TERMINATE, STAY, USER, ANYONE = "TerminateTarget", "StayTarget", "RevertToUserTarget", "GroupManagerTarget"
_OPTIONS = {
    "TERMINATE": TERMINATE,
    "REVERT_TO_USER": USER,
    "STAY": STAY,
    "SWARM_MANAGER": ANYONE,
    "AskUserTarget": ANYONE,
}


def _add(handoffs: ObjectStub, attribute: str, values: Values | None) -> Values:
    """Adds conditions or targets, declared one by one or as lists."""
    for value in (values or UNKNOWN).known:
        is_list = isinstance(value, Sequence | list | tuple)
        add_to(handoffs, attribute, *([handoffs.interpreter.elements(exactly(value))] if is_list else [exactly(value)]))
    if values is None or not values.complete:
        add_to(handoffs, attribute, UNKNOWN)
    return exactly(handoffs)


def _condition(handoffs: ObjectStub, arguments: Arguments, _line: int) -> Values:
    return _add(handoffs, CONDITIONS, arguments.get("condition", 0) or arguments.get("conditions"))


def _after(handoffs: ObjectStub, arguments: Arguments, _line: int) -> Values:
    declared = arguments.get("target", 0) or arguments.get("condition") or arguments.get("conditions")
    return _add(handoffs, AFTER, declared)


def register_hand_off(agent: ObjectStub, arguments: Arguments) -> Values:
    """`agent.register_hand_off([...])` of the swarms before the patterns."""
    for handoffs in agent.attributes["handoffs"].known:
        if isinstance(handoffs, ObjectStub):
            _add(handoffs, CONDITIONS, arguments.get("hand_to", 0))
    return exactly(None)


def _target(name: str, **fields: object) -> ClassStub:
    return ClassStub(name, f"{_GROUP}.targets", fields=fields, list_fields=frozenset({"agents"} & fields.keys()))


PATTERN = ClassStub(
    "Pattern", f"{_GROUP}.patterns", fields={
        "initial_agent": REQUIRED, "agents": REQUIRED, "user_agent": None, "group_manager_args": None,
        "context_variables": None, "group_after_work": None,
    },
    list_fields=frozenset({"agents"}), ordered_fields=frozenset({"agents"}),
)  # fmt: skip
_DEFAULT = ClassStub("DefaultPattern", f"{_GROUP}.patterns", PATTERN)
HANDOFF_KINDS = (
    PATTERN, _DEFAULT,
    *(ClassStub(name, f"{_GROUP}.patterns", PATTERN)
      for name in ("AutoPattern", "RoundRobinPattern", "RandomPattern", "ManualPattern")),
    ClassStub("Handoffs", f"{_GROUP}.handoffs", list_fields=frozenset({CONDITIONS, AFTER}), methods={
        **dict.fromkeys(("add", "add_many", "add_llm_condition", "add_llm_conditions", "add_context_condition",
                         "add_context_conditions"), _condition),
        **dict.fromkeys(("set_after_work", "add_after_work", "add_after_works"), _after),
    }),
    ClassStub("OnCondition", f"{_GROUP}.on_condition", fields={"target": REQUIRED, "condition": None},
         aliases=("OnContextCondition", "ON_CONDITION")),
    ClassStub("AfterWork", f"{PACKAGE}.agentchat.contrib.swarm_agent", fields={"agent": REQUIRED},
         aliases=("AFTER_WORK",)),
    ClassStub("ReplyResult", f"{_GROUP}.reply_result",
         fields={"message": None, "target": None, "context_variables": None}),
    ClassStub("SwarmResult", f"{PACKAGE}.agentchat.contrib.swarm_agent",
         fields={"values": None, "agent": None, "context_variables": None}),
    _target("AgentTarget", agent=REQUIRED), _target("AgentNameTarget", agent_name=REQUIRED),
    _target("RandomAgentTarget", agents=REQUIRED), _target("NestedChatTarget", nested_chat_config=REQUIRED),
    *(_target(name) for name in (TERMINATE, STAY, USER, ANYONE, "AskUserTarget")),
)  # fmt: skip


def swarm(interpreter: Program, arguments: Arguments, line: int) -> ObjectStub:
    """The pattern of `initiate_swarm_chat(...)`."""
    declared = {"initial_agent": arguments.get("initial_agent", 0), "agents": arguments.get("agents", 2)}
    declared |= {"user_agent": arguments.get("user_agent"), "group_after_work": arguments.get("after_work")}
    return make(
        interpreter,
        _DEFAULT,
        Arguments((), {key: values for key, values in declared.items() if values is not None}),
        line,
    )


def targets_of(value: Any) -> list[Any]:
    """The targets of a condition or a target: agents, names of agents, names of target classes, or unknown values."""
    if is_a(value, PACKAGE, "OnCondition", "ReplyResult"):
        return targets_of(value.target)
    if is_a(value, PACKAGE, "AfterWork", "AgentTarget", "SwarmResult"):
        return targets_of(value.agent)
    if is_a(value, PACKAGE, "AgentNameTarget"):
        return [value.agent_name]
    if is_a(value, PACKAGE, "RandomAgentTarget"):
        return list(value.agents)
    if is_a(value, PACKAGE, *(name for name in (TERMINATE, STAY, USER, ANYONE, "AskUserTarget"))):
        return [_OPTIONS.get(type(value).__name__, type(value).__name__)]
    if isinstance(value, UnknownValue) and value.name in _OPTIONS:
        return [_OPTIONS[value.name]]
    return [] if value is None else [value]
