"""The parts of servers over HTTP: requests and answers of ASGI, admission, limits on clients, and TLS.

Requests are accepted by their host, their origin and their token. Slow clients meet time limits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
import ssl
import types
from collections import Counter
from collections.abc import Collection, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from guardagent.errors import AccessError, ForbiddenError, InputError, UnauthenticatedError, error_text
from guardagent.types.values import SessionPrincipal

JSON, STREAM = b"application/json", b"text/event-stream"
Head = list[tuple[bytes, bytes]]
T = TypeVar("T")


class RefusedError(Exception):
    """A request is refused.

    Attributes:
        status: the HTTP status of the answer.
        head: more headers of the answer.
    """

    def __init__(self, status: int, why: str, *, head: Head | None = None) -> None:
        super().__init__(why)
        self.status, self.head = status, head


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """The first part of a request.

    Attributes:
        method: GET, POST and so on.
        path: its path.
        query: what follows the path, as it came.
        headers: the headers by their names in lower case; the last one of each name.
        repeated: the names of those that occur more than once.
        authorization: the values of all headers `Authorization`.
        peer: the address of the other end.
    """

    method: str
    path: str
    query: bytes
    headers: Mapping[str, str]
    repeated: frozenset[str]
    authorization: tuple[str, ...]
    peer: str | None


def request_of(scope: Mapping[str, Any]) -> HttpRequest:
    """Reads the scope of an ASGI application."""
    pairs = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
    headers, repeated = dict(pairs), frozenset[str]()
    if len(headers) < len(pairs):
        repeated = frozenset(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
    authorization = tuple([value for name, value in pairs if name == "authorization"])
    client = scope.get("client")
    peer = client[0] if client else None
    return HttpRequest(scope["method"], scope["path"], scope["query_string"], headers, repeated, authorization, peer)


async def body_of(receive: Any, limit: int, seconds: float) -> bytes:
    """Reads the whole body of a request.

    Raises:
        RefusedError: it is too long or too slow, or has no end.
    """
    try:
        body: bytes = await within(seconds, _read_body(receive, limit))
    except TimeoutError:
        raise RefusedError(408, f"the body did not arrive within {seconds:g} seconds") from None
    return body


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Awaits a result; a timer runs only if it is not there at once.

    Raises:
        TimeoutError: it is not there in time.
    """
    try:
        first = work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    async with asyncio.timeout(seconds):
        return await _rest_of(work, first)


@types.coroutine
def _rest_of(work: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
    """Goes on with a coroutine that waits for something."""
    while True:
        try:
            sent = yield waits_for
        except BaseException as error:  # noqa: BLE001 - the coroutine gets it
            resume = partial(work.throw, error)
        else:
            resume = partial(work.send, sent)
        try:
            waits_for = resume()
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


async def _read_body(receive: Any, limit: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise RefusedError(400, "the body has no end")
        body += message.get("body", b"")
        if len(body) > limit:
            raise RefusedError(413, f"more than {limit:,} bytes")
        if not message.get("more_body"):
            return bytes(body)


def event(line: bytes) -> bytes:
    """Returns a message as an event of a stream."""
    return b"event: message\r\ndata: " + line.strip() + b"\r\n\r\n" if line else b""


async def answer(send: Any, status: int, body: bytes, head: Head | None = None, kind: bytes = JSON) -> None:
    """Sends a whole answer."""
    size = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await begin(send, status, [*size, *(head or [])])
    await more(send, body, last=True)


async def begin_stream(send: Any, head: Head | None = None) -> None:
    """Begins a stream of events."""
    await begin(send, 200, [(b"content-type", STREAM), (b"cache-control", b"no-cache"), *(head or [])])


async def begin(send: Any, status: int, head: Head) -> None:
    """Begins an answer."""
    await send({"type": "http.response.start", "status": status, "headers": head})


async def more(send: Any, body: bytes, *, last: bool = False) -> None:
    """Sends a part of an answer."""
    await send({"type": "http.response.body", "body": body, "more_body": not last})


def timed(send: Any, seconds: float) -> Any:
    """Returns a `send` that gives up a client who does not read."""

    async def send_in_time(message: Any) -> None:
        await within(seconds, send(message))

    return send_in_time


async def gone(receive: Any) -> None:
    """Waits until the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


def is_loopback(host: str | None) -> bool:
    """Whether a host is `localhost` or a loopback address. Any other name may belong to any address."""
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False


CALL, READ_METRICS = "call", "read metrics"
_CHALLENGE = b'Bearer realm="guardagent"'


class Authenticate(Protocol):
    """Finds out who sends a request. It may block."""

    def __call__(self, authorization: Sequence[str], operation: str) -> SessionPrincipal:
        """Returns the principal of a request.

        Args:
            authorization: the values of all its headers `Authorization`.
            operation: `call` or `read metrics`.

        Raises:
            UnauthenticatedError: it has no valid token.
            ForbiddenError: its caller may not do this.
            AccessError: this cannot be determined.
        """


class HttpAdmission:
    """Accepts or refuses requests.

    Args:
        hosts: the accepted values of the header `Host`, in lower case; None for any.
        authenticate: finds out the caller; None if everyone who reaches the address may call.
    """

    def __init__(self, hosts: Collection[str] | None = None, authenticate: Authenticate | None = None) -> None:
        self._hosts, self._authenticate = hosts, authenticate

    def require_one_length(self, request: HttpRequest) -> None:
        """Refuses a body with two lengths: a reverse proxy may read the other one, and see a second request in it."""
        lengths = {"transfer-encoding", "content-length"}
        if lengths <= request.headers.keys() or lengths & request.repeated:
            raise RefusedError(400, "the body has two lengths", head=[(b"connection", b"close")])

    def require_known_host(self, request: HttpRequest) -> None:
        """Refuses other hosts and origins, so that web pages in a local browser have no access (DNS rebinding).

        Two headers of one name are refused: a reverse proxy may read the other one.
        """
        for name in ("host", "origin"):
            if name in request.repeated:
                raise RefusedError(400, f"the request has two headers {name.title()}; expected one")
        if self._hosts is None:
            return
        if request.headers.get("host", "").lower() not in self._hosts:
            raise RefusedError(421, "this host is not served here")
        origin = request.headers.get("origin")
        if origin is not None and origin.lower().partition("://")[2] not in self._hosts:
            raise RefusedError(403, "this origin is not served here")

    async def admit(self, request: HttpRequest, operation: str = CALL) -> SessionPrincipal | None:
        """Returns the caller of a request; None if callers are not known.

        Raises:
            RefusedError: the caller has no valid token, or may not do this.
        """
        if self._authenticate is None:
            return None
        if b"ga_" in request.query or b"access_token" in request.query:
            raise RefusedError(400, "the URL has a token, which logs may keep; expected it in Authorization: Bearer")
        try:
            return await asyncio.to_thread(self._authenticate, request.authorization, operation)
        except UnauthenticatedError as error:
            more = b', error="invalid_token"' if request.authorization else b""
            raise _refusal(401, error, _CHALLENGE + more) from None
        except ForbiddenError as error:
            raise _refusal(403, error, _CHALLENGE + b', error="insufficient_scope"') from None
        except AccessError as error:
            _log.error("a request is refused: %s", error)
            raise RefusedError(503, "callers cannot be identified at present") from None
        except Exception as error:  # noqa: BLE001 - an error admits nobody
            _log.error("a request is refused: %s", error_text(error))
            raise RefusedError(503, "callers cannot be identified at present") from None

    async def admit_probe(self, request: HttpRequest) -> None:
        """Admits a request for `/healthz`; processes of this machine need no token."""
        if not is_loopback(request.peer):
            await self.admit(request, READ_METRICS)


def _refusal(status: int, error: AccessError, challenge: bytes) -> RefusedError:
    return RefusedError(status, str(error), head=[(b"www-authenticate", challenge)])


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits on the clients of a server.

    Attributes:
        requests: the requests in flight.
        body: the bytes of a request.
        receive_seconds: the time in which a whole request arrives; a silent connection is closed after it.

    Raises:
        InputError: a limit is not positive.
    """

    requests: int = 1000
    body: int = 4 * 1024 * 1024
    receive_seconds: float = 30.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 < value < math.inf:
                name = field.name.replace("_", " ")
                raise InputError(f"the limit of the {name} is {value!r}; expected a positive number")


Limits = TypeVar("Limits", bound=RequestLimits)
_BACKLOG = 2048  # connections that wait to be accepted
_PAUSE_SECONDS, _LONGEST_PAUSE = 0.0002, 0.002  # between two of them, for each that is open; and at most
_LAST_SECONDS = 2  # for requests that are running when the server is stopped
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_log = logging.getLogger("guardagent")


@dataclass(frozen=True, slots=True)
class HttpEndpoint(Generic[Limits]):
    """An address, and who may use it.

    Attributes:
        host: the address to listen at.
        port: its port.
        limits: the limits on clients.
        authenticate: finds out the callers; None if everyone who reaches the address may call.
        certificate: the files of the TLS certificate and its key; None for plain HTTP.
        behind_proxy: whether a reverse proxy ends TLS in front of plain HTTP.
        names: further values of the header `Host`.

    Raises:
        InputError: others than this machine could call without a token, or see tokens; or the certificate is invalid.
    """

    host: str
    port: int
    limits: Limits
    authenticate: Authenticate | None = None
    certificate: tuple[Path, Path] | None = None
    behind_proxy: bool = False
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not is_loopback(self.host) and self.authenticate is None:
            raise InputError(
                f"'--listen {self.host}:{self.port}' would let everyone who reaches this machine make calls; expected "
                "'--tokens FILE' (see 'guardagent token create') or '--oidc FILE', or a loopback address such as "
                "'127.0.0.1'"
            )
        if not is_loopback(self.host) and self.certificate is None and not self.behind_proxy:
            raise InputError(
                f"'--listen {self.host}:{self.port}' would send tokens in the clear; expected '--tls-cert FILE' and "
                "'--tls-key FILE', or '--insecure' if a reverse proxy in front of it ends TLS"
            )
        if self.certificate is not None:
            _require_certificate(*self.certificate)

    @property
    def hosts(self) -> frozenset[str] | None:
        """The accepted values of the header `Host`; None for any."""
        if not is_loopback(self.host) and not self.names:
            return None
        own = f"[{self.host}]" if ":" in self.host else self.host
        local = {*_LOOPBACK, own.lower()} if is_loopback(self.host) else set()
        named = {name.lower() for name in self.names}
        allowed = named | {f"{name}:{self.port}" for name in local | named}
        return frozenset(allowed | local if self.port in (80, 443) else allowed)

    @property
    def url(self) -> str:
        """The address as a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.certificate is None else 'https'}://{host}:{self.port}/"


def require_free(host: str, port: int) -> None:
    """Checks that a server can listen at an address, before it does anything that users see.

    Raises:
        InputError: as `listening_socket`.
    """
    listening_socket(host, port).close()


def listening_socket(host: str, port: int) -> socket.socket:
    """Returns a socket that listens at an address.

    Raises:
        InputError: the host is unknown, or another program uses the port.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError) as error:
        raise _unusable(host, port, getattr(error, "strerror", None) or str(error)) from None


def _unusable(host: str, port: int, why: str) -> InputError:
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return InputError(f"'--listen {place}' cannot be used: {why}; expected an address that is free")


async def serve(application: Any, endpoint: HttpEndpoint[Limits], listening: socket.socket | None = None) -> None:
    """Serves until it is stopped; `listening` is a socket at the address that other processes share.

    Raises:
        InputError: the address is not available.
    """
    import uvicorn

    with contextlib.suppress(ImportError, ValueError, OSError):  # each client that waits has a socket
        import resource

        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    class AnnouncingServer(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if listening is None:
                _log.warning("serving at %s", endpoint.url)

        async def main_loop(self) -> None:
            accepting = None if listening is None else asyncio.ensure_future(_accept(listening, self))
            await super().main_loop()
            if accepting is not None:
                accepting.cancel()

    certificate, key = endpoint.certificate or (None, None)
    config = uvicorn.Config(
        application,
        host=endpoint.host,
        port=endpoint.port,
        http=_protocol(endpoint.limits.receive_seconds),
        ws="none",
        log_level="warning",
        lifespan="off",
        proxy_headers=False,  # a header must not change the address of the other end
        server_header=False,
        timeout_keep_alive=math.ceil(endpoint.limits.receive_seconds),
        timeout_graceful_shutdown=_LAST_SECONDS,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    try:
        await AnnouncingServer(config).serve(None if listening is None else [])
    except SystemExit:
        raise _unusable(endpoint.host, endpoint.port, "see the error above") from None


async def _accept(listening: socket.socket, server: Any) -> None:
    """Accepts connections at a socket that processes share. One with more connections leaves new ones to the others."""
    loop, config, state = asyncio.get_running_loop(), server.config, server.server_state
    protocol = partial(config.http_protocol_class, config=config, server_state=state, app_state={})
    beginning = set[asyncio.Future[Any]]()
    listening.setblocking(False)  # noqa: FBT003 - its only argument
    while True:
        try:
            connection, _ = await loop.sock_accept(listening)
        except OSError as error:  # such as too many open files
            _log.error("no connection is accepted at present: %s", error)
            await asyncio.sleep(1.0)
            continue
        begun = asyncio.ensure_future(loop.connect_accepted_socket(protocol, connection, ssl=config.ssl))
        beginning.add(begun)
        begun.add_done_callback(beginning.discard)
        begun.add_done_callback(lambda done: done.cancelled() or done.exception())  # TLS may fail
        await asyncio.sleep(min(_PAUSE_SECONDS * len(state.connections), _LONGEST_PAUSE))


def _protocol(seconds: float) -> Any:
    """Returns uvicorn's protocol for HTTP with a time limit: it waits for ever for the rest of a request's headers."""
    base = _faster_protocol()

    class PunctualProtocol(base):  # type: ignore[misc, valid-type]
        deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(_JoiningTransport(transport, self.loop))
            self.expect_request()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self.expect_request()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            if self.deadline is not None:
                self.deadline.cancel()

        def expect_request(self) -> None:
            if self.deadline is not None:
                self.deadline.cancel()
            self.deadline = self.loop.call_later(seconds, self.give_up)

        def give_up(self) -> None:
            if self.cycle is None or self.cycle.response_complete:
                self.transport.abort()

    return PunctualProtocol


_JOINED_BYTES = 2**16


class _JoiningTransport:
    """A transport that sends together what is written in one turn of the event loop, unless that is much.

    uvicorn writes the head of an answer and its body apart: the client would wake up twice, and in between take the
    processor from the server.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._parts, self._size = list[bytes](), 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)
        self._size += len(data)
        if self._size >= _JOINED_BYTES:  # a client that reads late must hold the writer up at once
            self._flush()

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._parts:
            self._transport.write(b"".join(self._parts))
            self._parts, self._size = [], 0


def _faster_protocol() -> Any:
    """Returns uvicorn's protocol on httptools where that is installed: it takes a third of the CPU time of h11."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol

        return H11Protocol
    return HttpToolsProtocol


def _require_certificate(certificate: Path, key: Path) -> None:
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key, password=lambda: "")  # otherwise it asks at the terminal
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(
            f"'--tls-cert {certificate}' and '--tls-key {key}' cannot be used: {why}; expected PEM files of a "
            "certificate and its key, without a passphrase"
        ) from None
