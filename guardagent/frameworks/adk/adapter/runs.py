"""The runs of agents, the conversation that each belongs to, and messages and results of tools as rules read them."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from guardagent.enforcement import EnforcementPoint, HostCall, Outcome
from guardagent.enforcement.host_adapter import HostAdapter, plain_or_text
from guardagent.enforcement.host_runs import HostRun, HostScope, HostSurroundings
from guardagent.errors import GuardError, InputError, ToolDenied, error_text

_log = logging.getLogger("guardagent")

# --- messages

_OF_THE_HOST = "adk_request_"


class ShownMessages:
    """The messages of a session; they grow with it.

    Attributes:
        messages: role and text of each message.
        seen: the ids of the calls whose results the session shows. A result with an `error` counts as none: the host or
            the guard has written it in place of the tool's.
    """

    def __init__(self) -> None:
        self.messages: list[dict[str, str]] = []
        self.seen: list[str] = []
        self._read = 0

    def update(self, events: Sequence[Any], known: set[str], unguarded: frozenset[str]) -> None:
        """Reads further events.

        Args:
            events: those of the session.
            known: the ids of the calls that reached the guard.
            unguarded: the names of the tools that the guard does not judge.
        """
        if len(events) < self._read:  # the host has shortened the session
            self.messages, self.seen, self._read = [], [], 0
        for event in events[self._read :]:
            self._add(event, known, unguarded)
        self._read = len(events)

    def _add(self, event: Any, known: set[str], unguarded: frozenset[str]) -> None:
        if text := text_of(event.content):
            self.messages.append({"role": "user" if event.author == "user" else "assistant", "content": text})
        for response in event.get_function_responses():
            name, error = response.name or "", (response.response or {}).get("error")
            if error or name in unguarded or name.startswith(_OF_THE_HOST):
                continue
            self.messages.append({"role": "tool", "content": str(response.response)})
            if response.id and response.id not in known:
                self.seen.append(response.id)


def text_of(content: Any) -> str:
    """Returns the text of a message, without the model's thoughts."""
    parts = getattr(content, "parts", None) or ()
    return "\n".join(part.text for part in parts if part.text and not part.thought)


def calling_event(session: Any, call_id: str | None) -> Any:
    """Returns the event of a session with the model's message that proposes a call; None if there is none."""
    for event in reversed(session.events) if call_id else ():
        if any(function_call.id == call_id for function_call in event.get_function_calls()):
            return event
    return None


# --- runs

UNNAMED = "this run names no conversation: the function conversation=... of the GuardPlugin has returned none"
MAX_RUNS = 10_000  # a run that is cancelled leaves its record behind


class RunnerHalted(ToolDenied):
    """A rule has halted the run: iterating over its events raises this. `verdict` says why."""


@dataclass(slots=True, kw_only=True)
class AdkRun(HostRun):
    """One invocation of a runner.

    Attributes:
        conversation: its id; None if there is none.
        nested: whether it runs inside a tool.
        passed: the answers that were judged and may be shown.
        shown: the messages of the session.
        notes: the adapter's notes on the conversation; None until they are read.
        asking: the calls that wait for a reviewer, by the host's id.
    """

    halt_error = RunnerHalted

    conversation: str | None
    nested: bool = False
    passed: set[str] = field(default_factory=set)
    shown: ShownMessages = field(default_factory=ShownMessages)
    notes: dict[Any, Any] | None = None
    asking: dict[str, HostCall] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AdkScope(HostScope):
    """The surroundings of a call, and of the code inside its tool.

    Attributes:
        adapter: judges further calls.
    """

    run: AdkRun
    adapter: AdkAdapter = field(kw_only=True)


SURROUNDINGS = HostSurroundings("adk", AdkScope)
scope, enter = SURROUNDINGS.scope, SURROUNDINGS.enter


class AdkAdapter(HostAdapter[AdkScope]):
    """One guard at the agents of a runner.

    Args:
        guard: decides.
        find_conversation: the operator's function that names the conversation of a context.
        unjudged: tool -> arguments that are neither judged nor logged.
        unguarded: the tools and agents that may run without a guard.
    """

    def __init__(
        self,
        guard: EnforcementPoint,
        find_conversation: Callable[[Any], str | None] | None,
        unjudged: Mapping[str, Collection[str]],
        unguarded: frozenset[str],
    ) -> None:
        super().__init__(guard, SURROUNDINGS, None, UNNAMED)
        self._find_conversation = find_conversation
        self._unjudged, self.unguarded = unjudged, unguarded
        self._runs: dict[Any, AdkRun] = {}  # by their invocation in a session

    def unjudged(self, tool: Any) -> Collection[str]:
        return self._unjudged.get(tool.name, ())

    def run_of(self, context: Any) -> AdkRun:
        """Returns the run of a context, or of an invocation; begins it if it is new."""
        key = _key(context)
        if (known := self._runs.get(key)) is not None:
            return known
        around = scope()
        run = (
            AdkRun(conversation=self._conversation_of(context))
            if around is None
            else AdkRun(around.run, conversation=around.conversation, nested=True)
        )
        while len(self._runs) >= MAX_RUNS:
            self._runs.pop(next(iter(self._runs)), None)
        self._runs[key] = run
        return run

    def end(self, context: Any) -> None:
        """Forgets the run of an invocation."""
        self._runs.pop(_key(context), None)

    def _conversation_of(self, context: Any) -> str | None:
        if self._find_conversation is not None:
            try:
                return self._find_conversation(context)
            except Exception as error:  # noqa: BLE001 - a function of the operator
                _log.error("the conversation of a run is unknown, so its calls are denied: %s", error_text(error))
                return None
        session = context.session
        return conversation_id(session.app_name, session.user_id, session.id)

    def notes(self, run: AdkRun) -> dict[Any, Any]:
        """Returns the notes on the conversation; new ones if it cannot be read, since its calls are then denied."""
        if run.notes is None:
            try:
                run.notes = self.guard.notes(run.conversation) if run.conversation else {}
            except GuardError:
                return {}
        return run.notes

    def propose(self, context: Any) -> None:
        """Notes that a call has reached the guard."""
        run = self.run_of(context)
        if context.function_call_id and not run.nested:
            self.notes(run).setdefault("proposed", set()).add(context.function_call_id)


def _key(context: Any) -> tuple[str, str, str, str]:
    session = context.session
    return session.app_name, session.user_id, session.id, context.invocation_id


def conversation_id(app_name: str, user_id: str, session_id: str) -> str:
    """Returns the guard's id of a session of ADK, which is unique only with its app and its user."""
    return "/".join(quote(part, safe="@") for part in (app_name, user_id, session_id))


# --- results


def outcome_of(result: Any) -> Outcome:
    """Returns a call's outcome from what its tool has returned.

    A result of MCP says itself whether it failed. Any other result with an `error`, which is the host's form of errors,
    has an unknown status: the tool may have done its work.
    """
    plain = plain_or_text(result)
    if not isinstance(plain, Mapping):
        return Outcome(plain)
    failed = plain.get("isError", plain.get("is_error"))
    if isinstance(plain.get("content"), list) and isinstance(failed, bool):
        parts = [block["text"] for block in plain["content"] if isinstance(block, Mapping) and "text" in block]
        structured = plain.get("structuredContent", plain.get("structured_content"))
        return Outcome("\n".join(map(str, parts)), failed=failed, other_outputs=(parts, structured))
    return Outcome(plain, failed=None if plain.get("error") else False)


def require_finished(name: str, output: Any) -> Any:
    """Returns a tool's output if its work is done, or if it is a stream.

    Raises:
        InputError: the work has not begun, as that of a generator.
    """
    if not (inspect.isawaitable(output) or inspect.isgenerator(output)):
        return output
    if close := getattr(output, "close", None):
        close()
    raise InputError(f"{name} returned a {type(output).__name__}, whose work is not done yet")
