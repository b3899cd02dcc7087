"""smolagents: `agent = guarded(agent, guard)`.

    guarded(agent, guard)    the tools and managed agents of a ToolCallingAgent or a CodeAgent, in place
    conversation(id)         names the conversation of the runs inside it
    AgentHalted              raised by `agent.run` when a rule halts the run

Extra: `guardagent[smolagents]`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from guardagent._support.requirements import require
from guardagent.frameworks.smolagents.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA, TRIED)

from smolagents import MultiStepAgent

from guardagent.enforcement import EnforcementPoint
from guardagent.enforcement.host_runs import Named
from guardagent.frameworks.smolagents.adapter.agents import SmolagentsAttachment
from guardagent.frameworks.smolagents.adapter.calls import AgentHalted, conversation

__all__ = ["AgentHalted", "conversation", "guarded"]

AnyAgent = TypeVar("AnyAgent", bound=MultiStepAgent)


def guarded(
    agent: AnyAgent,
    guard: EnforcementPoint,
    *,
    conversation: Named = None,
    unjudged: Mapping[str, Collection[str]] | None = None,
) -> AnyAgent:
    """Attaches a guard in place to an agent and to all agents that it manages.

    Args:
        agent: a ToolCallingAgent or a CodeAgent without another guard.
        guard: decides.
        conversation: the conversation's id, or a function that returns it; by default that of the
            `with conversation(id):` around the run.
        unjudged: tool -> arguments that the program supplies and no rule needs, such as an image or a data frame; they
            are passed on unchanged, and neither judged nor logged.

    Returns:
        The agent.

    Raises:
        InputError: a tool cannot be guarded, a rule names a tool that is probably a misspelling of one of the agent's,
            or the agent has another guard.
    """
    attachment = SmolagentsAttachment(guard, conversation, dict(unjudged or {}))
    attachment.guard_agent(agent)
    attachment.listed.check()
    return agent
