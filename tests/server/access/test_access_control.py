"""The header `Authorization`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from guardagent.errors import ForbiddenError, UnauthenticatedError
from guardagent.server.access import AccessControl, Caller, CallerRole, TokenStore


@pytest.fixture
def store(tmp_path: Path) -> TokenStore:
    return TokenStore(tmp_path / "tokens.db", create=True)


def token_of(store: TokenStore, role: CallerRole) -> str:
    return store.create(Caller("bot", frozenset({role}), "shop"), None)[1]


@pytest.mark.parametrize("form", ["Bearer {}", "bearer {}", "BEARER   {}", " Bearer {}\t"])
def test_one_bearer_token(store: TokenStore, form: str) -> None:
    """The scheme has any case (RFC 9110)."""
    token = token_of(store, CallerRole.AGENT)
    assert AccessControl(store).authenticate([form.format(token)]).id == "bot"


@pytest.mark.parametrize(
    "headers",
    [
        lambda token: [],
        lambda token: [""],
        lambda token: [token],
        lambda token: [f"Bearer {token}", f"Bearer {token}"],
        lambda token: [f"Bearer {token}, Bearer {token}"],
        lambda token: [f"Bearer {token} {token}"],
        lambda token: [f"Basic {token}"],
        lambda token: [f"Bearer\n{token}"],
        lambda token: [f"Bearer\u00a0{token}"],
        lambda token: [f"Bearer {token}\u0661"],
        lambda token: ["Bearer " + "a" * 20_000],
        lambda token: ["Bearer eyJhbGciOiJub25lIn0.e30."],
    ],
)
def test_anything_else_is_nobody(store: TokenStore, headers: Callable[[str], list[str]]) -> None:
    """Exactly one header, with exactly one token."""
    token = token_of(store, CallerRole.AGENT)
    with pytest.raises(UnauthenticatedError) as error:
        AccessControl(store).authenticate(headers(token))
    assert token not in str(error.value)


def test_an_operation_needs_its_role(store: TokenStore) -> None:
    """An agent calls and reads no metrics, an auditor the reverse; there are no other operations."""
    control = AccessControl(store)
    agent, auditor = ([f"Bearer {token_of(store, role)}"] for role in (CallerRole.AGENT, CallerRole.AUDITOR))
    assert control.admit(agent, "call").value == {"id": "bot", "roles": ("agent",), "tenant": "shop"}
    assert control.admit(auditor, "read metrics").roles == frozenset({"auditor"})
    for headers, operation in ((agent, "read metrics"), (auditor, "call"), (agent, "answer approvals"), (agent, "x")):
        with pytest.raises(ForbiddenError):
            control.admit(headers, operation)
