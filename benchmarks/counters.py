"""Counters under attack: `python benchmarks/counters.py [CHECKS [PROCESSES [FOLDER]]]`, by default 20,000 and 8.

Several processes check refunds of a few customers against one SQLite file, and are killed at random (`kill -9`) and
started again. A guard with a ledger continues the conversations of killed processes and settles their calls in flight.
Each process writes what it lets run, and what failed, to a file of its own before it records the outcome. Afterwards:

    limit       no window of any customer contains more than the limit, of what ran and did not fail
    given back  the counter of each customer is what ran and did not fail: no reservation is left
    used        what was given back was used again: more was allowed in all than the limits, and some was denied

The exit status is 0 if all hold.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from guardagent import InputError
from guardagent.enforcement import HostCall, Outcome, SqliteLedger, ToolGuard
from guardagent.session.counters import open_counters

CUSTOMERS = 8
POLICY = """
version: 1
counters:
  refunds: {on: refund(customer=c, amount=a), key: c, sum: a, window: 24h}
policies:
  - id: daily
    temporal: forall(refund(customer=c, amount=a), counter(refunds, c) + a <= LIMIT)
"""
FAILING = 0.4  # of the calls that run


def guard_in(folder: Path) -> ToolGuard:
    policy = folder / "policy.yaml"
    return ToolGuard(policy, ledger=SqliteLedger(folder / "ledger.db"), counters=f"sqlite:{folder / 'counters.db'}")


def work(folder: Path, name: str, checks: int, seed: int) -> None:
    """Checks refunds; writes each check to the journal, and each call that it lets run with whether that failed."""
    guard, chance = guard_in(folder), random.Random(seed)  # noqa: S311 - no secret
    with (folder / f"{name}.jsonl").open("a", buffering=1) as journal:
        for at in range(checks):
            customer, amount = f"c{chance.randrange(CUSTOMERS)}", chance.choice((1, 2.5, 10))
            call = HostCall("refund", {"customer": customer, "amount": amount}, f"{name}-{seed}-{at // 50}", f"{at}")
            allowed = guard.before(call).label == 0
            journal.write(json.dumps({"checked": at, "allowed": allowed}) + "\n")
            if not allowed:
                continue
            guard.use(call)
            failed = chance.random() < FAILING
            journal.write(
                json.dumps(
                    {"ran": [call.conversation, call.id], "customer": customer, "amount": amount, "failed": failed}
                )
                + "\n"
            )
            guard.after(call, Outcome("no", failed=True) if failed else Outcome("ok"))


def start(folder: Path, name: str, checks: int, seed: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, "--work", str(folder), name, str(checks), str(seed)])  # noqa: S603


def attack(folder: Path, checks: int, processes: int, limit: int) -> int:
    """Runs the processes until all checks are made, and kills one every now and then. Returns the number of kills."""
    (folder / "policy.yaml").write_text(POLICY.replace("LIMIT", str(limit)))
    guard_in(folder)
    left, kills, seed = dict.fromkeys((f"p{at}" for at in range(processes)), checks // processes), 0, 0
    running: dict[str, subprocess.Popen[bytes]] = {}
    chance = random.Random(7)  # noqa: S311 - no secret
    while left:
        for name in left:
            if name not in running:
                seed += 1
                running[name] = start(folder, name, left[name], seed)
        time.sleep(chance.uniform(0.2, 1.0))
        victim = chance.choice(list(running))
        if chance.random() < 0.7:
            running[victim].send_signal(signal.SIGKILL)
        for name, process in list(running.items()):
            if process.poll() is not None:
                kills += process.returncode == -signal.SIGKILL
                assert process.returncode in (0, -signal.SIGKILL), process.returncode
                del running[name]
                left[name] = checks // processes - checked(folder, name)
                if left[name] <= 0:
                    del left[name]
    return kills


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    """The whole lines of a journal; a kill can cut one off."""
    path = folder / f"{name}.jsonl"
    lines = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            lines.append(json.loads(line))
        except ValueError:  # cut off by a kill, and continued by the next process
            continue
    return lines


def checked(folder: Path, name: str) -> int:
    return sum("checked" in line for line in lines(folder, name))


def resolve(folder: Path, ran: dict[tuple[str, str], dict[str, Any]]) -> int:
    """Continues the conversations of killed processes and records the calls that they left in flight."""
    guard, resolved = guard_in(folder), 0
    store = open_counters(f"sqlite:{folder / 'counters.db'}")
    for conversation in {reservation.id.partition(":")[0] for reservation in store.pending()}:
        try:
            session = guard.session(conversation)
        except InputError:  # killed before the call was in the ledger
            continue
        in_flight = [event.id for event in session.history if event.status is None]
        for permit, call_id in zip(session.in_flight, in_flight, strict=True):
            call = ran.get((conversation, str(call_id)))
            session.record("resolved", failed=call is None or call["failed"], permit=permit)
            resolved += 1
    for reservation in store.pending():  # no conversation has the call, so it never ran
        store.release(reservation.id)
        resolved += 1
    return resolved


def report(folder: Path, processes: int, limit: int, kills: int, seconds: float) -> bool:
    records = [line for at in range(processes) for line in lines(folder, f"p{at}")]
    ran = {tuple(line["ran"]): line for line in records if "ran" in line}
    resolved = resolve(folder, ran)
    spent, tried = Counter[str](), Counter[str]()
    for line in ran.values():
        tried[line["customer"]] += line["amount"]
        spent[line["customer"]] += 0 if line["failed"] else line["amount"]
    guard = guard_in(folder)
    left = {
        customer: guard.preview(
            HostCall("refund", {"customer": customer, "amount": limit - total}, "end", customer)
        ).label
        for customer, total in spent.items()
    }
    over = {
        customer: guard.preview(
            HostCall("refund", {"customer": customer, "amount": limit - total + 0.5}, "end", f"{customer}+")
        ).label
        for customer, total in spent.items()
    }
    total_checks = sum("checked" in line for line in records)
    denied = sum(not line["allowed"] for line in records if "checked" in line)
    within = all(total <= limit for total in spent.values())
    exact = not any(left.values()) and all(over.values())
    print(f"{total_checks:,} checks in {seconds:.0f} s by {processes} processes, {kills} kills, {denied:,} denied")
    print(f"{resolved} calls in flight of killed processes were resolved")
    print(f"limit {limit}: ran without failure {dict(sorted(spent.items()))}; run in all {sum(tried.values()):,.0f}")
    print(f"never above the limit: {within}; what failed was given back, to the cent: {exact}")
    return within and exact


def main() -> int:
    if sys.argv[1:2] == ["--work"]:
        work(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
        return 0
    checks, processes = int(sys.argv[1]) if sys.argv[1:] else 20_000, int(sys.argv[2]) if sys.argv[2:] else 8
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[3]) if sys.argv[3:] else Path(temporary)
        started = time.monotonic()
        limit = checks // 4  # less than what the processes try to spend
        kills = attack(folder, checks, processes, limit)
        return 0 if report(folder, processes, limit, kills, time.monotonic() - started) else 1


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
