"""The host's tasks and conversations, the state of a guard, and messages and tool results as rules read them.

A task runs one or more calls, and restarts from the beginning after an interrupt. LangGraph passes human answers to the
`interrupt()` calls of a task in call order. Calls of one task run side by side, in no fixed order, so that order says
nothing about which call an answer belongs to. So each run of a task takes all answers to the guard's questions before
anything else, and a call gets the one that names it: an answer holds the digest of what was shown.

All attachments of one guard share its state, since a web service may build its agent for each request.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.graph import END
from langgraph.types import Command, interrupt

from guardagent.enforcement import EnforcementPoint, HostCall, Outcome, ToolSpec
from guardagent.enforcement.calls import plain_value
from guardagent.errors import GuardError, InputError, ToolDenied

# --- tasks

MAX_TASKS = 10_000
_MAX_RUNS = 16


class CannotAskError(Exception):
    """An approval cannot be requested here; the message has the reason."""


@dataclass(slots=True)
class TaskRun:
    """One run of a task.

    Attributes:
        scratchpad: the host's scratchpad, which identifies the run.
        answers: the reviewer's answer for each call's digest.
        pending: the interrupt that stops the run.
    """

    scratchpad: Any
    answers: dict[str, Any] = field(default_factory=dict)
    pending: BaseException | None = None


@dataclass(frozen=True, slots=True)
class EditedArguments:
    """A reviewer's arguments of a call, as rules read them and as the tool gets them."""

    args: Mapping[str, Any]
    own: dict[str, Any]


@dataclass(slots=True)
class Task:
    """One task, through all its runs.

    Attributes:
        ended: the answer to each call that ran; it does not run again.
        running: the calls that are running.
        paused: the calls in flight whose tools interrupted the run.
        edited: the last edit of each call.
        tool_interrupted: whether a tool interrupted this task.
        runs: the newest runs; two may run in parallel.
    """

    lock: threading.RLock = field(default_factory=threading.RLock)
    ended: dict[Any, Any] = field(default_factory=dict)
    running: set[Any] = field(default_factory=set)
    paused: dict[Any, HostCall] = field(default_factory=dict)
    edited: dict[Any, EditedArguments] = field(default_factory=dict)
    tool_interrupted: bool = False
    runs: list[TaskRun] = field(default_factory=list)

    def begin(self, key: Any) -> bool:
        """Whether a call may start: not while another run of the task runs the same call."""
        with self.lock:
            free = key not in self.running
            if free and key not in self.ended:
                self.running.add(key)
            return free

    def enter(self, config: Mapping[str, Any]) -> TaskRun:
        """Returns the run in which a call starts. Raises the host's interrupt if the run stops with one."""
        scratchpad = (config.get("configurable") or {}).get("__pregel_scratchpad")  # a new object for each run
        with self.lock:
            run = next((run for run in self.runs if run.scratchpad is scratchpad), None)
            if run is None:
                run = TaskRun(scratchpad, _take_answers(scratchpad))
                self.runs = [*self.runs[1 - _MAX_RUNS :], run]
            if run.pending is not None:
                raise run.pending
            return run

    def ask(self, run: TaskRun, payload: Mapping[str, Any], *, alone: bool) -> Any:
        """Returns the reviewer's answer about a call. Raises the host's interrupt if there is none yet.

        Args:
            run: the run of the call.
            payload: the request to show.
            alone: whether the task has no other call.

        Raises:
            CannotAskError: the answer would reach the wrong call.
        """
        with self.lock:
            if self.tool_interrupted and not alone:
                raise CannotAskError("another tool that runs beside it has interrupted the run; propose it by itself")
            if run.pending is not None:  # asked about when that is answered
                raise run.pending
            try:
                return interrupt(dict(payload))
            except GraphInterrupt as error:
                run.pending = error
                raise

    def interrupted(self, run: TaskRun, error: BaseException) -> BaseException:
        """Returns the interrupt that stops the run after a call raised one."""
        with self.lock:
            if run.pending is None:
                self.tool_interrupted = True
                return error
            return run.pending

    @property
    def is_active(self) -> bool:
        """Whether a call of the task is running or paused."""
        return bool(self.running or self.paused)


class Tasks:
    """The tasks of all conversations: the newest ones, and those that are active."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Any, Task] = OrderedDict()

    def of(self, key: Any) -> Task:
        with self._lock:
            task = self._known.get(key)
            if task is None:
                task = self._known[key] = Task()
            self._known.move_to_end(key)
            if len(self._known) > MAX_TASKS:
                oldest = next(
                    (name for name, old in self._known.items() if not old.is_active and old is not task), None
                )
                self._known.pop(oldest, None)
            return task


def _take_answers(scratchpad: Any) -> dict[str, Any]:
    """Takes the answers to the guard's requests at the start of a run, before those to a tool's own interrupts."""
    answers: dict[str, Any] = {}
    waiting = [*scratchpad.resume, scratchpad.get_null_resume(consume=False)] if scratchpad is not None else []
    for waiting_answer in waiting:
        if (named := _digest_of(waiting_answer)) is None:
            break
        try:
            answers[named] = interrupt({})
        except GraphInterrupt:  # the node has taken it
            break
    return answers


def _digest_of(answer: Any) -> str | None:
    """Returns the digest of the call that an answer names; None if it names none."""
    of = answer.get("of") if isinstance(answer, Mapping) and "choice" in answer else None
    return of.partition(".")[0] if isinstance(of, str) else None


class RunStopped(ToolDenied, GraphBubbleUp):
    """A rule halted the run, or the agent continued after it gave up; `verdict` has the reason.

    Being one of the host's control signals it is neither retried nor made a message for the model on its way out.
    """


# --- the state of a guard

MAX_KEPT = 100_000
_lock = threading.Lock()


class BoundedMapping:
    """A mapping that keeps only its newest entries."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()

    def put(self, key: Hashable, value: Any = None) -> bool:
        """Stores an entry. Returns whether the key is new."""
        with self._lock:
            is_new = key not in self._kept
            self._kept[key] = value
            self._kept.move_to_end(key)
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
            return is_new

    def __contains__(self, key: Hashable) -> bool:
        return key in self._kept

    def get(self, key: Hashable, default: Any = None) -> Any:
        return self._kept.get(key, default)

    def drop(self, key: Hashable) -> None:
        with self._lock:
            self._kept.pop(key, None)


@dataclass(slots=True)
class GuardState:
    """The shared state of one guard.

    Attributes:
        tools: the tools of all its agents.
        tasks: the host's tasks, whoever runs them.
        turns: (conversation, message) of the user messages.
        strikes: conversation -> the step in which its agent gave up.
        passed: (conversation, digest) of the answers that passed.
    """

    tools: dict[str, ToolSpec] = field(default_factory=dict)
    tasks: Tasks = field(default_factory=Tasks)
    turns: BoundedMapping = field(default_factory=BoundedMapping)
    strikes: BoundedMapping = field(default_factory=BoundedMapping)
    passed: BoundedMapping = field(default_factory=BoundedMapping)


_of_guards: WeakKeyDictionary[EnforcementPoint, GuardState] = WeakKeyDictionary()


def state_of(guard: EnforcementPoint) -> GuardState:
    """Returns the shared state of a guard."""
    with _lock:
        state = _of_guards.get(guard)
        if state is None:
            state = _of_guards[guard] = GuardState()
        return state


# --- the conversation of a run


@dataclass(frozen=True, slots=True)
class RunningTool:
    """A guarded tool that is running; agents within it belong to its conversation."""

    guard: EnforcementPoint
    conversation: str
    call_id: str


RUNNING_TOOL: ContextVar[RunningTool | None] = ContextVar("guardagent_inside", default=None)

_CONFIG_KEY = "__guardagent_inside"
"""The key of the running tool in a tool's configuration, for threads that do not inherit the context."""


def enclosing_tool(guard: EnforcementPoint, config: Mapping[str, Any] | None) -> RunningTool | None:
    """Returns the guarded tool within which a run was started; None if none is known.

    A thread that the tool starts has neither its context nor, unless the tool passes it on, its configuration.
    """
    for running in (RUNNING_TOOL.get(), ((config or {}).get("configurable") or {}).get(_CONFIG_KEY)):
        if isinstance(running, RunningTool) and running.guard is guard:
            return running
    return None


def mark_running(config: dict[str, Any], inside: RunningTool) -> None:
    """Stores the running tool in its configuration."""
    config["configurable"] = {**(config.get("configurable") or {}), _CONFIG_KEY: inside}


def conversation_of(guard: EnforcementPoint, config: Mapping[str, Any] | None) -> str:
    """Returns the conversation of a run; a nested agent shares that of the root.

    Raises:
        InputError: there is no conversation, or the host caches the node.
    """
    require_uncached(config)
    inside = enclosing_tool(guard, config)
    return thread_of(config) if inside is None else inside.conversation


def require_uncached(config: Mapping[str, Any] | None) -> None:
    """Requires that the host keeps no cache for the node that runs: it would answer in place of the guard.

    The host tells a node nothing of its `cache_policy`; only what starts tasks of the node refers to it.

    Raises:
        InputError: the node has a cache.
    """
    start = ((config or {}).get("configurable") or {}).get("__pregel_call")
    if start is not None and not isinstance(start, partial):  # of a node with a time limit
        start = inspect.getclosurevars(start).nonlocals.get("call")
    task = start.args[0]() if isinstance(start, partial) else None
    if getattr(task, "cache_key", None) is not None:
        raise InputError(
            f"the node {getattr(task, 'name', '')!r} has a cache_policy, whose cache would answer in place of the "
            "guard; expected a guarded node without one"
        )


def thread_of(config: Mapping[str, Any] | None) -> str:
    """Returns the thread of a run as its conversation.

    Raises:
        InputError: there is none.
    """
    thread = ((config or {}).get("configurable") or {}).get("thread_id")
    if thread in (None, "") or isinstance(thread, bool):
        raise InputError(
            "the run has no conversation id; expected config={'configurable': {'thread_id': ...}}, one for each "
            "conversation: the guard keeps its history under it"
        )
    return str(thread)


def require_nested(guard: EnforcementPoint, config: Mapping[str, Any] | None) -> None:
    """Refuses a run that was started outside a guarded tool.

    Raises:
        InputError: the run was started outside a guarded tool.
    """
    if enclosing_tool(guard, config) is None:
        raise InputError(
            "this agent is attached with nested=True and runs within no guarded tool of another agent; a tool that "
            "runs it in a thread of its own hands on its context (contextvars.copy_context().run) or its config"
        )


# --- messages in a graph's state and in tool results


def messages_of(state: Any, key: str = "messages") -> Sequence[Any]:
    """Returns the messages of a graph's state of any kind."""
    if isinstance(state, list):
        return state
    attribute = state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)
    return attribute if isinstance(attribute, list | tuple) else []


def last_of(messages: Sequence[Any]) -> Sequence[Any]:
    """Returns the model's last message and those after it."""
    start = next((at for at in range(len(messages) - 1, -1, -1) if messages[at].type == "ai"), 0)
    return [message for message in messages[start:] if message.type in ("ai", "tool")]


def returned_messages(response: Any) -> list[Any]:
    """Returns the messages in a tool's result, alone, in a list or in a Command."""
    from langchain_core.messages import BaseMessage

    if isinstance(response, BaseMessage):
        return [response]
    if isinstance(response, Command):
        update = response.update
        parts: Iterable[Any] = update.values() if isinstance(update, Mapping) else [update]
        return [message for part in parts for message in returned_messages(part)]
    response = getattr(response, "result", response)  # of a model
    return [message for part in response for message in returned_messages(part)] if isinstance(response, list) else []


def is_answer(tool: Any, response: Any) -> bool:
    """Whether a tool's result is the answer of its run: it is returned directly, or a Command in it ends the run."""
    return getattr(tool, "return_direct", False) or (not isinstance(response, ToolMessage) and _ends_run(response))


def _ends_run(response: Any) -> bool:
    if isinstance(response, list):
        return any(map(_ends_run, response))
    goto = response.goto if isinstance(response, Command) else ()
    return END in ([goto] if isinstance(goto, str) else goto if isinstance(goto, list | tuple) else [])


# --- results and messages, as rules read them


def note_responses(guard: EnforcementPoint, conversation: str, messages: Sequence[Any]) -> None:
    """Notes the tokens of the model's messages, from the newest to the last one that was noted before."""
    with contextlib.suppress(GuardError):  # a conversation that cannot begin: judging its call meets that, too
        known: set[str] = guard.notes(conversation).setdefault("responses", set())
        new = list[tuple[str, AIMessage]]()
        for message in (message for message in reversed(messages) if isinstance(message, AIMessage)):
            name = message.id or sha256(message.model_dump_json().encode()).hexdigest()
            if name in known:
                break
            new.append((name, message))
        for name, message in reversed(new):  # the newest last: a parallel call that finds it needs them all
            guard.spent(conversation, tokens=(message.usage_metadata or {}).get("total_tokens"), of=name, whole=True)
            known.add(name)


def text_of(message: Any) -> str:
    """Returns the text of a message; other content as JSON."""
    content = message.content
    return content if isinstance(content, str) else json.dumps(content, default=str)


def _output(value: Any) -> Any:
    """Returns a tool's result as a plain value; unchanged if it has no plain form."""
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return plain_value(value)
    except InputError:
        try:
            return to_jsonable_python(value)
        except (PydanticSerializationError, ValueError):
            return value


def outcome_of(response: Any, call_id: str, *, with_artifact: bool = False) -> Outcome:
    """Returns a call's outcome from the tool's result.

    Args:
        response: a value, a ToolMessage, a Command, or a list of these.
        call_id: the call's id, which selects the message of a Command.
        with_artifact: whether the result is a pair of content and artifact.
    """
    artifact = None
    if with_artifact and isinstance(response, tuple) and len(response) == 2:
        response, artifact = response
    if type(response) is str:  # most are
        return Outcome(response, other_outputs=(response, _structured(artifact)))
    message = answer_message(response, call_id)
    if message is not None:
        parts = (message.content, _structured(message.artifact))
        return Outcome(_text(message.content), failed=message.status == "error", other_outputs=parts)
    update = getattr(response, "update", None)
    output = response if update is None or isinstance(response, Mapping) else update
    return Outcome(_output(_text(output)), other_outputs=(_output(output), _structured(artifact)))


def _structured(artifact: Any) -> Any:
    """Returns the structured content of an MCP tool's artifact."""
    return artifact.get("structured_content") if isinstance(artifact, Mapping) else None


def answer_message(response: Any, call_id: str) -> Any:
    """Returns the ToolMessage that answers a call, alone, in a list or in a Command; None if there is none."""
    if isinstance(response, ToolMessage):
        return response
    if isinstance(response, Command):
        update = response.update
        parts = update.values() if isinstance(update, Mapping) else [update]
        messages = [answer_message(part, call_id) for part in parts if isinstance(part, list)]
        return next(
            (
                answer_message
                for answer_message in messages
                if answer_message is not None and answer_message.tool_call_id == call_id
            ),
            None,
        )
    if isinstance(response, list):
        messages = [answer_message(part, call_id) for part in response if isinstance(part, ToolMessage | Command)]
        return next(
            (
                answer_message
                for answer_message in messages
                if answer_message is not None and answer_message.tool_call_id == call_id
            ),
            None,
        )
    return None


def _text(content: Any) -> Any:
    """Joins the text blocks of an MCP tool's content."""
    if isinstance(content, list) and content and all(_is_text(block) for block in content):
        return "\n".join(block["text"] for block in content)
    return content


def _is_text(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "text" and isinstance(block.get("text"), str)


@dataclass(frozen=True, slots=True, eq=False)
class Chat(Sequence[Mapping[str, Any]]):
    """The host's messages as rules read them, converted on access."""

    messages: Sequence[Any]

    def __len__(self) -> int:
        return len(self.messages)

    def __getitem__(self, at: Any) -> Any:
        selected = self.messages[at]
        return [_chat(message) for message in selected] if isinstance(at, slice) else _chat(selected)


_ROLES = {"human": "user", "ai": "assistant"}


def _chat(message: Any) -> dict[str, Any]:
    kind = getattr(message, "type", "")
    return {"role": _ROLES.get(kind, kind), "content": _text(getattr(message, "content", ""))}
