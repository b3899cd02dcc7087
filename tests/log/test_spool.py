"""A spool: records that cannot be logged wait in a local file, and the log catches up."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from guardagent.enforcement import ToolGuard
from guardagent.errors import InputError, LogError
from guardagent.log import AuditLog, verify_log
from guardagent.log.spool import Spool
from guardagent.log.stores import open_reader
from tests.enforcement.guards import LIMIT, MemoryLog, guard, ran, refund


def numbers(path: Path) -> list[Any]:
    return [json.loads(entry.text).get("n") for entry in open_reader(path)]


def broken(path: Path) -> Path:
    """Replaces the log with a folder."""
    kept = path.with_name("kept")
    path.rename(kept)
    path.mkdir()
    return kept


def mended(path: Path, kept: Path) -> None:
    path.rmdir()
    kept.rename(path)


def test_the_log_catches_up_in_order(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with AuditLog(path, redact=["args.card"]) as log:
        spool = Spool(log)
        spool.append({"kind": "x", "n": 0})
        kept = broken(path)
        for at in (1, 2):
            spool.append({"kind": "x", "n": at, "args": {"card": "4111"}})
        assert b"4111" not in spool.path.read_bytes()
        mended(path, kept)
        spool.append({"kind": "x", "n": 3})
    assert numbers(path) == [0, 1, 2, 3]
    assert spool.path.stat().st_size == 0
    assert verify_log(path).status == "end_unchecked"


def test_another_guard_catches_up_after_a_crash_and_nothing_is_written_twice(tmp_path: Path) -> None:
    """A process is killed while catching up: the entry is in the log, but its position is not stored."""
    path = tmp_path / "log.jsonl"
    with AuditLog(path) as log:
        spool = Spool(log)
        spool.append({"kind": "x", "n": 0})
        kept = broken(path)
        for at in (1, 2, 3):
            spool.append({"kind": "x", "n": at})
        mended(path, kept)
    with spool.path.open("ab") as file:
        file.write(b'[0, "unfinis')
    if (child := os.fork()) == 0:

        class Killed(AuditLog):
            def append_prepared(self, text: str) -> int:
                seq = super().append_prepared(text)
                if '"n":2' in text:
                    os.kill(os.getpid(), signal.SIGKILL)
                return seq

        Spool(Killed(path), spool.path)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    with AuditLog(path) as log:
        Spool(log).append({"kind": "x", "n": 4})
    assert numbers(path) == [0, 1, 2, 3, 4]


def test_any_log_can_have_a_spool(tmp_path: Path) -> None:
    """The spool stores its own position."""
    log = MemoryLog()
    spool = Spool(log, tmp_path / "spool")
    log.error = OSError("no network")
    spool.append({"kind": "x", "n": 0})
    spool.append({"kind": "x", "n": 1})
    log.error = None
    Spool(log, tmp_path / "spool").append({"kind": "x", "n": 2})
    assert [record["n"] for record in log.records] == [0, 1, 2]


def test_calls_continue_while_the_log_is_unavailable(tmp_path: Path) -> None:
    """Verdicts and outcomes wait; if the spool cannot be written either, the call is denied."""
    log = MemoryLog()
    limit_guard = guard(LIMIT, log=log, on_log_error="spool", log_spool=tmp_path / "spool")
    log.error = OSError("disk full")
    ran(limit_guard, refund())
    (tmp_path / "spool").chmod(0o400)
    (tmp_path / "spool").rename(tmp_path / "away")
    (tmp_path / "spool").mkdir()
    assert "neither the log nor" in limit_guard.before(refund()).errors[0]
    (tmp_path / "spool").rmdir()
    (tmp_path / "away").rename(tmp_path / "spool")
    (tmp_path / "spool").chmod(0o600)
    log.error = None
    ran(limit_guard, refund())
    assert [record["kind"] for record in log.records] == ["verdict", "outcome"] * 2
    assert [event.status for event in limit_guard.session("c").history] == ["ok", "ok"]


def test_a_spool_needs_a_path(tmp_path: Path) -> None:
    for options in (
        {"on_log_error": "spool"},
        {"on_log_error": "spool", "log": MemoryLog()},
        {"log": MemoryLog(), "log_spool": tmp_path / "spool"},
        {"on_log_error": "spool", "log": MemoryLog(), "log_spool": tmp_path},
    ):
        with pytest.raises(InputError, match="spool"):
            guard(LIMIT, **options)
    with AuditLog(tmp_path / "log.db") as log:
        assert isinstance(guard(LIMIT, on_log_error="spool", log=log), ToolGuard)
        with pytest.raises(LogError):
            Spool(log).append({"no": "kind"})
