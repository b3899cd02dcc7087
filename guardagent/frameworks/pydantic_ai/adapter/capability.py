"""The guard's part in the life of a run: its capability, and its output types.

The output types tell the output functions, and whether the run may end with requests to reviewers.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from pydantic_ai import DeferredToolRequests, ModelRetry, NativeOutput, PromptedOutput, TextOutput, ToolOutput
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.messages import ModelResponse, TextPart

from guardagent._support.execution import adrive
from guardagent.enforcement import ToolSpec, make_ids_unique
from guardagent.enforcement.host_adapter import HostAdapter, withheld
from guardagent.enforcement.host_runs import awaited
from guardagent.errors import ToolDenied
from guardagent.frameworks.pydantic_ai.adapter.approvals import GuardedModel, denial, forget_answer, record_rejections
from guardagent.frameworks.pydantic_ai.adapter.calls import (
    PydanticArguments,
    PydanticInvocation,
    drive_call,
    parameters_of,
)
from guardagent.frameworks.pydantic_ai.adapter.runs import AgentRunEnded, PydanticRun, PydanticScope

# --- output types

_WRAPPERS = {ToolOutput: "output", TextOutput: "output_function", NativeOutput: "outputs", PromptedOutput: "outputs"}


def may_wait(output_type: Any) -> bool:
    """Whether a run with this output type may end with requests to reviewers."""
    return any(member is DeferredToolRequests for member in _members(output_type))


def output_functions(output_type: Any) -> Mapping[str, Any]:
    """Returns the output functions by name."""
    members = [member for member in _members(output_type) if inspect.isroutine(member)]
    return {member.__name__: member for member in members}


def named_arguments(function: Any, output: Any) -> dict[str, Any]:
    """Returns the arguments of an output function by name, from what the host passes on."""
    names = [parameter.name for parameter in parameters_of(function)] if function is not None else ["output"]
    if isinstance(output, Mapping) and set(output) <= set(names):
        return dict(output)
    return {names[0] if names else "output": output}


def passed_on(output: Any, named: Mapping[str, Any], args: Mapping[str, Any]) -> Any:
    """Returns judged arguments in the form in which the host passes them on.

    Args:
        output: the host's form.
        named: its arguments by name.
        args: the judged ones.
    """
    if isinstance(output, Mapping) and set(named) == set(output):
        return dict(args)
    (name,) = named
    return args[name]


def _members(output_type: Any) -> Iterator[Any]:
    for kind, name in _WRAPPERS.items():
        if isinstance(output_type, kind):
            output_type = getattr(output_type, name)
    if isinstance(output_type, Sequence) and not isinstance(output_type, str):
        members: Sequence[Any] = output_type
    else:
        members = () if isinstance(output_type, type) else get_args(output_type)
    if not members:
        yield output_type
    for member in members:
        yield from _members(member)


# --- the capability

PARTS = (
    "get_ordering",
    "get_wrapper_model",
    "before_run",
    "wrap_model_request",
    "after_tool_validate",
    "wrap_output_process",
    "handle_deferred_tool_calls",
)
_PARTIAL = "the guard judges the whole output"


class GuardCapability(AbstractCapability[Any]):
    """Follows a run: its messages, its requests to the model, and its output.

    Args:
        adapter: judges.
        run: the run.
        arguments: the arguments of the run's tools.
        unguarded: the provider's tools that may run.
    """

    def __init__(
        self,
        adapter: HostAdapter[PydanticScope],
        run: PydanticRun,
        arguments: dict[str, PydanticArguments],
        unguarded: Collection[str],
    ) -> None:
        self.adapter, self.guard = adapter, adapter.guard
        self.run, self.arguments, self._unguarded = run, arguments, unguarded

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="outermost")

    def get_wrapper_model(self, model: Any) -> Any:
        return GuardedModel(model, self.adapter, self.run, self._unguarded)

    async def before_run(self, ctx: Any) -> None:
        self.run.read(ctx)
        own = AbstractCapability.handle_deferred_tool_calls
        handled = any(
            type(capability).handle_deferred_tool_calls is not own for capability in ctx.capabilities.values()
        )
        self.run.waits = self.run.waits or handled
        if self.run.call is None and self.run.conversation:
            self.guard.turn(self.run.conversation)
        await record_rejections(self.guard, self.run)

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> ModelResponse:
        """Asks the model, unless the guard has ended the run."""
        run = self.run
        run.read(ctx)
        run.step += 1
        if run.halted is not None:
            raise run.halted
        if run.final is not None:
            return self._last_words(request_context.model_request_parameters)
        proposed = self.adapter.proposed(run.around())
        run.outputs = {tool.name for tool in request_context.model_request_parameters.output_tools}
        run.show(request_context.messages, proposed, run.outputs)
        response: ModelResponse = await handler(request_context)
        proposed.update(make_ids_unique(response.tool_calls, "tool_call_id"))
        return response

    def _last_words(self, parameters: Any) -> ModelResponse:
        verdict, text = self.run.gave_up, self.run.final or ""
        assert verdict is not None
        if not (parameters.allow_text_output and parameters.output_mode in ("text", "tool")):
            raise AgentRunEnded("", verdict)
        return ModelResponse(parts=[TextPart(text)])

    async def after_tool_validate(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        """Judges a call whose tool requires approval, and shows the reviewer the guard's request."""
        if tool_def.kind == "unapproved" and not ctx.tool_call_approved and self.run.waits:
            known = self.arguments.get(call.tool_name)
            spec = ToolSpec(call.tool_name, tool_def.parameters_json_schema, tool_def.description or "")
            arguments = known or PydanticArguments(spec)
            await drive_call(self.run, PydanticInvocation(self.adapter, self.run, arguments, args, ctx).ask_first())
        return args

    async def wrap_output_process(self, ctx: Any, *, output_context: Any, output: Any, handler: Any) -> Any:
        """Judges the call of an output function, and the answer."""
        judges = self.guard.judges_answers and self.run.call is None
        if ctx.partial_output and (judges or output_context.has_function):
            raise ModelRetry(_PARTIAL)  # the host leaves out a partial output that is not valid
        try:
            result = await self._processed(ctx, output_context, output, handler)
            verdict = await denial(self.adapter, self.run, result)
        except ToolDenied as denied:
            if denied is self.run.halted:
                raise
            raise ModelRetry(str(denied)) from None
        if verdict is None:
            return result
        text = withheld(verdict)
        forget_answer(ctx.messages, text)
        if isinstance(result, str) and output_context.allows_text:
            return text
        raise ModelRetry(text)

    async def _processed(self, ctx: Any, output_context: Any, output: Any, handler: Any) -> Any:
        if not output_context.has_function:
            return await handler(output)
        call = output_context.tool_call
        name = output_context.function_name or (call.tool_name if call is not None else "output")
        function = self.run.functions.get(name)
        named = named_arguments(function, output)

        if call is not None and ctx.tool_call_id is None:
            ctx = replace(ctx, tool_call_id=call.tool_call_id)
        parameters = parameters_of(function) if function is not None else []
        defaults = {
            parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty
        }
        arguments = PydanticArguments(ToolSpec(name), defaults=defaults if isinstance(output, dict) else {})
        invocation = PydanticInvocation(self.adapter, self.run, arguments, named, ctx)
        try:
            return await adrive(invocation.steps(lambda args: awaited(lambda: handler(passed_on(output, named, args)))))
        except ToolDenied as denied:
            self.run.note(denied.tool, denied.verdict)
            raise (self.run.halted or denied) from None
