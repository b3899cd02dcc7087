"""The steps of LlamaIndex workflows in source code: their events by annotations, as the library reads them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from guardagent.frameworks.llama_index.extractor.steps import LIBRARIES, EventStep, is_event
from guardagent.workflow.python_source.interpreter import Interpreter
from guardagent.workflow.python_source.stubs import ClassStub, ObjectStub, bases_of, class_shown, converter_of
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
    Values,
    exactly,
    path_of,
)

_DECORATORS = {"step", "catch_error"}
_EVENTS = {
    "Event": "", "StartEvent": "Event", "StopEvent": "Event", "InputRequiredEvent": "Event",
    "HumanResponseEvent": "Event", "StepFailedEvent": "Event", "WorkflowFailedEvent": "StopEvent",
}  # fmt: skip
_FREE: WeakKeyDictionary[Interpreter, list[tuple[Class, object, Arguments]]] = WeakKeyDictionary()


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
    if functions is None or not any(isinstance(one, Function | PartialFunction) for one in functions.known):
        return None
    options = target.arguments if isinstance(target, CallResult) else Arguments()
    for owner in (options.get("workflow") or UNKNOWN).known:
        if isinstance(owner, Class):
            _FREE.setdefault(interpreter, []).extend((owner, one, options) for one in functions.known)
    return functions


def _is_decorator(callee: object) -> bool:
    path = path_of(callee) if isinstance(callee, ImportedName) else ""
    return path.partition(".")[0] in LIBRARIES and path.rpartition(".")[2] in _DECORATORS


def _steps(workflow: ObjectStub, made_of: Class) -> Iterator[tuple[str, EventStep]]:
    interpreter = workflow.interpreter
    found: dict[str, EventStep] = {}
    for one in reversed(list(_lineage(interpreter, made_of))):
        for node in one.tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.pop(node.name, None)
                options = _options(interpreter, one, node)
                method = interpreter.member(made_of, node.name) if options is not None else None
                if options is not None and isinstance(method, Function | PartialFunction):
                    bound = PartialFunction(method, Arguments((exactly(workflow),)))
                    found[node.name] = _step(workflow, node.name, bound, options)
    for owner, function, options in _FREE.get(interpreter, []):  # type: ignore[call-overload]
        if owner.tree is made_of.tree and isinstance(function, Function):
            name = str(getattr(function.tree, "name", "step"))
            found[name] = _step(workflow, name, function, (options, "step"))
    yield from found.items()


def _lineage(interpreter: Any, made_of: Class, seen: tuple[Class, ...] = ()) -> Iterator[Class]:
    """A class of the program and its base classes of the program, nearest first."""
    yield made_of
    for base in bases_of(interpreter, made_of):
        if isinstance(base, Class) and not any(base.tree is one.tree for one in (*seen, made_of)):
            yield from _lineage(interpreter, base, (*seen, made_of))


def _options(interpreter: Any, owner: Class, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Any:
    """The options of the decorator that makes a method a step, with its name; None without one."""
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        for one in interpreter.value(call.func if call else decorator, owner.scope).known:
            if _is_decorator(one):
                options = interpreter.arguments(call, owner.scope) if call else Arguments()
                return options, path_of(one).rpartition(".")[2]
    return None


def _step(
    workflow: ObjectStub, name: str, function: Function | PartialFunction, how: tuple[Arguments, str]
) -> EventStep:
    shown = converter_of(workflow.interpreter).function(function)
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
    return None if items is None else [name for one in items for name in one.strings or ()]


def _read_parameters(interpreter: Any, function: Function, result: StepDeclaration) -> None:
    events: dict[str, list[Any]] = {}
    spec = function.tree.args
    for one in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]:
        if one.annotation is None or one.arg == "self":
            continue
        if (factory := _resource(interpreter, one.annotation, function)) is not None:
            result.resources.append(DeclaredResource(one.arg, FactoryReference(factory)))
            continue
        parts = list(annotated_types(interpreter, one.annotation, function.scope))
        taken = [(class_shown(interpreter, part.type), part.within) for part in parts]
        listed = [kind for kind, within in taken if is_event(kind) and {"list", "List"} & set(within)]
        if listed:
            result.collection_param = (one.arg, tuple(listed))
        if found := listed or [kind for kind, within in taken if is_event(kind) and set(within) <= {"Annotated"}]:
            events[one.arg] = found
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
                    made = [*mark.args[:1], *(one.value for one in mark.keywords if one.arg == "factory")]
                    known = [one for node in made for one in interpreter.value(node, function.scope).known]
                    functions = [one for one in known if isinstance(one, Function | PartialFunction)]
                    return converter_of(interpreter).function(functions[0]) if functions else UNKNOWN
    return None


def _read_results(interpreter: Any, function: Function, result: StepDeclaration) -> None:
    returns = getattr(function.tree, "returns", None)
    parts = list(annotated_types(interpreter, returns, function.scope)) if returns is not None else []
    kept = [one for one in parts if one.type is not None or one.within]
    kinds = [(class_shown(interpreter, one.type), {"list", "List"} & set(one.within)) for one in kept
             if path_of(one.type).rpartition(".")[2] not in {"list", "List"}]  # fmt: skip
    result.return_types = [kind for kind, _ in kinds] if parts else [object]
    result.is_fan_out = any(listed for _, listed in kinds)
    result.bare_return_types = tuple(kind for kind, listed in kinds if not listed)


def _settle_workflow(stub: ObjectStub) -> None:
    stub.attributes["declared_steps"] = exactly(DeclaredSteps(stub))


def _started(owner: ObjectStub, _arguments: Arguments, _line: int) -> Values:
    owner.interpreter.started.append(owner)
    return UNKNOWN


def _event_kinds(module: str) -> Iterator[ClassStub]:
    made: dict[str, ClassStub] = {}
    for name, base in _EVENTS.items():
        made[name] = ClassStub(name, module, made.get(base))
        yield made[name]


STARTS = {"run": _started}
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
