"""Appending: from threads, event loops, processes and forks; and what cannot be written is an error."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
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


def test_what_was_appended_is_there(path: Path) -> None:
    """In its order, numbered from 1, with a time and the hashes of its inputs; also when the log is opened again."""
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
    assert (report.status, report.entries) == ("whole", 3)


def test_threads_share_one_chain(path: Path) -> None:
    """Each gets numbers of its own, and none is missing."""
    numbers: list[int] = []
    with AuditLog(path) as log:

        def work() -> None:
            numbers.extend(log.append(record(number)) for number in range(25))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(numbers) == list(range(1, 201))
    assert verify_log(path).entries == 200


def test_processes_share_one_chain(path: Path) -> None:
    """And one head, which knows the last entry of all of them."""
    commands = [[sys.executable, "-c", APPEND, str(path), "30", str(number)] for number in range(4)]
    running = [subprocess.Popen(command, cwd=ROOT) for command in commands]
    assert [one.wait() for one in running] == [0] * 4
    head = Head.load(path.parent / "head")
    assert head.count == 120
    assert verify_log(path, head=head).status == "whole"
    assert sorted((one["writer"], one["number"]) for one in read(path)) == sorted(
        (str(writer), number) for writer in range(4) for number in range(30)
    )


def test_tasks_of_an_event_loop_append(path: Path) -> None:
    """Fifty at once; one that is cancelled is written all the same."""

    async def work(log: AuditLog) -> list[int]:
        cancelled = asyncio.ensure_future(log.aappend(record(99)))
        await asyncio.sleep(0)
        cancelled.cancel()
        return await asyncio.gather(*(log.aappend(record(number)) for number in range(50)))

    with AuditLog(path) as log:
        numbers = asyncio.run(work(log))
    assert len(set(numbers)) == 50
    assert verify_log(path).entries == 51
    assert 99 in {one["args"]["amount"] for one in read(path)}


def test_a_fork_goes_on_by_itself(path: Path) -> None:
    """Parent and child append to one chain, while other threads of the parent append as well."""
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
    assert verify_log(path).status == "whole"
    assert sum(one["args"]["amount"] == 77 for one in read(path)) == 5


def test_a_full_disk_is_an_error_and_no_damage(path: Path) -> None:
    """What was acknowledged is there, and once there is room, the log goes on."""
    ran = subprocess.run([sys.executable, "-c", FILL, str(path)], cwd=ROOT, capture_output=True, text=True, check=True)
    refused, number = ran.stdout.splitlines()
    acknowledged, _, error = refused.partition(" ")
    assert "cannot be written" in error
    assert int(acknowledged) > 5
    assert int(number) == int(acknowledged) + 1
    assert verify_log(path).entries == int(number)


def test_a_log_that_is_moved_is_not_written_to(path: Path) -> None:
    """Neither what was removed, nor what stands in its place; what SQLite has left of it is in no other log."""
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
    """A folder that is missing, or a file that is a folder, is no place for a log."""
    with pytest.raises(LogError, match="cannot be written"):
        AuditLog(path.parent / "none" / path.name)
    path.mkdir()
    with pytest.raises(LogError, match="cannot be written"):
        AuditLog(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to everything")
def test_a_log_that_may_only_be_read_is_an_error(path: Path) -> None:
    """It says so, and is as it was."""
    filled(path).chmod(0o400)
    with pytest.raises(LogError, match="cannot be written"), AuditLog(path) as log:
        log.append(record())


def test_a_closed_log_takes_nothing(path: Path) -> None:
    """Closing it twice is nothing."""
    log = AuditLog(path)
    log.close()
    log.close()
    with pytest.raises(LogError, match="closed"):
        log.append(record())


@pytest.mark.parametrize("wrong", [{}, {"kind": 1}, {"kind": "x", "time": 1}, {"kind": "x", "a b": 1}, "text"])
def test_what_is_no_record_is_refused(path: Path, wrong: object) -> None:
    """The log says what it expects, and stays as it is."""
    with AuditLog(path) as log:
        with pytest.raises(LogError, match="record"):
            log.append(wrong)  # type: ignore[arg-type]
        assert log.append(record()) == 1


def test_wrong_options_are_said(tmp_path: Path) -> None:
    """A suffix that no store has, a path that begins with no field, a key that is too short."""
    with pytest.raises(UnknownNameError, match=r"\.db"):
        AuditLog(tmp_path / "audit.txt")
    with pytest.raises(UnknownNameError, match="did you mean 'args'"):
        AuditLog(tmp_path / "audit.db", redact=["arg.number"])
    with pytest.raises(InputError, match="16"):
        AuditLog(tmp_path / "audit.db", key=b"short")
    assert list(tmp_path.iterdir()) == []


def test_a_log_is_continued_only_with_its_key(path: Path) -> None:
    """With another one, or with none, nothing is added; nor with a key to one that has none."""
    filled(path, 3, key=KEY)
    with pytest.raises(LogError, match="another key"):
        AuditLog(path, key=b"another key of 16")
    with pytest.raises(LogError, match="expected that key"):
        AuditLog(path)
    other = filled(path.with_name(f"other{path.suffix}"), 3)
    with pytest.raises(LogError, match="without the key"):
        AuditLog(other, key=KEY)


def test_a_log_that_was_cut_or_changed_is_not_continued(path: Path) -> None:
    """A running log notices it by what it knows, a new one by the head, or by the last entry itself."""
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
    """What no head knows is not acknowledged."""
    with AuditLog(path, head=path.parent / "none" / "head") as log, pytest.raises(LogError, match="head"):
        log.append(record())


def test_an_unfinished_line_is_dropped_and_said(tmp_path: Path) -> None:
    """The log says how much; a last line that lacks only its end is whole."""
    path = filled(tmp_path / "audit.jsonl", 2)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"entry":{"args":{}')
    assert verify_log(path).notes == ("the last 19 bytes are an unfinished entry, which was never acknowledged",)
    with AuditLog(path) as log:
        assert log.append(record()) == 4
    assert [(one["kind"], one.get("bytes")) for one in read(path)][2:] == [("recovered", 19), ("verdict", None)]
    path.write_bytes(whole[:-1])
    assert verify_log(path).entries == 2
    with AuditLog(path) as log:
        assert log.append(record()) == 3
    assert verify_log(path).status == "whole"
