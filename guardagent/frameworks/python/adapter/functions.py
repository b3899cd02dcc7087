"""Functions that are judged before they run."""

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

from guardagent.enforcement import HostCall, Outcome, ToolGuard, arun, run
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
    """What makes a guarded function: the guard, the function as a tool, and what else is said of its calls."""

    guard: ToolGuard
    tool: PythonTool
    conversation: ConversationSource = None
    action: str | None = None
    tags: frozenset[str] = frozenset()
    outcome: ReadOutcome = Outcome

    def call(self, by_position: Iterable[Any], by_name: dict[str, Any], name: str) -> tuple[HostCall, dict[str, Any]]:
        """(the call that is proposed, the arguments that are not judged).

        Raises:
            ToolDenied: the arguments do not fit.
        """
        try:
            judged, apart = self.tool.split(by_position, by_name)
        except InputError as error:
            refused = self.guard.refuse(HostCall(self.tool.name, {}, name, agent=current_agent()), str(error))
            raise ToolDenied(self.tool.name, refused) from None
        return self.proposed(judged, name, apart=apart), apart

    def proposed(self, args: Mapping[str, Any], name: str, *, apart: dict[str, Any], **more: Any) -> HostCall:
        """The call with these arguments."""
        ready = functools.partial(self.tool.read, apart=apart)
        more = {"agent": current_agent(), **more}
        return HostCall(self.tool.name, args, name, action=self.action, tags=self.tags, validate_edit=ready, **more)

    def run(self, args: Mapping[str, Any], apart: Mapping[str, Any] = EMPTY) -> Any:
        """Runs the function with the arguments that were judged, and those that are not."""
        return finished_output(self.tool, self.tool.fn(**args, **apart))

    async def arun(self, args: Mapping[str, Any], apart: Mapping[str, Any] = EMPTY) -> Any:
        """As `run`, of a coroutine function or a plain one; whatever can be awaited is awaited."""
        output = self.tool.fn(**args, **apart)
        return finished_output(self.tool, await output if inspect.isawaitable(output) else output)


_guarded_functions: WeakKeyDictionary[Any, GuardedFunction] = WeakKeyDictionary()  # guarded function -> what makes it


def guarded(
    guard: ToolGuard,
    *,
    conversation: ConversationSource = None,
    name: str | None = None,
    unjudged: Collection[str] = (),
    action: str | None = None,
    tags: Collection[str] = (),
    outcome: ReadOutcome = Outcome,
) -> Callable[[F], F]:
    """Has each call of a function judged; it runs with the arguments that were judged, defaults included.

    A function, coroutine function or method; of a method, the instance is not judged. The arguments are JSON values:
    the function gets a copy, in which a tuple is a list. A call that may not run raises `ToolDenied`.

    Args:
        guard: decides.
        conversation: the conversation's id, or a function that gives it; else the `with conversation(id):` around the
            call tells.
        name: of the tool, where it is not that of the function.
        unjudged: arguments that the program gives and no rule is about, such as a connection; they are handed over as
            they are, and neither judged nor logged.
        action: what else its calls are, for rules that speak of it.
        tags: as `action`.
        outcome: tells from what the function returns whether it failed.

    Raises:
        InputError: it cannot be judged, such as a generator, or a function with a decorator below the guard.
    """

    def decorate(fn: F) -> F:
        tool = PythonTool.of(fn, name, unjudged)
        add(guard, [tool])
        made: F = _wrapped(fn, GuardedFunction(guard, tool, conversation, action, frozenset(tags), outcome))
        return made

    return decorate


def guard_tools(
    tools: Iterable[Fn], guard: ToolGuard, *, conversation: ConversationSource = None, outcome: ReadOutcome = Outcome
) -> list[Fn]:
    """An agent's functions as guarded ones, attached: the rules are held against them at once.

    Args:
        tools: functions, bound methods, or guarded functions, which stay as they are.
        guard: decides.
        conversation: as of `guarded`.
        outcome: as of `guarded`.

    Raises:
        InputError: one cannot be judged, or a rule names a tool that is probably a misspelling of one of these.
    """
    if not isinstance(guard, ToolGuard):
        raise InputError(f"the guard is a {type(guard).__name__}; expected the functions, and then their ToolGuard")
    all_tools = list(tools)
    made = [
        guarded_function(fn, guard) or GuardedFunction(guard, tool_of(fn), conversation, outcome=outcome)
        for fn in all_tools
    ]
    add(guard, [one.tool for one in made])
    attach(guard)
    return [fn if guarded_function(fn, guard) else _wrapped(fn, one) for fn, one in zip(all_tools, made, strict=True)]


def tool_of(fn: Fn, name: str | None = None) -> PythonTool:
    """A function as a tool whose arguments a model gives.

    Raises:
        InputError: as `Tool.of`; or it is a method without its instance.
    """
    tool = PythonTool.of(fn, name)
    if tool.unjudged:
        raise InputError(f"{tool.name} is a method without its instance; expected a method of an object")
    return tool


def guarded_function(fn: Any, guard: ToolGuard) -> GuardedFunction | None:
    """What makes a guarded function, for whoever judges its calls in its stead; None where it is none of this guard."""
    function = getattr(fn, "__func__", fn)
    found: GuardedFunction | None = _guarded_functions.get(function) if inspect.isfunction(function) else None
    if found is None or found.guard is not guard:
        return None
    return replace(found, tool=found.tool.bound_to(fn.__self__)) if inspect.ismethod(fn) else found


def _wrapped(fn: Any, function: GuardedFunction) -> Any:
    """The function that is called in the place of `fn`."""
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
    """What a function gave back, if its work is done.

    Raises:
        InputError: it would only now begin, and does not.
        TimeoutError: it is under way, and may come to its end or not.
    """
    if not (inspect.isawaitable(output) or isinstance(output, _UNFINISHED)) or isinstance(output, io.IOBase):
        return output
    under_way = isinstance(output, Future | asyncio.Future)
    if close := getattr(output, "close", None):
        close()
    raise (TimeoutError if under_way else InputError)(
        f"{tool.name} returned a {type(output).__name__}, whose work is not done yet; expected a coroutine function "
        "(`async def`), or a function that returns what it has found"
    )
