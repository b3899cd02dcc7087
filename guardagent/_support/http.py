"""Serves an application at an address: TLS, and time limits on slow clients."""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from guardagent._support.http_pieces.admission import Authenticate
from guardagent._support.http_pieces.request_limits import RequestLimits
from guardagent._support.loopback import is_loopback
from guardagent.errors import InputError

Limits = TypeVar("Limits", bound=RequestLimits)
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
        found = named | {f"{name}:{self.port}" for name in local | named}
        return frozenset(found | local if self.port in (80, 443) else found)

    @property
    def url(self) -> str:
        """The address as a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.certificate is None else 'https'}://{host}:{self.port}/"


async def serve(application: Any, endpoint: HttpEndpoint[Limits]) -> None:
    """Serves until it is stopped.

    Raises:
        InputError: the address is not available.
    """
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            _log.warning("serving at %s", endpoint.url)

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
        await Server(config).serve()
    except SystemExit:
        address = f"{endpoint.host}:{endpoint.port}"
        raise InputError(f"--listen {address}: cannot be used; expected an address that is free") from None


def _protocol(seconds: float) -> Any:
    """Returns uvicorn's protocol for HTTP with a time limit: it waits for ever for the rest of a request's headers."""
    base = _faster_protocol()

    class PunctualProtocol(base):  # type: ignore[misc, valid-type]
        deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
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
