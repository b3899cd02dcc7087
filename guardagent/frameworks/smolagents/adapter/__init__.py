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

from guardagent.enforcement import EnforcementPoint, HostCall, Outcome, ToolSpec, run
from guardagent.enforcement.calls import plain_arguments, plain_value
from guardagent.enforcement.host_adapter import ListedTools, noted_denial, proposed_ids
from guardagent.enforcement.host_runs import Named, naming
from guardagent.enforcement.tool_arguments import as_judged
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.smolagents.adapter.agents import (
    PARTS,
    AnswerCheck,
    SmolagentsArguments,
    SmolagentsParts,
    SmolagentsTool,
    code_function,
    guard_executor,
    guarded_class,
    guarded_function,
    surroundings,
    value_copy,
)
from guardagent.frameworks.smolagents.adapter.runs import (
    UNNAMED,
    AgentHalted,
    SmolagentsScope,
    call_key,
    chat,
    conversation,
    enter,
    scope,
    shown_calls,
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
    attachment.check_tools()
    return agent


class SmolagentsAttachment(SmolagentsParts):
    """Guards the tools of agents, and judges their calls."""

    def __init__(self, guard: EnforcementPoint, named: Named, unjudged: Mapping[str, Collection[str]]) -> None:
        self.guard, self.unjudged, self._name = guard, unjudged, naming(named)
        self._listed = ListedTools(guard)

    # --- agents and tools

    def guard_agent(self, agent: Any) -> None:
        """Guards an agent and those that it manages. Does nothing to what is guarded already."""
        if not isinstance(agent, MultiStepAgent):
            raise InputError(f"this is a {type(agent).__name__}; expected an agent of smolagents")
        owner = getattr(agent, "guardagent_attachment", None)
        if owner is not None and owner.guard is not self.guard:
            raise InputError("this agent has another guard already; expected one guard for all agents")
        if owner is None:
            require_parts(agent, *PARTS)
            agent.__class__ = guarded_class(type(agent), self)
        elif owner is not self:
            self._listed.add(*owner._listed.specs.values())  # noqa: SLF001 - of the same class
        self._guard_parts(agent)

    def refresh(self, agent: Any) -> None:
        self._guard_parts(agent)
        self.check_tools()

    def _guard_parts(self, agent: Any) -> None:
        for name, tool in agent.tools.items():
            _require_name(name, tool)
            if not (isinstance(tool, SmolagentsTool) and tool.guardagent_guard is self.guard):
                agent.tools[name] = self._tool(tool)
        for name, managed in agent.managed_agents.items():
            _require_name(name, managed)
            if getattr(managed, "guardagent_attachment", None) is not self:
                self.guard_agent(managed)
            self.list_tool(ToolSpec(managed.name, _TASK, managed.description or "", unlisted_arguments=None))
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
        self.list_tool(arguments.spec)
        return SmolagentsTool(tool, arguments, self.invoke, self.guard)

    def code_function(self, name: str, tool: Any) -> Callable[..., Any]:
        if isinstance(tool, MultiStepAgent):
            self.guard_agent(tool)
            _require_name(name, tool)
            return code_function(tool, name)
        if isinstance(tool, Tool):
            _require_name(name, tool)
        if isinstance(tool, SmolagentsTool) or type(tool) is FinalAnswerTool:
            return code_function(tool, name)
        return code_function(self._tool(tool), name) if isinstance(tool, Tool) else guarded_function(self, tool, name)

    def list_tool(self, spec: ToolSpec) -> None:
        self._listed.add(spec)

    def check_tools(self) -> None:
        """Compares new or changed tools with the rules."""
        self._listed.check()

    # --- a run

    def begin(self, agent: Any) -> SmolagentsScope:
        around = surroundings(self._name(), agent)
        if around.call is None and around.conversation:
            self.guard.turn(around.conversation)
        return around

    def propose(self, call: Any) -> None:
        around = scope()
        if around is not None and around.conversation:
            proposed_ids(self.guard, around.conversation).add(call_key(call))

    # --- a call

    def invoke(
        self, arguments: SmolagentsArguments, args: tuple[Any, ...], kwargs: Mapping[str, Any], work: Callable[..., Any]
    ) -> Any:
        try:
            judged, apart = arguments.bind(args, kwargs)
        except InputError as error:
            raise self._refusal(arguments.spec.name, str(error)) from None

        def ready(edited: Mapping[str, Any]) -> dict[str, Any]:
            return arguments.bind((), {**edited, **apart})[0]

        return self._run(arguments.spec.name, judged, lambda args: work(**args, **apart), ready)

    def invoke_agent(self, agent: Any, task: Any, kwargs: Mapping[str, Any], work: Callable[..., Any]) -> Any:
        try:
            judged = value_copy({"task": task, **kwargs}, f"the arguments of {agent.name}")
        except InputError as error:
            raise self._refusal(str(agent.name), str(error)) from None
        return self._run(str(agent.name), judged, lambda args: work(**args))

    def _run(self, name: str, judged: Mapping[str, Any], work: Callable[[Any], Any], ready: Any = None) -> Any:
        call, inner = self._call(name, judged, validate_edit=ready), scope()

        def execute(args: Mapping[str, Any]) -> Any:
            with enter(SmolagentsScope(call.conversation, inner.run if inner is not None else None, call)):
                return work(as_judged(args, judged, plain_arguments(judged)))

        try:
            return run(self.guard, call, execute, _outcome)
        except ToolDenied as denied:
            raise noted_denial(denied, inner or SmolagentsScope(call.conversation), UNNAMED) from None

    def _call(self, name: str, args: Mapping[str, Any], **options: Any) -> HostCall:
        around = scope() or SmolagentsScope(self._name())
        if around.run is not None:
            options |= {"step": f"{around.run.id}.{around.run.step}", "agent": around.run.agent.name}
        if around.run is not None and around.call is None:
            steps = around.run.agent.memory.steps
            proposed = self.guard.notes(around.conversation).get("proposed", ()) if around.conversation else ()
            seen = [one for key, one in shown_calls(steps) if key not in proposed]
            options |= {"messages": chat(steps), "seen": seen}
        return HostCall(name, args, around.conversation, **options)

    def _refusal(self, name: str, problem: str) -> ToolDenied:
        verdict = self.guard.refuse(self._call(name, {}), problem)
        denied, around = ToolDenied(name, verdict), scope()
        if around is not None and around.run is not None:
            around.run.note(name, verdict)
        return denied


def _require_name(name: str, tool: Any) -> None:
    """Requires that the name by which the model calls a tool or an agent is the one by which it is judged.

    Raises:
        InputError: it has another name.
    """
    judged = tool.guardagent_arguments.spec.name if isinstance(tool, SmolagentsTool) else getattr(tool, "name", name)
    if name != judged:
        raise InputError(f"{judged!r} is called {name!r} here, and would be judged as {judged!r}; expected one name")


def _outcome(output: Any) -> Outcome:
    try:
        return Outcome(plain_value(output))
    except InputError:
        return Outcome(str(output))
