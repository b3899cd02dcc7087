"""Requests to a guard's server: bounded in time, size and number, and repeated only where the server can tell.

Each request that changes something has an idempotency key, so the server does not act twice on a repetition.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import ssl
import time
import weakref
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from guardagent._version import __version__
from guardagent.enforcement.remote.server_address import TokenSource
from guardagent.enforcement.wire import MAX_BYTES, WireError, loads
from guardagent.errors import InputError, RemoteError

MAX_ATTEMPTS = 5
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_log = logging.getLogger("guardagent")
_RETRIED = frozenset({429, 502, 503, 504})
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
        self._url, self._token = url, token
        _library()  # a missing one is an error now
        self._verify: Any = _trust(ca) if url.startswith("https://") or ca is not None else False  # unused without TLS
        self._connections = _Connections()
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
        library = _library()
        left = deadline - time.monotonic()
        if left <= 0:
            raise RemoteError("the guard's server did not answer in time")
        headers = {"authorization": f"Bearer {token}", "accept": "application/json", "accept-encoding": "identity"}
        headers |= {} if body is None else {"content-type": "application/json"}
        headers |= {} if key is None else {"idempotency-key": key}
        try:
            with self._pool().stream(method, self._url + path, content=body, headers=headers, timeout=left) as answer:
                return _value(answer, _text(answer, deadline))
        except (library.ConnectError, library.ConnectTimeout, library.PoolTimeout) as error:
            raise RemoteError(f"the guard's server cannot be reached ({type(error).__name__})", retried=True) from None
        except library.HTTPError as error:
            raise RemoteError(
                f"the guard's server did not answer ({type(error).__name__})", retried=True, uncertain=True
            ) from None

    def _pool(self) -> Any:
        return self._connections.of_process(self._verify, trust_env=not self._url.startswith("http://"))


@cache
def _library() -> ModuleType:
    """Returns the HTTP client that the installed OpenAI client brings: httpx2, or before its version 3 httpx.

    Raises:
        InputError: there is none.
    """
    for name in ("httpx2", "httpx"):
        with contextlib.suppress(ImportError):
            return import_module(name)
    raise InputError("RemoteGuard needs httpx2; run 'pip install httpx2'")


class _Connections:
    """The pool of connections of each process. There is no lock, since a fork would copy it as it is."""

    def __init__(self) -> None:
        self._clients: dict[int, Any] = {}
        self._closed = False

    def of_process(self, verify: Any, *, trust_env: bool) -> Any:
        """Returns the pool; a new one in a forked process, since a connection has one owner.

        Raises:
            RemoteError: the connections are closed.
        """
        if self._closed:
            raise RemoteError("the guard is closed")
        process = os.getpid()
        if (known := self._clients.get(process)) is not None:
            return known
        client = _library().Client(
            verify=verify,
            follow_redirects=False,
            limits=_library().Limits(max_connections=None, max_keepalive_connections=20),
            headers={"user-agent": f"guardagent/{__version__}"},
            trust_env=trust_env,
        )
        found = self._clients.setdefault(process, client)
        if found is not client:  # another thread was faster
            client.close()
        return found

    def close(self) -> None:
        """Closes the connections of this process."""
        self._closed = True
        client = self._clients.pop(os.getpid(), None)
        if client is not None:
            client.close()


def _text(answer: Any, deadline: float) -> bytes:
    """Reads a limited body in limited time."""
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise RemoteError("the guard's server compressed its answer", uncertain=True)
    text = bytearray()
    for part in answer.iter_raw():
        text += part
        if len(text) > MAX_BYTES:
            raise RemoteError(f"the answer of the guard's server has more than {MAX_BYTES:,} bytes", uncertain=True)
        if time.monotonic() > deadline:
            raise RemoteError("the guard's server did not answer in time", uncertain=True)
    return bytes(text)


def _value(answer: Any, text: bytes) -> Any:
    status = answer.status_code
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
    status, pause = answer.status_code, _retry_after(answer)
    retried = status in _RETRIED or (status == 409 and pause is not None)
    found = value.get("error") if isinstance(value, dict) else None
    message = found.get("message") if isinstance(found, dict) else None
    where = found.get("where") if isinstance(found, dict) else None
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


def _trust(ca: Path | str | None) -> Any:
    """Returns the authorities of a file, or those of the system. Guards share them: loading them takes long."""
    try:
        return _loaded(None if ca is None else str(ca), 0 if ca is None else Path(ca).stat().st_mtime_ns)
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"the certificates in {ca} cannot be read: {type(error).__name__}") from None


@lru_cache(8)
def _loaded(ca: str | None, _changed: int) -> Any:
    return _library().create_ssl_context() if ca is None else ssl.create_default_context(cafile=ca)
