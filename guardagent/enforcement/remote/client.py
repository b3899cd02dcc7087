"""Requests to a guard's server: bounded in time, size and number, and repeated only where the server can tell.

Each request that changes something has an idempotency key, so the server does not act twice on a repetition. The
server's answers come first, then its address and token, the connections, and the requests about sessions and calls.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import re
import secrets
import socket
import ssl
import time
import weakref
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection, IncompleteRead
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from guardagent._support.http import is_loopback
from guardagent._version import __version__
from guardagent.enforcement.approval import Approval
from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.host_usage import ModelUsage
from guardagent.enforcement.names import Coverage, ToolSpec
from guardagent.enforcement.remote.guard import HostFacts, PendingRequest, RemoteConversation
from guardagent.enforcement.wire import (
    MAX_BYTES,
    WireError,
    dumps,
    loads,
    read_value,
    read_verdict,
    write_approval,
    write_call,
    write_tool,
    write_value,
)
from guardagent.enforcement.wire.values import WireField, WireShape, strings
from guardagent.errors import InputError, RemoteError
from guardagent.policy.views import host_text
from guardagent.types import Verdict, freeze

_log = logging.getLogger("guardagent")


# --- answers


@dataclass(frozen=True, slots=True)
class ServerCoverage(Coverage):
    """The comparison of rules and tools that the server made.

    Attributes:
        reported: its warnings, a line each.
    """

    reported: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        return list(self.reported)


@dataclass(frozen=True, slots=True)
class AttachedTools:
    """The tools of this agent on the server.

    Attributes:
        id: names them in a new session.
        coverage: the comparison of rules and tools.
        reads_messages: whether a rule reads the messages of the conversation.
        judges_answers: whether final answers are judged.
        takes_outcomes: whether the server takes outcomes in the same request as the next check.
        states_timeouts: whether the server states the time that the policy gives a call.
    """

    id: str
    coverage: ServerCoverage
    reads_messages: bool
    judges_answers: bool
    takes_outcomes: bool = False
    states_timeouts: bool = False


@dataclass(frozen=True, slots=True)
class JudgedByServer:
    """A verdict of the server.

    Attributes:
        in_flight: whether the call is in flight there, so that it may run here.
        approval: the id of the approval that the call waits for; None if it waits for none.
        timeout: the seconds for which the tool of this call may run; None for any time.
        args: the arguments that a reviewer has put in place of the call's; None if there are none.
        outcomes: what the server has recorded before; it is not used.
    """

    verdict: Verdict
    in_flight: bool = False
    approval: str | None = None
    timeout: float | None = None
    args: Mapping[str, Any] | None = None
    outcomes: Sequence[Any] = ()


def read_attached(value: Any) -> AttachedTools:
    """Reads the answer to an attachment; a later version of the server may say more.

    Raises:
        WireError: it has not the expected form.
    """
    fields = _ATTACHED.read(value, is_open=True)
    coverage = ServerCoverage(reported=fields.pop("coverage"))
    return AttachedTools(coverage=coverage, **fields)


def read_judged(value: Any) -> JudgedByServer:
    """Reads the answer to a check or to an approval. An unknown field could be a condition, so it is refused.

    Raises:
        WireError: it has not the expected form.
    """
    judged = JudgedByServer(**_JUDGED.read(value))
    if judged.in_flight and judged.verdict.label:
        raise WireError("in_flight", "is true for a call that may not run")
    return judged


def read_only_verdict(value: Any) -> Verdict:
    """Reads an answer that has only a verdict.

    Raises:
        WireError: it has not the expected form.
    """
    verdict: Verdict = _VERDICT.read(value)["verdict"]
    return verdict


def _approval_id(value: Any, _where: str) -> str | None:
    """The id of an approval, which the server gives alone or with the approval's other fields."""
    approval_id = value.get("id") if isinstance(value, dict) else value
    if approval_id is not None and not isinstance(approval_id, str):
        raise WireError("approval", "has no id; expected a string")
    return approval_id


def _frozen(value: Any, where: str) -> Any:
    return freeze(read_value(value, where))


_ATTACHED = WireShape(
    id=WireField(str),
    coverage=strings(),
    reads_messages=WireField(bool),
    judges_answers=WireField(bool),
    takes_outcomes=WireField(bool, default=False),
    states_timeouts=WireField(bool, default=False),
)
_VERDICT = WireShape(verdict=WireField(read=read_verdict))
_JUDGED = WireShape(
    verdict=WireField(read=read_verdict),
    in_flight=WireField(bool),
    approval=WireField(None, None, _approval_id),
    timeout=WireField(float, None, lambda seconds, _: float(seconds)),
    args=WireField(dict, None, _frozen),
    outcomes=WireField(list, ()),
)

# --- the address and the token

TOKEN_VARIABLE = "GUARDAGENT_TOKEN"  # noqa: S105 - a name
_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")

TokenSource = Callable[[], str]
"""Returns the current token."""


def checked_address(url: str, *, allow_http: bool) -> str:
    """Returns the address of a server without a slash at the end.

    Raises:
        InputError: it is not an address to which a token may be sent.
    """
    expected = "expected an address such as 'https://guard.example'"
    if not isinstance(url, str):
        raise InputError(f"the server's address is a {type(url).__name__}; {expected}")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("https", "http"):
        raise InputError(f"the server's address is invalid; {expected}")
    if parts.username is not None or parts.query or parts.fragment:
        raise InputError(f"the server's address has a user, a query or a fragment; {expected}")
    if parts.scheme == "http" and not (allow_http or is_loopback(host)):
        raise InputError(
            f"http://{host} would show the token to the network; expected https, or allow_http=True if the network "
            "itself encrypts"
        )
    return url.rstrip("/")


def token_source(token: str | None, token_file: Path | str | None) -> TokenSource:
    """Returns the source of the token: the string, a file that is read for each request, or the environment.

    Raises:
        InputError: there is no token, or more than one; or it is invalid.
    """
    if token is not None and token_file is not None:
        raise InputError("both 'token' and 'token_file' name the token; expected one of them")
    if token_file is not None:
        path = Path(token_file)

        def read() -> str:
            return _read(path)

        read()
        return read
    token_text = checked_token(os.environ.get(TOKEN_VARIABLE) if token is None else token, "the token")
    return lambda: token_text


def checked_token(token: str | None, name: str) -> str:
    """Returns a token; no error quotes it.

    Raises:
        InputError: it is missing or invalid.
    """
    if not token:
        raise InputError(f"{name} is missing; expected token=..., token_file=... or the variable {TOKEN_VARIABLE}")
    if not isinstance(token, str) or _TOKEN.fullmatch(token) is None:
        raise InputError(f"{name} is invalid; expected printable ASCII characters without spaces")
    return token


def _read(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or type(error).__name__
        raise InputError(f"the token file {path} cannot be read: {cause}") from None
    return checked_token(text.strip(), f"the token in {path}")


# --- connections

MAX_ATTEMPTS = 5
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_RETRIED = frozenset({429, 502, 503, 504})
_MAX_IDLE = 20  # connections that are kept
_PART = 65_536  # bytes
_USER_AGENT = f"guardagent/{__version__}"
_MESSAGE = 300  # characters of the server's message


class ServerClient:
    """The connections to one server, shared by threads. A forked process makes its own.

    Args:
        url: the address of the server.
        token: the source of the token.
        ca: a file with the certificates of the authorities that the server's may come from; None for the system's.

    Raises:
        InputError: the file cannot be read.
    """

    def __init__(self, url: str, token: TokenSource, ca: Path | str | None = None) -> None:
        self._prefix, self._token = urlsplit(url).path, token
        self._connections = _Connections(url, _trust(ca) if url.startswith("https://") or ca is not None else None)
        weakref.finalize(self, self._connections.close)  # a guard that is forgotten leaves no open connection

    def exchange(
        self,
        method: str,
        path: str,
        body: bytes | None,
        deadline: float,
        *,
        key: str | None = None,
        token: str | None = None,
    ) -> Any:
        """Sends a request until the server answers it. Returns the JSON value of the answer.

        Args:
            method: the method.
            path: the address on the server.
            body: the JSON text.
            deadline: the limit on all attempts together, as of `time.monotonic`.
            key: the idempotency key.
            token: another token than that of the agent.

        Raises:
            RemoteError: there is no usable answer.
        """
        uncertain, pause = False, _FIRST_PAUSE
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                return self._once(method, path, body, deadline, key, self._current_token() if token is None else token)
            except RemoteError as error:
                uncertain = error.uncertain = error.uncertain or uncertain
                wait = pause * random.uniform(0.5, 1.0) if error.retry_after is None else error.retry_after  # noqa: S311
                if not error.retried or attempt == MAX_ATTEMPTS or time.monotonic() + wait >= deadline:
                    raise
            time.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE)
        raise AssertionError("the last attempt raises")

    def close(self) -> None:
        """Closes the connections. Later requests fail."""
        self._connections.close()

    # --- one attempt

    def _current_token(self) -> str:
        try:
            return self._token()
        except InputError as error:
            _log.error("%s", error)  # the model must not see where the token is
            raise RemoteError("the agent's token cannot be read") from None

    def _once(self, method: str, path: str, body: bytes | None, deadline: float, key: str | None, token: str) -> Any:
        left = deadline - time.monotonic()
        if left <= 0:
            raise RemoteError("the guard's server did not answer in time")
        headers = {"authorization": f"Bearer {token}", "accept": "application/json", "accept-encoding": "identity"}
        headers |= {"user-agent": _USER_AGENT} | ({} if body is None else {"content-type": "application/json"})
        headers |= {} if key is None else {"idempotency-key": key}
        connection = self._connections.take(left)
        try:
            connection.request(method, self._prefix + path, body, headers)
            answer = connection.getresponse()
            with answer:  # which frees the connection
                value = _value(answer, _text(answer, deadline))
        except (OSError, HTTPException) as error:
            connection.close()
            raise RemoteError(
                f"the guard's server did not answer ({type(error).__name__})", retried=True, uncertain=True
            ) from None
        except BaseException:
            connection.close()
            raise
        self._connections.give_back(connection)
        return value


class _Connections:
    """The connections of each process to a server. There is no lock, since a fork would copy it as it is.

    The standard library's client takes a third of the CPU time of httpx for a request, and sends it in one packet.
    """

    def __init__(self, url: str, trust: ssl.SSLContext | None) -> None:
        parts = urlsplit(url)
        self._host, self._trust = parts.hostname or "", trust
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._proxy = parts.scheme == "https" and not proxy_bypass(self._host) and getproxies().get("https")
        self._idle: dict[int, deque[HTTPConnection]] = {}
        self._closed = False

    def take(self, seconds: float) -> HTTPConnection:
        """Returns an open connection, whose operations may take these seconds.

        Raises:
            RemoteError: the server cannot be reached, or the connections are closed.
        """
        if self._closed:
            raise RemoteError("the guard is closed")
        idle = self._idle.setdefault(os.getpid(), deque())
        while idle:
            with contextlib.suppress(IndexError):  # another thread may have taken it
                connection = idle.pop()
                if _is_usable(connection.sock):
                    connection.sock.settimeout(seconds)
                    return connection
                connection.close()
        connection = self._new(seconds)
        try:
            connection.connect()
        except (OSError, HTTPException) as error:
            connection.close()
            raise RemoteError(f"the guard's server cannot be reached ({type(error).__name__})", retried=True) from None
        return connection

    def give_back(self, connection: HTTPConnection) -> None:
        """Keeps a connection for the next request of this process."""
        idle = self._idle.setdefault(os.getpid(), deque())
        if connection.sock is None or self._closed or len(idle) >= _MAX_IDLE:
            connection.close()
        else:
            idle.append(connection)

    def close(self) -> None:
        """Closes the connections of this process."""
        self._closed = True
        for connection in self._idle.pop(os.getpid(), ()):
            connection.close()

    def _new(self, seconds: float) -> HTTPConnection:
        if self._trust is None or not self._proxy:
            new = HTTPConnection if self._trust is None else partial(HTTPSConnection, context=self._trust)
            return new(self._host, self._port, timeout=seconds)
        proxy = urlsplit(self._proxy if "//" in self._proxy else f"//{self._proxy}")
        connection = HTTPSConnection(proxy.hostname or "", proxy.port or 80, context=self._trust, timeout=seconds)
        secret = f"{unquote(proxy.username or '')}:{unquote(proxy.password or '')}".encode()
        about = {"Proxy-Authorization": f"Basic {b64encode(secret).decode()}"} if proxy.username else {}
        connection.set_tunnel(self._host, self._port, about)
        return connection


def _is_usable(connected: socket.socket | None) -> bool:
    """Whether the other end has neither closed a connection nor sent anything that nobody asked for."""
    if connected is None:
        return False
    connected.settimeout(0)
    try:
        socket.socket.recv(connected, 1, socket.MSG_PEEK)  # below TLS
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def _text(answer: Any, deadline: float) -> bytes:
    """Reads a limited body in limited time."""
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise RemoteError("the guard's server compressed its answer", uncertain=True)
    text = bytearray()
    while part := answer.read1(_PART):
        text += part
        if len(text) > MAX_BYTES:
            raise RemoteError(f"the answer of the guard's server has more than {MAX_BYTES:,} bytes", uncertain=True)
        if time.monotonic() > deadline:
            raise RemoteError("the guard's server did not answer in time", uncertain=True)
    if answer.length:
        raise IncompleteRead(bytes(text), answer.length)
    return bytes(text)


def _value(answer: Any, text: bytes) -> Any:
    status = answer.status
    if 300 <= status < 400:
        raise RemoteError(f"the guard's server redirects (status {status}); expected its own address")
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        try:
            value = loads(text)
        except WireError as error:
            raise RemoteError(f"the answer of the guard's server is invalid: {error}", uncertain=True) from None
        if status in (200, 201):
            return value
        raise _refusal(answer, value)
    if status in (200, 201):
        raise RemoteError("the answer is not from a guard's server; expected JSON", uncertain=True)
    raise _refusal(answer, None)


def _refusal(answer: Any, value: Any) -> RemoteError:
    """Returns the error of an answer that is none of success."""
    status, pause = answer.status, _retry_after(answer)
    retried = status in _RETRIED or (status == 409 and pause is not None)
    error = value.get("error") if isinstance(value, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    where = error.get("where") if isinstance(error, dict) else None
    text = f"{where}: {message}" if isinstance(where, str) and where else message
    why = f": {text[:_MESSAGE]}" if isinstance(text, str) else ""
    return RemoteError(
        f"the guard's server refuses the request (status {status}){why}",
        status=status,
        retried=retried,
        retry_after=pause,
        uncertain=status >= 500 or status == 409,
    )


def _retry_after(answer: Any) -> float | None:
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 6 else None


def _trust(ca: Path | str | None) -> ssl.SSLContext:
    """Returns the authorities of a file, or those of the system. Guards share them: loading them takes long."""
    try:
        return _loaded(None if ca is None else str(ca), 0 if ca is None else Path(ca).stat().st_mtime_ns)
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"the certificates in {ca} cannot be read: {type(error).__name__}") from None


@lru_cache(8)
def _loaded(ca: str | None, _changed: int) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca)


# --- sessions and their calls

T = TypeVar("T")
POLL_SECONDS = 25.0


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
        self._client, self.facts, self.approver_token = client, facts, approver_token
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
        if (attached_tools := self.attached) is not None:
            return attached_tools
        tools = self._tools
        value = self._client.exchange("POST", "/v1/attachments", dumps(tools), deadline, key=_new_key())
        attached = _answer(read_attached, value)
        if self._answer is None and not attached.states_timeouts:
            _log.warning(
                "the guard's server is of an earlier release, which does not state the 'timeouts' of its policy: they "
                "cancel no tool of this agent; update the server"
            )
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
            self._open(conversation, attached, deadline)
            self._send_pending(conversation, deadline)
        return attached

    def _open(self, conversation: RemoteConversation, attached: AttachedTools, deadline: float) -> None:
        if conversation.opened:
            return
        body = {"attachment": attached.id, "id": conversation.session, **self.facts.user(conversation.id)}
        value = self._client.exchange("POST", "/v1/sessions", dumps(body), deadline, key=_new_key())
        if not isinstance(value, dict) or value.get("id") != conversation.session:
            raise RemoteError("the guard's server opened another session than the one that was named")
        conversation.opened = True

    def send_pending(self, conversation: RemoteConversation, deadline: float) -> None:
        """Sends what is pending.

        Raises:
            RemoteError: there is no usable answer; the rest stays pending.
        """
        with _Locked(conversation, deadline):
            self._send_pending(conversation, deadline)

    def _send_pending(
        self, conversation: RemoteConversation, deadline: float, are_left: Callable[[], bool] = lambda: False
    ) -> None:
        while conversation.pending and not are_left():
            request = conversation.pending[0]
            try:
                self._send(conversation, request.operation, request.body, deadline, request.key)
            except RemoteError as error:
                if not _is_final(error):
                    raise
                _log.error("the guard's server does not take %s; %s", _named(request), error)
            conversation.drop_pending(request)

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
        attached, key = self.attach(deadline), _new_key()
        body = {"call": self._written(conversation, call, attached), **self.facts.state(conversation.id)}
        body |= {} if reserve else {"reserve": False}
        with _Locked(conversation, deadline):
            self._open(conversation, attached, deadline)
            if attached.takes_outcomes:
                self._send_pending(conversation, deadline, conversation.has_only_outcomes)
                if (judged := self._check_after_outcomes(conversation, body, deadline, key)) is not None:
                    return judged
            self._send_pending(conversation, deadline)
        return _answer(read_judged, self._send(conversation, "check", body, deadline, key))

    def _check_after_outcomes(
        self, conversation: RemoteConversation, body: Mapping[str, Any], deadline: float, key: str
    ) -> JudgedByServer | None:
        """Sends the pending outcomes and a check in one request; None if it was refused, so that nothing was judged."""
        if not (outcomes := list(conversation.pending)):
            return None
        try:
            sent = {"outcomes": [outcome.body for outcome in outcomes], **body}
            judged = _answer(read_judged, self._send(conversation, "calls", sent, deadline, key))
        except WireError:  # they are too large for one request
            return None
        except RemoteError as error:
            if _is_final(error):
                return None
            raise
        for outcome in outcomes:
            conversation.drop_pending(outcome)
        return judged

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
        body |= self.facts.state(conversation.id)
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
        facts = self.facts.of_call(call)
        messages = call.messages if attached.reads_messages else None
        if not isinstance(call.id, str):
            raise InputError(f"the call's id is {call.id!r}; expected a string")
        if not isinstance(call.facts, Mapping):
            raise InputError(f"the facts are a {type(call.facts).__name__}; expected a mapping of names to values")
        usage: ModelUsage | None = conversation.notes.get(ModelUsage)
        if usage is not None:
            call = replace(call, usage=usage.total(None))
        sent = replace(call, id=conversation.server_id(call.id), facts={**facts, **call.facts}, messages=messages)
        return write_call(replace(sent, view=host_text(self.facts.views, call.tool, call.args) or None))

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
