"""Reads the source of Google ADK programs: agents, tools and workflows become stubs, extracted like live objects.

Workflows come first, with their nodes and edges as ADK builds them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

from guardagent.frameworks.adk import extractor as live
from guardagent.frameworks.adk.extractor.agents import ADK
from guardagent.workflow.extraction import is_a
from guardagent.workflow.python_source.interpreter import Interpreter
from guardagent.workflow.python_source.scopes import LiveScope
from guardagent.workflow.python_source.stubs import REQUIRED, ClassStub, ObjectStub, Program, copy_of, identity, make
from guardagent.workflow.python_source.values import (
    NOTHING,
    UNKNOWN,
    Arguments,
    CallResult,
    Function,
    ImportedName,
    LiveValue,
    PartialFunction,
    Sequence,
    Table,
    Values,
    exactly,
)

_START = "START"
WORKFLOW_CONSTANTS: dict[str, object] = {
    f"{ADK}.workflow.START": _START,
    f"{ADK}.workflow._base_node.START": _START,
    f"{ADK}.workflow.DEFAULT_ROUTE": "__DEFAULT__",
    f"{ADK}.workflow._graph.DEFAULT_ROUTE": "__DEFAULT__",
}
_GRAPH = ClassStub(
    "Graph", f"{ADK}.workflow._graph", fields={"nodes": [], "edges": []}, list_fields=frozenset({"nodes", "edges"})
)
_EDGE = ClassStub("Edge", f"{ADK}.workflow._graph", fields={"from_node": REQUIRED, "to_node": REQUIRED, "route": None})


def kinds(base: ClassStub) -> tuple[ClassStub, ...]:
    """The classes of workflows and their nodes."""
    return (
        _GRAPH,
        _EDGE,
        ClassStub("Workflow", f"{ADK}.workflow._workflow", base, {"edges": [], "graph": None}, finish=_settle_workflow),
        _kind("FunctionNode", base, {"func": None, "require_confirmation": False}, settle=_settle_function),
        _kind("Node", base, {"parallel_worker": False}),
        _kind("JoinNode", base, {}),
        _kind("_ToolNode", base, {"tool": None}),
        _kind("_ParallelWorker", base, {"_node": None}),
    )


def _kind(name: str, base: ClassStub, fields: dict[str, object], settle: object = None) -> ClassStub:
    return ClassStub(name, f"{ADK}.workflow.{name.lower()}", base, fields, finish=settle)  # type: ignore[arg-type]


def _settle_function(stub: ObjectStub) -> None:
    """Names a node after its function."""
    stub.attributes["_func"] = stub.attributes["func"]
    _name_after(stub, "func")


def _name_after(stub: ObjectStub, holder: str) -> None:
    """Names a node or a tool without a name after the function, tool or agent that it holds."""
    name, held = stub.attributes.get("name", exactly(None)), stub.attributes[holder]
    if name.known == (None,) or not (name.known or name.complete):
        shown = [stub.interpreter.converter.convert(value) for value in held.known]
        names = [getattr(value, "name", "") or getattr(value, "__name__", type(value).__name__) for value in shown]
        stub.attributes["name"] = Values(tuple(dict.fromkeys(map(str, names))), held.complete)


def node(interpreter: Program, wrapped: Values, options: Arguments, line: int) -> Values:
    """The nodes that `node(...)` returns."""
    worker = options.get("parallel_worker")
    stub = [_node_of(interpreter, value, options, line) for value in wrapped.known]
    if worker is not None and worker.known != (False,):
        stub = [_worker(interpreter, node_stub, line) for node_stub in stub]
    return Values(tuple(stub), wrapped.complete)


def _worker(interpreter: Program, object_stub: ObjectStub, line: int) -> ObjectStub:
    kind = interpreter.kinds.of(f"{ADK}.workflow._ParallelWorker")
    assert kind is not None
    return make(interpreter, kind, Arguments((), {"name": exactly(object_stub.name)}), line, _node=exactly(object_stub))


def _node_of(interpreter: Program, value: object, options: Arguments, line: int) -> ObjectStub:
    """The node that ADK creates for a value."""
    overrides = {key: options.keywords[key] for key in ("name", "require_confirmation") if key in options.keywords}
    if isinstance(value, ObjectStub) and is_a(value, ADK, "BaseNode"):
        return _node_copy(value, overrides)
    if is_a(value, ADK, "NodeTool"):
        inner = getattr(value, "node", None)
        return _node_of(interpreter, inner, options, line)
    if is_a(value, ADK, "BaseTool"):
        named = {"name": exactly(str(getattr(value, "name", "tool"))), **overrides}
        return _create(interpreter, "_ToolNode", {**named, "tool": exactly(value)}, line)
    return _create(interpreter, "FunctionNode", {"func": exactly(value), **overrides}, line)


def _create(interpreter: Program, name: str, fields: dict[str, Values], line: int) -> ObjectStub:
    kind = interpreter.kinds.of(f"{ADK}.workflow.{name}")
    assert kind is not None
    return make(interpreter, kind, Arguments((), fields), line)


def _node_copy(object_stub: ObjectStub, changes: dict[str, Values]) -> ObjectStub:
    """A node as a workflow holds it: an agent with a model is copied, with its sub-agents."""
    if not is_a(object_stub, ADK, "LlmAgent"):
        return copy_of(object_stub, Arguments((), changes)) if changes else object_stub
    stub = copy_of(object_stub, Arguments((), changes))
    parent = stub.attributes.get("parent_agent", exactly(None))
    adopt(stub)
    stub.attributes["parent_agent"] = parent
    if stub.attributes.get("mode", exactly(None)).known == (None,):
        stub.attributes["mode"] = exactly("single_turn" if parent.known == (None,) else "chat")
    if object_stub.attributes.get("parallel_worker", NOTHING).known == (True,):
        stub.attributes["parallel_worker"] = Values((False,))
        return _worker(object_stub.interpreter, stub, object_stub.line)
    return stub


def adopt(stub: ObjectStub, copies: dict[int, ObjectStub] | None = None) -> None:
    """Replaces the sub-agents of a copied agent by copies; `copies` maps the ids of originals to their copies."""
    copies = {} if copies is None else copies
    held = stub.attributes.get("sub_agents")
    stub.attributes["parent_agent"] = exactly(None)
    if held is not None:
        stub.attributes["sub_agents"] = Values(
            tuple(_child_copies(stub, value, copies) for value in held.known), held.complete
        )


def _child_copies(parent: ObjectStub, held: object, copies: dict[int, ObjectStub]) -> object:
    if not isinstance(held, Sequence):
        return held
    items = [
        Values(tuple(_child_copy(parent, value, copies) for value in item.known), item.complete) for item in held.items
    ]  # fmt: skip
    return Sequence(tuple(items), held.ordered)


def _child_copy(parent: ObjectStub, child: object, copies: dict[int, ObjectStub]) -> object:
    if not isinstance(child, ObjectStub):
        return child
    if id(child) not in copies:
        copies[id(child)] = copy_of(child, Arguments())
        adopt(copies[id(child)], copies)
        copies[id(child)].attributes["parent_agent"] = exactly(parent)
    return copies[id(child)]


# --- the graph of a workflow


def _settle_workflow(stub: ObjectStub) -> None:
    if stub.attributes["graph"].known == (None,):
        stub.attributes["graph"] = exactly(_EdgeParser(stub).graph())


class _EdgeParser:
    """Parses the edges of one workflow: pairs, chains, routes."""

    def __init__(self, workflow: ObjectStub) -> None:
        self._workflow, self._interpreter, self._line = workflow, workflow.interpreter, workflow.line
        self._nodes: dict[object, ObjectStub] = {}
        self._edges: list[ObjectStub] = []
        self._unknown: ObjectStub | None = None
        self._incomplete = False

    def graph(self) -> ObjectStub | None:
        for item in self._items(self._workflow.attributes["edges"]):
            self._item(item)
        if self._incomplete:
            self._widen()
        if not self._edges:
            return None
        nodes = {id(end): end for edge in self._edges for name in ("from_node", "to_node")
                 for end in edge.attributes[name].known}  # fmt: skip
        fields = {"nodes": _sequence(nodes.values()), "edges": _sequence(self._edges)}
        return make(self._interpreter, _GRAPH, Arguments((), fields), self._line)

    def _items(self, values: Values) -> Iterator[object]:
        """The values that lists can hold, in no order; records whether they are all."""
        self._incomplete = self._incomplete or not values.complete
        for value in values.known:
            if isinstance(value, Sequence):
                for item in value.items:
                    self._incomplete = self._incomplete or not item.complete
                    yield from item.known
            elif value is not None:
                self._incomplete = True

    def _item(self, item: object) -> None:
        if isinstance(item, ObjectStub) and is_a(item, ADK, "Edge"):
            route = item.attributes["route"]
            self._connect(
                self._nodes_of(item.attributes["from_node"]), self._nodes_of(item.attributes["to_node"]), route
            )
        elif isinstance(item, Sequence) and item.ordered:
            for before, after in pairwise(item.items):
                self._pair(before, after)
        else:
            self._incomplete = True
            for node in self._nodes_of(exactly(item)) if isinstance(item, Sequence) else ():
                self._node(node)

    def _pair(self, before: Values, after: Values) -> None:
        sources = self._nodes_of(before)
        plain = Values(tuple(value for value in after.known if not isinstance(value, Table)), after.complete)
        if plain.known or not plain.complete:
            self._connect(sources, self._nodes_of(plain), exactly(None))
        for table in (value for value in after.known if isinstance(value, Table)):
            for route, target in table.items:
                self._connect(sources, self._nodes_of(target), route)

    def _connect(self, sources: list[ObjectStub], targets: list[ObjectStub], route: Values) -> None:
        for source in sources:
            for target in targets:
                fields = {"from_node": exactly(source), "to_node": exactly(target), "route": self._route(route)}
                self._edges.append(make(self._interpreter, _EDGE, Arguments((), fields), self._line))

    def _route(self, route: Values) -> Values:
        """The route of an edge, or all possible routes."""
        if len(route.known) == 1 and route.complete:
            return route
        note = f"line {self._line}: the source does not determine a route of {self._workflow.name!r}"
        self._interpreter.converter.note(note)
        known = [value for value in route.known if isinstance(value, str | int)]
        return exactly(Sequence(tuple(map(exactly, [*known, *([] if route.complete else ["a route"])]))))

    def _nodes_of(self, values: Values) -> list[ObjectStub]:
        """The nodes of an element of a chain."""
        object_stubs: list[ObjectStub] = []
        for value in values.known:
            if isinstance(value, Sequence):
                object_stubs += [each for item in value.items for each in self._nodes_of(item)]
            elif isinstance(value, Table):
                object_stubs += [each for _, item in value.items for each in self._nodes_of(item)]
            elif value is not None:
                object_stubs.append(self._node(value))
        return object_stubs if values.complete else [*object_stubs, self._unknown_node()]

    def _node(self, value: object) -> ObjectStub:
        if value == _START:
            key: object = _START
        else:
            key = identity(value) if isinstance(value, Function | PartialFunction) else id(value)
        if key not in self._nodes:
            start = {"name": exactly("__START__")}
            self._nodes[key] = (
                _create(self._interpreter, "BaseNode", start, self._line)
                if value == _START
                else _node_of(self._interpreter, value, Arguments(), self._line)
            )
        return self._nodes[key]

    def _unknown_node(self) -> ObjectStub:
        """The stub for unknown nodes."""
        if self._unknown is None:
            note = f"line {self._line}: the source does not determine all nodes of {self._workflow.name!r}"
            self._interpreter.converter.note(note)
            fields = {"name": exactly("unknown"), "func": UNKNOWN}
            self._unknown = self._nodes["unknown"] = _create(self._interpreter, "FunctionNode", fields, self._line)
        return self._unknown

    def _widen(self) -> None:
        """Connects every node with every other and with an unknown node, as not all edges are known."""
        self._interpreter.converter.note(
            f"line {self._line}: the source does not determine all edges of {self._workflow.name!r}; all possible "
            f"edges are assumed"
        )
        self._unknown_node()
        self._node(_START)
        known = list(self._nodes.values())
        have = {(id(edge.from_node), id(edge.to_node)) for edge in self._edges}
        for source in known:
            targets = [
                target for target in known if target.name != "__START__" and (id(source), id(target)) not in have
            ]
            self._connect([source], targets, exactly("a route"))


def _sequence(several: Iterable[object]) -> Values:
    return exactly(Sequence(tuple(map(exactly, several))))


# --- the reader

_NO = Values((False,))
_NAMING = {"func", "agent", "tool"}  # what a tool is named after
_DELEGATED = {"task": "_TaskAgentTool", "single_turn": "_SingleTurnAgentTool"}


def is_workflow(value: object) -> bool:
    return isinstance(value, ObjectStub) and is_a(value, ADK, "BaseAgent", "Workflow", "App", "Runner")


def unwrapped(value: object) -> object:
    """The agent that an app or a runner runs, if the source determines it; else the value."""
    while isinstance(value, ObjectStub) and is_a(value, ADK, "App", "Runner"):
        agents = value.attributes["root_agent" if is_a(value, ADK, "App") else "agent"]
        if len(agents.known) != 1 or not agents.complete or not is_workflow(agents.known[0]):
            break
        value = agents.known[0]
    return value


def called(interpreter: Interpreter, target: object, arguments: Arguments, line: int) -> Values | None:
    """The values of a call of a function of ADK that makes nodes, tools or agents; None for other calls."""
    maker = target.callee if isinstance(target, CallResult) else target
    path = maker.path if isinstance(maker, ImportedName) else ""
    if not path.startswith(f"{ADK}."):
        return None
    if path.endswith("Toolset.from_server"):
        return _from_server(interpreter, path, arguments, line)
    if isinstance(target, ImportedName) and _is_decorator(path, arguments):
        return arguments.positional[0]
    if path.endswith(".from_config"):
        return _from_config(interpreter, arguments, line)
    if not path.endswith(".node"):
        return None
    wrapped = arguments.get("node_like", 0)
    if wrapped is None or not wrapped.known:
        return None
    options = target.arguments if isinstance(target, CallResult) else arguments
    return node(interpreter, wrapped, options, line)


def _is_decorator(path: str, arguments: Arguments) -> bool:
    """Whether an unknown function of the tools' package takes nothing but a function, whose name the tool keeps."""
    if arguments.keywords or len(arguments.positional) != 1 or not path.startswith(f"{ADK}.tools."):
        return False
    passed = arguments.positional[0]
    return path.rpartition(".")[2].islower() and passed.complete and all(isinstance(o, Function) for o in passed.known)


def _from_server(interpreter: Interpreter, path: str, arguments: Arguments, line: int) -> Values:
    """The tools of a server and the stack that closes its connection, as early versions of ADK return them."""
    kind = interpreter.kinds.of(path.rpartition(".")[0])
    assert kind is not None
    toolset = make(interpreter, kind, Arguments((), arguments.keywords), line)
    return exactly(Sequence((exactly(Sequence((exactly(toolset),))), UNKNOWN)))


def _from_config(interpreter: Interpreter, arguments: Arguments, line: int) -> Values:
    """An agent that a YAML file describes, which is not read."""
    files = arguments.values_of("config_path", 0).strings or ("a file",)
    interpreter.converter.note(
        f"line {line}: the agent is described in {' or '.join(sorted(files))}, which is not read"
    )
    return exactly(make(interpreter, _LLM, Arguments(open=True), line))


# --- side effects of the constructors of ADK's classes


def _settle_agent(stub: ObjectStub) -> None:
    """Makes an agent the parent of its sub-agents, and adds those that it calls like tools to its tools.

    A sub-agent that may be None, as after `agent = None` and a `try`, is none: ADK refuses it.
    """
    stub.attributes["sub_agents"] = _without_none(stub.attributes["sub_agents"])
    for object_stub in _framed(stub.attributes["sub_agents"]):
        before = object_stub.attributes.get("parent_agent", NOTHING) if stub.interpreter.depth else NOTHING
        known = Values(tuple(parent for parent in before.known if parent is not None))
        object_stub.attributes["parent_agent"] = known | exactly(stub)
        if is_a(stub, ADK, "LlmAgent") and is_a(object_stub, ADK, "LlmAgent"):
            _delegate(stub, object_stub)


def _delegate(stub: ObjectStub, object_stub: ObjectStub) -> None:
    mode = object_stub.attributes.get("mode", exactly(None))
    if mode.known == (None,):
        object_stub.attributes["mode"] = exactly("chat")
    for mode_name, name in _DELEGATED.items():
        if mode_name in [known for known in mode.known if isinstance(known, str)]:
            tool = _instance(name, "google.adk.tools.agent_tool", _TOOL_TYPE, name=object_stub.name)
            tools = stub.attributes["tools"]
            grown = tuple(
                Sequence((*held.items, exactly(tool)), held.ordered) if isinstance(held, Sequence) else held
                for held in tools.known
            )
            stub.attributes["tools"] = Values(grown, tools.complete)


def _without_none(values: Values) -> Values:
    """Returns lists whose items are not None where they may be something else."""
    lists = [
        Sequence(tuple(Values(tuple(part for part in item.known if part is not None) or item.known, item.complete)
                       for item in held.items), held.ordered) if isinstance(held, Sequence) else held
        for held in values.known
    ]  # fmt: skip
    return Values(tuple(lists), values.complete)


def _framed(values: Values) -> Iterable[ObjectStub]:
    """The stubs in all lists among some values."""
    for value in values.known:
        for item in value.items if isinstance(value, Sequence) else ():
            yield from (each for each in item.known if isinstance(each, ObjectStub))


def _clone(agent: ObjectStub, arguments: Arguments, _line: int) -> Values:
    """`agent.clone(update={...})`, and `model_copy`."""
    stub = copy_of(agent, Arguments((), _changes(agent, arguments)))
    adopt(stub)
    return exactly(stub)


def _changes(agent: ObjectStub, arguments: Arguments) -> dict[str, Values]:
    values: dict[str, Values] = {}
    for update in (arguments.get("update", 0) or NOTHING).known:
        for key, value in agent.interpreter.pairs(update) or ():
            values |= dict.fromkeys(key.strings or (), value)
    return values


def _settle_tool(stub: ObjectStub) -> None:
    """Names a tool without a name after its class, as ADK names its own: `UrlContextTool` is `url_context`."""
    if stub.attributes["name"].known == (None,) and not _NAMING.intersection(stub.kind.all_fields):
        stub.attributes["name"] = exactly(_snake_case(type(stub).__name__.removesuffix("Tool")))


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _settle_function_tool(stub: ObjectStub) -> None:
    """Names a tool after its function."""
    _settle_mcp_tool(stub)
    _name_after(stub, "func")


def _settle_mcp_tool(stub: ObjectStub) -> None:
    stub.attributes["_require_confirmation"] = stub.attributes.get("require_confirmation", _NO)


def _settle_runner(stub: ObjectStub) -> None:
    """Sets the agent of a runner: given directly, or by its app."""
    agent, node, app = (stub.attributes[name] for name in ("agent", "node", "app"))
    roots = agent if agent.known != (None,) else node
    if roots.known == (None,):
        roots = NOTHING
        for value in app.known:
            roots |= stub.interpreter.attribute(value, "root_agent")
        roots = Values(roots.known, roots.complete and app.complete)
    stub.attributes["agent"] = roots
    stub.interpreter.started += [root for root in roots.known if isinstance(root, ObjectStub)]


def _settle_event(stub: ObjectStub) -> None:
    """Stores the route of an event in its actions."""
    if stub.attributes["route"].known != (None,):
        arguments = Arguments((), {"route": stub.attributes["route"]})
        stub.attributes["actions"] = exactly(make(stub.interpreter, _ACTIONS, arguments, stub.line))


class _UnknownCount(int):
    """An unknown number of iterations."""

    def __format__(self, _spec: str) -> str:
        return "some"


_NODE_FIELDS: dict[str, object] = {
    "name": REQUIRED, "description": "", "rerun_on_resume": False, "wait_for_output": False, "retry_config": None,
    "timeout": None, "input_schema": None, "output_schema": None, "state_schema": None,
}  # fmt: skip
_CALLBACKS = {
    f"{when}_{what}_callback": None for what in ("agent", "model", "tool") for when in ("before", "after")
}  # fmt: skip
_NODE = ClassStub("BaseNode", "google.adk.workflow._base_node", fields=_NODE_FIELDS, methods={"model_copy": _clone})
_AGENT = ClassStub(
    "BaseAgent", "google.adk.agents.base_agent", _NODE,
    {"parent_agent": None, "sub_agents": [], "before_agent_callback": None, "after_agent_callback": None},
    list_fields=frozenset({"sub_agents"}),
    finish=_settle_agent, methods={"clone": _clone, "model_copy": _clone}, suffix="Agent",
)  # fmt: skip
_LLM = ClassStub(
    "LlmAgent", "google.adk.agents.llm_agent", _AGENT,
    {
        "model": "", "instruction": "", "tools": [], "mode": None, "parallel_worker": None,
        "disallow_transfer_to_parent": False, "disallow_transfer_to_peers": False, "output_key": None,
        "planner": None, "code_executor": None, **_CALLBACKS,
    },
    list_fields=frozenset({"tools"}), fallbacks={"mode": None}, aliases=("Agent",),
)  # fmt: skip
_TOOL = ClassStub(
    "BaseTool", "google.adk.tools.base_tool",
    fields={"name": None, "description": "", "is_long_running": False, "custom_metadata": None},
    finish=_settle_tool, suffix="Tool",
)  # fmt: skip
_FUNCTION_TOOL = ClassStub(
    "FunctionTool", "google.adk.tools.function_tool", _TOOL, {"func": None, "require_confirmation": False},
    finish=_settle_function_tool, positional=("func",),
)  # fmt: skip
_TOOLSET = ClassStub(
    "BaseToolset", "google.adk.tools.base_toolset",
    fields={"tool_filter": None, "tool_name_prefix": None}, suffix="Toolset",
)  # fmt: skip
_MCP_TOOLSET = ClassStub(
    "McpToolset", "google.adk.tools.mcp_tool.mcp_toolset", _TOOLSET, {"require_confirmation": False}
)
_RUNNER = ClassStub(
    "Runner", "google.adk.runners", finish=_settle_runner,
    fields={"agent": None, "app": None, "node": None, "app_name": None, "session_service": None},
)  # fmt: skip
_ACTIONS = ClassStub("EventActions", "google.adk.events.event_actions", fields={"route": None, "escalate": None})
_ORDERED = frozenset({"sub_agents"})

_OF_ADK = (
    _NODE,
    _AGENT,
    _LLM,
    _TOOL,
    _FUNCTION_TOOL,
    _TOOLSET,
    _RUNNER,
    _ACTIONS,
    ClassStub("SequentialAgent", "google.adk.agents.sequential_agent", _AGENT, ordered_fields=_ORDERED),
    ClassStub("ParallelAgent", "google.adk.agents.parallel_agent", _AGENT, optional_elements=_ORDERED),
    ClassStub("LoopAgent", "google.adk.agents.loop_agent", _AGENT, {"max_iterations": None}, ordered_fields=_ORDERED,
         fallbacks={"max_iterations": _UnknownCount(2)}),
    ClassStub("BaseRetrievalTool", "google.adk.tools.retrieval.base_retrieval_tool", _TOOL, suffix="Retrieval"),
    ClassStub("LangchainTool", "google.adk.integrations.langchain", _TOOL, {"tool": None},
         finish=partial(_name_after, holder="tool"), positional=("tool", "name", "description")),
    ClassStub("CrewaiTool", "google.adk.integrations.crewai", _TOOL, {"tool": None},
         finish=partial(_name_after, holder="tool"), positional=("tool",)),
    ClassStub("LangGraphAgent", "google.adk.agents.langgraph_agent", _AGENT, {"graph": None}),
    ClassStub("LongRunningFunctionTool", "google.adk.tools.long_running_tool", _FUNCTION_TOOL, positional=("func",)),
    ClassStub("AgentTool", "google.adk.tools.agent_tool", _TOOL, {"agent": None}, positional=("agent",),
         finish=partial(_name_after, holder="agent")),
    ClassStub("McpTool", "google.adk.tools.mcp_tool.mcp_tool", _TOOL, {"require_confirmation": False},
         finish=_settle_mcp_tool, aliases=("MCPTool",)),
    _MCP_TOOLSET,
    ClassStub("MCPToolset", "google.adk.tools.mcp_tool.mcp_toolset", _MCP_TOOLSET),
    ClassStub("OpenAPIToolset", "google.adk.tools.openapi_tool.openapi_spec_parser.openapi_toolset", _TOOLSET),
    ClassStub("App", "google.adk.apps.app", fields={"name": "", "root_agent": None, "plugins": None}),
    ClassStub("InMemoryRunner", "google.adk.runners", _RUNNER, positional=("agent",)),
    ClassStub("Event", "google.adk.events.event", fields={"actions": None, "route": None}, finish=_settle_event),
    *kinds(_NODE),
)  # fmt: skip


_VEADK = ("LoopAgent", "ParallelAgent", "Runner", "SequentialAgent")  # VeADK derives these under the same names
KINDS = (
    *_OF_ADK,
    ClassStub("Agent", "veadk", _LLM, {"name": "veAgent"}),
    *(ClassStub(kind.name, "veadk", kind) for kind in _OF_ADK if kind.name in _VEADK),
)


# --- the tools and functions that ADK ships


def _instance(class_: str, module: str, base: type, **attributes: Any) -> Any:
    stub = type(class_, (base,), {"__module__": module})()
    for key, value in attributes.items():
        setattr(stub, key, value)
    return stub


_TOOL_TYPE = type("BaseTool", (LiveValue,), {"__module__": "google.adk.tools.base_tool"})
_FUNCTION_TYPE = type("FunctionTool", (_TOOL_TYPE,), {"__module__": "google.adk.tools.function_tool"})


def _function(code: str) -> Function:
    tree = ast.parse(code).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return Function(tree, LiveScope({}), {})


def _shipped_tools() -> dict[str, object]:
    names = (
        "google_search url_context enterprise_web_search load_artifacts load_memory preload_memory google_maps "
        "built_in_code_execution"
    ).split()
    shipped_tools: dict[str, object] = {
        name: _instance(f"{name}_tool", "google.adk.tools", _TOOL_TYPE, name=name) for name in names
    }
    shipped_tools["google_maps_grounding"] = shipped_tools.pop("google_maps")
    long_running = {"get_user_choice": "get_user_choice", "request_input": "adk_request_input"}
    for key, name in long_running.items():
        shipped_tools[key] = _instance(
            "LongRunningFunctionTool", "google.adk.tools.long_running_tool", _FUNCTION_TYPE,
            name=name, func=print, _require_confirmation=False,
        )  # fmt: skip
    shipped_tools["exit_loop"] = _function("def exit_loop(tool_context):\n    tool_context.actions.escalate = True")
    shipped_tools["transfer_to_agent"] = _function("def transfer_to_agent(agent_name, tool_context): pass")
    return shipped_tools


_SHIPPED_TOOLS = _shipped_tools()
extract = live.extract
CONSTANTS: dict[str, object] = {
    **{
        path: value
        for name, value in _SHIPPED_TOOLS.items()
        for path in (f"{ADK}.tools.{name}", f"{ADK}.tools.{name}_tool.{name}", f"{ADK}.tools.{name}_tool.{name}_tool")
    },
    **WORKFLOW_CONSTANTS,
}
