"""Attaches a guard to an agent."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from pydantic_ai import Agent
from pydantic_ai.toolsets import AbstractToolset, DynamicToolset, FunctionToolset

from guardagent._support.requirements import require_parts
from guardagent.enforcement import EnforcementPoint
from guardagent.enforcement.hosts import UNREAD, ListedTools, Named, naming
from guardagent.errors import InputError
from guardagent.frameworks.pydantic_ai.adapter.agent_class import ATTACHMENT, StreamMark, guarded_class
from guardagent.frameworks.pydantic_ai.adapter.agent_class import PARTS as AGENT_PARTS
from guardagent.frameworks.pydantic_ai.adapter.answers import refuse_native_tools
from guardagent.frameworks.pydantic_ai.adapter.approvals import rejections
from guardagent.frameworks.pydantic_ai.adapter.arguments import PydanticArguments, schema_of
from guardagent.frameworks.pydantic_ai.adapter.calls import PydanticCalls, Work
from guardagent.frameworks.pydantic_ai.adapter.capability import PARTS as CAPABILITY_PARTS
from guardagent.frameworks.pydantic_ai.adapter.capability import GuardCapability
from guardagent.frameworks.pydantic_ai.adapter.guarded_toolset import (
    GuardedToolset,
    OwnToolset,
    guarded_dynamic,
    without_description,
)
from guardagent.frameworks.pydantic_ai.adapter.outputs import may_wait, output_functions
from guardagent.frameworks.pydantic_ai.adapter.runs import PydanticRun, new_run
from guardagent.frameworks.pydantic_ai.adapter.servers import is_durable, late_tools, server_of

AnyAgent = TypeVar("AnyAgent", bound=Agent[Any, Any])
_DURABLE = "{} runs tools in another process, where this guard does not judge; expected an agent without it"


def guarded(
    agent: AnyAgent, guard: EnforcementPoint, *, conversation: Named = None, unguarded: Collection[str] = ()
) -> AnyAgent:
    """Attaches a guard in place to an agent: to every run, whatever tools, toolsets or overrides the run gets.

    Args:
        agent: an Agent without another guard.
        guard: decides.
        conversation: the conversation's id, or a function that returns it; by default that of the
            `with conversation(id):` around the run, or the `conversation_id` that is passed to it.
        unguarded: the tools that run where no guard sees them, and may: those of the model's provider, by their kind,
            and external tools, by their name.

    Returns:
        The agent.

    Raises:
        InputError: a tool cannot be guarded, a rule names a tool that is probably a misspelling of one of the agent's,
            or the agent has another guard.
    """
    attachment = PydanticAttachment(guard, conversation, frozenset(unguarded))
    attachment.guard_agent(agent)
    return agent


class PydanticAttachment:
    """One guard at its agent.

    Attributes:
        guard: decides.
    """

    def __init__(self, guard: EnforcementPoint, named: Named, unguarded: frozenset[str]) -> None:
        self.guard, self._name, self._unguarded = guard, naming(named), unguarded
        self.calls = PydanticCalls(guard)
        self._listed = ListedTools(guard)
        self._read: dict[str, tuple[Any, Any, PydanticArguments]] = {}  # name -> what was read, and the arguments

    def guard_agent(self, agent: Any) -> None:
        """Guards an agent."""
        if not isinstance(agent, Agent):
            raise InputError(f"this is a {type(agent).__name__}; expected an Agent of Pydantic AI")
        if ATTACHMENT in vars(agent):
            raise InputError("this agent has a guard already; expected one guard for each agent")
        require_parts(agent, *AGENT_PARTS)
        require_parts(GuardCapability, *CAPABILITY_PARTS)
        self._refuse_durable(agent.root_capability)
        tools = agent.root_capability.get_native_tools()
        refuse_native_tools([one for one in tools if not callable(one)], self._unguarded)
        self._check_functions(agent.toolsets)
        kind: Any = type(agent)
        agent.__class__ = guarded_class(kind)
        vars(agent)[ATTACHMENT] = self

    def _check_functions(self, toolsets: Any) -> None:
        """Compares the tools with the rules, if all are known before a run."""
        if any(not isinstance(one, FunctionToolset) for one in toolsets):
            return
        for toolset in toolsets:
            for name, tool in toolset.tools.items():
                made_of = tool.function_schema
                schema, described = made_of.json_schema, tool.description
                read = PydanticArguments.declared(name, schema, described, made_of.validator, made_of)
                self._listed.add(read.spec)
        self.check_tools()

    def check_tools(self) -> None:
        """Compares new or changed tools with the rules."""
        self._listed.check()

    def _refuse_durable(self, capability: Any) -> None:
        found: list[Any] = []
        capability.apply(found.append)
        for one in found:
            if is_durable(one):
                raise InputError(_DURABLE.format(type(one).__name__))

    # --- a run

    def begin(self, agent: Any, options: dict[str, Any]) -> dict[str, Any]:
        """Returns the options of a new run, with the guard's capability."""
        capabilities = list(options.get("capabilities") or ())
        output_type = options.get("output_type") or agent.output_type
        run = new_run(
            self._name(),
            explicit=any(options.get(name) is not None for name in ("conversation_id", "conversation")),
            streamed=any(isinstance(one, StreamMark) for one in capabilities),
            waits=may_wait(output_type),
            functions=output_functions(output_type),
            rejected=rejections(options.get("deferred_tool_results")),
        )
        own = [one for one in capabilities if not isinstance(one, StreamMark)]
        return {**options, "capabilities": [*own, GuardCapability(self.calls, run, {}, self._unguarded)]}

    def toolset(self, toolset: Any, capability: Any) -> Any:
        """Returns the guarded form of all tools of a run.

        Args:
            toolset: the run's.
            capability: the capabilities of the run; without the guard's, each call is denied.

        Raises:
            InputError: its tools run in another process.
        """
        found: list[Any] = []
        if capability is not None:
            self._refuse_durable(capability)
            capability.apply(found.append)
        own = next((one for one in found if isinstance(one, GuardCapability) and one.calls is self.calls), None)
        run, arguments = (own.run, own.arguments) if own is not None else (None, {})

        def guarded_own(one: AbstractToolset[Any]) -> AbstractToolset[Any]:
            if is_durable(one):
                raise InputError(_DURABLE.format(type(one).__name__))
            if type(one) is DynamicToolset:
                return guarded_dynamic(one, guarded_own)
            return one if _is_output(one) else OwnToolset(one, self, run, arguments)

        try:
            inner = toolset.visit_and_replace(guarded_own)
        except TypeError as error:  # the host copies a toolset by the fields of its dataclass
            raise InputError(f"a toolset cannot be copied for a run ({error}); expected a dataclass") from None
        return GuardedToolset(inner, self, run, arguments)

    # --- tools

    def list_tools(self, tools: Mapping[str, Any], arguments: dict[str, PydanticArguments]) -> None:
        for name, tool in tools.items():
            if tool.tool_def.kind == "output":
                continue
            if tool.tool_def.kind == "external" and name not in self._unguarded:
                raise InputError(
                    f"the external tool {name!r} runs outside of the agent, where no guard sees it; take it away, or "
                    f"say unguarded={{{name!r}}} if it may run without one"
                )
            if name not in arguments:
                arguments[name] = self._arguments(name, tool)
            if self.guard.accepted.unaccepted(name) is None:
                self._listed.specs[name] = arguments[name].spec
        self.check_tools()

    def own_tools(
        self, toolset: Any, names: Mapping[str, str], tools: dict[str, Any], arguments: dict[str, PydanticArguments]
    ) -> dict[str, Any]:
        for name, tool in tools.items():
            arguments[names[name]] = self._arguments(names[name], tool)
        server = server_of(toolset)
        if server is None:
            return tools
        late = late_tools(self.guard, server, [arguments[names[name]].spec for name in tools])
        return {name: without_description(one, UNREAD) if names[name] in late else one for name, one in tools.items()}

    def _arguments(self, name: str, tool: Any) -> PydanticArguments:
        """Reads the declaration of a tool, unless it is the one that was read before."""
        made_of = (schema_of(tool), tool.args_validator)
        known = self._read.get(name)
        if (
            known is None
            or known[0] != tool.tool_def
            or any(one is not other for one, other in zip(known[1], made_of, strict=True))
        ):
            known = self._read[name] = (tool.tool_def, made_of, PydanticArguments.of(name, tool))
        return known[2]

    async def invoke(
        self, run: PydanticRun | None, arguments: PydanticArguments, args: Any, ctx: Any, tool: Any, work: Work
    ) -> Any:
        return await self.calls.invoke(run, arguments, args, ctx, tool, work)

    def may_pass(self, name: str, args: Any) -> bool:
        return self.calls.may_pass(name, args)


def _is_output(toolset: Any) -> bool:
    return type(toolset).__name__ == "OutputToolset"
