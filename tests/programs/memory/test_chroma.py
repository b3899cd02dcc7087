"""The store in a Chroma server: tried against a real one, where Chroma is installed."""

import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from guardagent import Demonstration, InputError, retrieve
from guardagent.programs.memory.agents import known_demonstrations, load_agent, storage_location, store_demonstrations

Runs = Callable[..., list[Demonstration]]
SERVER = shutil.which("chroma", path=str(Path(sys.executable).parent))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of our own, empty."""
    pytest.importorskip("chromadb")
    if SERVER is None:
        pytest.skip("no Chroma server is installed")
    port, folder = free_port(), tmp_path_factory.mktemp("chroma")
    command = [SERVER, "run", "--path", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"chroma://127.0.0.1:{port}"
    finally:
        running.terminate()
        running.wait()


@pytest.fixture
def folder(server: str, agent_folder: Callable[..., Path], request: pytest.FixtureRequest) -> Path:
    """An agent whose demonstrations are in a collection of this test."""
    path = agent_folder() / "echo"
    (path / "demonstrations.url").write_text(f"{server}/{request.node.name}"[:90])
    return path


def test_what_was_added_is_found_in_exact_order(folder: Path, runs: Runs) -> None:
    """By whoever reads the same address; once, and after those of the file."""
    items = runs(400)
    assert store_demonstrations(folder, items) == 400
    assert store_demonstrations(folder, items[:3]) == 0
    assert known_demonstrations(folder, items[5:7]) == items[5:7]
    assert storage_location(folder).startswith("chroma://")
    memory = load_agent(folder).demonstrations
    assert len(memory) == 401
    assert list(memory)[1:] == items
    for target in items[2::60]:
        query = (target.agent_input, target.agent_output)
        assert retrieve(memory, *query, 2) == retrieve(list(memory), *query, 2)
        assert retrieve(memory, *query, 2, least_similar=True) == retrieve(list(memory), *query, 2, least_similar=True)


def test_several_write_at_once(folder: Path, runs: Runs) -> None:
    """The same one twice is there once."""
    items = runs(40)
    threads = [
        threading.Thread(target=store_demonstrations, args=(folder, items[start : start + 20])) for start in (0, 10, 20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(list(load_agent(folder).demonstrations)[1:]) == set(items)
    assert len(load_agent(folder).demonstrations) == 41


def test_a_server_that_does_not_answer_is_an_error(agent_folder: Callable[..., Path]) -> None:
    """It is no empty memory; without the client, it says what to install."""
    path = agent_folder() / "echo"
    (path / "demonstrations.url").write_text(f"chroma://127.0.0.1:{free_port()}/refunds")
    memory = load_agent(path).demonstrations
    with pytest.raises(
        InputError,
        match=r"chroma://127\.0\.0\.1:\d+/refunds: (the Chroma server cannot be used|Chroma's client is not installed)",
    ):
        retrieve(memory, "in", "out", 1)
