"""Demands of the MCP proxy on its server: a revision of the protocol, and to be confined."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastmcp")

from guardagent.frameworks.mcp.adapter.calls import NEWEST
from guardagent.sandbox import hardening
from tests.frameworks.mcp.helpers import INITIALIZE, client_of, environment, failed, paid, plain_command, proxy_command
from tests.frameworks.mcp.test_proxy import run
from tests.frameworks.scenarios import LIMIT

OLD_SERVER = f"""
import json, sys
sys.argv = [{plain_command()[-1]!r}]
write = sys.stdout.write
def older(text):
    message = json.loads(text) if text.strip() else {{}}
    if "protocolVersion" in message.get("result", {{}}):
        message["result"]["protocolVersion"] = "2024-11-05"
        text = json.dumps(message) + "\\n"
    return write(text)
sys.stdout.write = older
exec(compile(open(sys.argv[0]).read(), sys.argv[0], "exec"))
"""


def ended(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a proxy whose client leaves at once."""
    return subprocess.run(
        command, env=environment(folder), input="", capture_output=True, text=True, check=False, timeout=60
    )


# --- the revision of the protocol


def test_a_client_of_an_older_revision_is_refused(tmp_path: Path) -> None:
    """So are its further requests, and those of a client that shakes no hands; a newer client may call."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, LIMIT, "--protocol-min", "2025-11-25"), tmp_path) as client:
            early = await client.call("refund", order_id="W1", amount=1)
            assert "have not agreed on a revision" in early["error"]["message"]
            reply = await client.request("initialize", {**INITIALIZE, "protocolVersion": "2025-06-18"})
            assert reply["error"]["data"] == {"supported": ["2025-11-25"]}
            assert "the client speaks revision 2025-06-18 of the protocol" in reply["error"]["message"]
            assert "error" in await client.call("refund", order_id="W1", amount=2)
            assert "result" in await client.request("ping")
            assert "result" in await client.begin()
            assert not failed(await client.call("refund", order_id="W1", amount=5))

    run(session())
    assert paid(tmp_path) == [["W1", 5]]


def test_an_envelope_states_the_revision_of_its_request(tmp_path: Path) -> None:
    """Since 2026-07-28 there is no handshake."""

    async def session() -> Any:
        command = proxy_command(tmp_path, LIMIT, "--protocol-min", NEWEST)
        async with client_of(command, tmp_path, modern=True) as client:
            return await client.call("refund", order_id="W1", amount=5)

    assert "error" not in run(session())


def test_a_server_of_an_older_revision_is_refused(tmp_path: Path) -> None:
    """The proxy does not start."""
    server = [sys.executable, "-S", "-c", OLD_SERVER]
    refused = ended(proxy_command(tmp_path, LIMIT, "--protocol-min", "2025-03-26", server=server), tmp_path)
    assert refused.returncode not in (0, 1)
    assert "the server speaks revision 2024-11-05 of the protocol; expected 2025-03-26 or newer" in refused.stderr
    assert (
        ended(proxy_command(tmp_path, LIMIT, "--protocol-min", "2024-11-05", server=server), tmp_path).returncode == 0
    )


# --- a confined server


@pytest.mark.skipif(hardening.landlock_version() < 3, reason="this machine cannot confine")
def test_a_confined_server_writes_where_it_may(tmp_path: Path) -> None:
    """The shop books in a file of the folder; without it, the call fails."""
    own = [option for path in (sys.base_prefix, sys.prefix, plain_command()[-1]) for option in ("--confine-read", path)]

    async def session(*options: str) -> bool:
        async with client_of(proxy_command(tmp_path, LIMIT, "--confine", *own, *options), tmp_path) as client:
            await client.begin()
            return failed(await client.call("refund", order_id="W1", amount=5))

    assert run(session())
    assert paid(tmp_path) == []
    assert not run(session("--confine-write", str(tmp_path)))
    assert paid(tmp_path) == [["W1", 5]]


@pytest.mark.parametrize(
    ("options", "server", "problem"),
    [
        (["--confine-network"], None, "need '--confine'"),
        (["--confine-host", "a.example"], None, "need '--confine'"),
        (["--confine", "--confine-host", "https://a.example"], None, "expected a host such as"),
        (["--confine", "--confine-host", "a.example", "--confine-network"], None, "gives all hosts"),
        (["--confine"], ["https://shop.example/mcp"], "applies to a command only"),
        (["--confine", "--confine-read", "/no/such"], None, "/no/such: no such file or folder"),
        (["--confine", "--confine-write", ""], None, "is empty; expected a file or folder"),
        (["--protocol-min", "2"], None, "expected the date of a revision"),
        (["--protocol-min", "2030-01-01"], None, f"such as 2025-06-18, to {NEWEST}"),
    ],
)
def test_wrong_options_are_errors(options: list[str], server: list[str] | None, problem: str, tmp_path: Path) -> None:
    """Before anything starts."""
    wrong = ended(proxy_command(tmp_path, LIMIT, *options, server=server), tmp_path)
    assert wrong.returncode == 2
    assert problem in wrong.stderr.replace("\n", " ")
