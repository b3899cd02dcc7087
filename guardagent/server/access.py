"""Access control: finds out who sends a request, from its header `Authorization`, and what the caller may do.

caller = AccessControl(TokenStore("tokens.db")).authenticate(headers)   who it is, or UnauthenticatedError
authorize(caller, AccessedOperation.CALL, tenant)                       nothing, or ForbiddenError

A caller has an id, roles and a tenant. Its bearer token is one of an OpenID provider, which PyJWT verifies, or of an
SQLite file, which has only the hashes of its tokens: `ga_ID_SECRET`. That secret has 256 random bits, so that a fast
hash suffices: nobody can try them all.

A file names the provider, and states which of its claims mean which role and tenant:

issuer: https://login.example.com/
audience: guardagent
keys: https://login.example.com/keys.json
roles:
  claim: groups
  values: {guarded-agents: agent, finance-leads: approver}
tenant:
  claim: organisation
  values: {"4711": shop}
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import math
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from guardagent._support.files import parse_yaml, read_text
from guardagent._support.http import is_loopback
from guardagent._support.requirements import require
from guardagent._support.stores import SqliteFile, StoreFormat
from guardagent.errors import (
    AccessError,
    ContentError,
    ForbiddenError,
    InputError,
    UnauthenticatedError,
    UnknownNameError,
    error_text,
    name_hint,
)
from guardagent.types.values import SessionPrincipal

EVERY_TENANT = "*"
"""The tenant of an admin who manages all tenants."""

_ID = re.compile(r"[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]{0,198}[^\s\x00-\x1f\x7f])?")
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


class CallerRole(StrEnum):
    """A role of callers. An agent has no other role, so that it never decides about itself."""

    AGENT = "agent"
    APPROVER = "approver"
    AUDITOR = "auditor"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """An agent, a person or a service that calls a server.

    Attributes:
        id: its name.
        roles: its roles; without any, it may do nothing.
        tenant: its tenant, or `*` for an admin of all tenants.

    Raises:
        InputError: the id or the tenant is invalid, an agent has a second role, or `*` is not an admin's.
    """

    id: str
    roles: frozenset[CallerRole]
    tenant: str

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id) or not self.id.isprintable():
            raise InputError(f"the principal is {self.id[:300]!r}; expected up to 200 printable characters")
        if CallerRole.AGENT in self.roles and len(self.roles) > 1:
            others = ", ".join(sorted(self.roles - {CallerRole.AGENT}))
            raise InputError(f"an agent also has the role {others}; expected 'agent' alone, or other roles")
        if self.tenant == EVERY_TENANT and CallerRole.ADMIN not in self.roles:
            raise InputError("the tenant is '*' without the role 'admin'; expected the name of one tenant")
        if self.tenant != EVERY_TENANT and not _TENANT.fullmatch(self.tenant):
            raise InputError(
                f"the tenant is {self.tenant[:300]!r}; expected letters, digits and . _ : -, such as 'shop'; "
                "or '*', every tenant, for an admin"
            )

    def can_see(self, tenant: str) -> bool:
        """Whether a tenant is the caller's."""
        return self.tenant in (EVERY_TENANT, tenant)

    @property
    def principal(self) -> SessionPrincipal:
        """The caller as the principal of its sessions, which policies read."""
        return SessionPrincipal(self.id, frozenset(map(str, self.roles)), self.tenant)


def roles_of(names: Iterable[str]) -> frozenset[CallerRole]:
    """Returns the roles with these names.

    Raises:
        UnknownNameError: there is no such role.
    """
    known = {str(role): role for role in CallerRole}
    names = list(names)
    for name in names:
        if name not in known:
            raise UnknownNameError("role", name, known)
    return frozenset(known[name] for name in names)


# --- operations

_AGENT, _APPROVER, _AUDITOR, _ADMIN = CallerRole.AGENT, CallerRole.APPROVER, CallerRole.AUDITOR, CallerRole.ADMIN


class AccessedOperation(StrEnum):
    """An operation that needs a role."""

    CALL = "call"
    """Open a session, check, use and record its calls, take its snapshot, and finish it."""
    JUDGE = "judge"
    """Have a finished run judged."""
    READ_SESSIONS = "read sessions"
    READ_APPROVALS = "read approvals"
    FOLLOW_APPROVALS = "follow approvals"
    """Read an approval; an agent only sees the status of those that it waits for."""
    ANSWER_APPROVALS = "answer approvals"
    READ_POLICIES = "read policies"
    CHANGE_POLICIES = "change policies"
    READ_LOG = "read the log"
    READ_METRICS = "read metrics"
    MANAGE_TOKENS = "manage tokens"
    READ_INTERFACE = "read the interface"
    """Read the description of the interface."""


PERMITTED: Mapping[AccessedOperation, frozenset[CallerRole]] = MappingProxyType(
    {
        AccessedOperation.CALL: frozenset({_AGENT}),
        AccessedOperation.JUDGE: frozenset({_AGENT}),
        AccessedOperation.READ_SESSIONS: frozenset({_APPROVER, _AUDITOR, _ADMIN}),
        AccessedOperation.READ_APPROVALS: frozenset({_APPROVER, _AUDITOR, _ADMIN}),
        AccessedOperation.FOLLOW_APPROVALS: frozenset({_AGENT, _APPROVER, _AUDITOR, _ADMIN}),
        AccessedOperation.ANSWER_APPROVALS: frozenset({_APPROVER}),
        AccessedOperation.READ_POLICIES: frozenset({_APPROVER, _AUDITOR, _ADMIN}),
        AccessedOperation.CHANGE_POLICIES: frozenset({_ADMIN}),
        AccessedOperation.READ_LOG: frozenset({_AUDITOR, _ADMIN}),
        AccessedOperation.READ_METRICS: frozenset({_AUDITOR, _ADMIN}),
        AccessedOperation.MANAGE_TOKENS: frozenset({_ADMIN}),
        AccessedOperation.READ_INTERFACE: frozenset({_AGENT, _APPROVER, _AUDITOR, _ADMIN}),
    }
)
"""The roles of each operation. One that is missing here is nobody's."""


def authorize(caller: Caller, operation: AccessedOperation, tenant: str) -> None:
    """Requires that a caller may carry out an operation.

    Args:
        caller: who calls.
        operation: the operation.
        tenant: the tenant of the thing that it concerns.

    Raises:
        ForbiddenError: the caller has no such role, or another tenant.
    """
    permitted = PERMITTED.get(operation, frozenset())
    if not caller.roles & permitted:
        expected = " or ".join(repr(str(role)) for role in sorted(permitted)) or "no caller"
        roles = f"the role {expected} ('guardagent token create --role')"
        raise ForbiddenError(f"the caller may not {operation}; expected {roles}")
    if not caller.can_see(tenant):
        raise ForbiddenError("this belongs to another tenant")


# --- the settings of an OpenID provider

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Those with a public key. A token that is signed with a shared secret, or not at all, is never accepted."""

DEFAULT_ALGORITHMS = ("RS256", "ES256")

_KEYS = ("issuer", "audience", "keys", "algorithms", "principal", "roles", "tenant", "leeway")
_MAX_LEEWAY = 300


@dataclass(frozen=True, slots=True)
class ClaimValues:
    """The meanings of the values of a claim.

    Attributes:
        path: the keys that lead to the claim; none for a value that needs no claim.
        values: a value of the claim -> its meaning. Any other value has none.
    """

    path: tuple[str, ...]
    values: Mapping[str, str]

    def of(self, claims: Mapping[str, Any]) -> frozenset[str]:
        """Returns the meanings of the claim in a token."""
        claim: Any = claims
        for key in self.path:
            claim = claim.get(key) if isinstance(claim, Mapping) else None
        listed = claim if isinstance(claim, list) else [claim]
        return frozenset(
            self.values[claim_value]
            for claim_value in listed
            if isinstance(claim_value, str) and claim_value in self.values
        )


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """An OpenID provider as the operator describes it.

    Attributes:
        issuer: the exact claim `iss`.
        audience: a value of the claim `aud`.
        keys: the URL of the provider's public keys (JWKS).
        roles: the roles of the claims.
        tenant: the tenant of the claims; a string for one that is always the same.
        algorithms: the accepted signatures.
        principal: the claim with the caller's id.
        leeway: how many seconds the clocks may differ.

    Raises:
        InputError: an algorithm has no public key, or none is named.
    """

    issuer: str
    audience: str
    keys: str
    roles: ClaimValues
    tenant: ClaimValues | str
    algorithms: tuple[str, ...] = DEFAULT_ALGORITHMS
    principal: str = "sub"
    leeway: float = 30

    def __post_init__(self) -> None:
        for algorithm in self.algorithms or (None,):
            if algorithm not in ALGORITHMS:
                raise InputError(f"'algorithms' has {algorithm!r}; expected a list of these: {', '.join(ALGORITHMS)}")


def read_oidc_settings(path: Path | str) -> OidcSettings:
    """Reads the description of an OpenID provider.

    Raises:
        InputError: the file is missing or invalid.
    """
    value = parse_yaml(read_text(path), path)
    try:
        mapping = _mapping(value, "the file", _KEYS, required=("issuer", "audience", "keys", "roles", "tenant"))
        return OidcSettings(
            issuer=_text(mapping["issuer"], "issuer"),
            audience=_text(mapping["audience"], "audience"),
            keys=_url(mapping["keys"]),
            roles=_roles(mapping["roles"]),
            tenant=_tenant(mapping["tenant"]),
            algorithms=_listed(mapping.get("algorithms", list(DEFAULT_ALGORITHMS))),
            principal=_text(mapping.get("principal", "sub"), "principal"),
            leeway=_leeway(mapping.get("leeway", 30)),
        )
    except InputError as error:
        raise ContentError(str(error), path) from None


def _mapping(value: Any, place: str, known: tuple[str, ...], required: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{place} is a {type(value).__name__}; expected a mapping with {', '.join(required)}")
    for name in value:
        if name not in known:
            raise InputError(f"{place} has the unknown key {name!r}{name_hint(str(name), known)}")
    missing = [name for name in required if name not in value]
    if missing:
        raise InputError(f"{place} lacks {missing[0]!r}; expected {', '.join(required)}")
    return value


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InputError(f"{place!r} is {value!r}; expected a string that is not empty")
    return value


def _url(value: Any) -> str:
    text = _text(value, "keys")
    try:
        url = urlsplit(text)
        is_safe = url.scheme == "https" or (url.scheme == "http" and is_loopback(url.hostname))
    except ValueError:
        is_safe = False
    if not is_safe or not url.hostname:
        raise InputError(f"'keys' is {text!r}; expected a URL that begins with 'https://'")
    return text


def _leeway(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_LEEWAY:
        raise InputError(f"'leeway' is {value!r}; expected seconds from 0 to {_MAX_LEEWAY}")
    return value


def _roles(value: Any) -> ClaimValues:
    claim_values = _claim_values(value, "roles")
    roles_of(claim_values.values.values())
    return claim_values


def _tenant(value: Any) -> ClaimValues | str:
    claim_values = value if isinstance(value, str) else _claim_values(value, "tenant")
    for name in [claim_values] if isinstance(claim_values, str) else claim_values.values.values():
        Caller("a caller", frozenset({CallerRole.ADMIN}), name)  # requires a valid name
    return claim_values


def _listed(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list) else (value,)


def _claim_values(value: Any, place: str) -> ClaimValues:
    mapping = _mapping(value, f"'{place}'", ("claim", "values"), required=("claim", "values"))
    path = _listed(mapping["claim"]) or (None,)
    values = mapping["values"]
    if not isinstance(values, dict) or not values:
        raise InputError(f"'values' of {place!r} is {values!r}; expected a mapping from values of the claim")
    meanings = {_text(name, f"values of {place}"): _text(of, f"values of {place}") for name, of in values.items()}
    return ClaimValues(tuple(_text(key, f"claim of {place}") for key in path), meanings)


# --- verification of its tokens

MAX_TOKEN = 8192  # characters
_TIMEOUT = 5.0  # seconds, for the provider's keys
_LIFESPAN = 300.0  # for which they are kept
_PAUSE = 5.0  # after the provider has failed, so that no flood of requests waits for it

_log = logging.getLogger("guardagent")


class OidcVerifier:
    """Verifies signature, issuer, audience and times of a token, and translates its claims.

    The keys come only from the URL that the settings name, whatever the header of a token says.

    Args:
        settings: the description of the provider.

    Raises:
        InputError: PyJWT is missing or too old.
    """

    def __init__(self, settings: OidcSettings) -> None:
        require({"pyjwt": "2.15", "cryptography": "42"}, "server")
        self._settings, self._keys = settings, _provider_keys(settings.keys)

    def caller(self, token: str) -> Caller:
        """Returns the caller of a token.

        Raises:
            UnauthenticatedError: the token is not valid.
            ForbiddenError: its claims name no tenant, or roles that exclude each other.
            AccessError: the provider's keys are not available.
        """
        if len(token) > MAX_TOKEN:
            raise UnauthenticatedError(f"the token has more than {MAX_TOKEN:,} characters")
        try:
            claims = self._claims(token)
        except AccessError:
            raise
        except Exception as error:  # noqa: BLE001 - a token that a library cannot read is not valid
            _log.info("a token is refused: %s", error_text(error)[:300])
            raise UnauthenticatedError("the token is not valid") from None
        return self._caller(claims)

    def _claims(self, token: str) -> Mapping[str, Any]:
        import jwt

        header = jwt.get_unverified_header(token)
        if header.get("alg") not in self._settings.algorithms or not isinstance(header.get("kid"), str):
            raise UnauthenticatedError("the token is not valid")
        claims: Mapping[str, Any] = jwt.decode(
            token,
            self._key(header["kid"]),
            algorithms=self._settings.algorithms,
            issuer=self._settings.issuer,
            audience=self._settings.audience,
            leeway=self._settings.leeway,
            options={"require": ["exp", "iss", "aud", self._settings.principal]},
        )
        if not isinstance(claims[self._settings.principal], str):
            raise UnauthenticatedError("the token is not valid")
        return claims

    def _key(self, name: str) -> Any:
        from jwt import PyJWKClientConnectionError, PyJWKClientError

        try:
            return self._keys.get_signing_key(name)
        except PyJWKClientConnectionError as error:
            raise AccessError(f"the keys of the OpenID provider are not available: {error_text(error)[:300]}") from None
        except PyJWKClientError:  # there is no such key
            raise UnauthenticatedError("the token is not valid") from None

    def _caller(self, claims: Mapping[str, Any]) -> Caller:
        tenant = self._settings.tenant
        tenants = frozenset({tenant}) if isinstance(tenant, str) else tenant.of(claims)
        if len(tenants) != 1:
            raise ForbiddenError("the token names no tenant that the operator knows, or several")
        try:
            return Caller(claims[self._settings.principal], roles_of(self._settings.roles.of(claims)), *tenants)
        except InputError as error:
            raise ForbiddenError(str(error)) from None


def _provider_keys(url: str) -> Any:
    """Returns a client that fetches the keys, keeps them for a while, and pauses after a failure."""
    from jwt import PyJWKClient, PyJWKClientConnectionError

    class ProviderKeys(PyJWKClient):
        failed = -math.inf

        def fetch_data(self) -> Any:
            if time.monotonic() - self.failed < _PAUSE:
                raise PyJWKClientConnectionError("the last request failed a moment ago")
            try:
                return super().fetch_data()
            except Exception as error:
                self.failed = time.monotonic()
                raise PyJWKClientConnectionError(error_text(error)) from error

    return ProviderKeys(url, lifespan=_LIFESPAN, timeout=_TIMEOUT)


# --- tokens of a file

PREFIX = "ga_"
TOKEN = re.compile(r"(ga_[0-9a-f]{12})_[0-9a-f]{64}")
_TOKEN_ID = re.compile(r"ga_[0-9a-f]{12}")
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
            shown = repr(name) if _TOKEN_ID.fullmatch(name) else "that"  # it may be a secret
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
