"""A call of a model, from its proposal to the message that answers it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from guardagent.enforcement import EnforcementPoint, HostCall
from guardagent.enforcement.tool_guard import gave_up
from guardagent.errors import InputError
from guardagent.frameworks.langgraph.adapter.runs import BoundedMapping, Chat, RunStopped, Task, TaskRun
from guardagent.types import Decision, Verdict

_as_key = json.JSONEncoder(sort_keys=True, default=repr).encode

MARK = "guardagent"
"""The key of the verdict in the artifact of a denial's message, which no model sees."""


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
    for found in (RUNNING_TOOL.get(), ((config or {}).get("configurable") or {}).get(_CONFIG_KEY)):
        if isinstance(found, RunningTool) and found.guard is guard:
            return found
    return None


def mark_running(config: dict[str, Any], inside: RunningTool) -> None:
    """Stores the running tool in its configuration."""
    config["configurable"] = {**(config.get("configurable") or {}), _CONFIG_KEY: inside}


def conversation_of(guard: EnforcementPoint, config: Mapping[str, Any] | None) -> str:
    """Returns the conversation of a run; a nested agent shares that of the root.

    Raises:
        InputError: there is no conversation.
    """
    if (inside := enclosing_tool(guard, config)) is not None:
        return inside.conversation
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


@dataclass(slots=True)
class ToolCallProposal:
    """A tool call that a model proposes.

    Attributes:
        guard: decides.
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
        running_tool: marks the tool as running.
    """

    guard: EnforcementPoint
    conversation: str
    tool_call: Mapping[str, Any]
    task: Task
    config: Mapping[str, Any]
    messages: Sequence[Any] = ()
    seen: Sequence[str] = ()
    step: str | None = None
    alone: bool = True
    run: TaskRun | None = None
    used: int = 0
    denial: Verdict | None = None
    stopped: RunStopped | None = None
    strikes: BoundedMapping = field(default_factory=BoundedMapping)
    id: str = field(init=False)
    key: Any = field(init=False)
    running_tool: RunningTool = field(init=False)

    def __post_init__(self) -> None:
        self.id = str(self.tool_call.get("id") or "")
        self.key = (self.step, self.id, self.tool_call["name"], arguments_key(self.tool_call["args"]))
        self.running_tool = RunningTool(self.guard, self.conversation, self.id)

    def call(self, tool: str, args: Mapping[str, Any]) -> HostCall:
        """Builds the call that the guard judges."""
        named: dict[str, Any] = {"id": self.id} if self.id else {}
        return HostCall(
            tool,
            args,
            self.conversation,
            **named,
            agent=(self.config.get("metadata") or {}).get("lc_agent_name"),
            step=self.step,
            messages=Chat(self.messages),
            seen=self.seen,
        )

    def allow(self) -> None:
        """Notes that a permit was used and the tool runs."""
        self.used += 1
        self.denial = None
        self.strikes.drop(self.conversation)

    def deny(self, verdict: Verdict) -> Any:
        """Returns the host's error message for a denial.

        Raises:
            RunStopped: a rule halts the run, or the agent continues after it gave up.
        """
        self.denial = verdict
        before = self.strikes.get(self.conversation, self.step)
        if verdict.decision is Decision.HALT or (gave_up(verdict) and before != self.step):
            self.stopped = RunStopped(str(self.tool_call["name"]), verdict)
            raise self.stopped
        if gave_up(verdict):
            self.strikes.put(self.conversation, self.step)
        return self.message(verdict)

    def refuse(self, why: str) -> Any:
        """Denies a call that was not judged; it counts as a denial, and is logged."""
        name, args = str(self.tool_call["name"]), self.tool_call.get("args")
        return self.deny(self.guard.refuse(self.call(name, args if isinstance(args, Mapping) else {}), why))

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


def arguments_key(args: Any) -> str:
    """Returns arguments as a string that is equal for equal arguments."""
    return _as_key(args)
