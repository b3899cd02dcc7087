"""The MCP proxy is held to the scenarios of every host: as a process over stdio, before a server that is another one."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from guardagent.enforcement import Approval
from guardagent.testing.conformance import (
    SCENARIOS,
    Call,
    Desk,
    HandOff,
    Operator,
    Process,
    Reply,
    Script,
    SubAgent,
    check,
)
from tests.adapters.conformance_cannot import MCP_PROXY, MCP_PROXY_MODERN
from tests.adapters.mcp_helpers import RawClient, client_of

SERVER = Path(__file__).parent / "mcp_servers" / "conformance_shop.py"


@dataclass(frozen=True)
class Form:
    """A question as the client shows it: an elicitation of the server, or since 2026-07-28 a result that asks."""

    client: RawClient
    params: dict[str, Any]
    id: Any = None


class ProxyProcess(Process):
    """Each conversation has a client, and a proxy with a server of its own, as clients start them."""

    modern = False

    def __init__(self, operator: Operator, open_clients: AsyncExitStack) -> None:
        self.operator, self._open = operator, open_clients
        self._clients: dict[str, RawClient] = {}
        self._desk = Desk()

    async def run(
        self, script: Script, *, conversation: str = "c1", history: Sequence[tuple[Call, str]] = (), stream: bool = False
    ) -> Reply:
        self._desk = Desk()
        return await self._desk.run(self._talk(await self._client(conversation), script))

    async def answer(self, question: Any, said: Approval) -> Reply:
        """Sends the form back; where that was done before, once more."""
        client = next(iter(self._clients.values()), None) or await self._client("c1")
        form = question.shown
        if form.id is None:
            return await Desk.answer(question, said)
        await client.send({"jsonrpc": "2.0", "id": form.id, "result": filled(said)})
        return await Desk.answer(question, said)

    async def add(self, tool: str) -> None:
        (self.operator.shop.folder / f"also {tool}").touch()
        for client in self._clients.values():
            await client.request("tools/list")

    async def _talk(self, client: RawClient, script: Script) -> Reply:
        for turn in script:
            if isinstance(turn, SubAgent | HandOff):  # both are agents of this client
                await self._talk(client, turn.script)
            elif not isinstance(turn, str):
                await asyncio.gather(*(self._call(client, name, args) for name, args in turn))
        return Reply("done")

    async def _call(self, client: RawClient, tool: str, args: Mapping[str, Any]) -> None:
        params = {"name": tool, "arguments": dict(args)}
        request = await client.ask("tools/call", params)
        try:
            await client.answered(request)
        except asyncio.CancelledError:
            await client.notify("notifications/cancelled", {"requestId": request})
            raise

    async def _client(self, conversation: str) -> RawClient:
        if conversation not in self._clients:
            operator = self.operator
            proxy = ["-m", "guardagent", "mcp-proxy", "--policies", str(operator.policies), "--conversation", conversation]
            server = [sys.executable, str(SERVER), str(operator.shop.folder), *operator.tools]
            command = [sys.executable, *proxy, "--", *server]
            client = await self._open.enter_async_context(client_of(command, operator.shop.folder))
            client.answer = lambda method, params: self._asked(client, params)
            await client.begin(elicitation={})
            self._clients[conversation] = client
        return self._clients[conversation]

    def _asked(self, client: RawClient, params: Any) -> None:
        """A form has come, which is answered later, or never."""
        self._desk.put(Form(client, params, client.others[-1]["id"]))


def filled(said: Approval) -> dict[str, Any]:
    content: dict[str, Any] = {"decision": said.choice}
    if said.choice == "edit":
        content["arguments"] = json.dumps(dict(said.args))
    return {"action": "accept", "content": content}


class ProxyHost:
    name = "MCP proxy"
    cannot = MCP_PROXY
    started = ProxyProcess

    @asynccontextmanager
    async def process(self, operator: Operator) -> AsyncIterator[ProxyProcess]:
        async with AsyncExitStack() as open_clients:
            yield self.started(operator, open_clients)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_conformance(scenario: str, tmp_path: Path) -> None:
    """What the shop really did is what the rules allow."""
    check(ProxyHost(), scenario, tmp_path)
