"""Judges and runs the calls of an agent's tools, and judges its final answers.

Arguments are bound to the tool's function, so that the judged ones are those that the function receives. The guarded
form of a tool takes the place of the tool in an agent's executor.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from crewai.lite_agent_output import LiteAgentOutput
from crewai.tasks.task_output import TaskOutput
from crewai.tools import BaseTool
from crewai.tools.base_tool import Tool
from crewai.tools.tool_failure import ToolFailure, ToolFailureReason
from crewai.utilities.string_utils import sanitize_tool_name
from pydantic import BaseModel, PrivateAttr, create_model

from guardagent._support.execution import Operation, Procedure, adrive, drive
from guardagent.enforcement import EnforcementPoint, HostCall, ToolSpec
from guardagent.enforcement.calls import plain_arguments, plain_value
from guardagent.enforcement.hosts import (
    BY_NAME,
    NAMED,
    UNREAD,
    as_judged,
    bound_by_name,
    copied_values,
    finished,
    noted_denial,
    proposed_ids,
    read_signature,
    refuse_opaque,
    takes_any_name,
    withheld,
)
from guardagent.errors import InputError, ToolDenied, error_text
from guardagent.frameworks.crewai.adapter.runs import (
    SURROUNDINGS,
    UNNAMED,
    CrewScope,
    chat,
    outcome_of,
    outcome_of_error,
    result_ids,
    scope,
)
from guardagent.types import Verdict

# --- arguments

_KINDS = (*BY_NAME, inspect.Parameter.VAR_POSITIONAL)


@dataclass(frozen=True, slots=True)
class CrewArguments:
    """Reads the arguments of a tool.

    Attributes:
        spec: the tool's declaration, under the name that the model knows.
        signature: of its function.
        validate: the host's own validation, with its coercion and defaults.
        unjudged: arguments that are passed on unchanged, and neither judged nor logged.
    """

    spec: ToolSpec
    signature: inspect.Signature
    validate: Callable[[dict[str, Any]], dict[str, Any]]
    unjudged: frozenset[str] = frozenset()

    @classmethod
    def of(cls, tool: BaseTool, unjudged: Collection[str] = ()) -> CrewArguments:
        """Reads the declaration of a tool.

        Raises:
            InputError: it has no readable signature, an argument of a type that no rule can read, or no argument of a
                name in `unjudged`.
        """
        name, hidden = sanitize_tool_name(tool.name), frozenset(unjudged)
        function = tool.func if isinstance(tool, Tool) else tool._run  # noqa: SLF001 - the host's seam
        signature = read_signature(function, name, kinds=_KINDS)
        named = {one.name for one in signature.parameters.values() if one.kind in NAMED}
        fields = tool.args_schema.model_fields
        if odd := sorted(hidden - named - fields.keys()):
            raise InputError(f"{name!r} has no argument {odd[0]!r} to leave unjudged")
        declared = {one: signature.parameters[one].annotation for one in named}
        declared |= {one: fields[one].annotation for one in fields}
        refuse_opaque(name, declared, hidden, may_hide=True)
        free = not fields and takes_any_name(signature)
        beyond = None if free else frozenset(named) - fields.keys() - hidden
        spec = ToolSpec(name, _schema(tool), tool.description, unlisted_arguments=beyond)
        return cls(spec, signature, tool._validate_kwargs, hidden)  # noqa: SLF001 - the host's seam

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns copies of the arguments that the tool will get, with defaults, and the unjudged ones.

        Raises:
            InputError: they do not fit the tool, or one cannot be judged.
        """
        named = bound_by_name(self.signature, args, kwargs, self.spec.name)
        apart = {name: named.pop(name) for name in self.unjudged & named.keys()}
        return copied_values(named), apart


def _schema(tool: BaseTool) -> dict[str, Any]:
    if not tool.args_schema.model_fields:
        return {}
    try:
        return dict(tool.args_schema.model_json_schema())
    except Exception:  # noqa: BLE001 - a type without a JSON schema; the host validates the arguments itself
        return {"type": "object", "properties": {one: {} for one in tool.args_schema.model_fields}}


# --- guarded tools

_NO_ARGUMENTS: type[BaseModel] = create_model("Unread")


class CrewInvoker(Protocol):
    """Judges and runs the calls of tools, in both forms."""

    def invoke(self, tool: CrewTool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any: ...

    async def ainvoke(self, tool: CrewTool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any: ...


class CrewTool(BaseTool):
    """Judges each call of a tool, and runs the tool with the judged arguments. Make it with `guarded_tool`."""

    _tool: BaseTool = PrivateAttr()
    _arguments: CrewArguments = PrivateAttr()
    _invoker: CrewInvoker = PrivateAttr()

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        return self._invoker.invoke(self, args, kwargs)

    async def _arun(self, *args: Any, **kwargs: Any) -> Any:
        return await self._invoker.ainvoke(self, args, kwargs)

    def format_output_for_agent(self, raw_result: Any) -> str:
        if isinstance(raw_result, ToolFailure):
            return str(raw_result.as_agent_message())
        return str(self._tool.format_output_for_agent(raw_result))

    @property
    def guardagent_arguments(self) -> CrewArguments:
        """Reads the tool's arguments."""
        return self._arguments

    @property
    def guardagent_server(self) -> str | None:
        """The name of the MCP server that runs the tool; None for others."""
        return server_of(self._tool)

    def guarded_by(self, invoker: CrewInvoker) -> BaseTool:
        """Returns the tool itself if this invoker guards it; else this guarded form."""
        return self._tool if self._invoker is invoker else self

    def forget_use(self) -> None:
        """Takes a denied call out of the count of uses, as far as the host counts here."""
        counted: Any = self
        with self._usage_lock:
            counted.current_usage_count = max(0, counted.current_usage_count - 1)

    def work(self, args: Mapping[str, Any]) -> Operation:
        """Returns the work of the tool with these arguments."""
        return Operation(lambda: self._call(args), lambda: self._acall(args))

    def _call(self, args: Mapping[str, Any]) -> Any:
        output = self._tool._run(**args)  # noqa: SLF001 - as the host calls it
        return finished(self.name, asyncio.run(output) if inspect.iscoroutine(output) else output)

    async def _acall(self, args: Mapping[str, Any]) -> Any:
        overridden = type(self._tool)._arun not in (BaseTool._arun, Tool._arun)  # noqa: SLF001
        output = self._tool._arun(**args) if overridden else self._tool._run(**args)  # noqa: SLF001
        return finished(self.name, await output if inspect.isawaitable(output) else output)


def guarded_tool(tool: BaseTool, arguments: CrewArguments, invoker: CrewInvoker, *, unread: bool) -> CrewTool:
    """Returns the guarded form of a tool. The tool itself is not changed.

    Args:
        tool: the tool.
        arguments: reads its arguments.
        invoker: judges and runs.
        unread: whether its server has added or changed it since the operator accepted it.
    """
    made = CrewTool(
        name=tool.name,
        description=UNREAD if unread else tool.description,
        args_schema=_NO_ARGUMENTS if unread else tool.args_schema,
        result_schema=tool.result_schema,
        cache_function=never_cached,
        result_as_answer=tool.result_as_answer,
        max_usage_count=tool.max_usage_count,
        tool_failure_policy=tool.tool_failure_policy,
    )
    made._tool, made._arguments, made._invoker = tool, arguments, invoker  # noqa: SLF001 - of this module
    return made


def server_of(tool: BaseTool) -> str | None:
    """Returns the name of the MCP server that runs a tool; None for others."""
    name = getattr(tool, "server_name", None)
    return name if isinstance(name, str) and hasattr(tool, "original_tool_name") else None


def never_cached(_args: Any = None, _result: Any = None) -> bool:
    """The cache function of guarded tools: a cached result would get past the guard."""
    return False


# --- calls


class CrewCalls:
    """Judges and runs calls.

    A denial and a tool's error are the host's `ToolFailure`, not exceptions: the host repeats a call that raised, up to
    five times, without a proposal of the model.

    Args:
        guard: decides.
        named: returns the operator's name of the conversation.
    """

    def __init__(self, guard: EnforcementPoint, named: Callable[[], str | None]) -> None:
        self.guard, self._named = guard, named

    def invoke(self, tool: CrewTool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return drive(self._steps(tool, args, kwargs))

    async def ainvoke(self, tool: CrewTool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return await adrive(self._steps(tool, args, kwargs))

    def _steps(self, tool: CrewTool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Procedure[Any]:
        around = scope() or CrewScope(self._named())
        arguments, life = tool.guardagent_arguments, self.guard.lifecycle
        try:
            own, apart = arguments.bind(args, kwargs)
            plain = plain_arguments(own)
            proposed = self._call(arguments, plain, around, _validation(arguments, apart))
        except InputError as error:
            verdict = yield from life.refuse(self._call(arguments, {}, around), str(error))
            return self._failure(ToolDenied(arguments.spec.name, verdict), around, tool)
        try:
            call, judged = yield from life.authorize(proposed)
        except ToolDenied as denied:
            return self._failure(denied, around, tool)
        inside = replace(around, conversation=call.conversation, call=call, tool_id=None)
        live = own if call is proposed else as_judged(judged, own, plain)
        work = SURROUNDINGS.within(inside, tool.work({**live, **apart}))
        remote = tool.guardagent_server is not None
        try:
            return (yield from life.execute(call, work, outcome_of, lambda one: outcome_of_error(one, remote=remote)))
        except Exception as error:
            if around.run is None or around.run.executor is None:
                raise
            return _failed(error)

    def _call(
        self, arguments: CrewArguments, args: Mapping[str, Any], around: CrewScope, validate_edit: Any = None
    ) -> HostCall:
        run, options = around.run, {"validate_edit": validate_edit}
        executor = run.executor if run is not None else None
        if run is not None and executor is not None:
            options |= {"step": run.step, "agent": executor.agent.role.strip()}
        if executor is not None and around.call is None:
            messages = executor.state.messages
            proposed = proposed_ids(self.guard, around.conversation)
            seen = [one for one in result_ids(messages) if one not in proposed]
            options |= {"messages": chat(messages), "seen": seen}
        if around.tool_id is not None:
            options["id"] = around.tool_id
        return HostCall(arguments.spec.name, args, around.conversation, **options)

    def _failure(self, denied: ToolDenied, around: CrewScope, tool: CrewTool) -> ToolFailure:
        """Returns a denial in the host's form."""
        tool.forget_use()
        denied = noted_denial(denied, around, UNNAMED)
        details = {"decision": str(denied.verdict.decision.value), "rules": list(denied.verdict.rules)}
        return ToolFailure(message=str(denied), details=details)


def _failed(error: Exception) -> ToolFailure:
    """Returns a tool's error in the host's form."""
    message, code = f"Error executing tool: {error_text(error)}", type(error).__name__
    return ToolFailure(message=message, reason=ToolFailureReason.EXCEPTION, code=code)


def _validation(arguments: CrewArguments, apart: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Returns what turns a reviewer's edits into the arguments that the tool would get."""

    def validated(edited: Mapping[str, Any]) -> Mapping[str, Any]:
        fitted = arguments.validate({**edited, **apart})
        return plain_arguments(arguments.bind((), {**fitted, **apart})[0])

    return validated


# --- final answers


def denial(guard: EnforcementPoint, request: str, *parts: Any) -> Verdict | None:
    """Returns the verdict that denies a run's final answer; None if the user may see it.

    Args:
        guard: judges it.
        request: the user's text.
        parts: the answer's text and, if it has one, its structured form.
    """
    around = scope()
    if not guard.judges_answers or around is None or around.run is None or around.call is not None:
        return None  # the answer of an agent in a tool is for the agent that called it
    run, text = around.run, "\n".join(answer_text(one) for one in parts if one is not None)
    if text in run.passed or (run.final is not None and text == run.final):
        return None
    verdict = guard.answer(around.conversation or "", request, text)
    run.passed.update([withheld(verdict)] if verdict.label else [text])
    if verdict.label:
        run.note("answer", verdict)
        if run.halted is not None:
            raise run.halted
    return verdict if verdict.label else None


def judge_task(guard: EnforcementPoint, output: TaskOutput) -> None:
    """Judges the output of a crew's last task, and takes a denied answer out of it."""
    structured = [one for one in (output.pydantic, output.json_dict) if one is not None]
    parts = [one for one in structured if answer_text(one) != output.raw]
    verdict = denial(guard, output.description, output.raw, *parts)
    if verdict is not None:
        output.raw, output.pydantic, output.json_dict, output.messages = withheld(verdict), None, None, []


def judge_output(guard: EnforcementPoint, request: str, output: LiteAgentOutput) -> LiteAgentOutput:
    """Returns the output of an agent's kickoff, without a denied answer."""
    structured = output.pydantic if answer_text(output.pydantic) != output.raw else None
    verdict = denial(guard, request, output.raw, structured)
    if verdict is None:
        return output
    return LiteAgentOutput(raw=withheld(verdict), agent_role=output.agent_role, usage_metrics=output.usage_metrics)


def judge_result(guard: EnforcementPoint, request: str, result: Any) -> Any:
    """Returns the result of a task that an agent ran without a guarded crew, or the reason why it is withheld."""
    verdict = denial(guard, request, result)
    return result if verdict is None else withheld(verdict)


def answer_text(answer: Any) -> str:
    """Returns an answer as rules read it."""
    if isinstance(answer, str):
        return str.__str__(answer)
    if hasattr(answer, "model_dump_json"):
        return str(answer.model_dump_json())
    try:
        return json.dumps(plain_value(answer), ensure_ascii=False, default=str)
    except (InputError, TypeError, ValueError):
        return str(answer)
