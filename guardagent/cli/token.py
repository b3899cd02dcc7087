"""The commands `token create`, `token list` and `token revoke`."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guardagent.cli.options import Json
from guardagent.cli.output import note, print_json, print_line
from guardagent.errors import InputError

if TYPE_CHECKING:
    from guardagent.server.access import IssuedToken

TokenFile = Annotated[Path, typer.Option("--tokens", help="The token store: a .db file.")]


def create(
    *,
    tokens: TokenFile,
    principal: Annotated[str, typer.Option("--principal", help="The agent, person or service that gets it.")],
    role: Annotated[
        list[str], typer.Option("--role", help="agent, approver, auditor or admin; an agent has no other; repeatable.")
    ],
    tenant: Annotated[str, typer.Option("--tenant", help="Its tenant; '*' for an admin of every tenant.")],
    expires: Annotated[
        str, typer.Option("--expires", help="How long it is valid, such as 12h or 90d; or never.")
    ] = "90d",
    as_json: Json = False,
) -> None:
    """Create a token and show it, once: the store has only its hash."""
    from guardagent.server.access import Caller, TokenStore
    from guardagent.server.access.caller import roles_of

    caller, seconds = Caller(principal, roles_of(role), tenant), _seconds(expires)
    issued, text = TokenStore(tokens, create=True).create(caller, seconds)
    if as_json:
        print_json({**_record(issued), "token": text})
        return
    print_line(text)
    note(f"created {issued.id} for {principal}, valid {_until(issued.expires)}; it is not shown again")


def list_tokens(*, tokens: TokenFile, as_json: Json = False) -> None:
    """List the tokens, without their secrets."""
    from guardagent.server.access import TokenStore

    records = [_record(one) for one in TokenStore(tokens).list()]
    if as_json:
        print_json({"tokens": records})
        return
    for one in records:
        roles = ",".join(one["roles"])
        print_line(f"{one['id']}  {one['status']:7}  {roles}  {one['tenant']}  {one['principal']}  {one['expires']}")


def revoke(
    token: Annotated[str, typer.Argument(help="Its id, such as ga_0123456789ab, or the whole token.")],
    *,
    tokens: TokenFile,
) -> None:
    """Revoke a token; the next request with it is refused."""
    from guardagent.server.access import TokenStore

    TokenStore(tokens).revoke(token)
    note("revoked")


def _seconds(text: str) -> float | None:
    from guardagent.policy.language.values import duration_of

    found = duration_of(text)
    if text != "never" and not found:
        raise InputError(f"'--expires' is {text!r}; expected a duration such as '12h' or '90d', or 'never'")
    return None if found is None else float(found)


def _record(issued: IssuedToken) -> dict[str, Any]:
    return {
        "id": issued.id,
        "principal": issued.caller.id,
        "roles": sorted(map(str, issued.caller.roles)),
        "tenant": issued.caller.tenant,
        "created": _moment(issued.created),
        "expires": None if issued.expires is None else _moment(issued.expires),
        "status": issued.status(time.time()),
    }


def _until(expires: float | None) -> str:
    return "for ever" if expires is None else f"until {_moment(expires)}"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
