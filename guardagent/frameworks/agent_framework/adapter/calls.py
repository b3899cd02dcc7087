"""Judges and runs the calls of tools, with the arguments that their functions receive.

In the guarded copy of a tool the host validates and converts as before, and the guard stands at the function. The later
tools of an MCP server are told from the accepted ones, and no call is sent to a server twice.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_framework import FunctionTool, MiddlewareTermination

from guardagent._support.execution import Procedure, adrive
from guardagent._support.requirements import require_parts
from guardagent.enforcement import Approval, EnforcementPoint, HostCall, Outcome, ToolSpec, tool_arguments
from guardagent.enforcement.approval import with_edits
from guardagent.enforcement.host_adapter import HostAdapter, ToolInvocation, explained
from guardagent.enforcement.host_runs import awaited
from guardagent.enforcement.lifecycle import JudgedCall
from guardagent.enforcement.schema import validate_arguments
from guardagent.errors import InputError, error_text
from guardagent.frameworks.agent_framework.adapter import runs
from guardagent.frameworks.agent_framework.adapter.approvals import ANSWER, FunctionApprovalNeeded, call_shown
from guardagent.types import Decision

# --- MCP servers

_SERVER_PARTS = ("_functions", "_recover_connection_after_loss")


def server_of(tool: FunctionTool) -> Any:
    """Returns the MCP server of a tool; None for other tools, also for those that load tools of a server.

    Raises:
        InputError: the host says that it is the tool of a server, and hides which.
    """
    if not any(server_mark in (tool.additional_properties or {}) for server_mark in runs.SERVER_MARKS):
        return None
    function = tool.func
    server = inspect.getclosurevars(function).nonlocals.get("mcp_tool") if inspect.isfunction(function) else None
    if not isinstance(server, runs.MCPTool):
        raise InputError(f"{tool.name!r} does not tell its server; install a version that the adapter was tried with")
    return server


def update_servers(guard: EnforcementPoint, tools: Sequence[FunctionTool], known: Iterable[Any]) -> set[str]:
    """Compares the tools of servers with the accepted ones. Returns the names of those that may not be called.

    Args:
        guard: holds the accepted tools.
        tools: those of a run.
        known: the servers of the agent, also those that have no tools.
    """
    servers = {id(server): server for server in (*known, *map(server_of, tools)) if server is not None}
    for server in servers.values():
        guard.update_server_tools(_key(server), [_spec(function) for function in server._functions])  # noqa: SLF001 - all of them
    return {tool.name for tool in tools if guard.accepted.unaccepted(tool.name) is not None}


def send_once(tool: FunctionTool) -> None:
    """Makes the server of a tool fail where it would send a judged call again over a new connection."""
    server = server_of(tool)
    if server is None or hasattr(server, "guardagent_sends_once"):
        return
    require_parts(server, *_SERVER_PARTS)
    recover = server._recover_connection_after_loss  # noqa: SLF001 - the host has no switch for its retry

    async def recovered(**options: Any) -> None:
        await recover(**options)
        around = runs.scope()
        if options.get("operation") == "tool call" and around is not None and around.call is not None:
            raise runs.ServerAnswerLostError(
                "The connection to the server broke during the call, which may have done its work; it is not repeated."
            )

    server._recover_connection_after_loss, server.guardagent_sends_once = recovered, True  # noqa: SLF001


def _spec(tool: FunctionTool) -> ToolSpec:
    return ToolSpec(tool.name, tool.parameters(), tool.description or "")


def _key(server: Any) -> str:
    """Returns a server's name, which may not be unique, with a digest of its address."""
    where = [getattr(server, name, None) for name in ("command", "args", "url")]
    return f"{server.name} ({hashlib.sha256(repr(where).encode()).hexdigest()[:8]})"


# --- arguments


@dataclass(frozen=True, slots=True)
class FunctionToolArguments:
    """Reads the arguments of a tool.

    Attributes:
        spec: the tool's declaration.
        tool: the tool itself.
        signature: of its function.
        defaults: the arguments that may be left out, with their values.
        context: the parameter through which the host passes its context; None if there is none.
        unjudged: arguments that the program supplies; they are neither judged nor logged.
        server: whether the tool is one of an MCP server.
    """

    spec: ToolSpec
    tool: FunctionTool
    signature: inspect.Signature
    defaults: Mapping[str, Any]
    context: str | None = None
    unjudged: frozenset[str] = frozenset()
    server: bool = False

    @classmethod
    def of(cls, tool: FunctionTool, unjudged: Collection[str] = ()) -> FunctionToolArguments:
        """Reads the declaration of a tool.

        Raises:
            InputError: it has no readable signature, or an argument of a type that no rule can read.
        """
        context = tool._context_parameter_name  # noqa: SLF001 - the host has no public name for it
        hidden = frozenset({*unjudged, *([context] if context else ())})
        signature = _signature(tool)
        tool_arguments.refuse_opaque(tool.name, tool_arguments.annotations_of(signature), hidden, may_hide=True)
        named = {
            parameter.name for parameter in signature.parameters.values() if parameter.kind in tool_arguments.NAMED
        }
        spec = ToolSpec(
            tool.name, tool.parameters(), tool.description or "", unlisted_arguments=frozenset(named - hidden)
        )
        defaults, remote = tool_arguments.defaults_of(signature), server_of(tool) is not None
        return cls(spec, tool, signature, defaults, context, frozenset(unjudged), remote)

    def bind(self, kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns copies of the arguments that the function gets, with defaults, and what is not judged.

        Raises:
            InputError: they do not fit the tool, or one cannot be judged.
        """
        named = dict(kwargs)
        apart = {name: named.pop(name) for name in (*self.unjudged, self.context) if name in named}
        try:
            if self.server and self.context:
                named = {**self._of_program(apart.get(self.context)), **named}
            if self.tool.input_model is None:
                named = validate_arguments(self.spec.name, named, self.spec.schema)
            return tool_arguments.copied_values(self._with_defaults(named, apart)), apart
        except InputError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a value raises when it is read or copied
            raise InputError(f"the arguments of {self.spec.name!r} cannot be judged: {error_text(error)}") from None

    def of_edit(self, edited: Mapping[str, Any], apart: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a reviewer's arguments, after the host's validation.

        Raises:
            InputError: they do not fit the tool.
        """
        if odd := sorted(set(edited) - set(self.spec.schema.get("properties", ())) - set(self.signature.parameters)):
            raise InputError(f"{self.spec.name!r} has no argument {odd[0]!r}")
        return self.bind({**self.tool._prepare_arguments(dict(edited)), **apart})[0]  # noqa: SLF001 - as the host does

    def _of_program(self, context: Any) -> dict[str, Any]:
        """Returns the arguments of the program that the host sends to a server beside those of the model."""
        declared, supplied = self.spec.schema.get("properties", {}), getattr(context, "kwargs", None) or {}
        return {
            name: value for name, value in supplied.items() if name in declared and name not in runs.KEPT_FROM_SERVERS
        }

    def _with_defaults(self, named: Mapping[str, Any], apart: Mapping[str, Any]) -> dict[str, Any]:
        names = self.signature.parameters
        known = [name for name, parameter in names.items() if parameter.kind in tool_arguments.NAMED]
        odd = named.keys() - set(known) if len(known) == len(names) else ()
        absent = [
            parameter_name
            for parameter_name in known
            if parameter_name not in named and parameter_name not in apart and parameter_name not in self.defaults
        ]
        if odd or absent:
            problem = f"{min(odd)!r} is not one of them" if odd else f"{absent[0]!r} is missing"
            raise InputError(f"the arguments of {self.spec.name!r} do not fit: {problem}")
        hidden = {*apart, self.context}
        return {**{name: named.get(name, self.defaults.get(name)) for name in known if name not in hidden}, **named}


def _signature(tool: FunctionTool) -> inspect.Signature:
    """Returns the signature of a tool's function, without `self`, as the host leaves it out."""
    function = tool.func.func if isinstance(tool.func, FunctionTool) else tool.func
    assert function is not None
    return tool_arguments.read_signature(function, tool.name, omit=("self", "cls"))


# --- guarded copies

_TOOL_PARTS = (
    "func",
    "_invoke_function",
    "_prepare_arguments",
    "_context_parameter_name",
    "_instance",
    "max_invocations",
    "max_invocation_exceptions",
)
_OWN = ("invoke", "__call__", "_invoke_function")
_GUARD, _ORIGINAL = "guardagent_adapter", "guardagent_original"

Work = Callable[[Mapping[str, Any]], Awaitable[Any]]
"""The work of a tool with these arguments."""


def guarded_tool(
    tool: FunctionTool, arguments: FunctionToolArguments, adapter: HostAdapter[runs.ClientScope]
) -> FunctionTool:
    """Returns a copy of a tool whose function is judged. The limits of the tool itself still count.

    Raises:
        InputError: the tool does not run its function in the way of the host.
    """
    require_parts(tool, *_TOOL_PARTS)
    if any(getattr(type(tool), name) is not getattr(FunctionTool, name) for name in _OWN):
        raise InputError(
            f"{tool.name!r} is a {type(tool).__name__} with a way of its own to run; expected a FunctionTool, "
            f"or name it in unguarded={{{tool.name!r}}}"
        )
    send_once(tool)
    created = copy.copy(tool)

    async def work(args: Mapping[str, Any]) -> Any:
        return _finished(tool.name, await tool._invoke_function(args))  # noqa: SLF001 - counts calls, and starts threads

    async def call(**kwargs: Any) -> Any:
        return await adrive(ClientInvocation(adapter, arguments.spec.name, kwargs, arguments).answered(work))

    created.func, created._instance = call, None  # noqa: SLF001 - the original is bound
    created.max_invocations = created.max_invocation_exceptions = None  # the original counts
    vars(call).update({_GUARD: adapter, _ORIGINAL: tool})  # the host writes the attributes of a tool into its dict
    return created


def guard_of(tool: Any) -> Any:
    """Returns the adapter of a guarded tool; None for others."""
    return getattr(getattr(tool, "func", None), _GUARD, None)


def original_of(tool: Any) -> Any:
    """Returns the tool behind a guarded one; other tools as they are."""
    return getattr(getattr(tool, "func", None), _ORIGINAL, tool)


def _finished(name: str, output: Any) -> Any:
    """Returns a tool's output if its work is done.

    Raises:
        InputError: the work has not begun, as that of a generator.
    """
    if not (inspect.isgenerator(output) or inspect.isasyncgen(output)):
        return output
    if isinstance(output, type(_ for _ in ())):
        output.close()
    raise InputError(f"{name} returned a {type(output).__name__}, whose work is not done yet")


# --- calls

_CANNOT_ASK = (
    "this run cannot wait for a reviewer: pass session=... to it, or give the guard an approver; an agent that runs "
    "as a tool always needs an approver"
)


_HANDS_OVER = (
    "this call needs human approval, for which the host would drop the hand-off in the same message; "
    "propose it by itself"
)


class ClientInvocation(ToolInvocation[runs.ClientScope]):
    """One call of a tool.

    Args:
        adapter: has the guard.
        name: the name of the tool.
        args: its arguments by name.
        arguments: reads the arguments of the tool; None if the host carries out the call.
        handoff: whether it is a hand-off, to the agent in the argument `to`.
    """

    def __init__(
        self,
        adapter: HostAdapter[runs.ClientScope],
        name: str,
        args: Mapping[str, Any],
        arguments: FunctionToolArguments | None = None,
        *,
        handoff: bool = False,
    ) -> None:
        super().__init__(adapter, name, adapter.around())
        self.target = "to" if handoff else None
        self._args, self._arguments = args, arguments

    def answered(self, work: Work) -> Procedure[Any]:
        """Judges the call at the function of its tool, and runs it with the judged arguments.

        Raises:
            ToolDenied: the call may not run.
            FunctionApprovalNeeded: it waits for a reviewer.
        """
        call, args = yield from self.allowed()
        parameter = self._arguments.context if self._arguments is not None else None
        if parameter is not None and (context := self.apart.get(parameter)) is not None:
            live = {name: value for name, value in args.items() if name not in self.apart}
            context.arguments = tool_arguments.copied_values(live)  # a middleware may keep it while the tool runs
        return (yield from self.run(call, awaited(lambda: work(args))))

    def bind(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return (dict(self._args), {}) if self._arguments is None else self._arguments.bind(self._args)

    def rebind(self, edited: Mapping[str, Any]) -> dict[str, Any]:
        if self._arguments is None:
            raise InputError("the host hands over to the agent that the model named; expected 'approve' or 'reject'")
        return self._arguments.of_edit(edited, self.apart)

    def options(self) -> dict[str, Any]:
        options = super().options()
        options["agent"] = self.around.agent
        return options

    def judge(self, call: HostCall) -> Procedure[JudgedCall]:
        """Judges a call, with a reviewer's answer if there is one.

        Raises:
            FunctionApprovalNeeded: a rule escalates it, and the host can ask a reviewer.
        """
        life, answered, edited = self.guard.lifecycle, self.around.answered, False
        if answered is None:
            verdict, call = yield from life.judge(call)
        else:
            try:
                call = call_shown(call, answered)
            except Exception as error:  # noqa: BLE001 - a host's validation of what a client sends
                return (yield from life.refuse(call, error_text(error))), call
            approval = Approval.read(answered[ANSWER]).validated(call.validate_edit)
            verdict = yield from life.resolve(call, approval)
            call = with_edits(call, approval)
            edited = approval.choice == "edit" or answered.get("edited") is True
        if verdict.decision is not Decision.ESCALATE or self.guard.approver is not None:
            return verdict, call
        run, asks = self.around.run, self.around.asks and self.around.call is None and bool(call.conversation)
        if asks and self.target is None and run is not None and run.hands_over:
            return explained(verdict, _HANDS_OVER), call
        if asks:
            raise FunctionApprovalNeeded(life.request(call, verdict), call, edited=edited)
        return explained(verdict, _CANNOT_ASK), call

    def inside(self, call: HostCall) -> runs.ClientScope:
        run, agent, answered, asks = self.around.run, self.around.agent, self.around.answered, self.around.asks
        return runs.ClientScope(call.conversation, run, call, agent=agent, answered=answered, asks=asks)

    def outcome(self, output: Any) -> Outcome:
        return Outcome() if self._arguments is None else runs.outcome_of(output)

    def failure(self, error: BaseException) -> Outcome:
        if self._arguments is not None:
            return runs.outcome_of_server_error(error) if self._arguments.server else runs.outcome_of_error(error)
        return Outcome() if isinstance(error, MiddlewareTermination) else Outcome.of_error(error)  # it ends the run
