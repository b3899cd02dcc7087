"""The guard's part in the life of a run, as a capability that each run gets."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from pydantic_ai import ModelRetry
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.messages import ModelResponse, TextPart

from guardagent.enforcement import EnforcementPoint, ToolSpec
from guardagent.enforcement.hosts import withheld
from guardagent.errors import ToolDenied
from guardagent.frameworks.pydantic_ai.adapter.answers import GuardedModel, denial, forget_answer, pass_text
from guardagent.frameworks.pydantic_ai.adapter.arguments import PydanticArguments, parameters_of
from guardagent.frameworks.pydantic_ai.adapter.calls import PydanticCalls
from guardagent.frameworks.pydantic_ai.adapter.messages import chat, result_ids
from guardagent.frameworks.pydantic_ai.adapter.outputs import named_arguments, passed_on
from guardagent.frameworks.pydantic_ai.adapter.runs import AgentRunEnded, PydanticRun

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
        calls: judges calls.
        run: the run.
        arguments: the arguments of the run's tools.
        unguarded: the provider's tools that may run.
    """

    def __init__(
        self,
        calls: PydanticCalls,
        run: PydanticRun,
        arguments: dict[str, PydanticArguments],
        unguarded: Collection[str],
    ) -> None:
        self.calls, self.run, self.arguments, self._unguarded = calls, run, arguments, unguarded

    @property
    def guard(self) -> EnforcementPoint:
        return self.calls.guard

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="outermost")

    def get_wrapper_model(self, model: Any) -> Any:
        return GuardedModel(model, self.guard, self.run, self._unguarded)

    async def before_run(self, ctx: Any) -> None:
        self.run.read(ctx)
        own = AbstractCapability.handle_deferred_tool_calls
        handled = any(type(one).handle_deferred_tool_calls is not own for one in ctx.capabilities.values())
        self.run.waits = self.run.waits or handled
        if self.run.call is None and self.run.conversation:
            self.guard.turn(self.run.conversation)
        await self.calls.reject(self.run)

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> ModelResponse:
        """Asks the model, unless the guard has ended the run."""
        run = self.run
        run.read(ctx)
        run.step += 1
        if run.halted is not None:
            raise run.halted
        if run.final is not None:
            return self._last_words(request_context.model_request_parameters)
        proposed = run.proposed(self.guard)
        outputs = {one.name for one in request_context.model_request_parameters.output_tools}
        run.messages = chat(request_context.messages)
        run.seen = [one for one in result_ids(request_context.messages, outputs) if one not in proposed]
        response: ModelResponse = await handler(request_context)
        proposed.update(one.tool_call_id for one in response.tool_calls)
        return response

    def _last_words(self, parameters: Any) -> ModelResponse:
        verdict, text = self.run.gave_up, self.run.final or ""
        assert verdict is not None
        if not (parameters.allow_text_output and parameters.output_mode in ("text", "tool")):
            raise AgentRunEnded("", verdict)
        pass_text(self.run, text)
        return ModelResponse(parts=[TextPart(text)])

    async def after_tool_validate(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        """Judges a call whose tool requires approval, and shows the reviewer the guard's request."""
        if tool_def.kind == "unapproved" and not ctx.tool_call_approved and self.run.waits:
            known = self.arguments.get(call.tool_name)
            spec = ToolSpec(call.tool_name, tool_def.parameters_json_schema, tool_def.description or "")
            await self.calls.ask_first(self.run, known or PydanticArguments(spec), args, ctx)
        return args

    async def wrap_output_process(self, ctx: Any, *, output_context: Any, output: Any, handler: Any) -> Any:
        """Judges the call of an output function, and the answer."""
        judges = self.guard.judges_answers and self.run.call is None
        if ctx.partial_output and (judges or output_context.has_function):
            raise ModelRetry(_PARTIAL)  # the host leaves out a partial output that is not valid
        try:
            result = await self._processed(ctx, output_context, output, handler)
            verdict = await denial(self.guard, self.run, result)
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

        async def work(args: dict[str, Any]) -> Any:
            return await handler(passed_on(output, named, args))

        if call is not None and ctx.tool_call_id is None:
            ctx = replace(ctx, tool_call_id=call.tool_call_id)
        parameters = parameters_of(function) if function is not None else []
        defaults = {one.name: one.default for one in parameters if one.default is not one.empty}
        arguments = PydanticArguments(ToolSpec(name), defaults=defaults if isinstance(output, dict) else {})
        return await self.calls.invoke_output(self.run, arguments, named, ctx, work)
