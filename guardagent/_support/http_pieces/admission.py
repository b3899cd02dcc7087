"""Decides whose HTTP requests are accepted: by their host, their origin and their token."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import Protocol

from guardagent._support.http_pieces.asgi import HttpRequest, RefusedError
from guardagent._support.loopback import is_loopback
from guardagent.errors import AccessError, ForbiddenError, UnauthenticatedError, error_text
from guardagent.types.values import SessionPrincipal

CALL, READ_METRICS = "call", "read metrics"
_CHALLENGE = b'Bearer realm="guardagent"'

_log = logging.getLogger("guardagent")


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
        if "transfer-encoding" in request.headers and "content-length" in request.headers:
            raise RefusedError(400, "the body has two lengths", head=[(b"connection", b"close")])

    def require_known_host(self, request: HttpRequest) -> None:
        """Refuses other hosts and origins, so that web pages in a local browser have no access (DNS rebinding)."""
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
        """As `admit` for `/healthz`, which processes of this machine may ask for without a token."""
        if not is_loopback(request.peer):
            await self.admit(request, READ_METRICS)


def _refusal(status: int, error: AccessError, challenge: bytes) -> RefusedError:
    return RefusedError(status, str(error), head=[(b"www-authenticate", challenge)])
