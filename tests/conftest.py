"""Shared fixtures: the reference data if it is present, invented runs, and the command line."""

from __future__ import annotations

import gc
import signal
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from guardagent.cli.main import main
from tests import tiers  # noqa: F401 - its profiles hold for every test
from tests.stores import SHARED as SHARED_STORES
from tests.stores import store_address

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts background jobs this way
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """The collected tests stay, so the garbage collector need not visit them again and again."""
    gc.collect()
    gc.freeze()


SHARED = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Returns the reference data beside the checkout, which is not part of the project."""
    if not SHARED.is_dir():
        pytest.skip("the reference data is not beside this checkout")
    return SHARED


@dataclass(frozen=True)
class CommandResult:
    """The output of a command, and its exit status."""

    status: int
    out: str
    err: str


Cli = Callable[..., CommandResult]
Write = Callable[..., Path]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs the command line in this process."""

    def run(*arguments: object) -> CommandResult:
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return CommandResult(int(stop.value.code or 0), out, err)

    return run


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file in the test's own folder and returns its path."""

    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else textwrap.dedent(content).encode())
        return path

    return write_file


@pytest.fixture
def agent_folder(write: Write) -> Callable[..., Path]:
    """Creates an agent in a memory folder, and returns that memory folder."""

    def make(program: str | None = None, specification: str = "An agent that echoes.", name: str = "echo") -> Path:
        write(f"memory/{name}/request.md", "The agent may not say anything secret.")
        write(f"memory/{name}/specification.md", specification)
        write(
            f"memory/{name}/demonstrations.jsonl",
            '{"agent_input": "hi", "agent_output": "hi", "plan": ["a", "b", "c", "d"], "code": "pass"}\n',
        )
        if program is not None:
            write(f"memory/{name}/program.py", program)
        return write("memory/README.md", "one folder per agent").parent

    return make


@pytest.fixture(params=SHARED_STORES)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Yields the address of a new store, of each kind that processes can share."""
    with store_address(request.param, tmp_path) as address:
        yield address
