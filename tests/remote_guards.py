"""Runs a server in a thread of this process, with guards that ask it, for the tests of adapters."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import uvicorn

from guardagent import RemoteGuard
from guardagent._support.http import RequestLimits
from guardagent.server.access import AccessControl, Caller, CallerRole, TokenStore
from guardagent.server.http.application import ServerApplication
from guardagent.server.service.guard_service import GuardService
from guardagent.server.settings import ServerSettings
from guardagent.testing.conformance import Call, HostUnderTest, Operator, check


class RunningServer:
    """A server with one policy, at an address of this machine.

    Attributes:
        url: its address.
        tokens: a token for each role.
        token_file: a file with the agent's token.
    """

    def __init__(self, folder: Path, policies: Path) -> None:
        folder.mkdir(exist_ok=True)
        store = TokenStore(folder / "tokens.db", create=True)
        callers = {role: Caller(f"{role}-1", frozenset({role}), "shop") for role in CallerRole}
        self.tokens = {role: store.create(caller, 3600.0)[1] for role, caller in callers.items()}
        self.token_file = folder / "agent.token"
        self.token_file.write_text(self.tokens[CallerRole.AGENT])
        self.service = GuardService(ServerSettings.of_files(policies, state=f"sqlite:{folder / 'state'}"), store)
        application = ServerApplication(self.service, AccessControl(store), None, RequestLimits())
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._server = uvicorn.Server(uvicorn.Config(application, ws="none", log_level="warning", lifespan="off"))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def guard(self, **options: Any) -> RemoteGuard:
        """Returns a guard of an agent whose host has reviewers of its own, with a token for their answers."""
        tokens = {"token": self.tokens[CallerRole.AGENT], "approver_token": self.tokens[CallerRole.APPROVER]}
        return RemoteGuard(self.url, **{**tokens, **options})

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()
        self.service.close()


@contextlib.contextmanager
def running_server(folder: Path, policies: Path) -> Iterator[RunningServer]:
    """Runs a server until the end of the test."""
    server = RunningServer(folder, policies)
    try:
        yield server
    finally:
        server.close()


def remote_check(host: HostUnderTest, scenario: str, folder: Path) -> str:
    """Runs a conformance scenario in a host whose guards ask a server, which is kept as `server`."""
    with contextlib.ExitStack() as stack:
        servers: dict[str, RunningServer] = {}

        def make_guard(operator: Operator, **options: Any) -> RemoteGuard:
            rules = operator.policies.read_text()
            if rules not in servers:
                servers[rules] = stack.enter_context(
                    running_server(folder / f"server{len(servers)}", operator.policies)
                )
            operator.kept["server"] = servers[rules]
            guard = servers[rules].guard(**options)
            stack.callback(guard.close)
            return guard

        return check(host, scenario, folder, make_guard, _stop)


def _stop(operator: Operator, named: Mapping[str, str]) -> list[Call]:
    """Stops calls as a person does at the console, which lists those in flight."""
    admin = Caller("ann", frozenset({CallerRole.ADMIN}), "shop")
    made = operator.kept["server"].service.stop_desk.stop(admin, {"reason": "wrong refunds", **named})
    return [(call["tool"], call["args"]) for call in made["in_flight"]]
