"""The audit log: `python benchmarks/log.py [ENTRIES | verify [ENTRIES]]`.

Appends ENTRIES (2,000) of the size of a verdict, and compares with SQLite alone: the same texts, made beforehand and
without a chain, in a table of one text column, with the same journal mode and `synchronous`, from as many writers.

one_thread one thread, so that every entry is a transaction of its own, on both sides
threads    eight threads. On both sides, who waits takes all that is waiting and commits it for everybody
processes  four processes; each entry is a transaction of its own (BEGIN IMMEDIATE), on both sides

durable writes every commit through to the disk (synchronous = FULL; in JSON Lines an fsync); not durable does not
(NORMAL; no fsync). A rate is entries per second of the clock, since it is the disk that is waited for; the median of
five rounds, in each of which all are measured in turn. The ratio is the median of the rounds' ratios to SQLite alone.

verify     fills a log with ENTRIES (5,000,000) and verifies it: seconds, and the largest resident size
"""

from __future__ import annotations

import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from guardagent.log import AuditLog, verify_log
from guardagent.log.chain import Chain
from guardagent.log.records import RecordEncoder
from guardagent.log.stores import open_store

ROUNDS, THREADS, PROCESSES = 5, 8, 4
KEY = b"sixteen bytes or more"
Append = Callable[[], object]


def record() -> dict[str, Any]:
    return {
        "kind": "verdict",
        "conversation": "c-7f3a",
        "agent": "planner",
        "tool": "refund",
        "call_id": "call_81",
        "args": {"order": "W1942", "amount": 120, "reason": "damaged", "card": {"number": "4111111111111111"}},
        "decision": "deny",
        "label": 1,
        "rules": ["small_refunds"],
        "reasons": ["A refund of more than 100 needs a person's approval."],
        "violations": [
            {"policy": "small_refunds", "message": "…", "evidence": {"amount": 120}, "remedy": "amount <= 100"}
        ],
        "errors": [],
        "checked_by": "policy",
        "policy": "sha256:9f2c",
        "permit": None,
        "elapsed_ms": 0.041,
    }


TEXT = RecordEncoder((), Chain(), time.time).encode(record())


class Bare:
    """SQLite alone, where those who wait share a commit."""

    def __init__(self, path: Path, *, durable: bool) -> None:
        self.db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=60)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        self.db.execute("CREATE TABLE IF NOT EXISTS bare (seq INTEGER PRIMARY KEY, entry TEXT NOT NULL)")
        self.waiting: deque[list[str]] = deque()
        self.lock = threading.Lock()

    def append(self) -> None:
        mine = [TEXT]
        self.waiting.append(mine)
        with self.lock:
            if not mine:
                return
            batch = [self.waiting.popleft() for _ in range(len(self.waiting))]
            self.db.execute("BEGIN IMMEDIATE")
            self.db.executemany("INSERT INTO bare (entry) VALUES (?)", batch)
            self.db.execute("COMMIT")
            for waiting_text in batch:
                waiting_text.clear()

    def close(self) -> None:
        self.db.close()


class Logged:
    """The audit log."""

    def __init__(self, path: Path, *, durable: bool, **options: Any) -> None:
        self.log = AuditLog(path, durable=durable, **options)
        self.record = record()

    def append(self) -> None:
        self.log.append(self.record)

    def close(self) -> None:
        self.log.close()


def opened(kind: str, folder: Path, *, durable: bool) -> Bare | Logged:
    if kind == "SQLite alone":
        return Bare(folder / "bare.db", durable=durable)
    suffix = "jsonl" if "JSON" in kind else "db"
    options: dict[str, Any] = {"key": KEY, "redact": ["args.card.number"]} if "key" in kind else {}
    options |= {"head": folder / "head"} if "head" in kind else {}
    return Logged(folder / f"audit.{suffix}", durable=durable, **options)


KINDS = ("SQLite alone", "log, SQLite", "log, JSON Lines", "log, SQLite, key and redaction", "log, SQLite, head")


def one_thread(kind: str, folder: Path, count: int, *, durable: bool) -> float:
    return _timed(opened(kind, folder, durable=durable), count, 1)


def threads(kind: str, folder: Path, count: int, *, durable: bool) -> float:
    return _timed(opened(kind, folder, durable=durable), count, THREADS)


def _timed(target: Bare | Logged, count: int, writers: int) -> float:
    def work() -> None:
        for _ in range(count // writers):
            target.append()

    running = [threading.Thread(target=work) for _ in range(writers)]
    started = time.perf_counter()
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    took = time.perf_counter() - started
    target.close()
    return count / took


def processes(kind: str, folder: Path, count: int, *, durable: bool) -> float:
    """They begin together, once all of them are ready."""
    opened(kind, folder, durable=durable).close()
    command = [sys.executable, __file__, "_writes", kind, str(folder), str(count // PROCESSES), str(int(durable))]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603
        for _ in range(PROCESSES)
    ]
    for process in running:
        assert process.stdout is not None
        process.stdout.readline()
    started = time.perf_counter()
    for process in running:
        assert process.stdin is not None
        process.stdin.close()
    assert [process.wait() for process in running] == [0] * PROCESSES
    return count / (time.perf_counter() - started)


def _writes(kind: str, folder: str, count: str, durable: str) -> None:
    target = opened(kind, Path(folder), durable=durable == "1")
    print("ready", flush=True)
    sys.stdin.read()
    for _ in range(int(count)):
        target.append()
    os._exit(0)  # moving everything into one file at the end is not measured, on either side


def compare(count: int) -> None:
    print(f"{count:,} entries of {len(TEXT):,} bytes; entries per second, and the ratio to SQLite alone\n")
    for durable in (True, False):
        for way in (one_thread, threads, processes):
            rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
            for _ in range(ROUNDS):
                for kind in KINDS:
                    with tempfile.TemporaryDirectory() as folder:
                        rates[kind].append(way(kind, Path(folder), count, durable=durable))
            print(f"{'durable' if durable else 'not durable'}, {way.__name__}")
            for kind, rate in rates.items():
                ratios = [mine / bare for mine, bare in zip(rate, rates[KINDS[0]], strict=True)]
                print(f"  {kind:32} {statistics.median(rate):9,.0f}  {statistics.median(ratios):5.2f}", flush=True)


def verify(count: int) -> None:
    """Filled in portions, in another way than by appending: what is measured is the reading."""
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("db", "jsonl"):
            path = Path(folder) / f"audit.{suffix}"
            _fill(path, count)
            command = [sys.executable, __file__, "_verifies", str(path)]
            print(f"{suffix}: {path.stat().st_size / 1e9:.1f} GB; ", end="", flush=True)
            subprocess.run(command, check=True)  # noqa: S603
            path.unlink()


def _fill(path: Path, count: int) -> None:
    store, chain = open_store(path, durable=False), Chain()
    for _ in range(count // 10_000):
        store.append(lambda last, _: chain.link(last, [TEXT] * 10_000))
    store.close()


def _verifies(path: str) -> None:
    started = time.process_time()
    report = verify_log(path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
    took = time.process_time() - started
    print(f"{report.entries:,} entries {report.status}: {took:.1f} s of CPU, at most {peak:.0f} MB")


if __name__ == "__main__":
    if sys.argv[1:2] == ["verify"]:
        verify(int(sys.argv[2]) if len(sys.argv) > 2 else 5_000_000)
    elif sys.argv[1:2] and sys.argv[1].startswith("_"):
        globals()[sys.argv[1]](*sys.argv[2:])
    else:
        compare(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
