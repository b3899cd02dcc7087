"""Access control: finds out who sends a request, from its header `Authorization`, and what the caller may do.

caller = AccessControl(TokenStore("tokens.db")).authenticate(headers)   who it is, or UnauthenticatedError
authorize(caller, AccessedOperation.CALL, tenant)                       nothing, or ForbiddenError
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from guardagent.errors import ForbiddenError, UnauthenticatedError
from guardagent.server.access.caller import EVERY_TENANT, AccessedOperation, Caller, CallerRole, authorize
from guardagent.server.access.oidc import OidcSettings, OidcVerifier, read_oidc_settings
from guardagent.server.access.tokens import PREFIX, IssuedToken, TokenStore
from guardagent.types.values import SessionPrincipal

__all__ = [
    "EVERY_TENANT",
    "AccessControl",
    "AccessedOperation",
    "Caller",
    "CallerRole",
    "IssuedToken",
    "OidcSettings",
    "OidcVerifier",
    "TokenStore",
    "authorize",
    "read_oidc_settings",
]

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
            found = "no" if not authorization else "more than one"
            raise UnauthenticatedError(f"the request has {found} header Authorization; expected one with a token")
        match = _BEARER.fullmatch(authorization[0].strip(" \t"))
        if match is None:
            raise UnauthenticatedError("the header Authorization is invalid; expected 'Bearer' and a token")
        if match[1].startswith(PREFIX):
            return self._of_store(match[1])
        if self._oidc is None:
            raise UnauthenticatedError("the token is not valid")
        return self._oidc.caller(match[1])

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

    def _of_store(self, token: str) -> Caller:
        if self.tokens is None:
            raise UnauthenticatedError("the token is not valid")
        return self.tokens.caller(token)
