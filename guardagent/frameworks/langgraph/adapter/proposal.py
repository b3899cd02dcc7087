"""A call of a model, from its proposal to the message that answers it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from guardagent.enforcement import HostCall, ToolGuard
from guardagent.enforcement.tool_guard import gave_up
from guardagent.errors import InputError
from guardagent.frameworks.langgraph.adapter.plain import Chat
from guardagent.frameworks.langgraph.adapter.shared import Newest
from guardagent.frameworks.langgraph.adapter.stopped import RunStopped
from guardagent.frameworks.langgraph.adapter.tasks import Run, Task
from guardagent.types import Decision, Verdict

MARK = "guardagent"
"""Under this name a denial keeps its verdict, in the artifact of its message, which no model sees."""


@dataclass(frozen=True, slots=True)
class Inside:
    """A guarded tool that is running: what runs within it belongs to its conversation."""

    guard: ToolGuard
    conversation: str
    call_id: str


INSIDE: ContextVar[Inside | None] = ContextVar("guardagent_inside", default=None)


_INSIDE = "__guardagent_inside"
"""Under this name a tool's configuration says the same, for what the tool runs with it where no context arrives."""


def inside_of(guard: ToolGuard, config: Mapping[str, Any] | None) -> Inside | None:
    """The guarded tool within which a run was begun; None where it was begun in none, as far as can be known.

    A thread that the tool starts by itself has neither its context nor, unless it is handed on, its configuration.
    """
    for found in (INSIDE.get(), ((config or {}).get("configurable") or {}).get(_INSIDE)):
        if isinstance(found, Inside) and found.guard is guard:
            return found
    return None


def mark_inside(config: dict[str, Any], inside: Inside) -> None:
    """Has a tool's configuration say what runs with it."""
    config["configurable"] = {**(config.get("configurable") or {}), _INSIDE: inside}


def conversation_of(guard: ToolGuard, config: Mapping[str, Any] | None) -> str:
    """The conversation that a run belongs to: that of the root, where an agent runs as a tool of another.

    Raises:
        InputError: there is none.
    """
    if (inside := inside_of(guard, config)) is not None:
        return inside.conversation
    thread = ((config or {}).get("configurable") or {}).get("thread_id")
    if thread in (None, "") or isinstance(thread, bool):
        raise InputError(
            "the run has no conversation id; expected config={'configurable': {'thread_id': ...}}, one for each "
            "conversation: the guard keeps its history under it"
        )
    return str(thread)


def require_nested(guard: ToolGuard, config: Mapping[str, Any] | None) -> None:
    """Refuses a run that was begun within no guarded tool.

    Raises:
        InputError: it was.
    """
    if inside_of(guard, config) is None:
        raise InputError(
            "this agent is attached with nested=True and runs within no guarded tool of another agent; a tool that "
            "runs it in a thread of its own hands on its context (contextvars.copy_context().run) or its config"
        )


@dataclass(slots=True)
class Proposal:
    """One call.

    Attributes:
        guard: decides.
        conversation: as `conversation_of`.
        given: the call as the model wrote it.
        task: the host's task in which it runs.
        run: the run of that task; None until it has begun.
        config: the host's configuration of the call.
        step: the message of the model that proposes it.
        alone: whether no other call runs in the task.
        used: how often a permit was used for it.
        denial: the last verdict against it.
        stopped: the error with which the run ends.
        id: the host's id of it.
        key: stands for it in its task.
        inside: says that it runs.
    """

    guard: ToolGuard
    conversation: str
    given: Mapping[str, Any]
    task: Task
    config: Mapping[str, Any]
    messages: Sequence[Any] = ()
    seen: Sequence[str] = ()
    step: str | None = None
    alone: bool = True
    run: Run | None = None
    used: int = 0
    denial: Verdict | None = None
    stopped: RunStopped | None = None
    strikes: Newest = field(default_factory=Newest)
    id: str = field(init=False)
    key: Any = field(init=False)
    inside: Inside = field(init=False)

    def __post_init__(self) -> None:
        self.id = str(self.given.get("id") or "")
        self.key = (self.step, self.id, self.given["name"], written(self.given["args"]))
        self.inside = Inside(self.guard, self.conversation, self.id)

    def call(self, tool: str, args: Mapping[str, Any]) -> HostCall:
        """The call as the guard judges it."""
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

    def allowed(self) -> None:
        """A permit was used: the tool runs now."""
        self.used += 1
        self.denial = None
        self.strikes.drop(self.conversation)

    def denied(self, verdict: Verdict) -> Any:
        """The host's error message of a denial.

        Raises:
            RunStopped: the run ends: by a rule that halts, or as the agent goes on though it had given up.
        """
        self.denial = verdict
        before = self.strikes.get(self.conversation, self.step)
        if verdict.decision is Decision.HALT or (gave_up(verdict) and before != self.step):
            self.stopped = RunStopped(str(self.given["name"]), verdict)
            raise self.stopped
        if gave_up(verdict):
            self.strikes.put(self.conversation, self.step)
        return self.message(verdict)

    def refused(self, why: str) -> Any:
        """As `denied`, of a call that was not judged: it counts as a denial, and stands in the log."""
        name, args = str(self.given["name"]), self.given.get("args")
        return self.denied(self.guard.refuse(self.call(name, args if isinstance(args, Mapping) else {}), why))

    def message(self, verdict: Verdict) -> Any:
        from langchain_core.messages import ToolMessage

        said = {"decision": str(verdict.decision), "rules": list(verdict.rules), "reasons": list(verdict.reasons)}
        return ToolMessage(
            content=verdict.feedback(),
            name=self.given["name"],
            tool_call_id=self.given.get("id") or "",
            status="error",
            artifact={MARK: {**said, "gave_up": gave_up(verdict)}},
        )

    def accepted(self, answer: Any) -> Any:
        """What the host is given, from what came out of the middlewares inside the guard.

        An answer stands where the tool has run, or where it is an error; the host's own messages about arguments that
        do not fit, for one. A result that no tool gave is none: the model would build on what never happened.

        Raises:
            RunStopped: the run was to stop, whatever was made of that in between.
        """
        if self.stopped is not None:
            raise self.stopped
        if self.used:
            return answer
        if self.denial is not None:
            return self.message(self.denial)
        if getattr(answer, "status", None) == "error":
            return answer
        return self.refused(
            f"{self.given['name']} was answered without having been called: a middleware that stands after the guard "
            "did that, or called another tool in its place; put the guard last"
        )

    def ended(self, answer: Any) -> Any:
        """The answer, which the host is given again where it runs its task again after the tool has run."""
        if self.used:
            self.task.ended[self.key] = answer
        return answer


def written(args: Any) -> str:
    """Arguments as a text: equal for equal ones."""
    return json.dumps(args, sort_keys=True, default=repr)
