"""Attaches a guard to an agent, or to a workflow of several."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from llama_index.core.agent.workflow import AgentWorkflow, BaseWorkflowAgent
from llama_index.core.tools import FunctionTool, ToolMetadata

from guardagent._support.requirements import require_parts
from guardagent.enforcement import EnforcementPoint
from guardagent.enforcement.hosts import UNREAD, ListedTools, Named, naming, proposed_ids
from guardagent.errors import InputError
from guardagent.frameworks.llama_index.adapter.arguments import LlamaArguments
from guardagent.frameworks.llama_index.adapter.calls import HANDOFF, LlamaCalls
from guardagent.frameworks.llama_index.adapter.guarded_tool import guarded_tool
from guardagent.frameworks.llama_index.adapter.runs import LlamaScope, surroundings
from guardagent.frameworks.llama_index.adapter.servers import update_servers
from guardagent.frameworks.llama_index.adapter.workflow_class import ATTACHMENT, PARTS, guarded_class

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
    attachment.check_tools()
    return agent


class LlamaAttachment:
    """One guard, and the agents that it guards.

    Attributes:
        guard: decides.
    """

    def __init__(self, guard: EnforcementPoint, named: Named, unjudged: Mapping[str, Collection[str]]) -> None:
        self.guard, self._name, self._unjudged = guard, naming(named), unjudged
        self._calls = LlamaCalls(guard, self._name)
        self._guarded: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # tool -> its guarded copy
        self._listed = ListedTools(guard)

    def guard_agent(self, agent: Any) -> None:
        """Guards an agent, or a workflow and its agents. Does nothing to what is guarded already."""
        if not isinstance(agent, BaseWorkflowAgent | AgentWorkflow):
            raise InputError(f"this is a {type(agent).__name__}; expected an agent of LlamaIndex, or an AgentWorkflow")
        owner = vars(agent).get(ATTACHMENT)
        if owner is not None and owner.guard is not self.guard:
            raise InputError("this agent has another guard already; expected one guard for all agents")
        if owner is None:
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
        own = [one for one in tools if getattr(one, "guardagent_guard", None) is not self._calls]
        if any(getattr(one, "guardagent_guard", None) is not None for one in own):
            raise InputError("a tool has another guard already; expected the tool itself")
        made = {id(one): self._copy(one) for one in own}
        late = update_servers(self.guard, own, self._listed.specs)
        return [
            _without_description(made.get(id(one), one)) if one.metadata.name in late else made.get(id(one), one)
            for one in tools
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
        arguments = LlamaArguments.of(tool, self._unjudged.get(name, ()))
        if name != HANDOFF:
            self._listed.add(arguments.spec)
        return guarded_tool(tool, arguments, self._calls)

    def check_tools(self) -> None:
        """Compares new or changed tools with the rules."""
        self._listed.check()

    def begin(self, memory: Any) -> LlamaScope:
        """Returns the surroundings of a new run."""
        around = surroundings(self._name(), memory)
        if around.call is None and around.conversation:
            self.guard.turn(around.conversation)
        return around

    def proposed(self, around: LlamaScope) -> set[str]:
        """Returns the ids of the calls that models proposed in this conversation."""
        return proposed_ids(self.guard, around.conversation)


def _without_description(tool: Any) -> Any:
    """Returns a tool without its server's unreviewed description and schema."""
    if not isinstance(tool, FunctionTool):
        return tool
    created = copy.copy(tool)
    created._metadata = ToolMetadata(description=UNREAD, name=tool.metadata.name)  # noqa: SLF001 - it has no setter
    return created
