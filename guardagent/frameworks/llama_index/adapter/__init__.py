"""LlamaIndex: `agent = guarded(agent, guard)`.

    guarded(agent, guard)       tools, MCP tools and hand-offs of an agent, or of an AgentWorkflow
    conversation(id)            names the conversation of the runs inside it
    answer(ctx, event, decision)    a reviewer's answer to an InputRequiredEvent of the guard
    WorkflowHalted              raised by a run when a rule halts it

Extra: `guardagent[llama-index]`.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from guardagent._support.requirements import require, require_parts, warn_untried
from guardagent.frameworks.llama_index.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA)
warn_untried(TRIED)

from llama_index.core.agent.workflow import AgentWorkflow, BaseWorkflowAgent
from llama_index.core.agent.workflow.workflow_events import (
    AgentInput,
    AgentOutput,
    AgentSetup,
    ToolCall,
    ToolCallResult,
)
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool, ToolMetadata
from llama_index.core.workflow import Context, StopEvent, step

from guardagent.enforcement import EnforcementPoint, ToolSpec
from guardagent.enforcement.host_adapter import UNREAD, HostAdapter, unaccepted_names
from guardagent.enforcement.host_runs import Named
from guardagent.errors import InputError
from guardagent.frameworks.llama_index.adapter.calls import (
    HANDOFF,
    SURROUNDINGS,
    UNNAMED,
    HoldingContext,
    LlamaRun,
    LlamaScope,
    WorkflowHalted,
    answer,
    chat,
    conversation,
    denial,
    enter,
    guarded_tool,
    read_arguments,
    result_ids,
    scope,
    with_unique_ids,
    without_answer,
    without_result,
)

__all__ = ["WorkflowHalted", "answer", "conversation", "guarded"]


# --- MCP servers


def server_of(tool: Any) -> str | None:
    """Returns the key of the server of an MCP tool; None for other tools.

    `McpToolSpec` makes each tool of a function that holds it, and it holds the client.
    """
    if not isinstance(tool, FunctionTool) or not inspect.isfunction(tool.real_fn):
        return None
    owner = inspect.getclosurevars(tool.real_fn).nonlocals.get("self")
    client = getattr(owner, "client", None)
    if client is None or not hasattr(client, "call_tool"):
        return None
    address = [getattr(client, name, None) for name in ("command_or_url", "args")]
    shown = type(client).__name__ if address == [None, None] else str(address[0])
    return f"{shown} ({hashlib.sha256(repr(address).encode()).hexdigest()[:8]})"


def update_servers(guard: EnforcementPoint, tools: Iterable[Any], specs: dict[str, ToolSpec]) -> set[str]:
    """Compares the tools of servers with the accepted ones. Returns the names of those that may not be called.

    Args:
        guard: holds the accepted tools.
        tools: the agent's, before they are guarded.
        specs: their declarations by name.
    """
    servers: dict[str, list[ToolSpec]] = {}
    for tool in tools:
        if (server := server_of(tool)) is not None:
            servers.setdefault(server, []).append(specs[tool.metadata.get_name()])
    return unaccepted_names(guard, servers)


# --- guarded agents and workflows

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
        with enter(_attachment(self).begin_run(memory)):  # the tasks of the run inherit it
            return super().run(*args, **kwargs)  # type: ignore[misc]

    async def get_tools(self, *args: Any, **kwargs: Any) -> Sequence[Any]:
        attachment = _attachment(self)
        tools: list[Any] = attachment.tools(await super().get_tools(*args, **kwargs))  # type: ignore[misc]
        attachment.listed.check()
        return tools

    @step
    async def run_agent_step(self, ctx: Context, ev: AgentSetup) -> AgentOutput:
        attachment, (around, run) = _attachment(self), _surroundings()
        run.step, run.messages = run.step + 1, chat(ev.input)
        proposed = attachment.proposed(around)
        run.seen = [result_id for result_id in result_ids(ev.input) if result_id not in proposed]
        if not attachment.guard.judges_answers or around.call is not None:
            return with_unique_ids(await super().run_agent_step(ctx, ev))  # type: ignore[misc]
        held = HoldingContext(ctx)
        output = with_unique_ids(await super().run_agent_step(held, ev))  # type: ignore[misc]
        final = not (output.tool_calls or output.retry_messages)
        verdict = await denial(attachment, output.response.content or "") if final else None
        if verdict is not None:
            output = without_answer(output, verdict)
            await _forget_answer(ctx, _agent(self, output), output.response)
        held.release(withheld=output if verdict is not None else None)
        return output

    @step
    async def parse_agent_output(self, ctx: Context, ev: AgentOutput) -> StopEvent | AgentInput | ToolCall | None:
        attachment, (around, run) = _attachment(self), _surroundings()
        attachment.proposed(around).update(tool_call.tool_id for tool_call in ev.tool_calls)
        if not attachment.guard.judges_answers or around.call is not None:
            return await super().parse_agent_output(ctx, ev)  # type: ignore[misc]
        held = HoldingContext(ctx)
        result = await super().parse_agent_output(held, ev)  # type: ignore[misc]
        verdict = None
        if isinstance(result, StopEvent):
            text, structured = result.result.response.content or "", result.result.structured_response
            parts = [*([] if text in run.passed else [text]), *([] if structured is None else [structured])]
            verdict = await denial(attachment, *parts) if parts else None
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
        verdict = await denial(_attachment(self), result.content)
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


# --- attaching

AnyAgent = TypeVar("AnyAgent", bound=BaseWorkflowAgent | AgentWorkflow)


def guarded(
    agent: AnyAgent,
    guard: EnforcementPoint,
    *,
    conversation: Named = None,
    unjudged: Mapping[str, Collection[str]] | None = None,
) -> AnyAgent:
    """Attaches a guard in place to an agent, or to an AgentWorkflow and its agents.

    Args:
        agent: an agent or a workflow without another guard.
        guard: decides.
        conversation: the conversation's id, or a function that returns it; by default that of the
            `with conversation(id):` around the run, or the `session_id` of the memory that is passed to the run.
        unjudged: tool -> arguments that the program supplies and no rule needs; they are passed on unchanged, and
            neither judged nor logged.

    Returns:
        The agent.

    Raises:
        InputError: a tool cannot be guarded, a rule names a tool that is probably a misspelling of one of the agent's,
            or the agent has another guard.
    """
    attachment = LlamaAttachment(guard, conversation, dict(unjudged or {}))
    attachment.guard_agent(agent)
    attachment.listed.check()
    return agent


class LlamaAttachment(HostAdapter[LlamaScope]):
    """One guard, and the agents that it guards."""

    def __init__(self, guard: EnforcementPoint, named: Named, unjudged: Mapping[str, Collection[str]]) -> None:
        super().__init__(guard, SURROUNDINGS, named, UNNAMED)
        self._unjudged = unjudged
        self._guarded: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # tool -> its guarded copy

    def guard_agent(self, agent: Any) -> None:
        """Guards an agent, or a workflow and its agents. Does nothing to what is guarded already."""
        if not isinstance(agent, BaseWorkflowAgent | AgentWorkflow):
            raise InputError(f"this is a {type(agent).__name__}; expected an agent of LlamaIndex, or an AgentWorkflow")
        if self.is_new(vars(agent).get(ATTACHMENT), "this agent"):
            require_parts(agent, *PARTS)
            kind: Any = type(agent)
            agent.__class__ = guarded_class(kind)
            vars(agent)[ATTACHMENT] = self
        for inner in agent.agents.values() if isinstance(agent, AgentWorkflow) else ():
            self.guard_agent(inner)
        self.tools(getattr(agent, "tools", None) or ())

    def tools(self, tools: Iterable[Any]) -> list[Any]:
        """Returns the guarded tools, after a comparison with the rules.

        Raises:
            InputError: a tool cannot be guarded.
        """
        own = [tool for tool in tools if getattr(tool, "guardagent_guard", None) is not self]
        if any(getattr(tool, "guardagent_guard", None) is not None for tool in own):
            raise InputError("a tool has another guard already; expected the tool itself")
        made = {id(tool): self._copy(tool) for tool in own}
        late = update_servers(self.guard, own, self.listed.specs)
        return [
            _without_description(made.get(id(tool), tool)) if tool.metadata.name in late else made.get(id(tool), tool)
            for tool in tools
        ]

    def _copy(self, tool: Any) -> Any:
        """Returns the guarded copy of a tool, which is made again if the tool has another name now."""
        known = self._guarded.get(tool)
        if known is None or known.guardagent_name != tool.metadata.get_name():
            known = self._tool(tool)
            if isinstance(known, FunctionTool):  # another one refers to its tool, which would never be forgotten
                self._guarded[tool] = known
        return known

    def _tool(self, tool: Any) -> Any:
        name = tool.metadata.get_name()
        arguments = read_arguments(tool, self._unjudged.get(name, ()))
        if name != HANDOFF:
            self.listed.add(arguments.spec)
        return guarded_tool(tool, arguments, self)

    def begin_run(self, memory: Any) -> LlamaScope:
        """Returns the surroundings of a new run."""
        session = getattr(memory, "session_id", None)
        return self.begin(LlamaRun, session if isinstance(session, str) else None)


def _without_description(tool: Any) -> Any:
    """Returns a tool without its server's unreviewed description and schema."""
    if not isinstance(tool, FunctionTool):
        return tool
    created = copy.copy(tool)
    created._metadata = ToolMetadata(description=UNREAD, name=tool.metadata.name)  # noqa: SLF001 - it has no setter
    return created
