"""The MCP middlewares pass the conformance scenarios, in a FastMCP server and in a server of the mcp library."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("fastmcp")

from fastmcp import FastMCP
from fastmcp.server import create_proxy
from mcp.client import Client
from mcp.server.mcpserver import MCPServer
from mcp_types import ElicitResult

from guardagent.enforcement import Approval
from guardagent.frameworks.mcp import GuardMiddleware, GuardServerMiddleware
from guardagent.testing.conformance import Call, Desk, HandOff, Operator, Process, Reply, Script, SubAgent, as_object
from tests.frameworks.conforms import conformance_test, server_conformance_test
from tests.frameworks.mcp.declarations import CANNOT
from tests.frameworks.mcp.forms import filled


@dataclass
class Form:
    """A result that requests approval: the client calls again, with the answer and the state."""

    client: Any
    tool: str
    args: Mapping[str, Any]
    result: Any

    def call_again(self, reply: Approval, client: Any) -> Any:
        answers = {name: ElicitResult(**filled(reply)) for name in self.result.input_requests}
        more = {"input_responses": answers, "request_state": self.result.request_state}
        return client.session.call_tool(self.tool, dict(self.args), allow_input_required=True, **more)


class MiddlewareProcess(Process):
    """A server and a client for each conversation; all servers share one guard."""

    def __init__(self, operator: Operator, serve: Callable[..., Any], open_clients: AsyncExitStack) -> None:
        self.operator, self.guard, self._serve, self._open = operator, operator.guard(), serve, open_clients
        self._behind: list[Any] = []  # servers that get tools later
        self._clients: dict[str, Any] = {}
        self._desk = Desk()
        self._read = ""

    def model_input(self) -> str:
        return self._read

    async def run(
        self,
        script: Script,
        *,
        conversation: str = "c1",
        history: Sequence[tuple[Call, str]] = (),
        stream: bool = False,
    ) -> Reply:
        self._desk = Desk()
        return await self._desk.run(self._talk(await self.client(conversation), script))

    async def answer(self, question: Any, approval: Approval) -> Reply:
        form = question.shown
        mine = form.client in self._clients.values()
        if question.answer.done() or not mine:
            await form.call_again(approval, form.client if mine else await self.client("c1"))
        return await Desk.answer(question, approval) if mine else Reply()

    async def swap(self, question: Any, args: Mapping[str, Any]) -> None:
        question.shown.args = args

    async def add(self, tool: str) -> None:
        for server in self._behind:
            server.add_tool(self.operator.shop.tool(tool))

    async def _talk(self, client: Any, script: Script) -> Reply:
        for turn in script:
            if isinstance(turn, SubAgent | HandOff):  # both are agents of this client
                await self._talk(client, turn.script)
            elif not isinstance(turn, str):
                await asyncio.gather(*(self._call(client, name, args) for name, args in turn))
        return Reply("done")

    async def _call(self, client: Any, tool: str, args: Mapping[str, Any] | str) -> None:
        args = as_object(args)
        result = await client.session.call_tool(tool, args, allow_input_required=True)
        while getattr(result, "input_requests", None):
            form = Form(client, tool, args, result)
            result = await form.call_again(await self._desk.put(form).answer, client)
        self._read = str(result.content)

    async def client(self, conversation: str) -> Any:
        if conversation not in self._clients:
            server, behind, served = self._serve(self.guard, conversation)
            self._behind.append(behind)
            for name in self.operator.tools:
                server.add_tool(self.operator.shop.tool(name))
            client = Client(served, mode="2026-07-28", elicitation_callback=_never)
            self._clients[conversation] = await self._open.enter_async_context(client)
        return self._clients[conversation]


async def _never(context: Any, params: Any) -> Any:
    raise AssertionError("a result asks, and no request of the server")


def fastmcp(guard: Any, conversation: str) -> tuple[Any, Any, Any]:
    """Returns a server, a mounted server of another owner, and the server that exposes both."""
    server, behind = FastMCP("shop"), FastMCP("behind")
    server.mount(create_proxy(behind))
    server.add_middleware(GuardMiddleware(guard, conversation=lambda context: conversation))
    return server, behind, server._mcp_server


def mcp(guard: Any, conversation: str) -> tuple[Any, Any, Any]:
    """Does the same for the mcp library, which has no mounted servers."""
    server = MCPServer("shop")
    middleware = GuardServerMiddleware(guard, conversation=lambda context: conversation)
    server._lowlevel_server.middleware.append(middleware)
    return server, server, server


class MiddlewareHost:
    def __init__(self, name: str, serve: Callable[..., Any]) -> None:
        self.name, self.cannot, self._serve = name, CANNOT[name], serve

    @asynccontextmanager
    async def process(self, operator: Operator) -> AsyncIterator[MiddlewareProcess]:
        async with AsyncExitStack() as open_clients:
            process = MiddlewareProcess(operator, self._serve, open_clients)
            await process.client("c1")
            yield process


HOSTS = {
    host.name: host for host in (MiddlewareHost("FastMCP middleware", fastmcp), MiddlewareHost("mcp middleware", mcp))
}
test_conformance = conformance_test(HOSTS)
test_conformance_with_a_server = server_conformance_test(HOSTS)
