"""CrewAI objects, live ones and those that code would create: their fields, and the steps in the bodies of methods.

The methods of a flow create crews, tasks and agents only at run time. Their code is read here with the same interface
as live objects, and so are classes with `@CrewBase`, from their methods and YAML files, without an instance.

The steps in the body of a flow's method are the crews, agents, tools, flows and questions that it runs, in order, each
with links to its possible successors. Every branch is followed, and loops can repeat.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import inspect
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Literal

import yaml

from guardagent.workflow.extraction import Alternatives, UnknownValue, flattened
from guardagent.workflow.model.graph import Unseen
from guardagent.workflow.python_source import bodies
from guardagent.workflow.python_source.evaluator import underlying
from guardagent.workflow.python_source.outcomes import Outcomes
from guardagent.workflow.python_source.paths import PathWalker
from guardagent.workflow.python_source.values import (
    UNKNOWN,
    Arguments,
    Attribute,
    CallResult,
    Function,
    Instance,
    NameScope,
    PartialFunction,
    Sequence,
    Table,
    Values,
    exactly,
    path_of,
)

CREWAI = "crewai"
TOOLS_PACKAGE = "crewai_tools"
MAX_NAME_LENGTH = 64
"""The maximum length of a tool name."""

OPEN: Any = object()
"""An unknown value."""

_MISSING: Any = object()
_STAND_INS = (PartialFunction, Attribute, Function, Instance, CallResult, Sequence, Table)


class CrewReader(Outcomes):
    """Evaluates the code of a program that uses CrewAI."""

    def __init__(self, package: str = "") -> None:
        super().__init__(follow=lambda function: _is_own(function, package))
        self._by_method: dict[tuple[int, str], tuple[CallResult, Values]] = {}

    def function(self, function: Any) -> Function | None:
        """A function with its code; None if the source is missing."""
        return function.source()[1] if isinstance(function, bodies.ReadableFunction) else super().function(function)

    def _leaves_unchanged(self, call: ast.Call, scope: NameScope) -> bool:
        """Whether a call leaves its arguments unchanged; CrewAI's own classes copy the lists passed to them."""
        callee = self.value(call.func, scope).known
        own = bool(callee) and all(path_of(target).partition(".")[0] == CREWAI for target in callee)
        return own or super()._leaves_unchanged(call, scope)

    def attribute(self, owner: object, name: str) -> Values:
        if name == "state" and is_kind(owner, "Flow"):
            return _state(owner)
        if isinstance(owner, CallResult) and isinstance(owner.callee, type):
            return self._created_attribute(owner, owner.callee, name)
        if isinstance(owner, (type, ModuleType, *_STAND_INS)):
            return super().attribute(owner, name)
        method = _unwrapped(inspect.getattr_static(owner, name, _MISSING))
        if method is not None:
            return exactly(PartialFunction(method, Arguments((exactly(owner),))))
        known = super().attribute(owner, name)
        held = name in getattr(owner, "__dict__", ())  # the program may assign another at run time
        return Values(known.known, known.complete and not held)

    def _created_attribute(self, owner: CallResult, kind: type, name: str) -> Values:
        """An attribute of an object that code creates from a live class."""
        if is_crew_base(kind) and (base_attribute := self._crew_base_attribute(owner, kind, name)) is not None:
            return base_attribute
        raw = inspect.getattr_static(kind, name, _MISSING)
        method = raw if isinstance(raw, FunctionType) else _unwrapped(raw)
        if method is not None:
            return exactly(PartialFunction(method, Arguments((exactly(owner),))))
        if isinstance(raw, property) and raw.fget is not None:
            return self.call(raw.fget, Arguments((exactly(owner),)))
        value = owner.arguments.get(name) or self._constructor_value(owner, kind, name)
        if value is not None:
            return value
        return exactly(Attribute(owner, name) if raw is _MISSING else raw)

    def _constructor_value(self, owner: CallResult, kind: type, name: str) -> Values | None:
        """The value that `__init__` assigns to an attribute; None if it assigns none."""
        method = inspect.getattr_static(kind, "__init__", None)
        readable = self.function(method) if isinstance(method, FunctionType) and self.follow(method) else None
        if readable is None:
            return None
        arguments = Arguments((exactly(owner), *owner.arguments.positional), owner.arguments.keywords)
        scope = self.body_scope(readable, arguments)
        for node in ast.walk(readable.tree):
            if isinstance(node, ast.Assign) and any(_is_own_attribute(target, name) for target in node.targets):
                return self.value(node.value, scope)
        return None

    def _crew_base_attribute(self, owner: CallResult, kind: type, name: str) -> Values | None:
        """An attribute specific to classes with `@CrewBase`; None for any other attribute."""
        if name in {"agents_config", "tasks_config"}:
            return exactly(_config(kind, name))
        if name in {"tasks", "agents"}:
            marked = [method for method, variable in vars(kind).items() if hasattr(variable, f"is_{name[:-1]}")]
            return exactly(Sequence(tuple(self._created_by(owner, method) for method in marked)))
        variable = vars(kind).get(name)
        is_marked = hasattr(variable, "is_task") or hasattr(variable, "is_agent")
        return exactly(MarkedMethod(owner, name)) if is_marked else None

    def _created_by(self, owner: CallResult, method: str) -> Values:
        """The objects that a marked method creates, once."""
        key = (id(owner), method)
        if key not in self._by_method:
            self._by_method[key] = (owner, UNKNOWN)
            function = _unwrapped(vars(owner.callee).get(method))
            created = (
                self.call(inspect.unwrap(function), Arguments((exactly(owner),))) if function is not None else UNKNOWN
            )
            named = tuple(self._with_config(value, owner, method) for value in created.known)
            self._by_method[key] = (owner, Values(named, created.complete))
        return self._by_method[key][1]

    def _with_config(self, created: object, owner: CallResult, method: str) -> object:
        """A task or an agent with its configuration, which may name other methods."""
        if not isinstance(created, CallResult):
            return created
        config = _single(created.arguments.get("config") or exactly(None))
        configured_fields = (
            {key: self._resolved(owner, key, value) for key, value in config.items()}
            if isinstance(config, dict)
            else {}
        )
        arguments = {"name": exactly(method), **configured_fields, **created.arguments.keywords}
        return CallResult(
            created.callee, Arguments(created.arguments.positional, arguments, created.arguments.open), created.line
        )

    def _resolved(self, owner: CallResult, key: str, value: Any) -> Values:
        if key == "agent" and isinstance(value, str):
            return self._created_by(owner, value)
        if key in {"context", "tools"} and isinstance(value, list):
            created = (self._created_by(owner, part) if isinstance(part, str) else exactly(part) for part in value)
            return exactly(Sequence(tuple(created)))
        return exactly(value)

    def call(self, target: object, arguments: Arguments, line: int = 0) -> Values:
        if isinstance(target, MarkedMethod):
            return self._created_by(target.owner, target.method)
        return super().call(target, arguments, line)


@dataclass(frozen=True, eq=False)
class MarkedMethod:
    """A method of an object with `@CrewBase` that is marked as a task or an agent."""

    owner: Any
    method: str


@dataclass(frozen=True)
class KnownElements:
    """The known elements of a list; there may be others if it is not complete."""

    items: tuple[Any, ...] = ()
    complete: bool = True


def kinds_of(target: object) -> tuple[type, ...]:
    """The classes of a live object, or of one that code creates."""
    if isinstance(target, CallResult):
        return target.callee.__mro__ if isinstance(target.callee, type) else ()
    return type(target).__mro__


def is_kind(target: object, *names: str) -> bool:
    """Whether an object is, or would be, an instance of one of these classes of CrewAI."""
    return any(kind.__name__ in names and kind.__module__.partition(".")[0] == CREWAI for kind in kinds_of(target))


def is_crew_base(kind: object) -> bool:
    """Whether it is a class with `@CrewBase`."""
    return isinstance(kind, type) and bool(getattr(kind, "is_crew_class", False))


def field(target: Any, name: str, default: Any = None) -> Any:
    """The value of a field; OPEN if the code does not determine it."""
    if not isinstance(target, CallResult):
        return _field_value(getattr(target, name, default))
    value = target.arguments.get(name)
    if value is not None:
        return _single(value)
    declared = getattr(target.callee, "model_fields", {}).get(name)
    own = getattr(declared, "default", None)
    return default if own is None or type(own).__name__.startswith("PydanticUndefined") else own


def _field_value(value: Any) -> Any:
    """A value with unknown parts replaced by OPEN."""
    if isinstance(value, UnknownValue):
        return value if value.is_function else OPEN
    if isinstance(value, Alternatives):
        return OPEN
    return [_field_value(item) for item in value] if isinstance(value, list) else value


def options(target: Any, name: str) -> list[Any]:
    """The possible objects in a field, or None; OPEN stands for unknown ones."""
    if not isinstance(target, CallResult):
        attribute = getattr(target, name, None)
        several = [_field_value(value) for value in flattened([attribute])]
    else:
        values = target.arguments.get(name) or exactly(field(target, name))
        several = [*values.known, *([] if values.complete and not values.cyclic else [OPEN])]
    return [option for option in several if option is not None] or [None]


def flag(target: Any, name: str) -> bool | None:
    """Whether a field is truthy; None if the code does not determine it."""
    target_field = field(target, name) if target not in (None, OPEN) else target
    return None if target_field is OPEN else bool(target_field)


def elements_of(reader: CrewReader, target: Any, name: str, *, unknown: bool = False) -> KnownElements:
    """The elements of a list field; with `unknown`, also those without a name."""
    if not isinstance(target, CallResult):
        attribute = getattr(target, name, None)
        if isinstance(attribute, UnknownValue):
            return KnownElements(complete=False)
        several = flattened(attribute) if isinstance(attribute, list | tuple) else []
        known = [part for part in several if unknown or not _is_unknown(part)]
        return KnownElements(tuple(known), len(known) == len(several))
    value = target.arguments.get(name)
    if value is None or value.known == (None,):
        return KnownElements()
    items = reader.elements(value)
    return KnownElements(tuple(item for item in items.known if item is not None), items.complete and not items.cyclic)


def _is_unknown(value: Any) -> bool:
    """Whether nothing is known about a value, not even a name that the program declares or imports."""
    return isinstance(value, UnknownValue) and not value.is_named


def is_ordered(target: Any, name: str) -> bool:
    """Whether the number and the order of a list's elements are known."""
    if not isinstance(target, CallResult):
        attribute = getattr(target, name, None)
        items = attribute if isinstance(attribute, list | tuple) else [attribute]
        return not any(isinstance(item, Alternatives) for item in items)
    value = target.arguments.get(name)
    return value is None or isinstance(_single(value), list)


def library_path(tool: Any) -> str:
    """The path of the class of a tool whose name only a library knows; empty for other tools."""
    if isinstance(tool, UnknownValue):
        return tool.path if tool.name == tool.path.rpartition(".")[2] else ""  # else it declares its name
    kind = type(tool)
    own = kind.__module__.partition(".")[0] == TOOLS_PACKAGE and not isinstance(field(tool, "name"), str)
    return f"{kind.__module__}.{kind.__name__}" if own else ""


def tool_name(tool: Any) -> str | None:
    """The name of a tool as a model sees it, or `package.Class` if only a library knows it; None if unknown."""
    if path := library_path(tool):
        return f"{path.partition('.')[0]}.{path.rpartition('.')[2]}"
    name = _decorated_name(tool) if isinstance(tool, Function) else field(tool, "name")
    if isinstance(tool, bodies.ReadableFunction):
        name = getattr(tool, "__name__", None)
    return _sanitized_name(name) if isinstance(name, str) and name else None


def always_asks(tool: Any) -> bool:
    """Whether the code of a tool asks a person on every path."""
    function = _function_of(tool)
    return function is not None and bodies.summarize(function).always_asks


def unseen_of(tool: Any) -> tuple[Unseen, ...]:
    """Returns what the code of a tool runs that cannot be seen."""
    return bodies.opaque_calls_in(_function_of(tool) or tool)


def _function_of(tool: Any) -> Any:
    kind = next(iter(kinds_of(tool)), None)
    return getattr(tool, "func", None) or getattr(kind, "_run", None)


def _decorated_name(function: Function) -> str:
    """The name of a function with `@tool("...")`, or its own."""
    for decorator in getattr(function.tree, "decorator_list", ()):
        match decorator:
            case ast.Call(args=[ast.Constant(value=str(name)), *_]):
                return name
    return str(getattr(function.tree, "name", ""))


def _sanitized_name(name: str) -> str:
    """The simplified name that CrewAI shows to models and hooks."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii")
    for words in (r"([A-Z]+)([A-Z][a-z])", r"([a-z])([A-Z])"):
        plain = re.sub(words, r"\1_\2", plain)
    plain = re.sub(r"[^a-z0-9]+", "_", re.sub(r"['\"]+", "", plain.lower())).strip("_")
    if len(plain) <= MAX_NAME_LENGTH:
        return plain
    end = f"_{hashlib.sha256(plain.encode()).hexdigest()[:8]}"
    return plain[: MAX_NAME_LENGTH - len(end)].rstrip("_") + end


def _single(values: Values) -> Any:
    """The only possible value, with nested lists and dictionaries; OPEN if there are several."""
    if not values.complete or values.cyclic or len(values.known) != 1:
        return OPEN
    known_value = values.known[0]
    if isinstance(known_value, Sequence):
        return [_single(item) for item in known_value.items] if known_value.ordered else OPEN
    if isinstance(known_value, Table):
        return {_single(key): _single(value) for key, value in known_value.items}
    return known_value


def _state(flow: Any) -> Values:
    """A state of a flow, with the fields that its class declares."""
    # the class has no public attribute for it
    kind = getattr(flow.callee, "_initial_state_t", None) if isinstance(flow, CallResult) else type(flow.state)
    return exactly(Instance(kind)) if isinstance(kind, type) and not issubclass(kind, dict) else UNKNOWN


def _config(kind: Any, name: str) -> dict[str, Any]:
    """The configuration of agents or tasks in a YAML file beside a class; empty if missing."""
    path = getattr(kind, f"original_{name}_path", None)
    base = getattr(kind, "base_directory", None)
    if not isinstance(path, str) or base is None:
        return {}
    return read_config(Path(base) / path)


def read_config(path: Path) -> dict[str, Any]:
    """The contents of a YAML file; empty if it is missing or invalid."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    return _parsed_config(text)


@lru_cache(maxsize=64)
def _parsed_config(text: str) -> dict[str, Any]:
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError:
        return {}
    return {str(key): value for key, value in config.items()} if isinstance(config, Mapping) else {}


def _unwrapped(member: Any) -> FunctionType | None:
    """The function of a decorated method of CrewAI, or of a plain function; None for anything else."""
    while hasattr(type(member), "unwrap"):
        member = member.unwrap()
    if hasattr(member, "is_task") or hasattr(member, "is_agent"):
        member = inspect.unwrap(member)
    return member if isinstance(member, FunctionType) else None


def _is_own_attribute(target: ast.AST, name: str) -> bool:
    return isinstance(target, ast.Attribute) and target.attr == name


def _is_own(function: FunctionType, package: str) -> bool:
    """Whether a function belongs to the program rather than to a library."""
    file = function.__code__.co_filename
    if file.startswith(tuple(getattr(sys.modules.get(CREWAI), "__path__", ()))):
        return False
    return bodies.is_program_code(function) or (bool(package) and f"{os.sep}{package}{os.sep}" in file)


# --- the steps of a body

StepKind = Literal["person", "model", "tool", "agent", "task", "crew", "flow"]
Key = tuple[object, ...]

BEGIN: Key = ("begin",)
MOST_CALLS = 8
MOST_STEPS = 400

_STARTS = frozenset(
    f"{prefix}kickoff{suffix}" for prefix in ("", "a") for suffix in ("", "_async", "_for_each", "_for_each_async")
)
_EACH = "for_each"
_EFFECTS: tuple[tuple[StepKind, tuple[str, ...], frozenset[str]], ...] = (
    ("crew", ("Crew",), _STARTS),
    ("flow", ("Flow",), _STARTS),
    ("agent", ("BaseAgent", "Agent", "LiteAgent"), _STARTS | {"execute_task", "aexecute_task"}),
    ("task", ("Task",), frozenset({"execute_sync", "execute_async", "aexecute_sync"})),
    (
        "tool",
        ("BaseTool", "CrewStructuredTool"),
        frozenset({"run", "arun", "_run", "_arun", "invoke", "ainvoke", "func"}),
    ),
    ("model", ("BaseLLM", "LLM"), frozenset({"call", "acall"})),
    ("person", ("Flow",), frozenset({"ask"})),
)
_MODELS = (".completions.create", ".responses.create", ".messages.create", "litellm.completion", "litellm.acompletion")


@dataclass(frozen=True, eq=False)
class BodyStep:
    """A step of a body; `target` is the object that runs, or OPEN."""

    kind: StepKind
    target: Any
    line: int


@dataclass
class BodySteps:
    """The steps of a body.

    Attributes:
        by_key: the steps.
        links: pairs of a step and a direct successor; BEGIN precedes the first steps.
        parallel: the links that are taken together with others.
        ends: the steps after which the body can end; BEGIN if it can do nothing.
        known: the code could be read.
    """

    by_key: dict[Key, BodyStep] = dataclasses.field(default_factory=dict)
    links: set[tuple[Key, Key]] = dataclasses.field(default_factory=set)
    parallel: set[tuple[Key, Key]] = dataclasses.field(default_factory=set)
    ends: set[Key] = dataclasses.field(default_factory=set)
    known: bool = True

    def without(self, drop: Callable[[BodyStep], bool]) -> BodySteps:
        """The steps without some of them, with their predecessors linked to their successors."""
        remaining = BodySteps(dict(self.by_key), set(self.links), set(self.parallel), set(self.ends), self.known)
        for key in [key for key, step in self.by_key.items() if drop(step)]:
            before = {link for link, other in remaining.links if other == key} - {key}
            after = {other for link, other in remaining.links if link == key} - {key}
            remaining.links = {link for link in remaining.links if key not in link}
            through = {(predecessor, other) for predecessor in before for other in after}
            remaining.links |= through
            remaining.parallel |= {link for link in through if {(link[0], key), (key, link[1])} & remaining.parallel}
            remaining.ends |= before if key in remaining.ends else set()
            remaining.ends.discard(key)
            del remaining.by_key[key]
        return remaining

    @property
    def ordered_links(self) -> list[tuple[Key, Key]]:
        """The links in code order."""
        places = {key: place for place, key in enumerate((BEGIN, *self.by_key))}
        return sorted(self.links, key=lambda link: (places[link[0]], places[link[1]]))

    @property
    def last(self) -> list[Key]:
        """The steps after which the body can end."""
        return [key for key in self.by_key if key in self.ends]

    @property
    def kinds(self) -> set[StepKind]:
        return {step.kind for step in self.by_key.values()}

    def always(self, kind: StepKind) -> bool:
        """Whether every path through the body has a step of a kind."""
        seen, pending = {BEGIN}, [BEGIN]
        while pending:
            here = pending.pop()
            if here in self.ends:
                return False
            for link, other in self.links:
                if link == here and other not in seen and self.by_key[other].kind != kind:
                    seen.add(other)
                    pending.append(other)
        return True

    @property
    def is_straight(self) -> bool:
        """Whether it is exactly one step, always taken once."""
        return len(self.by_key) == 1 and self.links == {(BEGIN, next(iter(self.by_key)))} and BEGIN not in self.ends


def steps_of(reader: CrewReader, function: FunctionType | bodies.ReadableFunction, owner: object) -> BodySteps:
    """The steps of a method."""
    readable = reader.function(function)
    if readable is None:
        return BodySteps(ends={BEGIN}, known=False)
    walk = _BodyWalk(reader)
    walk.steps.ends = set(walk.into(readable, Arguments((exactly(owner),), open=True), frozenset({BEGIN})) or ())
    return walk.steps


_Front = frozenset[Key]
_Effect = Callable[[_Front], _Front | None]


class _BodyWalk(PathWalker[_Front]):
    """Walks through code; the state is the set of steps that can directly precede."""

    def __init__(self, reader: CrewReader) -> None:
        super().__init__()
        self.reader = reader
        self.steps = BodySteps()
        self._path: tuple[int, ...] = ()
        self._inside: list[ast.AST] = []

    def join(self, before: _Front, ends: list[_Front], *, whole: bool) -> _Front:  # noqa: ARG002 - joins do not depend on it
        return _Front().union(*ends)

    def loop_state(self, begin: _Front, end: _Front, rounds: int) -> _Front | None:  # noqa: ARG002 - until a fixed point
        return None if end <= begin else begin | end

    def into(self, function: Function, arguments: Arguments, front: _Front) -> _Front | None:
        """Walks through a called function."""
        if function.tree in self._inside or len(self._inside) >= MOST_CALLS or len(self.steps.by_key) > MOST_STEPS:
            return front
        self._inside.append(function.tree)
        ends = self.function(function.tree, self.reader.body_scope(function, arguments), front)
        self._inside.pop()
        return self._union(ends)

    def _union(self, ends: Iterable[_Front | None]) -> _Front | None:
        return _Front().union(*(end for end in ends if end)) or None

    def _value(self, node: ast.expr) -> tuple[Any, ...]:
        return self.reader.value(node, self.here).known

    def expression(self, node: ast.expr | None, state: _Front) -> _Front | None:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "gather":
            return self._parallel(node.args, state)
        return super().expression(node, state)

    def _parallel(self, expressions: list[ast.expr], front: _Front) -> _Front | None:
        """Walks through expressions that run in parallel from the same state."""
        links = set(self.steps.links)
        after = [self.expression(expression, front) for expression in expressions]
        begun = {(link, other) for link, other in self.steps.links - links if link in front}
        self.steps.parallel |= begun if len(begun) > 1 else set()
        return self._union(after) if expressions else front

    # Calls.

    def after_call(self, call: ast.Call, state: _Front) -> _Front | None:
        ways = list(self._effects(call))
        if ways:
            return self._one_of(ways, state)
        front: _Front | None = state
        for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
            front = self._one_of(
                [*self._callback_effects(argument), _unchanged], front
            )  # whom it is given to may call it
        return front

    def _one_of(self, effects: Iterable[_Effect], front: _Front | None) -> _Front | None:
        return self._union(way(front) for way in list(effects)) if front else None

    def _effects(self, node: ast.Call) -> Iterator[_Effect]:
        """The relevant effects of a call."""
        callee = ast.unparse(node.func)
        owners = self._owners(node.func)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        steps = [(kind, owner) for owner in owners for kind in [_effect_of(owner, name)] if kind]
        if steps or name in _STARTS or callee.endswith(_MODELS):
            unknown: StepKind = "crew" if name in _STARTS else "model"
            for number, (kind, owner) in enumerate(steps or [(unknown, OPEN)]):
                key = (*self._path, id(node), number)
                yield functools.partial(self._step, key, BodyStep(kind, owner, node.lineno), again=_EACH in name)
            return
        arguments = self.reader.arguments(node, self.here)
        for target in self._value(node.func):
            yield from self._call_effects(target, arguments, node)

    def _owners(self, function: ast.expr) -> tuple[Any, ...]:
        return self._value(function.value) if isinstance(function, ast.Attribute) else ()

    def _callback_effects(self, node: ast.expr) -> Iterator[_Effect]:
        """The effects of a function that is passed as an argument."""
        if isinstance(node, ast.Attribute):
            for number, owner in enumerate(self._owners(node)):
                if kind := _effect_of(owner, node.attr):
                    yield functools.partial(
                        self._step, (*self._path, id(node), number), BodyStep(kind, owner, node.lineno)
                    )
        if isinstance(node, ast.Attribute | ast.Name | ast.Lambda):
            for target in self._value(node):
                yield from self._call_effects(target, Arguments(open=True), node)

    def _call_effects(self, target: object, arguments: Arguments, node: ast.expr) -> Iterator[_Effect]:
        """The effects of calling a function of the program."""
        if bodies.NO_FRAMEWORK.asks_human(target):
            yield functools.partial(self._step, (*self._path, id(node)), BodyStep("person", None, node.lineno))
            return
        function, bound_arguments = underlying(target, arguments)
        if isinstance(function, bodies.ReadableFunction) or (
            isinstance(function, FunctionType) and self.reader.follow(function)
        ):
            function = self.reader.function(function)
        if isinstance(function, Function):
            yield functools.partial(self._enter, function, bound_arguments, node)

    def _enter(self, function: Function, arguments: Arguments, node: ast.expr, front: _Front) -> _Front | None:
        path, self._path = self._path, (*self._path, id(node))
        after = self.into(function, arguments, front)
        self._path = path
        return after

    def _step(self, key: Key, step: BodyStep, front: _Front, *, again: bool = False) -> _Front:
        self.steps.by_key.setdefault(key, step)
        self.steps.links |= {(before, key) for before in front}
        if again:
            self.steps.links.add((key, key))
        self.on_raise_point(_Front({key}))
        return _Front({key, *(front if again else ())})


def _unchanged(front: _Front) -> _Front:
    return front


def _effect_of(owner: object, name: str) -> StepKind | None:
    """The kind of step that a method of an object is; None if it is irrelevant."""
    if isinstance(owner, Function) and name in {"run", "invoke"}:
        return "tool"
    return next((kind for kind, classes, names in _EFFECTS if name in names and is_kind(owner, *classes)), None)
