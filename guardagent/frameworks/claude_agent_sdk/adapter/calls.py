"""Judges calls, and knows which of them may run: each id once, with the judged arguments."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from guardagent._support.execution import adrive
from guardagent.enforcement import EnforcementPoint, HostCall, Outcome, ToolSpec
from guardagent.enforcement.enforcement_point import JudgedCall
from guardagent.enforcement.schema import validate_arguments
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.claude_agent_sdk.adapter.hook_outputs import (
    ask_output,
    denial_text,
    deny_output,
    ends_run,
    release_output,
)
from guardagent.frameworks.claude_agent_sdk.adapter.sessions import UNNAMED, ClaudeSession
from guardagent.types import Decision, Verdict

NO_REVIEWER = "there is no reviewer: pass can_use_tool in the options, or ToolGuard(approver=...)"
_VETOED = "another hook stopped this call"
_log = logging.getLogger("guardagent")


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

    def know(self, specs: Iterable[ToolSpec]) -> None:
        """Takes note of the schemas of tools of this process."""
        self._schemas.update((one.name, one.schema) for one in specs)

    # --- before a call

    async def propose(self, found: Mapping[str, Any], session: ClaudeSession) -> dict[str, Any]:
        """Judges the call of a hook's input. Returns the hook's answer."""
        try:
            self._require_new(found["tool_use_id"])
            call = self._call(found, session, self.fit(found["tool_name"], found["tool_input"]))
        except InputError as error:
            return self._denied(await self.guard.arefuse(self._call(found, session, {}), str(error)), session)
        try:
            call, args = await adrive(self.guard.lifecycle.authorize(call))
        except ToolDenied as denied:
            return self._asks(call, denied.verdict, session)
        if call.id in self._vetoed:
            self._vetoed.discard(call.id)
            await self.guard.awithdraw(call, _VETOED, used=True)
            return deny_output(_VETOED)
        self._released[call.id] = call
        return release_output(args)

    def _require_new(self, call_id: str) -> None:
        if call_id in self._released or call_id in self._escalated:
            raise InputError(f"a call with the id {call_id!r} is in flight")

    def fit(self, tool: str, args: Any) -> Mapping[str, Any]:
        """Returns the arguments as the tool would get them: for a tool of this process, with the schema's defaults.

        Raises:
            InputError: they do not fit.
        """
        if not isinstance(args, Mapping):
            raise InputError(f"the arguments of {tool!r} are a {type(args).__name__}; expected an object")
        schema = self._schemas.get(tool)
        return dict(args) if schema is None else validate_arguments(tool, args, schema)

    def _call(self, found: Mapping[str, Any], session: ClaudeSession, args: Mapping[str, Any]) -> HostCall:
        tool, agent = str(found["tool_name"]), str(found.get("agent_id") or "")
        return HostCall(
            tool,
            args,
            session.conversation,
            id=str(found["tool_use_id"]),
            agent=found.get("agent_type"),
            step=f"{found['session_id']}.{agent}.{session.batches.get(agent, 0)}",
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

    def release(self, call: HostCall) -> None:
        """Lets a call run whose permit is used."""
        self._released[call.id] = call

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
            await self.guard.awithdraw(call, why, used=True)
        return call is not None

    # --- after a call

    async def settle(self, found: Mapping[str, Any], outcome: Outcome) -> None:
        """Records the outcome of a call that the host ran. One of this process has been recorded already."""
        call = self._released.pop(str(found.get("tool_use_id")), None)
        if call is None:
            return
        if not same(call.args, found.get("tool_input")):
            _log.error("%r ran with other arguments than the judged ones: a hook or a setting changed them", call.tool)
            outcome = replace(outcome, failed=None)
        await self.guard.aafter(call, outcome)

    def forget(self, call_ids: list[str]) -> None:
        """Forgets what is left of calls that have ended."""
        for one in call_ids:
            self._escalated.pop(one, None)
            self._vetoed.discard(one)


def same(args: Any, others: Any) -> bool:
    """Whether two values are the same JSON. The host's program writes 1.0 as 1; `true` is neither."""
    if isinstance(args, Mapping):
        is_same = isinstance(others, Mapping) and args.keys() == others.keys()
        return is_same and all(same(one, others[name]) for name, one in args.items())
    if isinstance(args, list | tuple):
        is_same = isinstance(others, list | tuple) and len(args) == len(others)
        return is_same and all(map(same, args, others))
    if isinstance(args, bool) or isinstance(others, bool):
        return args is others
    return bool(args == others)
