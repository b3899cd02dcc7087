"""Judges and runs the calls of agents: runs, an agent's memory as rules read it, arguments, and guarded tools.

Arguments are bound to the tool's signature, and copied, so that the judged ones are those that run.
"""

from __future__ import annotations

import copy
import datetime as dt
import hashlib
import inspect
import uuid
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

from smolagents import Tool
from smolagents.memory import ActionStep, TaskStep

from guardagent._support.execution import Operation, drive
from guardagent.enforcement import HostCall, ToolSpec
from guardagent.enforcement.host_adapter import HostAdapter, ToolInvocation, withheld
from guardagent.enforcement.host_runs import HostScope, HostSurroundings, ModelRun
from guardagent.enforcement.schema import validate_arguments
from guardagent.enforcement.tool_arguments import bound_by_name, finished, named_by_schema, read_signature
from guardagent.errors import InputError, ToolDenied
from guardagent.types import Verdict

# --- runs

UNNAMED = "this run names no conversation: run the agent inside 'with conversation(id):', or pass conversation=..."
MAX_DENIED_ANSWERS = 3
_WRITTEN = ("model_output", "model_output_message", "code_action", "observations", "action_output", "tool_calls")


class AgentHalted(ToolDenied):
    """A rule has halted the run: `agent.run` raises this. `verdict` says why."""


@dataclass(slots=True, kw_only=True)
class SmolagentsRun(ModelRun):
    """One run of an agent.

    Attributes:
        agent: the agent.
        parallel: whether the current message has several calls.
        denied_answers: the number of denied final answers.
        memory_step: the host's record of the current step.
    """

    halt_error = AgentHalted

    agent: Any
    parallel: bool = False
    denied_answers: int = 0
    memory_step: Any = None

    def begin_step(self, memory_step: Any, proposed: set[str]) -> None:
        """Begins a step, before which the agent's memory is what the model has read.

        Args:
            memory_step: the host's record of it.
            proposed: the keys of the calls that models proposed under this guard, which may have been denied.
        """
        self.step, self.memory_step, steps = self.step + 1, memory_step, self.agent.memory.steps
        self.messages, self.seen = chat(steps), [shown for key, shown in shown_calls(steps) if key not in proposed]

    def call_options(self, *, nested: bool) -> dict[str, Any]:
        return {**ModelRun.call_options(self, nested=nested), "agent": self.agent.name}

    def note_denied_answer(self, verdict: Verdict) -> None:
        """Notes a denied final answer, and takes it out of the memory, whose steps the user may see."""
        self.denied_answers += 1
        for name in _WRITTEN if self.memory_step is not None else ():
            setattr(self.memory_step, name, None)
        self.note("final_answer", verdict)
        if self.denied_answers >= MAX_DENIED_ANSWERS:
            self.final = withheld(verdict)


@dataclass(frozen=True, slots=True)
class SmolagentsScope(HostScope):
    """The surroundings of a call or a run."""

    run: SmolagentsRun | None = None


SURROUNDINGS = HostSurroundings("smolagents", SmolagentsScope)
scope, enter, conversation = SURROUNDINGS.scope, SURROUNDINGS.enter, SURROUNDINGS.conversation


# --- memory


def chat(steps: Iterable[Any]) -> list[dict[str, str]]:
    """Returns the tasks and the model's messages."""
    messages: list[dict[str, str]] = []
    for step in steps:
        if isinstance(step, TaskStep):
            messages.append({"role": "user", "content": step.task})
        elif isinstance(step, ActionStep) and isinstance(step.model_output, str):
            messages.append({"role": "assistant", "content": step.model_output})
    return messages


def call_key(call: Any) -> str:
    """Returns what identifies a call in the memory: a model may use an id again."""
    return hashlib.sha256(repr((call.id, call.name, call.arguments)).encode(errors="backslashreplace")).hexdigest()


def shown_calls(steps: Sequence[Any]) -> list[tuple[str, str]]:
    """Returns the key and the id of each call that has a result in the memory."""
    return [
        (call_key(call), str(call.id))
        for step in steps
        if isinstance(step, ActionStep)
        for call in step.tool_calls or ()
        if step.observations is not None
    ]


# --- arguments

_ATOMS = frozenset(
    {str, int, float, bool, type(None), Decimal, bytes, uuid.UUID, dt.date, dt.datetime, dt.time, dt.timedelta}
)
_SEQUENCES = frozenset({list, tuple, set, frozenset})
_SELF = frozenset({"self"})  # which `@tool` declares for a static function
DEEPEST = 100
_COMBINED = frozenset({"anyOf", "oneOf", "allOf", "$ref"})


@dataclass(frozen=True, slots=True)
class SmolagentsArguments:
    """Reads the arguments of a tool.

    Attributes:
        spec: the tool's declaration.
        signature: of its function; None if it takes whatever its schema declares.
        unjudged: arguments that are passed on unchanged, and neither judged nor logged.
    """

    spec: ToolSpec
    signature: inspect.Signature | None
    unjudged: frozenset[str] = frozenset()

    @classmethod
    def of_tool(cls, tool: Any, unjudged: Collection[str] = ()) -> SmolagentsArguments:
        """Reads the declaration of a tool of smolagents.

        Raises:
            InputError: the tool has no argument of a name in `unjudged`.
        """
        generic = getattr(tool, "skip_forward_signature_validation", False) is True
        signature = None if generic else read_signature(tool.forward, tool.name, omit=_SELF - tool.inputs.keys())
        spec = ToolSpec(tool.name, _schema(tool.inputs), tool.description)
        return cls(spec, signature, _known(unjudged, tool.inputs, tool.name))

    @classmethod
    def of_function(
        cls, function: Callable[..., Any], name: str, unjudged: Collection[str] = ()
    ) -> SmolagentsArguments:
        """Reads the signature of a function that generated code may call.

        Raises:
            InputError: it has none.
        """
        signature = read_signature(function, name, omit=_SELF)
        schema = {"type": "object", "properties": {argument: {} for argument in signature.parameters}}
        spec = ToolSpec(name, schema, inspect.getdoc(function) or "")
        return cls(spec, signature, _known(unjudged, signature.parameters, name))

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns copies of the arguments that the tool will get, with defaults, and the unjudged ones.

        Raises:
            InputError: they do not fit the tool, or one cannot be judged.
        """
        named = self._named(args, kwargs)
        apart = {name: named.pop(name) for name in self.unjudged & named.keys()}
        judged = {name: value_copy(value, f"{name} of {self.spec.name}") for name, value in named.items()}
        if self.signature is None:
            judged = validate_arguments(self.spec.name, judged, self.spec.schema)
        return judged, apart

    def _named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if self.signature is None:
            return named_by_schema(self.spec.schema, args, kwargs, self.spec.name)
        return bound_by_name(self.signature, args, kwargs, self.spec.name)


def value_copy(value: Any, place: str, depth: int = 0) -> Any:
    """Returns a deep copy of a value of plain types, exactly: a subclass could show rules another value.

    Raises:
        InputError: the value is of another type.
    """
    kind = type(value)
    if kind in _ATOMS:
        return value
    if depth > DEEPEST:
        raise InputError(f"{place[:80]} is nested too deeply, or contains itself")
    if kind in _SEQUENCES:
        return kind(value_copy(item, f"{place}[]", depth + 1) for item in copy.copy(value))
    if kind is dict:
        return {
            value_copy(name, f"a key of {place}", depth + 1): value_copy(item, f"{place}.{name}", depth + 1)
            for name, item in dict(value).items()
        }
    raise InputError(
        f"{place[:80]} is a {kind.__name__}, which cannot be judged and copied; expected plain values, "
        "or name the argument in unjudged=... if no rule needs it"
    )


def _schema(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a tool's `inputs` as a JSON schema."""
    required = [name for name, field in inputs.items() if not field.get("nullable") and "default" not in field]
    properties = {name: _property(field) for name, field in inputs.items()}
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _property(declared: Mapping[str, Any]) -> dict[str, Any]:
    schema = {name: value for name, value in declared.items() if name != "nullable"}
    kinds = [schema["type"]] if isinstance(schema.get("type"), str) else list(schema.get("type") or ())
    if _COMBINED & schema.keys() or {"any", "image", "audio"} & set(kinds):
        schema.pop("type", None)
    elif declared.get("nullable"):
        schema["type"] = [*kinds, "null"]
    return schema


def _known(unjudged: Collection[str], names: Collection[str], tool: str) -> frozenset[str]:
    if odd := sorted(set(unjudged) - set(names)):
        raise InputError(f"{tool!r} has no argument {odd[0]!r} to leave unjudged")
    return frozenset(unjudged)


# --- calls

Read = Callable[[tuple[Any, ...], Mapping[str, Any]], tuple[dict[str, Any], dict[str, Any]]]
"""Returns the judged and the unjudged arguments of a call, from those by position and those by name."""


class SmolagentsInvocation(ToolInvocation[SmolagentsScope]):
    """One call of a tool, a function, or an agent that another agent manages.

    Args:
        adapter: has the guard.
        name: the name of the tool.
        read: reads the arguments.
        args: those by position.
        kwargs: those by name.
    """

    edits_run = True

    def __init__(
        self,
        adapter: HostAdapter[SmolagentsScope],
        name: str,
        read: Read,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> None:
        super().__init__(adapter, name, adapter.around())
        self._read, self._args, self._kwargs = read, args, kwargs

    def invoke(self, work: Callable[..., Any]) -> Any:
        """Judges the call, and runs the work with the judged arguments.

        Raises:
            ToolDenied: the call may not run.
        """

        def operation(args: dict[str, Any]) -> Operation:
            run = partial(work, **args)
            return Operation(run, run)

        return drive(self.steps(operation))

    def bind(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._read(self._args, self._kwargs)

    def rebind(self, edited: Mapping[str, Any]) -> dict[str, Any]:
        return self._read((), {**edited, **self.apart})[0]

    def inside(self, call: HostCall) -> SmolagentsScope:
        return SmolagentsScope(call.conversation, self.around.run, call)


# --- guarded tools

_code_functions: weakref.WeakSet[Any] = weakref.WeakSet()


class SmolagentsTool(Tool):
    """Judges each call of a tool, and runs the tool with the judged arguments.

    Args:
        tool: the tool itself. It is not changed.
        arguments: how its arguments are read.
        adapter: judges and runs; its guard tells tools of another one.
    """

    skip_forward_signature_validation = True

    def __init__(self, tool: Any, arguments: SmolagentsArguments, adapter: HostAdapter[SmolagentsScope]) -> None:
        self.name, self.description, self.inputs = tool.name, tool.description, tool.inputs
        self.output_type, self.output_schema = tool.output_type, getattr(tool, "output_schema", None)
        self.is_initialized = True  # the tool's own setup runs inside its first allowed call
        self.guardagent_adapter, self.guardagent_arguments, self._tool = adapter, arguments, tool

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        read = self.guardagent_arguments.bind
        return SmolagentsInvocation(self.guardagent_adapter, self.name, read, args, kwargs).invoke(self._work)

    def _work(self, **kwargs: Any) -> Any:
        if not getattr(self._tool, "is_initialized", True):
            self._tool.setup()
        return finished(self.name, self._tool.forward(**kwargs))

    def to_code_prompt(self) -> str:
        return str(self._tool.to_code_prompt())

    def to_tool_calling_prompt(self) -> str:
        return str(self._tool.to_tool_calling_prompt())

    def to_dict(self) -> dict[str, Any]:
        return dict(self._tool.to_dict())


def code_function(tool: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Returns a function that calls a tool, for generated code: it has no attributes through which to get past it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return tool(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = getattr(tool, "description", None)
    _code_functions.add(call)
    return call


def is_code_function(value: object) -> bool:
    """Whether `code_function` has made it."""
    return value in _code_functions if inspect.isfunction(value) else False
