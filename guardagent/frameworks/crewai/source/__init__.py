"""Reads the source of CrewAI programs: crews, agents and flows become stubs, extracted like live objects.

Methods that create crews, tasks and agents are evaluated. The decorators of a class give the definition of a flow, as
CrewAI would collect it. `KINDS` has the classes, with the effects of their constructors. Then come the tasks, agents
and crews of a file that are no workflows of their own: parts of flows, or tasks without a crew.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from guardagent.frameworks.crewai import extractor as live
from guardagent.frameworks.crewai.extractor.objects import CREWAI, CrewReader, MarkedMethod, is_kind, read_config
from guardagent.frameworks.crewai.package import PACKAGES
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.python_source import types
from guardagent.workflow.python_source.bodies import ReadableFunction
from guardagent.workflow.python_source.modules import ProgramObject
from guardagent.workflow.python_source.scopes import CodeScope
from guardagent.workflow.python_source.stubs import REQUIRED, ClassStub, ObjectStub, make
from guardagent.workflow.python_source.values import (
    NOTHING,
    UNKNOWN,
    Arguments,
    Attribute,
    Binding,
    Class,
    Function,
    ImportedName,
    Instance,
    LiveValue,
    NameScope,
    PartialFunction,
    Sequence,
    Values,
    exactly,
    path_of,
    plain_string,
)
from guardagent.workflow.python_source.workflows import derives_from

if TYPE_CHECKING:
    from guardagent.workflow.python_source.interpreter import Interpreter
    from guardagent.workflow.python_source.workflows import FoundWorkflow


_READERS: WeakKeyDictionary[Interpreter, SourceReader] = WeakKeyDictionary()
_CONFIGS = {"agents_config": "config/agents.yaml", "tasks_config": "config/tasks.yaml"}


class SourceReader(CrewReader):
    """Evaluates source code that uses CrewAI, and creates stubs of its objects."""

    def __init__(self, interpreter: Interpreter) -> None:
        super().__init__()
        self.live, self.constants, self.interpreter = False, interpreter.constants, interpreter
        self._created: dict[tuple[int, str], tuple[ProgramObject, Values]] = {}
        self._objects: dict[int, ProgramObject] = {}

    def attribute(self, owner: object, name: str) -> Values:
        if not isinstance(owner, ProgramObject):
            return super().attribute(owner, name) if not isinstance(owner, LiveValue) else UNKNOWN
        if name == "state" and is_kind(owner, "Flow"):
            return self._state_of(owner)
        if is_crew_class(owner.made_of) and (crew_attribute := self._crew_attribute(owner, name)) is not None:
            return crew_attribute
        with self.interpreter.switched(executing=True):  # the body of a property
            return self.interpreter.attribute(owner, name)

    def call(self, target: object, arguments: Arguments, line: int = 0) -> Values:
        if isinstance(target, ReadableFunction):
            function = target.source()[1]
            return self.return_values(function, arguments) if function is not None else UNKNOWN
        if isinstance(target, MarkedMethod):
            return self._created_by(target.owner, target.method)
        if isinstance(target, ImportedName | Class | LiveValue) or _is_of_framed(target):
            return self._run(target, arguments, line)
        return super().call(target, arguments, line)

    def _run(self, target: object, arguments: Arguments, line: int) -> Values:
        before, self.interpreter.executing = self.interpreter.executing, True
        try:
            return self.interpreter.call(target, arguments, line)
        finally:
            self.interpreter.executing = before

    def import_any(self, source: ast.Import | ast.ImportFrom, binding: Binding, scope: NameScope) -> Values:
        return self.interpreter.import_any(source, binding, scope)

    def _state_of(self, flow: ProgramObject) -> Values:
        """A state of a flow, with the fields that its class declares."""
        made_of = flow.made_of
        if not isinstance(made_of, Class):
            return UNKNOWN
        parameters = [base.slice for base in made_of.tree.bases if isinstance(base, ast.Subscript)]
        kinds = [value for node in parameters for value in self.interpreter.value(node, made_of.scope).known]
        kinds.append(self.interpreter.member(made_of, "initial_state"))
        declared = next((kind for kind in kinds if isinstance(kind, Class)), None)
        return UNKNOWN if declared is None else exactly(Instance(declared))

    # Classes with `@CrewBase`.

    def object_of(self, made_of: Class) -> ProgramObject:
        """An object of a class that is made without arguments; its tasks and agents are the same in each object."""
        if id(made_of.tree) not in self._objects:
            self._objects[id(made_of.tree)] = self.interpreter.make(made_of)
        return self._objects[id(made_of.tree)]

    def _crew_attribute(self, owner: ProgramObject, name: str) -> Values | None:
        """An attribute specific to classes with `@CrewBase`; None for any other attribute."""
        assert isinstance(owner.made_of, Class)
        if name in _CONFIGS:
            return self._config_of(owner.made_of, name)
        if name in {"tasks", "agents"}:
            marked = [
                method.name for method in _methods(owner.made_of) if self._is_marked(method, owner.made_of, {name[:-1]})
            ]
            return exactly(Sequence(tuple(self._created_by(owner, method) for method in marked)))
        reply = next((method for method in _methods(owner.made_of) if method.name == name), None)
        if reply is not None and self._is_marked(reply, owner.made_of, {"task", "agent"}):
            return exactly(MarkedMethod(owner, name))
        return None

    def _is_marked(self, method: ast.FunctionDef | ast.AsyncFunctionDef, made_of: Class, names: set[str]) -> bool:
        return any(
            path_of(value).rpartition(".")[2] in names
            for decorator in method.decorator_list
            for value in self.interpreter.value(decorator, made_of.scope).known
        )

    def _created_by(self, owner: Any, method: str) -> Values:
        """The objects that a marked method creates, once."""
        key = (id(owner), method)
        if key not in self._created:
            self._created[key] = (owner, UNKNOWN)
            member = self.interpreter.member(owner.made_of, method)
            created = UNKNOWN if member is None else self.call(member, Arguments((exactly(owner),)))
            for value in created.known:
                self._complete(value, owner, method)
            self._created[key] = (owner, created)
        return self._created[key][1]

    def _complete(self, created: object, owner: ProgramObject, method: str) -> None:
        """Names a task after its method, and resolves the methods that its configuration names."""
        if not isinstance(created, ObjectStub):
            return
        if created.attributes.get("name", exactly(None)).known == (None,):
            created.attributes["name"] = exactly(method)
        for name in ("agent", "context", "tools"):
            if name in created.attributes:
                created.attributes[name] = self._resolved(owner, created.attributes[name])

    def _resolved(self, owner: ProgramObject, values: Values) -> Values:  # type: ignore[override]
        resolved = Values((), values.complete)
        for value in values.known:
            if isinstance(value, str):
                resolved |= self._created_by(owner, plain_string(value))
            elif isinstance(value, list) and all(isinstance(each, str) for each in value):
                resolved |= exactly(Sequence(tuple(self._created_by(owner, each) for each in value)))
            else:
                resolved |= exactly(value)
        return resolved

    def _config_of(self, made_of: Class, name: str) -> Values:
        """The configuration of agents or tasks, from the class or from a YAML file beside it."""
        value = self.interpreter.value(ast.Name(name, ast.Load()), CodeScope(made_of.tree, made_of.scope))
        if value.known and not isinstance(value.known[0], str):
            return value
        path = self._folder(made_of) / (plain_string(value.known[0]) if value.known else _CONFIGS[name])
        config = read_config(path)
        if not config:
            self.interpreter.converter.note(f"{path}: {name!r} of {made_of.tree.name!r} is missing or empty")
            return UNKNOWN
        return exactly(config)

    def _folder(self, made_of: Class) -> Path:
        methods = [self.interpreter.member(made_of, method.name) for method in _methods(made_of)]
        files = [method.file for method in methods if isinstance(method, Function) and method.file]
        return Path(files[0] if files else self.interpreter.file).parent


def reader_of(interpreter: Interpreter) -> SourceReader:
    """The reader of an interpreter, one each, so that marked methods create their objects once."""
    if interpreter not in _READERS:
        _READERS[interpreter] = SourceReader(interpreter)
    return _READERS[interpreter]


def _methods(made_of: Class) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [
        statement for statement in made_of.tree.body if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def is_crew_class(made_of: object) -> bool:
    """Whether a class has the decorator `@CrewBase`."""
    if not isinstance(made_of, Class):
        return False
    return any(
        getattr(decorator, "id", getattr(decorator, "attr", "")) == "CrewBase"
        for decorator in made_of.tree.decorator_list
    )


def _is_of_framed(target: object) -> bool:
    return isinstance(target, Attribute) and isinstance(target.owner, ObjectStub)


# --- flow definitions

DECORATORS = {"start", "listen", "router", "human_feedback", "persist"}
ConditionSpec = str | dict[str, Any]


@dataclass(frozen=True, eq=False)
class Decorator(LiveValue):
    """A decorator of CrewAI with its arguments; it returns the method unchanged."""

    name: str
    arguments: Arguments


@dataclass(frozen=True, eq=False)
class CombinedCondition(LiveValue):
    """`and_(...)` or `or_(...)`."""

    sign: str
    parts: tuple[Values, ...]


@dataclass
class MethodDefinition:
    """The definition of one method, with the field names of CrewAI."""

    start: bool | ConditionSpec | None = None
    listen: ConditionSpec | None = None
    router: bool = False
    emit: list[str] | None = None
    human_feedback: Any = None
    persist: Any = None
    do: Any = field(default_factory=lambda: SimpleNamespace(call="code", ref=""))


class FlowDefinition(LiveValue):
    """The definitions of the methods of a flow's own class; CrewAI does not run inherited ones."""

    def __init__(self, flow: ObjectStub) -> None:
        self.flow = flow

    @cached_property
    def methods(self) -> dict[str, MethodDefinition]:
        made_of = self.flow.made_of
        if not isinstance(made_of, Class):
            return {}
        self._note_conversational(made_of)
        nodes = [
            statement
            for statement in made_of.tree.body
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        methods = {node.name: self._method(node, CodeScope(made_of.tree, made_of.scope)) for node in nodes}
        return {name: definition for name, definition in methods.items() if definition is not None}

    def _note_conversational(self, made_of: Class) -> None:
        if self.flow.interpreter.member(made_of, "conversational") is True:
            note = f"{made_of.tree.name} is conversational; the methods that CrewAI adds to it are not read"
            self.flow.interpreter.converter.note(note)

    def _method(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: CodeScope) -> MethodDefinition | None:
        decorators = list(self._decorators(node, scope))
        if not any(decorator.name in {"start", "listen", "router"} for decorator in decorators):
            return None
        definition = MethodDefinition()
        for method_decorator in decorators:
            self._apply(definition, method_decorator, node, scope)
        if definition.human_feedback is not None and definition.human_feedback.emit:
            definition.router, definition.emit = True, None
        return definition

    def _decorators(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: CodeScope) -> Iterator[Decorator]:
        """The decorators of CrewAI on a method; a method of the same name does not hide them."""
        interpreter, around = self.flow.interpreter, scope.parent or scope
        for decorator in reversed(node.decorator_list):
            if not isinstance(decorator, ast.Call):
                decorators = interpreter.value(decorator, around).known
                yield from (Decorator(path_of(decorator).rpartition(".")[2], Arguments()) for decorator in decorators)
                continue
            arguments = interpreter.arguments(decorator, scope)
            for callee in interpreter.value(decorator.func, around).known:
                created = interpreter.call(callee, arguments, decorator.lineno).known
                yield from (value for value in created if isinstance(value, Decorator))

    def _apply(self, definition: MethodDefinition, decorator: Decorator, node: ast.AST, scope: CodeScope) -> None:
        condition = self._condition(decorator.arguments.get("condition", 0), node)
        if decorator.name == "start":
            definition.start = True if condition is None else condition
        elif decorator.name == "human_feedback":
            definition.human_feedback = SimpleNamespace(
                message=next(iter(self._strings(decorator.arguments.get("message", 0))), None),
                emit=self._strings(decorator.arguments.get("emit", 1)),
            )
        elif decorator.name == "persist":
            definition.persist = SimpleNamespace(enabled=True)
        else:
            definition.listen = condition if condition is not None else definition.listen
            if decorator.name == "router":
                definition.router = True
                definition.emit = self._strings(decorator.arguments.get("emit")) or self._declared(node, scope)

    def _declared(self, node: ast.AST, scope: CodeScope) -> list[str]:
        """The labels in the return annotation of a router."""
        parts = types.annotated_types(self.flow.interpreter, getattr(node, "returns", None), scope)
        several = [value for part in parts for value in (part.values.known if part.values is not None else ())]
        return list(dict.fromkeys(plain_string(label) for label in several if isinstance(label, str)))

    def _strings(self, values: Values | None) -> list[str]:
        strings: list[str] = []
        for value in (values or NOTHING).known:
            several = [value] if isinstance(value, str) else self.flow.interpreter.elements(Values((value,))).known
            strings += [plain_string(each) for each in several if isinstance(each, str)]
        return strings

    def _condition(self, values: Values | None, node: ast.AST) -> ConditionSpec | None:
        """The condition that a method waits for; an unknown one becomes an event without a source."""
        if values is None:
            return None
        specs = [spec for value in values.known if (spec := self._condition_of(value, node)) is not None]
        if not values.complete or len(specs) != 1:
            line = getattr(node, "lineno", 0)
            self.flow.interpreter.converter.note(
                f"line {line}: the source does not determine what the method waits for"
            )
        return specs[0] if len(specs) == 1 else {"or": specs or ["?"]}

    def _condition_of(self, value: object, node: ast.AST) -> ConditionSpec | None:
        if isinstance(value, str):
            return plain_string(value)
        if isinstance(value, Function):
            return str(getattr(value.tree, "name", "?"))
        if isinstance(value, CombinedCondition):
            parts = [spec for part in value.parts if (spec := self._condition(part, node)) is not None]
            return {value.sign: parts}
        return None


# --- classes

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


# --- parts of flows, and tasks without a crew

NAME = "tasks"
_REASON = "the file makes tasks but no crew; the order of their definitions is assumed"


@dataclass(frozen=True, eq=False)
class LooseTasks:
    """The tasks of a file without a crew, in order of their definitions."""

    tasks: tuple[object, ...]
    file: str
    line: int


def arranged(interpreter: Interpreter, found_workflows: list[FoundWorkflow]) -> list[FoundWorkflow]:
    """Leaves out tasks and agents beside a crew or a flow, which run by themselves only if the file runs them.

    Without a crew or a flow, the tasks become one workflow, without their agents.
    """
    started = {id(workflow) for workflow in interpreter.started}
    parts = [
        found_workflow
        for found_workflow in found_workflows
        if is_kind(found_workflow.value, "Task", "BaseAgent") and id(found_workflow.value) not in started
    ]
    tasks = [part for part in parts if is_kind(part.value, "Task")]
    rest = [found_workflow for found_workflow in found_workflows if found_workflow not in parts]
    if any(_is_whole(workflow.value) for workflow in rest):
        return _without_parts_of_flows(rest)
    if not tasks:
        return found_workflows
    return [*rest, _combined(tasks, {workflow.name for workflow in rest}) if len(tasks) > 1 else tasks[0]]


def _is_whole(value: object) -> bool:
    """Whether a value is a crew or a flow, or a class of either or its object."""
    of_class = isinstance(value, ProgramObject) and not isinstance(value, ObjectStub)
    return of_class or isinstance(value, Class) or is_kind(value, "Crew", "Flow")


def _without_parts_of_flows(found_workflows: list[FoundWorkflow]) -> list[FoundWorkflow]:
    """Leaves out crews from functions and classes that the methods of a flow of the file name."""
    values = [workflow.value for workflow in found_workflows]
    made_values = [made for value in values for made in (value, getattr(value, "made_of", None))]
    classes = [made for made in made_values if isinstance(made, Class) and not is_crew_class(made)]
    used = {node.id for made in classes for node in ast.walk(made.tree) if isinstance(node, ast.Name)}
    used -= {made.tree.name for made in classes}
    return [
        found_workflow
        for found_workflow in found_workflows
        if found_workflow.bound
        or found_workflow.name.partition(".")[0] not in used
        or not _is_crew(found_workflow.value)
    ]


def _is_crew(value: object) -> bool:
    return is_kind(value, "Crew") or is_crew_class(value)


def _combined(tasks: list[FoundWorkflow], taken: Iterable[str]) -> FoundWorkflow:
    first = tasks[0]
    value = LooseTasks(tuple(task.value for task in tasks), *first.site)
    return replace(first, name=NAME if NAME not in taken else f"{NAME}.{first.name}", value=value)


def crew_of(interpreter: Interpreter, loose: LooseTasks) -> ObjectStub:
    """The crew that would run the tasks."""
    tasks = exactly(Sequence(tuple(map(exactly, loose.tasks))))
    return make(interpreter, CREW, Arguments(keywords={"tasks": tasks}), loose.line, order_assumed=exactly(_REASON))


if TYPE_CHECKING:
    from guardagent.workflow.python_source.interpreter import Interpreter

CONSTANTS: dict[str, object] = {
    f"{module}.Process.{name}": name
    for module in (CREWAI, f"{CREWAI}.process")
    for name in ("sequential", "hierarchical")
}
_MARKER_DECORATORS = set(
    "agent task crew tool llm callback cache_handler before_kickoff after_kickoff output_json output_pydantic".split()
)


def is_workflow(value: object) -> bool:
    if isinstance(value, LooseTasks):
        return True
    if isinstance(value, ObjectStub):
        return is_kind(value, "Flow", "Crew", "Task", "BaseAgent")
    if isinstance(value, Class):
        return is_crew_class(value) or derives_from(value, CREWAI, "Flow")
    return isinstance(value, ProgramObject) and is_crew_class(value.made_of)


@dataclass(frozen=True)
class InterpretedWorkflow:
    """A workflow of a program, with the interpreter of the program."""

    interpreter: Interpreter
    value: object


def opened(interpreter: Interpreter, value: object) -> InterpretedWorkflow:
    """Pairs a workflow with its interpreter, as a class holds no reference to it."""
    return InterpretedWorkflow(interpreter, value)


def extract(workflow: InterpretedWorkflow, name: str) -> Graph:
    """The graph of a crew, a flow, a class of either, a task or an agent."""
    interpreter, value = workflow.interpreter, workflow.value
    reader = reader_of(interpreter)
    created: object = interpreter.make(value) if isinstance(value, Class) else value
    if isinstance(value, LooseTasks):
        created = crew_of(interpreter, value)
    if isinstance(created, ProgramObject) and is_crew_class(created.made_of):
        created = live.crew_of(
            reader, created, f"the class {getattr(getattr(created.made_of, 'tree', None), 'name', '')}"
        )
    return live.extract(created, name, reader)


def called(interpreter: Interpreter, target: object, arguments: Arguments, line: int) -> Values | None:
    """The values of a call of CrewAI's decorators and conditions; None for other calls."""
    first = arguments.get("", 0)
    if isinstance(target, Class) and is_crew_class(target) and not _any(arguments):
        return exactly(reader_of(interpreter).object_of(target))
    if isinstance(target, PartialFunction) and _makes_crew(target):
        before, interpreter.current_file = interpreter.current_file, Path(getattr(target.function, "file", ""))
        try:
            return reader_of(interpreter).call(target, arguments)
        finally:
            interpreter.current_file = before
    if isinstance(target, Decorator):
        return _tools(interpreter, first, target.arguments, line) if target.name == "tool" else first
    path = target.path if isinstance(target, ImportedName) else ""
    name = path.rpartition(".")[2]
    if path.partition(".")[0] not in PACKAGES:
        return None
    if name in {"and_", "or_"}:
        return exactly(CombinedCondition(name.rstrip("_"), arguments.positional))
    if name in DECORATORS:
        return exactly(Decorator(name, arguments))
    if name == "tool" and not path.startswith(f"{CREWAI}.project"):
        functions = first is not None and any(isinstance(value, Function | PartialFunction) for value in first.known)
        return _tools(interpreter, first, Arguments(), line) if functions else exactly(Decorator(name, arguments))
    return first if name in _MARKER_DECORATORS or name == "CrewBase" else None


def _makes_crew(target: PartialFunction) -> bool:
    """Whether a target is the `@crew` method of a class with `@CrewBase`."""
    owners = target.arguments.positional[0].known if target.arguments.positional else ()
    marks = getattr(getattr(target.function, "tree", None), "decorator_list", ())
    names = {getattr(mark, "id", getattr(mark, "attr", "")) for mark in marks}
    return "crew" in names and any(
        isinstance(owner, ProgramObject) and is_crew_class(owner.made_of) for owner in owners
    )


def _tools(interpreter: Interpreter, functions: Values | None, options: Arguments, line: int) -> Values | None:
    """The tools of `@tool` and `@tool("name")`."""
    if functions is None:
        return None
    name_values = options.get("", 0)
    names = (
        [plain_string(name_value) for name_value in name_values.known if isinstance(name_value, str)]
        if name_values is not None
        else []
    )
    created = []
    for function in functions.known:
        name = names[0] if names else str(getattr(getattr(function, "tree", None), "name", "tool"))
        fields = {"name": exactly(name), "func": exactly(function)}
        created.append(make(interpreter, TOOL, Arguments((), fields), line))
    return Values(tuple(created), functions.complete)


def _any(arguments: Arguments) -> bool:
    return bool(arguments.positional or arguments.keywords or arguments.open)
