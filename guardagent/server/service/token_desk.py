"""Tokens that admins create and revoke."""

from __future__ import annotations

from typing import Any

from guardagent.enforcement.wire import Fields, WireError
from guardagent.server.access import Caller, IssuedToken, TokenStore
from guardagent.server.access.caller import roles_of
from guardagent.server.service.errors import UnknownItemError

MAX_DAYS = 3650


class TokenDesk:
    """Manages the tokens of a store, each admin those of its tenant.

    Args:
        tokens: the store; None if callers come from an OpenID provider alone.
    """

    def __init__(self, tokens: TokenStore | None) -> None:
        self._tokens = tokens

    def list(self, admin: Caller) -> dict[str, Any]:
        """Returns the tokens that an admin sees, without their secrets."""
        return {"tokens": [_shown(one) for one in self._store().list() if admin.can_see(one.caller.tenant)]}

    def create(self, admin: Caller, body: Any) -> dict[str, Any]:
        """Creates a token, whose text nothing shows again.

        Raises:
            InputError: the request is invalid, or names a tenant that the admin does not see.
        """
        fields = Fields(body)
        principal, roles = fields.string("principal"), fields.strings("roles")
        tenant, days = fields.string("tenant", admin.tenant), fields.integer("days", 90)
        fields.end()
        if not 0 < days <= MAX_DAYS:
            raise WireError("days", f"is {days}; expected 1 to {MAX_DAYS}")
        if not admin.can_see(tenant):
            raise WireError("tenant", "is another one than the admin's")
        issued, text = self._store().create(Caller(principal, roles_of(roles), tenant), days * 86400.0)
        return {**_shown(issued), "token": text}

    def revoke(self, admin: Caller, name: str) -> dict[str, Any]:
        """Revokes a token at once.

        Raises:
            UnknownItemError: the admin sees no such token.
        """
        store = self._store()
        if not any(one.id == name and admin.can_see(one.caller.tenant) for one in store.list()):
            raise UnknownItemError(f"there is no token {name[:40]!r}; expected the id of one, such as ga_0123456789ab")
        store.revoke(name)
        return {"id": name, "status": "revoked"}

    def _store(self) -> TokenStore:
        if self._tokens is None:
            raise UnknownItemError("this server has no tokens of its own; its callers come from an OpenID provider")
        return self._tokens


def _shown(one: IssuedToken) -> dict[str, Any]:
    return {
        "id": one.id,
        "principal": one.caller.id,
        "roles": sorted(one.caller.roles),
        "tenant": one.caller.tenant,
        "created": one.created,
        "expires": one.expires,
        "revoked": one.revoked,
    }
