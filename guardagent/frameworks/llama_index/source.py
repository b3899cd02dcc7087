"""Reads the source of LlamaIndex programs: workflows, agents and tools become stubs, extracted like live objects.

The steps of workflows come first, with their events by annotations, as the library reads them; then agents, teams and
tools.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from guardagent.frameworks.llama_index import extractor as live
from guardagent.frameworks.llama_index.extractor.steps import LIBRARIES, EventStep, is_event
from guardagent.workflow.extraction import UnknownValue, is_a
from guardagent.workflow.python_source.interpreter import Interpreter
from guardagent.workflow.python_source.stubs import (
    ClassStub,
    ObjectStub,
    Program,
    bases_of,
    defined_name,
    make,
    record_start,
)
from guardagent.workflow.python_source.types import annotated_types
from guardagent.workflow.python_source.values import (
    UNKNOWN,
    Arguments,
    CallResult,
    Class,
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
from guardagent.workflow.python_source.workflows import derives_from

_DECORATORS = {"step", "catch_error"}
_EVENTS = {
    "Event": "", "StartEvent": "Event", "StopEvent": "Event", "InputRequiredEvent": "Event",
    "HumanResponseEvent": "Event", "StepFailedEvent": "Event", "WorkflowFailedEvent": "StopEvent",
}  # fmt: skip
_FREE: WeakKeyDictionary[Program, list[tuple[Class, object, Arguments]]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class FactoryReference(LiveValue):
    """The function that makes the resource of a step."""

    _factory: object


@dataclass(frozen=True, eq=False)
class DeclaredResource(LiveValue):
    """A parameter of a step that gets a resource."""

    name: str
    resource: FactoryReference


@dataclass(eq=False)
class StepDeclaration(LiveValue):
    """The configuration of a step, as the decorator of the library computes it."""

    num_workers: object
    accepted_events: list[Any] = field(default_factory=list)
    return_types: list[Any] = field(default_factory=list)
    bare_return_types: tuple[Any, ...] = ()
    is_fan_out: bool = False
    collect_params: list[tuple[str, Any]] | None = None
    collection_param: tuple[str, tuple[Any, ...]] | None = None
    resources: list[DeclaredResource] = field(default_factory=list)
    retry_policy: object = None
    accept_event_subclasses: bool = False
    role: str = "step"
    catch_error_for_steps: list[str] | None = None


@dataclass(frozen=True, eq=False)
class DeclaredSteps(LiveValue):
    """The steps of a workflow in source code, read when they are needed."""

    workflow: ObjectStub

    def __call__(self) -> dict[str, EventStep]:
        made_of = self.workflow.made_of
        return dict(_steps(self.workflow, made_of)) if isinstance(made_of, Class) else {}


def called_step(interpreter: Interpreter, target: object, arguments: Arguments) -> Values | None:
    """The functions that the decorators of steps leave unchanged; None for other calls."""
    callee = target.callee if isinstance(target, CallResult) else target
    if not _is_decorator(callee):
        return None
    functions = arguments.get("func", 0)
    if functions is None or not any(isinstance(function, Function | PartialFunction) for function in functions.known):
        return None
    options = target.arguments if isinstance(target, CallResult) else Arguments()
    for owner in options.values_of("workflow").known:
        if isinstance(owner, Class):
            _FREE.setdefault(interpreter, []).extend((owner, function, options) for function in functions.known)
    return functions


def _is_decorator(callee: object) -> bool:
    path = path_of(callee) if isinstance(callee, ImportedName) else ""
    return path.partition(".")[0] in LIBRARIES and path.rpartition(".")[2] in _DECORATORS


def _steps(workflow: ObjectStub, made_of: Class) -> Iterator[tuple[str, EventStep]]:
    interpreter = workflow.interpreter
    event_steps: dict[str, EventStep] = {}
    for base in reversed(list(_lineage(interpreter, made_of))):
        for node in base.tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                event_steps.pop(node.name, None)
                options = _options(interpreter, base, node)
                method = interpreter.member(made_of, node.name) if options is not None else None
                if options is not None and isinstance(method, Function | PartialFunction):
                    bound = PartialFunction(method, Arguments((exactly(workflow),)))
                    event_steps[node.name] = _step(workflow, node.name, bound, options)
    for owner, function, options in _FREE.get(interpreter, []):
        if owner.tree is made_of.tree and isinstance(function, Function):
            name = str(getattr(function.tree, "name", "step"))
            event_steps[name] = _step(workflow, name, function, (options, "step"))
    yield from event_steps.items()


def _lineage(interpreter: Any, made_of: Class, seen: tuple[Class, ...] = ()) -> Iterator[Class]:
    """A class of the program and its base classes of the program, nearest first."""
    yield made_of
    for base in bases_of(interpreter, made_of):
        if isinstance(base, Class) and not any(base.tree is known_class.tree for known_class in (*seen, made_of)):
            yield from _lineage(interpreter, base, (*seen, made_of))


def _options(interpreter: Any, owner: Class, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Any:
    """The options of the decorator that makes a method a step, with its name; None without one."""
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        for value in interpreter.value(call.func if call else decorator, owner.scope).known:
            if _is_decorator(value):
                options = interpreter.arguments(call, owner.scope) if call else Arguments()
                return options, path_of(value).rpartition(".")[2]
    return None


def _step(
    workflow: ObjectStub, name: str, function: Function | PartialFunction, how: tuple[Arguments, str]
) -> EventStep:
    shown = workflow.interpreter.converter.function(function)
    return EventStep(name, shown, workflow, _declaration(workflow.interpreter, function, *how))


def _declaration(interpreter: Any, function: object, options: Arguments, role: str) -> StepDeclaration:
    while isinstance(function, PartialFunction):
        function = function.function
    assert isinstance(function, Function)
    result = StepDeclaration(_only(options.get("num_workers"), 4), role=role)
    result.retry_policy = options.get("retry_policy")
    result.accept_event_subclasses = _only(options.get("accept_event_subclasses"), default=False) is True
    result.catch_error_for_steps = _names(interpreter, options.get("for_steps"))
    _read_parameters(interpreter, function, result)
    _read_results(interpreter, function, result)
    return result


def _only(values: Values | None, default: object) -> object:
    return values.known[0] if values is not None and len(values.known) == 1 and values.complete else default


def _names(interpreter: Any, values: Values | None) -> list[str] | None:
    items = interpreter.ordered_elements(values) if values is not None else None
    return None if items is None else [name for item in items for name in item.strings or ()]


def _read_parameters(interpreter: Any, function: Function, result: StepDeclaration) -> None:
    events: dict[str, list[Any]] = {}
    spec = function.tree.args
    for posonlyarg in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]:
        if posonlyarg.annotation is None or posonlyarg.arg == "self":
            continue
        if (factory := _resource(interpreter, posonlyarg.annotation, function)) is not None:
            result.resources.append(DeclaredResource(posonlyarg.arg, FactoryReference(factory)))
            continue
        parts = list(annotated_types(interpreter, posonlyarg.annotation, function.scope))
        taken = [(interpreter.class_shown(part.type), part.within) for part in parts]
        listed = [kind for kind, within in taken if is_event(kind) and {"list", "List"} & set(within)]
        if listed:
            result.collection_param = (posonlyarg.arg, tuple(listed))
        if kinds := listed or [kind for kind, within in taken if is_event(kind) and set(within) <= {"Annotated"}]:
            events[posonlyarg.arg] = kinds
    result.accepted_events = [kind for several in events.values() for kind in several]
    if len(events) > 1:
        result.collect_params = [(name, several[0]) for name, several in events.items()]


def _resource(interpreter: Any, annotation: ast.expr, function: Function) -> object | None:
    """The factory in `Annotated[Kind, Resource(factory)]`."""
    match annotation:
        case ast.Subscript(slice=ast.Tuple(elts=[_, *marks])):
            for mark in marks:
                callee = mark.func if isinstance(mark, ast.Call) else None
                if isinstance(mark, ast.Call) and getattr(callee, "id", getattr(callee, "attr", "")) == "Resource":
                    made = [*mark.args[:1], *(keyword.value for keyword in mark.keywords if keyword.arg == "factory")]
                    known = [value for node in made for value in interpreter.value(node, function.scope).known]
                    functions = [candidate for candidate in known if isinstance(candidate, Function | PartialFunction)]
                    return interpreter.converter.function(functions[0]) if functions else UNKNOWN
    return None


def _read_results(interpreter: Any, function: Function, result: StepDeclaration) -> None:
    returns = getattr(function.tree, "returns", None)
    parts = list(annotated_types(interpreter, returns, function.scope)) if returns is not None else []
    kept = [part for part in parts if part.type is not None or part.within]
    kinds = [(interpreter.class_shown(part.type), {"list", "List"} & set(part.within)) for part in kept
             if path_of(part.type).rpartition(".")[2] not in {"list", "List"}]  # fmt: skip
    result.return_types = [kind for kind, _ in kinds] if parts else [object]
    result.is_fan_out = any(listed for _, listed in kinds)
    result.bare_return_types = tuple(kind for kind, listed in kinds if not listed)


def _settle_workflow(stub: ObjectStub) -> None:
    stub.attributes["declared_steps"] = exactly(DeclaredSteps(stub))


def _event_kinds(module: str) -> Iterator[ClassStub]:
    made: dict[str, ClassStub] = {}
    for name, base in _EVENTS.items():
        made[name] = ClassStub(name, module, made.get(base))
        yield made[name]


STARTS = {"run": record_start}
STEP_KINDS = tuple(
    kind
    for module in ("workflows", "llama_index.core.workflow")
    for kind in (
        ClassStub(
            "Workflow",
            module,
            fields={"timeout": None},
            finish=_settle_workflow,
            methods=STARTS,
            positional=("timeout",),
        ),
        *_event_kinds(module),
    )
)


# --- agents, teams and tools

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
        passed = {
            parameter: values
            for place, parameter in enumerate(order)
            if (values := arguments.get(parameter, place)) is not None
        }
        passed |= {key: values for key, values in arguments.keywords.items() if key == "async_fn"}
        return exactly(make(interpreter, kind, Arguments((), passed), line))
    if name == "AgentWorkflow.from_tools_or_functions":
        tools = arguments.values_of("tools_or_functions", 0)
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
    functions = [
        attribute for name in ("fn", "async_fn") for attribute in stub.attributes[name].known if attribute is not None
    ]
    explicit = [value for value in stub.attributes["metadata"].known if isinstance(value, ToolFacts)]
    default = next(
        (name for function in functions if (name := _name_of(stub, function))),
        "query_engine_tool" if is_a(stub, CORE, "QueryEngineTool") else "tool",
    )
    own = _facts(stub.attributes["name"], stub.attributes["return_direct"], str(default))
    facts = explicit[0] if explicit else own
    stub.attributes["metadata"] = exactly(facts)
    stub.attributes["name"] = exactly(facts.name)
    stub.attributes["_fn"] = Values(tuple(functions[:1]))


def _name_of(stub: ObjectStub, value: object) -> str:
    known = isinstance(value, Function | PartialFunction)
    return defined_name(stub.interpreter, value) if known else path_of(value).rpartition(".")[2]


def _settle_code_agent(stub: ObjectStub) -> None:
    """Adds the tool that executes code."""
    options = {"fn": stub.attributes["code_execute_fn"], "name": exactly("execute")}
    tool = exactly(make(stub.interpreter, FUNCTION_TOOL, Arguments((), options), stub.line))
    held = stub.attributes["tools"]
    lists = [Sequence((*value.items, tool), value.ordered) for value in held.known if isinstance(value, Sequence)]
    stub.attributes["tools"] = Values(tuple(lists) or (Sequence((tool,)),), held.complete)


def _settle_team(stub: ObjectStub) -> None:
    """Collects the agents of a team by name; one that is not in the program is an agent with unknown tools."""
    members = list(_members(stub))
    stub.attributes["agents"] = exactly(
        Table(tuple((exactly(str(member.name)), exactly(member)) for member in members))
    )
    root = stub.attributes["root_agent"]
    if root.known == (None,) and members:
        stub.attributes["root_agent"] = exactly(str(members[0].name))


def _members(stub: ObjectStub) -> Iterable[ObjectStub]:
    listed = stub.attributes["agents"]
    items = [
        item for value in listed.known for item in (value.items if isinstance(value, Sequence) else (exactly(value),))
    ]
    for member in [each for item in items for each in item.known]:
        if isinstance(member, ObjectStub) and is_a(member, "llama_index", "BaseWorkflowAgent"):
            yield member
        else:
            yield _unknown_agent(stub, path_of(member).rpartition(".")[2] or "agent")
    if not listed.complete or not all(item.complete for item in items):
        stub.interpreter.converter.note(f"line {stub.line}: not all agents of the team are known from the source")
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


# --- the reader

extract = live.extract
KINDS = (*STEP_KINDS, *AGENT_KINDS)


def is_workflow(value: object) -> bool:
    if isinstance(value, Class):
        return any(derives_from(value, package, "Workflow") for package in LIBRARIES)
    return isinstance(value, ObjectStub) and live.recognises(value)


def opened(interpreter: Interpreter, value: ObjectStub | Class) -> ObjectStub:
    """Returns a workflow; for a class, the object that the program makes of it, or one with unknown arguments."""
    if isinstance(value, ObjectStub):
        return value
    made = [item for item in interpreter.objects if isinstance(item, ObjectStub) and item.made_of is value]
    created = made[-1] if made else interpreter.make(value)
    assert isinstance(created, ObjectStub)
    return created


def called(interpreter: Interpreter, target: object, arguments: Arguments, line: int) -> Values | None:
    """The values of a call of a decorator or a function; None for other calls, as KINDS describes the classes."""
    values = called_step(interpreter, target, arguments)
    return called_agent(interpreter, target, arguments, line) if values is None else values
