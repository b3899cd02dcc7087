"""The address of a guard's server, and the token for it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from guardagent._support.http import is_loopback
from guardagent.errors import InputError

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
    found = checked_token(os.environ.get(TOKEN_VARIABLE) if token is None else token, "the token")
    return lambda: found


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
        raise InputError(f"the token file {path} cannot be read: {type(error).__name__}") from None
    return checked_token(text.strip(), f"the token in {path}")
