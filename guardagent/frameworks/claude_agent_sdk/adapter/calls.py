"""Judges the calls and the final answers of sessions, and knows which calls may run.

Each id may run once, with the judged arguments. A hook runs in the context in which its client has connected, so that
its surroundings tell the conversation and who reads the messages. Messages are held until their text is judged.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ResultMessage,
    StreamEvent,
    TaskNotificationMessage,
    TaskUpdatedMessage,
    TextBlock,
    ThinkingBlock,
)

from guardagent._support.execution import adrive
from guardagent.enforcement import EnforcementPoint, HostCall, Outcome, ToolSpec
from guardagent.enforcement.approval import edit_note
from guardagent.enforcement.calls import REPEATS
from guardagent.enforcement.host_runs import HostScope, HostSurroundings, Named, naming
from guardagent.enforcement.lifecycle import JudgedCall
from guardagent.enforcement.schema import validate_arguments
from guardagent.enforcement.tool_guard import gave_up
from guardagent.errors import InputError, ToolDenied
from guardagent.types import Decision, Verdict, thaw

_log = logging.getLogger("guardagent")


# --- the answers of a hook

PRE = "PreToolUse"


def release_output(args: Mapping[str, Any]) -> dict[str, Any]:
    """Lets the call go on with these arguments. The host's own permissions still apply."""
    return _output(updatedInput=thaw(args))


def ask_output(args: Mapping[str, Any], why: str) -> dict[str, Any]:
    """Has the host ask its reviewer, whatever its permissions are."""
    return _output(permissionDecision="ask", permissionDecisionReason=why, updatedInput=thaw(args))


def deny_output(why: str, *, ends: bool = False) -> dict[str, Any]:
    """Denies the call; `ends` also ends the run."""
    output = _output(permissionDecision="deny", permissionDecisionReason=why)
    return {**output, **end_output(why)} if ends else output


def end_output(why: str) -> dict[str, Any]:
    """Ends the run of the agent that the hook is about: a sub-agent, or the main one."""
    return {"continue_": False, "stopReason": why}


def ends_run(verdict: Verdict) -> bool:
    """Whether a denial ends the run: a halt, or the last of too many."""
    return verdict.decision is Decision.HALT or gave_up(verdict)


def denial_text(verdict: Verdict) -> str:
    """Returns the reasons and the remedy."""
    return f"{verdict.feedback()}\n{verdict.reasons[-1]}" if gave_up(verdict) else verdict.feedback()


def _output(**fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": PRE, **fields}}


# --- the surroundings of a session

SURROUNDINGS = HostSurroundings("claude_agent_sdk", HostScope)
scope, enter, conversation = SURROUNDINGS.scope, SURROUNDINGS.enter, SURROUNDINGS.conversation
_holds_answers: ContextVar[bool] = ContextVar("guardagent_claude_agent_sdk_reader", default=False)


@contextmanager
def holding_answers() -> Iterator[None]:
    """Sessions that begin inside have a reader that holds answers until they are judged."""
    token = _holds_answers.set(True)
    try:
        yield
    finally:
        _holds_answers.reset(token)


def holds_answers() -> bool:
    """Whether the answers of this session are held, or are those of a session in a tool, for the agent around it."""
    around = scope()
    return _holds_answers.get() or (around is not None and around.call is not None)


def conversation_of(named: Named, session: str | None) -> str | None:
    """Returns the conversation of a session.

    Args:
        named: the operator's name of it, if any.
        session: the host's own id of the session; None if it does not identify a conversation.
    """
    around = scope()
    if around is not None and around.call is not None:
        return around.conversation
    outside = around.conversation if around is not None else None
    return naming(named)() or outside or session


# --- sessions

UNNAMED = (
    "a fork of a session has a new id, and names no conversation: pass guarded(..., conversation=...), or connect "
    "inside 'with conversation(id):'"
)
_MAX_SESSIONS = 1000
_NOTIFICATION = "<task-notification>"  # a prompt of the host itself, about a task in the background


@dataclass(slots=True)
class ClaudeSession:
    """One session of the host.

    Attributes:
        conversation: the conversation that it belongs to.
        seen: the ids of the calls whose results its transcript showed when this process took it up.
        messages: the prompts of the user, as rules read them.
        batches: agent -> the number of its messages with calls.
        ended: the verdict that ended the run.
    """

    conversation: str | None
    seen: Sequence[str] = ()
    messages: list[dict[str, str]] = field(default_factory=list)
    batches: dict[str, int] = field(default_factory=dict)
    ended: Verdict | None = None

    def prompt(self, text: str) -> bool:
        """Notes a prompt. Returns whether it comes from the user."""
        self.ended = None
        if text.startswith(_NOTIFICATION):
            return False
        self.messages = [*self.messages, {"role": "user", "content": text}]
        return True

    def next_batch(self, agent: str) -> None:
        """Notes that the calls of an agent's message have ended."""
        self.batches[agent] = self.batches.get(agent, 0) + 1

    @property
    def last_prompt(self) -> str:
        return self.messages[-1]["content"] if self.messages else ""


class ClaudeSessions:
    """The sessions by id. Old ones are forgotten: their transcripts tell the rest.

    Args:
        named: the operator's name of the conversation, or a function that returns it.
        options: those of the sessions.
    """

    def __init__(self, named: Named, options: Any) -> None:
        self._named, self._forks, self._resumed = named, options.fork_session, options.resume
        self._resumes = bool(options.resume or options.continue_conversation)
        self._known: OrderedDict[str, ClaudeSession] = OrderedDict()

    async def of(self, hook_input: Mapping[str, Any]) -> ClaudeSession:
        """Returns the session of a hook's input."""
        session, path = str(hook_input["session_id"]), str(hook_input.get("transcript_path") or "")
        if (known := self.known(session)) is not None:
            return known
        if self._forks:  # its own transcript is written later
            path = str(Path(path).with_name(f"{self._resumed}.jsonl")) if path else path
        shown = await asyncio.to_thread(result_ids, path, required=self._resumes)
        created = ClaudeSession(self.conversation(session), shown)
        self._known[session] = created
        while len(self._known) > _MAX_SESSIONS:
            self._known.popitem(last=False)
        return created

    def known(self, session: str | None) -> ClaudeSession | None:
        """Returns a session that has begun here."""
        return self._known.get(session or "")

    def conversation(self, session: str | None) -> str | None:
        """Returns the conversation of a session that begins, or of its answer."""
        return conversation_of(self._named, None if self._forks else session)


def result_ids(path: str, *, required: bool) -> tuple[str, ...]:
    """Returns the ids of the calls whose results a transcript shows.

    Args:
        path: a file with a JSON object per line.
        required: whether it has to be there; if it cannot be read, it shows a call that nobody knows.
    """
    if not required and not (path and Path(path).exists()):
        return ()  # of a session that begins
    try:
        with Path(path).open(encoding="utf-8") as lines:
            return tuple(id_ for line in lines if '"tool_result"' in line for id_ in _ids(json.loads(line)))
    except (OSError, ValueError):
        return (f"a call of the unreadable transcript {path!r}",)


def _ids(entry: Any) -> Iterator[str]:
    message = entry.get("message") if isinstance(entry, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    for block in content if isinstance(content, list) else ():
        if block.get("type") == "tool_result" and not str(block.get("content")).startswith("<tool_use_error>"):
            yield str(block.get("tool_use_id"))


# --- calls

NO_REVIEWER = "there is no reviewer: pass can_use_tool in the options, or ToolGuard(approver=...)"
_VETOED = "another hook stopped this call"


class ClaudeCalls:
    """Judges calls.

    Args:
        guard: decides.
        schemas: tool -> its schema, for the tools of this process.
        reviewed: whether the host has a reviewer.
    """

    def __init__(self, guard: EnforcementPoint, schemas: Mapping[str, Mapping[str, Any]], *, reviewed: bool) -> None:
        self.guard, self._schemas, self._reviewed = guard, dict(schemas), reviewed
        self._released: dict[str, HostCall] = {}
        self._escalated: dict[str, JudgedCall] = {}
        self._vetoed: set[str] = set()
        self._proposed: set[str] = set()
        self._repeated: set[str] = set()
        self._notes: dict[str, str] = {}

    def know(self, specs: Iterable[ToolSpec]) -> None:
        """Takes note of the schemas of tools of this process."""
        self._schemas.update((spec.name, spec.schema) for spec in specs)

    # --- before a call

    async def propose(self, hook_input: Mapping[str, Any], session: ClaudeSession) -> dict[str, Any]:
        """Judges the call of a hook's input. Returns the hook's answer."""
        try:
            self._require_new(hook_input["tool_use_id"])
            call = self._call(hook_input, session, self.fit(hook_input["tool_name"], hook_input["tool_input"]))
        except InputError as error:
            return self._denied(await self.guard.arefuse(self._call(hook_input, session, {}), str(error)), session)
        try:
            proposed, (call, args) = call, await adrive(self.guard.lifecycle.authorize(call))
        except ToolDenied as denied:
            return self._asks(call, denied.verdict, session)
        if call.id in self._vetoed:
            self._vetoed.discard(call.id)
            await self.guard.awithdraw(call, _VETOED, used=True)
            return deny_output(_VETOED)
        self.release(call, proposed)
        return release_output(args)

    def _require_new(self, call_id: str) -> None:
        if call_id in self._proposed:  # the host runs both, and shows its model the result of the first only
            self._repeated.add(call_id)
            raise InputError(REPEATS)
        self._proposed.add(call_id)

    def fit(self, tool: str, args: Any) -> Mapping[str, Any]:
        """Returns the arguments as the tool would get them: for a tool of this process, with the schema's defaults.

        Raises:
            InputError: they do not fit.
        """
        if not isinstance(args, Mapping):
            raise InputError(f"the arguments of {tool!r} are a {type(args).__name__}; expected an object")
        schema = self._schemas.get(tool)
        return dict(args) if schema is None else validate_arguments(tool, args, schema)

    def _call(self, hook_input: Mapping[str, Any], session: ClaudeSession, args: Mapping[str, Any]) -> HostCall:
        tool, agent = str(hook_input["tool_name"]), str(hook_input.get("agent_id") or "")
        return HostCall(
            tool,
            args,
            session.conversation,
            id=str(hook_input["tool_use_id"]),
            agent=hook_input.get("agent_type"),
            step=f"{hook_input['session_id']}.{agent}.{session.batches.get(agent, 0)}",
            messages=session.messages,
            seen=session.seen,
            validate_edit=lambda args: self.fit(tool, args),
        )

    def _asks(self, call: HostCall, verdict: Verdict, session: ClaudeSession) -> dict[str, Any]:
        if verdict.decision is not Decision.ESCALATE:
            return self._denied(verdict, session)
        if not self._reviewed or self.guard.approver is not None:
            return self._denied(replace(verdict, errors=(*verdict.errors, NO_REVIEWER)), session)
        self._escalated[call.id] = verdict, call
        return ask_output(call.args, self.guard.request(call, verdict).text())

    def _denied(self, verdict: Verdict, session: ClaudeSession) -> dict[str, Any]:
        if session.conversation is None:
            verdict = replace(verdict, errors=(*verdict.errors, UNNAMED))
        if session.ended is None and ends_run(verdict):
            session.ended = verdict
        return deny_output(denial_text(verdict), ends=session.ended is not None)

    # --- between the verdict and the tool

    def take_escalated(self, call_id: str) -> JudgedCall | None:
        """Takes an escalated call, whose reviewer is asked now."""
        return self._escalated.pop(call_id, None)

    def released(self, call_id: str) -> HostCall | None:
        """Returns a call that may run."""
        return self._released.get(call_id)

    def release(self, call: HostCall, proposed: HostCall) -> None:
        """Lets a call run whose permit is used, in place of the proposed one."""
        self._released[call.id] = call
        if note := edit_note(proposed, call.args):
            self._notes[call.id] = note

    def take(self, call_id: str, tool: str, args: Any) -> HostCall:
        """Takes a call that is about to run in this process.

        Raises:
            InputError: it was not released, or with other arguments.
        """
        call = self._released.get(call_id)
        if call is None or call.tool != tool:
            raise InputError(f"the guard has not released this call of {tool!r}")
        if not same(call.args, args):
            raise InputError(f"{tool!r} would get other arguments than the judged ones")
        return self._released.pop(call_id)

    async def veto(self, call_id: str) -> None:
        """Notes that a hook of the operator stopped a call."""
        if not await self.withdraw(call_id, _VETOED):
            self._vetoed.add(call_id)

    async def withdraw(self, call_id: str, why: str) -> bool:
        """Withdraws a released call that never runs. Returns whether there was one."""
        call = self._released.pop(call_id, None)
        if call is not None:
            self._notes.pop(call_id, None)
            await self.guard.awithdraw(call, why, used=True)
        return call is not None

    # --- after a call

    def take_note(self, call_id: str) -> str:
        """Returns what ran in place of what the model has proposed, in a line for the model; empty if nothing did."""
        return self._notes.pop(call_id, "")

    async def settle(self, hook_input: Mapping[str, Any], outcome: Outcome) -> None:
        """Records the outcome of a call that the host ran. One of this process has been recorded already."""
        call = self._released.pop(str(hook_input.get("tool_use_id")), None)
        if call is None:
            return
        if not same(call.args, hook_input.get("tool_input")):
            _log.error("%r ran with other arguments than the judged ones: a hook or a setting changed them", call.tool)
            outcome = replace(outcome, failed=None)
        await self.guard.aafter(call, outcome)

    def forget(self, call_ids: list[str]) -> str:
        """Forgets what is left of calls that have ended. Returns a note for the model; empty if there is none."""
        note = REPEATS if self._repeated.intersection(call_ids) else ""
        for call_id in call_ids:
            self._escalated.pop(call_id, None)
            self._notes.pop(call_id, None)
        for ids in (self._vetoed, self._proposed, self._repeated):
            ids.difference_update(call_ids)
        return note


def same(args: Any, others: Any) -> bool:
    """Whether two values are the same JSON. The host's program writes 1.0 as 1; `true` is neither."""
    if isinstance(args, Mapping):
        is_same = isinstance(others, Mapping) and args.keys() == others.keys()
        return is_same and all(same(argument, others[name]) for name, argument in args.items())
    if isinstance(args, list | tuple):
        is_same = isinstance(others, list | tuple) and len(args) == len(others)
        return is_same and all(map(same, args, others))
    if isinstance(args, bool) or isinstance(others, bool):
        return args is others
    return bool(args == others)


# --- results

_LOST = re.compile(  # the host's texts for an answer that was lost: nobody knows what the tool did
    r"^MCP error |timed out|timeout|connection|fetch failed|socket|ECONN|EPIPE|abort|disconnect", re.IGNORECASE
)
_CUT_OFF = "Command timed out"


def outcome_of_response(response: Any) -> Outcome:
    """Returns the outcome of a call from the result that the host's hook shows."""
    parts = _texts(response)
    return Outcome(response) if parts is None else Outcome("\n".join(parts), other_outputs=(parts,))


def outcome_of_failure(hook_input: Mapping[str, Any]) -> Outcome:
    """Returns the outcome of a call from the failure that the host's hook shows."""
    error = str(hook_input.get("error") or "")
    if hook_input.get("is_interrupt"):
        return Outcome(error, failed=None, ended=False)
    of_server = str(hook_input.get("tool_name")).startswith("mcp__")
    lost = _LOST.search(error) is not None if of_server else _CUT_OFF in error
    return Outcome(error, failed=None if lost else True)


def outcome_of_result(result: Any) -> Outcome:
    """Returns the outcome of a call from the result of a tool of this process."""
    plain = plain_result(result)
    parts, structured = _texts(plain.get("content")) or [], plain.get("structuredContent")
    return Outcome("\n".join(parts), failed=bool(plain.get("isError")), other_outputs=(parts, structured))


def plain_result(result: Any) -> dict[str, Any]:
    """Returns a result of MCP as plain values."""
    if hasattr(result, "model_dump"):
        return dict(result.model_dump(by_alias=True, mode="json", exclude_none=True))
    return dict(result or {})


def _texts(content: Any) -> list[str] | None:
    if not isinstance(content, list) or not all(isinstance(block, Mapping) and "type" in block for block in content):
        return None
    return [str(block["text"]) for block in content if block.get("type") == "text" and "text" in block]


# --- final answers

_PERMISSIONS = "the host's permissions refused it"


async def judged_messages(attachment: Any, messages: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Passes on messages. A turn's messages wait from its first text on until its answer is judged."""
    judges, held = attachment.guard.judges_answers, list[Any]()
    async for message in messages:
        ends = isinstance(message, ResultMessage)
        shown = await _ended(attachment, message) if ends else _without_inner_text(message) if judges else message
        if shown is None:
            continue
        if not judges or not (held or ends or _shows_text(shown)):
            yield shown
            continue
        held.append(shown)
        if ends:
            for judged_message in await _judged(attachment, held):
                yield judged_message
            held = []
    for judged_message in await _judged(attachment, held):
        yield judged_message


async def _ended(attachment: Any, result: Any) -> Any:
    """Withdraws the calls that the host refused. Returns a run's result, with the reason if the guard ended the run."""
    for permission_denial in result.permission_denials or ():
        await attachment.calls.withdraw(str(permission_denial.get("tool_use_id")), _PERMISSIONS)
    session = attachment.sessions.known(result.session_id)
    if session is None or session.ended is None:
        return result
    return replace(result, result=denial_text(session.ended), is_error=True)


async def _judged(attachment: Any, held: list[Any]) -> list[Any]:
    """Returns the messages as the user may see them."""
    answer, last = _answer(held), held[-1] if held else None
    session = attachment.sessions.known(getattr(last, "session_id", None))
    if not answer or (session is not None and session.ended is not None):
        return _withheld(held, None) if answer else held
    name = session.conversation if session is not None else attachment.sessions.conversation(_session_of(held))
    verdict = await attachment.guard.aanswer(name or "", session.last_prompt if session is not None else "", answer)
    return _withheld(held, verdict) if verdict.label else held


def _answer(held: list[Any]) -> str:
    """Returns all text of a turn."""
    texts = [block.text for message in held for block in _blocks(message) if isinstance(block, TextBlock)]
    if (streamed := "".join(_deltas(held))) != "".join(texts):  # the turn was cut off in a later message
        texts.append(streamed)
    for result in (turn_message for turn_message in held if isinstance(turn_message, ResultMessage)):
        structured = result.structured_output
        more = [result.result or "", "" if structured is None else json.dumps(structured, ensure_ascii=False)]
        texts += [text for text in more if text and text not in texts]
    return "\n\n".join(text for text in texts if text)


def _withheld(held: list[Any], verdict: Verdict | None) -> list[Any]:
    """Returns the messages without their text, and with the reason in place of the last one."""
    reason = "" if verdict is None else f"The answer is withheld.\n{verdict.feedback()}"
    last = max((at for at, held_message in enumerate(held) if _main_text(held_message)), default=None)
    kept: list[Any] = []
    for at, message in enumerate(held):
        if isinstance(message, StreamEvent):
            continue
        if isinstance(message, ResultMessage) and verdict is not None:
            kept.append(replace(message, result=reason, structured_output=None, is_error=True))
        elif isinstance(message, AssistantMessage):
            blocks = [block for block in message.content if not isinstance(block, TextBlock | ThinkingBlock)]
            blocks = [*([TextBlock(reason)] if at == last and reason else []), *blocks]
            kept += [replace(message, content=blocks)] if blocks else []
        else:
            kept.append(message)
    return kept


def _without_inner_text(message: Any) -> Any:
    """Returns a message without the text of a sub-agent, which is for the agent that called it; None if it is empty."""
    if isinstance(message, TaskNotificationMessage):
        return replace(message, summary="", data={**message.data, "summary": ""})
    if isinstance(message, TaskUpdatedMessage):
        patch = {name: value for name, value in message.patch.items() if name not in ("result", "error")}
        return replace(message, patch=patch, data={**message.data, "patch": patch})
    if getattr(message, "parent_tool_use_id", None) is None:
        return message
    if isinstance(message, StreamEvent):
        return None
    if isinstance(message, AssistantMessage):
        blocks = [block for block in message.content if not isinstance(block, TextBlock | ThinkingBlock)]
        return replace(message, content=blocks) if blocks else None
    return message


def _shows_text(message: Any) -> bool:
    return isinstance(message, StreamEvent) or any(
        isinstance(block, TextBlock | ThinkingBlock) for block in _blocks(message)
    )


def _main_text(message: Any) -> bool:
    return any(isinstance(block, TextBlock) for block in _blocks(message))


def _blocks(message: Any) -> list[Any]:
    return list(message.content) if isinstance(message, AssistantMessage) else []


def _deltas(held: list[Any]) -> Iterator[str]:
    """Returns the streamed text of a turn."""
    events = [message.event for message in held if isinstance(message, StreamEvent)]
    for delta in (event.get("delta") or event.get("content_block") for event in events):
        if isinstance(delta, dict) and isinstance(delta.get("text"), str):
            yield delta["text"]


def _session_of(held: list[Any]) -> str | None:
    return next((message.session_id for message in held if getattr(message, "session_id", None)), None)
