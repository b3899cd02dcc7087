"""The guarded form of a tool, which stands in its place."""

from __future__ import annotations

import asyncio
import contextvars
import copy
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

from autogen_core import CancellationToken
from autogen_core.tools import BaseStreamTool, BaseTool, FunctionTool, ToolSchema
from pydantic import BaseModel

from guardagent._support.requirements import require_parts
from guardagent.enforcement import ToolSpec
from guardagent.enforcement.calls import plain_arguments
from guardagent.enforcement.hosts import finished, same_arguments
from guardagent.enforcement.schema import validate_arguments
from guardagent.errors import InputError
from guardagent.frameworks.autogen.adapter.arguments import AutoGenArguments
from guardagent.frameworks.autogen.adapter.calls import HANDOFF, AutoGenCalls, PermittedCall
from guardagent.frameworks.autogen.adapter.outcomes import outcome_of


class AutoGenTool(BaseTool[BaseModel, Any]):
    """Judges each call of a tool, and runs the tool with the judged arguments.

    Args:
        tool: the tool itself. It is not changed.
        arguments: reads its arguments.
        calls: judges.
        target: the agent to which the tool hands the conversation over; None for other tools.
    """

    def __init__(self, tool: Any, arguments: AutoGenArguments, calls: AutoGenCalls, target: str | None = None) -> None:
        super().__init__(tool.args_type(), tool.return_type(), tool.name, tool.description)
        self.guardagent_calls = calls
        self._tool, self._arguments, self._target = tool, arguments, target
        self._schema: ToolSchema = tool.schema  # made once: models see what was compared with the rules

    @property
    def guardagent_spec(self) -> ToolSpec:
        """The tool's declaration, under the name by which models call it."""
        return self._arguments.spec

    @property
    def schema(self) -> ToolSchema:
        return self._schema

    def return_value_as_string(self, value: Any) -> str:
        return str(self._tool.return_value_as_string(value))

    async def save_state_json(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = await self._tool.save_state_json()
        return found

    async def load_state_json(self, state: Mapping[str, Any]) -> None:
        await self._tool.load_state_json(state)

    def dump_component(self) -> Any:
        raise undumped(f"the tool {self.name!r}")

    async def run(self, args: BaseModel, cancellation_token: CancellationToken) -> Any:
        allowed, own = await self._allowed(args)

        async def work() -> Any:
            tool = _in_this_context(self._tool)
            return finished(self.name, await tool.run(self._received(allowed.args, own), cancellation_token))

        return await allowed.run(work, partial(outcome_of, as_string=self.return_value_as_string))

    async def _allowed(self, args: BaseModel) -> tuple[PermittedCall, BaseModel]:
        """Judges a call. Returns it, and the arguments that it was judged with.

        Raises:
            ToolDenied: the call may not run.
        """
        name, read = self._event, self._arguments
        try:
            own = read.copied(args)
            shown = self._shown(read.judged(own))
        except InputError as error:
            raise await self.guardagent_calls.refusal(name, str(error)) from None
        return await self.guardagent_calls.authorize(name, shown, self._validated), own

    def _received(self, judged: Mapping[str, Any], own: BaseModel) -> BaseModel:
        """Returns the arguments that run: the judged copies, or those of a reviewer's edits."""
        if same_arguments(judged, self._shown(self._arguments.judged(own))):
            return own
        own = self._arguments.edited(self._unshown(judged))
        if not same_arguments(judged, self._shown(self._arguments.judged(own))):
            raise InputError(f"the edited arguments of {self.name!r} change when they are read; expected stable values")
        return own

    def _validated(self, edited: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._shown(self._arguments.judged(self._arguments.edited(self._unshown(edited))))

    # --- a hand-off is the event `handoff(to=...)`

    @property
    def _event(self) -> str:
        return self._arguments.spec.name if self._target is None else HANDOFF

    def _shown(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._target is None:
            return args
        return {"to": self._target, **({"input": args} if args else {})}

    def _unshown(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._target is None:
            return args
        if args.get("to") != self._target or args.keys() - {"to", "input"}:
            raise InputError(f"the hand-off leads to {self._target!r}; expected another 'input' at most")
        found: Mapping[str, Any] = args.get("input", {})
        return found


class AutoGenStreamTool(AutoGenTool, BaseStreamTool[BaseModel, Any, Any]):
    """As AutoGenTool, for a tool that streams its results, such as an agent or a team."""

    async def run_stream(self, args: BaseModel, cancellation_token: CancellationToken) -> AsyncGenerator[Any, None]:
        allowed, own = await self._allowed(args)

        async def results() -> AsyncGenerator[Any, None]:
            received = self._received(allowed.args, own)
            async with aclosing(self._tool.run_stream(received, cancellation_token)) as found:
                async for one in found:
                    yield one

        outcome = partial(outcome_of, as_string=self.return_value_as_string)
        async with aclosing(allowed.stream(results(), outcome)) as found:
            async for one in found:
                yield one


class AutoGenJsonTool(AutoGenTool):
    """As AutoGenTool, for a tool with a `run_json` of its own: it is judged by its schema."""

    async def run_json(
        self, args: Mapping[str, Any], cancellation_token: CancellationToken, call_id: str | None = None
    ) -> Any:
        name, calls = self._event, self.guardagent_calls
        try:
            own = plain_arguments(self._by_schema(args))
        except InputError as error:
            raise await calls.refusal(name, str(error)) from None
        allowed = await calls.authorize(name, self._shown(own), lambda edited: self._by_schema(self._unshown(edited)))

        async def work() -> Any:
            return finished(
                self.name,
                await self._tool.run_json(self._unshown(allowed.args), cancellation_token, call_id=call_id),
            )

        return await allowed.run(work, partial(outcome_of, as_string=self.return_value_as_string))

    def _by_schema(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        return validate_arguments(self.name, args, self._arguments.spec.schema)


def guarded_tool(tool: Any, name: str, calls: AutoGenCalls, target: str | None = None) -> AutoGenTool:
    """Returns the guarded form of a tool.

    Args:
        tool: a tool of AutoGen.
        name: the name by which models call it.
        calls: judges.
        target: see AutoGenTool.

    Raises:
        InputError: the tool cannot be guarded.
    """
    if isinstance(tool, AutoGenTool):
        raise InputError(f"the tool {name!r} has another guard already; expected the tool itself")
    if not isinstance(tool, BaseTool):
        raise InputError(f"the tool {name!r} is a {type(tool).__name__}; expected a BaseTool of AutoGen")
    require_parts(tool, "args_type", "run", "run_json", "schema", "return_value_as_string")
    arguments = AutoGenArguments.of(tool, name)
    streams = isinstance(tool, BaseStreamTool)
    if type(tool).run_json is not BaseTool.run_json or (
        streams and type(tool).run_json_stream is not BaseStreamTool.run_json_stream
    ):
        return AutoGenJsonTool(tool, arguments, calls, target)
    return (AutoGenStreamTool if streams else AutoGenTool)(tool, arguments, calls, target)


def _in_this_context(tool: Any) -> Any:
    """Returns a tool whose function inherits the context of this call, since the host runs it in a thread."""
    if type(tool) is not FunctionTool or asyncio.iscoroutinefunction(tool._func):  # noqa: SLF001 - the host's seam
        return tool
    created = copy.copy(tool)
    created._func = partial(contextvars.copy_context().run, tool._func)  # noqa: SLF001 - as above
    return created


def undumped(what: str) -> InputError:
    return InputError(
        f"{what} has a guard, and its dump would have none; dump it before the guard is attached, and attach the "
        "guard to what is loaded"
    )
