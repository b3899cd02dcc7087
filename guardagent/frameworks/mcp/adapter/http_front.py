"""Clients over streamable HTTP: each session, or conversation without one, has its own relay and server.

A small ASGI application. It answers a request with JSON as soon as the answer arrives, and with a stream only if
other messages precede the answer (progress, a server request). The transport of the mcp library always uses streams,
validates a body less strictly than a guard has to, and drops messages before the client has opened its own stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp.shared import inbound
from mcp_types.jsonrpc import HEADER_MISMATCH, UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from guardagent._support import http
from guardagent._support.http import READ_METRICS, Head, HttpAdmission, HttpRequest, RefusedError, RequestLimits
from guardagent.errors import InputError
from guardagent.frameworks.mcp.adapter import calls
from guardagent.frameworks.mcp.adapter.calls import Message, params_of
from guardagent.frameworks.mcp.adapter.relay import Relay, ToClient
from guardagent.types.values import SessionPrincipal

_log = logging.getLogger("guardagent")


# --- limits


@dataclass(frozen=True, slots=True)
class HttpLimits(RequestLimits):
    """Limits on the clients of the proxy.

    Attributes:
        sessions: the open sessions. Each has a server of its own.
        sessions_per_caller: those of one caller, where callers are known.
        idle_seconds: the time after which a session without requests ends.
    """

    sessions: int = 1000
    sessions_per_caller: int = 100
    idle_seconds: float = 1800.0


# --- one request; since protocol 2026-07-28 without a session, in the conversation of its token or of a header

# Without sessions, requests of several clients may share a conversation, and so a connection to the server. So each
# gets an id of our own, which also is its progress token and the id of its subscription; the client gets its own back.

MAX_HANDLE = 256  # characters of a conversation's name
_PROGRESS = "progressToken"


class RefusedMessageError(RefusedError):
    """A message is refused; the answer has its id."""

    def __init__(self, status: int, why: str, name: Any, *, code: int = calls.INVALID, data: Any = None) -> None:
        super().__init__(status, why)
        self.name, self.code, self.data = name, code, data


def is_sessionless(request: HttpRequest) -> bool:
    """Whether a request belongs to a protocol without sessions, or one that is unknown here."""
    version = request.headers.get(inbound.MCP_PROTOCOL_VERSION_HEADER)
    return version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS


def conversation_key(
    request: HttpRequest, caller: SessionPrincipal | None, header: str | None, message: Message
) -> tuple[SessionPrincipal | None, str]:
    """Returns the key of the conversation that a request belongs to.

    Args:
        request: its headers.
        caller: whose token it has; None if clients need none.
        header: the name of the header that names the conversation, if the operator has set it.
        message: its body.

    Raises:
        RefusedMessageError: nothing names a conversation. Clients that know sessions then open one.
    """
    name = message.get("id")
    if header is None and caller is None:
        data = {
            "supported": list(HANDSHAKE_PROTOCOL_VERSIONS),
            "requested": request.headers[inbound.MCP_PROTOCOL_VERSION_HEADER],
        }
        why = "without a session nothing names the conversation; expected initialize, or a proxy with tokens or with"
        why = f"{why} --conversation-header"
        raise RefusedMessageError(400, why, name, code=UNSUPPORTED_PROTOCOL_VERSION, data=data)
    if header is None:
        return caller, ""
    handle = request.headers.get(header, "")
    if not handle or len(handle) > MAX_HANDLE or header in request.repeated:
        why = f"expected one header {header} of up to {MAX_HANDLE} characters, which names the conversation"
        raise RefusedMessageError(400, why, name)
    return caller, handle


def require_headers(request: HttpRequest, message: Message) -> None:
    """Requires that the headers agree with the body: an intermediary may have decided by the headers.

    Raises:
        RefusedMessageError: they do not.
    """
    if not calls.is_request(message):
        raise RefusedMessageError(400, "expected a request or a notification", None)
    if repeated := sorted(name for name in request.repeated if name.startswith("mcp-")):
        raise RefusedMessageError(
            400, f"{repeated[0]} header appears more than once", message["id"], code=HEADER_MISMATCH
        )
    _refuse(inbound.classify_inbound_request(message, headers=request.headers), message)


def require_argument_headers(request: HttpRequest, message: Message, schema: Mapping[str, Any]) -> None:
    """Requires the same of the headers that repeat arguments, as the schema of the tool has them.

    Raises:
        RefusedMessageError: they do not agree.
    """
    arguments = params_of(message).get("arguments")
    if message["method"] == calls.TOOL and isinstance(arguments or {}, Mapping):
        _refuse(inbound.validate_mcp_param_headers(schema, arguments or {}, request.headers), message)


def _refuse(verdict: Any, message: Message) -> None:
    if isinstance(verdict, inbound.InboundLadderRejection):
        status = inbound.ERROR_CODE_HTTP_STATUS.get(verdict.code, 400)
        raise RefusedMessageError(status, verdict.message, message["id"], code=verdict.code, data=verdict.data)


@dataclass(frozen=True, slots=True)
class HttpExchange:
    """One request: the form for the server, and what the client has in place of an id of our own.

    Attributes:
        message: the request as the relay receives it.
        id: the client's id.
        token: the client's progress token, if it has one.
        session: the id of its session; None without sessions.
    """

    message: Message
    id: Any
    token: Any = None
    session: str | None = None

    @classmethod
    def in_session(cls, message: Message, session: str) -> HttpExchange:
        """Leaves a request as it is."""
        return cls(message, message["id"], session=session)

    @classmethod
    def without_session(cls, message: Message, name: str) -> HttpExchange:
        """Gives a request another id."""
        params = params_of(message)
        meta = params["_meta"]  # the envelope
        token = meta.get(_PROGRESS)
        if token is not None:
            params = {**params, "_meta": {**meta, _PROGRESS: name}}
        return cls({**message, "id": name, "params": params}, message["id"], token)

    @property
    def head(self) -> Head:
        """The headers of the answer."""
        return [] if self.session is None else [(b"mcp-session-id", self.session.encode())]

    def restored(self, line: bytes) -> tuple[int, bytes]:
        """Returns the HTTP status of a message of the server, and its form for the client.

        Without a session it gets the client's id and token. An empty line means that there will be no answer.
        """
        if self.session is not None:
            return 200 if line else 202, line
        if not line:
            return 200, calls.write_message(calls.error(self.id, calls.CLOSED, "the conversation has ended"))
        message = json.loads(line)
        body = "params" if "method" in message else "result"
        shown = dict(message[body]) if isinstance(message.get(body), Mapping) else {}
        name, meta = self.message["id"], shown.get("_meta")
        if "method" not in message:
            message["id"] = self.id
        elif shown.get(_PROGRESS) == name:
            shown[_PROGRESS] = self.token
        if isinstance(meta, Mapping) and meta.get(calls.SUBSCRIPTION_KEY) == name:
            shown["_meta"] = {**meta, calls.SUBSCRIPTION_KEY: self.id}
        error = message.get("error")
        code = error.get("code") if isinstance(error, Mapping) else None
        shown_message = {**message, body: shown} if shown else message
        return inbound.ERROR_CODE_HTTP_STATUS.get(code, 200), calls.write_message(shown_message)

    def cancellation(self) -> bytes:
        """Returns the message that cancels the request of a client who leaves. In a session, the call goes on."""
        if self.session is not None:
            return b""
        return calls.write_message(calls.notification("notifications/cancelled", {"requestId": self.message["id"]}))


# --- one client

MAX_WAITING = 1000  # messages that wait for the client to open its stream

Stream = asyncio.Queue[tuple[bytes, bool]]
"""Lines for the client; the last one is the answer, or empty if there is none."""


@dataclass
class HttpSession:
    """One client, or the clients of one conversation without a session.

    `streams` are the unanswered requests; `standing` has the messages that belong to none of them. It belongs to the
    caller who opened it: `owner`, None where callers are not known.
    """

    name: str
    owner: SessionPrincipal | None = None
    relay: Relay | None = None
    work: asyncio.Task[None] | None = None
    streams: dict[str, Stream] = field(default_factory=dict)
    standing: Stream = field(default_factory=asyncio.Queue)
    listening: bool = False
    used: float = 0.0

    def give(self, line: bytes, related: Any, *, last: bool) -> None:
        """Queues a line for the client, on the stream that it belongs to."""
        stream = self.streams.get(str(related))
        if stream is not None:
            stream.put_nowait((line, last))
        elif line and not last and self.standing.qsize() < MAX_WAITING:
            self.standing.put_nowait((line, False))


# --- the application

PING_SECONDS = 15.0


class HttpFront:
    """The ASGI application.

    Args:
        begin: creates the relay of a session from its id and its caller, if callers are known.
        end: gets the id of a session that is over.
        admission: accepts or refuses requests.
        limits: the limits on clients.
        header: the header that names the conversation of a request without a session.
    """

    def __init__(
        self,
        begin: Callable[[str, ToClient, SessionPrincipal | None], Relay],
        end: Callable[[str], None],
        admission: HttpAdmission,
        limits: HttpLimits,
        header: str | None = None,
    ) -> None:
        self._begin, self._end, self._admission, self._limits = begin, end, admission, limits
        self._header = None if header is None else header.lower()
        self._sessions: dict[str, HttpSession] = {}
        self._conversations: dict[Any, str] = {}  # those without a session: the names of their entries
        self._in_flight = self._count = 0
        self._statuses = Counter[int]()  # of answers

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keeps sessions open until the context ends."""
        sweeping = asyncio.create_task(self._sweep())
        try:
            yield
        finally:
            sweeping.cancel()
            await asyncio.gather(*(self._close(session) for session in list(self._sessions.values())))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handles one HTTP request."""
        if scope["type"] != "http":
            return
        send = self._counted(http.timed(send, self._limits.receive_seconds))
        try:
            await self._answer(http.request_of(scope), receive, send)
        except TimeoutError:
            _log.warning("a client does not read its answer; its connection is closed")

    async def _answer(self, request: HttpRequest, receive: Any, send: Any) -> None:
        try:
            await self._handle(request, receive, send)
        except RefusedError as refused:
            await http.answer(send, refused.status, _refusal(refused), refused.head)

    async def _handle(self, request: HttpRequest, receive: Any, send: Any) -> None:
        self._admission.require_one_length(request)
        self._admission.require_known_host(request)
        if request.method == "GET" and request.path in ("/healthz", "/metrics"):
            await self._report(request, send)
            return
        caller = await self._admission.admit(request)
        if request.method == "POST":
            await self._bounded_post(request, caller, receive, send)
        elif request.method == "GET":
            await self._listen(self._known(request, caller), request, receive, send)
        elif request.method == "DELETE":
            await self._close(self._known(request, caller))
            await http.answer(send, 200, b"")
        else:
            raise RefusedError(405, "expected POST, GET or DELETE")

    async def _report(self, request: HttpRequest, send: Any) -> None:
        """Answers `/healthz` and `/metrics`."""
        if request.path == "/healthz":
            await self._admission.admit_probe(request)
            await http.answer(send, 200, b'{"status": "ok"}')
            return
        await self._admission.admit(request, READ_METRICS)
        await http.answer(send, 200, self._metrics().encode(), kind=b"text/plain; version=0.0.4; charset=utf-8")

    def _counted(self, send: Any) -> Any:
        """Returns a `send` of ASGI that counts the answers."""

        async def counting(message: Any) -> None:
            if message["type"] == "http.response.start":
                self._statuses[message["status"]] += 1
            await send(message)

        return counting

    def _metrics(self) -> str:
        """Returns the metrics in the text format of Prometheus."""
        counted = "".join(
            f'guardagent_mcp_requests_total{{status="{status}"}} {count}\n' for status, count in self._statuses.items()
        )
        return (
            f"# TYPE guardagent_mcp_sessions gauge\nguardagent_mcp_sessions {len(self._sessions)}\n"
            f"# TYPE guardagent_mcp_requests_in_flight gauge\nguardagent_mcp_requests_in_flight {self._in_flight}\n"
            f"# TYPE guardagent_mcp_requests_total counter\n{counted}"
        )

    # --- messages of the client

    async def _bounded_post(
        self, request: HttpRequest, caller: SessionPrincipal | None, receive: Any, send: Any
    ) -> None:
        if self._in_flight >= self._limits.requests:
            raise RefusedError(503, "too many requests are in flight", head=[(b"retry-after", b"1")])
        self._in_flight += 1
        try:
            await self._post(request, caller, receive, send)
        finally:
            self._in_flight -= 1

    async def _post(self, request: HttpRequest, caller: SessionPrincipal | None, receive: Any, send: Any) -> None:
        headers = request.headers
        accept = headers.get("accept", "")
        if not headers.get("content-type", "").lower().startswith("application/json"):
            raise RefusedError(415, "the body has another type; expected application/json")
        if "*/*" not in accept and not ("application/json" in accept and "text/event-stream" in accept):
            raise RefusedError(406, "expected Accept: application/json, text/event-stream")
        body = await http.body_of(receive, self._limits.body, self._limits.receive_seconds)
        message = _message(body)
        if is_sessionless(request):
            await self._post_sessionless(request, caller, message, receive, send)
            return
        is_new = "mcp-session-id" not in headers
        session = self._opened(message, caller) if is_new else self._known(request, caller)
        session.used = asyncio.get_running_loop().time()
        assert session.relay is not None
        if not calls.is_request(message):
            await session.relay.take(body)
            await http.answer(send, 202, b"")
        elif str(message["id"]) in session.streams:
            raise RefusedMessageError(400, "this id is in use", message["id"])
        else:
            await self._exchange(session, HttpExchange.in_session(message, session.name), request, receive, send)

    # --- requests without a session

    async def _post_sessionless(
        self, request: HttpRequest, caller: SessionPrincipal | None, message: Message, receive: Any, send: Any
    ) -> None:
        key = conversation_key(request, caller, self._header, message)
        if calls.is_notification(message):  # there are none in this direction; a client cancels by leaving
            await http.answer(send, 202, b"")
            return
        require_headers(request, message)
        session = self._sessions.get(self._conversations.get(key, ""))
        if session is None:
            session = self._begun(caller, message["id"])
            self._conversations[key] = session.name
        session.used = asyncio.get_running_loop().time()
        assert session.relay is not None
        require_argument_headers(request, message, session.relay.schema_of(message))
        self._count += 1
        await self._exchange(
            session, HttpExchange.without_session(message, f"http-{self._count}"), request, receive, send
        )

    async def _exchange(
        self, session: HttpSession, sent: HttpExchange, request: HttpRequest, receive: Any, send: Any
    ) -> None:
        """Answers one request: with a stream, if other messages precede the answer. A client may leave."""
        name = str(sent.message["id"])
        stream = session.streams[name] = asyncio.Queue()
        gone = asyncio.create_task(http.gone(receive))
        gone.add_done_callback(lambda _: stream.put_nowait((b"", True)))
        line, last, streaming = b"", False, False
        assert session.relay is not None
        try:
            await session.relay.take(calls.write_message(sent.message))
            while not last:
                line, last = await self._next(stream, request, pinging=streaming)
                status, shown = sent.restored(line)
                if last and not streaming:
                    await http.answer(send, status, shown, sent.head)
                    break
                if not streaming:
                    streaming = True
                    await http.begin_stream(send, sent.head)
                await http.more(send, http.event(shown) if line or last else b": still there\r\n\r\n", last=last)
        finally:
            session.streams.pop(name, None)
            session.used = asyncio.get_running_loop().time()
            gone.cancel()
            if not (last and line) and (cancellation := sent.cancellation()):
                await session.relay.take(cancellation)

    async def _next(self, stream: Stream, request: HttpRequest, *, pinging: bool) -> tuple[bytes, bool]:
        """Returns the next message; an empty one in time, to keep the connection, while its token is valid."""
        try:
            return await asyncio.wait_for(stream.get(), PING_SECONDS if pinging else None)
        except TimeoutError:
            return b"", not await self._is_admitted(request)

    async def _listen(self, session: HttpSession, request: HttpRequest, receive: Any, send: Any) -> None:
        """Sends the messages that belong to no request, until the client leaves or its token is no longer valid."""
        if session.listening:
            raise RefusedError(409, "the session has a stream; expected one at a time")
        session.listening = True
        gone = asyncio.create_task(http.gone(receive))
        try:
            await http.begin_stream(send)
            while not gone.done() and session.name in self._sessions:
                getting = asyncio.create_task(session.standing.get())
                await asyncio.wait({gone, getting}, timeout=PING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if not await self._is_admitted(request):
                    break
                if getting.done():
                    await http.more(send, http.event(getting.result()[0]))
                else:
                    getting.cancel()
                    await http.more(send, b": still there\r\n\r\n")
            await http.more(send, b"", last=True)
        finally:
            session.listening = False
            gone.cancel()

    async def _is_admitted(self, request: HttpRequest) -> bool:
        try:
            await self._admission.admit(request)
        except RefusedError:
            return False
        return True

    # --- sessions

    def _known(self, request: HttpRequest, caller: SessionPrincipal | None) -> HttpSession:
        """Returns the session that a request names. Another caller's is not told from one that does not exist."""
        name = request.headers.get("mcp-session-id")
        if name is None:
            raise RefusedError(400, "no session is named; expected Mcp-Session-Id")
        session = self._sessions.get(name)
        if session is None or session.owner != caller:
            raise RefusedError(404, "there is no such session")
        return session

    def _opened(self, message: Message, caller: SessionPrincipal | None) -> HttpSession:
        """Begins a session; other requests without a session are refused."""
        if message.get("method") != "initialize" or "id" not in message:
            raise RefusedMessageError(400, "no session is named; begin with initialize", message.get("id"))
        return self._begun(caller, message["id"])

    def _begun(self, caller: SessionPrincipal | None, name: Any) -> HttpSession:
        """Begins a session for the first request of a client; `name` is its id."""
        own = 0 if caller is None else sum(session.owner == caller for session in self._sessions.values())
        if len(self._sessions) >= self._limits.sessions or own >= self._limits.sessions_per_caller:
            raise RefusedMessageError(503, "too many sessions are open", name)
        session = HttpSession(uuid.uuid4().hex, caller)
        session.relay = self._begin(session.name, session.give, caller)
        session.work = asyncio.create_task(session.relay.run())
        self._sessions[session.name] = session
        return session

    async def _close(self, session: HttpSession) -> None:
        if self._sessions.pop(session.name, None) is None or session.work is None:
            return
        self._conversations = {key: name for key, name in self._conversations.items() if name != session.name}
        session.work.cancel()
        await asyncio.gather(session.work, return_exceptions=True)
        for stream in session.streams.values():
            stream.put_nowait((b"", True))
        session.standing.put_nowait((b"", False))
        self._end(session.name)

    async def _sweep(self) -> None:
        """Closes idle sessions."""
        while True:
            await asyncio.sleep(self._limits.idle_seconds / 10)
            oldest = asyncio.get_running_loop().time() - self._limits.idle_seconds
            for session in list(self._sessions.values()):
                if session.used < oldest and not session.streams and not session.listening:
                    await self._close(session)


def _refusal(refused: RefusedError) -> bytes:
    """Returns the body of a refusal."""
    if not isinstance(refused, RefusedMessageError):
        refused = RefusedMessageError(refused.status, str(refused), None)
    return calls.write_message(calls.error(refused.name, refused.code, str(refused), refused.data))


def _message(body: bytes) -> Message:
    try:
        return calls.read(body)
    except InputError as error:
        raise RefusedMessageError(400, str(error), calls.id_of(body)) from None
