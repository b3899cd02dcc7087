"""Stores for large memories: their location, and their durability."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from guardagent import ContentError, Demonstration, GuardAgent, InputError, Memory, retrieve
from guardagent.programs.memory import sqlite
from guardagent.programs.memory.agents import (
    add_demonstrations,
    known_demonstrations,
    load_agent,
    store_demonstrations,
)
from guardagent.programs.memory.retrieval import Query, read_demonstrations
from guardagent.testing import ScriptedModel
from tests.conftest import Cli, Write
from tests.programs.generation.answers import CODE, PLAN
from tests.runs import ehr_input, ehr_log
from tests.tiers import slow_after

Runs = Callable[..., list[Demonstration]]
Folder = Callable[..., Path]
WRITER = """
import sys
from pathlib import Path
from guardagent import Demonstration
from guardagent.programs.memory.agents import store_demonstrations
for number in range(int(sys.argv[3])):
    code = f"pass  # {sys.argv[2]} {number}"
    store_demonstrations(Path(sys.argv[1]), [Demonstration(code, sys.argv[4] * 3000, ("1", "2", "3", "4"), code)])
    print(code, flush=True)
"""


def writer(folder: Path, name: str, count: int, sign: str = "o") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(folder), name, str(count), sign]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_file_takes_what_a_person_can_review_and_a_database_the_rest(
    runs: Runs, agent_folder: Folder, cli: Cli, write: Write
) -> None:
    """The commands say where it went, and all of it is read."""
    memory, items = agent_folder(), runs(3000)
    add = ("memory", "add", "--agent", "echo", "--memory", memory)
    lines = [item.to_json() + "\n" for item in items]
    assert cli(*add, write("few.jsonl", "".join(lines[:10]))).out.endswith("demonstrations.jsonl\n")
    assert cli(*add, write("many.jsonl", "".join(lines[10:-1]))).out == (
        f"added 2989 to {memory / 'echo' / 'learned' / 'demonstrations.db'}\n"
    )
    assert cli(*add, write("one.jsonl", lines[-1])).out.endswith("demonstrations.db\n")
    assert len(read_demonstrations(memory / "echo" / "demonstrations.jsonl")) == 11
    assert list(load_agent(memory / "echo").demonstrations)[1:] == items
    assert cli("memory", "export", "--agent", "echo", "--memory", memory).out.endswith("".join(lines))
    assert "3001 demonstrations" in cli("memory", "list", "--memory", memory).out
    assert (memory / "echo" / "learned").stat().st_mode & 0o077 == 0


def test_what_is_there_is_not_added_again(runs: Runs, agent_folder: Folder, write: Write) -> None:
    """Neither from the file nor from the database; of a file that holds one such line nothing is added."""
    folder, items = agent_folder() / "echo", runs(3000)
    assert store_demonstrations(folder, items[:2]) == 2
    assert store_demonstrations(folder, items) == 2998
    assert store_demonstrations(folder, items) == 0
    assert known_demonstrations(folder, [items[0], items[-1]]) == [items[0], items[-1]]
    new = Demonstration("new", "new", ("1", "2", "3", "4"), "pass")
    for old in (items[0], items[-1]):
        with pytest.raises(ContentError, match=r"new\.jsonl:2: this demonstration exists already"):
            add_demonstrations(folder, write("new.jsonl", new.to_json() + "\n" + old.to_json()))
    assert new not in load_agent(folder).demonstrations


def test_what_could_not_be_read_again_is_not_written(agent_folder: Folder) -> None:
    """Half of a surrogate pair, or a demonstration without a plan."""
    folder = agent_folder() / "echo"
    with pytest.raises(ContentError, match="ud800"):
        store_demonstrations(folder, [Demonstration("\ud800", "out", ("1", "2", "3", "4"), "pass")])
    with pytest.raises(ContentError, match="expected four"):
        store_demonstrations(folder, [Demonstration("in", "out", (), "pass")])
    assert len(load_agent(folder).demonstrations) == 1


def test_writers_that_are_killed_lose_nothing_that_was_acknowledged(agent_folder: Folder) -> None:
    """Several processes, two of them ended in the middle; whole entries only, in the file and in the database."""
    folder = agent_folder() / "echo"
    running = [writer(folder, str(number), 60) for number in range(4)]
    for process in running[:2]:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.2)
        os.kill(process.pid, signal.SIGKILL)
    acknowledged = [line for process in running for line in process.communicate()[0].splitlines(keepends=True)]
    there = [demonstration.code for demonstration in load_agent(folder).demonstrations]
    assert {line.strip() for line in acknowledged if line.endswith("\n")} <= set(there)
    assert len(there) == len(set(there)) >= 1 + 2 * 60
    assert (folder / "learned" / "demonstrations.db").exists()
    assert store_demonstrations(folder, [Demonstration("after", "it", ("1", "2", "3", "4"), "pass")]) == 1


@pytest.mark.slow
def test_threads_share_a_memory_that_another_process_adds_to(runs: Runs, agent_folder: Folder) -> None:
    """A query returns an acknowledged demonstration at once."""
    folder, items = agent_folder() / "echo", runs(3000)
    store_demonstrations(folder, items)
    memory = load_agent(folder).demonstrations
    missed: list[Demonstration] = []

    def ask() -> None:
        for item in items[::100]:
            missed.extend({item} - set(retrieve(memory, item.agent_input, item.agent_output, 1)))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    adding = writer(folder, "w", 20)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    adding.communicate()
    assert missed == []
    assert retrieve(memory, "pass  # w 19", "o" * 3000, 1)[0].code == "pass  # w 19"


def test_what_a_person_deletes_is_not_found(runs: Runs, agent_folder: Folder) -> None:
    """Also by who had the index in memory."""
    folder, items = agent_folder() / "echo", runs(3000)
    store_demonstrations(folder, items)
    memory, gone = load_agent(folder).demonstrations, items[10]
    assert retrieve(memory, gone.agent_input, gone.agent_output, 1) == [gone]
    with sqlite3.connect(folder / "learned" / "demonstrations.db") as db:
        db.execute("DELETE FROM demonstrations WHERE code = ?", (gone.code,))
    db.close()
    for collection in (memory, load_agent(folder).demonstrations):
        assert gone not in retrieve(collection, gone.agent_input, gone.agent_output, 5)
        assert len(collection) == 3000


@pytest.mark.parametrize("damage", slow_after(1, [b"no database at all" * 100, b""]))
def test_a_damaged_database_is_an_error_with_its_file(
    runs: Runs, agent_folder: Folder, damage: bytes, cli: Cli
) -> None:
    """It is never an empty memory."""
    memory = agent_folder()
    store_demonstrations(memory / "echo", runs(3000))
    (memory / "echo" / "learned" / "demonstrations.db").write_bytes(damage)
    ran = cli("memory", "list", "--memory", memory)
    assert ran.status == 2
    assert "demonstrations.db" in ran.err


def test_a_memory_that_nobody_can_write_is_read(runs: Runs, tmp_path: Path) -> None:
    """As in a container whose content is mounted read-only."""
    items, store = runs(20), sqlite.Store(f"sqlite:{tmp_path / 'ro' / 'demonstrations.db'}")
    store.add(items)
    (tmp_path / "ro").chmod(0o500)
    try:
        assert list(store) == items
        assert [
            neighbour.demonstration
            for neighbour in store.nearest(Query(items[7].agent_input, items[7].agent_output, 1))
        ] == items[7:8]
    finally:
        (tmp_path / "ro").chmod(0o700)


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("chrome://a/b", "unknown store 'chrome'; did you mean 'chroma'"),
        ("somewhere", "is not an address; expected one line"),
        ("chroma://localhost:8000", "is incomplete; expected chroma://HOST:PORT/COLLECTION"),
        ("sqlite:", "does not name a file"),
    ],
)
def test_a_wrong_address_says_what_was_expected(agent_folder: Folder, address: str, says: str) -> None:
    """A memory that cannot be found is not an empty one."""
    folder = agent_folder() / "echo"
    (folder / "demonstrations.url").write_text(address)
    with pytest.raises(InputError, match=says):
        load_agent(folder)


def test_an_address_may_name_a_database_that_agents_share(runs: Runs, agent_folder: Folder, tmp_path: Path) -> None:
    """A demonstration added by one agent is shown for the other."""
    items, folders = runs(5), [agent_folder(name=name) / name for name in ("one", "other")]
    for folder in folders:
        (folder / "demonstrations.url").write_text(f"sqlite://{tmp_path}/shared.db\n")
    assert store_demonstrations(folders[0], items) == 5
    assert list(load_agent(folders[1]).demonstrations)[1:] == items


def test_a_novel_run_is_shown_no_demonstration() -> None:
    """The story says why; with a wider cap the nearest is shown."""
    shown = {}
    for cap in (0.05, 1.0):
        model = ScriptedModel([PLAN, CODE])
        guard = GuardAgent(agent="ehragent", mode="generate", model=model, shots=2, max_distance=cap)
        shown[cap] = guard.guard(ehr_input("nursing"), ehr_log()).story[0]
    assert shown[1.0].error is None
    assert len(shown[1.0].text.splitlines()) == 2
    assert shown[0.05].text == ""
    assert str(shown[0.05].error).startswith("0 of 2 demonstrations are shown: the others are farther from this run")
    with pytest.raises(InputError, match=r"'max_distance' is 1\.5; expected a number from 0 to 1"):
        GuardAgent(agent="ehragent", max_distance=1.5)


# --- the memory of demonstrations


RUNS = [
    (agent, number)
    for agent in ("ehragent", "seeact", "csqa")
    for number in range(len(Memory().agent(agent).demonstrations))
]


@pytest.mark.parametrize(("agent", "number"), RUNS)
def test_the_code_of_a_demonstration_runs_and_agrees_with_the_program(
    agent: str, number: int, agent_folder: Callable[..., Path]
) -> None:
    """A model learns from it, so it must be a right program for its own run."""
    run = Memory().agent(agent).demonstrations[number]
    memory = agent_folder(program=run.code, name="one")
    own = GuardAgent(agent="one", memory=memory, mode="program").guard(run.agent_input, run.agent_output)
    shipped = GuardAgent(agent=agent, mode="program").guard(run.agent_input, run.agent_output)
    assert (own.label, own.answer, own.errors) == (shipped.label, shipped.answer, ())
    for key in ("inaccessible", "violated_rules"):
        assert own.details.get(key) == shipped.details.get(key)
