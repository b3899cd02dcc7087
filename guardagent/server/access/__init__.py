"""Access control: finds out who sends a request, from its header `Authorization`, and what the caller may do.

caller = AccessControl(TokenStore("tokens.db")).authenticate(headers)   who it is, or UnauthenticatedError
authorize(caller, AccessedOperation.CALL, tenant)                       nothing, or ForbiddenError
"""

from __future__ import annotations

from guardagent.server.access.caller import EVERY_TENANT, AccessedOperation, Caller, CallerRole, authorize
from guardagent.server.access.oidc import OidcSettings, OidcVerifier, read_oidc_settings
from guardagent.server.access.tokens import AccessControl, IssuedToken, TokenStore

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
