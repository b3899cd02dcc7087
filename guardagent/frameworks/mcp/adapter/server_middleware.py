"""A guard in a server of the mcp library: `server.middleware.append(GuardServerMiddleware(guard))`.

It runs before the library's own validation, since there is no later hook. So it validates the arguments against the
tool's schema and adds its defaults, without coercion: later validation has nothing left to change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from mcp.server.runner import ServerRunner
from mcp.shared.exceptions import MCPError
from mcp_types import ListToolsResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from guardagent._support.execution import Operation, Procedure, adrive
from guardagent.enforcement import Approval, EnforcementPoint, HostCall, Outcome
from guardagent.enforcement.enforcement_point import JudgedCall
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.mcp.adapter import approvals, calls
from guardagent.frameworks.mcp.adapter.catalogue import Catalogue
from guardagent.frameworks.mcp.adapter.denial_message import denial_message
from guardagent.frameworks.mcp.adapter.rounds import InputRequiredSignal, Rounds
from guardagent.frameworks.mcp.adapter.sessions import MISSING, captured, session_of
from guardagent.frameworks.mcp.adapter.wire import DENIED
from guardagent.types import Verdict, thaw


class GuardServerMiddleware:
    """Judges every call of a server's tools, its resources and its prompts. Append it last (innermost).

    Args:
        guard: makes the decisions.
        conversation: returns the conversation id from the context of a request, if the transport has no
            sessions, or several sessions are one conversation.
    """

    def __init__(self, guard: EnforcementPoint, *, conversation: Callable[[Any], str | None] | None = None) -> None:
        self._guard, self._conversation = guard, conversation
        self._catalogue = Catalogue(guard)
        self._rounds = Rounds(guard)

    async def __call__(self, context: Any, call_next: Any) -> Any:
        """Handles one message of a client; `context` is a `ServerRequestContext`."""
        if context.method not in calls.OF_CLIENT or context.request_id is None:
            return await call_next(context)
        try:
            call = await self._call(context, call_next)
        except InputError as error:
            call = HostCall(_name(context), {}, self._session(context))
            return _denied(context, await self._guard.arefuse(call, str(error)))
        proposed, state = call, context.params.get("requestState")
        known = self._rounds.resume(proposed, state) if state is not None else None
        if known is not None:
            return await self._execute(context, call_next, known, proposed, thaw(known.args))
        is_ours = self._rounds.is_ours(state)
        try:
            call, args = await adrive(self._guard.lifecycle.authorize(call, self._decide(context, call)))
        except InputRequiredSignal as asking:
            return asking.args[0]
        except ToolDenied as denied:
            return _denied(context, denied.verdict)
        if is_ours:
            ours = ("inputResponses", "requestState")
            params = {name: one for name, one in context.params.items() if name not in ours}
            context = replace(context, params=params)
        return await self._execute(context, call_next, call, proposed, args)

    async def _call(self, context: Any, call_next: Any) -> HostCall:
        """Returns the call with the arguments that the handler receives.

        Raises:
            InputError: the call is malformed, belongs to no session, or does not match its tool.
        """
        conversation = self._session(context)
        if not conversation:
            raise InputError(MISSING)
        if context.method == calls.TOOL:
            await self._list(context, call_next)
        return calls.client_call(context.method, context.params or {}, conversation, self._catalogue.call)

    async def _list(self, context: Any, call_next: Any) -> None:
        """Lists the tools again as the client sees them, since they may have changed.

        Raises:
            InputError: the answer has no list of tools, or they do not fit the rules.
        """
        meta = (context.params or {}).get("_meta")
        cursor = None
        while True:
            params = {**({"_meta": meta} if meta else {}), **({"cursor": cursor} if cursor is not None else {})}
            answer = await _tools(replace(context, method="tools/list", params=params), call_next)
            if not isinstance(answer.get("tools"), list):
                raise InputError("the server does not list its tools")
            self._catalogue.page(cursor, answer)
            cursor = answer.get("nextCursor")
            if cursor is None:
                return

    def _session(self, context: Any) -> str | None:
        if self._conversation is not None:
            return self._conversation(context)
        return session_of(context.session, context.request)

    def _decide(self, context: Any, proposed: HostCall) -> Procedure[JudgedCall]:
        async def ask(call: HostCall, verdict: Verdict) -> Approval | None:
            request = self._guard.request(call, verdict)
            if approvals.asks_by_result(context.params):
                raise InputRequiredSignal(approvals.asking_result(request, self._rounds.ask(proposed, call)))
            found = context.session.client_capabilities
            modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
            if modern or found is None or not approvals.can_ask(_plain(found)):
                return None
            question = approvals.question(request)
            response = await context.session.elicit_form(
                question["message"], question["requestedSchema"], related_request_id=context.request_id
            )
            return approvals.answer({"action": response.action, "content": response.content})

        answer = partial(approvals.answer_in, context.params)
        return self._rounds.decide(proposed, context.params.get("requestState"), answer, ask)

    async def _execute(
        self, context: Any, call_next: Any, call: HostCall, proposed: HostCall, args: Mapping[str, Any]
    ) -> Any:
        params = calls.with_args({"method": context.method, "params": context.params}, args)["params"]

        def outcome(answer: Any) -> Outcome:
            plain = _plain(answer)
            if plain.get("resultType") == "input_required":
                self._rounds.leave_open(proposed, plain.get("requestState"), call)
            return calls.outcome_of({"result": plain})

        work = partial(call_next, replace(context, params=params))
        return await adrive(self._guard.lifecycle.execute(call, Operation(work, work), outcome))


async def _tools(context: Any, call_next: Any) -> dict[str, Any]:
    """Returns the server's answer to `tools/list`.

    If no other middleware comes between, this calls the server's handler: to validate and shape a typed answer for the
    client takes the library several times as long, and changes nothing of a tool that is judged.
    """
    runner = captured(call_next, "self")
    ready = isinstance(runner, ServerRunner) and runner.connection.initialize_accepted  # else the library refuses
    entry = runner.server.get_request_handler(context.method) if ready else None
    if entry is not None:
        answer = await entry.handler(context, entry.params_type.model_validate(context.params, by_name=False))
        if isinstance(answer, ListToolsResult):
            return _plain(answer)
    return _plain(await call_next(context))


def _denied(context: Any, verdict: Verdict) -> Any:
    """Returns an error of the tool; for other requests, an error of the protocol."""
    if context.method != calls.TOOL:
        raise MCPError(
            DENIED, denial_message(verdict), {"decision": str(verdict.decision), "rules": list(verdict.rules)}
        )
    modern = {"resultType": "complete"} if context.protocol_version in MODERN_PROTOCOL_VERSIONS else {}
    return {"content": [{"type": "text", "text": denial_message(verdict)}], "isError": True, **modern}


def _name(context: Any) -> str:
    name = (context.params or {}).get("name")
    return name if context.method == calls.TOOL and isinstance(name, str) and name else context.method


def _plain(answer: Any) -> dict[str, Any]:
    if isinstance(answer, BaseModel):
        return answer.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dict(answer or {})
