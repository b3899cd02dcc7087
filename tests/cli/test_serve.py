"""The address of a server is checked before anything is loaded, created or shown."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from guardagent._support.http import require_free
from guardagent.cli.serve import read_address
from guardagent.errors import InputError
from tests.conftest import Cli


@pytest.fixture
def busy() -> Iterator[int]:
    """Yields a port on which another program listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize(("text", "address"), [("localhost:80", ("localhost", 80)), ("[::1]:9", ("::1", 9))])
def test_an_address_is_read(text: str, address: tuple[str, int]) -> None:
    assert read_address(text) == address


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_a_free_address_stays_free(host: str) -> None:
    if ":" in host and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6")
    with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as server:
        port = server.getsockname()[1]
    for _ in range(2):
        require_free(host, port)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])  # noqa: S104
def test_a_busy_port_is_named(host: str, busy: int) -> None:
    with pytest.raises(
        InputError, match=f"'--listen {host}:{busy}' cannot be used: Address already in use.*; expected"
    ):
        require_free(host, busy)


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid", "a..b", "x" * 70])
def test_a_host_of_others_is_refused(host: str) -> None:
    with pytest.raises(InputError, match=r"cannot be used: .*; expected an address that is free"):
        require_free(host, 9)


@pytest.mark.parametrize(
    "command",
    [
        ["serve", "--policies", "p.yaml", "--state", "sqlite:state"],
        ["generate-server", "no-model", "--policies", "p.yaml"],
    ],
    ids=lambda command: command[0],
)
def test_no_token_is_shown_and_no_model_loaded_at_a_busy_port(
    cli: Cli, busy: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """Nothing is printed or created: the next start shows the tokens."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text("version: 1\npolicies: [{id: a, temporal: 'G !tool:drop'}]\n")
    ran = cli(*command, "--listen", f"127.0.0.1:{busy}")
    assert (ran.status, ran.out) == (2, "")
    assert "Address already in use" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["p.yaml"]
