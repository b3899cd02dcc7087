"""The guarded copy of a tool: the guard judges after the host's validation, just before the tool runs."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from langgraph.errors import GraphInterrupt, ParentCommand

from guardagent._support.execution import Operation, Procedure, adrive, drive
from guardagent.enforcement import HostCall, Outcome
from guardagent.enforcement.calls import plain_arguments, plain_value
from guardagent.enforcement.enforcement_point import PermitVoidError
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.langgraph.adapter.approvals import LiveArguments, ValidateEdit, decide
from guardagent.frameworks.langgraph.adapter.outcomes import outcome_of
from guardagent.frameworks.langgraph.adapter.proposal import RUNNING_TOOL, ToolCallProposal
from guardagent.frameworks.langgraph.adapter.tool_signature import ToolSignature
from guardagent.types import thaw, unchecked_verdict

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
