"""Pydantic AI: `agent = guarded(agent, guard)`.

    guarded(agent, guard)       every tool, toolset, MCP server and output function of an agent's runs
    conversation(id)            names the conversation of the runs inside it, as `conversation_id=` of a run does
    answer_requests(requests, {...})    reviewers' answers to the guard's requests among `DeferredToolRequests`
    AgentRunHalted              raised by a run when a rule halts it
    AgentRunEnded               raised by a run that gave up, and whose output cannot be a text

Extra: `guardagent[pydantic-ai]`.

One guarded toolset is around all tools of a run, and judges; one is at each toolset with tools of its own.

The guard's part in the life of a run: its capability, and its output types.

The output types tell the output functions, and whether the run may end with requests to reviewers.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeVar, get_args

from guardagent._support.requirements import require, require_parts
from guardagent.frameworks.pydantic_ai.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA, TRIED)

from pydantic_ai import Agent, DeferredToolRequests, ModelRetry, NativeOutput, PromptedOutput, TextOutput, ToolOutput
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.toolsets import AbstractToolset, DynamicToolset, FunctionToolset, WrapperToolset

from guardagent._support.execution import adrive
from guardagent.enforcement import EnforcementPoint, ToolSpec, make_ids_unique
from guardagent.enforcement.host_adapter import UNREAD, HostAdapter, unaccepted_names, withheld
from guardagent.enforcement.host_runs import Named, awaited
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.pydantic_ai.adapter.approvals import (
    GuardedModel,
    answer_requests,
    denial,
    forget_answer,
    record_rejections,
    refuse_native_tools,
    rejections,
)
from guardagent.frameworks.pydantic_ai.adapter.calls import (
    PydanticArguments,
    PydanticInvocation,
    drive_call,
    may_pass,
    parameters_of,
    schema_of,
)
from guardagent.frameworks.pydantic_ai.adapter.runs import (
    SURROUNDINGS,
    UNNAMED,
    AgentRunEnded,
    AgentRunHalted,
    PydanticRun,
    PydanticScope,
    conversation,
    new_run,
)

__all__ = ["AgentRunEnded", "AgentRunHalted", "answer_requests", "conversation", "guarded"]

# --- output types

_WRAPPERS = {ToolOutput: "output", TextOutput: "output_function", NativeOutput: "outputs", PromptedOutput: "outputs"}


def may_wait(output_type: Any) -> bool:
    """Whether a run with this output type may end with requests to reviewers."""
    return any(member is DeferredToolRequests for member in _members(output_type))


def output_functions(output_type: Any) -> Mapping[str, Any]:
    """Returns the output functions by name."""
    members = [member for member in _members(output_type) if inspect.isroutine(member)]
    return {member.__name__: member for member in members}


def named_arguments(function: Any, output: Any) -> dict[str, Any]:
    """Returns the arguments of an output function by name, from what the host passes on."""
    names = [parameter.name for parameter in parameters_of(function)] if function is not None else ["output"]
    if isinstance(output, Mapping) and set(output) <= set(names):
        return dict(output)
    return {names[0] if names else "output": output}


def passed_on(output: Any, named: Mapping[str, Any], args: Mapping[str, Any]) -> Any:
    """Returns judged arguments in the form in which the host passes them on.

    Args:
        output: the host's form.
        named: its arguments by name.
        args: the judged ones.
    """
    if isinstance(output, Mapping) and set(named) == set(output):
        return dict(args)
    (name,) = named
    return args[name]


def _members(output_type: Any) -> Iterator[Any]:
    for kind, name in _WRAPPERS.items():
        if isinstance(output_type, kind):
            output_type = getattr(output_type, name)
    if isinstance(output_type, Sequence) and not isinstance(output_type, str):
        members: Sequence[Any] = output_type
    else:
        members = () if isinstance(output_type, type) else get_args(output_type)
    if not members:
        yield output_type
    for member in members:
        yield from _members(member)


# --- the capability

CAPABILITY_PARTS = (
    "get_ordering",
    "get_wrapper_model",
    "before_run",
    "wrap_model_request",
    "after_tool_validate",
    "wrap_output_process",
    "handle_deferred_tool_calls",
)
_PARTIAL = "the guard judges the whole output"


class GuardCapability(AbstractCapability[Any]):
    """Follows a run: its messages, its requests to the model, and its output.

    Args:
        adapter: judges.
        run: the run.
        arguments: the arguments of the run's tools.
        unguarded: the provider's tools that may run.
    """

    def __init__(
        self,
        adapter: HostAdapter[PydanticScope],
        run: PydanticRun,
        arguments: dict[str, PydanticArguments],
        unguarded: Collection[str],
    ) -> None:
        self.adapter, self.guard = adapter, adapter.guard
        self.run, self.arguments, self._unguarded = run, arguments, unguarded

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="outermost")

    def get_wrapper_model(self, model: Any) -> Any:
        return GuardedModel(model, self.adapter, self.run, self._unguarded)

    async def before_run(self, ctx: Any) -> None:
        self.run.read(ctx)
        own = AbstractCapability.handle_deferred_tool_calls
        handled = any(
            type(capability).handle_deferred_tool_calls is not own for capability in ctx.capabilities.values()
        )
        self.run.waits = self.run.waits or handled
        if self.run.call is None and self.run.conversation:
            self.guard.turn(self.run.conversation)
        await record_rejections(self.guard, self.run)

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> ModelResponse:
        """Asks the model, unless the guard has ended the run."""
        run = self.run
        run.read(ctx)
        run.step += 1
        if run.halted is not None:
            raise run.halted
        if run.final is not None:
            return self._last_words(request_context.model_request_parameters)
        proposed = self.adapter.proposed(run.around())
        run.outputs = {tool.name for tool in request_context.model_request_parameters.output_tools}
        run.show(request_context.messages, proposed, run.outputs)
        response: ModelResponse = await handler(request_context)
        proposed.update(make_ids_unique(response.tool_calls, "tool_call_id"))
        return response

    def _last_words(self, parameters: Any) -> ModelResponse:
        verdict, text = self.run.gave_up, self.run.final or ""
        assert verdict is not None
        if not (parameters.allow_text_output and parameters.output_mode in ("text", "tool")):
            raise AgentRunEnded("", verdict)
        return ModelResponse(parts=[TextPart(text)])

    async def after_tool_validate(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        """Judges a call whose tool requires approval, and shows the reviewer the guard's request."""
        if tool_def.kind == "unapproved" and not ctx.tool_call_approved and self.run.waits:
            known = self.arguments.get(call.tool_name)
            spec = ToolSpec(call.tool_name, tool_def.parameters_json_schema, tool_def.description or "")
            arguments = known or PydanticArguments(spec)
            await drive_call(self.run, PydanticInvocation(self.adapter, self.run, arguments, args, ctx).ask_first())
        return args

    async def wrap_output_process(self, ctx: Any, *, output_context: Any, output: Any, handler: Any) -> Any:
        """Judges the call of an output function, and the answer."""
        judges = self.guard.judges_answers and self.run.call is None
        if ctx.partial_output and (judges or output_context.has_function):
            raise ModelRetry(_PARTIAL)  # the host leaves out a partial output that is not valid
        try:
            result = await self._processed(ctx, output_context, output, handler)
            verdict = await denial(self.adapter, self.run, result)
        except ToolDenied as denied:
            if denied is self.run.halted:
                raise
            raise ModelRetry(str(denied)) from None
        if verdict is None:
            return result
        text = withheld(verdict)
        forget_answer(ctx.messages, text)
        if isinstance(result, str) and output_context.allows_text:
            return text
        raise ModelRetry(text)

    async def _processed(self, ctx: Any, output_context: Any, output: Any, handler: Any) -> Any:
        if not output_context.has_function:
            return await handler(output)
        call = output_context.tool_call
        name = output_context.function_name or (call.tool_name if call is not None else "output")
        function = self.run.functions.get(name)
        named = named_arguments(function, output)

        if call is not None and ctx.tool_call_id is None:
            ctx = replace(ctx, tool_call_id=call.tool_call_id)
        parameters = parameters_of(function) if function is not None else []
        defaults = {
            parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty
        }
        arguments = PydanticArguments(ToolSpec(name), defaults=defaults if isinstance(output, dict) else {})
        invocation = PydanticInvocation(self.adapter, self.run, arguments, named, ctx)
        try:
            return await adrive(invocation.steps(lambda args: awaited(lambda: handler(passed_on(output, named, args)))))
        except ToolDenied as denied:
            self.run.note(denied.tool, denied.verdict)
            raise (self.run.halted or denied) from None


# --- the class of a guarded agent

ATTACHMENT = "guardagent_attachment"
PARTS = ("iter", "run_stream", "root_capability", "toolsets", "_get_toolset", "_resolve_realtime_session")


class StreamMark(AbstractCapability[Any]):
    """Tells `iter` that `run_stream` runs it."""


@cache
def guarded_class(base: Any) -> Any:
    """Returns the class of an agent with a guard. Every run has the guard's capability, and all tools are guarded.

    `run`, `run_sync`, `run_stream` and `run_stream_events` run `iter`, and so do the host's servers and interfaces. The
    class has one base only, since an agent can change its class to no other.
    """
    return type(base)(base.__name__, (base,), {"__module__": base.__module__, **_methods(base)})


def _methods(base: Any) -> dict[str, Callable[..., Any]]:
    def iter(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A001 - the host's name
        return base.iter(self, *args, **_attachment(self).run_options(self, kwargs))

    def run_stream(self: Any, *args: Any, **kwargs: Any) -> Any:
        capabilities = [*(kwargs.pop("capabilities", None) or ()), StreamMark()]
        return base.run_stream(self, *args, capabilities=capabilities, **kwargs)

    def _get_toolset(self: Any, *args: Any, **kwargs: Any) -> Any:
        toolset = base._get_toolset(self, *args, **kwargs)  # noqa: SLF001 - the host's seam
        return _attachment(self).toolset(toolset, kwargs.get("run_capability"))

    def _resolve_realtime_session(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG001 - the host's arguments
        raise InputError("a realtime session speaks before its answer can be judged; run a guarded agent without one")

    return {method.__name__: method for method in (iter, run_stream, _get_toolset, _resolve_realtime_session)}


def _attachment(agent: Any) -> Any:
    return vars(agent)[ATTACHMENT]


# --- toolsets


async def judged_call(toolset: GuardedToolset | OwnToolset, name: str, args: Any, own: str, ctx: Any, tool: Any) -> Any:
    """Judges a call, and lets the wrapped toolset run it with the judged arguments.

    Args:
        toolset: the guarded one.
        name: the name of the tool for the model.
        args: the arguments.
        own: the name of the tool in the wrapped toolset.
        ctx: the host's context of the call.
        tool: the tool.

    Raises:
        ToolFailed, AgentRunHalted, ApprovalRequired: as of `drive_call`.
    """
    run, arguments = toolset.run or PydanticRun(), toolset.arguments.get(name) or PydanticArguments.of(name, tool)
    invocation = PydanticInvocation(toolset.attachment, run, arguments, args, ctx, tool)
    call_tool = toolset.wrapped.call_tool
    return await drive_call(run, invocation.steps(lambda judged: awaited(lambda: call_tool(own, judged, ctx, tool))))


@dataclass
class GuardedToolset(WrapperToolset[Any]):
    """All tools of a run: judges each call as the model knows it.

    Attributes:
        attachment: judges.
        run: the run; None if there is none, so that each call is denied.
        arguments: the arguments of each tool, by the name that the model knows.
    """

    attachment: PydanticAttachment
    run: PydanticRun | None
    arguments: dict[str, PydanticArguments] = field(default_factory=dict)

    async def get_tools(self, ctx: Any) -> dict[str, Any]:
        tools: dict[str, Any] = await super().get_tools(ctx)
        self.attachment.list_tools(tools, self.arguments)
        return tools

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        return await judged_call(self, name, tool_args, name, ctx, tool)


@dataclass
class OwnToolset(WrapperToolset[Any]):
    """A toolset with tools of its own: a call passes only as it was judged. Any other call is judged here.

    So a toolset in between cannot change a judged call, and what it calls by itself is judged.

    Attributes:
        attachment: judges.
        run: the run.
        arguments: as of the GuardedToolset around.
        names: the name of a tool here -> its name for the model.
    """

    attachment: PydanticAttachment
    run: PydanticRun | None
    arguments: dict[str, PydanticArguments]
    names: dict[str, str] = field(default_factory=dict)

    async def get_tools(self, ctx: Any) -> dict[str, Any]:
        tools = await super().get_tools(ctx)
        self.names.update({name: _public_name(ctx, name) for name in tools})
        return self.attachment.own_tools(self.wrapped, self.names, tools, self.arguments)

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        public = self.names.get(name, name)
        if may_pass(public, tool_args):
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        return await judged_call(self, public, tool_args, name, ctx, tool)


def guarded_dynamic(toolset: Any, guard: Callable[[Any], Any]) -> Any:
    """Returns a dynamic toolset whose function returns guarded toolsets.

    Args:
        toolset: its own.
        guard: guards a toolset with tools of its own.
    """
    last: list[Any] = [None, None]

    async def made(ctx: Any) -> Any:
        own = toolset.toolset_func(ctx)
        own = await own if inspect.isawaitable(own) else own
        if own is not last[0]:  # the host enters a toolset again if it is another one
            last[:] = [own, None if own is None else own.visit_and_replace(guard)]
        return last[1]

    return DynamicToolset(made, per_run_step=toolset.per_run_step, id=toolset.id)


def without_description(tool: Any, text: str) -> Any:
    """Returns a tool without its server's unreviewed description and schema."""
    schema = {"type": "object", "properties": {}}
    return replace(tool, tool_def=replace(tool.tool_def, description=text, parameters_json_schema=schema))


def own_toolsets(toolset: AbstractToolset[Any]) -> list[AbstractToolset[Any]]:
    """Returns the toolsets with tools of their own."""
    abstract_toolsets: list[AbstractToolset[Any]] = []
    toolset.apply(abstract_toolsets.append)
    return abstract_toolsets


def _public_name(ctx: Any, name: str) -> str:
    """Returns the model's name of a tool, after the prefixes and names of the toolsets around."""
    for layer in reversed(getattr(ctx, "_tool_name_path", ())):
        name = f"{layer}_{name}" if isinstance(layer, str) else layer.get(name, name)
    return name


# --- toolsets of MCP servers and of other processes


def server_of(toolset: Any) -> str | None:
    """Returns the key of the server of an MCP toolset; None for other toolsets."""
    servers = [toolset for toolset in own_toolsets(toolset) if _has_module(toolset, "pydantic_ai.mcp")]
    if not servers:
        return None
    address = [_address(server) for server in servers]
    shown = ", ".join(str(server.id or type(server).__name__) for server in servers)
    return f"{shown} ({hashlib.sha256(repr(address).encode()).hexdigest()[:8]})"


def is_durable(thing: Any) -> bool:
    """Whether a toolset or a capability runs tools in another process, as Temporal, DBOS and Prefect do."""
    return _has_module(thing, "pydantic_ai.durable_exec")


def _address(toolset: Any) -> list[Any]:
    transport = getattr(getattr(toolset, "client", None), "transport", None)
    fields: Mapping[str, Any] = getattr(transport, "__dict__", {})
    return [fields.get(name) for name in ("url", "command", "args")]


def _has_module(thing: Any, module: str) -> bool:
    return any(f"{kind.__module__}.".startswith(f"{module}.") for kind in type(thing).__mro__)


# --- attaching

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


class PydanticAttachment(HostAdapter[PydanticScope]):
    """One guard at its agent."""

    def __init__(self, guard: EnforcementPoint, named: Named, unguarded: frozenset[str]) -> None:
        super().__init__(guard, SURROUNDINGS, named, UNNAMED)
        self._unguarded = unguarded
        self._read: dict[str, tuple[Any, Any, PydanticArguments]] = {}  # name -> what was read, and the arguments

    def guard_agent(self, agent: Any) -> None:
        """Guards an agent."""
        if not isinstance(agent, Agent):
            raise InputError(f"this is a {type(agent).__name__}; expected an Agent of Pydantic AI")
        if ATTACHMENT in vars(agent):
            raise InputError("this agent has a guard already; expected one guard for each agent")
        require_parts(agent, *PARTS)
        require_parts(GuardCapability, *CAPABILITY_PARTS)
        self._refuse_durable(agent.root_capability)
        tools = agent.root_capability.get_native_tools()
        refuse_native_tools([tool for tool in tools if not callable(tool)], self._unguarded)
        self._check_functions(agent.toolsets)
        kind: Any = type(agent)
        agent.__class__ = guarded_class(kind)
        vars(agent)[ATTACHMENT] = self

    def _check_functions(self, toolsets: Any) -> None:
        """Compares the tools with the rules, if all are known before a run."""
        if any(not isinstance(toolset, FunctionToolset) for toolset in toolsets):
            return
        for toolset in toolsets:
            for name, tool in toolset.tools.items():
                made_of = tool.function_schema
                schema, described = made_of.json_schema, tool.description
                read = PydanticArguments.declared(name, schema, described, made_of.validator, made_of)
                self.listed.add(read.spec)
        self.listed.check()

    def _refuse_durable(self, capability: Any) -> None:
        durable: list[Any] = []
        capability.apply(durable.append)
        for part in durable:
            if is_durable(part):
                raise InputError(_DURABLE.format(type(part).__name__))

    # --- a run

    def run_options(self, agent: Any, options: dict[str, Any]) -> dict[str, Any]:
        """Returns the options of a new run, with the guard's capability."""
        capabilities = list(options.get("capabilities") or ())
        output_type = options.get("output_type") or agent.output_type
        run = new_run(
            self.name(),
            explicit=any(options.get(name) is not None for name in ("conversation_id", "conversation")),
            streamed=any(isinstance(capability, StreamMark) for capability in capabilities),
            waits=may_wait(output_type),
            functions=output_functions(output_type),
            rejected=rejections(options.get("deferred_tool_results")),
        )
        own = [capability for capability in capabilities if not isinstance(capability, StreamMark)]
        return {**options, "capabilities": [*own, GuardCapability(self, run, {}, self._unguarded)]}

    def toolset(self, toolset: Any, capability: Any) -> Any:
        """Returns the guarded form of all tools of a run.

        Args:
            toolset: the run's.
            capability: the capabilities of the run; without the guard's, each call is denied.

        Raises:
            InputError: its tools run in another process.
        """
        toolsets: list[Any] = []
        if capability is not None:
            self._refuse_durable(capability)
            capability.apply(toolsets.append)
        own = next((part for part in toolsets if isinstance(part, GuardCapability) and part.adapter is self), None)
        run, arguments = (own.run, own.arguments) if own is not None else (None, {})

        def guarded_own(abstract_toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
            if is_durable(abstract_toolset):
                raise InputError(_DURABLE.format(type(abstract_toolset).__name__))
            if type(abstract_toolset) is DynamicToolset:
                return guarded_dynamic(abstract_toolset, guarded_own)
            return (
                abstract_toolset if _is_output(abstract_toolset) else OwnToolset(abstract_toolset, self, run, arguments)
            )

        try:
            inner = toolset.visit_and_replace(guarded_own)
        except TypeError as error:  # the host copies a toolset by the fields of its dataclass
            raise InputError(f"a toolset cannot be copied for a run ({error}); expected a dataclass") from None
        return GuardedToolset(inner, self, run, arguments)

    # --- tools

    def list_tools(self, tools: Mapping[str, Any], arguments: dict[str, PydanticArguments]) -> None:
        """Compares the tools of a step with the rules.

        Raises:
            InputError: one cannot be guarded, or a rule names a misspelling of one.
        """
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
                self.listed.specs[name] = arguments[name].spec
        self.listed.check()

    def own_tools(
        self, toolset: Any, names: Mapping[str, str], tools: dict[str, Any], arguments: dict[str, PydanticArguments]
    ) -> dict[str, Any]:
        """Reads the tools of one toolset. Returns them, without the descriptions that a server changed.

        Raises:
            InputError: one cannot be guarded.
        """
        for name, tool in tools.items():
            arguments[names[name]] = self._arguments(names[name], tool)
        server = server_of(toolset)
        if server is None:
            return tools
        late = unaccepted_names(self.guard, {server: [arguments[names[name]].spec for name in tools]})
        return {
            name: without_description(tool, UNREAD) if names[name] in late else tool for name, tool in tools.items()
        }

    def _arguments(self, name: str, tool: Any) -> PydanticArguments:
        """Reads the declaration of a tool, unless it is the one that was read before."""
        made_of = (schema_of(tool), tool.args_validator)
        known = self._read.get(name)
        if (
            known is None
            or known[0] != tool.tool_def
            or any(known_part is not other for known_part, other in zip(known[1], made_of, strict=True))
        ):
            known = self._read[name] = (tool.tool_def, made_of, PydanticArguments.of(name, tool))
        return known[2]


def _is_output(toolset: Any) -> bool:
    return type(toolset).__name__ == "OutputToolset"
