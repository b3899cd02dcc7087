"""Tokens in an SQLite file, which has only their hashes; and who calls with a token of it, or of a provider.

A token is `ga_ID_SECRET`. Its secret has 256 random bits, so that a fast hash suffices: nobody can try them all.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guardagent._support.stores import SqliteFile, StoreFormat
from guardagent.errors import AccessError, ForbiddenError, InputError, UnauthenticatedError
from guardagent.server.access.caller import AccessedOperation, Caller, authorize, roles_of
from guardagent.server.access.oidc import OidcVerifier
from guardagent.types.values import SessionPrincipal

PREFIX = "ga_"
TOKEN = re.compile(r"(ga_[0-9a-f]{12})_[0-9a-f]{64}")
_ID = re.compile(r"ga_[0-9a-f]{12}")
_FORMAT = StoreFormat(
    "token store",
    1,
    "continue with the release that created it, or begin a new file: then every token is void",
    AccessError,
    file_tables=(
        """CREATE TABLE tokens (id TEXT PRIMARY KEY, hash BLOB NOT NULL, principal TEXT NOT NULL, roles TEXT NOT NULL,
                                tenant TEXT NOT NULL, created REAL NOT NULL, expires REAL,
                                revoked REAL) WITHOUT ROWID""",
    ),
    creator="'guardagent token create'",
    application=0x47414154,
)
_COLUMNS = "id, principal, roles, tenant, created, expires, revoked"
_NO_HASH = bytes(32)
_LONGEST = 3653 * 86400.0
_LAST_TIME = 253402300799  # the end of the year 9999


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A token without its secret.

    Attributes:
        id: its first part, such as `ga_0123456789ab`.
        caller: the caller that it authenticates.
        created: when it was created, in seconds since 1970.
        expires: when it expires; None for never.
        revoked: when it was revoked; None if it was not.
    """

    id: str
    caller: Caller
    created: float
    expires: float | None
    revoked: float | None

    def status(self, now: float) -> str:
        """`valid`, `expired` or `revoked`."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and now >= self.expires else "valid"


class TokenStore:
    """The tokens of a file. Only its owner may read it. Several processes may share it.

    Args:
        path: the path of the file.
        create: whether a file that is missing is created, in an existing folder.
        clock: returns the time in seconds since 1970.

    Raises:
        InputError: the file is missing, cannot be opened, holds something else, or belongs to another release.
    """

    def __init__(self, path: Path | str, *, create: bool = False, clock: Callable[[], float] = time.time) -> None:
        path = Path(path)
        if not create and not path.exists():
            raise InputError(f"{path}: no such file; expected one that 'guardagent token create' has created")
        self._file, self._clock = SqliteFile(path, _FORMAT), clock

    def create(self, caller: Caller, seconds: float | None) -> tuple[IssuedToken, str]:
        """Creates a token for a caller.

        Args:
            caller: the caller that it authenticates, with at least one role.
            seconds: how long it is valid; None for ever.

        Returns:
            The token, and its text, which nothing can show again.

        Raises:
            InputError: the caller has no role, or the time is not between zero and ten years.
            AccessError: the file cannot be written.
        """
        if not caller.roles:
            raise InputError("the token has no role; expected at least one")
        if seconds is not None and not 0 < seconds <= _LONGEST:
            raise InputError(f"the token is valid for {seconds!r} seconds; expected up to ten years, or for ever")
        name, now = f"{PREFIX}{secrets.token_hex(6)}", self._clock()
        text = f"{name}_{secrets.token_hex(32)}"
        issued = IssuedToken(name, caller, now, None if seconds is None else now + seconds, None)
        row = (name, _hash(text), caller.id, " ".join(sorted(caller.roles)), caller.tenant, now, issued.expires)
        with self._file.transaction() as db:
            db.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, NULL)", row)
        return issued, text

    def caller(self, text: str) -> Caller:
        """Returns the caller of a token.

        Raises:
            UnauthenticatedError: there is no such token, or it has expired or was revoked.
            AccessError: the file cannot be read, or is damaged.
        """
        match = TOKEN.fullmatch(text)
        row = None if match is None else self._row(match[1])
        stored = _NO_HASH if row is None or not isinstance(row[0], bytes) else row[0]
        if not hmac.compare_digest(stored, _hash(text)) or row is None:
            raise UnauthenticatedError("the token is not valid")
        issued = _issued(row[1:])
        if issued.status(self._clock()) != "valid":
            raise UnauthenticatedError("the token is not valid")
        return issued.caller

    def list(self) -> list[IssuedToken]:
        """Returns all tokens, the oldest first.

        Raises:
            AccessError: the file cannot be read, or is damaged.
        """
        with self._file.connected() as db:
            rows = db.execute(f"SELECT {_COLUMNS} FROM tokens ORDER BY created, id").fetchall()  # noqa: S608
        return [_issued(row) for row in rows]

    def revoke(self, name: str) -> None:
        """Revokes a token at once; one that is revoked stays so.

        Args:
            name: its id, or the whole token.

        Raises:
            InputError: there is no such token.
            AccessError: the file cannot be written.
        """
        match = TOKEN.fullmatch(name)
        name = match[1] if match else name
        with self._file.transaction() as db:
            revoked = db.execute(
                "UPDATE tokens SET revoked = coalesce(revoked, ?) WHERE id = ?", (self._clock(), name)
            ).rowcount
        if not revoked:
            shown = repr(name) if _ID.fullmatch(name) else "that"  # it may be a secret
            raise InputError(f"no token has the id {shown}; expected one that 'guardagent token list' shows")

    def close(self) -> None:
        """Closes the file; the next use opens it again."""
        self._file.close()

    def _row(self, name: str) -> tuple[Any, ...] | None:
        query = f"SELECT hash, {_COLUMNS} FROM tokens WHERE id = ?"  # noqa: S608
        with self._file.connected() as db:
            row: tuple[Any, ...] | None = db.execute(query, (name,)).fetchone()
        return row


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _issued(row: tuple[Any, ...]) -> IssuedToken:
    name, principal, roles, tenant, *times = row
    try:
        caller = Caller(principal, roles_of(roles.split()), tenant)
    except (InputError, TypeError, AttributeError) as error:
        raise _damaged(name, error) from None
    if times[0] is None or not all(time is None or _is_time(time) for time in times):
        raise _damaged(name, "a time is not a number of seconds")
    return IssuedToken(name, caller, *times)


def _is_time(value: Any) -> bool:
    return isinstance(value, float | int) and 0 <= value <= _LAST_TIME


def _damaged(name: Any, problem: object) -> AccessError:
    return AccessError(f"the token {name!r} is damaged: {problem}; the file was changed by another program")


# --- tokens of requests

_BEARER = re.compile(r"bearer +([A-Za-z0-9._~+/-]{1,16384}=*)", re.IGNORECASE | re.ASCII)


class AccessControl:
    """Accepts bearer tokens of a store, of an OpenID provider, or of both.

    Args:
        tokens: the token store.
        oidc: verifies the tokens of the provider.

    Attributes:
        tokens: the token store; None if there is none.
    """

    def __init__(self, tokens: TokenStore | None = None, oidc: OidcVerifier | None = None) -> None:
        self.tokens, self._oidc = tokens, oidc

    def authenticate(self, authorization: Sequence[str]) -> Caller:
        """Returns the caller of a request.

        Args:
            authorization: the values of all its headers `Authorization`.

        Raises:
            UnauthenticatedError: there is not exactly one, or it has no valid token.
            ForbiddenError: the provider's token names no tenant, or roles that exclude each other.
            AccessError: the tokens or the keys of the provider cannot be read.
        """
        if len(authorization) != 1:
            number_text = "no" if not authorization else "more than one"
            raise UnauthenticatedError(f"the request has {number_text} header Authorization; expected one with a token")
        match = _BEARER.fullmatch(authorization[0].strip(" \t"))
        if match is None:
            raise UnauthenticatedError("the header Authorization is invalid; expected 'Bearer' and a token")
        accepted = self.tokens if match[1].startswith(PREFIX) else self._oidc
        if accepted is None:
            raise UnauthenticatedError("the token is not valid")
        return accepted.caller(match[1])

    def admit(self, authorization: Sequence[str], operation: str) -> SessionPrincipal:
        """Returns the principal of a request that concerns its caller's own tenant.

        Args:
            authorization: as for `authenticate`.
            operation: a value of `AccessedOperation`.

        Raises:
            UnauthenticatedError, AccessError: as `authenticate`.
            ForbiddenError: the caller may not do this.
        """
        caller = self.authenticate(authorization)
        if operation not in set(AccessedOperation):
            raise ForbiddenError("there is no such operation")
        authorize(caller, AccessedOperation(operation), caller.tenant)
        return caller.principal
