"""An audit that is killed anywhere and resumed has each verdict once."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from guardagent.batch.arrow.judge import AuditCounts
from guardagent.batch.arrow.work import AuditFolder
from guardagent.errors import InputError
from tests.batch.arrow.logs import POLICY, conversations, events_of, write_table
from tests.batch.arrow.runs import audit, bundle_of, verdicts

PARTS = 150


def _log(folder: Path, count: int = 200) -> Path:
    """A log over several files, in the order of no trace."""
    events = events_of(conversations(5, count))
    random.Random(1).shuffle(events)  # noqa: S311 - the same order every time
    (folder / "log").mkdir()
    for number in range(4):
        write_table(folder / "log" / f"{number}.parquet", events[number::4])
    return folder / "log"


def test_missing_parts_are_judged_again(tmp_path: Path) -> None:
    log, bundle, out = _log(tmp_path), bundle_of(tmp_path, POLICY), tmp_path / "out"
    whole = audit([log], bundle, out)
    before, times = verdicts(out), {part.name: part.stat().st_mtime_ns for part in out.glob("part-*")}
    for number in (0, 3):
        (out / f"part-{number:05}.parquet").unlink()
    done: list[tuple[int, int]] = []
    assert audit([log], bundle, out, resume=True, advance=lambda *now: done.append(now)) == whole
    assert done == [(6, 8), (7, 8), (8, 8)]
    assert verdicts(out) == before
    kept = {part.name for part in out.glob("part-*") if part.stat().st_mtime_ns == times[part.name]}
    assert len(kept) == 6


def test_results_of_another_run_are_not_continued(tmp_path: Path) -> None:
    log, bundle, out = _log(tmp_path, 20), bundle_of(tmp_path, POLICY), tmp_path / "out"
    audit([log], bundle, out)
    with pytest.raises(InputError, match="already holds results"):
        audit([log], bundle, out)
    with pytest.raises(InputError, match="other policies"):
        audit([log], bundle_of(tmp_path, POLICY.replace("100", "99")), out, resume=True)
    write_table(log / "0.parquet", events_of(conversations(9, 9)))
    with pytest.raises(InputError, match="other files"):
        audit([log], bundle, out, resume=True)
    (out / "_audit.json").rename(tmp_path / "kept.json")
    with pytest.raises(InputError, match="holds parts without"):
        audit([log], bundle, out)
    (tmp_path / "kept.json").rename(out / "_audit.json")
    part = out / "part-00002.parquet"
    part.write_bytes(part.read_bytes()[:50])
    with pytest.raises(InputError, match=r"part-00002.parquet: is not a part of this run"):
        AuditFolder(str(out)).finished(AuditCounts)


def _start(log: Path, policy: Path, out: Path) -> subprocess.Popen[bytes]:
    options = ["-p", str(policy), "--workers", "2", "--out", str(out), "--resume"]
    command = [sys.executable, "-m", "guardagent", "audit", str(log), *options]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["driver", "worker"])
def test_killed_at_random_nothing_is_missing_and_nothing_twice(tmp_path: Path, target: str) -> None:
    log, bundle = _log(tmp_path, 2000), bundle_of(tmp_path, POLICY)
    audit([log], bundle, tmp_path / "whole", partitions=PARTS)
    AuditFolder(str(tmp_path / "out")).write_manifest(AuditFolder(str(tmp_path / "whole")).manifest() or {})
    chance, seen = random.Random(), [0]  # noqa: S311 - other moments every time
    for _ in range(3):
        run = _start(log, tmp_path / "policies.yaml", tmp_path / "out")
        while run.poll() is None and len(list((tmp_path / "out").glob("part-*"))) == seen[-1]:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.05))
        victims = [run.pid] if target == "driver" else _workers(run.pid)
        with contextlib.suppress(ProcessLookupError, IndexError):
            os.kill(chance.choice(victims), signal.SIGKILL)
        run.wait()
        seen.append(len(AuditFolder(str(tmp_path / "out")).part_numbers()))
    assert any(0 < count < PARTS for count in seen), "a run was killed between two parts"
    assert _start(log, tmp_path / "policies.yaml", tmp_path / "out").wait() == 1, "with denials"
    assert verdicts(tmp_path / "out") == verdicts(tmp_path / "whole")


def _workers(pid: int) -> list[int]:
    """The processes that work for a run."""
    try:
        children = psutil.Process(pid).children(recursive=True)
        return [child.pid for child in children if not any("resource_tracker" in part for part in child.cmdline())]
    except psutil.Error:
        return []
