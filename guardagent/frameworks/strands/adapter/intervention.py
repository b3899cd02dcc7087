"""The guard as an intervention of the host, which agents built within a run inherit."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

from strands.hooks import BeforeInvocationEvent, HookOrder
from strands.interventions import InterventionHandler, Proceed
from strands.multiagent import Swarm
from strands.multiagent.graph import Graph

from guardagent._support.requirements import require_parts
from guardagent.enforcement import EnforcementPoint
from guardagent.enforcement.hosts import Named
from guardagent.errors import InputError
from guardagent.frameworks.strands.adapter.attachment import StrandsAttachment
from guardagent.frameworks.strands.adapter.middleware import attachment_of
from guardagent.frameworks.strands.adapter.teams import guard_team

AnyAgent = TypeVar("AnyAgent")


class GuardIntervention(InterventionHandler):
    """An intervention that guards its agents: `Agent(..., interventions=[GuardIntervention(guard)])`.

    The agent's first run or direct call attaches the guard. An agent that cannot be guarded does not run.

    Args:
        guard: decides.
        conversation: the conversation's id, or a function that returns it; by default that of the
            `with conversation(id):` around the run, or the `session_id` of the session manager.
        unguarded: names of tools of the model's provider, of nodes, and of the class of a tool executor, that may run
            without a guard.
    """

    def __init__(self, guard: EnforcementPoint, *, conversation: Named = None, unguarded: Collection[str] = ()) -> None:
        self.attachment = StrandsAttachment(guard, conversation, unguarded)

    @property
    def name(self) -> str:
        return "guardagent"

    def before_invocation(self, event: Any, **_: Any) -> Any:
        """Guards the agent before its run.

        Raises:
            InputError: it cannot be guarded, or a method of the host is about to show its answer unjudged.
        """
        self.attachment.guard_agent(event.agent)
        if self.attachment.guard.judges_answers and event.messages is None:
            raise InputError(
                "the answers of this agent are judged, and 'structured_output' shows them unjudged; expected "
                "agent(prompt, structured_output_model=...)"
            )
        return Proceed()

    def before_tool_call(self, event: Any, **_: Any) -> Any:
        """Guards the agent before a direct call. The call itself is judged at the tool, behind all hooks."""
        self.attachment.guard_agent(event.agent)
        return Proceed()


def guarded(
    agent: AnyAgent, guard: EnforcementPoint, *, conversation: Named = None, unguarded: Collection[str] = ()
) -> AnyAgent:
    """Attaches a guard in place to an agent, or to a Swarm or a Graph and its agents.

    Args:
        agent: an agent or a team without another guard.
        guard: decides.
        conversation: as of `GuardIntervention`; a team's session manager names one, too.
        unguarded: as of `GuardIntervention`.

    Returns:
        The agent.

    Raises:
        InputError: something cannot be guarded, a rule names a tool that is probably a misspelling of one of the
            agent's, or the agent has another guard.
    """
    handler = GuardIntervention(guard, conversation=conversation, unguarded=unguarded)
    if isinstance(agent, Swarm | Graph):
        guard_team(agent, handler.attachment, lambda one: _attach(one, handler), frozenset(unguarded))
    else:
        _attach(agent, handler)
    return agent


def _attach(agent: Any, handler: GuardIntervention) -> None:
    """Attaches the guard now, and puts the handler where agents built within a run inherit it.

    Raises:
        InputError: as of `guarded`.
    """
    known = attachment_of(agent)
    handler.attachment.guard_agent(agent)
    if known is not None:
        if known.options != handler.attachment.options:
            raise InputError(
                f"agent {agent.name!r} is guarded already, with another conversation=... or unguarded=...; expected "
                "one guarded(...) per agent, and 'with conversation(id):' around its runs"
            )
        return
    agent.hooks.add_callback(BeforeInvocationEvent, handler.before_invocation, order=HookOrder.SDK_FIRST)
    inherited = agent._intervention_registry  # noqa: SLF001 - the host has no other way to add one later
    require_parts(inherited, "_handlers")
    inherited._handlers = [*inherited._handlers, handler]  # noqa: SLF001 - as above
