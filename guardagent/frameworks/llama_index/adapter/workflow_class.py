"""The class of a guarded agent or workflow: a subclass of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from llama_index.core.agent.workflow.workflow_events import (
    AgentInput,
    AgentOutput,
    AgentSetup,
    ToolCall,
    ToolCallResult,
)
from llama_index.core.llms import ChatMessage
from llama_index.core.workflow import Context, StopEvent, step

from guardagent.frameworks.llama_index.adapter.answers import HoldingContext, denial, without_answer, without_result
from guardagent.frameworks.llama_index.adapter.calls import HANDOFF
from guardagent.frameworks.llama_index.adapter.messages import chat, result_ids
from guardagent.frameworks.llama_index.adapter.runs import LlamaRun, LlamaScope, enter, scope

ATTACHMENT = "guardagent_attachment"
PARTS = (
    "run",
    "get_tools",
    "call_tool",
    "_call_tool",
    "run_agent_step",
    "parse_agent_output",
    "aggregate_tool_results",
)


@cache
def guarded_class(base: Any) -> Any:
    """Returns the class of an agent or workflow with a guard."""
    return type(base)(base.__name__, (_GuardedWorkflow, base), {"__module__": base.__module__})


class _GuardedWorkflow:
    """Runs in a conversation, with guarded tools, and ends when its guard ends the run."""

    def run(self, *args: Any, **kwargs: Any) -> Any:
        memory = kwargs.get("memory") or (args[2] if len(args) > 2 else None)
        with enter(_attachment(self).begin(memory)):  # the tasks of the run inherit it
            return super().run(*args, **kwargs)  # type: ignore[misc]

    async def get_tools(self, *args: Any, **kwargs: Any) -> Sequence[Any]:
        attachment = _attachment(self)
        tools: list[Any] = attachment.tools(await super().get_tools(*args, **kwargs))  # type: ignore[misc]
        attachment.check_tools()
        return tools

    @step
    async def run_agent_step(self, ctx: Context, ev: AgentSetup) -> AgentOutput:
        attachment, (around, run) = _attachment(self), _surroundings()
        run.step, run.messages = run.step + 1, chat(ev.input)
        proposed = attachment.proposed(around)
        run.seen = [one for one in result_ids(ev.input) if one not in proposed]
        if not attachment.guard.judges_answers or around.call is not None:
            return await super().run_agent_step(ctx, ev)  # type: ignore[misc]
        held = HoldingContext(ctx)
        output = await super().run_agent_step(held, ev)  # type: ignore[misc]
        final = not (output.tool_calls or output.retry_messages)
        verdict = await denial(attachment.guard, output.response.content or "") if final else None
        if verdict is not None:
            output = without_answer(output, verdict)
            await _forget_answer(ctx, _agent(self, output), output.response)
        held.release(withheld=output if verdict is not None else None)
        return output

    @step
    async def parse_agent_output(self, ctx: Context, ev: AgentOutput) -> StopEvent | AgentInput | ToolCall | None:
        attachment, (around, run) = _attachment(self), _surroundings()
        attachment.proposed(around).update(one.tool_id for one in ev.tool_calls)
        if not attachment.guard.judges_answers or around.call is not None:
            return await super().parse_agent_output(ctx, ev)  # type: ignore[misc]
        held = HoldingContext(ctx)
        result = await super().parse_agent_output(held, ev)  # type: ignore[misc]
        verdict = None
        if isinstance(result, StopEvent):
            text, structured = result.result.response.content or "", result.result.structured_response
            parts = [*([] if text in run.passed else [text]), *([] if structured is None else [structured])]
            verdict = await denial(attachment.guard, *parts) if parts else None
        if verdict is not None:
            without_answer(result.result, verdict)
            await _forget_message(ctx, result.result.response)
        held.release(withheld=result.result if verdict is not None else None)
        return result

    @step
    async def call_tool(self, ctx: Context, ev: ToolCall) -> ToolCallResult:
        around, _ = _surroundings()
        agent = getattr(self, "name", None) or await ctx.store.get("current_agent_name", default=None)
        with enter(replace(around, ctx=ctx, tool_id=ev.tool_id, agent=agent)):
            return await super().call_tool(ctx, ev)  # type: ignore[misc]

    async def _call_tool(self, ctx: Any, tool: Any, tool_input: dict[str, Any]) -> Any:
        """Calls a tool. If its output would be the answer, it is judged before it is an event of the stream."""
        result = await super()._call_tool(ctx, tool, tool_input)  # type: ignore[misc]
        if not tool.metadata.return_direct or tool.metadata.name == HANDOFF or result.is_error:
            return result
        verdict = await denial(_attachment(self).guard, result.content)
        return result if verdict is None else without_result(result, verdict)

    @step
    async def aggregate_tool_results(self, ctx: Context, ev: ToolCallResult) -> AgentInput | StopEvent | None:
        result = await super().aggregate_tool_results(ctx, ev)  # type: ignore[misc]
        _, run = _surroundings()
        if run.halted is not None:
            raise run.halted
        if result is None or run.final is None or isinstance(result, StopEvent):
            return result
        agent, memory = self._current_agent(result), await ctx.store.get("memory")
        message = ChatMessage(role="assistant", content=run.final)
        output = AgentOutput(response=message, tool_calls=[], current_agent_name=agent.name)
        output = await agent.finalize(ctx, output, memory)
        await memory.aput(message)
        await ctx.store.set("current_tool_calls", [])
        return StopEvent(result=output)

    def _current_agent(self, event: Any) -> Any:
        return _agent(self, event)


def _attachment(workflow: Any) -> Any:
    return vars(workflow)[ATTACHMENT]


def _surroundings() -> tuple[LlamaScope, LlamaRun]:
    around = scope() or LlamaScope(None)
    return around, around.run or LlamaRun()


def _agent(workflow: Any, event: Any) -> Any:
    agents = getattr(workflow, "agents", None)
    return agents[event.current_agent_name] if isinstance(agents, dict) else workflow


async def _forget_answer(ctx: Any, agent: Any, instead: ChatMessage) -> None:
    """Replaces a denied answer in what the agent puts into its memory at the end."""
    pad_key, reasoning_key = getattr(agent, "scratchpad_key", None), getattr(agent, "reasoning_key", None)
    if pad_key is not None and (pad := await ctx.store.get(pad_key, default=[])):
        await ctx.store.set(pad_key, [*pad[:-1], instead])
    if reasoning_key is not None:
        await ctx.store.set(reasoning_key, [])


async def _forget_message(ctx: Any, instead: ChatMessage) -> None:
    """Replaces a denied answer in the memory."""
    memory = await ctx.store.get("memory")
    messages = await memory.aget_all()
    if messages and str(getattr(messages[-1].role, "value", messages[-1].role)) == "assistant":
        await memory.aset([*messages[:-1], instead])
