"""The guarded copy of a tool: the guard judges after the host's validation, just before the tool runs.

The host injects some arguments of a tool, and a model may supply the others, which are judged. A tool that a middleware
substituted for the guarded one is refused before it runs.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, get_type_hints

from langchain_core.callbacks import BaseCallbackHandler, CallbackManager
from langgraph.errors import GraphInterrupt, ParentCommand

from guardagent._support.arguments import bind_to_signature
from guardagent._support.execution import Operation, Procedure, adrive, drive
from guardagent.enforcement import HostCall, Outcome, ToolSpec
from guardagent.enforcement.calls import opaque_type, plain_arguments, plain_value
from guardagent.enforcement.enforcement_point import PermitVoidError
from guardagent.enforcement.schema import validate_arguments
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.langgraph.adapter.approvals import LiveArguments, ValidateEdit, decide
from guardagent.frameworks.langgraph.adapter.proposal import RUNNING_TOOL, ToolCallProposal
from guardagent.frameworks.langgraph.adapter.runs import outcome_of
from guardagent.types import thaw, unchecked_verdict

# --- arguments

_STEPS = ("invoke", "ainvoke", "run", "arun", "_to_args_and_kwargs", "_parse_input")


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
            self.inspected[name] = inspect.signature(own), _hints(own)
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
            self.signatures[awaited, absent] = _without(_function(self.tool, awaited=awaited), absent)
        signature = self.signatures[awaited, absent]
        return named if args or signature is None else dict(bind_to_signature(signature, self.tool.name, named))


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
        if name not in injected and (found := opaque_type(annotation)) is not None:
            raise InputError(
                f"{name!r} of the tool {tool.name!r} is a {found}, which has no lossless form for rules and reviewers; "
                "expected a plain type, or one that the host fills in (InjectedToolArg)"
            )
    host_arguments = frozenset({"config", "run_manager"} if _is_function_tool(tool) else ())
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
    functions = filter(None, (_function(tool, awaited=awaited) for awaited in (False, True)))
    parameters = frozenset(name for function in functions for name in _parameters(function))
    return parameters | (_declared(tool.args_schema) or frozenset())


def _owner(kind: type, name: str) -> str:
    return next((one.__module__ for one in kind.__mro__ if name in vars(one)), "")


def _is_function_tool(tool: Any) -> bool:
    """Whether the tool runs a function, which gets only its own parameters."""
    return hasattr(tool, "func") and hasattr(tool, "coroutine")


def _injected(tool: Any) -> frozenset[str]:
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools.base import _is_injected_arg_type

    functions = [one for one in (getattr(tool, "func", None), getattr(tool, "coroutine", None)) if one is not None]
    own = functions or [tool._run, tool._arun]  # noqa: SLF001 - what a tool's author writes
    hints = {name: kind for one in own for name, kind in _hints(one).items()}
    always = {"callbacks"} if functions else {"run_manager"}
    created = {name for one in own for name in _parameters(one)}
    named = (always & created) | {name for name, kind in hints.items() if kind is RunnableConfig}
    named |= {"runtime"} & created  # the host goes by this name, whatever its type
    hints |= _annotations(tool)
    return frozenset(named | {name for name, kind in hints.items() if _is_injected_arg_type(kind)})


def _annotations(tool: Any) -> dict[str, Any]:
    from langchain_core.tools.base import get_all_basemodel_annotations

    return dict(get_all_basemodel_annotations(tool.get_input_schema()))


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(inspect.unwrap(getattr(function, "__func__", function)), include_extras=True)
    except Exception:  # noqa: BLE001 - a name that does not resolve; the host goes by the schema then
        return {}


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
        names |= {one if isinstance(one, str) else one.path[0] for one in getattr(alias, "choices", [alias]) if one}
    return frozenset(map(str, names))


def _function(tool: Any, *, awaited: bool) -> Callable[..., Any] | None:
    """Returns the function that finally runs, whose defaults count."""
    from langchain_core.tools import BaseTool

    if _is_function_tool(tool):
        return tool.coroutine if awaited and tool.coroutine else tool.func  # type: ignore[no-any-return]
    own = type(tool)._arun is not BaseTool._arun  # noqa: SLF001 - as above
    return tool._arun if awaited and own else tool._run  # type: ignore[no-any-return]  # noqa: SLF001


def _without(function: Callable[..., Any] | None, names: frozenset[str]) -> inspect.Signature | None:
    """Returns a function's signature without the parameters that the host fills in later; None if it has none."""
    try:
        signature = inspect.signature(function)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return signature.replace(parameters=[one for name, one in signature.parameters.items() if name not in names])


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
    work = GuardedWork(shape, proposal)
    for name, instead in (
        ("run", _marked_run(type(copy).run, itself, proposal)),
        ("arun", _marked_arun(type(copy).arun, itself, proposal)),
        ("_to_args_and_kwargs", work.validation(tool._to_args_and_kwargs)),  # noqa: SLF001 - the host's seam
        ("_run", work.judged_run(tool._run)),  # noqa: SLF001 - as above
        ("_arun", work.judged_arun(tool._arun)),  # noqa: SLF001 - as above
    ):
        object.__setattr__(copy, name, instead)  # pydantic knows no such field
    return copy


class GuardedWork:
    def __init__(self, shape: ToolSignature, proposal: ToolCallProposal) -> None:
        self._shape, self._proposal, self._tool, self._life = shape, proposal, shape.tool, proposal.guard.lifecycle

    def validation(self, own: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps the host's validation: undeclared names are refused."""

        def validated(tool_input: Any, tool_call_id: str | None) -> Any:
            try:
                return own(self._shape.check(tool_input), tool_call_id)
            except InputError as error:
                raise ToolDenied(self._tool.name, unchecked_verdict(str(error), checked_by="policy")) from None

        return validated

    def judged_run(self, own: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps the tool's `_run`: the call is judged first."""

        def run(*args: Any, **kwargs: Any) -> Any:
            return drive(self._steps(own, args, kwargs, awaited=False))

        return self._shape.with_signature(run, own)

    def judged_arun(self, own: Callable[..., Any]) -> Callable[..., Any]:
        """As `judged_run`, for the tool's `_arun`."""

        async def arun(*args: Any, **kwargs: Any) -> Any:
            return await adrive(self._steps(own, args, kwargs, awaited=True))

        return self._shape.with_signature(arun, own)

    def _steps(
        self, own: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, awaited: bool
    ) -> Procedure[Any]:
        """Judges and runs a call."""
        proposal = self._proposal
        hosts = {name: kwargs.pop(name) for name in self._shape.host_arguments & kwargs.keys()}
        try:
            live = self._shape.bind(args, kwargs, awaited=awaited)
        except InputError as error:
            return self._answer(proposal.refuse(str(error)))
        started = proposal.task.paused.pop(proposal.key, None)
        if started is None:
            try:
                started = yield from self._authorize(live, awaited=awaited)
            except InputError as error:
                return self._answer(proposal.refuse(str(error)))
            except ToolDenied as denied:
                return self._answer(proposal.deny(denied.verdict))
        proposal.allow()
        live = {**live, **started.live}
        positional, named = (tuple(live.values()), hosts) if args else ((), {**live, **hosts})
        work = functools.partial(own, *positional, **named)
        return (
            yield from self._life.execute(started.call, Operation(work, work), self._outcome, self._failure(started))
        )

    def _outcome(self, response: Any) -> Outcome:
        with_artifact = self._tool.response_format == "content_and_artifact"
        return outcome_of(response, self._proposal.id, with_artifact=with_artifact)

    def _failure(self, started: _StartedCall) -> Callable[[BaseException], Outcome | None]:
        """Returns the function that maps a tool's error to the call's outcome."""

        def failure(error: BaseException) -> Outcome | None:
            if isinstance(error, GraphInterrupt):  # the tool asks a person itself: it runs again, as the same call
                self._proposal.task.paused[self._proposal.key] = started
                return None
            if isinstance(error, ParentCommand):  # it has ended, in favour of another agent
                return Outcome(f"{error}", failed=None)
            return Outcome.of_error(error)

        return failure

    def _authorize(self, live: dict[str, Any], *, awaited: bool) -> Procedure[_StartedCall]:
        """Authorizes the call, with its arguments.

        Raises:
            InputError: it cannot be judged, its permit is void, or the approved arguments do not fit.
            ToolDenied: the call may not run.
        """

        def edited(args: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
            new = self._validate(args, live, awaited=awaited)
            return new, self._judged(new)

        try:
            call = self._proposal.call(self._tool.name, plain_arguments(self._judged(live)))
        except InputError as error:
            raise InputError(f"the arguments of {self._tool.name!r}: {error}") from None
        shown = LiveArguments(live, call, edited)
        try:
            call, args = yield from self._life.authorize(call, decide(self._proposal, shown))
        except PermitVoidError as void:
            raise InputError(*void.verdict.errors) from None
        own = self._judged(shown.args)
        judged: dict[str, Any] | str = own
        if call is not shown.call or _differs(args, own):  # the guard's own approver has changed them, or the host
            judged = _fitting(args, edited)
        if isinstance(judged, str):
            yield from self._life.withdraw(call, judged, used=True)
            raise InputError(f"the arguments that were approved do not fit: {judged}")
        return _StartedCall(call, {name: args[name] if _is_plain(value) else value for name, value in judged.items()})

    def _judged(self, live: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in live.items() if name not in self._shape.injected}

    def _validate(self, edits: Mapping[str, Any], live: Mapping[str, Any], *, awaited: bool) -> dict[str, Any]:
        """Validates a reviewer's edited arguments. Returns them as the tool gets them."""
        if mine := sorted(self._shape.injected & edits.keys()):
            raise InputError(f"{mine[0]!r} is filled in by the host")
        filled = {name: value for name, value in live.items() if name in self._shape.injected}
        own = self._tool._to_args_and_kwargs  # noqa: SLF001 - the host's seam
        args, kwargs = own(self._shape.check({**edits, **filled}), self._proposal.id or None)
        return self._shape.bind(args, kwargs, awaited=awaited)

    def _answer(self, message: Any) -> Any:
        return (message, None) if self._tool.response_format == "content_and_artifact" else message


def _differs(args: Mapping[str, Any], judged: Mapping[str, Any]) -> bool:
    """Whether the tool would get other values than the judged ones. A plain value is passed as the judged copy."""
    return any(not _is_plain(value) and plain_value(value, name) != args[name] for name, value in judged.items())


def _fitting(args: Mapping[str, Any], validate_edit: ValidateEdit) -> dict[str, Any] | str:
    """Validates edited arguments. Returns them as the tool gets them, or the error message."""
    try:
        _, judged = validate_edit(args)
    except Exception as error:  # noqa: BLE001 - whatever a validation raises
        return str(error)
    fits = args == thaw(plain_arguments(judged))
    return judged if fits else "the tool would get other arguments than the judged ones"


def _is_plain(value: Any) -> bool:
    """Whether a value consists of JSON types, so that a copy can replace it."""
    if type(value) in _ATOMS:
        return True
    if type(value) is dict:
        return all(type(name) is str and _is_plain(item) for name, item in value.items())
    return type(value) is list and all(map(_is_plain, value))


class _StartedCall:
    """A running call with its judged arguments."""

    __slots__ = ("call", "live")

    def __init__(self, call: HostCall, live: dict[str, Any]) -> None:
        self.call, self.live = call, live


def _marked_run(own: Callable[..., Any], tool: Callable[[], Any], proposal: ToolCallProposal) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        token = RUNNING_TOOL.set(proposal.running_tool)
        try:
            return own(tool(), *args, **kwargs)
        finally:
            RUNNING_TOOL.reset(token)

    return run


def _marked_arun(own: Callable[..., Any], tool: Callable[[], Any], proposal: ToolCallProposal) -> Callable[..., Any]:
    async def arun(*args: Any, **kwargs: Any) -> Any:
        token = RUNNING_TOOL.set(proposal.running_tool)
        try:
            return await own(tool(), *args, **kwargs)
        finally:
            RUNNING_TOOL.reset(token)

    return arun


# --- substitutes


class _NoSubstitute(BaseCallbackHandler):
    """A callback of each tool that starts in the host's task; stops any tool but the guarded copy."""

    raise_error = True
    run_inline = True

    def __init__(self, proposal: ToolCallProposal) -> None:
        self._proposal = proposal

    def on_tool_start(self, serialized: dict[str, Any] | None, input_str: str, **_: Any) -> None:  # noqa: ARG002
        if RUNNING_TOOL.get() != self._proposal.running_tool:
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
