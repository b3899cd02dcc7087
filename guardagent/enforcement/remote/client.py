"""The requests about sessions and their calls, each within a deadline."""

from __future__ import annotations

import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import quote

from guardagent.enforcement.approval import Approval
from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.names import ToolSpec
from guardagent.enforcement.remote.guard import PendingRequest, RemoteConversation
from guardagent.enforcement.remote.host_facts import HostFacts
from guardagent.enforcement.remote.server_answers import (
    AttachedTools,
    JudgedByServer,
    read_attached,
    read_judged,
    read_only_verdict,
)
from guardagent.enforcement.remote.server_client import ServerClient
from guardagent.enforcement.wire import WireError, dumps, write_approval, write_call, write_tool, write_value
from guardagent.errors import InputError, RemoteError
from guardagent.types import Verdict

T = TypeVar("T")
POLL_SECONDS = 25.0
_log = logging.getLogger("guardagent")


class SessionClient:
    """Asks the server about the calls of an agent.

    Args:
        client: sends the requests.
        policy: the name of the policy on the server.
        aliases: a tool's name in the host -> its name in the rules.
        absent: tools that rules name and this agent is known not to have.
        facts: the host's facts, state and users.
        approver_token: the token of a reviewer, for the host's own approvals; None if only the server has reviewers.
    """

    def __init__(
        self,
        client: ServerClient,
        policy: str,
        aliases: Mapping[str, str],
        absent: Iterable[str],
        facts: HostFacts,
        approver_token: str | None,
    ) -> None:
        self._client, self._facts, self.approver_token = client, facts, approver_token
        self._about = {"policy": policy, "aliases": dict(aliases), "absent": sorted(absent)}
        # No lock: a fork would copy it as it is. Each answer is stored with the tools that it is about.
        self._tools: dict[str, Any] = {**self._about, "tools": []}
        self._answer: tuple[dict[str, Any], AttachedTools] | None = None

    # --- tools

    @property
    def attached(self) -> AttachedTools | None:
        """The attached tools; None before the server has them."""
        answer = self._answer
        return answer[1] if answer is not None and answer[0] is self._tools else None

    def set_tools(self, tools: Iterable[ToolSpec]) -> None:
        """Sets the agent's tools, which are attached before the next session begins.

        Raises:
            WireError: the declaration of a tool is not JSON.
        """
        written = {**self._about, "tools": [write_tool(tool, f"tools[{at}]") for at, tool in enumerate(tools)]}
        if written != self._tools:
            self._tools = written

    def attach(self, deadline: float) -> AttachedTools:
        """Attaches the agent's tools, unless the server has them.

        Raises:
            RemoteError: there is no usable answer.
        """
        if (found := self.attached) is not None:
            return found
        tools = self._tools
        value = self._client.exchange("POST", "/v1/attachments", dumps(tools), deadline, key=_new_key())
        attached = _answer(read_attached, value)
        self._answer = (tools, attached)
        return attached

    # --- a session

    def ready(self, conversation: RemoteConversation, deadline: float) -> AttachedTools:
        """Opens the session of a conversation, and sends what is pending.

        Raises:
            RemoteError: there is no usable answer.
            InputError: the host's user or the conversation is invalid.
        """
        attached = self.attach(deadline)
        with _Locked(conversation, deadline):
            if not conversation.opened:
                body = {"attachment": attached.id, "id": conversation.session}
                body |= self._facts.user(conversation.id)
                value = self._client.exchange("POST", "/v1/sessions", dumps(body), deadline, key=_new_key())
                if not isinstance(value, dict) or value.get("id") != conversation.session:
                    raise RemoteError("the guard's server opened another session than the one that was named")
                conversation.opened = True
            self._send_pending(conversation, deadline)
        return attached

    def send_pending(self, conversation: RemoteConversation, deadline: float) -> None:
        """Sends what is pending.

        Raises:
            RemoteError: there is no usable answer; the rest stays pending.
        """
        with _Locked(conversation, deadline):
            self._send_pending(conversation, deadline)

    def _send_pending(self, conversation: RemoteConversation, deadline: float) -> None:
        while conversation.pending:
            request = conversation.pending[0]
            try:
                self._send(conversation, request.operation, request.body, deadline, request.key)
            except RemoteError as error:
                if not _is_final(error):
                    raise
                _log.error("the guard's server does not take %s; %s", _named(request), error)
            with contextlib.suppress(ValueError):  # it may have been dropped in the meantime
                conversation.pending.remove(request)

    def _send(
        self, conversation: RemoteConversation, operation: str, body: Any, deadline: float, key: str | None = None
    ) -> Any:
        path = f"/v1/sessions/{quote(conversation.session, safe='')}/{operation}"
        return self._client.exchange("POST", path, dumps(body), deadline, key=key or _new_key())

    # --- a call

    def check(
        self, conversation: RemoteConversation, call: HostCall, deadline: float, *, reserve: bool = True
    ) -> JudgedByServer:
        """Judges a call; one that is allowed and reserved is in flight.

        Raises:
            RemoteError: there is no usable answer; if it is uncertain, the call may be in flight.
            InputError: the call cannot be sent.
        """
        attached = self.ready(conversation, deadline)
        body = {"call": self._written(conversation, call, attached), **self._facts.state(conversation.id)}
        body |= {} if reserve else {"reserve": False}
        return _answer(read_judged, self._send(conversation, "check", body, deadline))

    def record(self, conversation: RemoteConversation, call_id: str, outcome: Any, deadline: float) -> None:
        """Records the outcome of a call by its id on the server, once.

        Raises:
            RemoteError: there is no usable answer, no such call was allowed, or it has another outcome.
        """
        self.ready(conversation, deadline)
        self._send(conversation, "record", {"call_id": call_id, "outcome": outcome}, deadline)

    def refuse(self, conversation: RemoteConversation, call: HostCall, problem: str, deadline: float) -> Verdict:
        """Denies a call that cannot be judged.

        Raises:
            as `check`.
        """
        attached = self.ready(conversation, deadline)
        body = {"call": self._written(conversation, call, attached), "problem": problem}
        return _answer(read_only_verdict, self._send(conversation, "refuse", body, deadline))

    def resolve(
        self, conversation: RemoteConversation, call: HostCall, approval: str, deadline: float
    ) -> JudgedByServer:
        """Judges a call with the answers of its reviewers; without enough of them it stays escalated.

        Raises:
            as `check`.
        """
        attached = self.ready(conversation, deadline)
        body = {"call": self._written(conversation, call, attached), "approval": approval}
        body |= self._facts.state(conversation.id)
        return _answer(read_judged, self._send(conversation, "resolve", body, deadline))

    def answer(
        self, conversation: RemoteConversation, texts: tuple[str, str], facts: Mapping[str, Any], deadline: float
    ) -> Verdict:
        """Judges the input and the final answer of the agent.

        Raises:
            as `check`.
        """
        self.ready(conversation, deadline)
        body = {"input": texts[0], "output": texts[1], **({"facts": write_value(facts, "facts")} if facts else {})}
        return _answer(read_only_verdict, self._send(conversation, "answer", write_value(body), deadline))

    def finish(self, conversation: RemoteConversation, deadline: float) -> Verdict:
        """Ends a conversation.

        Raises:
            as `check`.
        """
        self.send_pending(conversation, deadline)
        return _answer(read_only_verdict, self._send(conversation, "finish", {}, deadline))

    def _written(self, conversation: RemoteConversation, call: HostCall, attached: AttachedTools) -> dict[str, Any]:
        facts = self._facts.of_call(call)
        messages = call.messages if attached.reads_messages else None
        if not isinstance(call.id, str):
            raise InputError(f"the call's id is {call.id!r}; expected a string")
        if not isinstance(call.facts, Mapping):
            raise InputError(f"the facts are a {type(call.facts).__name__}; expected a mapping of names to values")
        sent = replace(call, id=conversation.server_id(call.id), facts={**facts, **call.facts}, messages=messages)
        return write_call(sent)

    # --- approvals

    def approval_status(self, approval: str, deadline: float, wait: float = 0) -> tuple[str, Any]:
        """Returns the status of an approval and its version, after at most `wait` seconds without news.

        Raises:
            RemoteError: there is no usable answer.
        """
        query = f"?wait={wait:.0f}" if wait >= 1 else ""
        path = f"/v1/approvals/{quote(approval, safe='')}{query}"
        value = self._client.exchange("GET", path, None, deadline, token=self.approver_token)
        status = value.get("status") if isinstance(value, dict) else None
        if not isinstance(status, str):
            raise RemoteError("the guard's server answered without the status of the approval")
        return status, value.get("version")

    def answer_approval(self, approval: str, answer: Approval, deadline: float) -> None:
        """Sends the answer of the host's reviewer, with the reviewer's token.

        Raises:
            RemoteError: there is no usable answer, or the approval was answered in the meantime.
        """
        status, version = self.approval_status(approval, deadline)
        if status != "pending":
            return  # the verdict on the call tells the rest
        written = write_approval(replace(answer, by=None, of=None))
        path = f"/v1/approvals/{quote(approval, safe='')}/answer"
        body = dumps({**written, "version": version})
        self._client.exchange("POST", path, body, deadline, key=_new_key(), token=self.approver_token)

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()


class _Locked:
    """Holds the lock of a conversation, if it is free before the deadline."""

    def __init__(self, conversation: RemoteConversation, deadline: float) -> None:
        self._conversation, self._deadline = conversation, deadline

    def __enter__(self) -> None:
        if not self._conversation.lock.acquire(timeout=max(0, self._deadline - time.monotonic())):
            raise RemoteError("earlier requests of the conversation did not end in time")

    def __exit__(self, *raised: object) -> None:
        self._conversation.lock.release()


def _answer(read: Callable[[Any], T], value: Any) -> T:
    try:
        return read(value)
    except WireError as error:
        raise RemoteError(f"the answer of the guard's server is invalid: {error}", uncertain=True) from None


def _is_final(error: RemoteError) -> bool:
    """Whether the server will never take a request."""
    return error.status is not None and error.status < 500 and not error.retried and error.status not in (401, 403)


def _named(request: PendingRequest) -> str:
    call = request.body.get("call_id")
    return f"the {request.operation} of call {call!r}" if call else f"a {request.operation!r}"


def _new_key() -> str:
    return secrets.token_hex(16)
