"""The command `mcp-proxy`, which runs a guard in front of an MCP server."""

from __future__ import annotations

import os
import re
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guardagent.cli import options, serve
from guardagent.cli.options import print_line
from guardagent.errors import InputError

if TYPE_CHECKING:
    from guardagent._support.http import HttpEndpoint
    from guardagent.enforcement import EnforcementPoint
    from guardagent.frameworks.mcp.adapter.http_front import HttpLimits
    from guardagent.frameworks.mcp.adapter.relay import Escalation
    from guardagent.frameworks.mcp.adapter.server_side import Target
    from guardagent.log import AuditLog
    from guardagent.sandbox.confined_command import Confinement
    from guardagent.types.values import SessionPrincipal


class ListChoice(StrEnum):
    ALLOWED = "allowed"
    ALL = "all"


class ApproverChoice(StrEnum):
    CLIENT = "client"
    TERMINAL = "terminal"
    EITHER = "either"
    NOBODY = "nobody"


Server = Annotated[list[str], typer.Argument(metavar="-- COMMAND… | URL", help="The server: a command or a URL.")]
StateFile = Annotated[
    Path | None, typer.Option("--state", help="The state for 'state(...)': a JSON object (a file), read at each check.")
]
LogAddress = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="LOG",
        help="The audit log for every verdict: a .db or .jsonl file, or postgresql://USER@HOST/DATABASE?stream=NAME.",
    ),
]
LogMaxBytes = Annotated[
    int | None, typer.Option("--log-max-bytes", min=1, help="The size at which the log begins a new .jsonl file.")
]
LogMaxAge = Annotated[
    float | None, typer.Option("--log-max-age", help="The age of a .jsonl file, in seconds, at which it does.")
]
LogSigningKey = Annotated[
    Path | None, typer.Option("--log-signing-key", metavar="FILE", help="The private key that signs the log.")
]
Absent = Annotated[
    list[str] | None, typer.Option("--absent", help="A tool that the rules name but this server lacks; repeatable.")
]
Conversation = Annotated[
    str | None, typer.Option("--conversation", help="The conversation id of the session on standard input.")
]
ApproverName = Annotated[
    ApproverChoice | None,
    typer.Option("--approver", help="Who approves escalated calls (default: the client, unless clients need tokens)."),
]
ConversationHeader = Annotated[
    str | None,
    typer.Option(
        "--conversation-header",
        metavar="NAME",
        help="The header that names the conversation of a request over HTTP without a session (MCP 2026-07-28).",
    ),
]
Header = Annotated[
    list[str] | None,
    typer.Option("--header", help="NAME=VARIABLE: a header for the URL, from an environment variable; repeatable."),
]
LedgerAddress = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="PATH|ADDRESS",
        help="Keeps conversations and used approvals across restarts: a .db file, postgresql://… or redis://….",
    ),
]
Counters = Annotated[
    str | None,
    typer.Option(
        "--counters",
        metavar="ADDRESS",
        help="The store of counters across conversations: sqlite:PATH, postgresql://… or redis://….",
    ),
]
Listen = Annotated[
    str | None, typer.Option("--listen", metavar="HOST:PORT", help="Serve clients over HTTP instead of standard input.")
]
MaxSessions = Annotated[int, typer.Option("--max-sessions", help="The most open sessions; each starts a server.")]
MaxOwnSessions = Annotated[int, typer.Option("--max-sessions-per-caller", help="The most open sessions of one caller.")]
SessionTimeout = Annotated[
    float, typer.Option("--session-timeout", help="The seconds without requests after which a session ends.")
]
Deadline = Annotated[float, typer.Option("--deadline", help="Time limit of a check in seconds; a slower check denies.")]
Zone = Annotated[str | None, typer.Option("--zone", help="The time zone of 'hour(now)', such as Europe/Berlin.")]
ToolsLock = Annotated[
    Path | None,
    typer.Option("--tools-lock", help="A lock file; tools that are missing from it or differ may not be called."),
]
AcceptTools = Annotated[
    Path | None,
    typer.Option("--accept-tools", metavar="FILE", help="Write the server's tools into this lock file, and exit."),
]
ListedTools = Annotated[
    ListChoice, typer.Option("--list", help="The tools that clients see: those that they may ever call, or all.")
]
ProtocolMin = Annotated[
    str | None,
    typer.Option(
        "--protocol-min", metavar="REVISION", help="Refuse older revisions of the protocol, such as 2025-06-18."
    ),
]
Confine = Annotated[
    bool,
    typer.Option("--confine", help="Confine the server to the programs of the system and the options below."),
]
ConfineRead = Annotated[
    list[str] | None, typer.Option("--confine-read", metavar="PATH", help="The confined server may read and run this.")
]
ConfineWrite = Annotated[
    list[str] | None, typer.Option("--confine-write", metavar="PATH", help="The confined server may change this.")
]
ConfineNetwork = Annotated[bool, typer.Option("--confine-network", help="The confined server gets the network.")]
ConfineHost = Annotated[
    list[str] | None,
    typer.Option("--confine-host", metavar="HOST[:PORT]", help="The confined server may reach this, by an HTTP proxy."),
]
StopPath = Annotated[
    Path | None,
    typer.Option("--stop-file", metavar="PATH", help="The file by which 'guardagent stop' stops it."),
]
GuardServer = Annotated[
    str | None,
    typer.Option(
        "--guard-server",
        metavar="URL",
        help="A server, 'guardagent serve', decides in place of --policies; its token is in GUARDAGENT_TOKEN.",
    ),
]
GuardTokenFile = Annotated[
    Path | None, typer.Option("--guard-token-file", help="The file with the token for --guard-server.")
]
GuardPolicy = Annotated[
    str, typer.Option("--guard-policy", metavar="NAME", help="The name of the policy on --guard-server.")
]


def mcp_proxy(
    server: Server,
    *,
    policies: options.OptionalPolicyFiles = None,
    state: StateFile = None,
    facts: options.FactsText = None,
    log: LogAddress = None,
    log_max_bytes: LogMaxBytes = None,
    log_max_age: LogMaxAge = None,
    log_signing_key: LogSigningKey = None,
    key_file: options.KeyFile = None,
    ledger: LedgerAddress = None,
    counters: Counters = None,
    stop_file: StopPath = None,
    alias: options.Alias = None,
    absent: Absent = None,
    conversation: Conversation = None,
    conversation_header: ConversationHeader = None,
    approver: ApproverName = None,
    header: Header = None,
    listen: Listen = None,
    clients: serve.ClientOptions,
    max_sessions: MaxSessions = 1000,
    max_sessions_per_caller: MaxOwnSessions = 100,
    max_requests: serve.MaxRequests = 1000,
    max_body: serve.MaxBody = 4 * 1024 * 1024,
    receive_timeout: serve.ReceiveTimeout = 30.0,
    session_timeout: SessionTimeout = 1800.0,
    deadline: Deadline = 10.0,
    zone: Zone = None,
    model: options.RequestModelName = None,
    locked: options.Locked = None,
    require_review: options.RequireReview = False,
    watch: options.Watch = False,
    tools_lock: ToolsLock = None,
    accept_tools: AcceptTools = None,
    listed: ListedTools = ListChoice.ALLOWED,
    protocol_min: ProtocolMin = None,
    confine: Confine = False,
    confine_read: ConfineRead = None,
    confine_write: ConfineWrite = None,
    confine_network: ConfineNetwork = False,
    confine_host: ConfineHost = None,
    guard_server: GuardServer = None,
    guard_token_file: GuardTokenFile = None,
    guard_policy: GuardPolicy = "default",
) -> None:
    """Run a guard in front of an MCP server.

    Every call is judged before it reaches the server.
    """
    import asyncio

    from guardagent._support.log_lines import log_as_text
    from guardagent.enforcement import ToolGuard
    from guardagent.frameworks.mcp.adapter.proxy import FileState, Proxy
    from guardagent.policy.load import load_policies

    log_as_text("guardagent: ")
    target = _target(
        server, header or [], _confinement(confine, confine_read, confine_write, confine_network, confine_host)
    )
    if accept_tools is not None:
        from guardagent.frameworks.mcp.adapter import catalogue

        print_line(catalogue.accept_tools(target, accept_tools))
        return
    if guard_server is not None:
        local_only = {"policies": policies, "log": log, "ledger": ledger, "counters": counters, "stop_file": stop_file}
        _refuse_local(**local_only, zone=zone, model=model, watch=watch)
    elif not policies:
        raise InputError("no policy file; expected '--policies FILE', or '--guard-server URL'")
    endpoint = _endpoint(
        listen,
        clients,
        sessions=max_sessions,
        sessions_per_caller=max_sessions_per_caller,
        requests=max_requests,
        body=max_body,
        receive_seconds=receive_timeout,
        idle_seconds=session_timeout,
    )
    has_callers = endpoint is not None and endpoint.authenticate is not None
    principals: dict[str, SessionPrincipal] = {}
    if endpoint is not None and conversation is not None:
        raise InputError(
            "'--conversation' and '--listen' exclude each other; each HTTP session is a conversation of its own"
        )
    if endpoint is None and conversation_header is not None:
        raise InputError("'--conversation-header' needs '--listen': at standard input there is one conversation")
    if ledger is not None and conversation is None:
        raise InputError("'--ledger' needs '--conversation': a conversation that outlives the proxy needs a fixed id")
    common: dict[str, Any] = {
        "state": FileState(state) if state is not None else None,
        "facts": options.read_facts(facts),
        "aliases": options.aliases_of(alias),
        "absent": absent or (),
        "tools_lock": tools_lock,
    }
    principal = (lambda name: principals[name].value) if has_callers else None
    guard: EnforcementPoint
    if guard_server is not None:
        from guardagent.enforcement.remote import RemoteGuard

        guard = RemoteGuard(
            guard_server,
            token_file=guard_token_file,
            policy=guard_policy,
            timeout=deadline,
            on_behalf_of=principal,
            **common,
        )
    else:
        guard = local = ToolGuard(
            load_policies(policies or (), model=model, locked=locked, require_review=require_review),
            principal=principal,
            log=_log(log, key_file, log_max_bytes, log_max_age, log_signing_key),
            ledger=ledger if ledger is None or ":" in ledger else f"sqlite:{ledger}",
            counters=counters,
            deadline=deadline,
            zone=zone,
            stop_file=stop_file,
            **common,
        )
    proxy = Proxy(
        guard,
        target,
        _escalation(approver or (ApproverChoice.NOBODY if has_callers else ApproverChoice.CLIENT)),
        conversation,
        resumable=ledger is not None or (guard_server is not None and conversation is not None),
        principals=principals,
        lists_all=listed is ListChoice.ALL,
        header=conversation_header,
        least=_revision(protocol_min),
    )
    with options.watching(local.policies, locked) if watch else nullcontext():
        asyncio.run(proxy.serve_stdio() if endpoint is None else proxy.serve_http(endpoint))


def _endpoint(listen: str | None, clients: serve.ClientOptions, **limits: Any) -> HttpEndpoint[HttpLimits] | None:
    """Returns the address to listen at; None for standard input."""
    if listen is None:
        clients.refuse()
        return None
    from guardagent.frameworks.mcp.adapter import require_mcp

    require_mcp()
    from guardagent.frameworks.mcp.adapter.http_front import HttpLimits

    return clients.endpoint(serve.read_address(listen), clients.access(), HttpLimits(**limits))


def _refuse_local(**options: Any) -> None:
    """Refuses options that are those of the server.

    Raises:
        InputError: there is one.
    """
    for name, value in options.items():
        if value:
            raise InputError(
                f"'--{name.replace('_', '-')}' and '--guard-server' exclude each other; the server has its own"
            )


def _confinement(
    confine: bool,  # noqa: FBT001 - as the options
    read: list[str] | None,
    write: list[str] | None,
    network: bool,  # noqa: FBT001 - as above
    hosts: list[str] | None,
) -> Confinement | None:
    from guardagent.sandbox.confined_command import Confinement

    if network and hosts:
        raise InputError("'--confine-network' gives all hosts; expected it, or '--confine-host'")
    if confine:
        folders = [*map(_absolute, read or ())], [*map(_absolute, write or ())]
        return Confinement(*folders, network, [*map(_host, hosts or ())])
    if read or write or network or hosts:
        raise InputError(
            "'--confine-read', '--confine-write', '--confine-network' and '--confine-host' need '--confine'"
        )
    return None


def _host(text: str) -> str:
    name, _, port = text.lower().partition(":")
    if not re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", name) or not re.fullmatch(r"[0-9]{0,5}", port):
        raise InputError(
            f"'--confine-host' is {text[:80]!r}; expected a host such as api.example.com or db.example:5432"
        )
    return f"{name}:{port or 443}"


def _absolute(path: str) -> str:
    if not path:
        raise InputError("a path of '--confine-read' or '--confine-write' is empty; expected a file or folder")
    return str(Path(path).expanduser().absolute())


def _target(server: list[str], headers: list[str], confinement: Confinement | None) -> Target:
    from guardagent.frameworks.mcp.adapter import require_mcp
    from guardagent.frameworks.mcp.adapter.server_side import CommandTarget

    if server[0].startswith(("http://", "https://")):
        if len(server) > 1:
            raise InputError(f"unexpected argument {server[1]!r} after the URL; expected the URL alone")
        if confinement is not None:
            raise InputError("'--confine' applies to a command only; the server is a URL")
        require_mcp()
        from guardagent.frameworks.mcp.adapter.http_link import UrlTarget

        return UrlTarget(server[0], dict(_header(header) for header in headers))
    if headers:
        raise InputError("'--header' applies to a URL only; the server is a command")
    return CommandTarget(server if confinement is None else confinement.command(server))


def _revision(text: str | None) -> str:
    from guardagent.frameworks.mcp.adapter.calls import NEWEST, REVISION

    if text is not None and not (REVISION.fullmatch(text) and text <= NEWEST):
        raise InputError(
            f"'--protocol-min' is {text!r}; expected the date of a revision, such as 2025-06-18, to {NEWEST}"
        )
    return text or ""


def _header(text: str) -> tuple[str, str]:
    """Takes the value from the environment: other users can read a command line."""
    name, _, variable = text.partition("=")
    if not name or not variable:
        raise InputError(f"'--header' is {text!r}; expected NAME=VARIABLE, such as 'Authorization=MCP_AUTHORIZATION'")
    value = os.environ.get(variable)
    if value is None:
        raise InputError(f"'--header' is {text!r}, but the environment variable {variable!r} is not set")
    return name, value


def _log(
    address: str | None,
    key_file: Path | None,
    max_bytes: int | None,
    max_age: float | None,
    signing_key: Path | None,
) -> AuditLog | None:
    from guardagent.log import AuditLog, load_key

    options = {"--key-file": key_file, "--log-max-bytes": max_bytes, "--log-max-age": max_age}
    options["--log-signing-key"] = signing_key
    if address is not None:
        key = load_key(key_file)
        return AuditLog(address, key=key, max_bytes=max_bytes, max_age=max_age, signing_key=signing_key)
    if needless := next((name for name, value in options.items() if value is not None), None):
        raise InputError(f"{needless!r} needs '--log'")
    return None


def _escalation(who: ApproverChoice) -> Escalation:
    from guardagent.frameworks.mcp.adapter.proxy import ask_at_terminal
    from guardagent.frameworks.mcp.adapter.relay import Escalation

    terminal: Any = ask_at_terminal if who in (ApproverChoice.TERMINAL, ApproverChoice.EITHER) else None
    return Escalation(client=who in (ApproverChoice.CLIENT, ApproverChoice.EITHER), approver=terminal)
