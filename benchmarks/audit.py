"""Speed, memory and crash safety of `guardagent audit`.

`python benchmarks/audit.py [--events N] [--workers N] [--kills N] [--folder DIR]` writes a log of N events (default: a
million) in traces of different lengths, with some unreadable lines. It audits the log once, for time and peak memory of
all processes. Then it audits the log again, killing and resuming the run repeatedly, and compares the results.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

POLICIES = """\
version: 1
failed_output: "^Error"
policies:
  - id: authenticate_first
    temporal: 'G(tool:refund -> O tool:authenticate)'
    message: A refund needs an authentication before it.
  - id: order_was_read
    temporal: 'before(refund(order_id=o), True, f:get_order(order_id=o), output(f).status == "delivered")'
    message: A refund needs an order that was read and is delivered.
  - id: small_refunds
    temporal: 'forall(refund(amount=a), a <= 400)'
    on_violation: escalate
  - id: few_refunds
    temporal: 'forall(refund(), count(f:refund(), !failed(f)) < 3)'
  - id: receipt_owed
    temporal: 'after(refund(order_id=o), True, f:send_receipt(order_id=o), True)'
    message: A refund needs a receipt after it.
"""


def events(chance: random.Random, count: int) -> Iterator[dict[str, Any]]:
    """One conversation with a number of calls."""
    yield {"tool": "authenticate", "args": {"user": chance.randrange(10**6)}, "output": "ok"}
    order = f"#W{chance.randrange(10**6)}"
    for _ in range(count - 1):
        tool = chance.choices(["get_order", "search", "refund", "send_receipt"], [5, 10, 1, 2])[0]
        if tool == "get_order":
            order = f"#W{chance.randrange(10**6)}"
            status = chance.choice(["delivered", "delivered", "pending"])
            yield {"tool": tool, "args": {"order_id": order}, "output": json.dumps({"id": order, "status": status})}
        elif tool == "refund":
            yield {"tool": tool, "args": {"order_id": order, "amount": chance.randrange(500)}, "output": "refunded"}
        else:
            yield {"tool": tool, "args": {"order_id": order}, "output": chance.choice(["done", "Error: try later"])}


def write_log(path: Path, total: int) -> tuple[int, int]:
    """Writes a log with a number of events; returns the numbers of traces and of unreadable lines."""
    chance, left, traces, bad = random.Random(5), total, 0, 0  # noqa: S311 - the same log every time
    with path.open("w", encoding="utf-8") as file:
        while left:
            count = min(left, 1 + int(chance.expovariate(1 / 50)))
            record = {"id": f"t{traces}", "events": list(events(chance, count)), "state": {}, "facts": {}}
            file.write(json.dumps(record) + "\n")
            left, traces = left - count, traces + 1
            if chance.random() < 0.001:
                file.write('{"id": "torn", "events": [\n')
                bad += 1
    return traces, bad


class Audit:
    """One run of the command."""

    def __init__(self, log: Path, policies: Path, out: Path, workers: int, *, resume: bool = False) -> None:
        command = [sys.executable, "-m", "guardagent", "audit", log, "--policies", policies, "--out", out]
        command += ["--workers", workers, *(["--resume"] if resume else [])]
        self.started = time.perf_counter()
        self.process = subprocess.Popen([str(part) for part in command], stderr=subprocess.PIPE, text=True)  # noqa: S603
        self.peak = 0
        self._watch = threading.Thread(target=self._measure, daemon=True)
        self._watch.start()

    def wait(self) -> tuple[int, float, str]:
        """(exit status, seconds, standard error)."""
        output = self.process.communicate()[1]
        self._watch.join()
        return self.process.returncode, time.perf_counter() - self.started, output

    def kill_after(self, seconds: float) -> bool:
        """Kills the run after a time; whether it was still running."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
        self.process.communicate()
        return self.process.returncode == -signal.SIGKILL

    def _measure(self) -> None:
        """Measures the peak memory of all processes together in MB; shared memory counts for each."""
        while self.process.poll() is None:
            try:
                root = psutil.Process(self.process.pid)
                resident = sum(child.memory_info().rss for child in [root, *root.children(recursive=True)])
            except psutil.Error:
                continue
            self.peak = max(self.peak, resident // 10**6)
            time.sleep(0.02)


def rows(out: Path) -> list[dict[str, Any]]:
    """The rows of a file, without the time that each took."""
    result_rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in row.items() if key != "elapsed_ms"} for row in result_rows]


def measure(arguments: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    log, policies, out = folder / "log.jsonl", folder / "policies.yaml", folder / "whole.jsonl"
    policies.write_text(POLICIES)
    traces, bad = write_log(log, arguments.events)
    print(f"{arguments.events:,} events in {traces:,} traces, {log.stat().st_size / 1e6:,.0f} MB, {bad} bad lines")
    audit = Audit(log, policies, out, arguments.workers)
    status, seconds, output = audit.wait()
    print(f"exit {status} after {seconds:.1f} s: {arguments.events / seconds:,.0f} events/s, peak {audit.peak} MB")
    print("\n".join(line for line in output.splitlines() if not line.startswith("guardagent:")))
    out_rows = rows(out)
    assert [row["id"] for row in out_rows] == [f"t{number}" for number in range(traces)]
    assert output.count("guardagent: ") == bad
    return out_rows


def kill(arguments: argparse.Namespace, folder: Path, expected: list[dict[str, Any]]) -> None:
    log, policies, out = folder / "log.jsonl", folder / "policies.yaml", folder / "killed.jsonl"
    chance, before, kills = random.Random(), b"", 0  # noqa: S311 - other places every time
    while kills < arguments.kills:
        audit = Audit(log, policies, out, arguments.workers, resume=True)
        if not audit.kill_after(chance.uniform(0.3, 4)):
            break
        kills += 1
        now = out.read_bytes() if out.exists() else b""
        whole = before[: before.rfind(b"\n") + 1]
        assert now.startswith(whole), "a row that was written is there still"
        before = now
    status, _, _ = Audit(log, policies, out, arguments.workers, resume=True).wait()
    assert out.read_bytes().startswith(before[: before.rfind(b"\n") + 1])
    same = rows(out) == expected
    print(f"killed {kills} times, the last run ended with {status}: rows are {'the same' if same else 'NOT the same'}")
    if not same:
        sys.exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--folder", type=Path, help="keeps the files there, instead of in a folder that goes")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for out in folder.glob("*.jsonl*"):
            out.unlink()
        kill(arguments, folder, measure(arguments, folder))


if __name__ == "__main__":
    main()
