"""Connects one client to one server: forwards every message, and judges calls before.

Messages of the client are parsed strictly and written anew; messages of the server pass unchanged, byte by byte, except
its requests that rules can judge.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from guardagent._support.execution import adrive
from guardagent.enforcement import Approval, ApprovalRequest, Approver, EnforcementPoint, HostCall, Outcome
from guardagent.enforcement.approval import aask
from guardagent.errors import InputError, error_text
from guardagent.frameworks.mcp.adapter import calls
from guardagent.frameworks.mcp.adapter.calls import CLOSED, DENIED, INVALID, Message, denial_message, params_of
from guardagent.frameworks.mcp.adapter.catalogue import Catalogue, listed_tools
from guardagent.frameworks.mcp.adapter.client_calls import ClientCalls, ClientRequest, ErrorResponseError
from guardagent.frameworks.mcp.adapter.server_side import (
    LinkLostError,
    ServerSide,
    Target,
    older_revision,
)
from guardagent.types import Verdict

_log = logging.getLogger("guardagent")


# --- pending requests


class ToClient(Protocol):
    """Sends a line to the client."""

    def __call__(self, line: bytes, related: Any, *, last: bool) -> None:
        """Sends a line that belongs to the client's request `related`, if any; `last` marks its answer.

        An empty line means that there will be no answer.
        """


@dataclass(slots=True)
class Pending:
    """A request of the client without an answer from the server.

    Attributes:
        message: the form that the server receives.
        work: the task that judges it, if it is judged, while it runs.
        response: gets the server's response to a judged request.
        passed: the result or error that the client gets if nothing changes it, and its line.
        sent: the server may have received it.
        repeated: it was sent a second time; it is not sent again.
        cancelled: the client no longer waits.
    """

    message: Message
    work: asyncio.Task[None] | None = None
    response: asyncio.Future[tuple[bytes, Message]] | None = None
    passed: tuple[Any, bytes] = (None, b"")
    sent: bool = False
    repeated: bool = False
    cancelled: bool = False


@dataclass(slots=True)
class ServerRequest:
    """A request of the server without an answer from the client: its id at the server, and the event, if it is one."""

    id: Any
    generation: int
    call: HostCall | None = None


@dataclass(frozen=True, slots=True)
class Escalation:
    """The recipients of approval requests: the client if it can show a form, then an approver."""

    client: bool = True
    approver: Approver | None = None


# --- the relay

_NO_ANSWER = Approval("reject")


class Relay:
    """One session of a client.

    Args:
        guard: makes the decisions.
        conversation: the id of this session.
        target: the server.
        catalogue: its tools.
        to_client: sends a line to the client.
        escalation: the recipients of approval requests.
        least: the oldest revision of the protocol that is accepted; empty for any.
    """

    def __init__(
        self,
        guard: EnforcementPoint,
        conversation: str,
        target: Target,
        catalogue: Catalogue,
        to_client: ToClient,
        escalation: Escalation,
        least: str = "",
    ) -> None:
        self._guard, self._conversation, self._catalogue = guard, conversation, catalogue
        self._to_client, self._escalation = to_client, escalation
        self._least, self._agreed = least, False
        self._server = ServerSide(target, self._from_server, self._lost, self._list_tools, least)
        self._pending: dict[str, Pending] = {}
        self._server_requests: dict[Any, ServerRequest] = {}
        self._forms: dict[str, asyncio.Future[Any]] = {}
        self._calls = ClientCalls(guard, catalogue, client=escalation.client)
        self._capabilities: Any = None
        self._listing = 0
        self._ready = asyncio.Event()  # unset while the tool list is being fetched again
        self._ready.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Keeps the server connected until it is cancelled."""
        try:
            await self._server.run()
        finally:
            for task in list(self._tasks):
                task.cancel()

    def schema_of(self, message: Message) -> Mapping[str, Any]:
        """Returns the schema of the tool that a request names; empty if it names none."""
        return self._catalogue.schema_of(params_of(message).get("name"))

    # --- from the client

    async def take(self, line: bytes) -> None:
        """Handles a line of the client. No error prevents handling the next line."""
        try:
            message = calls.read(line)
        except InputError as error:
            name = calls.id_of(line)
            self._send(calls.error(name, INVALID, str(error)), name)
            return
        try:
            await self._dispatch(message)
        except Exception as error:  # noqa: BLE001 - a client must not be able to end the proxy
            _log.exception("a message of the client was not passed on")
            self._send(calls.error(calls.id_of(line), INVALID, f"this was not passed on: {error_text(error)}"))

    async def _dispatch(self, message: Message) -> None:
        if calls.is_request(message):
            await self._handle_request(message)
        elif calls.is_notification(message):
            is_cancellation = message["method"] == "notifications/cancelled"
            await (self._cancel(message) if is_cancellation else self._soon(self._notify_server(message)))
        else:
            await self._handle_response(message)

    async def _handle_request(self, message: Message) -> None:
        name, method = message["id"], message["method"]
        key = str(name)
        if key in self._pending or self._server.ours(name):
            self._send(calls.error(name, INVALID, "this id is in use"))
            return
        if self._least and (why := self._older_revision(message)):
            self._send(calls.error(name, INVALID, why, {"supported": [self._least]}), name)
            return
        if method == "initialize":
            self._capabilities = params_of(message).get("capabilities")
        pending = self._pending[key] = Pending(message)
        if method in calls.OF_CLIENT:
            pending.work = self._start(self._judge_safely(pending))
        else:
            await self._soon(self._forward(pending))

    def _older_revision(self, message: Message) -> str:
        """Returns why a request is refused: its revision is older, or the client has agreed on none; else nothing."""
        method, params = message["method"], params_of(message)
        envelope = calls.envelope_of(params)
        if method == "initialize" or envelope is not None:
            spoken = params.get("protocolVersion") if envelope is None else envelope[calls.VERSION_KEY]
            why = older_revision(spoken, self._least)
            return f"the client speaks {why}" if why else ""
        if method == "ping" or self._agreed:
            return ""
        return f"client and server have not agreed on a revision of the protocol; expected {self._least} or newer"

    async def _notify_server(self, message: Message) -> None:
        """Sends a notification or an answer; drops it if the server is gone."""
        try:
            await self._server.send(message)
        except LinkLostError as error:
            _log.warning("%s does not reach the server: %s", message.get("method", "an answer"), error)

    async def _soon(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs the coroutine at once, to keep the order; during a restart of the server it runs in the background."""
        if self._server.up:
            await work
        else:
            self._start(work)

    async def _cancel(self, message: Message) -> None:
        key = str(params_of(message).get("requestId"))
        pending = self._pending.get(key)
        if pending is None:
            return
        if not pending.sent:  # the server has not received it
            del self._pending[key]
            if pending.work is not None:
                pending.work.cancel()
            self._to_client(b"", pending.message["id"], last=True)
            return
        pending.cancelled = True
        self._to_client(b"", pending.message["id"], last=True)
        self._fail(pending, CLOSED, "cancelled")
        await self._soon(self._notify_server(message))

    async def _handle_response(self, message: Message) -> None:
        name = message.get("id")
        form = self._forms.get(name) if isinstance(name, str) else None
        if form is not None:
            if not form.done():
                form.set_result(message.get("result"))
            return
        server_request = self._server_requests.pop(name, None) if calls.is_id(name) else None
        if server_request is None or server_request.generation != self._server.generation:
            _log.warning("the client answers a request that the server did not send")
            return
        if server_request.call is not None:
            await self._guard.aafter(server_request.call, calls.outcome_of(message))
        await self._soon(self._notify_server({**message, "id": server_request.id}))

    # --- a call

    async def _judge_safely(self, pending: Pending) -> None:
        """Judges a call, and sends it if it is allowed. Every error denies it."""
        message = pending.message
        params = params_of(message)
        by_result = self._escalation.client and calls.asks_by_result(params)
        modern = calls.envelope_of(params) is not None
        asks = self._ask_reviewer, by_result
        request = ClientRequest(message, self._conversation, *asks, modern, may_have_run=lambda: pending.sent)
        shown: Any = None
        try:
            await self._server.wait()
            await self._ready.wait()
            shown = await self._calls.answer(request, partial(self._round_trip, pending))
            answer = calls.result(message["id"], shown)
        except ErrorResponseError as error:
            shown, answer = error.error, {"jsonrpc": "2.0", "id": message["id"], "error": error.error}
        except LinkLostError as error:
            answer = calls.error(message["id"], CLOSED, str(error))
        except Exception as error:  # noqa: BLE001 - a client must not wait for ever
            _log.exception("a call could not be judged")
            answer = calls.error(message["id"], DENIED, f"this could not be checked: {error_text(error)}")
        if pending.response is not None and pending.response.cancelled():  # by a timeout of the policy
            cancelled = {"requestId": message["id"], "reason": "timeout"}
            self._start(self._notify_server(calls.notification("notifications/cancelled", cancelled)))
        passed, line = pending.passed
        self._settle(pending, line if line and shown is passed else calls.write_message(answer))

    async def _round_trip(self, pending: Pending, params: Mapping[str, Any]) -> Any:
        """Sends a judged request with these parameters. Returns the result.

        Raises:
            ErrorResponseError: there is an error instead.
        """
        pending.message, pending.response = {**pending.message, "params": params}, asyncio.Future()
        await self._forward(pending)
        line, message = await pending.response
        answer = message.get("result") if "error" not in message else message["error"]
        pending.passed = answer, line
        if "error" not in message:
            if (refused := await self._refuse_inputs(answer)) is not None:
                raise ErrorResponseError({"code": DENIED, "message": refused}, Outcome(refused, failed=None))
            return answer
        outcome = calls.outcome_of(message)
        if isinstance(answer, Mapping) and answer.get("code") == CLOSED:
            self._server.in_doubt, outcome = True, Outcome("the connection is lost", failed=None, ended=False)
        raise ErrorResponseError(answer, outcome)

    async def _forward(self, pending: Pending) -> None:
        message = pending.message
        try:
            await self._server.wait()
            if pending.response is not None:
                await self._server.confirm()
            pending.sent = True
            await self._server.send(message, self.schema_of(message))
        except LinkLostError as error:
            self._fail(pending, CLOSED, str(error))
        except ValueError as error:
            self._fail(pending, INVALID, f"this cannot be sent on: {error}")

    def _fail(self, pending: Pending, code: int, why: str) -> None:
        """Ends a request that the server does not answer. A judged call that may have run stays in flight."""
        failure = calls.error(pending.message["id"], code, why)
        if pending.response is None:
            if str(pending.message["id"]) in self._pending:
                self._settle(pending, calls.write_message(failure))
        elif not pending.response.done():
            outcome = Outcome(why, failed=None, ended=False) if pending.sent else Outcome(why, failed=True)
            pending.response.set_exception(ErrorResponseError(failure["error"], outcome))

    # --- human approval

    async def _ask_reviewer(self, request: ApprovalRequest) -> Approval | None:
        """Requests approval. Returns None if there is no reviewer."""
        if self._escalation.client and calls.can_ask(self._capabilities):
            return await self._ask_by_form(calls.question(request))
        if self._escalation.approver is not None:
            return await aask(self._escalation.approver, request)
        return None

    async def _ask_by_form(self, question: Mapping[str, Any]) -> Approval:
        name = f"guardagent-{secrets.token_hex(8)}"
        form = self._forms[name] = asyncio.get_running_loop().create_future()
        try:
            self._send(calls.request(name, "elicitation/create", _form_of(question)), self._newest())
            return calls.answer(await form)
        except asyncio.CancelledError:
            self._send(calls.notification("notifications/cancelled", {"requestId": name}))
            raise
        finally:
            del self._forms[name]

    # --- from the server

    async def _from_server(self, line: bytes, message: Message) -> None:
        if calls.is_request(message):
            await self._handle_server_request(message)
        elif calls.is_notification(message):
            self._handle_server_notification(line, message)
        else:
            await self._handle_server_response(line, message)

    async def _handle_server_request(self, message: Message) -> None:
        """Judges a request of the server if it is an event; otherwise forwards it."""
        if message["method"] in calls.OF_SERVER:
            self._start(self._event(message))
        else:
            self._pass_on(message, None)

    async def _event(self, message: Message) -> None:
        call = calls.server_event(message["method"], params_of(message), self._conversation)
        verdict, call = await adrive(self._calls.rounds.decide(call, None, lambda: _NO_ANSWER, self._ask_reviewer))
        if verdict.label:
            await self._refuse(message, self._denial_message(verdict))
            return
        try:
            args = await self._guard.ause(call)
        except InputError as error:
            await self._refuse(message, str(error))
            return
        self._pass_on(calls.with_args(message, args), call)

    def _pass_on(self, message: Message, call: HostCall | None) -> None:
        generation = self._server.generation
        name = message["id"] if not generation else f"{message['id']}~{generation}"
        self._server_requests[name] = ServerRequest(message["id"], generation, call)
        self._send({**message, "id": name}, self._newest())

    async def _refuse(self, message: Message, why: str) -> None:
        _log.warning("%s of the server is not passed on: %s", message.get("method"), why)
        await self._notify_server(calls.error(message.get("id"), DENIED, why))

    def _handle_server_notification(self, line: bytes, message: Message) -> None:
        method, params = message["method"], params_of(message)
        if method == "notifications/tools/list_changed":
            self._ready.clear()
            self._start(self._list_again())
        if method == "notifications/cancelled" and self._server.generation:
            name = f"{params.get('requestId')}~{self._server.generation}"
            self._send({**message, "params": {**params, "requestId": name}}, self._newest())
            return
        self._to_client(line, self._related(params), last=False)

    async def _handle_server_response(self, line: bytes, message: Message) -> None:
        pending = self._pending.get(str(message.get("id")))
        if pending is None:
            if message.get("id") is None:
                self._to_client(line, None, last=False)  # an error about an unreadable message
            return
        if pending.response is not None:
            if not pending.response.done():
                pending.response.set_result((line, message))
            return
        self._agreed |= pending.message["method"] == "initialize" and "result" in message
        if pending.message["method"] == "tools/list":
            line = self._listed(pending, line, message)
        if (refused := await self._refuse_inputs(message.get("result"))) is not None:
            line = calls.write_message(calls.error(message["id"], DENIED, refused))
        self._settle(pending, line)

    async def _refuse_inputs(self, answer: Any) -> str | None:
        """Judges the input requests of a result. Returns the reason for a refusal; None if all may pass."""
        wanted = answer.get("inputRequests") if isinstance(answer, Mapping) else None
        if wanted is None:
            return None
        if not isinstance(wanted, Mapping) or not all(isinstance(request, Mapping) for request in wanted.values()):
            return "the server asks for input in no known form"
        for name, request in wanted.items():
            method = request.get("method")
            try:
                calls.require_known_kind({**request, "method": method, "id": name})
            except InputError as error:
                return f"the server asks for input in no known form: {error}"
            if method not in calls.OF_SERVER:
                continue
            call = calls.server_event(method, params_of(request), self._conversation)
            verdict = await self._guard.abefore(call)
            if verdict.label:
                return f"the server asks for {method}: {self._denial_message(verdict)}"
            await self._guard.ause(call)
            await self._guard.aafter(call, Outcome(None, failed=None))  # the answer goes with the next call
        return None

    # --- the list of tools

    async def _list_again(self) -> None:
        self._listing += 1
        try:
            await self._list_tools()
        except LinkLostError as error:
            self._catalogue.forget(f"the tools have changed, and the server does not list them: {error}")
        finally:
            self._listing -= 1
            if not self._listing:
                self._ready.set()

    async def _list_tools(self) -> None:
        """Fetches the whole tool list, and checks the rules against it."""
        try:
            self._catalogue.attach(await listed_tools(self._server.ask))
        except InputError as error:
            self._catalogue.forget(str(error))

    def _listed(self, pending: Pending, line: bytes, message: Message) -> bytes:
        """Records a page of tools. Returns the line for the client, with the accepted tools only."""
        answer = message.get("result")
        try:
            self._catalogue.page(params_of(pending.message).get("cursor"), answer)
        except InputError as error:
            _log.error("every call of a tool is denied from now on: %s", error)
        if not isinstance(answer, Mapping) or not isinstance(answer.get("tools"), list):
            return line
        shown = self._catalogue.visible(answer["tools"], self._conversation)
        return (
            line if shown == answer["tools"] else calls.write_message({**message, "result": {**answer, "tools": shown}})
        )

    # --- lost connections and answers

    def _lost(self, why: str, unsent: frozenset[Any]) -> None:
        """Handles the loss of the server: waiting clients get an error, and running calls stay in flight."""
        for pending in list(self._pending.values()):
            name = pending.message["id"]
            if not pending.sent:
                continue
            # A judged call is sent at most once, whatever the server reports: it may have run.
            if name in unsent and pending.response is None and not pending.repeated:
                pending.repeated = True
                self._start(self._forward(pending))
            else:
                self._fail(pending, CLOSED, f"the MCP server is gone: {why}; it is started again")
        for name, server_request in list(self._server_requests.items()):
            self._send(calls.notification("notifications/cancelled", {"requestId": name, "reason": why}))
            if server_request.call is not None:
                self._guard.after(server_request.call, Outcome(why, failed=None, ended=False))
        self._server_requests.clear()

    def _settle(self, pending: Pending, line: bytes) -> None:
        self._pending.pop(str(pending.message["id"]), None)
        if not pending.cancelled:
            self._to_client(line, pending.message["id"], last=True)

    def _denial_message(self, verdict: Verdict) -> str:
        return denial_message(verdict, client=self._escalation.client)

    # --- helpers

    def _send(self, message: Message, related: Any = None) -> None:
        self._to_client(calls.write_message(message), related, last="method" not in message)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a message was not passed on: %r", error)

    def _newest(self) -> Any:
        return next((request.message["id"] for request in reversed(self._pending.values())), None)

    def _related(self, params: Mapping[str, Any]) -> Any:
        """Returns the request of a notification, by its subscription or progress token; else the newest."""
        meta, token = params.get("_meta"), params.get("progressToken")
        if isinstance(meta, Mapping) and calls.SUBSCRIPTION_KEY in meta:
            return meta[calls.SUBSCRIPTION_KEY]
        if token is not None:
            for request in self._pending.values():
                meta = params_of(request.message).get("_meta")
                if isinstance(meta, Mapping) and meta.get("progressToken") == token:
                    return request.message["id"]
        return self._newest()


def _form_of(question: Mapping[str, Any]) -> Message:
    """Returns a form without the mode, which clients before 2025-11-25 do not know."""
    return {name: parameter for name, parameter in question.items() if name != "mode"}
