"""The parts that the adapters of agent frameworks share. None of them knows a framework.

A tool's arguments come first, bound to its function and copied, so that nobody changes between judgement and call what
the tool gets. The surroundings of a host's code follow (the conversation, the run and the call that it is part of),
then denials, unfinished work, the need to ask the host's reviewers, runs, and the tools of agents.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Self, TypeVar

from guardagent._support.execution import Operation
from guardagent._support.files import random_id
from guardagent.enforcement.calls import HostCall, opaque_type, plain_value
from guardagent.enforcement.decisions import gave_up
from guardagent.enforcement.enforcement_point import EnforcementPoint
from guardagent.enforcement.names import ToolSpec
from guardagent.errors import InputError, ToolDenied
from guardagent.types import Decision, Verdict, thaw

# --- arguments, bound to a function

NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
BY_NAME = (*NAMED, inspect.Parameter.VAR_KEYWORD)


def read_signature(
    function: Any, tool: str, *, omit: Collection[str] = (), kinds: Collection[Any] = BY_NAME
) -> inspect.Signature:
    """Returns the signature of a tool's function, with its annotations resolved if they can be.

    Args:
        function: the function.
        tool: the name of the tool.
        omit: names of parameters to leave out, such as `self`.
        kinds: the kinds of parameters that the host can fill in.

    Raises:
        InputError: there is no signature, or it has a parameter of another kind.
    """
    try:
        signature = inspect.signature(function)
        with suppress(Exception):  # an annotation may name what is not there at run time
            signature = inspect.signature(function, eval_str=True)
    except (TypeError, ValueError):
        raise InputError(f"{tool!r} has no readable signature; wrap it in a function that has one") from None
    own = [one for one in signature.parameters.values() if one.name not in omit]
    for one in own:
        if one.kind not in kinds:
            raise InputError(f"{tool!r} takes {str(one)!r} by position only; expected named parameters")
    return signature.replace(parameters=own)


def annotations_of(signature: inspect.Signature) -> dict[str, Any]:
    """Returns the annotations of the parameters."""
    return {one.name: one.annotation for one in signature.parameters.values()}


def defaults_of(signature: inspect.Signature) -> dict[str, Any]:
    """Returns the defaults of the parameters that have one."""
    return {one.name: one.default for one in signature.parameters.values() if one.default is not one.empty}


def takes_any_name(signature: inspect.Signature) -> bool:
    """Whether a function takes arguments of any name."""
    return any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())


def refuse_opaque(
    tool: str, annotations: Mapping[str, Any], hidden: Collection[str] = (), *, may_hide: bool = False
) -> None:
    """Refuses a tool with an argument whose values no rule can read.

    Args:
        tool: its name.
        annotations: of its arguments.
        hidden: the arguments that are not judged.
        may_hide: whether the adapter has the option `unjudged`.

    Raises:
        InputError: there is one.
    """
    advice = ", or name it in unjudged=..." if may_hide else ""
    for name, annotation in annotations.items():
        if name not in hidden and (found := opaque_type(annotation)) is not None:
            raise InputError(
                f"{name!r} of the tool {tool!r} is a {found}, which has no lossless form for rules; expected a plain "
                f"type{advice}"
            )


def bound_by_name(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any], tool: str
) -> dict[str, Any]:
    """Returns the arguments that a function would get, by their names, with defaults.

    Raises:
        InputError: they do not fit, or a value has no name.
    """
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise InputError(f"the arguments of {tool!r} do not fit: {error}") from None
    bound.apply_defaults()
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL and value:
            raise InputError(f"{tool!r} takes its arguments by name")
        if kind is not inspect.Parameter.VAR_POSITIONAL:
            named |= value if kind is inspect.Parameter.VAR_KEYWORD else {name: value}
    return named


def named_by_schema(
    schema: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], tool: str
) -> dict[str, Any]:
    """Returns arguments by the names of a JSON schema, in the order of its properties.

    Raises:
        InputError: there are too many, or one is there twice.
    """
    names = tuple(schema.get("properties", ()))
    if len(args) > len(names) or set(names[: len(args)]) & kwargs.keys():
        raise InputError(f"the arguments of {tool!r} do not fit; expected {', '.join(names)}")
    return {**dict(zip(names, args, strict=False)), **kwargs}


# --- copies of arguments

JSON_SCALARS = frozenset({str, int, float, bool, type(None)})


def value_copy(value: Any, place: str) -> Any:
    """Returns a deep copy of JSON values; others are checked for a form that rules can read.

    Raises:
        InputError: there is no copy, or no such form; the message names the place.
    """
    if type(value) in JSON_SCALARS:
        return value
    if type(value) is dict:
        return {name: value_copy(item, f"{place}.{name}") for name, item in value.items()}
    if type(value) is list:
        return [value_copy(item, f"{place}[]") for item in value]
    try:
        plain_value(value, place)
        return copy.deepcopy(value)
    except Exception as error:  # noqa: BLE001 - whatever a copy raises
        raise InputError(f"{place} cannot be judged and copied: {error}") from None


def copied_values(args: Mapping[str, Any]) -> dict[str, Any]:
    """Returns copies of arguments by their names; see `value_copy`."""
    return {name: value_copy(value, name) for name, value in args.items()}


def same_arguments(args: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Whether arguments are equal as rules read them, with the types of their values."""
    return repr(_ordered(thaw(args))) == repr(_ordered(thaw(others)))


def as_judged(args: Mapping[str, Any], own: Mapping[str, Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments that run: the judged copies, or a reviewer's edits where they differ.

    Args:
        args: the arguments that may run, as rules read them.
        own: the judged copies.
        plain: the judged copies, as rules read them.
    """
    shown = thaw(plain)
    return {
        name: own[name] if name in own and repr(shown[name]) == repr(value) else value for name, value in args.items()
    }


def _ordered(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _ordered(value[name]) for name in sorted(value)}
    return [_ordered(item) for item in value] if isinstance(value, list | tuple) else value


# --- the calls of a conversation


def proposed_ids(guard: EnforcementPoint, conversation: str | None) -> set[str]:
    """Returns the ids of the calls that models proposed in a conversation."""
    known: set[str] = guard.notes(conversation).setdefault("proposed", set()) if conversation else set()
    return known


def paused_calls(guard: EnforcementPoint, conversation: str | None) -> dict[Any, HostCall]:
    """Returns the running calls of a conversation whose tools wait for a person."""
    known: dict[Any, HostCall] = guard.notes(conversation).setdefault("paused", {}) if conversation else {}
    return known


# --- surroundings

ScopeT = TypeVar("ScopeT")
Named = str | Callable[[], str | None] | None
"""The conversation's id, or a function that returns it."""


def naming(named: Named) -> Callable[[], str | None]:
    """Returns a function that returns the operator's name of the conversation; None if there is none."""
    return named if callable(named) else lambda: named


@dataclass(frozen=True, slots=True)
class HostScope:
    """The surroundings of a run or a call.

    Attributes:
        conversation: its id; None if there is none.
        run: the run; None outside of one.
        call: the running call; runs inside it are parts of its conversation.
    """

    conversation: str | None
    run: Any = None
    call: HostCall | None = None

    @property
    def inside(self) -> bool:
        """Whether a run that begins here belongs to this conversation, whatever it is called elsewhere."""
        return self.call is not None


HostScopeT = TypeVar("HostScopeT", bound=HostScope)


class ScopeVariable(Generic[ScopeT]):
    """Holds the surroundings of the running code, for each thread and task.

    Args:
        host: the framework.
    """

    def __init__(self, host: str) -> None:
        self._held: ContextVar[ScopeT | None] = ContextVar(f"guardagent_{host}", default=None)

    def scope(self) -> ScopeT | None:
        """Returns the surroundings of the calling code; None if there are none."""
        return self._held.get()

    @contextmanager
    def enter(self, around: ScopeT | None) -> Iterator[None]:
        """Code inside has these surroundings."""
        token = self._held.set(around)
        try:
            yield
        finally:
            self._held.reset(token)

    def within(self, around: ScopeT, work: Operation) -> Operation:
        """Returns work that runs in these surroundings."""

        def run() -> Any:
            with self.enter(around):
                return work.sync_call()

        async def arun() -> Any:
            with self.enter(around):
                return await work.async_call()

        return Operation(run, arun)

    async def stream_within(self, around: ScopeT, events: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
        """Yields events, each made in these surroundings. The code between them keeps its own."""
        try:
            while True:
                with self.enter(around):
                    try:
                        event = await anext(events)
                    except StopAsyncIteration:
                        return
                yield event
        finally:
            with self.enter(around):
                await events.aclose()


class HostSurroundings(ScopeVariable[HostScopeT]):
    """The surroundings of a host whose programs name conversations.

    Args:
        host: the framework.
        kind: the class of its surroundings.
    """

    def __init__(self, host: str, kind: Callable[[str], HostScopeT]) -> None:
        super().__init__(host)
        self._kind = kind

    @contextmanager
    def conversation(self, name: str) -> Iterator[None]:
        """Runs that begin inside belong to this conversation; within a tool, to the one that the tool was called in."""
        around = self.scope()
        with self.enter(around if around is not None and around.inside else self._kind(name)):
            yield


def awaited(work: Callable[[], Awaitable[Any]]) -> Operation:
    """Returns work of a host whose calls have to be awaited."""
    return Operation(_no_sync, work)


def _no_sync() -> Any:
    raise InputError("calls of this host have to be awaited")


# --- denials


def noted_denial(denied: ToolDenied, around: HostScope, unnamed: str) -> ToolDenied:
    """Notes a denial at its run, and returns it; one without a conversation says how to name it.

    Args:
        denied: the denial.
        around: the surroundings of the call.
        unnamed: how a program of this host names a conversation.
    """
    if around.run is not None:
        around.run.note(denied.tool, denied.verdict)
    return explained_denial(denied, around.conversation, unnamed)


def explained_denial(denied: ToolDenied, conversation: str | None, unnamed: str) -> ToolDenied:
    """As `noted_denial`, without a run."""
    if conversation:
        return denied
    return ToolDenied(denied.tool, replace(denied.verdict, errors=(*denied.verdict.errors, unnamed)))


def withheld(verdict: Verdict) -> str:
    """Returns the text in place of a denied answer."""
    return f"The answer is withheld.\n{verdict.feedback()}"


# --- unfinished work


def finished(name: str, output: Any) -> Any:
    """Returns a tool's output if its work is done.

    Raises:
        InputError: the work has not begun, as that of a generator.
        TimeoutError: the work is still running, and may or may not finish.
    """
    if not (inspect.isawaitable(output) or isinstance(output, Future | Iterator | AsyncIterator)):
        return output
    if close := getattr(output, "close", None):
        close()
    raise (TimeoutError if isinstance(output, Future | asyncio.Future) else InputError)(
        f"{name} returned a {type(output).__name__}, whose work is not done yet; expected what it has found"
    )


# --- approval by the host


class HostApproval:
    """Whether a call may need a reviewer whom the host asks.

    Args:
        guard: decides.
    """

    def __init__(self, guard: EnforcementPoint) -> None:
        self._guard, self._has_escalated = guard, False

    @property
    def may_be_needed(self) -> bool:
        """Whether a rule may escalate a call, or could under an earlier version of the rules.

        A guard with an approver does not need the host.
        """
        self._has_escalated = self._has_escalated or self._guard.may_escalate
        return self._guard.approver is None and self._has_escalated


# --- runs


@dataclass(slots=True)
class HostRun:
    """One run of an agent.

    Attributes:
        halt_error: the class of the error that a halted run raises.
        outer: the run around it, whose tool runs it; None for a run that a program started.
        final: the guard's answer, which ends the run.
        halted: the halt that ends the run.
    """

    halt_error: ClassVar[type[ToolDenied]] = ToolDenied

    outer: Self | None = None
    id: str = field(default_factory=random_id)
    final: str | None = None
    halted: ToolDenied | None = None

    def note(self, tool: str, verdict: Verdict) -> None:
        """Notes a denial. After a halt, or once the agent gave up, this run and those around it end."""
        halted = self.halt_error(tool, verdict) if verdict.decision is Decision.HALT else None
        final = f"{verdict.feedback()}\n{verdict.reasons[-1]}" if gave_up(verdict) else None
        run: HostRun | None = self
        while run is not None:
            run.final, run.halted = run.final or final, run.halted or halted
            run = run.outer


@dataclass(slots=True)
class ModelRun(HostRun):
    """A run whose adapter sees the model's messages.

    Attributes:
        step: the number of the model's messages.
        messages: the messages that the model has read, as rules read them.
        seen: the ids of the calls whose results are among these.
        passed: the answers that were judged and may be shown.
    """

    step: int = 0
    messages: Sequence[dict[str, str]] = ()
    seen: Sequence[str] = ()
    passed: set[str] = field(default_factory=set)

    def call_options(self, *, nested: bool) -> dict[str, Any]:
        """Returns the options of a `HostCall` in this run. A call within another one shows no messages."""
        step = {"step": f"{self.id}.{self.step}"}
        return step if nested else {**step, "messages": self.messages, "seen": self.seen}


# --- the tools of agents

UNREAD = "Not accepted by the operator yet: each call is denied."
"""The description of a server's tool that the operator has not accepted."""


class ListedTools:
    """The tools of one attachment.

    Args:
        guard: compares them with its rules.

    Attributes:
        specs: the tools by name.
    """

    def __init__(self, guard: EnforcementPoint) -> None:
        self._guard = guard
        self.specs: dict[str, ToolSpec] = {}
        self._checked: dict[str, ToolSpec] | None = None

    def add(self, *specs: ToolSpec) -> None:
        self.specs.update({one.name: one for one in specs})

    @property
    def changed(self) -> bool:
        """Whether there are tools that were not compared with the rules as they are now."""
        return self._checked != self.specs

    def check(self) -> None:
        """Compares new or changed tools with the rules.

        Raises:
            InputError: a rule names a tool that is probably a misspelling of one of these.
        """
        if self.changed:
            self._guard.attach(self.specs.values())
            self._checked = dict(self.specs)


def unaccepted_names(guard: EnforcementPoint, servers: Mapping[str, Sequence[ToolSpec]]) -> set[str]:
    """Compares the tools of servers with the accepted ones. Returns the names of those that may not be called.

    Args:
        guard: holds the accepted tools.
        servers: the complete list of each server, by its key.
    """
    for server, listed in servers.items():
        guard.update_server_tools(server, listed)
    names = {one.name for listed in servers.values() for one in listed}
    return {name for name in names if guard.accepted.unaccepted(name) is not None}
