"""The class of a guarded tool: a subclass of its own, which judges at the tool.

The host's hook before a tool sees the arguments too early: a callback of the agent may still change them, and the host
then converts them. So the plugin only sees to it that the tool has this class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import cache, partial
from typing import Any

from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.authenticated_function_tool import AuthenticatedFunctionTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.set_model_response_tool import SetModelResponseTool

from guardagent._support.requirements import require_parts
from guardagent.enforcement import Outcome
from guardagent.errors import InputError, error_text
from guardagent.frameworks.adk.adapter.arguments import bind_function, bind_schema, require_distinct
from guardagent.frameworks.adk.adapter.calls import AdkCalls, ProposedCall
from guardagent.frameworks.adk.adapter.runs import scope

FUNCTION_PARTS = ("_invoke_callable", "_run_generator_as_node", "_preprocess_args", "_get_mandatory_args")
SEAMS = frozenset({"run_async", "_invoke_callable", "_run_generator_as_node"})
MARK = "guardagent_guarded"
_running: ContextVar[tuple[Any, Any, AdkCalls] | None] = ContextVar("guardagent_adk_running", default=None)


def guard_tool(tool: Any) -> None:
    """Guards a tool in place. It is judged only in a run that has a guard.

    Raises:
        InputError: it cannot be guarded.
    """
    if not isinstance(tool, BaseTool):
        raise InputError(f"this is a {type(tool).__name__}; expected a tool of ADK")
    if not SEAMS.isdisjoint(vars(tool)):
        own = next(one for one in vars(tool) if one in SEAMS)
        raise InputError(f"the tool {tool.name!r} has a {own!r} of its own, so its calls cannot be judged")
    kind: Any = type(tool)
    if hasattr(kind, MARK) or isinstance(tool, SetModelResponseTool):
        return  # that tool only sets the answer, which is judged
    try:
        tool.__class__ = guarded_class(kind)
    except TypeError as error:
        raise InputError(f"the tool {tool.name!r} cannot be judged: {error}") from None


@cache
def guarded_class(base: Any) -> Any:
    """Returns the class of a guarded tool.

    Raises:
        InputError: a part of the host is missing.
    """
    has_function = _has_function(base)
    require_parts(base, "run_async", "_get_declaration", *(FUNCTION_PARTS if has_function else ()))
    kind = _GuardedFunctionTool if has_function else _GuardedTool
    return type(base)(base.__name__, (kind, base), {"__module__": base.__module__, MARK: True})


def _has_function(kind: Any) -> bool:
    """Whether the calls of a class of tools all go through its `_invoke_callable`, with the function's arguments."""
    if not issubclass(kind, FunctionTool):
        return False
    runs = {FunctionTool.run_async, AuthenticatedFunctionTool.run_async}
    return kind.run_async in runs and kind._invoke_callable is FunctionTool._invoke_callable  # noqa: SLF001 - the seam


def calls_of(context: Any) -> AdkCalls | None:
    """Returns the judge of a context's runner, or of the tool around it; None if there is no guard."""
    for plugin in context.get_invocation_context().plugin_manager.plugins:
        if isinstance(found := getattr(plugin, "guardagent_calls", None), AdkCalls):
            return found
    around = scope()
    return around.calls if around is not None else None


class _GuardedTool(BaseTool):  # a base of its own would change the layout of instances
    """Judges a call with the arguments of `run_async`."""

    async def run_async(self: Any, *, args: dict[str, Any], tool_context: Any) -> Any:
        run = partial(super().run_async, tool_context=tool_context)
        calls = calls_of(tool_context)
        if calls is None or self.name in calls.unguarded:
            return await run(args=args)
        if isinstance(self, AgentTool) and not self.include_plugins:
            problem = f"the agent {self.name!r} would run without a guard, as it has include_plugins=False"
            return await calls.refuse(self, tool_context, problem)
        bind = partial(bind_schema, self, unjudged=calls.unjudged(self))
        return await calls.invoke(
            ProposedCall(self, tool_context, bind, lambda judged: run(args=judged), lost=_lost), args
        )


class _GuardedFunctionTool(BaseTool):
    """Judges a call with the arguments of the function, after the host's conversion."""

    async def run_async(self: Any, *, args: dict[str, Any], tool_context: Any) -> Any:
        calls = calls_of(tool_context)
        if calls is None or self.name in calls.unguarded:
            return await super().run_async(args=args, tool_context=tool_context)
        try:
            require_distinct(self.name, args)
        except InputError as error:
            return await calls.refuse(self, tool_context, str(error))
        token = _running.set((self, tool_context, calls))
        try:
            return await super().run_async(args=args, tool_context=tool_context)
        finally:
            _running.reset(token)

    async def _invoke_callable(self: Any, target: Any, args_to_call: dict[str, Any]) -> Any:
        run = super()._invoke_callable
        if target is not self.func:
            return await run(target, args_to_call)
        return await self._judged(args_to_call, lambda args: run(target, args))

    async def _run_generator_as_node(self: Any, *, args_to_call: dict[str, Any], tool_context: Any) -> Any:
        run = super()._run_generator_as_node
        return await self._judged(args_to_call, lambda args: run(args_to_call=args, tool_context=tool_context))

    async def _judged(self: Any, args: Mapping[str, Any], work: Callable[[dict[str, Any]], Any]) -> Any:
        running = _running.get()
        if running is None or running[0] is not self:
            return await work(dict(args))  # of a run without a guard
        _, context, calls = running
        bind = partial(bind_function, self, unjudged=calls.unjudged(self))
        return await calls.invoke(ProposedCall(self, context, bind, work, self._preprocess_args), args)


def _lost(error: BaseException) -> Outcome:
    """The outcome of a tool that runs elsewhere: after an error of the connection it may have done its work."""
    return Outcome(error_text(error), failed=None) if isinstance(error, Exception) else Outcome.of_error(error)
