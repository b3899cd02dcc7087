"""The classes of AutoGen, as far as graphs depend on them, and what their constructors do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

from guardagent.frameworks.autogen.source import graphs as autogen_graphs
from guardagent.workflow.extraction.frameworks import is_a
from guardagent.workflow.python_source.evaluation.values import (
    NOTHING,
    UNKNOWN,
    Applied,
    Arguments,
    Function,
    Live,
    Sequence,
    Table,
    Values,
    exactly,
    text,
)
from guardagent.workflow.python_source.programs.stand_ins import REQUIRED, Framed, Kind, make, stage_of

CHAT, CORE, EXT = "autogen_agentchat", "autogen_core", "autogen_ext"

_WEB = (
    "visit_url web_search history_back scroll_up scroll_down click input_text scroll_element_down scroll_element_up "
    "hover answer_question summarize_page sleep"
)
_FILES = "open_path page_up page_down find_on_page_ctrl_f find_next"


# What constructors do besides keeping what they are given.


def _keep(made: Framed) -> None:
    """What is given is kept under names that are not public."""
    for name in made.kind.all_fields:
        made.attributes[f"_{name}"] = made.attributes[name]


def _settle_team(made: Framed) -> None:
    if made.attributes["name"].known == (None,):
        made.attributes["name"] = exactly(made.kind.name)
    _keep(made)
    made.attributes["_group_chat_manager_name"] = exactly("MagenticOneOrchestrator")


def _settle_flow(made: Framed) -> None:
    graphs = made.attributes["graph"]
    made.attributes["_graph"] = Values(tuple(map(autogen_graphs.digraph_of, graphs.known)), graphs.complete)


def _settle_magentic_one(made: Framed) -> None:
    """The agents that this team always has."""
    inner, given = made.interpreter, made.attributes
    client = Arguments((), {"model_client": given["client"]})
    agents = [
        make(inner, _FILE_SURFER, _named("FileSurfer", client), made.line),
        make(inner, _WEB_SURFER, _named("WebSurfer", client), made.line),
        make(inner, _ASSISTANT, _named("Coder", client), made.line),
        make(inner, _EXECUTOR, _named("ComputerTerminal", Arguments((), {"approval_func": given["approval_func"]})),
             made.line),
    ]  # fmt: skip
    if given["hil_mode"].known != (False,):
        agents.append(make(inner, _PERSON, _named("User", Arguments()), made.line))
    given["participants"] = given["_participants"] = exactly(Sequence(tuple(map(exactly, agents))))


def _named(name: str, arguments: Arguments) -> Arguments:
    return Arguments((), {"name": exactly(name), **arguments.keywords})


def _settle_assistant(made: Framed) -> None:
    given = made.attributes
    if given["workbench"].known == (None,):
        tools = exactly(Sequence(())) if given["tools"].known == (None,) else given["tools"]
        given["workbench"] = exactly(make(made.interpreter, _WORKBENCH, Arguments((tools,)), made.line))
    given["_workbench"] = _as_list(given["workbench"])
    given["_handoffs"] = _handoffs(made)
    given["_reflect_on_tool_use"] = given["reflect_on_tool_use"]


def _as_list(values: Values) -> Values:
    """A list of what can also be given without one; who enters a context gets the same object again."""
    alone = [one for one in values.known if isinstance(one, Framed)]
    if not alone or len(alone) < len(values.known):
        return values
    return exactly(Sequence(tuple(map(exactly, alone)), ordered=len(alone) == 1))


def _handoffs(made: Framed) -> Values:
    """The hand-offs by the names of their tools; UNKNOWN where others can be among them."""
    given = made.attributes["handoffs"]
    if given.known == (None,):
        return exactly(Table(()))
    elements = made.interpreter.elements(given)
    found = [_handoff(made, one) for one in elements.known]
    if not elements.complete or None in found:
        return UNKNOWN
    return exactly(Table(tuple((one.attributes["name"], exactly(one)) for one in found if one is not None)))


def _handoff(made: Framed, one: object) -> Framed | None:
    if isinstance(one, str):
        return make(made.interpreter, _HANDOFF, Arguments((), {"target": exactly(text(one))}), made.line)
    return one if isinstance(one, Framed) and is_a(one, CHAT, "Handoff") else None


def _settle_handoff(made: Framed) -> None:
    if made.attributes["name"].known in {(None,), ("",)}:
        targets = made.attributes["target"].strings
        named = [f"transfer_to_{target}".lower() for target in targets or ()]
        made.attributes["name"] = Values(tuple(named)) if named else UNKNOWN


def _settle_workbench(made: Framed) -> None:
    """Functions among the tools are made tools."""
    tools = made.attributes["tools"]
    known = tuple(found for one in tools.known if (found := _tools(made, one)) is not None)
    made.attributes["_tools"] = Values(known, tools.complete and len(known) == len(tools.known))
    overrides = made.attributes["tool_overrides"]
    made.attributes["_tool_overrides"] = exactly(Table(())) if overrides.known == (None,) else overrides


def _tools(made: Framed, several: object) -> Sequence | None:
    if isinstance(several, list | tuple):
        several = Sequence(tuple(map(exactly, several)))
    if not isinstance(several, Sequence):
        return None
    items = (Values(tuple(_tool(made, one) for one in item.known), item.complete) for item in several.items)
    return Sequence(tuple(items), several.ordered)


def _tool(made: Framed, one: object) -> object:
    if isinstance(one, Function | Applied):
        return make(made.interpreter, _FUNCTION_TOOL, Arguments((exactly(one),)), made.line)
    return one


def _settle_function_tool(made: Framed) -> None:
    """A tool is called like its function."""
    made.attributes["_func"] = made.attributes["func"]
    if made.attributes["name"].known == (None,):
        stage, functions = stage_of(made.interpreter), made.attributes["func"]
        shown = [stage.one(one) for one in functions.known]
        names = [str(getattr(one, "__name__", None) or getattr(one, "name", "function")) for one in shown]
        made.attributes["name"] = Values(tuple(dict.fromkeys(names)), functions.complete)


def _settle_agent_tool(made: Framed) -> None:
    made.attributes["_task_runner"] = made.attributes["agent"]
    names = [str(one.name) for one in made.attributes["agent"].known if isinstance(one, Framed)]
    made.attributes["name"] = Values(tuple(names), made.attributes["agent"].complete)


def _settle_team_tool(made: Framed) -> None:
    made.attributes["_task_runner"] = made.attributes["team"]


def _settle_adapter(made: Framed) -> None:
    """A tool of LangChain keeps its name."""
    given = made.attributes["langchain_tool"]
    names = [one.tree.name for one in given.known if isinstance(one, Function) and hasattr(one.tree, "name")]
    made.attributes["name"] = Values(tuple(names), complete=bool(names) and given.complete)


def _settle_surfer(tools: str) -> Callable[[Framed], None]:
    def settle(made: Framed) -> None:
        made.attributes["tools"] = exactly([SimpleTool(name) for name in tools.split()])

    return settle


@dataclass(frozen=True, eq=False)
class SimpleTool(Live):
    """A tool of which there is no more to say than its name."""

    name: str


@dataclass(frozen=True, eq=False)
class _Told(Live):
    """What a termination condition says of itself."""

    made: Framed
    names: tuple[str, ...]

    def __call__(self) -> SimpleNamespace:
        return SimpleNamespace(config={name: getattr(self.made, name) for name in self.names})


def _settle_condition(made: Framed) -> None:
    _keep(made)
    said = tuple(name for name in made.kind.all_fields if (made.kind.name, name) not in _NOT_SAID)
    if made.kind.name != "FunctionalTermination":
        made.attributes["dump_component"] = exactly(_Told(made, said))


_NOT_SAID = {("TextMentionTermination", "sources")}


def combined(sign: str, left: Values, right: Values) -> Values | None:
    """`left & right` or `left | right` of termination conditions."""
    known = [one for one in (*left.known, *right.known) if isinstance(one, Framed) and is_a(one, CHAT, _CONDITION.name)]
    if not known or len(left.known) != 1 or len(right.known) != 1:
        return None if not known else Values(tuple(known), complete=False)
    kind = _AND if sign == "&" else _OR
    parts = exactly(Sequence((left, right)))
    return exactly(make(known[0].interpreter, kind, Arguments((), {"conditions": parts}), known[0].line))


def _started(team: Framed, _arguments: Arguments, _line: int) -> Values:
    team.interpreter.started.append(team)
    return UNKNOWN


# The classes.

_RUNS = {"run": _started, "run_stream": _started}
_TASKS = Kind("TaskRunner", f"{CHAT}.base._task", methods=_RUNS)
_CHAT_AGENT = Kind("ChatAgent", f"{CHAT}.base._chat_agent", _TASKS)
_TEAM = Kind("Team", f"{CHAT}.base._team", _TASKS)
_AGENT = Kind("BaseChatAgent", f"{CHAT}.agents._base_chat_agent", _CHAT_AGENT,
              fields={"name": REQUIRED, "description": ""})  # fmt: skip
_AGENTS = f"{CHAT}.agents"
_ASSISTANT = Kind(
    "AssistantAgent", f"{_AGENTS}._assistant_agent", _AGENT,
    fields={
        "model_client": None, "tools": None, "workbench": None, "handoffs": None, "model_context": None,
        "system_message": "", "model_client_stream": False, "reflect_on_tool_use": False, "max_tool_iterations": 1,
        "memory": None, "metadata": None, "output_content_type": None,
    },
    several=frozenset({"_workbench"}), positional=("name", "model_client"), settle=_settle_assistant,
    also=("MagenticOneCoderAgent",),
)  # fmt: skip
_PERSON = Kind("UserProxyAgent", f"{_AGENTS}._user_proxy_agent", _AGENT, {"input_func": None}, positional=("name",))
_EXECUTOR = Kind(
    "CodeExecutorAgent", f"{_AGENTS}._code_executor_agent", _AGENT,
    fields={"code_executor": None, "model_client": None, "sources": None, "approval_func": None},
    positional=("name", "code_executor"), settle=_keep,
)  # fmt: skip


def _ext_agent(name: str, module: str, tools: str = "", suffix: str = "") -> Kind:
    fields = {"model_client": None, "tools": None}
    settle = _settle_surfer(tools) if tools else _settle_hosted
    return Kind(name, f"{EXT}.agents.{module}", _AGENT, fields, settle=settle, suffix=suffix,
                positional=("name", "model_client"), several=frozenset({"tools"}))  # fmt: skip


def _settle_hosted(made: Framed) -> None:
    """The tools that such an agent is given: functions, objects, or the names of what its provider has."""
    given = made.attributes["tools"]
    elements = NOTHING if given.known == (None,) else made.interpreter.elements(given)
    named = tuple(SimpleTool(text(one)) if isinstance(one, str) else _tool(made, one) for one in elements.known)
    items = (*map(exactly, named), *(() if elements.complete else (UNKNOWN,)))
    made.attributes["tools"] = exactly(Sequence(items))


_FILE_SURFER = _ext_agent("FileSurfer", "file_surfer._file_surfer", _FILES)
_WEB_SURFER = _ext_agent("MultimodalWebSurfer", "web_surfer._multimodal_web_surfer", _WEB)
_CHATS = f"{CHAT}.teams._group_chat"
_CHAT = Kind(
    "BaseGroupChat", f"{_CHATS}._base_group_chat", _TEAM,
    fields={
        "participants": REQUIRED, "name": None, "description": None, "termination_condition": None, "max_turns": None,
        "runtime": None, "custom_message_types": None, "emit_team_events": False,
    },
    several=frozenset({"participants", "_participants"}), ordered=frozenset({"participants", "_participants"}),
    settle=_settle_team, positional=("participants",),
)  # fmt: skip
_SELECTOR = Kind(
    "SelectorGroupChat", f"{_CHATS}._selector_group_chat", _CHAT,
    fields={
        "model_client": None, "selector_prompt": "", "allow_repeated_speaker": False, "max_selector_attempts": 3,
        "selector_func": None, "candidate_func": None, "model_context": None,
    },
    positional=("participants", "model_client"), doubtful={"_allow_repeated_speaker": True},
)  # fmt: skip
_MAGENTIC = Kind(
    "MagenticOneGroupChat", f"{_CHATS}._magentic_one._magentic_one_group_chat", _CHAT,
    {"model_client": None, "max_turns": 20, "max_stalls": 3, "final_answer_prompt": ""},
    positional=("participants", "model_client"),
)  # fmt: skip
_CONDITION = Kind("TerminationCondition", f"{CHAT}.base._termination", settle=_settle_condition, suffix="Termination")
_AND, _OR = (
    Kind(f"{name}TerminationCondition", f"{CHAT}.base._termination", _CONDITION, {"conditions": []},
         several=frozenset({"conditions", "_conditions"}))
    for name in ("And", "Or")
)  # fmt: skip


def _ends(name: str, **fields: object) -> Kind:
    return Kind(name, f"{CHAT}.conditions._terminations", _CONDITION, fields, several=frozenset({"sources"}))


_TOOL = Kind(
    "BaseTool", f"{CORE}.tools._base", suffix="Tool", doubtful={"name": None},
    fields={"args_type": None, "return_type": None, "name": REQUIRED, "description": "", "strict": False},
)  # fmt: skip
_FUNCTION_TOOL = Kind(
    "FunctionTool", f"{CORE}.tools._function_tool", _TOOL,
    fields={"func": REQUIRED, "name": None, "global_imports": None},
    positional=("func", "description", "name"), settle=_settle_function_tool,
)  # fmt: skip
_RUNNER_TOOL = Kind("TaskRunnerTool", f"{CHAT}.tools._task_runner_tool", _TOOL)
_ANY_WORKBENCH = Kind("Workbench", f"{CORE}.tools._workbench", suffix="Workbench")
_WORKBENCH = Kind(
    "StaticWorkbench", f"{CORE}.tools._static_workbench", _ANY_WORKBENCH, {"tools": REQUIRED, "tool_overrides": None},
    several=frozenset({"_tools"}), settle=_settle_workbench,
)  # fmt: skip
_CLIENT = Kind("ChatCompletionClient", f"{CORE}.models._model_client")
_HANDOFF = Kind(
    "Handoff", f"{CHAT}.base._handoff", fields={"target": REQUIRED, "description": "", "name": "", "message": ""},
    settle=_settle_handoff,
)  # fmt: skip

KINDS = (
    _AGENT, _ASSISTANT, _PERSON, _EXECUTOR, _FILE_SURFER, _WEB_SURFER, _CHAT, _SELECTOR, _MAGENTIC, _CONDITION, _AND,
    _OR, _TOOL, _FUNCTION_TOOL, _RUNNER_TOOL, _ANY_WORKBENCH, _WORKBENCH, _CLIENT, _HANDOFF,
    Kind("SocietyOfMindAgent", f"{_AGENTS}._society_of_mind_agent", _AGENT, {"team": None, "model_client": None},
         positional=("name", "team", "model_client"), settle=_keep),
    Kind("MessageFilterAgent", f"{_AGENTS}._message_filter_agent", _AGENT, {"wrapped_agent": None, "filter": None},
         positional=("name", "wrapped_agent", "filter"), settle=_keep),
    _ext_agent("OpenAIAgent", "openai._openai_agent", suffix="Agent"),
    _ext_agent("VideoSurfer", "video_surfer._video_surfer", suffix="Surfer"),
    Kind("RoundRobinGroupChat", f"{_CHATS}._round_robin_group_chat", _CHAT),
    Kind("Swarm", f"{_CHATS}._swarm_group_chat", _CHAT),
    Kind("GraphFlow", f"{_CHATS}._graph._digraph_group_chat", _CHAT, {"graph": REQUIRED},
         positional=("participants", "graph"), settle=_settle_flow),
    Kind("MagenticOne", f"{EXT}.teams.magentic_one", _MAGENTIC, {
        "client": None, "hil_mode": False, "input_func": None, "code_executor": None, "approval_func": None,
    }, positional=("client", "hil_mode", "input_func", "code_executor", "approval_func"), settle=_settle_magentic_one),
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
    Kind("AgentTool", f"{CHAT}.tools._agent", _RUNNER_TOOL, {"agent": REQUIRED, "return_value_as_last_message": False},
         positional=("agent",), settle=_settle_agent_tool),
    Kind("TeamTool", f"{CHAT}.tools._team", _RUNNER_TOOL, {"team": REQUIRED, "return_value_as_last_message": False},
         positional=("team", "name", "description"), settle=_settle_team_tool),
    Kind("StaticStreamWorkbench", f"{CORE}.tools._static_workbench", _WORKBENCH),
    Kind("ToolOverride", f"{CORE}.tools._workbench", fields={"name": None, "description": None}),
    Kind("ExtTool", f"{EXT}.tools", _TOOL, positional=("name",), suffix="Tool"),
    Kind("PythonCodeExecutionTool", f"{EXT}.tools.code_execution", _TOOL, {"name": "CodeExecutor"},
         positional=("executor",)),
    Kind("LangChainToolAdapter", f"{EXT}.tools.langchain", _TOOL, {"langchain_tool": REQUIRED},
         positional=("langchain_tool",), settle=_settle_adapter),
    Kind("ExtWorkbench", f"{EXT}.tools", _ANY_WORKBENCH, suffix="Workbench"),
    Kind("ExtClient", f"{EXT}.models", _CLIENT, suffix="ChatCompletionClient"),
    *autogen_graphs.KINDS,
)  # fmt: skip
