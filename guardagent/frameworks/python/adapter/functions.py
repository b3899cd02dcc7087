"""Guarded functions: each call is judged before it runs.

Arguments are plain values, so that the judged value is the whole argument. The tools of a guard are compared with the
rules together. The conversation of the calling code is a context variable, so that threads and tasks stay apart.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import io
import math
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from inspect import Parameter
from types import MappingProxyType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from guardagent.enforcement import Coverage, EnforcementPoint, HostCall, Outcome, ToolSpec, arun, run
from guardagent.errors import InputError, ToolDenied
from guardagent.types import EMPTY, FrozenMapping

# --- arguments

_SCALARS = frozenset({str, int, bool, type(None)})
_DEEPEST = 100


def plain_value(value: Any, place: str, depth: int = 0) -> Any:
    """Returns a frozen copy of a JSON value, which cannot change after it was judged.

    Args:
        value: None, a boolean, a number, a string, or a list, tuple or mapping of these. A list becomes a tuple.
        place: its name, for messages.
        depth: how deep it is nested.

    Raises:
        InputError: the value is of another type.
    """
    kind = type(value)
    if kind in _SCALARS or (kind is float and math.isfinite(value)):
        return value
    if depth >= _DEEPEST:
        raise InputError(f"{place[:80]} is nested too deeply, or contains itself")
    if kind is dict or isinstance(value, Mapping):
        return _plain_mapping(dict(value), place, depth)
    if isinstance(value, list | tuple):
        items = enumerate(tuple(value))
        return tuple(
            item if type(item) in _SCALARS else plain_value(item, f"{place}[{at}]", depth + 1) for at, item in items
        )
    description = repr(value) if kind is float else f"a {kind.__name__}"
    raise InputError(
        f"{place} is {description}; expected a JSON value, which can be judged and copied; convert it, or name the "
        "argument in 'unjudged' if the program supplies it and no rule mentions it"
    )


def _plain_mapping(value: dict[Any, Any], place: str, depth: int) -> Mapping[str, Any]:
    for key in value:
        if type(key) is not str:
            raise InputError(f"a key of {place} is {key!r}; expected a string")
    return MappingProxyType(
        {
            key: item if type(item) in _SCALARS else plain_value(item, f"{place}.{key}", depth + 1)
            for key, item in value.items()
        }
    )


# --- functions as tools

Fn = Callable[..., Any]
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class PythonTool:
    """A function that an agent may call.

    Attributes:
        name: its name for the host and the model.
        fn: the function.
        signature: its signature.
        unjudged: the arguments that the program supplies and no rule sees, such as a method's instance.
        is_async: whether it is a coroutine function.
    """

    name: str
    fn: Fn
    signature: inspect.Signature
    unjudged: frozenset[str]
    is_async: bool

    @classmethod
    def of(cls, fn: Fn, name: str | None = None, unjudged: Collection[str] = ()) -> PythonTool:
        """Makes a tool of a function, method or other callable.

        Raises:
            InputError: the callable cannot be judged; the message has the reason.
        """
        name = _name_of(fn, name)
        kind = fn if inspect.isroutine(fn) else getattr(fn, "func", type(fn).__call__)
        _refuse_what_runs_later(kind, name)
        _refuse_decorated(fn, name)
        signature = _signature(fn, name)
        hidden = frozenset([unjudged] if isinstance(unjudged, str) else unjudged)
        if odd := hidden - {parameter.name for parameter in signature.parameters.values() if parameter.kind in _NAMED}:
            raise InputError(f"{name} has no argument {min(odd)!r} to leave unjudged")
        hidden |= _bound_parameter(fn, signature)
        for argument in signature.parameters.values():
            if argument.default is not Parameter.empty and argument.name not in hidden:
                plain_value(argument.default, f"the default of {argument.name} of {name}")
        return cls(name, fn, signature, hidden, inspect.iscoroutinefunction(kind))

    @property
    def spec(self) -> ToolSpec:
        """The declaration that is compared with the rules."""
        arguments = {
            name: {"title": str(parameter)}
            for name, parameter in self.signature.parameters.items()
            if name not in self.unjudged
        }
        takes_others = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in self.signature.parameters.values())
        schema = {"type": "object", "properties": arguments}
        beyond: frozenset[str] | None = None if takes_others else frozenset()
        return ToolSpec(self.name, schema, inspect.getdoc(self.fn) or "", unlisted_arguments=beyond)

    def bound_to(self, instance: Any) -> PythonTool:
        """Binds the tool of a method to an instance."""
        first, *others = self.signature.parameters.values()
        return replace(
            self,
            fn=self.fn.__get__(instance),
            signature=self.signature.replace(parameters=others),
            unjudged=self.unjudged - {first.name},
        )

    def split(self, by_position: Iterable[Any], named: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """Returns the judged arguments of a call with defaults, and the unjudged ones.

        Raises:
            InputError: they do not fit the function, or are not JSON values.
        """
        try:
            bound = self.signature.bind(*by_position, **named)
        except TypeError as error:
            raise InputError(f"the arguments of {self.name!r}: {error}") from None
        bound.apply_defaults()
        every: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            every |= {name: value} if self.signature.parameters[name].kind in _NAMED else value
        apart = {name: every.pop(name) for name in self.unjudged}
        judged = {name: plain_value(value, f"{name} of {self.name}") for name, value in every.items()}
        return FrozenMapping(MappingProxyType(judged)), apart

    def read(self, named: Mapping[str, Any], apart: Mapping[str, Any] = EMPTY) -> Mapping[str, Any]:
        """Returns the arguments of a model or reviewer, with defaults.

        Args:
            named: the arguments by name.
            apart: the arguments that the program supplies.

        Raises:
            InputError: they do not fit the function, or one of them is supplied by the program.
        """
        if odd := self.unjudged.intersection(named):
            raise InputError(f"the arguments of {self.name!r}: {min(odd)!r} is supplied by the program")
        return self.split((), {**named, **apart})[0]


def _name_of(fn: Any, name: str | None) -> str:
    tool_name = name or getattr(fn, "__name__", None)
    if callable(fn) and isinstance(tool_name, str) and tool_name != "<lambda>":
        return tool_name
    raise InputError(f"{fn!r} is not a named function; expected one, or a callable with name='...'")


def _refuse_what_runs_later(kind: Any, name: str) -> None:
    if inspect.isgeneratorfunction(kind) or inspect.isasyncgenfunction(kind):
        raise InputError(
            f"{name} is a generator, which does its work after its call was recorded; expected a function that returns "
            "what it has found, such as a list"
        )


def _refuse_decorated(fn: Any, name: str) -> None:
    """Refuses a decorated function: its decorator may change judged arguments, or call the function twice."""
    if hasattr(fn, "__wrapped__"):
        raise InputError(
            f"{name} is decorated, and what the decorator makes of its arguments would not be judged; put the guard "
            "innermost, right above 'def', and give a tool loop the guarded function itself"
        )


def _signature(fn: Any, name: str) -> inspect.Signature:
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        raise InputError(f"{name} has no readable signature; wrap it in a function that has one") from None
    for parameter in signature.parameters.values():
        if parameter.kind not in (*_NAMED, Parameter.VAR_KEYWORD):
            raise InputError(
                f"{name} takes {str(parameter)!r} by position only; expected named parameters, which rules can use"
            )
    return signature


def _bound_parameter(fn: Any, signature: inspect.Signature) -> frozenset[str]:
    """Returns the name of the instance or class parameter of a function in a class body."""
    first = next(iter(signature.parameters), "")
    owner = getattr(fn, "__qualname__", "").rpartition(".")[0]
    in_class = inspect.isfunction(fn) and owner and not owner.endswith("<locals>")
    return frozenset({first}) if in_class and first in ("self", "cls") else frozenset()


# --- the tools of a guard


@dataclass(slots=True)
class _AttachedPythonTools:
    """The tools of a guard by name, each with its definition's place; `ready` once they are compared with the rules."""

    tools: dict[str, tuple[ToolSpec, str]] = field(default_factory=dict)
    ready: bool = False


_lock = threading.Lock()
_attached: WeakKeyDictionary[EnforcementPoint, _AttachedPythonTools] = WeakKeyDictionary()


def add(guard: EnforcementPoint, tools: Iterable[PythonTool]) -> None:
    """Adds tools to a guard. A redefined tool replaces the previous one.

    Raises:
        InputError: another tool has the same name.
    """
    with _lock:
        attached = _attached.setdefault(guard, _AttachedPythonTools())
        for tool in tools:
            _add(attached, tool)


def _add(attached: _AttachedPythonTools, tool: PythonTool) -> None:
    spec, place = tool.spec, _place(tool.fn)
    before = attached.tools.get(tool.name)
    if before == (spec, place):
        return
    if before is not None and before[1] != place:
        raise InputError(f"two tools are named {tool.name!r}: {before[1]} and {place}; give one of them a name=...")
    attached.tools[tool.name] = (spec, place)
    attached.ready = False


def attach(guard: EnforcementPoint) -> Coverage:
    """Compares the tools guarded so far with the rules. Otherwise the first call does so.

    Raises:
        InputError: a rule names a tool that is probably a misspelling of one of these.
    """
    with _lock:
        attached = _attached.setdefault(guard, _AttachedPythonTools())
        coverage = guard.attach([spec for spec, _ in attached.tools.values()])
        attached.ready = True
        return coverage


def ensure_attached(guard: EnforcementPoint) -> None:
    """Compares the tools with the rules again if a tool was added."""
    if not _attached[guard].ready:
        attach(guard)


def _place(fn: Any) -> str:
    fn = getattr(fn, "func", fn)  # of a partial
    return f"{getattr(fn, '__module__', '?')}.{getattr(fn, '__qualname__', type(fn).__qualname__)}"


# --- the conversation

ConversationSource = str | Callable[[], str | None] | None
"""A conversation's id, a function that returns it, or None for the `with conversation(...)` around the call."""


@dataclass(frozen=True, slots=True)
class _CallerContext:
    """The conversation and agent of the calling code; code `inside` a guarded call cannot leave its conversation."""

    name: str
    agent: str | None
    inside: bool


_current: ContextVar[_CallerContext | None] = ContextVar("guardagent_conversation", default=None)


@contextmanager
def conversation(name: str, agent: str | None = None) -> Iterator[str]:
    """Puts the calls within into this conversation; sub-agents, tasks and `asyncio.to_thread` inherit it.

    Within a guarded call, that call's conversation continues, whatever the name: a sub-agent has no separate history.
    A thread that is started within has its own context and inherits nothing.

    Args:
        name: the conversation's id.
        agent: the agent that proposes the calls.

    Raises:
        InputError: the id is not a string, or is empty.
    """
    with _entered(_CallerContext(conversation_id(_valid_id(name)), _agent(agent), _in_guarded_call())) as current:
        yield current.name


@contextmanager
def guarded_call(source: ConversationSource, agent: str | None = None) -> Iterator[str]:
    """Marks a guarded call, so that code within belongs to its conversation. Yields the conversation's id.

    Raises:
        InputError: there is no conversation.
    """
    with _entered(_CallerContext(conversation_id(source), _agent(agent), inside=True)) as current:
        yield current.name


@contextmanager
def _entered(current: _CallerContext) -> Iterator[_CallerContext]:
    token = _current.set(current)
    try:
        yield current
    finally:
        _current.reset(token)


def _agent(agent: str | None) -> str | None:
    return agent if agent is not None else current_agent()


def current_conversation() -> str | None:
    """Returns the id of the calling code's conversation; None if there is none."""
    current = _current.get()
    return current.name if current else None


def current_agent() -> str | None:
    """Returns the agent that `conversation` names for the calling code; None if it names none."""
    current = _current.get()
    return current.agent if current else None


def _in_guarded_call() -> bool:
    """Whether the calling code runs within a guarded call."""
    current = _current.get()
    return current is not None and current.inside


def conversation_id(source: ConversationSource) -> str:
    """Returns the conversation id of a call; a nested call shares that of the outer one.

    Raises:
        InputError: there is no conversation.
    """
    if _in_guarded_call():
        return _valid_id(current_conversation())
    name = source() if callable(source) else source
    return _valid_id(current_conversation() if name is None and source is None else name)


def _valid_id(name: object) -> str:
    if isinstance(name, str) and name:
        return name
    raise InputError(
        f"the conversation's id is {name!r}; expected a string; pass conversation=..., or make the call within "
        "'with conversation(id):'"
    )


# --- guarded functions

F = TypeVar("F", bound=Callable[..., Any])
ReadOutcome = Callable[[Any], Outcome]
_UNFINISHED = (Future, Iterator, AsyncIterator)  # a generator is one of them, and so is what `map` gives


@dataclass(frozen=True, slots=True)
class GuardedFunction:
    """The parts of a guarded function: the guard, the function as a tool, and the attributes of its calls."""

    guard: EnforcementPoint
    tool: PythonTool
    conversation: ConversationSource = None
    action: str | None = None
    tags: frozenset[str] = frozenset()
    outcome: ReadOutcome = Outcome

    def call(self, by_position: Iterable[Any], by_name: dict[str, Any], name: str) -> tuple[HostCall, dict[str, Any]]:
        """Returns the proposed call and the unjudged arguments.

        Raises:
            ToolDenied: the arguments do not fit the function.
        """
        try:
            judged, apart = self.tool.split(by_position, by_name)
        except InputError as error:
            refused = self.guard.refuse(HostCall(self.tool.name, {}, name, agent=current_agent()), str(error))
            raise ToolDenied(self.tool.name, refused) from None
        return self.proposed(judged, name, apart=apart), apart

    def proposed(self, args: Mapping[str, Any], name: str, *, apart: dict[str, Any], **more: Any) -> HostCall:
        """Builds the call with these arguments."""
        ready = functools.partial(self.tool.read, apart=apart)
        more = {"agent": current_agent(), **more}
        return HostCall(self.tool.name, args, name, action=self.action, tags=self.tags, validate_edit=ready, **more)

    def run(self, args: Mapping[str, Any], apart: Mapping[str, Any] = EMPTY) -> Any:
        """Runs the function with the judged and the unjudged arguments."""
        return finished_output(self.tool, self.tool.fn(**args, **apart))

    async def arun(self, args: Mapping[str, Any], apart: Mapping[str, Any] = EMPTY, *, in_thread: bool = False) -> Any:
        """Runs a coroutine function or a plain one, which may be in a thread, and awaits an awaitable result."""
        run = functools.partial(self.tool.fn, **args, **apart)
        in_thread = in_thread and not inspect.iscoroutinefunction(self.tool.fn)
        output = await asyncio.to_thread(run) if in_thread else run()
        return finished_output(self.tool, await output if inspect.isawaitable(output) else output)


_guarded_functions: WeakKeyDictionary[Any, GuardedFunction] = WeakKeyDictionary()  # guarded function -> what makes it


def guarded(
    guard: EnforcementPoint,
    *,
    conversation: ConversationSource = None,
    name: str | None = None,
    unjudged: Collection[str] = (),
    action: str | None = None,
    tags: Collection[str] = (),
    outcome: ReadOutcome = Outcome,
) -> Callable[[F], F]:
    """Returns a decorator that judges each call of a function, which runs with the judged arguments and defaults.

    Decorates a function, coroutine function or method, whose instance is not judged. The arguments are JSON values;
    the function gets a copy, in which a tuple is a list. A denied call raises `ToolDenied`.

    Args:
        guard: decides.
        conversation: the conversation's id, or a function that returns it; by default that of the
            `with conversation(id):` around the call.
        name: the tool's name; by default the function's.
        unjudged: arguments that the program supplies and no rule mentions, such as a connection; they are passed on
            unchanged, and neither judged nor logged.
        action: the action of its calls, for rules.
        tags: the call's tags, for rules.
        outcome: maps the function's result to an outcome, which tells whether the call failed.

    Raises:
        InputError: the function cannot be judged, such as a generator, or one with a decorator below the guard.
    """

    def decorate(fn: F) -> F:
        tool = PythonTool.of(fn, name, unjudged)
        add(guard, [tool])
        created: F = _wrapped(fn, GuardedFunction(guard, tool, conversation, action, frozenset(tags), outcome))
        return created

    return decorate


def guard_tools(
    tools: Iterable[Fn],
    guard: EnforcementPoint,
    *,
    conversation: ConversationSource = None,
    outcome: ReadOutcome = Outcome,
) -> list[Fn]:
    """Guards an agent's functions, and compares them with the rules at once.

    Args:
        tools: functions, bound methods, or guarded functions, which are returned unchanged.
        guard: decides.
        conversation: as of `guarded`.
        outcome: as of `guarded`.

    Raises:
        InputError: a function cannot be judged, or a rule names a tool that is probably a misspelling of one of these.
    """
    if not isinstance(guard, EnforcementPoint):
        raise InputError(f"the guard is a {type(guard).__name__}; expected the functions, and then their guard")
    all_tools = list(tools)
    created = [
        guarded_function(fn, guard) or GuardedFunction(guard, tool_of(fn), conversation, outcome=outcome)
        for fn in all_tools
    ]
    add(guard, [guarded.tool for guarded in created])
    attach(guard)
    return [
        fn if guarded_function(fn, guard) else _wrapped(fn, guarded)
        for fn, guarded in zip(all_tools, created, strict=True)
    ]


def tool_of(fn: Fn, name: str | None = None) -> PythonTool:
    """Returns a function as a tool whose arguments come from a model.

    Raises:
        InputError: as `PythonTool.of`; or the function is a method without its instance.
    """
    tool = PythonTool.of(fn, name)
    if tool.unjudged:
        raise InputError(f"{tool.name} is a method without its instance; expected a method of an object")
    return tool


def guarded_function(fn: Any, guard: EnforcementPoint) -> GuardedFunction | None:
    """Returns the parts of a function that this guard guards; None for any other function."""
    function = getattr(fn, "__func__", fn)
    guarded_function: GuardedFunction | None = (
        _guarded_functions.get(function) if inspect.isfunction(function) else None
    )
    if guarded_function is None or guarded_function.guard is not guard:
        return None
    return (
        replace(guarded_function, tool=guarded_function.tool.bound_to(fn.__self__))
        if inspect.ismethod(fn)
        else guarded_function
    )


def _wrapped(fn: Any, function: GuardedFunction) -> Any:
    """Returns the guarded wrapper of `fn`."""
    tool, guard = function.tool, function.guard

    if tool.is_async:

        async def acall(*by_position: Any, **by_name: Any) -> Any:
            ensure_attached(guard)
            with guarded_call(function.conversation) as name:
                call, apart = function.call(by_position, by_name, name)
                return await arun(guard, call, functools.partial(function.arun, apart=apart), function.outcome)

        wrapper: Any = acall
    else:

        def plain_call(*by_position: Any, **by_name: Any) -> Any:
            ensure_attached(guard)
            with guarded_call(function.conversation) as name:
                call, apart = function.call(by_position, by_name, name)
                return run(guard, call, functools.partial(function.run, apart=apart), function.outcome)

        wrapper = plain_call
    wrapper = functools.update_wrapper(wrapper, fn, updated=()) if hasattr(fn, "__name__") else wrapper
    wrapper.__name__ = tool.name
    _guarded_functions[wrapper] = function
    return wrapper


def finished_output(tool: PythonTool, output: Any) -> Any:
    """Returns a function's output if its work is done.

    Raises:
        InputError: the work has not begun, as that of a generator.
        TimeoutError: the work is still running, and may or may not finish.
    """
    if not (inspect.isawaitable(output) or isinstance(output, _UNFINISHED)) or isinstance(output, io.IOBase):
        return output
    under_way = isinstance(output, Future | asyncio.Future)
    if close := getattr(output, "close", None):
        close()
    raise (TimeoutError if under_way else InputError)(
        f"{tool.name} returned a {type(output).__name__}, whose work is not done yet; expected a coroutine function "
        "('async def'), or a function that returns what it has found"
    )
