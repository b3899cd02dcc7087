"""Attaches a guard to an agent, and to every agent that it can reach."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from agents import Agent, FunctionTool

from guardagent.enforcement import EnforcementPoint, ToolSpec
from guardagent.errors import InputError
from guardagent.frameworks.openai_agents.adapter.agent_hooks import GuardedToolUseBehavior, ProposalHooks
from guardagent.frameworks.openai_agents.adapter.answers import AnswerGuardrail
from guardagent.frameworks.openai_agents.adapter.approvals import NeedsApproval
from guardagent.frameworks.openai_agents.adapter.attachment_base import BaseAttachment
from guardagent.frameworks.openai_agents.adapter.bodies import body_of
from guardagent.frameworks.openai_agents.adapter.calls import Invoker
from guardagent.frameworks.openai_agents.adapter.denials import SKIP_OUTPUT_SCHEMA
from guardagent.frameworks.openai_agents.adapter.runs import scope
from guardagent.frameworks.openai_agents.adapter.server_answers import observe
from guardagent.frameworks.openai_agents.adapter.server_tools import unaccepted_tools, without_description
from guardagent.frameworks.openai_agents.adapter.tools import guarded_handoff, is_guarded_handoff, target_of

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
    attachment = Attachment(guard, conversation, frozenset(unguarded))
    attachment.guard_agent(agent)
    if not any(one.mcp_servers for one in attachment.agents.values()):
        attachment.check_tools()  # else once the servers have listed their tools
    return agent


class Attachment(BaseAttachment):
    """One guard and the agents that it guards.

    A web service may build its agents, and with them an attachment, for each request; state that outlives a run belongs
    to the guard.

    Attributes:
        agents: all of them, by `id`; a hand-off may build one for each run, which then ends with it.
        listed: their tools, by name.
    """

    def __init__(
        self, guard: EnforcementPoint, named: Callable[[Any], str | None] | None, unguarded: frozenset[str]
    ) -> None:
        super().__init__(guard, named)
        self.agents: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._unguarded = unguarded
        self.listed: dict[str, ToolSpec] = {}
        self._digests: dict[str, str] | None = None

    # --- agents

    def guard_agent(self, agent: Any) -> None:
        """Guards an agent and what it reaches. Does nothing to what is guarded already."""
        if not isinstance(agent, Agent):
            raise InputError(f"this is a {type(agent).__name__}; expected an agents.Agent")
        owner = getattr(agent, "guardagent_attachment", None)
        if owner is not None and owner.guard is not self.guard:
            raise InputError(
                f"agent {agent.name!r} has another guard already; expected one guard for all agents that it reaches"
            )
        if owner is not None and owner is not self:
            self.listed.update(owner.listed)
        if owner is None:
            agent.__class__ = _guarded_class(type(agent), self)
        self.agents[id(agent)] = agent
        self.refresh(agent)

    def refresh(self, agent: Any) -> None:
        """Guards additions to an agent."""
        tools = [self.tool(one) for one in agent.tools]
        if any(new is not old for new, old in zip(tools, agent.tools, strict=True)):
            agent.tools = tools
        handoffs = [self._handoff(one) for one in agent.handoffs]
        if any(new is not old for new, old in zip(handoffs, agent.handoffs, strict=True)):
            agent.handoffs = handoffs
        for server in agent.mcp_servers:
            observe(server)
        if not isinstance(agent.tool_use_behavior, GuardedToolUseBehavior):
            agent.tool_use_behavior = GuardedToolUseBehavior(self, agent.tool_use_behavior)
        if not isinstance(agent.hooks, ProposalHooks):
            agent.hooks = ProposalHooks(self, agent.hooks)
        judged = any(isinstance(one, AnswerGuardrail) for one in agent.output_guardrails)
        if self.guard.judges_answers and not judged:
            agent.output_guardrails = [*agent.output_guardrails, AnswerGuardrail.of(self)]

    def tool(self, tool: Any) -> Any:
        """The guarded tool.

        Raises:
            InputError: it cannot be guarded.
        """
        name = str(getattr(tool, "qualified_name", None) or getattr(tool, "name", type(tool).__name__))
        if name in self._unguarded:
            return tool
        if not isinstance(tool, FunctionTool):
            raise InputError(
                f"{type(tool).__name__} {name!r} runs at the provider or past the function tools, "
                f"where no guard sees it; take it away, or say unguarded={{{name!r}}} if it may run without one"
            )
        if isinstance(tool.on_invoke_tool, Invoker):
            if tool.on_invoke_tool.attachment.guard is not self.guard:
                raise InputError(f"tool {name!r} has another guard already; expected a tool of this agent")
            return tool
        if tool._agent_instance is not None:  # noqa: SLF001 - there is no public way to the agent behind a tool
            self.guard_agent(tool._agent_instance)  # noqa: SLF001
        return self._guarded_tool(tool, name)

    def _guarded_tool(self, tool: FunctionTool, name: str) -> FunctionTool:
        body, created = body_of(tool), copy.copy(tool)
        created.on_invoke_tool = Invoker(self, tool, body)
        if self.may_ask or tool.needs_approval:
            created.needs_approval = NeedsApproval(self, tool, body)
        if tool.output_json_schema is not None:
            created.tool_output_guardrails = [SKIP_OUTPUT_SCHEMA, *(tool.tool_output_guardrails or ())]
        self.listed[name] = ToolSpec(
            name, tool.params_json_schema, tool.description, unlisted_arguments=body.unlisted_arguments
        )
        return created

    def _handoff(self, handoff: Any) -> Any:
        if is_guarded_handoff(handoff):
            return handoff
        if (target := target_of(handoff)) is not None and id(target) not in self.agents:
            self.guard_agent(target)
        return guarded_handoff(self, handoff)

    def check_tools(self, late: Collection[str] = ()) -> None:
        """Compares changed tools with the rules, without the `late` ones, which are not accepted."""
        self.listed = {name: spec for name, spec in self.listed.items() if name not in late}
        digests = {name: spec.digest for name, spec in self.listed.items()}
        if digests != self._digests:
            self.guard.attach(self.listed.values())
            self._digests = digests

    # --- a run

    def turn(self, agent: Any, context: Any) -> None:
        """Notes that a model is about to be called.

        Raises:
            InputError: an addition to the agent cannot be guarded; or its answers are judged, and nothing holds them.
        """
        run, around = self.run_of(context), scope()
        if self.guard.judges_answers and not (around is not None and (around.held or around.inside)):
            raise InputError("the answers of this agent are judged before they are seen: run it with GuardedRunner")
        run.step, run.agent = run.step + 1, agent
        run.input = list(context.turn_input) or run.input
        self.refresh(agent)


def _guarded_class(base: type, attachment: Attachment) -> type:
    """Returns a subclass whose tools are guarded whenever they are listed; clones of an agent share it."""

    async def get_all_tools(self: Any, run_context: Any) -> list[Any]:
        attachment.turn(self, run_context)
        tools = await base.get_all_tools(self, run_context)  # type: ignore[attr-defined]
        late = unaccepted_tools(attachment.guard, self.mcp_servers, tools)
        created = [attachment.tool(one) for one in tools]
        attachment.check_tools(late)
        return [without_description(one) if one.name in late else one for one in created]

    return type(base.__name__, (base,), {"get_all_tools": get_all_tools, "guardagent_attachment": attachment})
