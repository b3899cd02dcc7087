"""AutoGen: `agent = guarded(agent, guard)`.

    guarded(agent, guard)    tools, workbenches, hand-offs and executed code of an agent, or of a team, in place
    conversation(id)         names the conversation of the runs inside it
    TeamHalted               raised by a run, of an agent or a team, when a rule halts it

Extra: `guardagent[autogen]`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, TypeVar

from guardagent._support.requirements import require, require_parts, warn_untried
from guardagent.frameworks.autogen.package import DISTRIBUTIONS, EXTRA, PARTS, TRIED

require(DISTRIBUTIONS, EXTRA)
warn_untried(TRIED)

from autogen_agentchat.agents import (
    AssistantAgent,
    BaseChatAgent,
    CodeExecutorAgent,
    MessageFilterAgent,
    SocietyOfMindAgent,
    UserProxyAgent,
)
from autogen_agentchat.base import Team
from autogen_agentchat.teams import BaseGroupChat

from guardagent.enforcement import EnforcementPoint
from guardagent.enforcement.host_adapter import NO_APPROVER, HostAdapter
from guardagent.enforcement.host_runs import Named
from guardagent.errors import InputError
from guardagent.frameworks.autogen.adapter.agents import (
    ATTACHMENT,
    GuardTermination,
    guarded_agent_class,
    guarded_team_class,
)
from guardagent.frameworks.autogen.adapter.runs import (
    SURROUNDINGS,
    UNNAMED,
    AutoGenRun,
    AutoGenScope,
    AutoGenTurn,
    TeamHalted,
    conversation,
    scope,
)
from guardagent.frameworks.autogen.adapter.tools import EXECUTE, AssistantTools, AutoGenTools, GuardedExecutor

__all__ = ["TeamHalted", "conversation", "guarded"]

# --- attaching

AnyAgent = TypeVar("AnyAgent", bound=BaseChatAgent | Team)
_KINDS = (AssistantAgent, CodeExecutorAgent, SocietyOfMindAgent, MessageFilterAgent, UserProxyAgent)


def guarded(
    agent: AnyAgent, guard: EnforcementPoint, *, conversation: Named = None, unguarded: Collection[str] = ()
) -> AnyAgent:
    """Attaches a guard in place to an agent, or to a team and its participants.

    Args:
        agent: an agent or a team without another guard. A team must not have run yet.
        guard: decides.
        conversation: the conversation's id, or a function that returns it; by default that of the
            `with conversation(id):` around the run.
        unguarded: names of agents of other classes that may run unguarded.

    Returns:
        The agent.

    Raises:
        InputError: an agent or a tool cannot be guarded, a rule names a tool that is probably a misspelling of one of
            the agent's, or the agent has another guard.
    """
    attachment = AutoGenAttachment(guard, conversation, frozenset(unguarded))
    attachment.guard_agent(agent)
    attachment.tools.check()
    return agent


class AutoGenAttachment(HostAdapter[AutoGenScope]):
    """One guard, and the agents that it guards.

    Attributes:
        tools: those of the agents.
    """

    def __init__(self, guard: EnforcementPoint, named: Named, unguarded: frozenset[str]) -> None:
        super().__init__(guard, SURROUNDINGS, named, UNNAMED)
        self.approval.report_missing(NO_APPROVER)
        self._unguarded = unguarded
        self._agents: dict[int, AssistantTools] = {}
        self.tools = AutoGenTools(self, self.guard_agent)

    # --- agents

    def guard_agent(self, agent: Any) -> None:
        """Guards an agent or a team, and the agents in it. Does nothing to what is guarded already."""
        if getattr(agent, "name", None) in self._unguarded:
            return
        parts = PARTS["team"] if isinstance(agent, BaseGroupChat) else self._parts_of(agent)
        owner = vars(agent).get(ATTACHMENT)
        if self.is_new(owner, "this agent"):
            require_parts(agent, *parts.split())
            if isinstance(agent, BaseGroupChat):
                _end_with_guard(agent)
            made = guarded_team_class if isinstance(agent, BaseGroupChat) else guarded_agent_class
            kind: Any = type(agent)
            agent.__class__ = made(kind)
            vars(agent)[ATTACHMENT] = self
        elif owner is not self:
            self.listed.add(*owner.listed.specs.values())
        self.guard_parts(agent)

    def _parts_of(self, agent: Any) -> str:
        for kind in _KINDS:
            if isinstance(agent, kind):
                return PARTS[kind.__name__]
        raise InputError(
            f"{getattr(agent, 'name', agent)!r} is a {type(agent).__name__}, whose calls cannot be judged; expected an "
            "agent or a team of autogen_agentchat, or name it in unguarded=..."
        )

    def refresh(self, agent: Any) -> None:
        """Guards additions to an agent, and compares them with the rules."""
        self.guard_parts(agent)
        self.tools.check()

    def guard_parts(self, agent: Any) -> None:
        """Guards the workbenches, hand-offs, code executor and inner agents of an agent."""
        if isinstance(agent, BaseGroupChat):
            for participant in agent._participants:  # noqa: SLF001 - there is no public way to it
                self.guard_agent(participant)
        for name in ("_team", "_wrapped_agent"):
            if isinstance(inner := vars(agent).get(name), BaseChatAgent | Team):
                self.guard_agent(inner)
        if isinstance(agent, CodeExecutorAgent):
            agent._code_executor = self._executor(agent._code_executor)  # noqa: SLF001 - as above
        if isinstance(agent, AssistantAgent):
            self._guard_tools(agent)

    def _guard_tools(self, agent: Any) -> None:
        own = self._agents.setdefault(id(agent), AssistantTools(self.tools, agent))
        agent._workbench = [  # noqa: SLF001 - as above
            own.workbench(workbench, f"{agent.name} #{at}")
            for at, workbench in enumerate(agent._workbench)  # noqa: SLF001 - as above
        ]
        agent._handoff_tools = [own.handoff(handoff_tool) for handoff_tool in agent._handoff_tools]  # noqa: SLF001 - as above

    def _executor(self, executor: Any) -> Any:
        self.listed.add(EXECUTE)
        owner = executor.guardagent_adapter if isinstance(executor, GuardedExecutor) else None
        is_new = self.is_new(owner, "the code executor", "the executor itself")
        return GuardedExecutor(executor, self) if is_new else executor

    # --- a run

    def begin_run(self, agent: str | None) -> tuple[bool, AutoGenScope]:
        """Returns whether a program starts this run, and the surroundings of the run.

        Args:
            agent: the name of the agent; None for a team.
        """
        outside = scope() or AutoGenScope(None)
        call = outside.call

        def new_run(outer: AutoGenRun | None) -> AutoGenRun:
            """Returns the run of the team or the agent around it, or that of a call."""
            return outer if outer is not None and outer.call is call else AutoGenRun(outer, call=call)

        around = self.begin(new_run)
        turn = AutoGenTurn(agent, self.proposed(around)) if agent is not None else None
        return not outside.inside, replace(around, turn=turn)


def _end_with_guard(team: Any) -> None:
    """Makes a team end once its guard has ended the run.

    Raises:
        InputError: its parts have been copied already, or run elsewhere.
    """
    if not team._embedded_runtime:  # noqa: SLF001 - there is no public way to it
        raise InputError(
            f"the team {team.name!r} has a runtime of its own, which does not show the conversation of a call; "
            "expected a team without 'runtime='"
        )
    if team._initialized:  # noqa: SLF001 - as above
        raise InputError(f"the team {team.name!r} has run or loaded a state already; attach the guard before")
    condition = team._termination_condition  # noqa: SLF001 - as above
    if condition is not None or team._max_turns is not None or not _has_cycles(team):  # noqa: SLF001 - as above
        team._termination_condition = GuardTermination(condition)  # noqa: SLF001 - as above


def _has_cycles(team: Any) -> bool:
    """Whether a team is a graph with cycles: the host refuses one that nothing ends."""
    graph = getattr(team, "_graph", None)
    return graph is not None and bool(graph.get_has_cycles())
