"""The agents, teams and tools of LlamaIndex in source code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from guardagent.frameworks.llama_index.source import STARTS
from guardagent.workflow.extraction.objects import UnknownValue, is_a
from guardagent.workflow.python_source.stubs import ClassStub, ObjectStub, converter_of, defined_name, make
from guardagent.workflow.python_source.values import (
    UNKNOWN,
    Arguments,
    Function,
    ImportedName,
    LiveValue,
    PartialFunction,
    Sequence,
    Table,
    Values,
    exactly,
    path_of,
)

CORE = "llama_index.core"
_AGENTS = f"{CORE}.agent.workflow"


@dataclass(frozen=True, eq=False)
class ToolFacts(LiveValue):
    """The metadata of a tool."""

    name: str
    return_direct: bool = False


def called_agent(interpreter: Any, target: object, arguments: Arguments, line: int) -> Values | None:
    """The tools and teams of the library's other constructors; None for other calls."""
    path = target.path if isinstance(target, ImportedName) else ""
    if path.partition(".")[0] != "llama_index":
        return None
    name = ".".join(path.split(".")[-2:])
    if name in {"FunctionTool.from_defaults", "QueryEngineTool.from_defaults"}:
        kind = FUNCTION_TOOL if name.startswith("F") else _QUERY_TOOL
        order = ("fn", "name", "description", "return_direct") if kind is FUNCTION_TOOL else ("query_engine", "name")
        passed = {one: values for place, one in enumerate(order) if (values := arguments.get(one, place)) is not None}
        passed |= {key: values for key, values in arguments.keywords.items() if key == "async_fn"}
        return exactly(make(interpreter, kind, Arguments((), passed), line))
    if name == "AgentWorkflow.from_tools_or_functions":
        tools = arguments.get("tools_or_functions", 0) or UNKNOWN
        agent = make(interpreter, _FUNCTION_AGENT, Arguments((), {"tools": tools}), line)
        members = exactly(Sequence((exactly(agent),)))
        return exactly(make(interpreter, _TEAM, Arguments((), {"agents": members}), line))
    if name.endswith(".ToolMetadata"):
        return exactly(_facts(arguments.get("name", 1), arguments.get("return_direct"), "tool"))
    return None


def _facts(names: Values | None, direct: Values | None, otherwise: str) -> ToolFacts:
    known = sorted(names.strings or ()) if names is not None else []
    return ToolFacts(known[0] if len(known) == 1 else otherwise, direct is not None and direct.known == (True,))


def _settle_tool(stub: ObjectStub) -> None:
    """Sets the metadata of a tool: from an explicit name, else from its function."""
    functions = [one for name in ("fn", "async_fn") for one in stub.attributes[name].known if one is not None]
    explicit = [one for one in stub.attributes["metadata"].known if isinstance(one, ToolFacts)]
    default = next(
        (name for one in functions if (name := _name_of(stub, one))),
        "query_engine_tool" if is_a(stub, CORE, "QueryEngineTool") else "tool",
    )
    own = _facts(stub.attributes["name"], stub.attributes["return_direct"], str(default))
    facts = explicit[0] if explicit else own
    stub.attributes["metadata"] = exactly(facts)
    stub.attributes["name"] = exactly(facts.name)
    stub.attributes["_fn"] = Values(tuple(functions[:1]))


def _name_of(stub: ObjectStub, one: object) -> str:
    known = isinstance(one, Function | PartialFunction)
    return defined_name(stub.interpreter, one) if known else path_of(one).rpartition(".")[2]


def _settle_code_agent(stub: ObjectStub) -> None:
    """Adds the tool that executes code."""
    options = {"fn": stub.attributes["code_execute_fn"], "name": exactly("execute")}
    tool = exactly(make(stub.interpreter, FUNCTION_TOOL, Arguments((), options), stub.line))
    held = stub.attributes["tools"]
    lists = [Sequence((*one.items, tool), one.ordered) for one in held.known if isinstance(one, Sequence)]
    stub.attributes["tools"] = Values(tuple(lists) or (Sequence((tool,)),), held.complete)


def _settle_team(stub: ObjectStub) -> None:
    """Collects the agents of a team by name; one that is not in the program is an agent with unknown tools."""
    members = list(_members(stub))
    stub.attributes["agents"] = exactly(Table(tuple((exactly(str(one.name)), exactly(one)) for one in members)))
    root = stub.attributes["root_agent"]
    if root.known == (None,) and members:
        stub.attributes["root_agent"] = exactly(str(members[0].name))


def _members(stub: ObjectStub) -> Iterable[ObjectStub]:
    listed = stub.attributes["agents"]
    items = [item for one in listed.known for item in (one.items if isinstance(one, Sequence) else (exactly(one),))]
    for one in [each for item in items for each in item.known]:
        if isinstance(one, ObjectStub) and is_a(one, "llama_index", "BaseWorkflowAgent"):
            yield one
        else:
            yield _unknown_agent(stub, path_of(one).rpartition(".")[2] or "agent")
    if not listed.complete or not all(item.complete for item in items):
        converter_of(stub.interpreter).note(f"line {stub.line}: not all agents of the team are known from the source")
        yield _unknown_agent(stub, "unknown")


def _unknown_agent(stub: ObjectStub, name: str) -> ObjectStub:
    fields = {"name": exactly(name), "tools": exactly(Sequence((exactly(UnknownValue(name)),)))}
    return make(stub.interpreter, _FUNCTION_AGENT, Arguments((), fields), stub.line)


_BASE = ClassStub("Workflow", "llama_index.core.workflow.workflow", methods=STARTS)
_AGENT = ClassStub(
    "BaseWorkflowAgent", f"{_AGENTS}.base_agent", _BASE,
    fields={
        "name": "Agent", "description": "", "system_prompt": None, "tools": [], "tool_retriever": None,
        "can_handoff_to": None, "llm": None,
    },
    list_fields=frozenset({"tools"}), fallbacks={"can_handoff_to": None}, positional=(),
)  # fmt: skip
_FUNCTION_AGENT = ClassStub("FunctionAgent", f"{_AGENTS}.function_agent", _AGENT, positional=())
_TEAM = ClassStub(
    "AgentWorkflow", f"{_AGENTS}.multi_agent_workflow", _BASE,
    {"agents": [], "initial_state": None, "root_agent": None},
    positional=("agents", "initial_state", "root_agent"), finish=_settle_team,
)  # fmt: skip
_TOOL = ClassStub(
    "BaseTool", f"{CORE}.tools.types",
    fields={"metadata": None, "name": None, "fn": None, "async_fn": None, "return_direct": False, "query_engine": None},
    positional=(), finish=_settle_tool,
)  # fmt: skip
FUNCTION_TOOL = ClassStub("FunctionTool", f"{CORE}.tools.function_tool", _TOOL, positional=("fn", "metadata"))
_QUERY_TOOL = ClassStub("QueryEngineTool", f"{CORE}.tools.query_engine", _TOOL, positional=("query_engine", "metadata"))
AGENT_KINDS = (
    _AGENT, _FUNCTION_AGENT, _TEAM, _TOOL, FUNCTION_TOOL, _QUERY_TOOL,
    ClassStub("ReActAgent", f"{_AGENTS}.react_agent", _AGENT, positional=()),
    ClassStub("CodeActAgent", f"{_AGENTS}.codeact_agent", _AGENT, {"code_execute_fn": None, "name": "code_act_agent"},
              positional=("code_execute_fn", "name"), finish=_settle_code_agent),
)  # fmt: skip
