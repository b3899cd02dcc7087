"""Reads options of addresses."""

from __future__ import annotations

from guardagent.enforcement.wire import WireError
from guardagent.server.access.caller import EVERY_TENANT
from guardagent.server.http.api_route import ApiRequest
from guardagent.server.service.service_errors import UnknownItemError

MAX_LIMIT = 500


def tenant_of(request: ApiRequest) -> str:
    """Returns the tenant that a request of a reader concerns: the caller's own, unless an admin of all names one.

    Raises:
        WireError: the admin names none.
        UnknownItemError: the caller names another tenant.
    """
    named = request.query.get("tenant")
    if named is None and request.caller.tenant == EVERY_TENANT:
        raise WireError("tenant", "is missing; an admin of all tenants names one, such as '?tenant=shop'")
    if named is not None and not request.caller.can_see(named):
        raise UnknownItemError("there is no such tenant")
    return request.caller.tenant if named is None else named


def number_of(request: ApiRequest, name: str) -> int | None:
    """Returns an option that is a whole number; None if it is missing.

    Raises:
        WireError: it is something else.
    """
    text = request.query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise WireError(name, f"is {text[:40]!r}; expected a whole number")
    return int(text)


def limit_of(request: ApiRequest, default: int = 50) -> int:
    """Returns the option `limit`.

    Raises:
        WireError: it is not between 1 and 500.
    """
    found = number_of(request, "limit")
    if found is not None and not 0 < found <= MAX_LIMIT:
        raise WireError("limit", f"is {found}; expected 1 to {MAX_LIMIT}")
    return default if found is None else found
