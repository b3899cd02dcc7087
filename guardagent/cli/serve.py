"""The commands `serve`, `token` and `generate-server`, and the options of commands that listen at an address.

The options are who may call, TLS, and limits on clients. `serve` runs guards for the agents of a team, over HTTP.
`generate-server` has a local model behind an OpenAI-compatible address, guarded while it writes calls.
"""

from __future__ import annotations

import asyncio
import getpass
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guardagent._support.http import HttpEndpoint, Limits, RequestLimits, is_loopback, require_free
from guardagent._support.log_lines import log_as_json, log_as_text
from guardagent.cli.options import Json, note, print_json, print_line
from guardagent.errors import InputError

if TYPE_CHECKING:
    import socket

    from guardagent.server.access import AccessControl, IssuedToken, TokenStore
    from guardagent.server.settings import ServerSettings


MaxRequests = Annotated[int, typer.Option("--max-requests", help="The most requests in flight.")]
MaxBody = Annotated[int, typer.Option("--max-body", help="The most bytes of a request.")]
ReceiveTimeout = Annotated[
    float, typer.Option("--receive-timeout", help="The seconds in which a client must send a request, or read a part.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """The options of a server about its clients: who may call, TLS, and the names of the server."""

    tokens: Annotated[
        Path | None,
        typer.Option(
            "--tokens", metavar="FILE", help="Clients need a token of this store; see 'guardagent token create'."
        ),
    ] = None
    oidc: Annotated[
        Path | None,
        typer.Option(
            "--oidc", metavar="FILE", help="Clients need a token of the OpenID provider that this file names."
        ),
    ] = None
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE", help="The TLS certificate, with its chain: a PEM file.")
    ] = None
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE", help="The key of the certificate: a PEM file.")
    ] = None
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure", help="Listen without TLS: a reverse proxy in front ends it. Clients still need tokens."
        ),
    ] = False
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="A further value of the header Host; repeatable."),
    ] = None

    def refuse(self) -> None:
        """Refuses all of them, for a server without an address.

        Raises:
            InputError: one is set.
        """
        for option in fields(self):
            if getattr(self, option.name):
                raise InputError(f"'--{option.name.replace('_', '-')}' needs '--listen'")

    def access(self) -> AccessControl | None:
        """Returns who may call; None if there is neither a token store nor a provider.

        Raises:
            InputError: a file is missing or invalid.
        """
        from guardagent.server.access import AccessControl, OidcVerifier, TokenStore, read_oidc_settings

        if self.tokens is None and self.oidc is None:
            return None
        store = None if self.tokens is None else TokenStore(self.tokens)
        verifier = None if self.oidc is None else OidcVerifier(read_oidc_settings(self.oidc))
        return AccessControl(store, verifier)

    def endpoint(self, address: tuple[str, int], access: AccessControl | None, limits: Limits) -> HttpEndpoint[Limits]:
        """Returns the address to listen at, and who may use it.

        Raises:
            InputError: an option is invalid or needs another one, or the address would be open to everyone.
        """
        certificate, key = self.tls_cert, self.tls_key
        if (certificate is None) is not (key is None):
            missing = "--tls-cert" if certificate is None else "--tls-key"
            raise InputError(f"'{missing}' is missing; expected both files, of the certificate and of its key")
        return HttpEndpoint(
            *address,
            limits,
            authenticate=None if access is None else access.admit,  # refused without TLS and tokens
            certificate=None if certificate is None or key is None else (certificate, key),
            behind_proxy=self.insecure,
            names=tuple(self.allow_host or ()),
        )


def read_address(text: str) -> tuple[str, int]:
    """Reads the address to listen at.

    Raises:
        InputError: it is not HOST:PORT.
    """
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or not 0 < int(port[:6]) < 65536:
        raise InputError(f"'--listen' is {text!r}; expected HOST:PORT, such as '127.0.0.1:8765'")
    return host.strip("[]"), int(port)


# --- serve


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
Workers = Annotated[
    int, typer.Option("--workers", min=1, help="The number of processes that serve; each has limits of its own.")
]


def serve(
    *,
    policies: PolicyFiles = None,
    settings: SettingsFile = None,
    state: StateAddress = None,
    log: LogFolder = None,
    listen: ServerAddress = "127.0.0.1:8764",
    clients: ClientOptions,
    max_requests: MaxRequests = 1000,
    max_body: MaxBody = 4 * 1024 * 1024,
    receive_timeout: ReceiveTimeout = 30.0,
    json_logs: JsonLogs = False,
    workers: Workers = 1,
) -> None:
    """Serve guards to the agents of a team over HTTP.

    Without --tokens and --oidc, on this machine alone, the first start creates a token store with a token for an agent
    and one for you, and shows them once.
    """
    from guardagent.server.http import new_service, run_server, run_workers

    write_logs = log_as_json if json_logs else log_as_text
    write_logs()
    server_settings, address = _settings(policies, settings, state, log), read_address(listen)
    if clients.tokens is None and clients.oidc is None and is_loopback(address[0]):
        require_free(*address)  # or tokens would be shown that no server accepts
        clients = replace(clients, tokens=_own_tokens(server_settings))
    access, limits = clients.access(), RequestLimits(max_requests, max_body, receive_timeout)
    endpoint = clients.endpoint(address, access, limits)
    assert access is not None
    if workers == 1:
        asyncio.run(run_server(server_settings, access, endpoint))
        return
    new_service(server_settings, access).close()  # an error of the settings shows here, once
    run_workers(workers, partial(_work, write_logs, server_settings, clients, address, limits), endpoint)


def _work(
    write_logs: Callable[[], None],
    settings: ServerSettings,
    clients: ClientOptions,
    address: tuple[str, int],
    limits: RequestLimits,
    listening: socket.socket,
) -> None:
    from guardagent.server.http import run_server

    write_logs()
    access = clients.access()
    assert access is not None
    asyncio.run(run_server(settings, access, clients.endpoint(address, access, limits), listening))


def _settings(policies: list[Path] | None, path: Path | None, state: str | None, log: str | None) -> ServerSettings:
    """Returns the settings of the file and the options; an option overrides the file.

    Raises:
        InputError: the settings are invalid, or name the policies twice.
    """
    from guardagent.server.settings import ServerSettings, read_server_settings

    if policies and path is not None:
        raise InputError("'--policies' and '--settings' both name policies; expected one of them")
    server_settings = ServerSettings.of_files(*(policies or ())) if path is None else read_server_settings(path)
    return replace(
        server_settings,
        state=server_settings.state if state is None else state,
        log=server_settings.log if log is None else log,
    )


def _own_tokens(settings: ServerSettings) -> Path:
    """Returns the token store beside the state. The first start creates two tokens and shows them."""
    from guardagent.server.access import TokenStore
    from guardagent.server.settings import DEFAULT_FOLDER

    scheme, _, rest = settings.state.partition(":")
    folder = Path(rest if scheme == "sqlite" and rest else DEFAULT_FOLDER)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / "tokens.db"
    store = TokenStore(path, create=True)
    if not list(store.list()):
        _create_tokens(store, path)
    return path


def _create_tokens(store: TokenStore, path: Path) -> None:
    from guardagent.server.access import Caller, CallerRole

    seconds = _DAYS * 86400.0
    _, agent = store.create(Caller("agent", frozenset({CallerRole.AGENT}), _TENANT), seconds)
    _, person = store.create(Caller("operator", frozenset(CallerRole) - {CallerRole.AGENT}, _TENANT), seconds)
    print_line(f"agent's token: {agent}")
    print_line(f"your token:    {person}")
    note(f"created {path} with these tokens, valid {_DAYS} days; they are not shown again")


# --- token


TokenFile = Annotated[Path, typer.Option("--tokens", help="The token store: a .db file.")]
TokenLog = Annotated[
    str | None, typer.Option("--log", metavar="ADDRESS", help="Also record this in a log, such as that of the tenant.")
]
TokenName = Annotated[str, typer.Argument(help="Its id, such as ga_0123456789ab, or the whole token.")]


def create(
    *,
    tokens: TokenFile,
    principal: Annotated[str, typer.Option("--principal", help="The agent, person or service that gets it.")],
    role: Annotated[
        list[str], typer.Option("--role", help="agent, approver, auditor or admin; an agent has no other; repeatable.")
    ],
    tenant: Annotated[str, typer.Option("--tenant", help="Its tenant; '*' for an admin of every tenant.")],
    group: Annotated[list[str] | None, typer.Option("--group", help="A group of an approver; repeatable.")] = None,
    expires: Annotated[
        str, typer.Option("--expires", help="How long it is valid, such as 12h or 90d; or never.")
    ] = "90d",
    log: TokenLog = None,
    as_json: Json = False,
) -> None:
    """Create a token and show it, once: the store has only its hash."""
    from guardagent.server.access import Caller, TokenStore, roles_of

    caller, seconds = Caller(principal, roles_of(role), tenant, frozenset(group or ())), _seconds(expires)
    issued, text = TokenStore(tokens, create=True).create(caller, seconds)
    _log_change(log, "created", issued)
    _show_token(issued, text, as_json=as_json)


def rotate(
    token: TokenName,
    *,
    tokens: TokenFile,
    expires: Annotated[
        str | None, typer.Option("--expires", help="How long the new one is valid; by default as long as the old one.")
    ] = None,
    overlap: Annotated[
        str, typer.Option("--overlap", help="How long the old one stays valid, such as 1h; by default not at all.")
    ] = "",
    log: TokenLog = None,
    as_json: Json = False,
) -> None:
    """Create a token in the place of another one, which ends, and show it once."""
    from guardagent.server.access import TokenStore

    seconds = None if expires is None else _seconds(expires)
    left = float(_seconds(overlap, "--overlap") or 0.0) if overlap else 0.0
    issued, text = TokenStore(tokens).rotate(token, seconds, left)
    _log_change(log, "rotated", issued, earlier=_id_of(token))
    _show_token(issued, text, as_json=as_json)


def _show_token(issued: IssuedToken, text: str, *, as_json: bool) -> None:
    if as_json:
        print_json({**_record(issued), "token": text})
        return
    print_line(text)
    note(f"created {issued.id} for {issued.caller.id}, valid {_until(issued.expires)}; it is not shown again")


def _log_change(address: str | None, action: str, token: IssuedToken | str, **more: str) -> None:
    if address is not None:
        from guardagent.log import AuditLog
        from guardagent.server.access import token_record

        with AuditLog(address) as log:
            log.append(token_record(action, getpass.getuser(), token, **more))


def list_tokens(*, tokens: TokenFile, as_json: Json = False) -> None:
    """List the tokens, without their secrets."""
    from guardagent.server.access import TokenStore

    records = [_record(token) for token in TokenStore(tokens).list()]
    if as_json:
        print_json({"tokens": records})
        return
    for record in records:
        groups = f" ({', '.join(record['groups'])})" if record["groups"] else ""
        roles = ",".join(record["roles"]) + groups
        print_line(
            f"{record['id']}  {record['status']:7}  {roles}  "
            f"{record['tenant']}  {record['principal']}  {record['expires']}"
        )


def revoke(token: TokenName, *, tokens: TokenFile, log: TokenLog = None) -> None:
    """Revoke a token; the next request with it is refused."""
    from guardagent.server.access import TokenStore

    TokenStore(tokens).revoke(token)
    _log_change(log, "revoked", _id_of(token))
    note("revoked")


def _id_of(token: str) -> str:
    """Returns the id in a token, or the id itself."""
    return "_".join(token.split("_")[:2])


def _seconds(text: str, option: str = "--expires") -> float | None:
    from guardagent.policy.language.values import duration_of

    duration = duration_of(text)
    if text != "never" and not duration:
        raise InputError(f"'{option}' is {text!r}; expected a duration such as '12h' or '90d', or 'never'")
    return None if duration is None else float(duration)


def _record(issued: IssuedToken) -> dict[str, Any]:
    return {
        "id": issued.id,
        "principal": issued.caller.id,
        "roles": sorted(map(str, issued.caller.roles)),
        "groups": sorted(issued.caller.groups),
        "tenant": issued.caller.tenant,
        "created": _moment(issued.created),
        "expires": None if issued.expires is None else _moment(issued.expires),
        "status": issued.status(time.time()),
    }


def _until(expires: float | None) -> str:
    return "for ever" if expires is None else f"until {_moment(expires)}"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


# --- generate-server


ModelFolder = Annotated[str, typer.Argument(metavar="MODEL", help="The folder of a model of transformers.")]
ModelPolicies = Annotated[list[Path], typer.Option("--policies", help="The policy file; repeatable.")]
ConversationState = Annotated[
    str | None,
    typer.Option("--state", metavar="ADDRESS", help="Where conversations last: sqlite:FILE (default: in memory)."),
]
LogFile = Annotated[Path | None, typer.Option("--log", metavar="FILE", help="The audit log: .jsonl or .db.")]
Device = Annotated[str, typer.Option("--device", help="The device of the model: cpu, cuda and so on.")]
Dtype = Annotated[str, typer.Option("--dtype", help="The type of its numbers: auto, float32, bfloat16 and so on.")]
Slots = Annotated[int, typer.Option("--slots", help="The most turns that are generated at once.")]
MaxLength = Annotated[int, typer.Option("--max-length", help="The most tokens of a prompt with its turn.")]
MaxTokens = Annotated[int, typer.Option("--max-tokens", help="The most tokens of a turn.")]
Mode = Annotated[str, typer.Option("--mode", help="exact: the model's own distribution; fast: fewer tokens.")]
Format = Annotated[str, typer.Option("--tool-format", help="The format of calls; auto: that of the chat template.")]
Name = Annotated[str | None, typer.Option("--name", help="The name of the model for clients (default: its folder's).")]


def generate_server(
    model: ModelFolder,
    *,
    policies: ModelPolicies,
    state: ConversationState = None,
    log: LogFile = None,
    device: Device = "cpu",
    dtype: Dtype = "auto",
    slots: Slots = 16,
    max_length: MaxLength = 4096,
    max_tokens: MaxTokens = 1024,
    mode: Mode = "exact",
    tool_format: Format = "auto",
    name: Name = None,
    listen: ServerAddress = "127.0.0.1:8765",
    clients: ClientOptions,
    max_requests: MaxRequests = 256,
    max_body: MaxBody = 4 * 1024 * 1024,
    receive_timeout: ReceiveTimeout = 30.0,
) -> None:
    """Serve a local model's chat completions; a tool call that the policy forbids never leaves the model."""
    from guardagent._support.requirements import require

    log_as_text()
    require({"starlette": "0.46", "uvicorn": "0.34"}, "server")
    if mode not in ("exact", "fast"):
        raise InputError(f"'--mode' is {mode!r}; expected 'exact' or 'fast'")
    address, access = read_address(listen), clients.access()
    endpoint = clients.endpoint(address, access, RequestLimits(max_requests, max_body, receive_timeout))
    require_free(*address)  # before the model is loaded
    from guardagent.server.completions import load_batch, open_guard, run_completions_server
    from guardagent.server.completions.application import CompletionSettings
    from guardagent.server.completions.generation import ServedConversations

    principals: dict[str, Any] | None = None if access is None else {}
    conversations = ServedConversations(open_guard(policies, state, log, principals), principals)
    settings: Any = CompletionSettings(name or Path(model).resolve().name, mode, max_tokens, tool_format)  # type: ignore[arg-type]
    batch = load_batch(model, device=device, dtype=dtype, slots=slots, max_length=max_length)
    asyncio.run(run_completions_server(settings, conversations, batch, endpoint))
