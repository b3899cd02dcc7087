"""The guarded copies of tools.

The host copies tools deeply, and makes others out of them. So the guard of a tool is in plain functions, which a copy
keeps: one at the end of the tool's middleware, and one around its function, behind the host's casts and defaults.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ag2.events import ToolErrorEvent

from guardagent.enforcement.calls import plain_arguments
from guardagent.enforcement.hosts import finished, same_arguments
from guardagent.enforcement.schema import validate_arguments
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.ag2.adapter.arguments import Ag2Arguments
from guardagent.frameworks.ag2.adapter.calls import Ag2Calls
from guardagent.frameworks.ag2.adapter.outcomes import outcome_of, outcome_of_event
from guardagent.frameworks.ag2.adapter.runs import Ag2Scope, enter, scope
from guardagent.types import thaw

MARK = "guardagent_calls"


def guard_of_tool(tool: Any) -> Ag2Calls | None:
    """Returns what judges the calls of a tool; None if nothing does."""
    for hook in getattr(tool, "_middleware", ()):
        if (calls := getattr(hook, MARK, None)) is not None:
            found: Ag2Calls = calls
            return found
    return None


def guarded_function_tool(tool: Any, arguments: Ag2Arguments, calls: Ag2Calls) -> Any:
    """Returns the guarded copy of a function tool."""

    async def entry(call_next: Any, event: Any, context: Any) -> Any:
        with enter(replace(scope() or Ag2Scope(None), tool_id=event.id, context=context)):
            try:
                arguments.check_names(event.serialized_arguments)
            except InputError as error:
                return ToolErrorEvent.from_call(event, error=await calls.refusal(tool.name, str(error)))
            return await call_next(event, context)

    created = copy.copy(tool)
    created.model = copy.copy(tool.model)
    created.model.call = _guarded_function(arguments, calls)
    created._middleware = (*tool._middleware, _marked(entry, calls))  # noqa: SLF001 - the host's seam
    return created


def guarded_server_tool(tool: Any, calls: Ag2Calls) -> Any:
    """Returns the guarded copy of a tool that an MCP server runs: it is judged by its schema."""
    name, schema = tool.schema.function.name, tool.schema.function.parameters

    def read(args: Mapping[str, Any]) -> Mapping[str, Any]:
        return plain_arguments(validate_arguments(name, args, schema))

    async def entry(call_next: Any, event: Any, context: Any) -> Any:
        async def work(args: Mapping[str, Any]) -> Any:
            judged = copy.copy(event)
            judged._serialized_arguments = thaw(args)  # noqa: SLF001 - what the tool reads
            return await call_next(judged, context)

        with enter(replace(scope() or Ag2Scope(None), tool_id=event.id, context=context)):
            try:
                args = read(event.serialized_arguments)
            except InputError as error:
                return ToolErrorEvent.from_call(event, error=await calls.refusal(name, str(error)))
            try:
                return await calls.run(name, args, read, work, outcome_of_event)
            except ToolDenied as denied:
                return ToolErrorEvent.from_call(event, error=denied)

    created = copy.copy(tool)
    created._middleware = (*tool._middleware, _marked(entry, calls))  # noqa: SLF001 - the host's seam
    return created


def _guarded_function(arguments: Ag2Arguments, calls: Ag2Calls) -> Any:
    function, name = arguments.model.call, arguments.spec.name

    @functools.wraps(function)
    async def call(**kwargs: Any) -> Any:
        try:
            own, apart = arguments.own(kwargs)
            args = arguments.judged(own)
        except InputError as error:
            raise await calls.refusal(name, str(error)) from None

        async def work(allowed: Mapping[str, Any]) -> Any:
            live = own if same_arguments(allowed, args) else _edited(allowed)
            return finished(name, await function(**live, **apart))

        def _edited(allowed: Mapping[str, Any]) -> dict[str, Any]:
            live = arguments.edited(thaw(allowed), apart)
            if not same_arguments(allowed, arguments.judged(live)):
                raise InputError(f"the edited arguments of {name!r} change when they are read; expected stable values")
            return live

        def validated(edited: Mapping[str, Any]) -> Mapping[str, Any]:
            return arguments.judged(arguments.edited(thaw(edited), apart))

        return await calls.run(name, args, validated, work, outcome_of)

    return call


def _marked(hook: Any, calls: Ag2Calls) -> Any:
    setattr(hook, MARK, calls)
    return hook
