"""The classes of CrewAI that graphs depend on, and the effects of their constructors."""

from __future__ import annotations

from guardagent.frameworks.crewai.source.flow_definition import FlowDefinition
from guardagent.workflow.python_source.stubs import REQUIRED, ClassStub, ObjectStub
from guardagent.workflow.python_source.values import UNKNOWN, Arguments, Values, exactly

CREWAI = "crewai"
_STARTS = [f"{prefix}kickoff{rest}" for prefix in ("", "a") for rest in ("", "_async", "_for_each", "_for_each_async")]

_CONFIG_FIELDS = {"agent", "tools", "human_input", "async_execution", "allow_delegation"}


def _started(owner: ObjectStub, _arguments: Arguments, _line: int) -> Values:
    owner.interpreter.started += [owner, owner.made_of]
    return UNKNOWN


def _settle_config(stub: ObjectStub) -> None:
    """Fills fields from `config` unless given explicitly; an unknown `config` makes them unknown."""
    defaults, config = stub.kind.all_fields, stub.attributes.get("config", exactly(None))
    for table in config.known:
        for key, value in stub.interpreter.pairs(table) or ():
            for name in key.strings or ():
                _set_default(stub, name, (defaults.get(name),), value)
    if not config.complete or not config.known:
        for name in sorted(_CONFIG_FIELDS & defaults.keys()):
            _set_default(stub, name, (defaults[name],), UNKNOWN)


def _set_default(stub: ObjectStub, name: str, default: tuple[object], value: Values) -> None:
    if stub.attributes.get(name, exactly(*default)).known == default:
        stub.attributes[name] = value


def _settle_task(stub: ObjectStub) -> None:
    """Applies the configuration, and drops an unknown description, which only serves as a label."""
    _settle_config(stub)
    if not stub.attributes["description"].complete or len(stub.attributes["description"].known) != 1:
        stub.attributes["description"] = exactly(None)


def _settle_flow(stub: ObjectStub) -> None:
    stub.attributes["_definition"] = exactly(FlowDefinition(stub))


_RUNS = dict.fromkeys(_STARTS, _started)
_AGENT = ClassStub(
    "BaseAgent", f"{CREWAI}.agents.agent_builder.base_agent",
    fields={
        "role": "", "goal": "", "backstory": "", "tools": None, "llm": None, "allow_delegation": False, "memory": None,
        "multimodal": False, "mcps": None, "apps": None, "a2a": None, "config": None,
    },
    list_fields=frozenset({"tools"}), finish=_settle_config, methods=_RUNS,
)  # fmt: skip
_TASK = ClassStub(
    "Task", f"{CREWAI}.task",
    fields={
        "description": "", "expected_output": "", "name": None, "agent": None, "tools": None, "context": None,
        "async_execution": False, "human_input": False, "guardrail": None, "guardrails": None,
        "guardrail_max_retries": 3, "config": None, "callback": None,
    },
    list_fields=frozenset({"tools"}), fallbacks={"name": None}, finish=_settle_task,
)  # fmt: skip
CREW = ClassStub(
    "Crew", f"{CREWAI}.crew",
    fields={
        "tasks": None, "agents": None, "process": "sequential", "memory": False, "manager_agent": None,
        "manager_llm": None, "planning": False, "config": None,
    },
    list_fields=frozenset({"tasks", "agents"}), ordered_fields=frozenset({"tasks"}), methods=_RUNS,
)  # fmt: skip
FLOW = ClassStub("Flow", f"{CREWAI}.flow.flow", fields={"tracing": None}, finish=_settle_flow,
            methods={**_RUNS, "plot": _started})  # fmt: skip
_LLM = ClassStub("BaseLLM", f"{CREWAI}.llms.base_llm", fields={"model": None})
_TOOL = ClassStub(
    "BaseTool", f"{CREWAI}.tools.base_tool", fields={"name": REQUIRED, "description": ""}, suffix="Tool",
    positional=(), fallbacks={"name": None},
)  # fmt: skip
TOOL = ClassStub("Tool", f"{CREWAI}.tools.base_tool", _TOOL, {"func": None}, positional=())
KINDS = (
    _AGENT, _TASK, CREW, FLOW, _LLM, _TOOL, TOOL,
    ClassStub("Agent", f"{CREWAI}.agent.core", _AGENT),
    ClassStub("LiteAgent", f"{CREWAI}.lite_agent", _AGENT),
    ClassStub("ConditionalTask", f"{CREWAI}.tasks.conditional_task", _TASK, {"condition": None}),
    ClassStub("LLM", f"{CREWAI}.llm", _LLM, positional=("model",)),
    ClassStub("CrewStructuredTool", f"{CREWAI}.tools.structured_tool", _TOOL, {"func": None}),
    ClassStub("ReadyMadeTool", "crewai_tools", _TOOL, suffix="Tool", positional=()),
)  # fmt: skip
