"""Access control: callers with roles, their tokens, and the operations of a server.

caller = AccessControl(TokenStore("tokens.db")).authenticate(headers)   who it is, or UnauthenticatedError
authorize(caller, AccessedOperation.CALL, tenant)                       nothing, or ForbiddenError
"""

from guardagent.server.access.access_control import AccessControl
from guardagent.server.access.caller import EVERY_TENANT, Caller, CallerRole
from guardagent.server.access.oidc import OidcVerifier
from guardagent.server.access.oidc_settings import OidcSettings, read_oidc_settings
from guardagent.server.access.permissions import AccessedOperation, authorize
from guardagent.server.access.tokens import IssuedToken, TokenStore

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
