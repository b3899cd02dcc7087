"""The proxy conforms with `--guard-server`, too: the rules and the history are on a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from guardagent.testing.conformance import SCENARIOS, Operator
from tests.frameworks.mcp.test_proxy_conformance import ProxyHost, ProxyProcess

pytest.importorskip("uvicorn")

from tests.remote_guards import APPROVALS, remote_check


class RemoteProxyProcess(ProxyProcess):
    """The proxies ask a server."""

    def guard_options(self) -> list[str]:
        self.operator.guard()  # starts the server
        server = self.operator.kept["server"]
        return ["--guard-server", server.url, "--guard-token-file", str(server.token_file)]


class RemoteProxyHost(ProxyHost):
    @asynccontextmanager
    async def process(self, operator: Operator) -> AsyncIterator[ProxyProcess]:
        async with AsyncExitStack() as open_clients:
            yield RemoteProxyProcess(operator, open_clients, modern=True)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [one for one in SCENARIOS if one not in APPROVALS])
def test_conformance_with_a_server(scenario: str, tmp_path: Path) -> None:
    """The side effects of the shop are those that the rules allow."""
    remote_check(RemoteProxyHost(modern=True), scenario, tmp_path)
