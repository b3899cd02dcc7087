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
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
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

from guardagent._support.execution import Procedure, adrive
from guardagent.enforcement import Approval, ApprovalRequest, Approver, EnforcementPoint, HostCall, Outcome, ToolSpec
from guardagent.enforcement.calls import plain_arguments, plain_value
from guardagent.enforcement.host_adapter import noted_denial
from guardagent.enforcement.host_runs import HostScope, HostSurroundings, ModelRun, awaited
from guardagent.enforcement.lifecycle import MAX_REQUESTS, JudgedCall
from guardagent.enforcement.schema import validate_arguments
from guardagent.enforcement.tool_arguments import copied_values, defaults_of, finished, refuse_opaque, same_arguments
from guardagent.errors import InputError, ToolDenied
from guardagent.types import Decision, FrozenMapping, thaw

# --- approval

_YES = ("y", "yes", "1", "approve")  # as those of the host's own `approval_required`


def judged(guard: EnforcementPoint, call: HostCall, context: Any, tool_id: str | None) -> Procedure[JudgedCall]:
    """Judges a call. If a rule escalates it and the guard has no approver, the host asks a person."""
    life = guard.lifecycle
    verdict, call = yield from life.judge(call)
    for _ in range(MAX_REQUESTS if guard.approver is None and context is not None else 0):
        if verdict.decision is not Decision.ESCALATE:
            break
        verdict, call = yield from life.ask_approver(call, verdict, _approver(context, tool_id or call.id))
    return verdict, call


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
        proposed: the ids of the calls that models have proposed in this conversation.
    """

    halt_error = AskHalted

    agent: str
    proposed: set[str]


@dataclass(frozen=True, slots=True)
class Ag2Scope(HostScope):
    """The surroundings of a call or a turn.

    Attributes:
        tool_id: the host's id of the call that is about to run.
        context: the host's context of that call.
    """

    run: Ag2Run | None = None
    tool_id: str | None = None
    context: Any = None

    @property
    def inside(self) -> bool:
        return self.run is not None or self.call is not None


SURROUNDINGS = HostSurroundings("ag2", Ag2Scope)
scope, enter, conversation = SURROUNDINGS.scope, SURROUNDINGS.enter, SURROUNDINGS.conversation


# --- calls

ValidateEdit = Callable[[Mapping[str, Any]], Mapping[str, Any]]
Named = str | Callable[[Any], str | None] | None


class Ag2Calls:
    """Judges and runs calls.

    Args:
        guard: decides.
        named: the conversation's id, or a function of the host's context that returns it.
    """

    def __init__(self, guard: EnforcementPoint, named: Named) -> None:
        self.guard, self._named = guard, named

    async def run(
        self,
        name: str,
        args: Mapping[str, Any],
        validate_edit: ValidateEdit,
        work: Callable[[Mapping[str, Any]], Awaitable[Any]],
        outcome: Callable[[Any], Outcome],
    ) -> Any:
        """Judges a call, and runs it with the judged arguments.

        Raises:
            ToolDenied: the call may not run.
        """
        around, life = self._around(), self.guard.lifecycle
        call = self._call(name, args, around, validate_edit)
        try:
            call, allowed = await adrive(life.authorize(call, judged(self.guard, call, around.context, around.tool_id)))
        except ToolDenied as denied:
            raise noted_denial(denied, around, UNNAMED) from None
        inside = Ag2Scope(call.conversation, around.run, call)
        running = SURROUNDINGS.within(inside, awaited(lambda: work(allowed)))
        return await adrive(life.execute(call, running, outcome))

    async def refusal(self, name: str, problem: str) -> ToolDenied:
        """Denies a call that cannot be judged as it stands."""
        around = self._around()
        verdict = await self.guard.arefuse(self._call(name, {}, around), problem)
        return noted_denial(ToolDenied(name, verdict), around, UNNAMED)

    def name_of(self, context: Any) -> str | None:
        """Returns the operator's name of the conversation."""
        return self._named(context) if callable(self._named) else self._named

    def _around(self) -> Ag2Scope:
        around = scope() or Ag2Scope(None)
        if around.inside or around.context is None:
            return around
        return replace(around, conversation=self.name_of(around.context) or around.conversation)

    def _call(
        self, name: str, args: Mapping[str, Any], around: Ag2Scope, validate_edit: ValidateEdit | None = None
    ) -> HostCall:
        options: dict[str, Any] = {"validate_edit": validate_edit}
        if (run := around.run) is not None:
            options |= {"agent": run.agent, **run.call_options(nested=around.call is not None)}
        if around.tool_id:
            options["id"] = around.tool_id
        return HostCall(name, args, around.conversation, **options)


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
        refuse_opaque(tool.name, {one.field_name: one.field_type for one in model.params}, injected)
        names = frozenset(one.field_name for one in model.params) - injected
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

    def own(self, kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns copies of the arguments that the function will get, and what the host fills in.

        Raises:
            InputError: one cannot be judged.
        """
        apart = {name: value for name, value in kwargs.items() if name in self.injected}
        named = {name: value for name, value in kwargs.items() if name not in apart}
        left = {name: value for name, value in self.defaults.items() if name not in named}
        return copied_values({**left, **named}), apart

    def judged(self, own: Mapping[str, Any]) -> FrozenMapping:
        """Returns arguments as rules read them.

        Raises:
            InputError: one has no form that rules can read.
        """
        return FrozenMapping(plain_arguments(own))

    def edited(self, args: Mapping[str, Any], apart: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments that the function gets for a reviewer's edits.

        Raises:
            InputError: an argument is unknown; other errors of the host if one does not fit.
        """
        self.check_names(args)
        solved = {**args, **apart}
        cast = self.model.serializer(dict(solved)) if self.model.serializer is not None else {}
        merged = {**solved, **cast}
        return self.own({name: value for name, value in merged.items() if name not in self.injected})[0]


def _defaults_of(model: Any, injected: frozenset[str]) -> dict[str, Any]:
    try:
        found = defaults_of(inspect.signature(model.call))
    except (TypeError, ValueError):
        return {}
    return {name: default for name, default in found.items() if name not in injected}


# --- results


def outcome_of(value: Any) -> Outcome:
    """Returns a call's outcome from what its function has returned."""
    if isinstance(value, ToolResult):
        parts = [
            one.content if isinstance(one, TextInput) else _plain(getattr(one, "data", one)) for one in value.parts
        ]
        return Outcome(parts[0] if len(parts) == 1 else parts, other_outputs=(parts,))
    return Outcome(_plain(value))


def outcome_of_event(event: Any) -> Outcome:
    """Returns a call's outcome from the event of a tool of a server."""
    if isinstance(event, ToolErrorEvent):
        return Outcome(str(event.error), failed=True)
    return outcome_of(event.result)


def _data(part: Any) -> Any:
    return getattr(part, "data", part)


def _plain(value: Any) -> Any:
    try:
        return plain_value(value)
    except InputError:
        return str(value)


# --- guarded copies

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


# --- the events of a stream, as rules read them


def chat(events: Iterable[Any]) -> list[dict[str, str]]:
    """Returns role and text of each message among the events."""
    return [message for event in events for message in _messages(event)]


def result_ids(events: Iterable[Any]) -> list[str]:
    """Returns the ids of the calls whose results are among the events."""
    return [one.parent_id for event in events for one in _results(event)]


def last_user_text(messages: Iterable[dict[str, str]]) -> str:
    """Returns the text of the user's last message; empty if there is none."""
    return next((one["content"] for one in reversed(list(messages)) if one["role"] == "user"), "")


def text_of(parts: Iterable[Any]) -> str:
    """Returns the text of inputs."""
    return "\n".join(one.content if isinstance(one, TextInput) else str(getattr(one, "data", one)) for one in parts)


def _messages(event: Any) -> Iterator[dict[str, str]]:
    if isinstance(event, ModelRequest):
        yield {"role": "user", "content": text_of(event.parts)}
    if isinstance(event, ModelResponse) and event.message is not None:
        yield {"role": "assistant", "content": event.message.content}
    for one in _results(event):
        yield {"role": "tool", "content": text_of(one.result.parts)}


def _results(event: Any) -> list[Any]:
    if isinstance(event, ToolResultsEvent):
        return list(event.results)
    return [event] if isinstance(event, ToolResultEvent) else []
