"""Guarded agents, tools and executors, the arguments of tools, and final answers.

A final answer is judged before the user sees it: as one of the agent's `final_answer_checks`. Arguments are bound to
the tool's signature, and copied, so that the judged ones are those that run. The class of a guarded agent is a
subclass of the original class. The executor of generated code gets guarded functions only.
"""

from __future__ import annotations

import contextvars
import copy
import datetime as dt
import inspect
import json
import sys
import threading
import uuid
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from smolagents import ActionOutput, MultiStepAgent, Tool
from smolagents.local_python_executor import BASE_PYTHON_TOOLS, ExecutionTimeoutError, LocalPythonExecutor
from smolagents.memory import ActionStep, FinalAnswerStep, PlanningStep, ToolCall
from smolagents.models import ChatMessageStreamDelta
from smolagents.utils import AgentError, AgentGenerationError, AgentToolExecutionError

from guardagent._support.requirements import require_parts
from guardagent.enforcement import EnforcementPoint, ToolSpec
from guardagent.enforcement.calls import plain_value
from guardagent.enforcement.host_adapter import withheld
from guardagent.enforcement.schema import validate_arguments
from guardagent.enforcement.tool_arguments import bound_by_name, finished, named_by_schema, read_signature
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.smolagents.adapter.runs import SmolagentsRun, SmolagentsScope, chat, enter, scope
from guardagent.types import Verdict, unchecked_verdict

# --- final answers


class AnswerCheck:
    """A check of `final_answer_checks`: a denied answer goes back to the model."""

    __name__ = "guardagent"

    def __init__(self, guard: EnforcementPoint) -> None:
        self.guard = guard

    def __call__(self, final_answer: Any, memory: Any, agent: Any) -> bool:  # noqa: ARG002 - the host's arguments
        verdict = denial(self.guard, final_answer, agent)
        if verdict is not None:
            around = scope()
            if around is not None and around.run is not None:
                around.run.note_denied_answer(verdict)
            raise ToolDenied("final_answer", verdict)
        return True


def denial(guard: EnforcementPoint, answer: Any, agent: Any) -> Verdict | None:
    """Returns the verdict that denies a run's final answer; None if the user may see it."""
    around = scope()
    if not guard.judges_answers or (around is not None and around.call is not None):
        return None  # a managed agent's answer is for the agent that called it
    run = around.run if around is not None else None
    if run is not None and run.final is not None and answer == run.final:
        return None
    if (kind := _class_of_code(answer)) is not None:
        problem = f"the answer has a {kind.__name__}, a class of the code, which may read as anything; use plain values"
        return unchecked_verdict(problem, checked_by="policy")
    users = [one["content"] for one in chat(agent.memory.steps) if one["role"] == "user"]
    conversation = (around.conversation if around is not None else None) or ""
    verdict = guard.answer(conversation, users[-1] if users else "", answer_text(answer))
    return verdict if verdict.label else None


def without_answer(guard: EnforcementPoint, message: Any, agent: Any) -> Any:
    """Returns the model's last answer after its last step, or the reason why it is withheld."""
    verdict = denial(guard, message.content, agent)
    if verdict is not None:
        message.content = withheld(verdict)
    return message


def answer_text(answer: Any) -> str:
    """Returns an answer as rules read it."""
    if isinstance(answer, str):
        return str.__str__(answer)
    try:
        return json.dumps(plain_value(answer), ensure_ascii=False, default=str)
    except (InputError, TypeError, ValueError):
        return str(answer)


def _class_of_code(answer: Any) -> type | None:
    """Returns a class in an answer that no module has, as those that generated code makes; None if there is none."""
    waiting, seen = [answer], set[int]()
    while waiting:
        value = waiting.pop()
        kind = type(value)
        if value is None or id(value) in seen:
            continue
        seen.add(id(value))
        if kind in (list, tuple, set, frozenset, dict):
            waiting += [*value, *value.values()] if kind is dict else value
            continue
        found: Any = sys.modules.get(str(kind.__module__))
        for name in kind.__qualname__.split("."):
            found = getattr(found, name, None)
        if found is not kind:
            return kind
    return None


def streamed(events: Generator[Any, None, None], around: SmolagentsScope, *, held: bool) -> Iterator[Any]:
    """Yields the events of a run, each made within its surroundings.

    Args:
        events: the run.
        around: its surroundings.
        held: whether its answer is judged. Then the events of a step come after the step, those of a failed one, whose
            answer may have been denied, not at all, and the model's text not word by word.
    """
    waiting: list[Any] = []
    try:
        while True:
            with enter(around):
                try:
                    event = next(events)
                except StopIteration:
                    return
            if not held:
                yield event
            elif not isinstance(event, ChatMessageStreamDelta):
                waiting.append(event)
                if isinstance(event, ActionStep | PlanningStep | FinalAnswerStep):
                    yield from waiting if getattr(event, "error", None) is None else ()
                    waiting.clear()
    finally:
        events.close()


# --- arguments

_ATOMS = frozenset(
    {str, int, float, bool, type(None), Decimal, bytes, uuid.UUID, dt.date, dt.datetime, dt.time, dt.timedelta}
)
_SEQUENCES = frozenset({list, tuple, set, frozenset})
_SELF = frozenset({"self"})  # which `@tool` declares for a static function
_DEEPEST = 100
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
        schema = {"type": "object", "properties": {one: {} for one in signature.parameters}}
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
    if depth > _DEEPEST:
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
    required = [name for name, one in inputs.items() if not one.get("nullable") and "default" not in one]
    properties = {name: _property(one) for name, one in inputs.items()}
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _property(declared: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: one for name, one in declared.items() if name != "nullable"}
    kinds = [found["type"]] if isinstance(found.get("type"), str) else list(found.get("type") or ())
    if _COMBINED & found.keys() or {"any", "image", "audio"} & set(kinds):
        found.pop("type", None)
    elif declared.get("nullable"):
        found["type"] = [*kinds, "null"]
    return found


def _known(unjudged: Collection[str], names: Collection[str], tool: str) -> frozenset[str]:
    if odd := sorted(set(unjudged) - set(names)):
        raise InputError(f"{tool!r} has no argument {odd[0]!r} to leave unjudged")
    return frozenset(unjudged)


# --- the attachment


class SmolagentsParts(ABC):
    """One guard, and the agents that it guards.

    Attributes:
        guard: decides.
        unjudged: tool -> its unjudged arguments.
    """

    guard: EnforcementPoint
    unjudged: Mapping[str, Collection[str]]

    @abstractmethod
    def refresh(self, agent: Any) -> None:
        """Guards additions to an agent, and compares them with the rules.

        Raises:
            InputError: an addition cannot be guarded.
        """

    @abstractmethod
    def code_function(self, name: str, tool: Any) -> Callable[..., Any]:
        """Returns the guarded function that generated code calls for a tool, an agent or a function."""

    @abstractmethod
    def list_tool(self, spec: ToolSpec) -> None:
        """Adds a tool to those that are compared with the rules."""

    @abstractmethod
    def begin(self, agent: Any) -> SmolagentsScope:
        """Returns the surroundings of a new run."""

    @abstractmethod
    def propose(self, call: Any) -> None:
        """Notes a call that the model proposed in this conversation."""

    @abstractmethod
    def invoke(
        self, arguments: SmolagentsArguments, args: tuple[Any, ...], kwargs: Mapping[str, Any], work: Callable[..., Any]
    ) -> Any:
        """Judges a call, and runs it with the judged arguments.

        Raises:
            ToolDenied: the call may not run.
        """

    @abstractmethod
    def invoke_agent(self, agent: Any, task: Any, kwargs: Mapping[str, Any], work: Callable[..., Any]) -> Any:
        """As `invoke`, for an agent that another agent manages."""


# --- agents

PARTS = ("run", "tools", "managed_agents", "memory", "final_answer_checks", "_step_stream", "provide_final_answer")


def guarded_class(base: type, attachment: SmolagentsParts) -> type:
    """Returns the class of an agent with a guard."""
    kinds: tuple[type, ...] = (_ToolCalling, _GuardedAgent) if hasattr(base, "execute_tool_call") else (_GuardedAgent,)
    return type(base.__name__, (*kinds, base), {"__module__": base.__module__, "guardagent_attachment": attachment})


class _GuardedAgent(MultiStepAgent):
    """Runs in a conversation, with guarded tools, and ends when its guard ends the run."""

    guardagent_attachment: SmolagentsParts

    def run(self, *args: Any, **kwargs: Any) -> Any:
        attachment = self.guardagent_attachment
        attachment.refresh(self)
        around = attachment.begin(self)
        with enter(around):
            result = super().run(*args, **kwargs)
        if not isinstance(result, Generator):
            return result
        return streamed(result, around, held=attachment.guard.judges_answers and around.call is None)

    def __call__(self, task: str, **kwargs: Any) -> Any:
        """Runs as another agent's tool: the call is judged."""
        return self.guardagent_attachment.invoke_agent(self, task, kwargs, super().__call__)

    def _step_stream(self, memory_step: Any) -> Iterator[Any]:
        self.guardagent_attachment.refresh(self)
        around = scope()
        if around is None or around.run is None or around.run.agent is not self:
            around = self.guardagent_attachment.begin(self)  # `agent.step`, called by hand
        run = around.run
        assert run is not None
        run.step, run.memory_step = run.step + 1, memory_step
        yield from _ended(run) or streamed(self._guarded_step(memory_step, run), around, held=False)

    def _guarded_step(self, memory_step: Any, run: SmolagentsRun) -> Generator[Any, None, None]:
        answered = False
        try:
            for output in super()._step_stream(memory_step):
                if isinstance(output, ToolCall):
                    self.guardagent_attachment.propose(output)
                answered = answered or bool(getattr(output, "is_final_answer", False))
                if answered and run.halted is not None:  # code may have caught the halt
                    raise run.halted
                yield output
                if isinstance(output, ToolCall):
                    self.guardagent_attachment.refresh(self)  # whoever reads the stream may have changed the agent
        except AgentGenerationError:
            raise
        except AgentError as error:
            ended = _ended(run)
            if ended is None:
                raise
            memory_step.error = error
            yield from ended
        else:
            yield from (() if answered else _ended(run) or ())

    def provide_final_answer(self, *args: Any, **kwargs: Any) -> Any:
        return without_answer(self.guardagent_attachment.guard, super().provide_final_answer(*args, **kwargs), self)


class _ToolCalling(MultiStepAgent):
    """An agent whose model calls tools in messages."""

    guardagent_attachment: SmolagentsParts

    def process_tool_calls(self, chat_message: Any, memory_step: Any) -> Iterator[Any]:
        around = scope()
        if around is not None and around.run is not None:
            around.run.parallel = len(chat_message.tool_calls or ()) > 1
        return super().process_tool_calls(chat_message, memory_step)  # type: ignore[no-any-return]

    def execute_tool_call(self, tool_name: str, arguments: Any) -> Any:
        """Runs a call. A denial is an error of the step; of one of several calls, its output.

        An error of one of several calls would cost the model the outputs of the others.
        """
        self.guardagent_attachment.refresh(self)
        try:
            return super().execute_tool_call(tool_name, arguments)
        except AgentToolExecutionError as error:
            denied, around = error.__cause__, scope()
            if not isinstance(denied, ToolDenied):
                raise
            parallel = around is not None and around.run is not None and around.run.parallel
            if parallel and tool_name != "final_answer":
                return str(denied)
            raise AgentToolExecutionError(str(denied), self.logger) from denied


def _ended(run: SmolagentsRun) -> list[Any] | None:
    """Returns the output that ends a run, once its guard has ended it; else None.

    Raises:
        AgentHalted: a rule has halted the run.
    """
    if run.halted is not None:
        raise run.halted
    return None if run.final is None else [ActionOutput(output=run.final, is_final_answer=True)]


def surroundings(conversation: str | None, agent: Any) -> SmolagentsScope:
    """Returns the surroundings of a new run: within a tool, those of the call."""
    around = scope()
    if around is not None and around.call is not None:
        return SmolagentsScope(around.conversation, SmolagentsRun(around.run, agent=agent), around.call)
    named = conversation or (around.conversation if around is not None else None)
    return SmolagentsScope(named, SmolagentsRun(agent=agent))


# --- guarded tools

Invoke = Callable[[SmolagentsArguments, tuple[Any, ...], Mapping[str, Any], Callable[..., Any]], Any]
"""Judges and runs a call: how its arguments are read, by position, by name, and the work."""

_code_functions: weakref.WeakSet[Any] = weakref.WeakSet()


class SmolagentsTool(Tool):
    """Judges each call of a tool, and runs the tool with the judged arguments.

    Args:
        tool: the tool itself. It is not changed.
        arguments: how its arguments are read.
        invoke: judges and runs.
        guard: the guard, to recognise tools of another one.
    """

    skip_forward_signature_validation = True

    def __init__(self, tool: Any, arguments: SmolagentsArguments, invoke: Invoke, guard: object) -> None:
        self.name, self.description, self.inputs = tool.name, tool.description, tool.inputs
        self.output_type, self.output_schema = tool.output_type, getattr(tool, "output_schema", None)
        self.is_initialized = True  # the tool itself is set up within its first allowed call
        self.guardagent_guard, self.guardagent_arguments = guard, arguments
        self._tool, self._invoke = tool, invoke

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._invoke(self.guardagent_arguments, args, kwargs, self._work)

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


# --- the executor of generated code


def guard_executor(executor: Any, attachment: SmolagentsParts) -> None:
    """Guards the executor of a CodeAgent in place.

    Raises:
        InputError: the code runs elsewhere, where the tools are copies that no guard sees.
    """
    if not isinstance(executor, LocalPythonExecutor):
        raise InputError(
            f"a {type(executor).__name__} runs copies of the tools elsewhere, where no guard sees them; "
            "expected executor_type='local'"
        )
    if isinstance(executor, _GuardedExecutor):
        if executor.guardagent_attachment.guard is not attachment.guard:
            raise InputError("this executor has another guard already; expected one guard for all agents")
        return
    require_parts(executor, "send_tools", "send_variables", "static_tools", "additional_functions", "timeout_seconds")
    executor.guardagent_attachment = attachment
    executor.guardagent_seconds, executor.timeout_seconds = executor.timeout_seconds, None
    base = type(executor)
    executor.__class__ = type(base.__name__, (_GuardedExecutor, base), {"__module__": base.__module__})
    if executor.static_tools:
        executor.send_tools(executor.static_tools)


class _GuardedExecutor(LocalPythonExecutor):
    """Gives code only guarded functions, and runs it in the context of its run."""

    guardagent_attachment: SmolagentsParts
    guardagent_seconds: float | None

    def send_tools(self, tools: Mapping[str, Any]) -> None:
        super().send_tools(dict(tools))
        self._replace_tools()

    def send_variables(self, variables: Mapping[str, Any]) -> None:
        """Adds variables of the code. A function in one would be a tool that no guard sees.

        Raises:
            InputError: one is a function, or a collection that holds one.
        """
        for name, value in variables.items():
            if _holds_function(value):
                raise InputError(f"the variable {name!r} has a function, which no guard would see; pass it as a tool")
        super().send_variables(variables)

    def __call__(self, code_action: str) -> Any:
        self._replace_tools()
        context, done = contextvars.copy_context(), _Done()
        work = threading.Thread(target=context.run, args=(done.of, super().__call__, code_action), daemon=True)
        work.start()  # the host's own thread would have an empty context
        work.join(self.guardagent_seconds)
        if not done.ended:
            raise ExecutionTimeoutError(
                f"Code execution exceeded the maximum time of {self.guardagent_seconds} seconds"
            )
        if done.error is not None:
            raise done.error
        return done.output

    def _replace_tools(self) -> None:
        """Replaces tools and functions by guarded functions; those of Python itself stay."""
        tools = self.static_tools or {}
        for name, tool in tools.items():
            if not is_code_function(tool) and tool is not BASE_PYTHON_TOOLS.get(name):
                tools[name] = self.guardagent_attachment.code_function(name, tool)


def _holds_function(value: Any, depth: int = 0) -> bool:
    """Whether a value is a function or holds one, or is nested too deeply to tell."""
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple | set | frozenset | deque):
        return depth > _DEEPEST or any(_holds_function(one, depth + 1) for one in value)
    return callable(value) and not isinstance(value, type)


class _Done:
    """The end of a thread's work."""

    def __init__(self) -> None:
        self.ended, self.output = False, None
        self.error: BaseException | None = None

    def of(self, work: Callable[..., Any], *args: Any) -> None:
        try:
            self.output = work(*args)
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            self.error = error
        self.ended = True


def guarded_function(attachment: SmolagentsParts, function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Returns the guarded form of one of the executor's `additional_functions`."""
    arguments = SmolagentsArguments.of_function(function, name, attachment.unjudged.get(name, ()))
    attachment.list_tool(arguments.spec)

    def work(**kwargs: Any) -> Any:
        return finished(name, function(**kwargs))

    return code_function(lambda *args, **kwargs: attachment.invoke(arguments, args, kwargs, work), name)
