"""Verifies the bearer tokens of an OpenID provider, by PyJWT.

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

import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from guardagent._support.files import parse_yaml, read_text
from guardagent._support.http import is_loopback
from guardagent._support.requirements import require
from guardagent.errors import (
    AccessError,
    ContentError,
    ForbiddenError,
    InputError,
    UnauthenticatedError,
    error_text,
    name_hint,
)
from guardagent.server.access.caller import Caller, CallerRole, roles_of

# --- settings

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


# --- verification

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
