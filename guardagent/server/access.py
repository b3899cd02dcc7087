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
groups:
  claim: groups
  values: {finance-leads: finance-lead}
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
from urllib.parse import quote, unquote, urlsplit

from guardagent._support.files import parse_yaml, read_text
from guardagent._support.http import is_loopback
from guardagent._support.json_values import record_of
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
    OPERATOR = "operator"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """An agent, a person or a service that calls a server.

    Attributes:
        id: its name.
        roles: its roles; without any, it may do nothing.
        tenant: its tenant, or `*` for an admin of all tenants.
        groups: the groups of an approver, which `escalate_to:` of a policy names as `roles`.

    Raises:
        InputError: the id, the tenant or a group is invalid, an agent has a second role, or `*` is not an admin's.
    """

    id: str
    roles: frozenset[CallerRole]
    tenant: str
    groups: frozenset[str] = frozenset()

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
        for group in self.groups:
            if not _ID.fullmatch(group) or not group.isprintable():
                raise InputError(f"a group is {group[:300]!r}; expected up to 200 characters, no space at its ends")

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
_OPERATOR = CallerRole.OPERATOR


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
    REVOKE_GRANTS = "revoke grants"
    READ_STOPS = "read stops"
    STOP = "stop agents"
    LIFT_STOPS = "lift stops"
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
        AccessedOperation.READ_SESSIONS: frozenset({_APPROVER, _AUDITOR, _OPERATOR, _ADMIN}),
        AccessedOperation.READ_APPROVALS: frozenset({_APPROVER, _AUDITOR, _ADMIN}),
        AccessedOperation.FOLLOW_APPROVALS: frozenset({_AGENT, _APPROVER, _AUDITOR, _ADMIN}),
        AccessedOperation.ANSWER_APPROVALS: frozenset({_APPROVER}),
        AccessedOperation.REVOKE_GRANTS: frozenset({_APPROVER, _ADMIN}),
        AccessedOperation.READ_STOPS: frozenset({_APPROVER, _AUDITOR, _OPERATOR, _ADMIN}),
        AccessedOperation.STOP: frozenset({_OPERATOR, _ADMIN}),
        AccessedOperation.LIFT_STOPS: frozenset({_ADMIN}),
        AccessedOperation.READ_POLICIES: frozenset({_APPROVER, _AUDITOR, _ADMIN}),
        AccessedOperation.CHANGE_POLICIES: frozenset({_ADMIN}),
        AccessedOperation.READ_LOG: frozenset({_AUDITOR, _ADMIN}),
        AccessedOperation.READ_METRICS: frozenset({_AUDITOR, _ADMIN}),
        AccessedOperation.MANAGE_TOKENS: frozenset({_ADMIN}),
        AccessedOperation.READ_INTERFACE: frozenset({_AGENT, _APPROVER, _AUDITOR, _OPERATOR, _ADMIN}),
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

_MAX_LEEWAY = 300


@dataclass(frozen=True, slots=True)
class ClaimValues:
    """The meanings of the values of a claim.

    Attributes:
        claim: the keys that lead to it.
        values: a value of the claim -> its meaning. Any other value has none.
    """

    claim: tuple[str, ...]
    values: Mapping[str, str]

    def __post_init__(self) -> None:
        if not (self.claim and self.values):
            raise InputError("'claim' or 'values' is empty; expected a string, and a mapping from values of the claim")

    def of(self, claims: Mapping[str, Any]) -> frozenset[str]:
        """Returns the meanings of the claim in a token."""
        claim: Any = claims
        for key in self.claim:
            claim = claim.get(key) if isinstance(claim, Mapping) else None
        listed = claim if isinstance(claim, list) else [claim]
        return frozenset(
            self.values[claim_value]
            for claim_value in listed
            if isinstance(claim_value, str) and claim_value in self.values
        )


@dataclass(frozen=True, slots=True)
class SignInSettings:
    """The console as a client of an OpenID provider, for people who sign in there.

    Attributes:
        client_id: its id at the provider, and the audience of the ID tokens that it accepts.
        client_secret_file: the file with its secret; None for a public client.
        scopes: the scopes that it asks for, besides `openid`.
        authorize, token: the URLs of the provider's endpoints; empty for those that the provider publishes.
        end_session: the URL where a person who signs out goes; empty for nowhere.
        hosts: further hosts that published endpoints may have, besides that of the issuer.
    """

    client_id: str
    client_secret_file: Path | None = None
    scopes: tuple[str, ...] = ()
    authorize: str = ""
    token: str = ""
    end_session: str = ""
    hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("authorize", "token", "end_session"):
            if url := getattr(self, name):
                require_secure_url(url, name)
        if bool(self.authorize) is not bool(self.token):
            raise InputError("one of 'authorize' and 'token' is missing; expected both, or neither")
        self.client_secret()

    def client_secret(self) -> str | None:
        """Reads the secret.

        Raises:
            InputError: the file is missing, or has more than one line.
        """
        return None if self.client_secret_file is None else _text(read_text(self.client_secret_file).strip())


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """An OpenID provider as the operator describes it.

    Attributes:
        issuer: the exact claim `iss`.
        audience: a value of the claim `aud`.
        keys: the URL of the provider's public keys (JWKS).
        roles: the roles of the claims.
        tenant: the tenant of the claims; a string for one that is always the same.
        groups: the groups of the claims; None for none.
        algorithms: the accepted signatures.
        principal: the claim with the caller's id.
        leeway: how many seconds the clocks may differ.
        sign_in: how people sign in to the console at the provider; None if they do not.

    Raises:
        InputError: an algorithm has no public key, a role or a tenant is invalid, or another value is.
    """

    issuer: str
    audience: str
    keys: str
    roles: ClaimValues
    tenant: ClaimValues | str
    groups: ClaimValues | None = None
    algorithms: tuple[str, ...] = DEFAULT_ALGORITHMS
    principal: str = "sub"
    leeway: float = 30
    sign_in: SignInSettings | None = None

    def __post_init__(self) -> None:
        for algorithm in self.algorithms or (None,):
            if algorithm not in ALGORITHMS:
                raise InputError(f"'algorithms' has {algorithm!r}; expected a list of these: {', '.join(ALGORITHMS)}")
        require_secure_url(self.keys, "keys")
        if self.sign_in is not None and not self.sign_in.token:
            require_secure_url(self.issuer, "issuer")  # publishes the endpoints
        if not 0 <= self.leeway <= _MAX_LEEWAY:
            raise InputError(f"'leeway' is {self.leeway}; expected seconds from 0 to {_MAX_LEEWAY}")
        roles_of(self.roles.values.values())
        for name in [self.tenant] if isinstance(self.tenant, str) else self.tenant.values.values():
            Caller("a caller", frozenset({CallerRole.ADMIN}), name)  # requires a valid name


def read_oidc_settings(path: Path | str) -> OidcSettings:
    """Reads the description of an OpenID provider. Its paths are relative to its folder.

    Raises:
        InputError: the file is missing or invalid.
    """
    value, folder = parse_yaml(read_text(path), path), Path(path).parent
    sections = [value, *value.values()] if isinstance(value, dict) else []
    for section in sections:
        for name in {"claim", "algorithms", "scopes", "hosts"} & section.keys() if isinstance(section, dict) else ():
            section[name] = section[name] if isinstance(section[name], list) else [section[name]]
    try:
        return record_of(OidcSettings, value, "", {str: _text, Path: lambda text: folder / _text(text)})
    except ValueError as error:
        raise ContentError(str(error), path) from None


def require_secure_url(text: str, name: str) -> None:
    """Requires a URL to which secrets may be sent: https, or http on this machine, without a user.

    Raises:
        InputError: it is another one, or not a URL.
    """
    try:
        url = urlsplit(text)
        is_safe = url.scheme == "https" or (url.scheme == "http" and is_loopback(url.hostname))
        is_safe = is_safe and bool(url.hostname) and url.username is None and url.port != 0
    except ValueError:
        is_safe = False
    if not is_safe:
        expected = "expected a URL that begins with 'https://', or http on this machine, without a user"
        raise InputError(f"{name!r} is {text!r}; {expected}")


def _text(value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise InputError(f"is {value!r}; expected a string of one line that is not empty")
    return value


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
        self.settings, self._keys = settings, _provider_keys(settings.keys)

    def caller(self, token: str) -> Caller:
        """Returns the caller of a token.

        Raises:
            UnauthenticatedError: the token is not valid.
            ForbiddenError: its claims name no tenant, or roles that exclude each other.
            AccessError: the provider's keys are not available.
        """
        return self._caller(self._verified(token, self.settings.audience))

    def signed_in(self, id_token: str, nonce: str | None = None) -> Caller:
        """Returns the person of an ID token that the provider has issued to the console.

        Args:
            id_token: the token.
            nonce: the value that it must repeat when the person signs in; None afterwards.

        Raises:
            as `caller`.
        """
        client = "" if self.settings.sign_in is None else self.settings.sign_in.client_id
        claims = self._verified(id_token, client)
        is_alone = claims["aud"] in (client, [client])
        is_for_us = bool(client) and claims.get("azp", client if is_alone else None) == client
        if not is_for_us or (nonce is not None and claims.get("nonce") != nonce):
            raise UnauthenticatedError("the token is not valid")
        return self._caller(claims)

    def _verified(self, token: str, audience: str) -> Mapping[str, Any]:
        if len(token) > MAX_TOKEN:
            raise UnauthenticatedError(f"the token has more than {MAX_TOKEN:,} characters")
        try:
            return self._claims(token, audience)
        except AccessError:
            raise
        except Exception as error:  # noqa: BLE001 - a token that a library cannot read is not valid
            _log.info("a token is refused: %s", error_text(error)[:300])
            raise UnauthenticatedError("the token is not valid") from None

    def _claims(self, token: str, audience: str) -> Mapping[str, Any]:
        import jwt

        header = jwt.get_unverified_header(token)
        if header.get("alg") not in self.settings.algorithms or not isinstance(header.get("kid"), str):
            raise UnauthenticatedError("the token is not valid")
        claims: Mapping[str, Any] = jwt.decode(
            token,
            self._key(header["kid"]),
            algorithms=self.settings.algorithms,
            issuer=self.settings.issuer,
            audience=audience,
            leeway=self.settings.leeway,
            options={"require": ["exp", "iss", "aud", self.settings.principal]},
        )
        if not isinstance(claims[self.settings.principal], str):
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
        tenant = self.settings.tenant
        tenants = frozenset({tenant}) if isinstance(tenant, str) else tenant.of(claims)
        if len(tenants) != 1:
            raise ForbiddenError("the token names no tenant that the operator knows, or several")
        try:
            roles, of_groups = roles_of(self.settings.roles.of(claims)), self.settings.groups
            groups = frozenset[str]() if of_groups is None else of_groups.of(claims)
            (name,) = tenants
            return Caller(claims[self.settings.principal], roles, name, groups)
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
_GROUP = "@"  # before a group, which has its place beside the roles: releases without groups refuse such a token
_LONGEST = 3653 * 86400.0
_MAX_KNOWN = 10_000
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
        self._known: tuple[object, dict[bytes, IssuedToken]] = None, {}  # the version of the file -> tokens as read

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
        roles = " ".join([*sorted(caller.roles), *(_GROUP + quote(group, safe="") for group in sorted(caller.groups))])
        row = (name, _hash(text), caller.id, roles, caller.tenant, now, issued.expires)
        with self._file.transaction() as db:
            db.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, NULL)", row)
        return issued, text

    def rotate(self, name: str, seconds: float | None = None, overlap: float = 0.0) -> tuple[IssuedToken, str]:
        """Creates a token for the caller of another one, which ends.

        Args:
            name: the id of the other token, or the whole token.
            seconds: how long the new token is valid; None for as long as the other one was at first.
            overlap: how many seconds the other one stays valid, unless it ends before.

        Returns:
            as `create`.

        Raises:
            InputError: there is no such token, it is no longer valid, or a time is out of range.
            AccessError: the file cannot be written.
        """
        match = TOKEN.fullmatch(name)
        name, now = match[1] if match else name, self._clock()
        issued = next((token for token in self.list() if token.id == name), None)
        if issued is None:
            raise _no_token(name)
        if (status := issued.status(now)) != "valid":
            raise InputError(f"the token {name} is {status}; create another one with 'guardagent token create'")
        if not 0 <= overlap <= _LONGEST:
            raise InputError(f"the old token stays valid for {overlap!r} seconds; expected up to ten years")
        if seconds is None and issued.expires is not None:
            seconds = issued.expires - issued.created
        created = self.create(issued.caller, seconds)
        if not overlap:
            self.revoke(name)
        elif issued.expires is None or issued.expires > now + overlap:
            with self._file.transaction() as db:
                db.execute("UPDATE tokens SET expires = ? WHERE id = ?", (now + overlap, name))
        return created

    def caller(self, text: str) -> Caller:
        """Returns the caller of a token.

        Raises:
            UnauthenticatedError: there is no such token, or it has expired or was revoked.
            AccessError: the file cannot be read, or is damaged.
        """
        match = TOKEN.fullmatch(text)
        version, row = (None, None) if match is None else self._row(match[1])
        stored = _NO_HASH if row is None or not isinstance(row[0], bytes) else row[0]
        if not hmac.compare_digest(stored, _hash(text)) or row is None:
            raise UnauthenticatedError("the token is not valid")
        issued = _issued(row[1:])
        if issued.status(self._clock()) != "valid":
            raise UnauthenticatedError("the token is not valid")
        known_version, tokens = self._known
        if version != known_version or len(tokens) >= _MAX_KNOWN:
            tokens = {}
            self._known = version, tokens
        tokens[stored] = issued  # not through `_known`: another thread may have read a later version, with a revocation
        return issued.caller

    def at_once(self, text: str) -> Caller | None:
        """Returns the caller of a valid token if the file has not changed since it was read; None otherwise."""
        version, known = self._known
        if version is None or self._file.version() != version:
            return None
        issued = known.get(_hash(text))
        return None if issued is None or issued.status(self._clock()) != "valid" else issued.caller

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
            raise _no_token(name)

    def close(self) -> None:
        """Closes the file; the next use opens it again."""
        self._file.close()

    def _row(self, name: str) -> tuple[object, tuple[Any, ...] | None]:
        """Returns the version of the file, and a row that is at least as new."""
        query = f"SELECT hash, {_COLUMNS} FROM tokens WHERE id = ?"  # noqa: S608
        with self._file.connected() as db:
            return self._file.version_in(db), db.execute(query, (name,)).fetchone()


def token_record(action: str, by: str, token: IssuedToken | str, **more: Any) -> dict[str, Any]:
    """Returns the record of a change of a token, for a log.

    Args:
        action: `created`, `rotated` or `revoked`.
        by: who changed it.
        token: the token, or its id.
        more: further fields.
    """
    record = {"kind": "token", "action": action, "by": by, **more}
    if isinstance(token, str):
        return {**record, "token": token}
    caller = {"principal": token.caller.id, "roles": sorted(token.caller.roles), "tenant": token.caller.tenant}
    return {**record, "token": token.id, **caller, "expires": token.expires}


def _no_token(name: str) -> InputError:
    shown = repr(name) if _TOKEN_ID.fullmatch(name) else "that"  # it may be a secret
    return InputError(f"no token has the id {shown}; expected one that 'guardagent token list' shows")


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _issued(row: tuple[Any, ...]) -> IssuedToken:
    name, principal, roles, tenant, *times = row
    try:
        names = roles.split()
        groups = frozenset(unquote(name.removeprefix(_GROUP)) for name in names if name.startswith(_GROUP))
        caller = Caller(principal, roles_of(name for name in names if not name.startswith(_GROUP)), tenant, groups)
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
        oidc: verifies the tokens of the provider; None if there is none.
    """

    def __init__(self, tokens: TokenStore | None = None, oidc: OidcVerifier | None = None) -> None:
        self.tokens, self.oidc = tokens, oidc

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
        accepted = self.tokens if match[1].startswith(PREFIX) else self.oidc
        if accepted is None:
            raise UnauthenticatedError("the token is not valid")
        return accepted.caller(match[1])

    def at_once(self, authorization: Sequence[str]) -> Caller | None:
        """Returns the caller of a request as `authenticate`, if nothing has to be waited for; None otherwise."""
        match = _BEARER.fullmatch(authorization[0].strip(" \t")) if len(authorization) == 1 else None
        return None if match is None or self.tokens is None else self.tokens.at_once(match[1])

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
