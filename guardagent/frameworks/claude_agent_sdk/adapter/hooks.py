"""The guard's hooks. None of them raises, since the host goes on without a hook that failed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from claude_agent_sdk import HookMatcher

from guardagent.errors import error_text
from guardagent.frameworks.claude_agent_sdk.adapter.calls import ClaudeCalls
from guardagent.frameworks.claude_agent_sdk.adapter.hook_outputs import PRE, denial_text, deny_output, end_output
from guardagent.frameworks.claude_agent_sdk.adapter.operator_hooks import watched
from guardagent.frameworks.claude_agent_sdk.adapter.outcomes import outcome_of_failure, outcome_of_response
from guardagent.frameworks.claude_agent_sdk.adapter.scopes import holds_answers
from guardagent.frameworks.claude_agent_sdk.adapter.sessions import ClaudeSessions

SECONDS = 86_400  # above the deadline of any check, and time for an approver; the host denies what takes longer
_UNHELD = (
    "the guard judges final answers, and this client does not hold them: use `query` or `GuardedClient` of "
    "guardagent.frameworks.claude_agent_sdk"
)
_log = logging.getLogger("guardagent")


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

    async def pre_tool_use(self, found: Any, _id: str | None, _context: Any) -> dict[str, Any]:
        """Judges a call."""
        try:
            return await self.calls.propose(found, await self.sessions.of(found))
        except BaseException as error:
            if _is_abandoned(error):
                raise
            return deny_output(f"the guard could not judge this call: {error_text(error)}")

    async def post_tool_use(self, found: Any, _id: str | None, _context: Any) -> dict[str, Any]:
        """Records what a call returned."""
        try:
            await self.calls.settle(found, outcome_of_response(found.get("tool_response")))
        except Exception as error:  # noqa: BLE001 - the call stays in flight
            _log.error("an outcome was not recorded: %s", error_text(error))
        return self._end(found)

    async def post_tool_use_failure(self, found: Any, _id: str | None, _context: Any) -> dict[str, Any]:
        """Records that a call failed."""
        try:
            await self.calls.settle(found, outcome_of_failure(found))
        except Exception as error:  # noqa: BLE001 - as above
            _log.error("an outcome was not recorded: %s", error_text(error))
        return self._end(found)

    async def post_tool_batch(self, found: Any, _id: str | None, _context: Any) -> dict[str, Any]:
        """Notes that the calls of a message have ended: the next denials are another turn."""
        try:
            (await self.sessions.of(found)).next_batch(str(found.get("agent_id") or ""))
            self.calls.forget([str(one.get("tool_use_id")) for one in found.get("tool_calls") or ()])
        except Exception as error:  # noqa: BLE001 - denials count as of one turn
            _log.error("the end of a turn was not noted: %s", error_text(error))
        return {}

    def _end(self, found: Any) -> dict[str, Any]:
        """Ends the run of an agent once the run of one of its sub-agents was ended."""
        session = self.sessions.known(str(found.get("session_id")))
        return {} if session is None or session.ended is None else end_output(denial_text(session.ended))

    async def user_prompt_submit(self, found: Any, _id: str | None, _context: Any) -> dict[str, Any]:
        """Begins a turn of the user. Blocks it if nobody would hold its answer."""
        try:
            if self._guard.judges_answers and not holds_answers():
                return {"decision": "block", "reason": _UNHELD}
            session = await self.sessions.of(found)
            if session.prompt(str(found.get("prompt") or "")) and session.conversation:
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
