"""The guard's hooks, the operator's own hooks before a call, and the host's reviewer, `can_use_tool`.

No hook of the guard raises, since the host goes on without a hook that failed. The operator's hooks may stop a call,
and may not change it once it is judged. The reviewer answers escalations, and the host's own questions.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from claude_agent_sdk import HookMatcher, PermissionResultAllow, PermissionResultDeny

from guardagent._support.execution import adrive
from guardagent.enforcement import Approval, HostCall
from guardagent.enforcement.approval import BY_HOST, with_edits
from guardagent.enforcement.lifecycle import MAX_REQUESTS
from guardagent.errors import InputError, ToolDenied, error_text
from guardagent.frameworks.claude_agent_sdk.adapter.calls import (
    PRE,
    ClaudeCalls,
    ClaudeSessions,
    denial_text,
    deny_output,
    end_output,
    ends_run,
    holds_answers,
    outcome_of_failure,
    outcome_of_response,
    same,
)
from guardagent.types import Decision, Verdict, thaw

_log = logging.getLogger("guardagent")


# --- the operator's hooks

_CHANGES = (
    "a hook of the operator changes the arguments of this call, which the guard has judged as they were; change them "
    "in the tool, or in can_use_tool"
)


def watched(matchers: Iterable[Any], calls: ClaudeCalls) -> list[Any]:
    """Returns the matchers of PreToolUse with hooks whose answers the guard knows."""
    return [replace(matcher, hooks=[_watched(hook, calls) for hook in matcher.hooks]) for matcher in matchers]


def _watched(own: Any, calls: ClaudeCalls) -> Any:
    async def hook(hook_input: Any, tool_use_id: str | None, context: Any) -> Any:
        proposed = copy.deepcopy(hook_input["tool_input"])  # a hook may change its input in place
        output = await own(hook_input, tool_use_id, context)
        if _changes(output, proposed):
            output = deny_output(_CHANGES)
        if _stops(output):
            await calls.veto(str(hook_input["tool_use_id"]))
        return output

    return hook


def _changes(output: Any, proposed: Any) -> bool:
    changed = _specific(output).get("updatedInput")
    return changed is not None and not same(changed, proposed)


def _stops(output: Any) -> bool:
    if not isinstance(output, dict):
        return False
    stopped = _specific(output).get("permissionDecision") in ("deny", "defer") or output.get("decision") == "block"
    return stopped or output.get("continue_", output.get("continue")) is False


def _specific(output: Any) -> dict[str, Any]:
    hook_specific_output = output.get("hookSpecificOutput") if isinstance(output, dict) else None
    return hook_specific_output if isinstance(hook_specific_output, dict) else {}


# --- the guard's hooks

SECONDS = 86_400  # above the deadline of any check, and time for an approver; the host denies what takes longer
_UNHELD = (
    "the guard judges final answers, and this client does not hold them: use `query` or `GuardedClient` of "
    "guardagent.frameworks.claude_agent_sdk"
)


class ClaudeHooks:
    """The hooks of a guarded session.

    Args:
        calls: judges calls.
        sessions: the guard's notes on sessions.
    """

    def __init__(self, calls: ClaudeCalls, sessions: ClaudeSessions) -> None:
        self.calls, self.sessions, self._guard = calls, sessions, calls.guard

    def beside(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the hooks of the options, with the operator's own."""
        hooks: dict[str, Any] = {event: list(matchers) for event, matchers in own.items()}
        hooks[PRE] = watched(hooks.get(PRE, ()), self.calls)
        for event, hook in self._by_event().items():
            matcher = HookMatcher(hooks=[hook], timeout=SECONDS, on_failure="block")
            hooks[event] = [matcher, *hooks.get(event, ())]
        return hooks

    def _by_event(self) -> dict[str, Callable[..., Awaitable[dict[str, Any]]]]:
        return {
            PRE: self.pre_tool_use,
            "PostToolUse": self.post_tool_use,
            "PostToolUseFailure": self.post_tool_use_failure,
            "PostToolBatch": self.post_tool_batch,
            "UserPromptSubmit": self.user_prompt_submit,
        }

    async def pre_tool_use(self, hook_input: Any, _id: str | None, _context: Any) -> dict[str, Any]:
        """Judges a call."""
        try:
            return await self.calls.propose(hook_input, await self.sessions.of(hook_input))
        except BaseException as error:
            if _is_abandoned(error):
                raise
            return deny_output(f"the guard could not judge this call: {error_text(error)}")

    async def post_tool_use(self, hook_input: Any, _id: str | None, _context: Any) -> dict[str, Any]:
        """Records what a call returned."""
        try:
            await self.calls.settle(hook_input, outcome_of_response(hook_input.get("tool_response")))
        except Exception as error:  # noqa: BLE001 - the call stays in flight
            _log.error("an outcome was not recorded: %s", error_text(error))
        return self._end(hook_input)

    async def post_tool_use_failure(self, hook_input: Any, _id: str | None, _context: Any) -> dict[str, Any]:
        """Records that a call failed."""
        try:
            await self.calls.settle(hook_input, outcome_of_failure(hook_input))
        except Exception as error:  # noqa: BLE001 - as above
            _log.error("an outcome was not recorded: %s", error_text(error))
        return self._end(hook_input)

    async def post_tool_batch(self, hook_input: Any, _id: str | None, _context: Any) -> dict[str, Any]:
        """Notes that the calls of a message have ended: the next denials are another turn."""
        note = ""
        try:
            (await self.sessions.of(hook_input)).next_batch(str(hook_input.get("agent_id") or ""))
            ended = [str(tool_call.get("tool_use_id")) for tool_call in hook_input.get("tool_calls") or ()]
            note = self.calls.forget(ended)
        except Exception as error:  # noqa: BLE001 - denials count as of one turn
            _log.error("the end of a turn was not noted: %s", error_text(error))
        return {"hookSpecificOutput": {"hookEventName": "PostToolBatch", "additionalContext": note}} if note else {}

    def _end(self, hook_input: Any) -> dict[str, Any]:
        """Tells the model what ran. Ends the run of an agent once the run of one of its sub-agents was ended."""
        output: dict[str, Any] = {}
        if note := self.calls.take_note(str(hook_input.get("tool_use_id"))):
            event = hook_input["hook_event_name"]
            output["hookSpecificOutput"] = {"hookEventName": event, "additionalContext": note}
        session = self.sessions.known(str(hook_input.get("session_id")))
        if session is not None and session.ended is not None:
            output |= end_output(denial_text(session.ended))
        return output

    async def user_prompt_submit(self, hook_input: Any, _id: str | None, _context: Any) -> dict[str, Any]:
        """Begins a turn of the user. Blocks it if nobody would hold its answer."""
        try:
            if self._guard.judges_answers and not holds_answers():
                return {"decision": "block", "reason": _UNHELD}
            session = await self.sessions.of(hook_input)
            if session.prompt(str(hook_input.get("prompt") or "")) and session.conversation:
                self._guard.turn(session.conversation)
        except BaseException as error:
            if _is_abandoned(error):
                raise
            return {"decision": "block", "reason": f"the guard could not begin this turn: {error_text(error)}"}
        return {}


def _is_abandoned(error: BaseException) -> bool:
    """Whether the host has abandoned the hook, or the program ends. An error of a function is answered."""
    task = asyncio.current_task()
    cancelled = isinstance(error, asyncio.CancelledError) and task is not None and bool(task.cancelling())
    return cancelled or isinstance(error, KeyboardInterrupt | GeneratorExit)


# --- the host's reviewer

_UNJUDGED = "the guard has judged no such call; it is denied"
_CHANGED = "the host asks about other arguments than the judged ones"
_EDITED = "the reviewer changed the call"
_REFUSED = "the host's reviewer refused it"
_TOO_OFTEN = "it was edited too often"


class ReviewedCalls:
    """Stands before the operator's `can_use_tool`, and binds its answers to the calls that it was shown.

    Args:
        calls: knows the judged calls.
        own: the operator's callback.
    """

    def __init__(self, calls: ClaudeCalls, own: Any) -> None:
        self._calls, self._own, self._life = calls, own, calls.guard.lifecycle

    async def can_use_tool(self, tool: str, args: dict[str, Any], context: Any) -> Any:
        """Answers a question of the host. Any error denies."""
        call_id = str(context.tool_use_id)
        escalated = self._calls.take_escalated(call_id)
        call = self._calls.released(call_id) if escalated is None else escalated[1]
        try:
            if call is None or call.tool != tool:
                return PermissionResultDeny(message=_UNJUDGED)
            if not same(call.args, args):
                await self._calls.withdraw(call_id, _CHANGED)
                return PermissionResultDeny(message=_CHANGED)
            return await (
                self._permitted(call, context) if escalated is None else self._answered(call, escalated[0], context)
            )
        except Exception as error:  # noqa: BLE001 - of the operator's callback
            await self._calls.withdraw(call_id, _REFUSED)
            return PermissionResultDeny(message=f"the approval request failed: {error_text(error)}")

    async def _answered(self, call: HostCall, verdict: Verdict, context: Any, proposed: HostCall | None = None) -> Any:
        """Asks about an escalated call, and judges it with the answer."""
        proposed = call if proposed is None else proposed
        for _ in range(MAX_REQUESTS):
            result = await self._shown(call, context, self._life.request(call, verdict).text())
            approval = _approval(result, call).validated(call.validate_edit)
            verdict = await adrive(self._life.resolve(call, approval))
            call = with_edits(call, approval)
            if verdict.decision is not Decision.ESCALATE:
                return await self._ended(call, verdict, result, proposed)
        return PermissionResultDeny(message=_TOO_OFTEN)

    async def _permitted(self, call: HostCall, context: Any) -> Any:
        """Asks about a call that the guard allowed and the host does not by itself."""
        result = await self._shown(call, context, context.decision_reason)
        if not isinstance(result, PermissionResultAllow):
            await self._calls.withdraw(call.id, _REFUSED)
            return result
        if result.updated_input is None or same(call.args, result.updated_input):
            return replace(result, updated_input=thaw(call.args))
        await self._calls.withdraw(call.id, _EDITED)
        return await self._edited(call, result, context)

    async def _edited(self, call: HostCall, result: Any, context: Any) -> Any:
        """Judges a call that the reviewer changed though no rule had escalated it."""
        try:
            edited = replace(call, args=self._calls.fit(call.tool, result.updated_input))
        except InputError as error:
            return _denied(await self._calls.guard.arefuse(call, str(error)))
        try:
            edited, args = await adrive(self._life.authorize(edited))
        except ToolDenied as denied:
            if denied.verdict.decision is not Decision.ESCALATE:
                return _denied(denied.verdict)
            return await self._answered(edited, denied.verdict, context, call)
        self._calls.release(edited, call)
        return replace(result, updated_input=args)

    async def _ended(self, call: HostCall, verdict: Verdict, result: Any, proposed: HostCall) -> Any:
        if verdict.label:
            return _denied(verdict, interrupt=getattr(result, "interrupt", False))
        args = await adrive(self._life.use(call))
        self._calls.release(call, proposed)
        return replace(result, updated_input=args)

    async def _shown(self, call: HostCall, context: Any, why: str | None) -> Any:
        shown = thaw(call.args)
        result = await self._own(call.tool, shown, replace(context, decision_reason=why))
        if isinstance(result, PermissionResultAllow) and result.updated_input is None:
            return replace(result, updated_input=shown)  # the callback may have changed them in place
        return result


def _approval(result: Any, call: HostCall) -> Approval:
    """Reads the callback's answer, which is about the call that it was shown just now."""
    if not isinstance(result, PermissionResultAllow):
        return Approval("reject", reason=str(getattr(result, "message", "")))
    changed: Mapping[str, Any] | None = result.updated_input
    if changed is None or same(call.args, changed):
        return Approval("approve", by=BY_HOST, of=call.digest)
    return Approval("edit", changed, by=BY_HOST, of=call.digest)


def _denied(verdict: Verdict, *, interrupt: bool = False) -> Any:
    return PermissionResultDeny(message=denial_text(verdict), interrupt=interrupt or ends_run(verdict))
