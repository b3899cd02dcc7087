"""`kill -9` at random moments: every acknowledged entry is there, and the chain is whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from guardagent.log import Head, verify_log
from tests.log.logs import read
from tests.tiers import slow_after

ROUNDS = 20

KILLED = """
import os, random, signal, sys, threading, time
from guardagent.log import AuditLog
path, head, rng = sys.argv[1], sys.argv[2], random.Random(sys.argv[1])

def write(name, pipe):
    log = AuditLog(path, head=head, max_bytes=int(sys.argv[4]) or None)
    def work(thread):
        for number in range(100_000):
            text = f"{name} {thread} {number}"
            log.append({"kind": "verdict", "args": {"text": text}})
            os.write(pipe, f"{text}\\n".encode())
    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]

for turn in range(int(sys.argv[3])):
    pipe, end = os.pipe()
    writers = []
    for writer in range(2):
        writers.append(os.fork())
        if not writers[-1]:
            os.close(pipe)
            write(f"{turn} {writer}", end)
    os.close(end)
    output = os.read(pipe, 100)
    for writer in writers:
        time.sleep(rng.random() * 0.03)
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
    while more := os.read(pipe, 65536):
        output += more
    sys.stdout.write(output.decode())
    sys.stdout.flush()
"""


@pytest.mark.parametrize(("suffix", "max_bytes"), slow_after(1, [(".db", 0), (".jsonl", 0), (".jsonl", 2000)]))
def test_acknowledged_entries_survive_their_writers(tmp_path: Path, suffix: str, max_bytes: int) -> None:
    """Two writers with two threads each are killed, twenty times; the next ones continue."""
    path, head = tmp_path / f"audit{suffix}", tmp_path / "head"
    command = [sys.executable, "-c", KILLED, str(path), str(head), str(ROUNDS), str(max_bytes)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    acknowledged = set(ran.stdout.splitlines())
    report = verify_log(path, head=Head.load(head))
    assert report.status == "whole", report.problem
    there = [entry["args"]["text"] for entry in read(path) if entry["kind"] == "verdict"]
    assert len(acknowledged) > ROUNDS
    assert acknowledged <= set(there)
    assert len(there) - len(acknowledged) <= 4 * ROUNDS
    assert len(there) == len(set(there))
