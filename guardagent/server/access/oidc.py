"""Verifies the bearer tokens of an OpenID provider, by PyJWT."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from typing import Any

from guardagent._support.requirements import require
from guardagent.errors import AccessError, ForbiddenError, InputError, UnauthenticatedError, error_text
from guardagent.server.access.caller import Caller, roles_of
from guardagent.server.access.oidc_settings import OidcSettings

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
        except Exception as error:  # noqa: BLE001 - a token that a library cannot read is no valid token
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
