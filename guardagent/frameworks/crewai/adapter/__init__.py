"""CrewAI: `crew = guarded(crew, guard)`.

    guarded(crew, guard)    the tools of a Crew and its agents, or of one Agent, in place
    conversation(id)        names the conversation of the runs inside it
    CrewHalted              raised by a kickoff when a rule halts the run

Extra: `guardagent[crewai]`.

Tools that run at the model's provider, where no guard sees them, are refused unless the operator names them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from guardagent._support.requirements import require, require_parts, warn_untried
from guardagent.frameworks.crewai.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA)
warn_untried(TRIED)

from crewai import Agent, Crew, Process
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.tools import BaseTool
from crewai.tools.agent_tools.agent_tools import AgentTools
from crewai.tools.agent_tools.deferred_tool_result_reader import DeferredToolResultReader
from crewai.utilities.agent_utils import parse_tools
from crewai.utilities.string_utils import sanitize_tool_name

from guardagent.enforcement import EnforcementPoint, ToolSpec
from guardagent.enforcement.host_adapter import HostAdapter, unaccepted_names
from guardagent.enforcement.host_runs import Named
from guardagent.errors import InputError
from guardagent.frameworks.crewai.adapter.agents import (
    AGENT_PARTS,
    CREW_PARTS,
    EXECUTOR_PARTS,
    guarded_agent_class,
    guarded_crew_class,
    guarded_executor_class,
    watch_last_tasks,
)
from guardagent.frameworks.crewai.adapter.calls import CrewArguments, CrewTool, guarded_tool, server_of
from guardagent.frameworks.crewai.adapter.runs import (
    SURROUNDINGS,
    UNNAMED,
    CrewHalted,
    CrewRun,
    CrewScope,
    conversation,
)

__all__ = ["CrewHalted", "conversation", "guarded"]


# --- tools of the provider

_PARAMETERS = ("mcp_servers", "web_search_options", "plugins")


def refuse_provider_tools(llm: Any, unguarded: Collection[str]) -> None:
    """Refuses a model with tools of its provider.

    Args:
        llm: the model.
        unguarded: the tools that the operator names.

    Raises:
        InputError: it has another one.
    """
    for name in _names(llm):
        if name not in unguarded:
            raise InputError(
                f"{name!r} runs at the model's provider, where no guard sees it; remove it, or name it in unguarded=..."
            )


def _names(llm: Any) -> Iterator[str]:
    """Yields the types of a model's own tools, and the request parameters that add some."""
    yield from (str(one) for one in getattr(llm, "builtin_tools", None) or ())
    params = getattr(llm, "additional_params", None)
    params = params if isinstance(params, Mapping) else {}
    body = params.get("extra_body")
    for one in (params, body if isinstance(body, Mapping) else {}):
        yield from (name for name in _PARAMETERS if one.get(name))
        for tool in one.get("tools") or ():
            yield str(tool.get("type") or tool.get("name")) if isinstance(tool, Mapping) else str(tool)


# --- attaching

AnyCrew = TypeVar("AnyCrew", Crew, Agent)


def guarded(
    crew: AnyCrew,
    guard: EnforcementPoint,
    *,
    conversation: Named = None,
    unjudged: Mapping[str, Collection[str]] | None = None,
    unguarded: Collection[str] = (),
) -> AnyCrew:
    """Attaches a guard in place to a crew and its agents, or to an agent.

    Args:
        crew: a Crew, or an Agent, without another guard.
        guard: decides.
        conversation: the conversation's id, or a function that returns it; by default that of the
            `with conversation(id):` around the kickoff.
        unjudged: tool -> arguments that the program supplies and no rule needs; they are passed on unchanged, and
            neither judged nor logged.
        unguarded: tools of the model's provider that may run without the guard.

    Returns:
        The crew or agent.

    Raises:
        InputError: an agent or a tool cannot be guarded, a rule names a tool that is probably a misspelling of one of
            the agents', or there is another guard already.
    """
    attachment = CrewAttachment(guard, conversation, dict(unjudged or {}), frozenset(unguarded))
    if isinstance(crew, Crew):
        attachment.guard_crew(crew)
    else:
        attachment.guard_agent(crew)
    attachment.list_tools(crew)
    return crew


class CrewAttachment(HostAdapter[CrewScope]):
    """One guard, and the crews and agents that it guards."""

    def __init__(
        self,
        guard: EnforcementPoint,
        named: Named,
        unjudged: Mapping[str, Collection[str]],
        unguarded: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(guard, SURROUNDINGS, named, UNNAMED)
        self._unjudged, self._unguarded = unjudged, unguarded

    def __deepcopy__(self, memo: Any) -> CrewAttachment:
        """Returns itself: copies of an agent have the same guard."""
        return self

    # --- crews and agents

    def guard_crew(self, crew: Any) -> Any:
        watch_last_tasks()
        if self._takes_over(crew, CREW_PARTS):
            kind: Any = type(crew)
            crew.__class__ = guarded_crew_class(kind)
            crew._guardagent = self  # noqa: SLF001 - of the guarded class
        agents = [*crew.agents, crew.manager_agent, *(task.agent for task in crew.tasks)]
        for agent in agents:
            if agent is not None:
                self.guard_agent(agent)
        return crew

    def guard_agent(self, agent: Any) -> Any:
        if not isinstance(agent, Agent):
            found = type(agent).__name__
            raise InputError(f"this is a {found}, whose tools no guard sees; expected a Crew or an Agent")
        if self._takes_over(agent, AGENT_PARTS):
            self._refuse_remote(agent)
            kind: Any = type(agent)
            guarded_executor_class(agent.executor_class)
            agent.__class__ = guarded_agent_class(kind)
            agent._guardagent = self  # noqa: SLF001 - of the guarded class
            if agent.agent_executor is not None and not agent.agent_executor._resuming:  # noqa: SLF001
                agent.agent_executor = None  # it has the tools themselves
        return agent

    def _takes_over(self, host: Any, parts: Iterable[str]) -> bool:
        """Whether a crew or an agent has no guard yet. One that has it gets this attachment instead of its own."""
        owner = getattr(host, "_guardagent", None)
        if self.is_new(owner, f"this {type(host).__name__}", "one guard for all"):
            require_parts(host, *parts)
            return True
        if owner is not self:
            self.listed.specs = {**owner.listed.specs, **self.listed.specs}
            host._guardagent = self  # noqa: SLF001 - of the guarded class
        return False

    def _refuse_remote(self, agent: Any) -> None:
        """Refuses tools that run elsewhere, where no guard sees them."""
        if agent.a2a is not None:
            raise InputError(f"the agent {agent.role!r} hands tasks to remote agents (a2a), which no guard sees")
        for llm in (agent.llm, agent.function_calling_llm):
            refuse_provider_tools(llm, self._unguarded)

    # --- tools

    def guard_executor(self, executor: Any) -> None:
        require_parts(executor, *EXECUTOR_PARTS)
        self._refuse_remote(executor.agent)  # its model may be another one by now
        kind: Any = type(executor)
        executor.__class__ = guarded_executor_class(kind)
        executor.original_tools = self.guarded_tools(executor.original_tools)
        executor.tools = parse_tools(executor.original_tools)
        executor._guardagent = self  # noqa: SLF001 - of the guarded class
        executor._step_executor = None  # noqa: SLF001 - it has the tools of an earlier task
        if executor.tools_handler is not None:
            executor.tools_handler.cache = None  # a cached result would get past the guard
        if self.guard.judges_answers and hasattr(executor.llm, "stream"):
            executor.llm.stream = False  # no part of an answer is shown before it is judged

    def guarded_tools(self, tools: Iterable[Any]) -> list[Any]:
        own = [self._bare(one) for one in tools if not isinstance(one, DeferredToolResultReader)]
        read = [self._read(one) for one in own]
        unread = self._unaccepted(zip(own, read, strict=True))
        made = [
            guarded_tool(tool, arguments, self, unread=arguments.spec.name in unread)
            for tool, arguments in zip(own, read, strict=True)
        ]
        return [*made, *(one for one in tools if isinstance(one, DeferredToolResultReader))]

    def _bare(self, tool: Any) -> Any:
        """Returns the tool behind a guarded one of this attachment; others as they are."""
        return tool.guarded_by(self) if isinstance(tool, CrewTool) else tool

    def _read(self, tool: Any) -> CrewArguments:
        """Reads a tool's declaration, and guards the agents that it delegates to."""
        if isinstance(tool, CrewTool):
            raise InputError(f"the tool {tool.name!r} is guarded already; expected the tool itself")
        for agent in getattr(tool, "agents", None) or ():
            if isinstance(agent, BaseAgent):
                self.guard_agent(agent)
        named = sanitize_tool_name(tool.name)
        require_parts(tool, "_run", "_arun", "_validate_kwargs", "args_schema", "format_output_for_agent")
        arguments = CrewArguments.of(tool, self._unjudged.get(named) or self._unjudged.get(tool.name, ()))
        self.listed.add(arguments.spec)
        return arguments

    def _unaccepted(self, tools: Iterable[tuple[BaseTool, CrewArguments]]) -> set[str]:
        """Compares the tools of servers with the accepted ones. Returns the names of those that may not be called."""
        servers: dict[str, list[ToolSpec]] = {}
        for tool, arguments in tools:
            if (server := server_of(tool)) is not None:
                servers.setdefault(server, []).append(arguments.spec)
        return unaccepted_names(self.guard, servers)

    def list_tools(self, crew: Any) -> None:
        """Compares the tools that are known now with the rules; the others come with their first run."""
        agents, tools = [crew], list(crew.tools or ()) if isinstance(crew, Agent) else []
        if isinstance(crew, Crew):
            agents = [*crew.agents, *(one.agent for one in crew.tasks if one.agent is not None)]
            tools = [tool for owner in (*agents, *crew.tasks) for tool in owner.tools or ()]
            if crew.process is Process.hierarchical or any(one.allow_delegation for one in agents):
                tools += AgentTools(agents=crew.agents).tools()
        for tool in tools:
            self._read(tool)
        if not any(one.mcps or one.apps for one in agents):
            self.listed.check()

    # --- runs

    def begin_run(self, executor: Any = None, last_task: Any = None) -> CrewScope:
        """Returns the surroundings of a new run: within a tool, those of the call.

        Args:
            executor: the executor of an agent's run; its tools are compared with the rules.
            last_task: the last task of a crew's run.

        Raises:
            InputError: a rule names a tool that is probably a misspelling of one of the agents'.
        """
        if executor is not None:
            self.listed.check()  # the host makes executors before it knows all tools
        return self.begin(lambda outer: CrewRun(outer, executor=executor, last_task=last_task))

    def propose(self, proposed: Iterable[Any] | None) -> CrewScope:
        """Notes a call that a model proposed. Returns the surroundings in which it runs."""
        around = self.around()
        call_id = next(iter(proposed), None) if proposed else None
        if not isinstance(call_id, str) or around.call is not None:
            return around
        self.proposed(around).add(call_id)
        return replace(around, tool_id=call_id)
