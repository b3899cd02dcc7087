"""Guarded functions: each call is judged before it runs."""

from __future__ import annotations

import asyncio
import functools
import inspect
import io
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from guardagent.enforcement import EnforcementPoint, HostCall, Outcome, arun, run
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.python.adapter.attachment import add, attach, ensure_attached
from guardagent.frameworks.python.adapter.caller_context import ConversationSource, current_agent, guarded_call
from guardagent.frameworks.python.adapter.tool import Fn, PythonTool
from guardagent.types import EMPTY

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

    async def arun(self, args: Mapping[str, Any], apart: Mapping[str, Any] = EMPTY) -> Any:
        """Runs a coroutine function or a plain one, and awaits an awaitable result."""
        output = self.tool.fn(**args, **apart)
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
    add(guard, [one.tool for one in created])
    attach(guard)
    return [
        fn if guarded_function(fn, guard) else _wrapped(fn, one) for fn, one in zip(all_tools, created, strict=True)
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
    found: GuardedFunction | None = _guarded_functions.get(function) if inspect.isfunction(function) else None
    if found is None or found.guard is not guard:
        return None
    return replace(found, tool=found.tool.bound_to(fn.__self__)) if inspect.ismethod(fn) else found


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
