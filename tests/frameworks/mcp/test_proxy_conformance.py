"""The MCP proxy passes the conformance scenarios, as a process over stdio with the server as a child process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guardagent.enforcement import Approval
from guardagent.testing.conformance import SCENARIOS, Call, Desk, HandOff, Operator, Process, Reply, Script, SubAgent
from tests.frameworks.conforms import conformance_test, server_conformance_test
from tests.frameworks.mcp.declarations import CANNOT
from tests.frameworks.mcp.forms import filled
from tests.frameworks.mcp.helpers import RawClient, client_of
from tests.tiers import slow_after

SERVER = Path(__file__).parent / "servers" / "conformance_shop.py"


@dataclass
class Form:
    """An approval request that the client shows: a request of the server, or since 2026-07-28 a result.

    Attributes:
        client: the client that got the request.
        id: the id of the request.
        params: the parameters of the call that the client repeats with the answer.
    """

    client: RawClient
    id: Any = None
    params: dict[str, Any] = field(default_factory=dict)


class ProxyProcess(Process):
    """A client for each conversation, with its own proxy and server, as clients start them."""

    def __init__(self, operator: Operator, open_clients: AsyncExitStack, *, modern: bool) -> None:
        self.operator, self._open, self._modern = operator, open_clients, modern
        self._clients: dict[str, RawClient] = {}
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
        return await self._desk.run(self._talk(await self._client(conversation), script))

    async def answer(self, question: Any, approval: Approval) -> Reply:
        """Sends the form back. A second answer is sent too, although the client no longer has the form."""
        form = question.shown
        mine = form.client in self._clients.values()
        client = form.client if mine else await self._client("c1")
        if form.id is not None:
            await client.send({"jsonrpc": "2.0", "id": form.id, "result": filled(approval)})
        elif question.answer.done() or not mine:
            await client.request("tools/call", answered(form.params, approval))
        return await Desk.answer(question, approval) if mine else Reply()

    async def swap(self, question: Any, args: Mapping[str, Any]) -> None:
        question.shown.params["arguments"] = dict(args)

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

    async def _call(self, client: RawClient, tool: str, args: Mapping[str, Any] | str) -> None:
        params = {"name": tool, "arguments": args if isinstance(args, str) else dict(args)}
        result = await self._result(client, params)
        while "inputRequests" in result:
            form = Form(client, params={**params, **result})
            result = await self._result(client, answered(form.params, await self._desk.put(form).answer))
        self._read = str(result.get("content"))

    async def _result(self, client: RawClient, params: dict[str, Any]) -> dict[str, Any]:
        request = await client.ask("tools/call", params)
        try:
            return dict((await client.answered(request)).get("result", {}))
        except asyncio.CancelledError:
            await client.notify("notifications/cancelled", {"requestId": request})
            raise

    async def _client(self, conversation: str) -> RawClient:
        if conversation not in self._clients:
            operator = self.operator
            proxy = ["-m", "guardagent", "mcp-proxy", *self.guard_options(), "--conversation", conversation]
            server = [sys.executable, str(SERVER), str(operator.shop.folder), *operator.tools]
            command = [sys.executable, *proxy, "--", *server]
            client = await self._open.enter_async_context(client_of(command, operator.shop.folder, modern=self._modern))
            client.answer = lambda method, params: self._desk.put(Form(client, client.others[-1]["id"])) and None
            await client.begin(elicitation={})
            self._clients[conversation] = client
        return self._clients[conversation]

    def guard_options(self) -> list[str]:
        """Returns the options of the proxy for its guard."""
        ledger = ["--ledger", str(self.operator.ledger)] if self.operator.ledger else []
        stops = ["--stop-file", str(self.operator.stops)] if self.operator.stops else []
        return ["--policies", str(self.operator.policies), *ledger, *stops]


def answered(params: Mapping[str, Any], reply: Approval) -> dict[str, Any]:
    """Returns the parameters of the repeated call, with the form that its result requested."""
    answers = {name: filled(reply) for name in params["inputRequests"]}
    arguments = {name: params[name] for name in ("name", "arguments", "requestState")}
    return {**arguments, "inputResponses": answers}


class ProxyHost:
    name = "MCP proxy"
    cannot = CANNOT[name]

    def __init__(self, kind: type[ProxyProcess], *, modern: bool) -> None:
        self._kind, self._modern = kind, modern

    @asynccontextmanager
    async def process(self, operator: Operator) -> AsyncIterator[ProxyProcess]:
        async with AsyncExitStack() as open_clients:
            yield self._kind(operator, open_clients, modern=self._modern)


class RemoteProxyProcess(ProxyProcess):
    """The proxies ask a server."""

    def guard_options(self) -> list[str]:
        self.operator.guard()  # starts the server
        server = self.operator.kept["server"]
        return ["--guard-server", server.url, "--guard-token-file", str(server.token_file)]


MODERN = {"2026-07-28": ProxyHost(ProxyProcess, modern=True)}
REMOTE = {"2026-07-28": ProxyHost(RemoteProxyProcess, modern=True)}
OLDER = {"before": ProxyHost(ProxyProcess, modern=False)}  # the server requests approval while the call is under way
APPROVALS = (
    "resume",
    "approve twice",
    "another call than was shown",
    "edit",
    "edited call is told",
    "malformed arguments",
    "stopped while a call waits",
)
"""The scenarios in which the host has reviewers of its own. A proxy has no token for their answers."""

test_conformance = conformance_test(MODERN, slow_after(1, SCENARIOS))
test_conformance_of_older_clients = conformance_test(
    OLDER, slow_after(1, ["resume", "approve twice", "edit", "edited call is told", "cancel"])
)
test_conformance_with_a_server = server_conformance_test(REMOTE, [name for name in SCENARIOS if name not in APPROVALS])
