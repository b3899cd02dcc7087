"""The address of a server is checked before anything is loaded, created or shown."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from guardagent.cli.serve import read_address
from guardagent.errors import InputError
from tests.conftest import Cli


@pytest.fixture
def busy() -> Iterator[int]:
    """Yields a port on which another program listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as free:
        free.bind((host, 0))
        return int(free.getsockname()[1])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "127.0.0.2"])  # noqa: S104 - never listens
def test_a_free_address_is_read(host: str) -> None:
    port = free_port()
    assert read_address(f"{host}:{port}") == (host, port)
    assert read_address(f"{host}:{port}") == (host, port)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6")
def test_an_ipv6_address_has_brackets() -> None:
    port = free_port("::1")
    assert read_address(f"[::1]:{port}") == ("::1", port)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])  # noqa: S104
def test_a_busy_port_is_named(host: str, busy: int) -> None:
    with pytest.raises(
        InputError, match=f"'--listen {host}:{busy}' cannot be used: Address already in use.*; expected"
    ):
        read_address(f"{host}:{busy}")


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid", "a..b", "x" * 70])
def test_a_host_of_others_is_refused(host: str) -> None:
    with pytest.raises(InputError, match=r"cannot be used: .*; expected an address that is free"):
        read_address(f"{host}:{free_port()}")


@pytest.mark.parametrize(
    "command",
    [
        ["serve", "--policies", "p.yaml", "--state", "sqlite:state"],
        ["generate-server", "no-model", "--policies", "p.yaml"],
        ["mcp-proxy", "--policies", "p.yaml", "http://127.0.0.1:1/mcp"],
    ],
    ids=lambda command: command[0],
)
def test_no_token_is_shown_and_no_model_loaded_at_a_busy_port(
    cli: Cli, busy: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """Nothing is printed or created: the next start shows the tokens."""
    if command[0] == "mcp-proxy":
        pytest.importorskip("mcp")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text("version: 1\npolicies: [{id: a, temporal: 'G !tool:drop'}]\n")
    ran = cli(*command, "--listen", f"127.0.0.1:{busy}")
    assert (ran.status, ran.out) == (2, "")
    assert "Address already in use" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["p.yaml"]
