"""smolagents: `agent = guarded(agent, guard)`.

    guarded(agent, guard)    the tools and managed agents of a ToolCallingAgent or a CodeAgent, in place
    conversation(id)         names the conversation of the runs inside it
    AgentHalted              raised by `agent.run` when a rule halts the run

Extra: `guardagent[smolagents]`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from guardagent._support.requirements import require, require_parts, warn_untried
from guardagent.frameworks.smolagents.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA)
warn_untried(TRIED)

from smolagents import CodeAgent, FinalAnswerTool, MultiStepAgent, Tool

from guardagent.enforcement import EnforcementPoint, ToolSpec
from guardagent.enforcement.host_adapter import HostAdapter
from guardagent.enforcement.host_runs import Named
from guardagent.errors import InputError
from guardagent.frameworks.smolagents.adapter.agents import (
    PARTS,
    AnswerCheck,
    SmolagentsTool,
    SmolagentsArguments,
    code_function,
    guard_executor,
    guarded_class,
    guarded_function,
)
from guardagent.frameworks.smolagents.adapter.runs import (
    SURROUNDINGS,
    UNNAMED,
    AgentHalted,
    SmolagentsRun,
    SmolagentsScope,
    conversation,
)

__all__ = ["AgentHalted", "conversation", "guarded"]

AnyAgent = TypeVar("AnyAgent", bound=MultiStepAgent)
_TASK: Mapping[str, Any] = {"type": "object", "properties": {"task": {"type": "string"}, "additional_args": {}}}


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


class SmolagentsAttachment(HostAdapter[SmolagentsScope]):
    """One guard, and the agents that it guards.

    Attributes:
        unjudged: tool -> its unjudged arguments.
    """

    def __init__(self, guard: EnforcementPoint, named: Named, unjudged: Mapping[str, Collection[str]]) -> None:
        super().__init__(guard, SURROUNDINGS, named, UNNAMED)
        self.unjudged = unjudged

    # --- agents and tools

    def guard_agent(self, agent: Any) -> None:
        """Guards an agent and those that it manages. Does nothing to what is guarded already."""
        if not isinstance(agent, MultiStepAgent):
            raise InputError(f"this is a {type(agent).__name__}; expected an agent of smolagents")
        owner: Any = getattr(agent, "guardagent_attachment", None)
        if self.is_new(owner, "this agent"):
            require_parts(agent, *PARTS)
            agent.__class__ = guarded_class(type(agent), self)
        elif owner is not self:
            self.listed.add(*owner.listed.specs.values())
        self._guard_parts(agent)

    def refresh(self, agent: Any) -> None:
        """Guards additions to an agent, and compares them with the rules.

        Raises:
            InputError: an addition cannot be guarded.
        """
        self._guard_parts(agent)
        self.listed.check()

    def _guard_parts(self, agent: Any) -> None:
        for name, tool in agent.tools.items():
            _require_name(name, tool)
            if not (isinstance(tool, SmolagentsTool) and tool.guardagent_adapter.guard is self.guard):
                agent.tools[name] = self._tool(tool)
        for name, managed in agent.managed_agents.items():
            _require_name(name, managed)
            if getattr(managed, "guardagent_attachment", None) is not self:
                self.guard_agent(managed)
            self.listed.add(ToolSpec(managed.name, _TASK, managed.description or "", unlisted_arguments=None))
        if isinstance(agent, CodeAgent):
            guard_executor(agent.python_executor, self)
        if not any(isinstance(one, AnswerCheck) for one in agent.final_answer_checks):
            agent.final_answer_checks = [*agent.final_answer_checks, AnswerCheck(self.guard)]

    def _tool(self, tool: Any) -> Any:
        """Returns the guarded form of a tool; the host's own `final_answer` only ends the run."""
        if type(tool) is FinalAnswerTool:
            return tool
        if isinstance(tool, SmolagentsTool):
            raise InputError(f"the tool {tool.name!r} has another guard already; expected the tool itself")
        if not isinstance(tool, Tool) or type(tool).__call__ is not Tool.__call__:
            raise InputError(
                f"the tool {getattr(tool, 'name', tool)!r} has a '__call__' of its own, so its calls cannot be judged; "
                "expected a Tool with its work in forward()"
            )
        arguments = SmolagentsArguments.of_tool(tool, self.unjudged.get(tool.name, ()))
        self.listed.add(arguments.spec)
        return SmolagentsTool(tool, arguments, self)

    def code_function(self, name: str, tool: Any) -> Callable[..., Any]:
        """Returns the guarded function that generated code calls for a tool, an agent or a function."""
        if isinstance(tool, MultiStepAgent):
            self.guard_agent(tool)
            _require_name(name, tool)
            return code_function(tool, name)
        if isinstance(tool, Tool):
            _require_name(name, tool)
        if isinstance(tool, SmolagentsTool) or type(tool) is FinalAnswerTool:
            return code_function(tool, name)
        return code_function(self._tool(tool), name) if isinstance(tool, Tool) else guarded_function(self, tool, name)

    def begin_run(self, agent: Any) -> SmolagentsScope:
        """Returns the surroundings of a new run: within a tool, those of the call."""
        return self.begin(lambda outer: SmolagentsRun(outer, agent=agent))


def _require_name(name: str, tool: Any) -> None:
    """Requires that the name by which the model calls a tool or an agent is the one by which it is judged.

    Raises:
        InputError: it has another name.
    """
    judged = tool.guardagent_arguments.spec.name if isinstance(tool, SmolagentsTool) else getattr(tool, "name", name)
    if name != judged:
        raise InputError(f"{judged!r} is called {name!r} here, and would be judged as {judged!r}; expected one name")
