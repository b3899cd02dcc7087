"""A Redis server that may forget is refused; one that was killed keeps what it acknowledged."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guardagent import InputError
from guardagent.errors import LedgerError
from tests.enforcement.guards import ONCE, guard, ran, refund
from tests.stores import new_counters, new_ledger

pytest.importorskip("redis")
pytestmark = pytest.mark.slow
SAFE = {"appendonly": "yes", "appendfsync": "always", "save": ""}


@contextlib.contextmanager
def server(folder: Path, **settings: str) -> Iterator[tuple[str, Any]]:
    """Starts a server and yields the address of its store, and a client."""
    redis: Any = pytest.importorskip("redis")
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no redis-server on this machine")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = []
    for name, value in {**SAFE, **settings}.items():
        options += [f"--{name.replace('_', '-')}", *(value.split() or [""])]
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        yield f"redis://127.0.0.1:{port}/0", client
    finally:
        client.close()
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"appendonly": "no"}, "appendonly is no"),
        ({"appendfsync": "everysec"}, r"appendfsync is everysec\); expected appendfsync always"),
        ({"no_appendfsync_on_rewrite": "yes"}, "no-appendfsync-on-rewrite is yes"),
        ({"maxmemory_policy": "allkeys-lru"}, "expected maxmemory-policy noeviction"),
        ({"replicaof": "127.0.0.1 1"}, "has the role 'slave'; expected the primary"),
        ({"rename_command": "CONFIG nothing"}, "appendonly is unreadable"),
        ({"requirepass": "x"}, "Authentication required"),
    ],
)
def test_a_server_that_may_forget_is_refused(tmp_path: Path, settings: dict[str, str], says: str) -> None:
    with server(tmp_path, **settings) as (address, _):
        for new in (new_ledger, new_counters):
            with pytest.raises(InputError, match=says) as refused:
                new(address)
            assert str(refused.value).count("; expected ") == 1
        if "appendfsync" in says:
            new_ledger(f"{address}?durability=unchecked")


def test_a_killed_server_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    with server(tmp_path) as (address, _):
        once_guard = guard(ONCE, ledger=new_ledger(address))
        ran(once_guard, refund())
        assert once_guard.before(refund(1, conversation="d")).label == 0
    with server(tmp_path) as (address, _):
        again = guard(ONCE, ledger=new_ledger(address))
        assert [event.status for name in "cd" for event in again.session(name).history] == ["ok", None]


def test_a_server_that_lost_its_data_denies(tmp_path: Path) -> None:
    """Also in the processes that have seen nothing of the conversation."""
    with server(tmp_path) as (address, client):
        once_guard = guard(ONCE, ledger=new_ledger(address))
        ran(once_guard, refund())
        client.flushall()
        for name in "cd":
            assert "has lost its data" in once_guard.before(refund(conversation=name)).errors[0]
        new_ledger(address)
        assert "has lost its data" in once_guard.before(refund()).errors[0]


def test_a_full_server_denies_and_stays_whole(tmp_path: Path) -> None:
    with server(tmp_path) as (address, client):
        ledger: Any = new_ledger(address)
        ledger.append("c", 1, "p", '"1"', "a")
        client.config_set("maxmemory", "1")
        for write, *operands in (
            (ledger.append, "c", 2, "p", '"2"', "b"),
            (ledger.end, "c"),
            (ledger.record_request, refund(id="1"), ["rule"]),
            (ledger.use, refund(id="1")),
        ):
            with pytest.raises(LedgerError, match="used memory > 'maxmemory'"):
                write(*operands)
        client.config_set("maxmemory", "0")
        assert (ledger.entries("c", 0), ledger.has_call_id("c", "a")) == ([(1, "p", '"1"')], True)
        ledger.append("c", 2, "p", '"2"', "b")


def test_keys_of_another_kind_are_refused(tmp_path: Path) -> None:
    with server(tmp_path) as (address, client):
        new_ledger(f"{address}?prefix=mine")
        with pytest.raises(InputError, match=r"are a ledger of format 1.*reads a store of counters of format 1"):
            new_counters(f"{address}?prefix=mine")
        client.set("other:store", "text")
        with pytest.raises(InputError, match="WRONGTYPE"):
            new_ledger(f"{address}?prefix=other")
