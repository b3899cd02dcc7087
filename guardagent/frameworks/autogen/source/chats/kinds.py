"""The classes of AutoGen 0.2 and AG2 that graphs depend on, and the functions that start chats."""

from __future__ import annotations

from guardagent.frameworks.autogen.source.chats import conversations, tools
from guardagent.frameworks.autogen.source.chats.handoffs import HANDOFF_KINDS, PATTERN, register_hand_off, swarm
from guardagent.frameworks.autogen.source.chats.tools import PACKAGE, ToolRegistration
from guardagent.workflow.extraction.objects import is_a
from guardagent.workflow.python_source.stubs import REQUIRED, ClassStub, ObjectStub, ProgramEvaluator, make
from guardagent.workflow.python_source.values import (
    NOTHING,
    UNKNOWN,
    Arguments,
    Attribute,
    ImportedName,
    Values,
    exactly,
)

_AGENTCHAT = f"{PACKAGE}.agentchat"
CLASSES = ("ConversableAgent", "GroupChat", PATTERN.name)


def _settle_agent(stub: ObjectStub) -> None:
    if stub.attributes.get("handoffs", exactly(None)).known == (None,):
        handoffs = next(kind for kind in HANDOFF_KINDS if kind.name == "Handoffs")
        stub.attributes["handoffs"] = exactly(make(stub.interpreter, handoffs, Arguments(), stub.line))
    listed = stub.attributes.get("functions", NOTHING)
    if listed.known != (None,):
        conversations.add_to(stub, "_listed_tools", listed)


_CONVERSABLE = ClassStub(
    "ConversableAgent", f"{_AGENTCHAT}.conversable_agent", fields={
        "name": REQUIRED, "system_message": None, "is_termination_msg": None, "max_consecutive_auto_reply": None,
        "human_input_mode": "TERMINATE", "function_map": None, "code_execution_config": False, "llm_config": None,
        "default_auto_reply": "", "description": None, "functions": None, "handoffs": None,
    },
    methods={
        "initiate_chat": conversations.initiate_chat, "a_initiate_chat": conversations.initiate_chat,
        "initiate_chats": conversations.initiate_chats, "a_initiate_chats": conversations.initiate_chats,
        "run": conversations.run, "a_run": conversations.run, "send": conversations.initiate_chat,
        "register_nested_chats": conversations.register_nested_chats,
        "register_for_llm": tools.for_llm, "register_for_execution": tools.for_execution,
        "register_function": tools.function_map,
        "register_hand_off": lambda agent, arguments, _line: register_hand_off(agent, arguments),
        "register_handoff": lambda agent, arguments, _line: register_hand_off(agent, arguments),
        "register_handoffs": lambda agent, arguments, _line: register_hand_off(agent, arguments),
    },
    finish=_settle_agent, suffix="Agent",
)  # fmt: skip
_CHAT_ASSISTANT = ClassStub(
    "AssistantAgent", f"{_AGENTCHAT}.assistant_agent", _CONVERSABLE, {"human_input_mode": "NEVER"},
    positional=("name", "system_message", "llm_config", "is_termination_msg", "max_consecutive_auto_reply"),
    aliases=("SwarmAgent", "RetrieveAssistantAgent", "GPTAssistantAgent", "MultimodalConversableAgent"),
)  # fmt: skip
_PROXY = ClassStub(
    "UserProxyAgent", f"{_AGENTCHAT}.user_proxy_agent", _CONVERSABLE,
    {"human_input_mode": "ALWAYS", "code_execution_config": {}, "llm_config": False},
    positional=(
        "name", "is_termination_msg", "max_consecutive_auto_reply", "human_input_mode", "function_map",
        "code_execution_config", "default_auto_reply", "llm_config",
    ),
    suffix="ProxyAgent",
)  # fmt: skip
_GROUP = ClassStub(
    "GroupChat", f"{_AGENTCHAT}.groupchat", fields={
        "agents": REQUIRED, "messages": [], "max_round": 10, "admin_name": "Admin", "func_call_filter": True,
        "speaker_selection_method": "auto", "max_retries_for_selecting_speaker": 2, "allow_repeat_speaker": None,
        "allowed_or_disallowed_speaker_transitions": None, "speaker_transitions_type": None,
    },
    list_fields=frozenset({"agents"}), ordered_fields=frozenset({"agents"}),
)  # fmt: skip
_MANAGER = ClassStub(
    "GroupChatManager", f"{_AGENTCHAT}.groupchat", _CONVERSABLE,
    {"groupchat": REQUIRED, "name": "chat_manager", "human_input_mode": "NEVER"},
    positional=("groupchat", "name"),
)  # fmt: skip
_SOCIETY = ClassStub(
    "SocietyOfMindAgent", f"{_AGENTCHAT}.contrib.society_of_mind_agent", _CONVERSABLE, {"chat_manager": REQUIRED},
    positional=("name", "chat_manager"),
)  # fmt: skip
CHAT_KINDS = (_PROXY, _CONVERSABLE, _CHAT_ASSISTANT, _GROUP, _MANAGER, _SOCIETY, *HANDOFF_KINDS)


def is_workflow(value: object) -> bool:
    """Whether a value is a conversation, an agent or a group of this style."""
    if isinstance(value, conversations.ChatSequence):
        return True
    return isinstance(value, ObjectStub) and is_a(value, PACKAGE, *CLASSES)


def called(interpreter: ProgramEvaluator, target: object, arguments: Arguments, line: int) -> Values | None:
    """Applies the functions that register tools and start chats; returns None for other calls."""
    if isinstance(target, ToolRegistration):
        return target.apply(arguments.get("", 0) or UNKNOWN)
    if not isinstance(target, ImportedName | Attribute):
        return None
    path = target.path if isinstance(target, ImportedName) else ""
    last = path.rpartition(".")[2]
    if path.partition(".")[0] != PACKAGE:
        tools.passed_on(target, arguments, line)
        return None
    if last == "register_function":
        return tools.register_function(arguments)
    if last in {"initiate_chats", "a_initiate_chats"}:
        chats, complete = conversations.chats_of(interpreter, arguments.get("chat_queue", 0) or UNKNOWN, UNKNOWN)
        conversations.start(interpreter, chats, line, complete=complete)
        return UNKNOWN
    if last == "register_hand_off":
        for agent in tools.agents_in(arguments.get("agent", 0) or UNKNOWN):
            register_hand_off(agent, Arguments((arguments.get("hand_to", 1) or UNKNOWN,)))
        return exactly(None)
    return _group_started(interpreter, last, arguments, line)


def _group_started(interpreter: ProgramEvaluator, function: str, arguments: Arguments, line: int) -> Values | None:
    name = function.removeprefix("a_")
    if name in {"initiate_group_chat", "run_group_chat", "run_group_chat_iter"}:
        patterns = arguments.get("pattern", 0) or UNKNOWN
        interpreter.started += [one for one in patterns.known if isinstance(one, ObjectStub)]
        return UNKNOWN
    if name in {"initiate_swarm_chat", "run_swarm"}:
        interpreter.started.append(swarm(interpreter, arguments, line))
        return UNKNOWN
    return None
