"""The guarded copy of a tool: the guard judges after the host's validation, just before the tool runs.

The host injects some arguments of a tool, and a model may supply the others, which are judged. A tool that a middleware
substituted for the guarded one is refused before it runs. Human approval goes through the host's own interrupt, which a
Command answers.
"""

from __future__ import annotations

import inspect
import json
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any, get_type_hints

from langchain_core.callbacks import BaseCallbackHandler, CallbackManager
from langchain_core.messages import ToolMessage
from langgraph.errors import GraphInterrupt, ParentCommand

from guardagent._support.arguments import bind_to_signature
from guardagent._support.execution import Operation, Procedure, adrive, drive
from guardagent.enforcement import Approval, HostCall, Outcome, ToolSpec
from guardagent.enforcement.approval import with_edits
from guardagent.enforcement.calls import opaque_type, plain_arguments, plain_value
from guardagent.enforcement.decisions import gave_up
from guardagent.enforcement.host_adapter import HostAdapter, ToolInvocation, explained
from guardagent.enforcement.host_runs import HostScope
from guardagent.enforcement.lifecycle import JudgedCall, PermitVoidError
from guardagent.enforcement.schema import validate_arguments
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.langgraph.adapter import runs
from guardagent.types import Decision, Verdict, thaw, unchecked_verdict

# --- arguments


@dataclass(frozen=True, slots=True)
class ToolSignature:
    """The arguments of a tool, and their validation.

    Attributes:
        tool: the tool itself.
        injected: the arguments that the host fills in; they are not judged.
        host_arguments: further parameters that the host passes to the tool's `_run`.
        declared: the names that a model may use; None if the tool accepts any.
        schema: the JSON schema of a tool that has no other validation.
        signatures, inspected: cached signatures, since inspecting is slow.
    """

    tool: Any
    injected: frozenset[str]
    host_arguments: frozenset[str]
    declared: frozenset[str] | None
    schema: Mapping[str, Any] | None
    signatures: dict[Any, inspect.Signature | None] = field(default_factory=dict)
    inspected: dict[str, tuple[inspect.Signature, dict[str, Any]]] = field(default_factory=dict)

    def check(self, arguments: Any) -> Any:
        """Checks the names of arguments before the tool's own validation.

        Raises:
            InputError: a name is not declared; or the arguments do not fit the JSON schema.
        """
        if not isinstance(arguments, dict):
            return arguments
        if self.schema is not None:
            own = {name: value for name, value in arguments.items() if name not in self.injected}
            return {
                **validate_arguments(self.tool.name, own, self.schema),
                **{k: arguments[k] for k in arguments.keys() & self.injected},
            }
        if self.declared is not None and (unknown := arguments.keys() - self.injected - self.declared):
            known = ", ".join(sorted(self.declared - self.injected)) or "none"
            raise InputError(f"the arguments of {self.tool.name!r}: {min(unknown)!r} is not declared; expected {known}")
        return arguments

    def with_signature(self, instead: Callable[..., Any], own: Callable[..., Any]) -> Callable[..., Any]:
        """Gives a function the signature of the tool's own one, which the host inspects before each call."""
        name = own.__name__
        if name not in self.inspected:
            self.inspected[name] = inspect.signature(own), hints_of(own)
        function: Any = instead
        function.__signature__, function.__annotations__ = self.inspected[name]
        return instead

    def bind(self, args: tuple[Any, ...], arguments: Mapping[str, Any], *, awaited: bool) -> dict[str, Any]:
        """Returns the arguments by name as the tool's function gets them, with its defaults.

        Raises:
            InputError: they do not fit the function.
        """
        named = dict(zip(self.tool.args, args, strict=False)) if args else dict(arguments)
        absent = self.injected.difference(named)
        if (awaited, absent) not in self.signatures:
            self.signatures[awaited, absent] = _without(function_of(self.tool, awaited=awaited), absent)
        signature = self.signatures[awaited, absent]
        return named if args or signature is None else dict(bind_to_signature(signature, self.tool.name, named))


def is_function_tool(tool: Any) -> bool:
    """Whether the tool runs a function, which gets only its own parameters."""
    return hasattr(tool, "func") and hasattr(tool, "coroutine")


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(inspect.unwrap(getattr(function, "__func__", function)), include_extras=True)
    except Exception:  # noqa: BLE001 - a name that does not resolve; the host goes by the schema then
        return {}


def function_of(tool: Any, *, awaited: bool) -> Callable[..., Any] | None:
    """Returns the function that finally runs, whose defaults count."""
    from langchain_core.tools import BaseTool

    if is_function_tool(tool):
        return tool.coroutine if awaited and tool.coroutine else tool.func  # type: ignore[no-any-return]
    own = type(tool)._arun is not BaseTool._arun  # noqa: SLF001 - as above
    return tool._arun if awaited and own else tool._run  # type: ignore[no-any-return]  # noqa: SLF001


def _without(function: Callable[..., Any] | None, names: frozenset[str]) -> inspect.Signature | None:
    """Returns a function's signature without the parameters that the host fills in later; None if it has none."""
    try:
        signature = inspect.signature(function)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    kept = [parameter for name, parameter in signature.parameters.items() if name not in names]
    return signature.replace(parameters=kept)


# --- a proposal

MARK = "guardagent"
"""The key of the verdict in the artifact of a denial's message, which no model sees."""

_as_key = json.JSONEncoder(sort_keys=True, default=repr).encode


@dataclass(slots=True)
class ToolCallProposal:
    """A tool call that a model proposes.

    Attributes:
        adapter: has the guard.
        conversation: as `conversation_of`.
        tool_call: the call as the model wrote it.
        task: the host's task in which it runs.
        run: the run of that task; None until it has begun.
        config: the host's configuration of the call.
        step: the message of the model that proposes it.
        alone: whether no other call runs in the task.
        used: the number of permits used for it.
        denial: the last verdict that denies it.
        stopped: the error with which the run ends.
        id: the host's id of it.
        key: identifies it in its task.
        options: what the host knows of it, as options of a `HostCall`.
        running_tool: marks the tool as running.
    """

    adapter: HostAdapter[HostScope]
    conversation: str
    tool_call: Mapping[str, Any]
    task: runs.Task
    config: Mapping[str, Any]
    messages: Sequence[Any] = ()
    seen: Sequence[str] = ()
    step: str | None = None
    alone: bool = True
    run: runs.TaskRun | None = None
    used: int = 0
    denial: Verdict | None = None
    stopped: runs.RunStopped | None = None
    id: str = field(init=False)
    key: Any = field(init=False)
    options: dict[str, Any] = field(init=False)
    running_tool: runs.RunningTool = field(init=False)

    def __post_init__(self) -> None:
        self.id = str(self.tool_call.get("id") or "")
        self.key = (self.step, self.id, self.tool_call["name"], _as_key(self.tool_call["args"]))
        agent = (self.config.get("metadata") or {}).get("lc_agent_name")
        self.options = {"agent": agent, "step": self.step, "messages": runs.Chat(self.messages), "seen": self.seen}
        if self.id:
            self.options["id"] = self.id
        self.running_tool = runs.RunningTool(self.adapter.guard, self.conversation, self.id)

    def allow(self) -> None:
        """Notes that a permit was used and the tool runs."""
        self.used += 1
        self.denial = None
        runs.state_of(self.adapter.guard).strikes.drop(self.conversation)

    def deny(self, verdict: Verdict) -> Any:
        """Returns the host's error message for a denial.

        Raises:
            RunStopped: a rule halts the run, or the agent continues after it gave up.
        """
        self.denial = verdict
        strikes = runs.state_of(self.adapter.guard).strikes
        before = strikes.get(self.conversation, self.step)
        if verdict.decision is Decision.HALT or (gave_up(verdict) and before != self.step):
            self.stopped = runs.RunStopped(str(self.tool_call["name"]), verdict)
            raise self.stopped
        if gave_up(verdict):
            strikes.put(self.conversation, self.step)
        return self.message(verdict)

    def refuse(self, why: str) -> Any:
        """Denies a call that was not judged; it counts as a denial, and is logged."""
        name, args = str(self.tool_call["name"]), self.tool_call.get("args")
        call = HostCall(name, args if isinstance(args, Mapping) else {}, self.conversation, **self.options)
        return self.deny(self.adapter.guard.refuse(call, why))

    def message(self, verdict: Verdict) -> Any:
        from langchain_core.messages import ToolMessage

        summary = {"decision": str(verdict.decision), "rules": list(verdict.rules), "reasons": list(verdict.reasons)}
        return ToolMessage(
            content=verdict.feedback(),
            name=self.tool_call["name"],
            tool_call_id=self.tool_call.get("id") or "",
            status="error",
            artifact={MARK: {**summary, "gave_up": gave_up(verdict)}},
        )

    def accept(self, answer: Any) -> Any:
        """Checks the answer that the inner middlewares return, before the host gets it.

        An answer is valid if the tool ran, or if it is an error, such as the host's message about invalid arguments. A
        result without a tool run is refused: the model would rely on a call that never happened.

        Raises:
            RunStopped: the run stops, even if a middleware swallowed that.
        """
        if self.stopped is not None:
            raise self.stopped
        if self.used:
            return answer
        if self.denial is not None:
            return self.message(self.denial)
        if getattr(answer, "status", None) == "error":
            return answer
        return self.refuse(
            f"{self.tool_call['name']!r} was answered without a call: a middleware after the guard did that, or called "
            "another tool instead; put the guard last"
        )

    def end(self, answer: Any) -> Any:
        """Stores the answer, which the host gets again if it repeats its task after the tool ran."""
        if self.used:
            self.task.ended[self.key] = answer
        return answer


# --- the guarded copy

_ATOMS = frozenset({str, int, float, bool, type(None), Decimal})


def guarded_tool(shape: ToolSignature, proposal: ToolCallProposal) -> Any:
    """Returns the guarded copy of a tool for one call.

    The copy has the same class and differs in three places:

    - `run` and `arun` mark the copy as running, which a substituted tool does not do;
    - `_to_args_and_kwargs`, the host's validation, refuses names that are not declared;
    - `_run` and `_arun`, the work itself, are preceded by the judgement.
    """
    tool = shape.tool
    getattr(tool, "_injected_args_keys", None)  # the host finds them once for each tool, and not again for a copy
    copy = tool.model_copy()
    itself = weakref.ref(copy)  # the copy holds what runs it; a cycle would keep the host's run from being freed
    for name, instead in (
        ("run", _marked_run(type(copy).run, itself, proposal)),
        ("arun", _marked_arun(type(copy).arun, itself, proposal)),
        ("_to_args_and_kwargs", _validation(shape)),
        ("_run", _judged_run(shape, proposal)),
        ("_arun", _judged_arun(shape, proposal)),
    ):
        object.__setattr__(copy, name, instead)  # pydantic knows no such field
    return copy


def _validation(shape: ToolSignature) -> Callable[..., Any]:
    """Wraps the host's validation: undeclared names are refused."""
    validate = shape.tool._to_args_and_kwargs  # noqa: SLF001 - the host's seam

    def validated(tool_input: Any, tool_call_id: str | None) -> Any:
        try:
            return validate(shape.check(tool_input), tool_call_id)
        except InputError as error:
            raise ToolDenied(shape.tool.name, unchecked_verdict(str(error), checked_by="policy")) from None

    return validated


def _judged_run(shape: ToolSignature, proposal: ToolCallProposal) -> Callable[..., Any]:
    """Wraps the tool's `_run`: the call is judged first."""
    work = shape.tool._run  # noqa: SLF001 - the host's seam

    def run(*args: Any, **kwargs: Any) -> Any:
        return drive(GraphInvocation(proposal, shape, args, kwargs, awaited=False).answered(work))

    return shape.with_signature(run, work)


def _judged_arun(shape: ToolSignature, proposal: ToolCallProposal) -> Callable[..., Any]:
    """Returns the tool's `_arun` with a judgment of the call."""
    work = shape.tool._arun  # noqa: SLF001 - the host's seam

    async def arun(*args: Any, **kwargs: Any) -> Any:
        return await adrive(GraphInvocation(proposal, shape, args, kwargs, awaited=True).answered(work))

    return shape.with_signature(arun, work)


def _marked_run(own: Callable[..., Any], tool: Callable[[], Any], proposal: ToolCallProposal) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        token = runs.RUNNING_TOOL.set(proposal.running_tool)
        try:
            return own(tool(), *args, **kwargs)
        finally:
            runs.RUNNING_TOOL.reset(token)

    return run


def _marked_arun(own: Callable[..., Any], tool: Callable[[], Any], proposal: ToolCallProposal) -> Callable[..., Any]:
    async def arun(*args: Any, **kwargs: Any) -> Any:
        token = runs.RUNNING_TOOL.set(proposal.running_tool)
        try:
            return await own(tool(), *args, **kwargs)
        finally:
            runs.RUNNING_TOOL.reset(token)

    return arun


# --- a call

_NO_CHECKPOINTER = "this graph has no checkpointer; compile it with checkpointer=..., or give the guard an approver"


def has_reviewer(adapter: HostAdapter[HostScope], config: Mapping[str, Any]) -> bool:
    """Whether a run can wait for a reviewer; the host shows its checkpointer only to a run."""
    if (config.get("configurable") or {}).get("__pregel_checkpointer"):
        return True
    adapter.approval.report_missing(_NO_CHECKPOINTER)
    return False


class GraphInvocation(ToolInvocation[HostScope]):
    """One call of a guarded copy, after the host's validation.

    Args:
        proposal: the model's proposal.
        shape: the arguments of the tool.
        args: the arguments by position.
        kwargs: the arguments by name, with those that the host passes to the tool's `_run`.
        awaited: whether the call is awaited.
    """

    pausing = (GraphInterrupt,)

    def __init__(
        self,
        proposal: ToolCallProposal,
        shape: ToolSignature,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        awaited: bool,
    ) -> None:
        super().__init__(proposal.adapter, shape.tool.name, HostScope(proposal.conversation))
        self._proposal, self._shape, self._args, self._kwargs, self._awaited = proposal, shape, args, kwargs, awaited
        self._hosts_own = {name: kwargs.pop(name) for name in shape.host_arguments & kwargs.keys()}
        self._bound: dict[str, Any] = {}
        model_arguments = proposal.tool_call.get("args")
        self.unread = model_arguments if isinstance(model_arguments, Mapping) else {}

    def answered(self, work: Callable[..., Any]) -> Procedure[Any]:
        """Judges and runs the call. Returns the tool's result, or the host's message about a denial."""
        proposal = self._proposal
        try:
            call, args = yield from self.allowed()
        except PermitVoidError as void:
            return self._answer(proposal.refuse("\n".join(void.verdict.errors)))
        except ToolDenied as denied:
            return self._answer(proposal.deny(denied.verdict))
        proposal.allow()
        live = {**self._bound, **args}
        positional, named = (tuple(live.values()), {}) if self._args else ((), live)
        running = partial(work, *positional, **named, **self._hosts_own)
        return (yield from self.execute(call, Operation(running, running)))

    def _answer(self, message: Any) -> Any:
        return (message, None) if self._shape.tool.response_format == "content_and_artifact" else message

    # --- arguments

    def bind(self) -> tuple[dict[str, Any], dict[str, Any]]:
        self._bound = self._shape.bind(self._args, self._kwargs, awaited=self._awaited)
        return self._divided(self._bound)

    def rebind(self, edited: Mapping[str, Any]) -> dict[str, Any]:
        shape = self._shape
        if mine := sorted(shape.injected & edited.keys()):
            raise InputError(f"{mine[0]!r} is filled in by the host")
        validate = shape.tool._to_args_and_kwargs  # noqa: SLF001 - the host's seam
        args, kwargs = validate(shape.check({**edited, **self.apart}), self._proposal.id or None)
        return self._divided(shape.bind(args, kwargs, awaited=self._awaited))[0]

    def plain(self) -> Mapping[str, Any]:
        try:
            return plain_arguments(self.own)
        except InputError as error:
            raise InputError(f"the arguments of {self.name!r}: {error}") from None

    def received(self, call: HostCall, judged: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments that the tool gets. A plain value is passed as the judged copy."""
        own, edited = self.own, self._proposal.task.edited.get(self._proposal.key)
        if edited is not None and edited.args == call.args:
            own = edited.own
        if (own is self.own and call.args != self.plain()) or _differs(judged, own):
            own = self._fitting(judged)
        return {name: judged[name] if _is_plain(value) else value for name, value in own.items()}

    def _fitting(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Validates edited arguments, which the guard's own approver or the host has changed."""
        try:
            own = self.rebind(args)
            problem = None if thaw(args) == thaw(plain_arguments(own)) else "the tool would get other arguments"
        except Exception as error:  # noqa: BLE001 - whatever a validation raises
            problem = str(error)
        if problem is not None:
            raise InputError(f"the arguments that were approved do not fit: {problem}")
        return own

    def _divided(self, live: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        injected = self._shape.injected
        if not injected:
            return dict(live), {}
        own = {name: value for name, value in live.items() if name not in injected}
        return own, {name: value for name, value in live.items() if name in injected}

    # --- what the host knows of the call

    def options(self) -> dict[str, Any]:
        proposal = self._proposal
        runs.note_responses(self.guard, proposal.conversation, proposal.messages)
        return {**proposal.options, "validate_edit": None}

    def outcome(self, output: Any) -> Outcome:
        with_artifact = self._shape.tool.response_format == "content_and_artifact"
        return runs.outcome_of(output, self._proposal.id, with_artifact=with_artifact)

    def tell(self, output: Any, line: str) -> Any:
        if isinstance(output, tuple) and self._shape.tool.response_format == "content_and_artifact":
            return (self.tell(output[0], line), *output[1:])
        if isinstance(output, ToolMessage):
            return output.model_copy(update={"content": self.tell(output.content, line)})
        if isinstance(output, list) and output and all(isinstance(part, dict) and "type" in part for part in output):
            return [*output, {"type": "text", "text": line}]
        return super().tell(output, line)

    def failure(self, error: BaseException) -> Outcome:
        if isinstance(error, ParentCommand):  # it has ended, in favour of another agent
            return Outcome(f"{error}", failed=None)
        return Outcome.of_error(error)

    def pause(self, call: HostCall) -> None:
        self._proposal.task.paused[self._proposal.key] = call

    def resumed(self, call: HostCall) -> HostCall | None:  # noqa: ARG002 - the key of the proposal tells it
        return self._proposal.task.paused.pop(self._proposal.key, None)

    # --- human approval

    def judge(self, call: HostCall) -> Procedure[JudgedCall]:
        """Judges a call, and requests approval if it is escalated.

        The host runs the whole task again after an answer. The call is then resolved by the answer that names it, and
        not judged as a new call.
        """
        verdict: Verdict | None = None
        life, approver = self.guard.lifecycle, self.guard.approver
        answers = self._proposal.run.answers if self._proposal.run is not None and approver is None else {}
        while verdict is None or (verdict.decision is Decision.ESCALATE and approver is None):
            answer = answers.pop(call.digest, None) if answers else None
            if answer is None and verdict is None:
                verdict, call = yield from life.judge(call)
                continue
            if answer is None and verdict is not None and not has_reviewer(self.adapter, self._proposal.config):
                return explained(verdict, f"whether a person approves it: {_NO_CHECKPOINTER}"), call
            approval = self._ask(call, verdict) if answer is None and verdict is not None else Approval.read(answer)
            if approval.choice == "edit":
                approval = self._validated_edit(approval)
            verdict = yield from life.resolve(call, approval)
            call = with_edits(call, approval)
        return verdict, call

    def _ask(self, call: HostCall, verdict: Verdict) -> Approval:
        proposal = self._proposal
        assert proposal.run is not None
        try:
            shown = self.guard.request(call, verdict).to_dict()
            return Approval.read(proposal.task.ask(proposal.run, shown, alone=proposal.alone))
        except runs.CannotAskError as error:
            return Approval("reject", reason=f"the approval request failed: {error}")

    def _validated_edit(self, approval: Approval) -> Approval:
        """Validates a reviewer's edited arguments by the tool's own validation."""
        try:
            own = self.rebind(approval.args)
            args = plain_arguments(own)
        except Exception as error:  # noqa: BLE001 - whatever a validation raises
            return Approval("reject", reason=f"the edited arguments do not fit: {error}", by=approval.by)
        self._proposal.task.edited[self._proposal.key] = runs.EditedArguments(args, own)
        return replace(approval, args=args)


def _differs(args: Mapping[str, Any], judged: Mapping[str, Any]) -> bool:
    """Whether the tool would get other values than the judged ones. A plain value is passed as the judged copy."""
    return any(not _is_plain(value) and plain_value(value, name) != args[name] for name, value in judged.items())


def _is_plain(value: Any) -> bool:
    """Whether a value consists of JSON types, so that a copy can replace it."""
    if type(value) in _ATOMS:
        return True
    if type(value) is dict:
        return all(type(name) is str and _is_plain(item) for name, item in value.items())
    return type(value) is list and all(map(_is_plain, value))


# --- substitutes


class _NoSubstitute(BaseCallbackHandler):
    """A callback of each tool that starts in the host's task; stops any tool but the guarded copy."""

    raise_error = True
    run_inline = True

    def __init__(self, proposal: ToolCallProposal) -> None:
        self._proposal = proposal

    def on_tool_start(self, serialized: dict[str, Any] | None, input_str: str, **_: Any) -> None:  # noqa: ARG002
        if runs.RUNNING_TOOL.get() != self._proposal.running_tool:
            name = (serialized or {}).get("name")
            tool = self._proposal.tool_call["name"]
            why = f"a middleware after the guard replaced the tool {tool!r} with {name!r}"
            raise ToolDenied(str(name), unchecked_verdict(f"{why}; put the guard last", checked_by="policy"))


def refuse_substitutes(proposal: ToolCallProposal, config: dict[str, Any]) -> None:
    """Adds a callback to the configuration that the host passes to a tool, which reports every tool that starts."""
    known = config.get("callbacks")
    if known is None or isinstance(known, list):
        manager = CallbackManager(handlers=list(known or ()), inheritable_handlers=list(known or ()))
    else:
        manager = known.copy()
    manager.add_handler(_NoSubstitute(proposal), inherit=False)  # what the tool itself calls is its own affair
    config["callbacks"] = manager


# --- the declarations of tools: their arguments, and those that the host injects

_STEPS = ("invoke", "ainvoke", "run", "arun", "_to_args_and_kwargs", "_parse_input")


def signature_of(tool: Any) -> ToolSignature:
    """The arguments of a tool, and their validation.

    Raises:
        InputError: it runs in a way of its own, or takes arguments of a type, with which nothing can be judged.
    """
    from langchain_core.tools import BaseTool

    if not isinstance(tool, BaseTool):
        raise InputError(f"the tool {tool!r} is not a BaseTool of LangChain and cannot be judged")
    for step in _STEPS:
        if not _owner(type(tool), step).startswith("langchain_core."):
            raise InputError(
                f"the tool {tool.name!r} overrides '{step}()', so its calls cannot be judged; "
                "expected the work in _run() and _arun()"
            )
    schema = tool.args_schema
    injected = _injected(tool)
    for name, annotation in _annotations(tool).items():
        if name not in injected and (kind := opaque_type(annotation)) is not None:
            raise InputError(
                f"{name!r} of the tool {tool.name!r} is a {kind}, which has no lossless form for rules and reviewers; "
                "expected a plain type, or one that the host fills in (InjectedToolArg)"
            )
    host_arguments = frozenset({"config", "run_manager"} if is_function_tool(tool) else ())
    return ToolSignature(
        tool, injected, host_arguments, _declared(schema), schema if isinstance(schema, dict) else None
    )


def spec_of(tool: Any) -> ToolSpec:
    """Returns the declaration that is compared with the rules."""
    schema = tool.tool_call_schema
    return ToolSpec(
        tool.name,
        schema if isinstance(schema, dict) else schema.model_json_schema(),
        tool.description or "",
        unlisted_arguments=_unlisted_arguments(tool),
    )


def _unlisted_arguments(tool: Any) -> frozenset[str]:
    """Returns the names by which the tool's functions get arguments: its schema may use aliases."""
    functions = filter(None, (function_of(tool, awaited=awaited) for awaited in (False, True)))
    parameters = frozenset(name for function in functions for name in _parameters(function))
    return parameters | (_declared(tool.args_schema) or frozenset())


def _owner(kind: type, name: str) -> str:
    return next((base.__module__ for base in kind.__mro__ if name in vars(base)), "")


def _injected(tool: Any) -> frozenset[str]:
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools.base import _is_injected_arg_type

    functions = [*filter(None, (getattr(tool, "func", None), getattr(tool, "coroutine", None)))]
    always = {"callbacks"} if functions else {"run_manager"}
    functions = functions or [tool._run, tool._arun]  # noqa: SLF001 - what a tool's author writes
    hints = {name: kind for function in functions for name, kind in hints_of(function).items()}
    parameters = {name for function in functions for name in _parameters(function)}
    named = (always & parameters) | {name for name, kind in hints.items() if kind is RunnableConfig}
    named |= {"runtime"} & parameters  # the host goes by this name, whatever its type
    hints |= _annotations(tool)
    return frozenset(named | {name for name, kind in hints.items() if _is_injected_arg_type(kind)})


def _annotations(tool: Any) -> dict[str, Any]:
    from langchain_core.tools.base import get_all_basemodel_annotations

    return dict(get_all_basemodel_annotations(tool.get_input_schema()))


def _parameters(function: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _declared(schema: Any) -> frozenset[str] | None:
    from pydantic import BaseModel

    if not (isinstance(schema, type) and issubclass(schema, BaseModel)) or schema.model_config.get("extra") == "allow":
        return None
    names = set(schema.model_fields)
    for known in schema.model_fields.values():
        alias = known.validation_alias or known.alias
        names |= {
            choice if isinstance(choice, str) else choice.path[0]
            for choice in getattr(alias, "choices", [alias])
            if choice
        }
    return frozenset(map(str, names))
