"""The classes of AutoGen and AG2 that graphs depend on, and the effects of their constructors.

After those of AutoGen AgentChat come those of AutoGen 0.2 and AG2, with the functions that start chats.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

from guardagent.frameworks.autogen.source import graphs as autogen_graphs
from guardagent.frameworks.autogen.source import participants, runtime
from guardagent.frameworks.autogen.source.participants import (
    HANDOFF_KINDS,
    PACKAGE,
    PATTERN,
    ToolRegistration,
    register_hand_off,
    swarm,
)
from guardagent.workflow.extraction import is_a
from guardagent.workflow.python_source.stubs import REQUIRED, ClassStub, ObjectStub, Program, make, record_start
from guardagent.workflow.python_source.values import (
    NOTHING,
    UNKNOWN,
    Arguments,
    Attribute,
    Function,
    ImportedName,
    LiveValue,
    PartialFunction,
    Sequence,
    Table,
    Values,
    exactly,
    plain_string,
)

CHAT, CORE, EXT = "autogen_agentchat", "autogen_core", "autogen_ext"

_WEB = (
    "visit_url web_search history_back scroll_up scroll_down click input_text scroll_element_down scroll_element_up "
    "hover answer_question summarize_page sleep"
)
_FILES = "open_path page_up page_down find_on_page_ctrl_f find_next"


# --- side effects of the constructors


def _set_private_fields(stub: ObjectStub) -> None:
    """Stores the arguments in private attributes, too."""
    for name in stub.kind.all_fields:
        stub.attributes[f"_{name}"] = stub.attributes[name]


def _settle_team(stub: ObjectStub) -> None:
    if stub.attributes["name"].known == (None,):
        stub.attributes["name"] = exactly(stub.kind.name)
    _set_private_fields(stub)
    stub.attributes["_group_chat_manager_name"] = exactly("MagenticOneOrchestrator")


def _settle_flow(stub: ObjectStub) -> None:
    graphs = stub.attributes["graph"]
    stub.attributes["_graph"] = Values(tuple(map(autogen_graphs.digraph_of, graphs.known)), graphs.complete)


def _settle_magentic_one(stub: ObjectStub) -> None:
    """Creates the fixed agents of this team."""
    inner, attributes = stub.interpreter, stub.attributes
    client = Arguments((), {"model_client": attributes["client"]})
    approval = Arguments((), {"approval_func": attributes["approval_func"]})
    agents = [
        make(inner, _FILE_SURFER, _named("FileSurfer", client), stub.line),
        make(inner, _WEB_SURFER, _named("WebSurfer", client), stub.line),
        make(inner, _ASSISTANT, _named("Coder", client), stub.line),
        make(inner, _EXECUTOR, _named("ComputerTerminal", approval), stub.line),
    ]  # fmt: skip
    if attributes["hil_mode"].known != (False,):
        agents.append(make(inner, _PERSON, _named("User", Arguments()), stub.line))
    attributes["participants"] = attributes["_participants"] = exactly(Sequence(tuple(map(exactly, agents))))


def _named(name: str, arguments: Arguments) -> Arguments:
    return Arguments((), {"name": exactly(name), **arguments.keywords})


def _settle_assistant(stub: ObjectStub) -> None:
    attributes = stub.attributes
    if attributes["workbench"].known == (None,):
        tools = exactly(Sequence(())) if attributes["tools"].known == (None,) else attributes["tools"]
        attributes["workbench"] = exactly(make(stub.interpreter, _WORKBENCH, Arguments((tools,)), stub.line))
    attributes["_workbench"] = _as_list(attributes["workbench"])
    attributes["_handoffs"] = _handoffs(stub)
    attributes["_reflect_on_tool_use"] = attributes["reflect_on_tool_use"]


def _as_list(values: Values) -> Values:
    """A list around a single value, which AutoGen accepts without one."""
    alone = [value for value in values.known if isinstance(value, ObjectStub)]
    if not alone or len(alone) < len(values.known):
        return values
    return exactly(Sequence(tuple(map(exactly, alone)), ordered=len(alone) == 1))


def _handoffs(stub: ObjectStub) -> Values:
    """The hand-offs by the names of their tools; UNKNOWN if there may be others."""
    handoff_values = stub.attributes["handoffs"]
    if handoff_values.known == (None,):
        return exactly(Table(()))
    elements = stub.interpreter.elements(handoff_values)
    handoffs = [_handoff(stub, element) for element in elements.known]
    if not elements.complete or None in handoffs:
        return UNKNOWN
    return exactly(
        Table(tuple((handoff.attributes["name"], exactly(handoff)) for handoff in handoffs if handoff is not None))
    )


def _handoff(stub: ObjectStub, value: object) -> ObjectStub | None:
    if isinstance(value, str):
        return make(stub.interpreter, _HANDOFF, Arguments((), {"target": exactly(plain_string(value))}), stub.line)
    return value if isinstance(value, ObjectStub) and is_a(value, CHAT, "Handoff") else None


def _settle_handoff(stub: ObjectStub) -> None:
    if stub.attributes["name"].known in {(None,), ("",)}:
        targets = stub.attributes["target"].strings
        named = [f"transfer_to_{target}".lower() for target in targets or ()]
        stub.attributes["name"] = Values(tuple(named)) if named else UNKNOWN


def _settle_workbench(stub: ObjectStub) -> None:
    """Converts functions among the tools to tools."""
    tools = stub.attributes["tools"]
    known = tuple(stub_tools for tool in tools.known if (stub_tools := _tools(stub, tool)) is not None)
    stub.attributes["_tools"] = Values(known, tools.complete and len(known) == len(tools.known))
    overrides = stub.attributes["tool_overrides"]
    stub.attributes["_tool_overrides"] = exactly(Table(())) if overrides.known == (None,) else overrides


def _tools(stub: ObjectStub, several: object) -> Sequence | None:
    if isinstance(several, list | tuple):
        several = Sequence(tuple(map(exactly, several)))
    if not isinstance(several, Sequence):
        return None
    items = (Values(tuple(_tool(stub, value) for value in item.known), item.complete) for item in several.items)
    return Sequence(tuple(items), several.ordered)


def _tool(stub: ObjectStub, value: object) -> object:
    if isinstance(value, Function | PartialFunction):
        return make(stub.interpreter, _FUNCTION_TOOL, Arguments((exactly(value),)), stub.line)
    return value


def _settle_function_tool(stub: ObjectStub) -> None:
    """Names a tool after its function."""
    stub.attributes["_func"] = stub.attributes["func"]
    if stub.attributes["name"].known == (None,):
        stage, functions = stub.interpreter.converter, stub.attributes["func"]
        shown = [stage.convert(function) for function in functions.known]
        names = [
            str(getattr(shown_function, "__name__", None) or getattr(shown_function, "name", "function"))
            for shown_function in shown
        ]
        stub.attributes["name"] = Values(tuple(dict.fromkeys(names)), functions.complete)


def _settle_agent_tool(stub: ObjectStub) -> None:
    stub.attributes["_task_runner"] = stub.attributes["agent"]
    names = [str(value.name) for value in stub.attributes["agent"].known if isinstance(value, ObjectStub)]
    stub.attributes["name"] = Values(tuple(names), stub.attributes["agent"].complete)


def _settle_team_tool(stub: ObjectStub) -> None:
    stub.attributes["_task_runner"] = stub.attributes["team"]


def _settle_adapter(stub: ObjectStub) -> None:
    """Keeps the name of a LangChain tool."""
    tool_values = stub.attributes["langchain_tool"]
    names = [
        tool_value.tree.name
        for tool_value in tool_values.known
        if isinstance(tool_value, Function) and hasattr(tool_value.tree, "name")
    ]
    stub.attributes["name"] = Values(tuple(names), complete=bool(names) and tool_values.complete)


def _settle_surfer(tools: str) -> Callable[[ObjectStub], None]:
    def settle(stub: ObjectStub) -> None:
        stub.attributes["tools"] = exactly([SimpleTool(name) for name in tools.split()])

    return settle


@dataclass(frozen=True, eq=False)
class SimpleTool(LiveValue):
    """A tool with a name only."""

    name: str


@dataclass(frozen=True, eq=False)
class _ConditionConfig(LiveValue):
    """The `dump_component` method of a termination condition."""

    created: ObjectStub
    names: tuple[str, ...]

    def __call__(self) -> SimpleNamespace:
        return SimpleNamespace(config={name: getattr(self.created, name) for name in self.names})


def _settle_condition(stub: ObjectStub) -> None:
    _set_private_fields(stub)
    names = tuple(name for name in stub.kind.all_fields if (stub.kind.name, name) not in _OMITTED_FIELDS)
    if stub.kind.name != "FunctionalTermination":
        stub.attributes["dump_component"] = exactly(_ConditionConfig(stub, names))


_OMITTED_FIELDS = {("TextMentionTermination", "sources")}


def combined(sign: str, left: Values, right: Values) -> Values | None:
    """`left & right` or `left | right` of termination conditions."""
    known = [
        value
        for value in (*left.known, *right.known)
        if isinstance(value, ObjectStub) and is_a(value, CHAT, _CONDITION.name)
    ]
    if not known or len(left.known) != 1 or len(right.known) != 1:
        return None if not known else Values(tuple(known), complete=False)
    kind = _AND if sign == "&" else _OR
    parts = exactly(Sequence((left, right)))
    return exactly(make(known[0].interpreter, kind, Arguments((), {"conditions": parts}), known[0].line))


# --- the classes of AutoGen AgentChat

_RUNS = {"run": record_start, "run_stream": record_start}
_TASKS = ClassStub("TaskRunner", f"{CHAT}.base._task", methods=_RUNS)
_CHAT_AGENT = ClassStub("ChatAgent", f"{CHAT}.base._chat_agent", _TASKS)
_TEAM = ClassStub("Team", f"{CHAT}.base._team", _TASKS)
_AGENT = ClassStub("BaseChatAgent", f"{CHAT}.agents._base_chat_agent", _CHAT_AGENT,
              fields={"name": REQUIRED, "description": ""})  # fmt: skip
_AGENTS = f"{CHAT}.agents"
_ASSISTANT = ClassStub(
    "AssistantAgent", f"{_AGENTS}._assistant_agent", _AGENT,
    fields={
        "model_client": None, "tools": None, "workbench": None, "handoffs": None, "model_context": None,
        "system_message": "", "model_client_stream": False, "reflect_on_tool_use": False, "max_tool_iterations": 1,
        "memory": None, "metadata": None, "output_content_type": None,
    },
    list_fields=frozenset({"_workbench"}), positional=("name", "model_client"), finish=_settle_assistant,
    aliases=("MagenticOneCoderAgent",),
)  # fmt: skip
_PERSON = ClassStub(
    "UserProxyAgent", f"{_AGENTS}._user_proxy_agent", _AGENT, {"input_func": None}, positional=("name",)
)
_EXECUTOR = ClassStub(
    "CodeExecutorAgent", f"{_AGENTS}._code_executor_agent", _AGENT,
    fields={"code_executor": None, "model_client": None, "sources": None, "approval_func": None},
    positional=("name", "code_executor"), finish=_set_private_fields,
)  # fmt: skip


def _ext_agent(name: str, module: str, tools: str = "", suffix: str = "") -> ClassStub:
    fields = {"model_client": None, "tools": None}
    settle = _settle_surfer(tools) if tools else _settle_hosted
    return ClassStub(name, f"{EXT}.agents.{module}", _AGENT, fields, finish=settle, suffix=suffix,
                positional=("name", "model_client"), list_fields=frozenset({"tools"}))  # fmt: skip


def _settle_hosted(stub: ObjectStub) -> None:
    """Converts the tools of a hosted agent: functions, objects, or names of tools of the provider."""
    tool_values = stub.attributes["tools"]
    elements = NOTHING if tool_values.known == (None,) else stub.interpreter.elements(tool_values)
    named = tuple(
        SimpleTool(plain_string(element)) if isinstance(element, str) else _tool(stub, element)
        for element in elements.known
    )
    items = (*map(exactly, named), *(() if elements.complete else (UNKNOWN,)))
    stub.attributes["tools"] = exactly(Sequence(items))


_FILE_SURFER = _ext_agent("FileSurfer", "file_surfer._file_surfer", _FILES)
_WEB_SURFER = _ext_agent("MultimodalWebSurfer", "web_surfer._multimodal_web_surfer", _WEB)
_CHATS = f"{CHAT}.teams._group_chat"
_CHAT = ClassStub(
    "BaseGroupChat", f"{_CHATS}._base_group_chat", _TEAM,
    fields={
        "participants": REQUIRED, "name": None, "description": None, "termination_condition": None, "max_turns": None,
        "runtime": None, "custom_message_types": None, "emit_team_events": False,
    },
    list_fields=frozenset({"participants", "_participants"}),
    ordered_fields=frozenset({"participants", "_participants"}),
    finish=_settle_team, positional=("participants",),
)  # fmt: skip
_SELECTOR = ClassStub(
    "SelectorGroupChat", f"{_CHATS}._selector_group_chat", _CHAT,
    fields={
        "model_client": None, "selector_prompt": "", "allow_repeated_speaker": False, "max_selector_attempts": 3,
        "selector_func": None, "candidate_func": None, "model_context": None,
    },
    positional=("participants", "model_client"), fallbacks={"_allow_repeated_speaker": True},
)  # fmt: skip
_MAGENTIC = ClassStub(
    "MagenticOneGroupChat", f"{_CHATS}._magentic_one._magentic_one_group_chat", _CHAT,
    {"model_client": None, "max_turns": 20, "max_stalls": 3, "final_answer_prompt": ""},
    positional=("participants", "model_client"),
)  # fmt: skip
_CONDITION = ClassStub(
    "TerminationCondition", f"{CHAT}.base._termination", finish=_settle_condition, suffix="Termination"
)
_AND, _OR = (
    ClassStub(f"{name}TerminationCondition", f"{CHAT}.base._termination", _CONDITION, {"conditions": []},
         list_fields=frozenset({"conditions", "_conditions"}))
    for name in ("And", "Or")
)  # fmt: skip


def _ends(name: str, **fields: object) -> ClassStub:
    return ClassStub(name, f"{CHAT}.conditions._terminations", _CONDITION, fields, list_fields=frozenset({"sources"}))


_TOOL = ClassStub(
    "BaseTool", f"{CORE}.tools._base", suffix="Tool", fallbacks={"name": None},
    fields={"args_type": None, "return_type": None, "name": REQUIRED, "description": "", "strict": False},
)  # fmt: skip
_FUNCTION_TOOL = ClassStub(
    "FunctionTool", f"{CORE}.tools._function_tool", _TOOL,
    fields={"func": REQUIRED, "name": None, "global_imports": None},
    positional=("func", "description", "name"), finish=_settle_function_tool,
)  # fmt: skip
_RUNNER_TOOL = ClassStub("TaskRunnerTool", f"{CHAT}.tools._task_runner_tool", _TOOL)
_ANY_WORKBENCH = ClassStub("Workbench", f"{CORE}.tools._workbench", suffix="Workbench")
_WORKBENCH = ClassStub(
    "StaticWorkbench", f"{CORE}.tools._static_workbench", _ANY_WORKBENCH, {"tools": REQUIRED, "tool_overrides": None},
    list_fields=frozenset({"_tools"}), finish=_settle_workbench,
)  # fmt: skip
_CLIENT = ClassStub("ChatCompletionClient", f"{CORE}.models._model_client")
_HANDOFF = ClassStub(
    "Handoff", f"{CHAT}.base._handoff", fields={"target": REQUIRED, "description": "", "name": "", "message": ""},
    finish=_settle_handoff,
)  # fmt: skip

KINDS = (
    _AGENT, _ASSISTANT, _PERSON, _EXECUTOR, _FILE_SURFER, _WEB_SURFER, _CHAT, _SELECTOR, _MAGENTIC, _CONDITION, _AND,
    _OR, _TOOL, _FUNCTION_TOOL, _RUNNER_TOOL, _ANY_WORKBENCH, _WORKBENCH, _CLIENT, _HANDOFF,
    ClassStub("SocietyOfMindAgent", f"{_AGENTS}._society_of_mind_agent", _AGENT, {"team": None, "model_client": None},
         positional=("name", "team", "model_client"), finish=_set_private_fields),
    ClassStub("MessageFilterAgent", f"{_AGENTS}._message_filter_agent", _AGENT, {"wrapped_agent": None, "filter": None},
         positional=("name", "wrapped_agent", "filter"), finish=_set_private_fields),
    _ext_agent("OpenAIAgent", "openai._openai_agent", suffix="Agent"),
    _ext_agent("VideoSurfer", "video_surfer._video_surfer", suffix="Surfer"),
    ClassStub("RoundRobinGroupChat", f"{_CHATS}._round_robin_group_chat", _CHAT),
    ClassStub("Swarm", f"{_CHATS}._swarm_group_chat", _CHAT),
    ClassStub("GraphFlow", f"{_CHATS}._graph._digraph_group_chat", _CHAT, {"graph": REQUIRED},
         positional=("participants", "graph"), finish=_settle_flow),
    ClassStub("MagenticOne", f"{EXT}.teams.magentic_one", _MAGENTIC, {
        "client": None, "hil_mode": False, "input_func": None, "code_executor": None, "approval_func": None,
    }, positional=("client", "hil_mode", "input_func", "code_executor", "approval_func"), finish=_settle_magentic_one),
    _ends("StopMessageTermination"),
    _ends("MaxMessageTermination", max_messages=REQUIRED, include_agent_event=False),
    _ends("TextMentionTermination", text=REQUIRED, sources=None),
    _ends("TokenUsageTermination", max_total_token=None, max_prompt_token=None, max_completion_token=None),
    _ends("HandoffTermination", target=REQUIRED),
    _ends("TimeoutTermination", timeout_seconds=REQUIRED),
    _ends("ExternalTermination"),
    _ends("SourceMatchTermination", sources=REQUIRED),
    _ends("TextMessageTermination", source=None),
    _ends("FunctionCallTermination", function_name=REQUIRED),
    _ends("FunctionalTermination", func=REQUIRED),
    ClassStub("AgentTool", f"{CHAT}.tools._agent", _RUNNER_TOOL,
         {"agent": REQUIRED, "return_value_as_last_message": False},
         positional=("agent",), finish=_settle_agent_tool),
    ClassStub("TeamTool", f"{CHAT}.tools._team", _RUNNER_TOOL,
         {"team": REQUIRED, "return_value_as_last_message": False},
         positional=("team", "name", "description"), finish=_settle_team_tool),
    ClassStub("StaticStreamWorkbench", f"{CORE}.tools._static_workbench", _WORKBENCH),
    ClassStub("ToolOverride", f"{CORE}.tools._workbench", fields={"name": None, "description": None}),
    ClassStub("ExtTool", f"{EXT}.tools", _TOOL, positional=("name",), suffix="Tool"),
    ClassStub("PythonCodeExecutionTool", f"{EXT}.tools.code_execution", _TOOL, {"name": "CodeExecutor"},
         positional=("executor",)),
    ClassStub("LangChainToolAdapter", f"{EXT}.tools.langchain", _TOOL, {"langchain_tool": REQUIRED},
         positional=("langchain_tool",), finish=_settle_adapter),
    ClassStub("ExtWorkbench", f"{EXT}.tools", _ANY_WORKBENCH, suffix="Workbench"),
    runtime.RUNTIME,
    runtime.AGENT,
    ClassStub("ExtClient", f"{EXT}.models", _CLIENT, suffix="ChatCompletionClient"),
    *autogen_graphs.KINDS,
)  # fmt: skip


# --- AutoGen 0.2 and AG2

_AGENTCHAT = f"{PACKAGE}.agentchat"
CLASSES = ("ConversableAgent", "GroupChat", PATTERN.name)


def _settle_agent(stub: ObjectStub) -> None:
    if stub.attributes.get("handoffs", exactly(None)).known == (None,):
        handoffs = next(kind for kind in HANDOFF_KINDS if kind.name == "Handoffs")
        stub.attributes["handoffs"] = exactly(make(stub.interpreter, handoffs, Arguments(), stub.line))
    listed = stub.attributes.get("functions", NOTHING)
    if listed.known != (None,):
        participants.add_to(stub, "_listed_tools", listed)


_CONVERSABLE = ClassStub(
    "ConversableAgent", f"{_AGENTCHAT}.conversable_agent", fields={
        "name": REQUIRED, "system_message": None, "is_termination_msg": None, "max_consecutive_auto_reply": None,
        "human_input_mode": "TERMINATE", "function_map": None, "code_execution_config": False, "llm_config": None,
        "default_auto_reply": "", "description": None, "functions": None, "handoffs": None,
    },
    methods={
        "initiate_chat": participants.initiate_chat, "a_initiate_chat": participants.initiate_chat,
        "initiate_chats": participants.initiate_chats, "a_initiate_chats": participants.initiate_chats,
        "run": participants.run, "a_run": participants.run, "send": participants.initiate_chat,
        "register_nested_chats": participants.register_nested_chats,
        "register_for_llm": participants.for_llm, "register_for_execution": participants.for_execution,
        "register_function": participants.function_map,
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
    if isinstance(value, participants.ChatSequence):
        return True
    return isinstance(value, ObjectStub) and is_a(value, PACKAGE, *CLASSES)


def called(interpreter: Program, target: object, arguments: Arguments, line: int) -> Values | None:
    """Applies the functions that register tools and start chats; returns None for other calls."""
    if isinstance(target, ToolRegistration):
        return target.apply(arguments.values_of("", 0))
    if not isinstance(target, ImportedName | Attribute):
        return None
    path = target.path if isinstance(target, ImportedName) else ""
    last = path.rpartition(".")[2]
    if path.partition(".")[0] != PACKAGE:
        participants.passed_on(target, arguments, line)
        return None
    if last == "register_function":
        return participants.register_function(arguments)
    if last in {"initiate_chats", "a_initiate_chats"}:
        chats, complete = participants.chats_of(interpreter, arguments.values_of("chat_queue", 0), UNKNOWN)
        participants.start(interpreter, chats, line, complete=complete)
        return UNKNOWN
    if last == "register_hand_off":
        for agent in participants.agents_in(arguments.values_of("agent", 0)):
            register_hand_off(agent, Arguments((arguments.values_of("hand_to", 1),)))
        return exactly(None)
    return _group_started(interpreter, last, arguments, line)


def _group_started(interpreter: Program, function: str, arguments: Arguments, line: int) -> Values | None:
    name = function.removeprefix("a_")
    if name in {"initiate_group_chat", "run_group_chat", "run_group_chat_iter"}:
        patterns = arguments.values_of("pattern", 0)
        interpreter.started += [pattern for pattern in patterns.known if isinstance(pattern, ObjectStub)]
        return UNKNOWN
    if name in {"initiate_swarm_chat", "run_swarm"}:
        interpreter.started.append(swarm(interpreter, arguments, line))
        return UNKNOWN
    return None
