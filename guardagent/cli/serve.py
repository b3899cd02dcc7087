"""The command `serve`: guards for the agents of a team, over HTTP."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guardagent._support.files import log_as_json, log_as_text
from guardagent._support.http import is_loopback
from guardagent.cli.listen import (
    AllowHost,
    Certificate,
    CertificateKey,
    ClientTokens,
    Insecure,
    MaxBody,
    MaxRequests,
    OidcFile,
    ReceiveTimeout,
    access_of,
    certificate_of,
    read_address,
)
from guardagent.cli.output import note, print_line
from guardagent.errors import InputError

if TYPE_CHECKING:
    from guardagent.server.access import AccessControl, TokenStore
    from guardagent.server.settings import ServerSettings

_TENANT = "default"
_DAYS = 90

PolicyFiles = Annotated[
    list[Path] | None, typer.Option("--policies", help="The policy file, as the policy 'default'; repeatable.")
]
SettingsFile = Annotated[
    Path | None, typer.Option("--settings", metavar="FILE", help="The settings: several policies, tenants and more.")
]
StateAddress = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar="ADDRESS",
        help="The state that all servers share: sqlite:FOLDER, postgresql://… or redis://… "
        "(default: sqlite:guardagent-state).",
    ),
]
LogFolder = Annotated[
    str | None,
    typer.Option("--log", metavar="FOLDER|ADDRESS", help="The logs of all tenants: a folder, or postgresql://…."),
]
JsonLogs = Annotated[bool, typer.Option("--json-logs", help="Write the server's own messages as JSON, a line each.")]
ServerAddress = Annotated[str, typer.Option("--listen", metavar="HOST:PORT", help="The address to listen at.")]


def serve(
    *,
    policies: PolicyFiles = None,
    settings: SettingsFile = None,
    state: StateAddress = None,
    log: LogFolder = None,
    listen: ServerAddress = "127.0.0.1:8764",
    tokens: ClientTokens = None,
    oidc: OidcFile = None,
    tls_cert: Certificate = None,
    tls_key: CertificateKey = None,
    insecure: Insecure = False,
    allow_host: AllowHost = None,
    max_requests: MaxRequests = 1000,
    max_body: MaxBody = 4 * 1024 * 1024,
    receive_timeout: ReceiveTimeout = 30.0,
    json_logs: JsonLogs = False,
) -> None:
    """Serve guards to the agents of a team over HTTP.

    Without --tokens and --oidc, on this machine alone, the first start creates a token store with a token for an agent
    and one for you, and shows them once.
    """
    from guardagent._support.http import HttpEndpoint, RequestLimits
    from guardagent.server.http import run_server

    if json_logs:
        log_as_json()
    else:
        log_as_text()
    found = _settings(policies, settings, state, log)
    host, port = read_address(listen)
    access = access_of(tokens, oidc)
    if access is None and is_loopback(host):
        access = _own_access(found)
    endpoint = HttpEndpoint(
        host,
        port,
        RequestLimits(max_requests, max_body, receive_timeout),
        authenticate=None if access is None else access.admit,  # refused without TLS and tokens
        certificate=certificate_of(tls_cert, tls_key),
        behind_proxy=insecure,
        names=tuple(allow_host or ()),
    )
    assert access is not None
    asyncio.run(run_server(found, access, endpoint))


def _settings(policies: list[Path] | None, path: Path | None, state: str | None, log: str | None) -> ServerSettings:
    """Returns the settings of the file and the options; an option overrides the file.

    Raises:
        InputError: the settings are invalid, or name the policies twice.
    """
    from guardagent.server.settings import ServerSettings, read_server_settings

    if policies and path is not None:
        raise InputError("'--policies' and '--settings' both name policies; expected one of them")
    found = ServerSettings.of_files(*(policies or ())) if path is None else read_server_settings(path)
    return replace(found, state=found.state if state is None else state, log=found.log if log is None else log)


def _own_access(settings: ServerSettings) -> AccessControl:
    """Returns the access by tokens beside the state. The first start creates two of them and shows them."""
    from guardagent.server.access import AccessControl, TokenStore
    from guardagent.server.settings import DEFAULT_FOLDER

    scheme, _, rest = settings.state.partition(":")
    folder = Path(rest if scheme == "sqlite" and rest else DEFAULT_FOLDER)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    store = TokenStore(folder / "tokens.db", create=True)
    if not list(store.list()):
        _create_tokens(store, folder / "tokens.db")
    return AccessControl(store)


def _create_tokens(store: TokenStore, path: Path) -> None:
    from guardagent.server.access import Caller, CallerRole

    seconds = _DAYS * 86400.0
    _, agent = store.create(Caller("agent", frozenset({CallerRole.AGENT}), _TENANT), seconds)
    _, person = store.create(Caller("operator", frozenset(CallerRole) - {CallerRole.AGENT}, _TENANT), seconds)
    print_line(f"agent's token: {agent}")
    print_line(f"your token:    {person}")
    note(f"created {path} with these tokens, valid {_DAYS} days; they are not shown again")
