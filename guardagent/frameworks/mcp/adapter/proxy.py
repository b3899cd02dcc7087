"""`guardagent mcp-proxy`: a guard in front of any MCP server.

    client ── StdioFront or HttpFront ── Relay ── ServerSide ── CommandTarget or UrlTarget ── server

One relay is one session of a client: one conversation, with its own connection to the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
import uuid
from dataclasses import dataclass, field
from typing import Any

from guardagent._support.http import HttpAdmission, HttpEndpoint, serve
from guardagent.enforcement import EnforcementPoint, ToolSpec
from guardagent.errors import InputError
from guardagent.frameworks.mcp.adapter.catalogue import Catalogue
from guardagent.frameworks.mcp.adapter.http_front import HttpFront
from guardagent.frameworks.mcp.adapter.http_limits import HttpLimits
from guardagent.frameworks.mcp.adapter.links import Target
from guardagent.frameworks.mcp.adapter.pending_requests import Escalation, ToClient
from guardagent.frameworks.mcp.adapter.probe import tools_of
from guardagent.frameworks.mcp.adapter.relay import Relay
from guardagent.frameworks.mcp.adapter.stdio_front import StdioFront
from guardagent.types.values import SessionPrincipal

_SERVER = "this server"
_log = logging.getLogger("guardagent")


@dataclass
class Proxy:
    """The guard in front of a server.

    Args:
        guard: makes the decisions. Its approver, if any, gets approval requests instead of the client.
        target: the server.
        escalation: the recipients of approval requests.
        conversation: the id of the session at standard input; a new one by default.
        resumable: whether that conversation continues after the client has left and the proxy is restarted.
        principals: the callers of the sessions over HTTP by conversation, for the guard's `principal`.
    """

    guard: EnforcementPoint
    target: Target
    escalation: Escalation = field(default_factory=Escalation)
    conversation: str | None = None
    resumable: bool = False
    principals: dict[str, SessionPrincipal] = field(default_factory=dict)

    async def serve_stdio(self) -> None:
        """Serves the client at standard input until the client leaves.

        Raises:
            InputError: the server cannot be started, or a rule names a tool that is probably a misspelling.
            GuardError: the server does not answer.
        """
        specs = await self._attached()
        front = StdioFront()
        name = self.conversation or f"mcp-{uuid.uuid4().hex}"
        relay = self._relay(specs, name, front.write)
        with _signals():
            server = asyncio.create_task(relay.run())
            try:
                async for line in front.lines():
                    await relay.take(line)
            finally:
                server.cancel()
                await asyncio.gather(server, return_exceptions=True)
                if not self.resumable:
                    self._over(name)
                front.close()

    async def serve_http(self, endpoint: HttpEndpoint[HttpLimits]) -> None:
        """Serves clients at an address and all paths below, until it is stopped.

        Raises:
            InputError, GuardError: as `serve_stdio`; or the address is not available.
        """
        specs = await self._attached()

        def begin(name: str, to_client: ToClient, caller: SessionPrincipal | None) -> Relay:
            if caller is not None:
                self.principals[f"mcp-{name}"] = caller
            return self._relay(specs, f"mcp-{name}", to_client)

        def end(name: str) -> None:
            self._over(f"mcp-{name}")
            self.principals.pop(f"mcp-{name}", None)

        admission = HttpAdmission(endpoint.hosts, endpoint.authenticate)
        front = HttpFront(begin, end, admission, endpoint.limits)
        async with front.running():
            await serve(front, endpoint)

    async def _attached(self) -> list[ToolSpec]:
        specs = await tools_of(self.target)
        Catalogue(self.guard, server=_SERVER).attach(specs)
        return specs

    def _relay(self, specs: list[ToolSpec], name: str, to_client: ToClient) -> Relay:
        catalogue = Catalogue(self.guard, specs, _SERVER)
        return Relay(self.guard, name, self.target, catalogue, to_client, self.escalation)

    def _over(self, name: str) -> None:
        with contextlib.suppress(InputError):  # the conversation has no calls
            verdict = self.guard.end(name)
            if verdict.reasons:
                _log.warning("at the end of %s: %s", name, "; ".join(verdict.reasons))


@contextlib.contextmanager
def _signals() -> Any:
    """Turns a signal into a normal exit, which also stops the server."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, task.cancel, sign)
    try:
        yield
    except asyncio.CancelledError as error:
        if error.args and isinstance(error.args[0], signal.Signals):
            sys.exit(128 + error.args[0])
        raise
    finally:
        for sign in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(sign)
