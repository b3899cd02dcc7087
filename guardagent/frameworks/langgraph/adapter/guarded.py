"""A tool that asks the guard itself: after the host has validated the arguments, just before it does its work."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from guardagent.enforcement import HostCall, Outcome
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.langgraph.adapter.approvals import Edited, Steps, decided
from guardagent.frameworks.langgraph.adapter.plain import is_plain, outcome_of, plain_arguments
from guardagent.frameworks.langgraph.adapter.proposal import INSIDE, Proposal
from guardagent.frameworks.langgraph.adapter.shape import Shape
from guardagent.types import unchecked

Acts = Mapping[str, Callable[..., Any]]


def guarded(shape: Shape, proposal: Proposal) -> Any:
    """A copy of a tool, for one call.

    It is of the same class and differs from it in three places:

    - `run` and `arun` say that it is this copy that runs, which a tool put in its place would not say;
    - `_to_args_and_kwargs`, the host's validation, refuses names that are not declared;
    - `_run` and `_arun`, the work itself, are preceded by the judgement.
    """
    tool = shape.tool
    copy = tool.model_copy()
    work = _Work(shape, proposal)
    for name, instead in (
        ("run", _entered(copy.run, proposal)),
        ("arun", _aentered(copy.arun, proposal)),
        ("_to_args_and_kwargs", work.validation(tool._to_args_and_kwargs)),  # noqa: SLF001 - the host's seam
        ("_run", work.done(tool._run)),  # noqa: SLF001 - as above
        ("_arun", work.adone(tool._arun)),  # noqa: SLF001 - as above
    ):
        object.__setattr__(copy, name, instead)  # pydantic knows no such field
    return copy


class _Work:
    def __init__(self, shape: Shape, proposal: Proposal) -> None:
        self._shape, self._proposal, self._tool, self._guard = shape, proposal, shape.tool, proposal.guard

    def validation(self, own: Callable[..., Any]) -> Callable[..., Any]:
        """The host's validation, for names that the tool declares."""

        @functools.wraps(own)
        def validated(tool_input: Any, tool_call_id: str | None) -> Any:
            try:
                return own(self._shape.checked(tool_input), tool_call_id)
            except InputError as error:
                raise ToolDenied(self._tool.name, unchecked(str(error), checked_by="policy")) from None

        return validated

    def done(self, own: Callable[..., Any]) -> Callable[..., Any]:
        """The work, where it is judged that it may be done."""

        @functools.wraps(own)
        def run(*args: Any, **kwargs: Any) -> Any:
            steps = self._steps(args, kwargs, awaited=False)
            guard = self._guard
            acts: Acts = {"before": guard.before, "resolve": guard.resolve, "after": guard.after, "run": own}
            return _driven(steps, acts)

        return run

    def adone(self, own: Callable[..., Any]) -> Callable[..., Any]:
        """As `done`, of the coroutine function."""

        @functools.wraps(own)
        async def arun(*args: Any, **kwargs: Any) -> Any:
            steps = self._steps(args, kwargs, awaited=True)
            guard = self._guard
            acts: Acts = {"before": guard.abefore, "resolve": guard.aresolve, "after": guard.aafter, "run": own}
            return await _adriven(steps, acts)

        return arun

    def _steps(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, awaited: bool) -> Steps:
        """What is done for a call, one step after the other."""
        from langgraph.errors import GraphInterrupt, ParentCommand

        proposal = self._proposal
        hosts = {name: kwargs.pop(name) for name in self._shape.handed & kwargs.keys()}
        try:
            live = self._shape.completed(args, kwargs, awaited=awaited)
        except InputError as error:
            return self._answer(proposal.refused(str(error)))
        started = proposal.task.paused.pop(proposal.key, None)
        if started is None:
            started = yield from self._permitted(live, awaited=awaited)
        if not isinstance(started, _Started):
            return self._answer(started)
        proposal.allowed()
        live = {**live, **started.live}
        try:
            given = (tuple(live.values()), hosts) if args else ((), {**live, **hosts})
            response = yield ("run", *given)
        except GraphInterrupt:  # the tool asks a person itself: it runs again, as the same call
            proposal.task.paused[proposal.key] = started
            raise
        except ParentCommand as error:  # it has ended, in favour of another agent
            self._guard.after(started.call, Outcome(f"{error}", failed=None))
            raise
        except BaseException as error:
            self._guard.after(started.call, Outcome.of_error(error))
            raise
        with_artifact = self._tool.response_format == "content_and_artifact"
        yield ("after", started.call, outcome_of(response, proposal.id, with_artifact=with_artifact))
        return response

    def _permitted(self, live: dict[str, Any], *, awaited: bool) -> Steps:
        """The call with its arguments where it may run, else the message for the model."""
        proposal = self._proposal

        def edited(args: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
            new = self._validated(args, live, awaited=awaited)
            return new, self._judged(new)

        try:
            call = proposal.call(self._tool.name, plain_arguments(self._judged(live)))
        except InputError as error:
            return proposal.refused(f"the arguments of {self._tool.name}: {error}")
        verdict, call, live_now = yield from decided(proposal, call, live, edited)
        if verdict.label:
            return proposal.denied(verdict)
        try:
            args = self._guard.use(call)
        except InputError as error:
            return proposal.refused(str(error))
        own = self._judged(live_now)
        judged: dict[str, Any] | str = own
        if args != plain_arguments(own):  # the guard's own approver has changed them
            judged = _fitting(args, edited)
        if isinstance(judged, str):
            self._guard.withdraw(call, judged, used=True)
            return proposal.refused(f"the arguments that were approved do not fit: {judged}")
        return _Started(call, {name: args[name] if is_plain(value) else value for name, value in judged.items()})

    def _judged(self, live: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in live.items() if name not in self._shape.filled}

    def _validated(self, given: Mapping[str, Any], live: Mapping[str, Any], *, awaited: bool) -> dict[str, Any]:
        """Arguments that a person has written, as the tool gets them."""
        if mine := sorted(self._shape.filled & given.keys()):
            raise InputError(f"{mine[0]!r} is filled in by the host")
        filled = {name: value for name, value in live.items() if name in self._shape.filled}
        own = self._tool._to_args_and_kwargs  # noqa: SLF001 - the host's seam
        args, kwargs = own(self._shape.checked({**given, **filled}), self._proposal.id or None)
        return self._shape.completed(args, kwargs, awaited=awaited)

    def _answer(self, message: Any) -> Any:
        return (message, None) if self._tool.response_format == "content_and_artifact" else message


def _fitting(args: Mapping[str, Any], edited: Edited) -> dict[str, Any] | str:
    """Arguments that a person has written, as the tool gets them; or why they do not fit."""
    try:
        _, judged = edited(args)
    except Exception as error:  # noqa: BLE001 - whatever a validation raises
        return str(error)
    return judged if args == plain_arguments(judged) else "the tool would get other arguments than were judged"


class _Started:
    """A call that runs, with the arguments that were judged."""

    __slots__ = ("call", "live")

    def __init__(self, call: HostCall, live: dict[str, Any]) -> None:
        self.call, self.live = call, live


def _driven(steps: Steps, acts: Acts) -> Any:
    """Does the steps, and gives back what they end with."""
    try:
        step = next(steps)
        while True:
            try:
                done = _call(acts, step)
            except BaseException as error:  # noqa: BLE001 - the steps know what to make of it
                step = steps.throw(error)
            else:
                step = steps.send(done)
    except StopIteration as end:
        return end.value


async def _adriven(steps: Steps, acts: Acts) -> Any:
    """As `_driven`, with await."""
    try:
        step = next(steps)
        while True:
            try:
                done = await _call(acts, step)
            except BaseException as error:  # noqa: BLE001 - as above
                step = steps.throw(error)
            else:
                step = steps.send(done)
    except StopIteration as end:
        return end.value


def _call(acts: Acts, step: tuple[Any, ...]) -> Any:
    name, *args = step
    if name == "run":
        positional, named = args
        return acts["run"](*positional, **named)
    return acts[name](*args)


def _entered(own: Callable[..., Any], proposal: Proposal) -> Callable[..., Any]:
    @functools.wraps(own)
    def run(*args: Any, **kwargs: Any) -> Any:
        with _within(proposal):
            return own(*args, **kwargs)

    return run


def _aentered(own: Callable[..., Any], proposal: Proposal) -> Callable[..., Any]:
    @functools.wraps(own)
    async def arun(*args: Any, **kwargs: Any) -> Any:
        with _within(proposal):
            return await own(*args, **kwargs)

    return arun


@contextmanager
def _within(proposal: Proposal) -> Iterator[None]:
    token = INSIDE.set(proposal.inside)
    try:
        yield
    finally:
        INSIDE.reset(token)
