"""The command `mcp-proxy`: a guard before an MCP server."""

from __future__ import annotations

import logging
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guardagent.cli.options import FactsText, Locked, RequestModelName, read_facts
from guardagent.cli.output import print_line
from guardagent.errors import InputError

if TYPE_CHECKING:
    from guardagent.frameworks.mcp.adapter.links import Target
    from guardagent.frameworks.mcp.adapter.pending_requests import Escalation
    from guardagent.log import AuditLog


class ApproverChoice(StrEnum):
    CLIENT = "client"
    TERMINAL = "terminal"
    EITHER = "either"
    NOBODY = "nobody"


Server = Annotated[list[str], typer.Argument(metavar="-- COMMAND… | URL", help="The server: a command, or its URL.")]
PolicyFile = Annotated[str | None, typer.Option("-p", "--policies", help="The policy file.")]
StateFile = Annotated[
    Path | None, typer.Option("--state", help="What `state(...)` looks at: a JSON object (a file), read at each check.")
]
LogFile = Annotated[Path | None, typer.Option("--log", help="Write every verdict there: a .db or .jsonl file.")]
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", help="The key of the log; else that in GUARDAGENT_LOG_KEY.")
]
Alias = Annotated[list[str] | None, typer.Option("--alias", help="TOOL=NAME: a tool's name in the rules; repeatable.")]
Absent = Annotated[
    list[str] | None, typer.Option("--absent", help="A tool that rules name and this server has not; repeatable.")
]
Conversation = Annotated[str | None, typer.Option("--conversation", help="The id of the session at standard input.")]
ApproverName = Annotated[
    ApproverChoice, typer.Option("--approver", help="Who is asked about calls that are escalated.")
]
Header = Annotated[
    list[str] | None,
    typer.Option("--header", help="NAME=VARIABLE: a header for a URL, from an environment variable; repeatable."),
]
Listen = Annotated[
    str | None, typer.Option("--listen", metavar="HOST:PORT", help="Serve clients over HTTP instead of standard input.")
]
LedgerFile = Annotated[
    Path | None, typer.Option("--ledger", help="Where conversations and used approvals outlive the proxy: a .db file.")
]
Deadline = Annotated[float, typer.Option("--deadline", help="Seconds that a check may take; longer denies.")]
ToolsLock = Annotated[
    Path | None, typer.Option("--tools-lock", help="A lock file; no tool may be called that does not stand in it so.")
]
AcceptTools = Annotated[
    Path | None,
    typer.Option("--accept-tools", metavar="FILE", help="Write the tools of the server into that lock file, and end."),
]


def mcp_proxy(
    server: Server,
    *,
    policies: PolicyFile = None,
    state: StateFile = None,
    facts: FactsText = None,
    log: LogFile = None,
    key_file: KeyFile = None,
    ledger: LedgerFile = None,
    alias: Alias = None,
    absent: Absent = None,
    conversation: Conversation = None,
    approver: ApproverName = ApproverChoice.CLIENT,
    header: Header = None,
    listen: Listen = None,
    deadline: Deadline = 10.0,
    model: RequestModelName = None,
    locked: Locked = None,
    tools_lock: ToolsLock = None,
    accept_tools: AcceptTools = None,
) -> None:
    """Guard an MCP server: every call is judged before the server hears of it."""
    import asyncio

    from guardagent.enforcement import SqliteLedger, ToolGuard
    from guardagent.frameworks.mcp.adapter.proxy import Proxy
    from guardagent.frameworks.mcp.adapter.state_file import FileState
    from guardagent.policy.load import load_policies

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="guardagent: %(message)s")
    if accept_tools is not None:
        _accept(_target(server, header or []), accept_tools)
        return
    if policies is None:
        raise InputError("no rules are given; expected --policies FILE")
    at = _address(listen)
    if at is not None and conversation is not None:
        raise InputError("--conversation with --listen; each HTTP session is a conversation of its own")
    if ledger is not None and conversation is None:
        raise InputError("--ledger without --conversation; expected both: what goes on needs an id that stays")
    guard = ToolGuard(
        load_policies(policies, model=model, locked=locked),
        state=FileState(state) if state is not None else None,
        facts=read_facts(facts),
        aliases=_aliases(alias or []),
        absent=absent or (),
        tools_lock=tools_lock,
        log=_log(log, key_file),
        ledger=SqliteLedger(ledger) if ledger is not None else None,
        deadline=deadline,
    )
    proxy = Proxy(
        guard, _target(server, header or []), _escalation(approver), conversation, resumable=ledger is not None
    )
    asyncio.run(proxy.serve_stdio() if at is None else proxy.serve_http(*at))


def _accept(target: Target, path: Path) -> None:
    from guardagent.frameworks.mcp.adapter.tool_acceptance import accept_tools

    print_line(accept_tools(target, path))


def _target(server: list[str], headers: list[str]) -> Target:
    from guardagent.frameworks.mcp.adapter import require_mcp
    from guardagent.frameworks.mcp.adapter.http_link import UrlTarget
    from guardagent.frameworks.mcp.adapter.links import CommandTarget

    if server[0].startswith(("http://", "https://")):
        if len(server) > 1:
            raise InputError(f"{server[1]!r} after a URL; expected the URL alone")
        require_mcp()
        return UrlTarget(server[0], dict(_header(one) for one in headers))
    if headers:
        raise InputError("--header with a command; expected it with a URL")
    return CommandTarget(server)


def _header(text: str) -> tuple[str, str]:
    """The value comes from the environment: on a command line everybody could read it."""
    name, _, variable = text.partition("=")
    if not name or not variable:
        raise InputError(f"--header {text!r}; expected NAME=VARIABLE, such as Authorization=MCP_AUTHORIZATION")
    value = os.environ.get(variable)
    if value is None:
        raise InputError(f"--header {text!r}: the environment has no {variable}; expected it to hold the value")
    return name, value


def _aliases(pairs: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in pairs:
        tool, _, name = text.partition("=")
        if not tool or not name:
            raise InputError(f"--alias {text!r}; expected TOOL=NAME, such as orders_refund=refund")
        if found.setdefault(tool, name) != name:
            raise InputError(f"--alias {text!r}: {tool!r} is {found[tool]!r} already; expected one name")
    return found


def _address(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    from guardagent.frameworks.mcp.adapter import require_mcp

    require_mcp()
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise InputError(f"--listen {text!r}; expected HOST:PORT, such as 127.0.0.1:8765")
    return host.strip("[]"), int(port)


def _log(path: Path | None, key_file: Path | None) -> AuditLog | None:
    from guardagent.log import AuditLog, load_key

    if path is None:
        if key_file is not None:
            raise InputError("--key-file without --log; expected both")
        return None
    return AuditLog(path, key=load_key(key_file))


def _escalation(who: ApproverChoice) -> Escalation:
    from guardagent.frameworks.mcp.adapter.pending_requests import Escalation
    from guardagent.frameworks.mcp.adapter.terminal import ask_at_terminal

    terminal: Any = ask_at_terminal if who in (ApproverChoice.TERMINAL, ApproverChoice.EITHER) else None
    return Escalation(client=who in (ApproverChoice.CLIENT, ApproverChoice.EITHER), approver=terminal)
