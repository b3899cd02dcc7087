"""The caller of the proxy: its key, its conversation, and the principal that policies read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal

from litellm.integrations.custom_guardrail import get_session_id_from_request_data

from guardagent.errors import InputError

HEADER = "x-guardagent-conversation"
RolesFrom = Literal["team", "key"]
_MAX_ID = 512

_caller: ContextVar[tuple[Any, RolesFrom] | None] = ContextVar("guardagent_litellm_caller", default=None)


def conversation_of(data: Mapping[str, Any], auth: Any, header: str = HEADER) -> str | None:
    """Returns the id of a request's conversation, within the scope of its key; None if the request names none.

    The header comes first, then the session id of the host.

    Raises:
        InputError: the id is too long.
    """
    request = data.get("proxy_server_request") or {}
    headers = {str(name).lower(): one for name, one in (request.get("headers") or {}).items()}
    name = headers.get(header.lower()) or get_session_id_from_request_data(data)
    if not isinstance(name, str) or not name.strip():
        return None
    if len(name) > _MAX_ID:
        raise InputError(f"the id of the conversation has {len(name)} characters; expected at most {_MAX_ID}")
    return f"{scope_of(auth)}:{name.strip()}"


def scope_of(auth: Any) -> str:
    """Returns the scope of a key's conversations: no other key can name one of them."""
    key = getattr(auth, "api_key", None) or getattr(auth, "token", None)
    named = ["key", str(key)] if key else ["user", str(getattr(auth, "user_id", None) or "")]
    named += [str(getattr(auth, name, None) or "") for name in ("team_id", "org_id")]
    return hashlib.sha256("\0".join(named).encode("utf-8", "surrogatepass")).hexdigest()[:32]


@contextmanager
def calling(auth: Any, roles_from: RolesFrom) -> Iterator[None]:
    """Checks inside are on behalf of this caller."""
    token = _caller.set((auth, roles_from))
    try:
        yield
    finally:
        _caller.reset(token)


def principal(conversation: str) -> dict[str, Any] | None:  # noqa: ARG001 - as a ToolGuard calls it
    """Returns the principal of the caller whose request is judged, for `ToolGuard(principal=...)`.

    Its `id` is the user of the key, or the alias of the key; its `tenant` is the team. Its `roles` are those in the
    metadata of the team, or, with `roles_from: key`, of the key and the team.
    """
    found = _caller.get()
    if found is None:
        return None
    auth, roles_from = found
    name = getattr(auth, "user_id", None) or getattr(auth, "key_alias", None) or f"key {scope_of(auth)[:12]}"
    team, roles = getattr(auth, "team_id", None), _roles(auth, roles_from)
    return {"id": str(name)} | ({"tenant": str(team)} if team else {}) | ({"roles": roles} if roles is not None else {})


def _roles(auth: Any, roles_from: RolesFrom) -> list[str] | None:
    places = ("team_metadata", "metadata") if roles_from == "key" else ("team_metadata",)
    lists = [(getattr(auth, place, None) or {}).get("roles") for place in places]
    if all(one is None for one in lists):
        return None
    return sorted({str(role) for one in lists if isinstance(one, list | tuple) for role in one})
