"""Judges and runs the calls of an agent's tools, and judges its final answers.

Arguments are bound to the tool's function, so that the judged ones are those that the function receives. The guarded
form of a tool takes the place of the tool in an agent's executor.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Collection, Mapping
from typing import Any

from crewai.lite_agent_output import LiteAgentOutput
from crewai.tasks.task_output import TaskOutput
from crewai.tools import BaseTool
from crewai.tools.base_tool import Tool
from crewai.tools.tool_failure import ToolFailure, ToolFailureReason
from crewai.utilities.string_utils import sanitize_tool_name
from pydantic import BaseModel, PrivateAttr, create_model

from guardagent._support.execution import Operation, Procedure, adrive, drive
from guardagent.enforcement import Outcome, ToolSpec, tool_arguments
from guardagent.enforcement.host_adapter import UNREAD, HostAdapter, ToolInvocation, answer_text, withheld
from guardagent.errors import InputError, ToolDenied, error_text
from guardagent.frameworks.crewai.adapter.runs import CrewScope, chat, outcome_of, outcome_of_error, result_ids, scope
from guardagent.types import Verdict

# --- arguments

_KINDS = (*tool_arguments.BY_NAME, inspect.Parameter.VAR_POSITIONAL)


def read_arguments(tool: BaseTool, unjudged: Collection[str] = ()) -> tool_arguments.ToolArguments:
    """Reads the declaration of a tool.

    Raises:
        InputError: it has no readable signature, an argument of a type that no rule can read, or no argument of a name
            in `unjudged`.
    """
    name, hidden = sanitize_tool_name(tool.name), frozenset(unjudged)
    function = tool.func if isinstance(tool, Tool) else tool._run  # noqa: SLF001 - the host's seam
    signature = tool_arguments.read_signature(function, name, kinds=_KINDS)
    named = {parameter.name for parameter in signature.parameters.values() if parameter.kind in tool_arguments.NAMED}
    fields = tool.args_schema.model_fields
    if odd := sorted(hidden - named - fields.keys()):
        raise InputError(f"{name!r} has no argument {odd[0]!r} to leave unjudged")
    declared = {argument: signature.parameters[argument].annotation for argument in named}
    declared |= {argument: field.annotation for argument, field in fields.items()}
    tool_arguments.refuse_opaque(name, declared, hidden, may_hide=True)
    free = not fields and tool_arguments.takes_any_name(signature)
    beyond = None if free else frozenset(named) - fields.keys() - hidden
    spec = ToolSpec(name, _schema(tool), tool.description, unlisted_arguments=beyond)
    return tool_arguments.ToolArguments(spec, signature, hidden)


def _schema(tool: BaseTool) -> dict[str, Any]:
    if not tool.args_schema.model_fields:
        return {}
    try:
        return dict(tool.args_schema.model_json_schema())
    except Exception:  # noqa: BLE001 - a type without a JSON schema; the host validates the arguments itself
        return {"type": "object", "properties": {argument: {} for argument in tool.args_schema.model_fields}}


# --- guarded tools

_NO_ARGUMENTS: type[BaseModel] = create_model("Unread")


class CrewTool(BaseTool):
    """Judges each call of a tool, and runs the tool with the judged arguments. Make it with `guarded_tool`."""

    _tool: BaseTool = PrivateAttr()
    _arguments: tool_arguments.ToolArguments = PrivateAttr()
    _adapter: HostAdapter[CrewScope] = PrivateAttr()

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        return drive(CrewInvocation(self._adapter, self, args, kwargs).answered())

    async def _arun(self, *args: Any, **kwargs: Any) -> Any:
        return await adrive(CrewInvocation(self._adapter, self, args, kwargs).answered())

    def format_output_for_agent(self, raw_result: Any) -> str:
        if isinstance(raw_result, ToolFailure):
            return str(raw_result.as_agent_message())
        return str(self._tool.format_output_for_agent(raw_result))

    @property
    def guardagent_arguments(self) -> tool_arguments.ToolArguments:
        """Reads the tool's arguments."""
        return self._arguments

    @property
    def guardagent_server(self) -> str | None:
        """The name of the MCP server that runs the tool; None for others."""
        return server_of(self._tool)

    def guarded_by(self, adapter: HostAdapter[CrewScope]) -> BaseTool:
        """Returns the tool itself if this adapter guards it; else this guarded form."""
        return self._tool if self._adapter is adapter else self

    def validated(self, args: dict[str, Any]) -> dict[str, Any]:
        """Returns arguments after the host's own validation, with its coercion and defaults."""
        return self._tool._validate_kwargs(args)  # type: ignore[no-any-return]  # noqa: SLF001 - the host's seam

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
        return tool_arguments.finished(self.name, asyncio.run(output) if inspect.iscoroutine(output) else output)

    async def _acall(self, args: Mapping[str, Any]) -> Any:
        overridden = type(self._tool)._arun not in (BaseTool._arun, Tool._arun)  # noqa: SLF001
        output = self._tool._arun(**args) if overridden else self._tool._run(**args)  # noqa: SLF001
        return tool_arguments.finished(self.name, await output if inspect.isawaitable(output) else output)


def guarded_tool(
    tool: BaseTool, arguments: tool_arguments.ToolArguments, adapter: HostAdapter[CrewScope], *, unread: bool
) -> CrewTool:
    """Returns the guarded form of a tool. The tool itself is not changed.

    Args:
        tool: the tool.
        arguments: reads its arguments.
        adapter: has the guard.
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
    made._tool, made._arguments, made._adapter = tool, arguments, adapter  # noqa: SLF001 - of this module
    return made


def server_of(tool: BaseTool) -> str | None:
    """Returns the name of the MCP server that runs a tool; None for others."""
    name = getattr(tool, "server_name", None)
    return name if isinstance(name, str) and hasattr(tool, "original_tool_name") else None


def never_cached(_args: Any = None, _result: Any = None) -> bool:
    """The cache function of guarded tools: a cached result would get past the guard."""
    return False


# --- calls


class CrewInvocation(ToolInvocation[CrewScope]):
    """One call of a tool.

    A denial and a tool's error are the host's `ToolFailure`, not exceptions: the host repeats a call that raised, up to
    five times, without a proposal of the model.
    """

    edits_run = True

    def __init__(
        self, adapter: HostAdapter[CrewScope], tool: CrewTool, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self.tool, self.arguments = tool, tool.guardagent_arguments
        self._args, self._kwargs = args, kwargs
        super().__init__(adapter, self.arguments.spec.name, adapter.around())

    def answered(self) -> Procedure[Any]:
        """Judges and runs the call. Returns the tool's output, or a failure."""
        try:
            call, args = yield from self.allowed()
        except ToolDenied as denied:
            self.tool.forget_use()
            details = {"decision": str(denied.verdict.decision.value), "rules": list(denied.verdict.rules)}
            return ToolFailure(message=str(denied), details=details)
        try:
            return (yield from self.run(call, self.tool.work(args)))
        except Exception as error:
            if self.around.run is None or self.around.run.executor is None:
                raise
            message, code = f"Error executing tool: {error_text(error)}", type(error).__name__
            return ToolFailure(message=message, reason=ToolFailureReason.EXCEPTION, code=code)

    def bind(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.arguments.bind(self._args, self._kwargs)

    def rebind(self, edited: Mapping[str, Any]) -> dict[str, Any]:
        fitted = self.tool.validated({**edited, **self.apart})
        return self.arguments.bind((), {**fitted, **self.apart})[0]

    def options(self) -> dict[str, Any]:
        around, run, options = self.around, self.around.run, super().options()
        if run is None or run.executor is None:
            return options
        options |= {"step": run.step, "agent": run.executor.agent.role.strip()}
        if around.call is None:
            messages, proposed = run.executor.state.messages, self.adapter.proposed(around)
            seen = [call_id for call_id in result_ids(messages) if call_id not in proposed]
            options |= {"messages": chat(messages), "seen": seen}
        return options

    def outcome(self, output: Any) -> Outcome:
        return outcome_of(output)

    def failure(self, error: BaseException) -> Outcome:
        return outcome_of_error(error, remote=self.tool.guardagent_server is not None)


# --- final answers


def denial(adapter: HostAdapter[CrewScope], request: str, *parts: Any) -> Verdict | None:
    """Returns the verdict that denies a run's final answer; None if the user may see it.

    Args:
        adapter: judges it.
        request: the user's text.
        parts: the answer's text and, if it has one, its structured form.
    """
    around = scope()
    if not adapter.guard.judges_answers or around is None or around.run is None or around.call is not None:
        return None  # the answer of an agent in a tool is for the agent that called it
    text = "\n".join(_text(part) for part in parts if part is not None)
    return None if around.run.may_show(text) else drive(adapter.answer_denial(around, request, text))


def judge_task(adapter: HostAdapter[CrewScope], output: TaskOutput) -> None:
    """Judges the output of a crew's last task, and takes a denied answer out of it."""
    structured = [part for part in (output.pydantic, output.json_dict) if part is not None]
    parts = [part for part in structured if _text(part) != output.raw]
    verdict = denial(adapter, output.description, output.raw, *parts)
    if verdict is not None:
        output.raw, output.pydantic, output.json_dict, output.messages = withheld(verdict), None, None, []


def judge_output(adapter: HostAdapter[CrewScope], request: str, output: LiteAgentOutput) -> LiteAgentOutput:
    """Returns the output of an agent's kickoff, without a denied answer."""
    structured = output.pydantic if _text(output.pydantic) != output.raw else None
    verdict = denial(adapter, request, output.raw, structured)
    if verdict is None:
        return output
    return LiteAgentOutput(raw=withheld(verdict), agent_role=output.agent_role, usage_metrics=output.usage_metrics)


def judge_result(adapter: HostAdapter[CrewScope], request: str, result: Any) -> Any:
    """Returns the result of a task that an agent ran without a guarded crew, or the reason why it is withheld."""
    verdict = denial(adapter, request, result)
    return result if verdict is None else withheld(verdict)


def _text(answer: Any) -> str:
    return str(answer.model_dump_json()) if hasattr(answer, "model_dump_json") else answer_text(answer)
