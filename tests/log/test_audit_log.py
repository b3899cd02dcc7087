"""Appends from threads, event loops, processes and forks; a failed write is an error."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from guardagent.errors import InputError, LogError, UnknownNameError
from guardagent.log import AuditLog, Head, verify_log
from tests.log.logs import KEY, SUFFIXES, edit, filled, read, record, remove

ROOT = Path(__file__).parents[2]

APPEND = """
import sys
from pathlib import Path
from guardagent.log import AuditLog
with AuditLog(Path(sys.argv[1]), head=Path(sys.argv[1]).parent / "head") as log:
    for number in range(int(sys.argv[2])):
        log.append({"kind": "verdict", "number": number, "writer": sys.argv[3]})
"""

FILL = """
import resource, sys
from pathlib import Path
from guardagent.errors import LogError
from guardagent.log import AuditLog, verify_log
path = Path(sys.argv[1])
log = AuditLog(path)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
acknowledged = 0
try:
    while True:
        acknowledged = log.append({"kind": "verdict", "args": {"text": "x" * 1000}})
except LogError as error:
    print(acknowledged, error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(log.append({"kind": "verdict"}))
"""


@pytest.fixture(params=SUFFIXES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / f"audit{request.param}"


def test_appended_entries_are_in_the_log(path: Path) -> None:
    """They are in order, numbered from 1, with a time and the hashes of inputs, also after reopening."""
    with AuditLog(path, clock=lambda: 1_700_000_000.1234) as log:
        assert [log.append(record(1)), log.append(record(2, output="done"))] == [1, 2]
    with AuditLog(path) as log:
        assert log.append(record(3)) == 3
        first, second, _ = read(path)
    assert first["time"] == "2023-11-14T22:13:20.123Z"
    assert first["args"] == {"amount": 1}
    assert first["args_hash"].startswith("sha256:")
    assert first["args_hash"] != second["args_hash"]
    assert "output_hash" in second
    assert "output_hash" not in first
    report = verify_log(path)
    assert (report.status, report.entries) == ("end_unchecked", 3)


def test_threads_share_one_chain(path: Path) -> None:
    """Each thread gets unique numbers, and none is missing."""
    with AuditLog(path) as log, ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(log.append, map(record, range(200))))
    assert sorted(numbers) == list(range(1, 201))
    assert verify_log(path).entries == 200


def test_processes_share_one_chain(path: Path) -> None:
    """They share one head too, which covers the last entry of all."""
    commands = [[sys.executable, "-c", APPEND, str(path), "30", str(number)] for number in range(4)]
    running = [subprocess.Popen(command, cwd=ROOT) for command in commands]
    assert [process.wait() for process in running] == [0] * 4
    head = Head.load(path.parent / "head")
    assert head.count == 120
    assert verify_log(path, head=head).status == "whole"
    assert sorted((entry["writer"], entry["number"]) for entry in read(path)) == sorted(
        (str(writer), number) for writer in range(4) for number in range(30)
    )


def test_tasks_of_an_event_loop_append(path: Path) -> None:
    """Fifty tasks append at once, and the entry of a cancelled one is still written."""

    async def work(log: AuditLog) -> list[int]:
        cancelled = asyncio.ensure_future(log.aappend(record(99)))
        await asyncio.sleep(0)
        cancelled.cancel()
        return await asyncio.gather(*(log.aappend(record(number)) for number in range(50)))

    with AuditLog(path) as log:
        numbers = asyncio.run(work(log))
    assert len(set(numbers)) == 50
    assert verify_log(path).entries == 51
    assert 99 in {entry["args"]["amount"] for entry in read(path)}


def test_parent_and_child_of_a_fork_append(path: Path) -> None:
    """They extend one chain, while other threads of the parent append as well."""
    log = AuditLog(path)
    log.append(record())
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            log.append(record())

    thread = threading.Thread(target=work)
    thread.start()
    children = []
    for _ in range(5):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                log.append(record(77))
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 5
    stop.set()
    thread.join()
    log.close()
    assert verify_log(path).status == "end_unchecked"
    assert sum(entry["args"]["amount"] == 77 for entry in read(path)) == 5


def test_a_full_disk_is_an_error_without_damage(path: Path) -> None:
    """Acknowledged entries are there, and the log continues once there is space."""
    ran = subprocess.run([sys.executable, "-c", FILL, str(path)], cwd=ROOT, capture_output=True, text=True, check=True)
    refused, number = ran.stdout.splitlines()
    acknowledged, _, error = refused.partition(" ")
    assert "cannot be written" in error
    assert int(acknowledged) > 5
    assert int(number) == int(acknowledged) + 1
    assert verify_log(path).entries == int(number)


def test_a_log_that_is_moved_is_not_written_to(path: Path) -> None:
    """Neither the moved file nor its replacement is written, and SQLite's leftovers enter no other log."""
    with AuditLog(path) as log:
        log.append(record())
        path.rename(path.with_name("moved"))
        with pytest.raises(LogError, match=r"cannot be written|moved"):
            log.append(record())
        if path.suffix == ".db":
            with pytest.raises(LogError, match=r"audit\.db-wal' has entries of it"):
                filled(path, 1)
            for left in path.parent.glob("audit.db-*"):
                left.unlink()
        filled(path, 1)
        with pytest.raises(LogError, match=r"moved or replaced|cut off"):
            log.append(record())
    assert len(read(path)) == 1


def test_a_log_needs_its_folder(path: Path) -> None:
    """A missing folder, or a folder at the path, is an error."""
    with pytest.raises(LogError, match="cannot be written"):
        AuditLog(path.parent / "none" / path.name)
    path.mkdir()
    with pytest.raises(LogError, match="cannot be written"):
        AuditLog(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to everything")
def test_a_read_only_log_is_an_error(path: Path) -> None:
    """The log is unchanged."""
    filled(path).chmod(0o400)
    with pytest.raises(LogError, match="cannot be written"), AuditLog(path) as log:
        log.append(record())


def test_a_closed_log_accepts_no_entries(path: Path) -> None:
    """Closing it twice has no effect."""
    log = AuditLog(path)
    log.close()
    log.close()
    with pytest.raises(LogError, match="closed"):
        log.append(record())


@pytest.mark.parametrize("wrong", [{}, {"kind": 1}, {"kind": "x", "time": 1}, {"kind": "x", "a b": 1}, "text"])
def test_an_invalid_record_is_rejected(path: Path, wrong: object) -> None:
    """The error has the expected form, and the log is unchanged."""
    with AuditLog(path) as log:
        with pytest.raises(LogError, match="record"):
            log.append(wrong)  # type: ignore[arg-type]
        assert log.append(record()) == 1


def test_invalid_options_are_errors(tmp_path: Path) -> None:
    """An unknown suffix, an unknown field in a path, and a short key are rejected."""
    with pytest.raises(UnknownNameError, match=r"\.db"):
        AuditLog(tmp_path / "audit.txt")
    with pytest.raises(UnknownNameError, match="did you mean 'args'"):
        AuditLog(tmp_path / "audit.db", redact=["arg.number"])
    with pytest.raises(InputError, match="16"):
        AuditLog(tmp_path / "audit.db", key=b"short")
    assert list(tmp_path.iterdir()) == []


def test_a_log_is_continued_only_with_its_key(path: Path) -> None:
    """With another key or none nothing is added, nor with a key to a log without one."""
    filled(path, 3, key=KEY)
    with pytest.raises(LogError, match="another key"):
        AuditLog(path, key=b"another key of 16")
    with pytest.raises(LogError, match="expected that key"):
        AuditLog(path)
    other = filled(path.with_name(f"other{path.suffix}"), 3)
    with pytest.raises(LogError, match="without the key"):
        AuditLog(other, key=KEY)


def test_a_log_that_was_cut_or_changed_is_not_continued(path: Path) -> None:
    """A running log detects it by its state, a new one by the head or the last entry."""
    head = path.parent / "head"
    filled(path, 5, head=head)
    with AuditLog(path) as log:
        log.append(record(6))
        remove(path, 5, 6)
        with pytest.raises(LogError, match=r"entry 6 was cut off|cannot be written"):
            log.append(record(7))
    with pytest.raises(LogError, match="records 5 entries, but the log has 4"):
        AuditLog(path, head=head)
    edit(path, '"amount":4', '"amount":9')
    with pytest.raises(LogError, match="entry 4 was changed"):
        AuditLog(path)
    assert len(read(path)) == 4


def test_a_head_that_cannot_be_written_is_an_error(path: Path) -> None:
    """An entry that the head does not cover is not acknowledged."""
    with AuditLog(path, head=path.parent / "none" / "head") as log, pytest.raises(LogError, match="head"):
        log.append(record())


def test_an_unfinished_line_is_dropped_and_recorded(tmp_path: Path) -> None:
    """The log records its size; a last line that lacks only its line break is complete."""
    path = filled(tmp_path / "audit.jsonl", 2)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"entry":{"args":{}')
    assert verify_log(path).notes == ("the last 19 bytes are an unfinished entry, which was never acknowledged",)
    with AuditLog(path) as log:
        assert log.append(record()) == 4
    assert [(entry["kind"], entry.get("bytes")) for entry in read(path)][2:] == [("recovered", 19), ("verdict", None)]
    single = tmp_path / "single.jsonl"
    single.write_bytes(whole.splitlines()[0])
    with AuditLog(single) as log:
        assert log.append(record()) == 2
    path.write_bytes(whole[:-1])
    assert verify_log(path).entries == 2
    with AuditLog(path) as log:
        assert log.append(record()) == 3
    assert verify_log(path).status == "end_unchecked"
