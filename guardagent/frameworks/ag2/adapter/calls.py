"""Judges and runs the calls of agents: approvals, turns, arguments, results, guarded copies of tools, and events.

The host's own approval is a question to the person behind `hitl_hook`.

The host copies tools deeply, and makes others out of them. So the guard of a tool is in plain functions, which a copy
keeps: one at the end of the tool's middleware, and one around its function, behind the host's casts and defaults.
"""

from __future__ import annotations

import copy
import functools
import inspect
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ag2.events import (
    ModelRequest,
    ModelResponse,
    TextInput,
    ToolApprovalRequest,
    ToolErrorEvent,
    ToolResultEvent,
    ToolResultsEvent,
)
from ag2.exceptions import HumanInputError
from ag2.tools import ToolResult

from guardagent._support.execution import Operation, Procedure, adrive
from guardagent.enforcement import Approval, ApprovalRequest, Approver, HostCall, Outcome, ToolSpec
from guardagent.enforcement.host_adapter import HostAdapter, ToolInvocation, plain_or_text
from guardagent.enforcement.host_runs import HostScope, HostSurroundings, ModelRun, awaited
from guardagent.enforcement.lifecycle import MAX_REQUESTS, JudgedCall
from guardagent.enforcement.schema import validate_arguments
from guardagent.enforcement.tool_arguments import copied_values, defaults_of, finished, refuse_opaque
from guardagent.errors import InputError, ToolDenied
from guardagent.types import Decision, thaw

# --- approval

_YES = ("y", "yes", "1", "approve")  # as those of the host's own `approval_required`


def _approver(context: Any, tool_id: str) -> Approver:
    async def ask(request: ApprovalRequest) -> Approval:
        question = ToolApprovalRequest(f"{request.text()}\nY/N?", tool_call_id=tool_id)
        try:
            return read_answer(await context.ask(question))
        except HumanInputError as error:
            return Approval("reject", reason=f"no reviewer has answered: {error}")

    return ask


def read_answer(text: str) -> Approval:
    """Reads a person's answer: a yes, or a JSON object that `Approval.read` accepts. Anything else rejects."""
    if text.strip().lower() in _YES:
        return Approval("approve")
    try:
        return Approval.read(json.loads(text))
    except ValueError:
        return Approval("reject")


# --- turns

UNNAMED = (
    "this turn names no conversation: call the agent inside 'with conversation(id):', or pass conversation=..., such "
    "as 'stream_id' if the program passes the stream"
)


class AskHalted(ToolDenied):
    """A rule has halted the turn: `agent.ask` raises this. `verdict` says why."""


@dataclass(slots=True, kw_only=True)
class Ag2Run(ModelRun):
    """One turn of an agent, from a request to the answer.

    Attributes:
        agent: the name of the agent.
    """

    halt_error = AskHalted

    agent: str

    def call_options(self, *, nested: bool) -> dict[str, Any]:
        return {**ModelRun.call_options(self, nested=nested), "agent": self.agent}


@dataclass(frozen=True, slots=True)
class Ag2Scope(HostScope):
    """The surroundings of a call or a turn.

    Attributes:
        context: the host's context of the call that is about to run.
    """

    run: Ag2Run | None = None
    context: Any = None

    @property
    def inside(self) -> bool:
        return self.run is not None or self.call is not None


SURROUNDINGS = HostSurroundings("ag2", Ag2Scope)
scope, enter, conversation = SURROUNDINGS.scope, SURROUNDINGS.enter, SURROUNDINGS.conversation


def surroundings() -> Ag2Scope:
    """Returns the surroundings of the calling code."""
    return scope() or Ag2Scope(None)


# --- arguments


@dataclass(frozen=True, slots=True)
class Ag2Arguments:
    """Reads the arguments of a function.

    Attributes:
        spec: the tool's declaration.
        model: the host's model of the function, which casts arguments.
        injected: arguments that the host fills in; they are neither judged nor logged.
        names: the arguments that a model may pass; None if it may pass others.
        defaults: of the function.
    """

    spec: ToolSpec
    model: Any
    injected: frozenset[str]
    names: frozenset[str] | None
    defaults: Mapping[str, Any]

    @classmethod
    def of(cls, tool: Any) -> Ag2Arguments:
        """Reads the declaration of a function tool.

        Raises:
            InputError: its function takes arguments by position only, or of a type that no rule can read.
        """
        function, model = tool.schema.function, tool.model
        if model.args_name is not None:
            raise InputError(f"the tool {tool.name!r} takes arguments by position only; expected named parameters")
        injected = frozenset({*model.dependencies, *model.custom_fields})
        refuse_opaque(tool.name, {parameter.field_name: parameter.field_type for parameter in model.params}, injected)
        names = frozenset(parameter.field_name for parameter in model.params) - injected
        declared = frozenset(function.parameters.get("properties", {})) - injected
        spec = ToolSpec(tool.name, dict(function.parameters), function.description, unlisted_arguments=names)
        accepted = None if model.kwargs_name is not None else names | declared
        return cls(spec, model, injected, accepted, _defaults_of(model, injected))

    def check_names(self, args: Mapping[str, Any]) -> None:
        """Checks the names that a model has passed: the host would take them for what it fills in itself.

        Raises:
            InputError: one is unknown, or of an argument that the host fills in.
        """
        for name in args:
            if name in self.injected or (self.names is not None and name not in self.names):
                raise InputError(f"{self.spec.name!r} has no argument {name!r}")

    def bind(self, kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns copies of the arguments that the function will get, and what the host fills in.

        Raises:
            InputError: one cannot be judged.
        """
        apart = {name: value for name, value in kwargs.items() if name in self.injected}
        named = {name: value for name, value in kwargs.items() if name not in apart}
        left = {name: value for name, value in self.defaults.items() if name not in named}
        return copied_values({**left, **named}), apart

    def edited(self, args: Mapping[str, Any], apart: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments that the function gets for a reviewer's edits.

        Raises:
            InputError: an argument is unknown; other errors of the host if one does not fit.
        """
        self.check_names(args)
        solved = {**args, **apart}
        cast = self.model.serializer(dict(solved)) if self.model.serializer is not None else {}
        merged = {**solved, **cast}
        return self.bind({name: value for name, value in merged.items() if name not in self.injected})[0]


@dataclass(frozen=True, slots=True)
class ServerArguments:
    """Reads the arguments of a tool that an MCP server runs: they are judged by its schema.

    Attributes:
        spec: the tool's declaration.
    """

    spec: ToolSpec

    def bind(self, kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the arguments of a call, with defaults.

        Raises:
            InputError: they do not fit the schema.
        """
        return validate_arguments(self.spec.name, kwargs, self.spec.schema), {}

    def edited(self, args: Mapping[str, Any], _: Mapping[str, Any]) -> dict[str, Any]:
        """Binds the arguments that a reviewer has edited."""
        return self.bind(args)[0]


def _defaults_of(model: Any, injected: frozenset[str]) -> dict[str, Any]:
    try:
        defaults = defaults_of(inspect.signature(model.call))
    except (TypeError, ValueError):
        return {}
    return {name: default for name, default in defaults.items() if name not in injected}


# --- results


def outcome_of(output: Any) -> Outcome:
    """Returns a call's outcome from what its function has returned, or from the event of a tool of a server."""
    if isinstance(output, ToolErrorEvent):
        return Outcome(str(output.error), failed=True)
    value = output.result if isinstance(output, ToolResultEvent) else output
    if not isinstance(value, ToolResult):
        return Outcome(plain_or_text(value))
    parts = [
        part.content if isinstance(part, TextInput) else plain_or_text(getattr(part, "data", part))
        for part in value.parts
    ]
    return Outcome(parts[0] if len(parts) == 1 else parts, other_outputs=(parts,))


# --- calls


class Ag2Invocation(ToolInvocation[Ag2Scope]):
    """One call of a tool.

    Args:
        adapter: has the guard.
        arguments: reads the arguments.
        kwargs: the arguments.
    """

    def __init__(
        self, adapter: HostAdapter[Ag2Scope], arguments: Ag2Arguments | ServerArguments, kwargs: Mapping[str, Any]
    ) -> None:
        super().__init__(adapter, arguments.spec.name, adapter.around())
        self._arguments, self._kwargs = arguments, kwargs

    def bind(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._arguments.bind(self._kwargs)

    def rebind(self, edited: Mapping[str, Any]) -> dict[str, Any]:
        return self._arguments.edited(thaw(edited), self.apart)

    def judge(self, call: HostCall) -> Procedure[JudgedCall]:
        """Judges a call. If a rule escalates it and the guard has no approver, the host asks a person."""
        life, around = self.guard.lifecycle, self.around
        verdict, call = yield from life.judge(call)
        for _ in range(MAX_REQUESTS if self.guard.approver is None and around.context is not None else 0):
            if verdict.decision is not Decision.ESCALATE:
                break
            approver = _approver(around.context, around.tool_id or call.id)
            verdict, call = yield from life.ask_approver(call, verdict, approver)
        return verdict, call

    def inside(self, call: HostCall) -> Ag2Scope:
        return Ag2Scope(call.conversation, self.around.run, call)

    def tell(self, output: Any, line: str) -> Any:
        result = getattr(output, "result", output)
        if not isinstance(result, ToolResult):
            return super().tell(plain_or_text(output), line)
        result.parts = [*result.parts, TextInput(line)]
        return output

    def outcome(self, output: Any) -> Outcome:
        return outcome_of(output)


# --- guarded copies

MARK = "guardagent_adapter"


def adapter_of(tool: Any) -> HostAdapter[Ag2Scope] | None:
    """Returns what judges the calls of a tool; None if nothing does."""
    adapters = (getattr(hook, MARK, None) for hook in getattr(tool, "_middleware", ()))
    return next((adapter for adapter in adapters if adapter is not None), None)


def guarded_function_tool(tool: Any, arguments: Ag2Arguments, adapter: HostAdapter[Ag2Scope]) -> Any:
    """Returns the guarded copy of a function tool."""

    async def entry(call_next: Any, event: Any, context: Any) -> Any:
        with _about_to_run(event, context):
            try:
                arguments.check_names(event.serialized_arguments)
            except InputError as error:
                denied = await adrive(Ag2Invocation(adapter, arguments, {}).refusal(str(error)))
                return ToolErrorEvent.from_call(event, error=denied)
            return await call_next(event, context)

    created = _with_entry(tool, entry, adapter)
    created.model = copy.copy(tool.model)
    created.model.call = _guarded_function(arguments, adapter)
    return created


def guarded_server_tool(tool: Any, arguments: ServerArguments, adapter: HostAdapter[Ag2Scope]) -> Any:
    """Returns the guarded copy of a tool that an MCP server runs."""

    async def entry(call_next: Any, event: Any, context: Any) -> Any:
        def work(args: dict[str, Any]) -> Operation:
            judged = copy.copy(event)
            judged._serialized_arguments = args  # noqa: SLF001 - what the tool reads
            return awaited(partial(call_next, judged, context))

        with _about_to_run(event, context):
            try:
                return await adrive(Ag2Invocation(adapter, arguments, event.serialized_arguments).steps(work))
            except ToolDenied as denied:
                return ToolErrorEvent.from_call(event, error=denied)

    return _with_entry(tool, entry, adapter)


@contextmanager
def _about_to_run(event: Any, context: Any) -> Iterator[None]:
    """Code inside is on its way to the call of an event."""
    with enter(replace(surroundings(), tool_id=event.id or None, context=context)):
        yield


def _with_entry(tool: Any, entry: Any, adapter: HostAdapter[Ag2Scope]) -> Any:
    """Returns a copy of a tool with a hook at the end of its middleware."""
    setattr(entry, MARK, adapter)
    created = copy.copy(tool)
    created._middleware = (*tool._middleware, entry)  # noqa: SLF001 - the host's seam
    return created


def _guarded_function(arguments: Ag2Arguments, adapter: HostAdapter[Ag2Scope]) -> Any:
    function, name = arguments.model.call, arguments.spec.name

    async def run(args: dict[str, Any]) -> Any:
        return finished(name, await function(**args))

    @functools.wraps(function)
    async def call(**kwargs: Any) -> Any:
        return await adrive(Ag2Invocation(adapter, arguments, kwargs).steps(lambda args: awaited(partial(run, args))))

    return call


# --- the events of a stream, as rules read them


def chat(events: Iterable[Any]) -> list[dict[str, str]]:
    """Returns role and text of each message among the events."""
    return [message for event in events for message in _messages(event)]


def result_ids(events: Iterable[Any]) -> list[str]:
    """Returns the ids of the calls whose results are among the events."""
    return [result_event.parent_id for event in events for result_event in _results(event)]


def text_of(parts: Iterable[Any]) -> str:
    """Returns the text of inputs."""
    return "\n".join(
        part.content if isinstance(part, TextInput) else str(getattr(part, "data", part)) for part in parts
    )


def _messages(event: Any) -> Iterator[dict[str, str]]:
    if isinstance(event, ModelRequest):
        yield {"role": "user", "content": text_of(event.parts)}
    if isinstance(event, ModelResponse) and event.message is not None:
        yield {"role": "assistant", "content": event.message.content}
    for result_event in _results(event):
        yield {"role": "tool", "content": text_of(result_event.result.parts)}


def _results(event: Any) -> list[Any]:
    if isinstance(event, ToolResultsEvent):
        return list(event.results)
    return [event] if isinstance(event, ToolResultEvent) else []
