"""The Microsoft Agent Framework: `agent = guarded(agent, guard)`.

    guarded(agent, guard)       all tools of an agent, or of a chat client: functions, MCP, agents, hand-offs
    conversation(id)            names the conversation of the runs inside it
    answer(request, decision)   a reviewer's answer to an approval request of the guard
    AgentFrameworkHalted        raised by a run when a rule halts it

Extra: `guardagent[agent-framework]`.

The agents that a tool or a workflow runs are guarded as well.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from guardagent._support.requirements import require
from guardagent.frameworks.agent_framework.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA, TRIED)

from agent_framework import BaseChatClient, RawAgent, Workflow

from guardagent.enforcement import EnforcementPoint
from guardagent.enforcement.host_runs import Named
from guardagent.frameworks.agent_framework.adapter.approvals import answer
from guardagent.frameworks.agent_framework.adapter.clients import ClientAttachment, agents_of
from guardagent.frameworks.agent_framework.adapter.runs import AgentFrameworkHalted, conversation

__all__ = ["AgentFrameworkHalted", "answer", "conversation", "guarded"]

Target = TypeVar("Target", bound=RawAgent[Any] | BaseChatClient[Any] | Workflow)


def guarded(
    target: Target,
    guard: EnforcementPoint,
    *,
    conversation: Named = None,
    unjudged: Mapping[str, Collection[str]] | None = None,
    unguarded: Collection[str] = (),
) -> Target:
    """Attaches a guard to an agent or the agents of a workflow, in place, or returns a guarded copy of a chat client.

    Args:
        target: an agent, which is guarded with those that run as its tools; a workflow; or a chat client.
        guard: decides.
        conversation: the conversation's id, or a function that returns it; by default that of the
            `with conversation(id):` around the run, or the id of the session that is passed to the run.
        unjudged: tool -> arguments that the program supplies and no rule needs; they are passed on unchanged, and
            neither judged nor logged.
        unguarded: names of tools that may run unguarded: those of the provider, and those that the program runs; and
            of agents of a workflow that run their tools elsewhere.

    Returns:
        The agent or the workflow itself, or the guarded client.

    Raises:
        InputError: a tool cannot be guarded, a rule names a tool that is probably a misspelling of one of the agent's,
            or the agent has another guard.
    """
    attachment = ClientAttachment(guard, conversation, dict(unjudged or {}), frozenset(unguarded))
    if isinstance(target, BaseChatClient):
        return attachment.client(target)  # type: ignore[no-any-return]
    attachment.guard_all(agents_of(target))
    return target
