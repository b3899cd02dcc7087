"""The command `mcp-proxy`: runs a guard in front of an MCP server."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guardagent.cli.options import FactsText, Locked, OptionalPolicyFiles, RequestModelName, Watch, read_facts, watching
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


Server = Annotated[list[str], typer.Argument(metavar="-- COMMAND… | URL", help="The server: a command or a URL.")]
StateFile = Annotated[
    Path | None, typer.Option("--state", help="The state for 'state(...)': a JSON object (a file), read at each check.")
]
LogFile = Annotated[Path | None, typer.Option("--log", help="The audit log for every verdict: a .db or .jsonl file.")]
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", help="The log's key (default: the variable GUARDAGENT_LOG_KEY).")
]
Alias = Annotated[
    list[str] | None, typer.Option("--alias", help="TOOL=NAME: the name of a tool in the rules; repeatable.")
]
Absent = Annotated[
    list[str] | None, typer.Option("--absent", help="A tool that the rules name but this server lacks; repeatable.")
]
Conversation = Annotated[
    str | None, typer.Option("--conversation", help="The conversation id of the session on standard input.")
]
ApproverName = Annotated[ApproverChoice, typer.Option("--approver", help="Who approves escalated calls.")]
Header = Annotated[
    list[str] | None,
    typer.Option("--header", help="NAME=VARIABLE: a header for the URL, from an environment variable; repeatable."),
]
Listen = Annotated[
    str | None, typer.Option("--listen", metavar="HOST:PORT", help="Serve clients over HTTP instead of standard input.")
]
LedgerFile = Annotated[
    Path | None,
    typer.Option("--ledger", help="A .db file that keeps conversations and used approvals across restarts."),
]
Counters = Annotated[
    str | None,
    typer.Option("--counters", metavar="ADDRESS", help="The store of counters across conversations: sqlite:PATH."),
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


def mcp_proxy(
    server: Server,
    *,
    policies: OptionalPolicyFiles = None,
    state: StateFile = None,
    facts: FactsText = None,
    log: LogFile = None,
    key_file: KeyFile = None,
    ledger: LedgerFile = None,
    counters: Counters = None,
    alias: Alias = None,
    absent: Absent = None,
    conversation: Conversation = None,
    approver: ApproverName = ApproverChoice.CLIENT,
    header: Header = None,
    listen: Listen = None,
    deadline: Deadline = 10.0,
    zone: Zone = None,
    model: RequestModelName = None,
    locked: Locked = None,
    watch: Watch = False,
    tools_lock: ToolsLock = None,
    accept_tools: AcceptTools = None,
) -> None:
    """Run a guard in front of an MCP server.

    Every call is judged before it reaches the server.
    """
    import asyncio

    from guardagent.enforcement import SqliteLedger, ToolGuard
    from guardagent.frameworks.mcp.adapter.proxy import Proxy
    from guardagent.frameworks.mcp.adapter.state_file import FileState
    from guardagent.policy.load import load_policies

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="guardagent: %(message)s")
    if accept_tools is not None:
        _accept(_target(server, header or []), accept_tools)
        return
    if not policies:
        raise InputError("no policy file; expected '--policies FILE'")
    at = _address(listen)
    if at is not None and conversation is not None:
        raise InputError(
            "'--conversation' and '--listen' exclude each other; each HTTP session is a conversation of its own"
        )
    if ledger is not None and conversation is None:
        raise InputError("'--ledger' needs '--conversation': a conversation that outlives the proxy needs a fixed id")
    guard = ToolGuard(
        load_policies(policies, model=model, locked=locked),
        state=FileState(state) if state is not None else None,
        facts=read_facts(facts),
        aliases=aliases_of(alias or []),
        absent=absent or (),
        tools_lock=tools_lock,
        log=_log(log, key_file),
        ledger=SqliteLedger(ledger) if ledger is not None else None,
        counters=counters,
        deadline=deadline,
        zone=zone,
    )
    proxy = Proxy(
        guard, _target(server, header or []), _escalation(approver), conversation, resumable=ledger is not None
    )
    with watching(guard.policies, locked) if watch else nullcontext():
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
            raise InputError(f"unexpected argument {server[1]!r} after the URL; expected the URL alone")
        require_mcp()
        return UrlTarget(server[0], dict(_header(one) for one in headers))
    if headers:
        raise InputError("'--header' applies to a URL only; the server is a command")
    return CommandTarget(server)


def _header(text: str) -> tuple[str, str]:
    """Takes the value from the environment: other users can read a command line."""
    name, _, variable = text.partition("=")
    if not name or not variable:
        raise InputError(f"'--header' is {text!r}; expected NAME=VARIABLE, such as 'Authorization=MCP_AUTHORIZATION'")
    value = os.environ.get(variable)
    if value is None:
        raise InputError(f"'--header' is {text!r}, but the environment variable {variable!r} is not set")
    return name, value


def aliases_of(pairs: list[str]) -> dict[str, str]:
    """Returns the names of tools in the rules, from `TOOL=NAME`."""
    found: dict[str, str] = {}
    for text in pairs:
        tool, _, name = text.partition("=")
        if not tool or not name:
            raise InputError(f"'--alias' is {text!r}; expected TOOL=NAME, such as 'orders_refund=refund'")
        if found.setdefault(tool, name) != name:
            raise InputError(
                f"'--alias' is {text!r}, but {tool!r} is already {found[tool]!r}; expected one name per tool"
            )
    return found


def _address(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    from guardagent.frameworks.mcp.adapter import require_mcp

    require_mcp()
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise InputError(f"'--listen' is {text!r}; expected HOST:PORT, such as '127.0.0.1:8765'")
    return host.strip("[]"), int(port)


def _log(path: Path | None, key_file: Path | None) -> AuditLog | None:
    from guardagent.log import AuditLog, load_key

    if path is None:
        if key_file is not None:
            raise InputError("'--key-file' needs '--log'")
        return None
    return AuditLog(path, key=load_key(key_file))


def _escalation(who: ApproverChoice) -> Escalation:
    from guardagent.frameworks.mcp.adapter.pending_requests import Escalation
    from guardagent.frameworks.mcp.adapter.terminal import ask_at_terminal

    terminal: Any = ask_at_terminal if who in (ApproverChoice.TERMINAL, ApproverChoice.EITHER) else None
    return Escalation(client=who in (ApproverChoice.CLIENT, ApproverChoice.EITHER), approver=terminal)
