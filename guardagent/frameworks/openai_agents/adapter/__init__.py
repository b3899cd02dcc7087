"""The OpenAI Agents SDK: `agent = guarded(agent, guard)`.

    guarded(agent, guard)       function tools, MCP tools, agents as tools and hand-offs, of all reachable agents
    GuardedRunner               Runner with the session's id as the conversation; needed where answers are judged
    conversation(id)            names the conversation of the runs inside it
    request(item)               the approval request of an interruption
    answer(state, item, said)   a reviewer's answer to it: approve, reject or edit
    RunHalted                   raised by Runner when a rule halts the run

Extra: `guardagent[openai-agents]`.

The guarded Runner holds a stream until it is judged.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from guardagent._support.requirements import require
from guardagent.frameworks.openai_agents.package import DISTRIBUTIONS, EXTRA

require(DISTRIBUTIONS, EXTRA)

from agents import Agent, AgentHooks, FunctionTool, Runner, ToolsToFinalOutputResult

from guardagent.enforcement import EnforcementPoint, ToolSpec
from guardagent.enforcement.host_adapter import UNREAD
from guardagent.enforcement.names import declared
from guardagent.errors import InputError
from guardagent.frameworks.openai_agents.adapter.approvals import NeedsApproval, answer, body_of, refuse_unread, request
from guardagent.frameworks.openai_agents.adapter.calls import (
    AnswerGuardrail,
    Invoker,
    guarded_handoff,
    is_guarded_handoff,
    observe,
    target_of,
)
from guardagent.frameworks.openai_agents.adapter.runs import (
    SKIP_OUTPUT_SCHEMA,
    DenialText,
    OpenAIAdapter,
    RunHalted,
    RunScope,
    conversation,
    enter,
    field_of,
    scope,
    texts_of,
)

__all__ = ["GuardedRunner", "RunHalted", "answer", "conversation", "guarded", "request"]


# --- hooks of a guarded agent

_GOES_ON = ToolsToFinalOutputResult(is_final_output=False)


class GuardedToolUseBehavior:
    """`Agent.tool_use_behavior`: the operator's, but a denial goes back to the model until it gives up."""

    def __init__(self, adapter: OpenAIAdapter, before: Any) -> None:
        self._adapter, self.guardagent_inner = adapter, before

    async def __call__(self, context: Any, results: list[Any]) -> Any:
        for result in results:
            if isinstance(result.output, DenialText) and (final := result.output.final) is not None:
                self._adapter.run_of(context).final = final
                return ToolsToFinalOutputResult(is_final_output=True, final_output=final)
        if callable(self.guardagent_inner):
            behavior = self.guardagent_inner(context, results)
            return await behavior if inspect.isawaitable(behavior) else behavior
        return self._of_outputs(
            [plain_result for plain_result in results if not isinstance(plain_result.output, DenialText)], results
        )

    def _of_outputs(self, created: list[Any], results: list[Any]) -> Any:
        if self.guardagent_inner == "stop_on_first_tool" and created and created[0] is results[0]:
            return ToolsToFinalOutputResult(is_final_output=True, final_output=created[0].output)
        names = self.guardagent_inner.get("stop_at_tool_names", []) if isinstance(self.guardagent_inner, dict) else []
        stops = [result for result in created if result.tool.name in names or result.tool.qualified_name in names]
        return ToolsToFinalOutputResult(is_final_output=True, final_output=stops[0].output) if stops else _GOES_ON


class ProposalHooks(AgentHooks[Any]):
    """`Agent.hooks`: the operator's; also notes what a model says, and the ids of the calls that it proposes."""

    def __init__(self, adapter: OpenAIAdapter, before: Any) -> None:
        self._adapter, self.guardagent_inner = adapter, before or AgentHooks()

    async def on_start(self, context: Any, agent: Any) -> None:
        await self.guardagent_inner.on_start(context, agent)

    async def on_end(self, context: Any, agent: Any, output: Any) -> None:
        await self.guardagent_inner.on_end(context, agent, output)

    async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
        await self.guardagent_inner.on_handoff(context, agent, source)

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        await self.guardagent_inner.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        await self.guardagent_inner.on_tool_end(context, agent, tool, result)

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        await self.guardagent_inner.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        calls = [getattr(output_item, "call_id", None) for output_item in response.output]
        self._adapter.propose(context, [call for call in calls if isinstance(call, str)])
        self._adapter.run_of(context).texts = texts_of(response.output)
        await refuse_unread(self._adapter, agent, context, response.output)
        await self.guardagent_inner.on_llm_end(context, agent, response)


# --- tools of MCP servers


def unaccepted_tools(guard: EnforcementPoint, servers: Iterable[Any], tools: Iterable[Any]) -> set[str]:
    """Returns the names of the tools that were added or changed after the first list of their server.

    Args:
        guard: holds the accepted tools.
        servers: the agent's.
        tools: as the agent lists them.
    """
    listed = [tool for tool in tools if isinstance(tool, FunctionTool) and tool._mcp_tool_binding is not None]  # noqa: SLF001
    for at, server in enumerate(servers):
        own = {tool._mcp_tool_binding[1]: tool for tool in listed if tool._mcp_tool_binding[2] == at}  # noqa: SLF001
        guard.update_server_tools(_server_key(server), _specs(server, own))
    return {tool.name for tool in listed if guard.accepted.unaccepted(tool.qualified_name) is not None}


def without_description(tool: Any) -> Any:
    """Returns a tool without its server's unreviewed description and schema."""
    created = copy.copy(tool)
    created.description, created.params_json_schema = UNREAD, {"type": "object", "properties": {}}
    return created


def _specs(server: Any, own: Mapping[str, FunctionTool]) -> list[ToolSpec]:
    """Returns all tools of a server, including those that a filter hides from this agent or run."""
    raw = getattr(server, "cached_tools", None)
    if raw is None:
        return [
            ToolSpec(function_tool.qualified_name, function_tool.params_json_schema, function_tool.description)
            for function_tool in own.values()
        ]
    specs = [declared(tool.model_dump(by_alias=True, exclude_none=True)) for tool in raw]
    names = {name: function_tool.qualified_name for name, function_tool in own.items()}
    return [replace(spec, name=names.get(spec.name, spec.name)) for spec in specs if spec is not None]


def _server_key(server: Any) -> str:
    """Returns a server's name, which may not be unique, with a digest of its address."""
    params = getattr(server, "params", None)
    where = [field_of(params, name) for name in ("command", "args", "url")]
    return f"{server.name} ({hashlib.sha256(repr(where).encode()).hexdigest()[:8]})"


# --- attaching

AnyAgent = TypeVar("AnyAgent", bound="Agent[Any]")


def guarded(
    agent: AnyAgent,
    guard: EnforcementPoint,
    *,
    conversation: Callable[[Any], str | None] | None = None,
    unguarded: Collection[str] = (),
) -> AnyAgent:
    """Attaches a guard in place to an agent and to all agents that it reaches by hand-offs or as tools.

    Args:
        agent: an agent without another guard.
        guard: decides.
        conversation: finds the conversation's id in the context of a tool; see `runs` for the defaults.
        unguarded: names of the tools that may run unguarded, such as those of the provider.

    Returns:
        The agent.

    Raises:
        InputError: a tool cannot be guarded, a rule names a tool that is probably a misspelling of one of the agent's,
            or an agent has another guard.
    """
    adapter = OpenAIAdapter(guard, conversation, unguarded)
    guard_agent(adapter, agent)
    if not any(reached.mcp_servers for reached in adapter.agents.values()):
        adapter.listed.check()  # else once the servers have listed their tools
    return agent


def guard_agent(adapter: OpenAIAdapter, agent: Any) -> None:
    """Guards an agent and what it reaches. Does nothing to what is guarded already."""
    if not isinstance(agent, Agent):
        raise InputError(f"this is a {type(agent).__name__}; expected an agents.Agent")
    owner: Any = getattr(agent, "guardagent_attachment", None)
    if adapter.is_new(owner, f"agent {agent.name!r}", "one guard for all agents that it reaches"):
        agent.__class__ = _guarded_class(type(agent), adapter)
    elif owner is not adapter:
        adapter.listed.specs.update(owner.listed.specs)
    adapter.agents[id(agent)] = agent
    _refresh(adapter, agent)


def _refresh(adapter: OpenAIAdapter, agent: Any) -> None:
    """Guards additions to an agent."""
    tools = [_tool(adapter, tool) for tool in agent.tools]
    if any(new is not old for new, old in zip(tools, agent.tools, strict=True)):
        agent.tools = tools
    handoffs = [_handoff(adapter, handoff) for handoff in agent.handoffs]
    if any(new is not old for new, old in zip(handoffs, agent.handoffs, strict=True)):
        agent.handoffs = handoffs
    for server in agent.mcp_servers:
        observe(server)
    if not isinstance(agent.tool_use_behavior, GuardedToolUseBehavior):
        agent.tool_use_behavior = GuardedToolUseBehavior(adapter, agent.tool_use_behavior)
    if not isinstance(agent.hooks, ProposalHooks):
        agent.hooks = ProposalHooks(adapter, agent.hooks)
    judged = any(isinstance(guardrail, AnswerGuardrail) for guardrail in agent.output_guardrails)
    if adapter.guard.judges_answers and not judged:
        agent.output_guardrails = [*agent.output_guardrails, AnswerGuardrail.of(adapter)]


def _tool(adapter: OpenAIAdapter, tool: Any) -> Any:
    """Returns the guarded tool.

    Raises:
        InputError: it cannot be guarded.
    """
    name = str(getattr(tool, "qualified_name", None) or getattr(tool, "name", type(tool).__name__))
    if name in adapter.unguarded:
        return tool
    if not isinstance(tool, FunctionTool):
        raise InputError(
            f"{type(tool).__name__} {name!r} runs at the provider or past the function tools, "
            f"where no guard sees it; take it away, or say unguarded={{{name!r}}} if it may run without one"
        )
    if isinstance(tool.on_invoke_tool, Invoker):
        adapter.is_new(tool.on_invoke_tool.adapter, f"tool {name!r}", "a tool of this agent")
        return tool
    if tool._agent_instance is not None:  # noqa: SLF001 - there is no public way to the agent behind a tool
        guard_agent(adapter, tool._agent_instance)  # noqa: SLF001
    return _guarded_tool(adapter, tool, name)


def _guarded_tool(adapter: OpenAIAdapter, tool: FunctionTool, name: str) -> FunctionTool:
    body, created = body_of(tool), copy.copy(tool)
    created.on_invoke_tool = Invoker(adapter, tool, body)
    if adapter.may_ask or tool.needs_approval:
        created.needs_approval = NeedsApproval(adapter, tool, body)
        adapter.asking.add(name)
    if tool.output_json_schema is not None:
        created.tool_output_guardrails = [SKIP_OUTPUT_SCHEMA, *(tool.tool_output_guardrails or ())]
    adapter.listed.add(
        ToolSpec(name, tool.params_json_schema, tool.description, unlisted_arguments=body.unlisted_arguments)
    )
    return created


def _handoff(adapter: OpenAIAdapter, handoff: Any) -> Any:
    if is_guarded_handoff(handoff):
        return handoff
    if (target := target_of(handoff)) is not None and id(target) not in adapter.agents:
        guard_agent(adapter, target)
    return guarded_handoff(adapter, handoff, partial(guard_agent, adapter))


def _begin_step(adapter: OpenAIAdapter, agent: Any, context: Any) -> None:
    """Notes that a model is about to be called.

    Raises:
        InputError: an addition to the agent cannot be guarded; or its answers are judged, and nothing holds them.
    """
    run, around = adapter.run_of(context), scope()
    if adapter.guard.judges_answers and not (around is not None and (around.held or around.inside)):
        raise InputError("the answers of this agent are judged before they are seen: run it with GuardedRunner")
    run.step, run.agent = run.step + 1, agent
    run.input = list(context.turn_input) or run.input
    _refresh(adapter, agent)


def _guarded_class(base: type, adapter: OpenAIAdapter) -> type:
    """Returns a subclass whose tools are guarded whenever they are listed; clones of an agent share it."""

    async def get_all_tools(self: Any, run_context: Any) -> list[Any]:
        _begin_step(adapter, self, run_context)
        tools = await base.get_all_tools(self, run_context)  # type: ignore[attr-defined]
        late = unaccepted_tools(adapter.guard, self.mcp_servers, tools)
        created = [_tool(adapter, tool) for tool in tools]
        for name in late:
            adapter.listed.specs.pop(name, None)
        adapter.listed.check()
        return [without_description(tool) if tool.name in late else tool for tool in created]

    return type(base.__name__, (base,), {"get_all_tools": get_all_tools, "guardagent_attachment": adapter})


# --- the Runner


class GuardedRunner(Runner):
    """Runs guarded agents like `Runner`; `conversation_id` or the session's id names the conversation."""

    @classmethod
    async def run(cls, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: A002 - as Runner names it
        with _around(options):
            return await Runner.run(starting_agent, input, **options)

    @classmethod
    def run_sync(cls, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: A002
        with _around(options):
            return Runner.run_sync(starting_agent, input, **options)

    @classmethod
    def run_streamed(cls, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: A002
        with _around(options):
            result = Runner.run_streamed(starting_agent, input, **options)
        adapter = getattr(starting_agent, "guardagent_attachment", None)
        if adapter is None or adapter.guard.judges_answers:  # who knows where an agent without one leads
            events = result.stream_events
            result.stream_events = lambda: _held(result, events())
        return result


async def _held(result: Any, events: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """The events, once all have come: a guardrail that trips raises before the first of them is seen.

    A run that was cancelled has no answer, so that its text was not judged, and is withheld.
    """
    all_events = [event async for event in events]
    cancelled = result.final_output is None and not result.interruptions
    for event in all_events:
        if not (cancelled and _may_have_text(event)):
            yield event


def _may_have_text(event: Any) -> bool:
    return event.type == "raw_response_event" or getattr(event, "name", "") == "message_output_created"


@contextmanager
def _around(options: dict[str, Any]) -> Iterator[None]:
    around = scope()
    named = options.get("conversation_id") or getattr(options.get("session"), "session_id", None)
    if around is not None and around.inside:
        yield  # a part of another run, whose conversation it shares
        return
    with enter(RunScope(named or (around.conversation if around else None), held=True)):
        yield
