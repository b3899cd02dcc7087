"""State that machines share, under attack, and its cost.

`python benchmarks/shared_state.py ADDRESS [SECONDS [PROCESSES]]`; ADDRESS is `sqlite:PATH`, `postgresql://…` or
`redis://…`, or `own-postgresql` or `own-redis`: then the benchmark starts a server of its own, and also kills and
restarts it. It needs an empty store.

Processes make calls in a few conversations that all of them share. At random they are killed (`kill -9`) or stopped and
continued, their connections are cut, and the server is restarted. Each writes to a file of its own that a call runs,
before it does, and its outcome, once the ledger has acknowledged it. Afterwards:

    once        no call ran twice
    judged      one session judges the history again, call by call, and would have allowed each call
    limit       the counters never exceeded the limit, and count what ran
    kept        each call that ran is in the history, and each acknowledged outcome

Before, one process makes 300 calls without disturbance and measures time and CPU. The exit status is 0 if all hold.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any

from guardagent import InputError, Policies, load_policies
from guardagent.enforcement import HostCall, Outcome, ToolGuard
from guardagent.enforcement.ledger import open_ledger
from guardagent.errors import GuardError

LIMIT, ORDERS, CONVERSATIONS = 12, 400, 3
POLICY = f"""
version: 1
counters:
  paid: {{on: refund(customer=c), key: c}}
policies:
  - id: once
    temporal: forall(refund(order=o), count(f:refund(order=o)) == 0)
  - id: authenticated
    temporal: G(tool:refund -> O tool:authenticate)
  - id: few
    temporal: forall(refund(customer=c), counter(paid, c) < {LIMIT})
"""
CUSTOMERS = 12


def policies() -> Policies:
    return load_policies(text=POLICY)


def addresses(address: str) -> tuple[str, str]:
    """The addresses of the ledger and of the counters."""
    if address.startswith("sqlite:"):
        return f"{address}.ledger", f"{address}.counters"
    return address, address


def guard_on(address: str) -> ToolGuard:
    ledger, counters = addresses(address)
    return ToolGuard(policies(), ledger=ledger, counters=counters)


def guard_when_up(address: str) -> ToolGuard:
    """Opens the stores; a server that restarts is tried again."""
    for _ in range(100):
        with contextlib.suppress(InputError):
            return guard_on(address)
        time.sleep(0.1)
    return guard_on(address)


# --- a process


def work(address: str, folder: Path, name: str, seed: int) -> None:
    guard, chance = guard_when_up(address), random.Random(seed)  # noqa: S311 - no secret
    with (folder / f"{name}.{seed}.jsonl").open("a", buffering=1) as file:

        def note(**fields: Any) -> None:
            file.write(json.dumps(fields) + "\n")

        at = 0
        while True:
            at += 1
            conversation = f"c{chance.randrange(CONVERSATIONS)}"
            order = chance.randrange(ORDERS)
            args = {"order": order, "customer": order % CUSTOMERS}
            tool = "authenticate" if chance.random() < 0.05 else "refund"
            call = HostCall(tool, args if tool == "refund" else {}, conversation, f"{name}-{seed}-{at}")
            verdict = guard.before(call)
            note(checked=call.id, label=verdict.label, unchecked=bool(verdict.errors))
            if verdict.label:
                continue
            try:
                guard.use(call)
            except GuardError as error:
                note(unused=call.id, error=str(error))
                continue
            note(ran=call.id, tool=tool, conversation=conversation, **args)
            guard.after(call, Outcome("done"))
            with contextlib.suppress(GuardError):
                if any(event.id == call.id and event.status == "ok" for event in guard.session(conversation).history):
                    note(recorded=call.id, conversation=conversation)


# --- servers


@dataclass
class StateServer:
    """The server that keeps the state."""

    address: str
    cut: Callable[[], None] = lambda: None
    restart: Callable[[], None] | None = None
    events: Counter[str] = field(default_factory=Counter)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as create_server:
        return int(create_server.getsockname()[1])


@contextlib.contextmanager
def server_at(address: str, folder: Path) -> Iterator[StateServer]:
    if address == "own-redis":
        yield from own_redis(folder)
    elif address == "own-postgresql":
        yield from own_postgres(folder)
    else:
        yield StateServer(address)


def own_redis(folder: Path) -> Iterator[StateServer]:
    import redis

    port = free_port()
    options = ["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--dir", str(folder)]
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", *options]
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL)]  # noqa: S603

    def cut() -> None:
        with contextlib.suppress(redis.RedisError), redis.Redis(port=port, socket_timeout=1) as client:
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def restart() -> None:
        running[0].kill()
        running[0].wait()
        running[0] = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603

    time.sleep(0.5)
    try:
        yield StateServer(f"redis://127.0.0.1:{port}/0", cut, restart)
    finally:
        running[0].kill()
        running[0].wait()


def own_postgres(folder: Path) -> Iterator[StateServer]:
    import psycopg

    programs = shutil.which("initdb") or str(max(Path("/usr/lib/postgresql").glob("*/bin/initdb"), default=""))
    place, port = folder / "data", free_port()
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
    folder.chmod(0o755)
    place.mkdir(mode=0o700)
    if user:
        shutil.chown(place, "postgres", "postgres")

    def run(program: str, *options: str) -> None:
        command = [*user, str(Path(programs).with_name(program)), "-D", str(place), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=place)  # noqa: S603

    run("initdb", "-U", "guard", "-A", "trust")
    start = ("start", "-w", "-o", f"-p {port} -k {place} -c listen_addresses=127.0.0.1", "-l", str(place / "log"))
    run("pg_ctl", *start)
    address = f"postgresql://guard@127.0.0.1:{port}/postgres"

    def cut() -> None:
        query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'guardagent'"
        with contextlib.suppress(psycopg.Error), psycopg.connect(address, connect_timeout=2) as db:
            db.execute(query)

    def restart() -> None:
        run("pg_ctl", "stop", "-m", "immediate")
        run("pg_ctl", *start)

    try:
        yield StateServer(address, cut, restart)
    finally:
        run("pg_ctl", "stop", "-m", "immediate")


# --- the attack


def start(server: StateServer, folder: Path, name: str, seed: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, "--work", server.address, str(folder), name, str(seed)]
    return subprocess.Popen(command)  # noqa: S603


def attack(server: StateServer, folder: Path, seconds: float, processes: int) -> None:
    chance, seed, end = random.Random(7), 0, time.monotonic() + seconds  # noqa: S311 - no secret
    running: dict[str, subprocess.Popen[bytes]] = {}
    stopped: list[subprocess.Popen[bytes]] = []
    while time.monotonic() < end:
        for name in (f"p{at}" for at in range(processes)):
            if name not in running or running[name].poll() is not None:
                seed += 1
                running[name] = start(server, folder, name, seed)
        time.sleep(chance.uniform(0.2, 1.0))
        kind = chance.choices(["kill", "stop", "cut", "restart"], [4, 3, 3, 1])[0]
        victim = running[chance.choice(list(running))]
        while len(stopped) > 2:
            stopped.pop(0).send_signal(signal.SIGCONT)
        if kind == "kill":
            victim.kill()
            victim.wait()
        elif kind == "stop" and victim not in stopped:
            victim.send_signal(signal.SIGSTOP)
            stopped.append(victim)
        elif kind == "cut":
            server.cut()
        elif kind == "restart" and server.restart is not None:
            server.restart()
        server.events[kind] += 1
    for process in running.values():
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()


def records(folder: Path) -> list[dict[str, Any]]:
    records = []
    for path in sorted(folder.glob("p*.jsonl")):
        for line in path.read_text().splitlines():
            with contextlib.suppress(ValueError):  # cut off by a kill
                records.append(json.loads(line))
    return records


def judged(ledger: Any) -> tuple[int, list[str], dict[str, str | None]]:
    """Judges the history of each conversation in one session. Returns calls, problems and status by call id."""
    problems, statuses = [], dict[str, str | None]()
    for conversation in (f"c{at}" for at in range(CONVERSATIONS)):
        session, permits = policies().session(counters=f"memory:{conversation}"), []
        for _, _, text in ledger.entries(conversation, 0):
            entry = json.loads(text)
            if placed := entry.get("placed"):
                verdict = session.check(placed["tool"], placed["args"], id=placed["id"])
                statuses[placed["id"]] = None
                permits.append((verdict.permit, placed["id"]))
                if verdict.label:
                    problems.append(f"{conversation}: {placed['tool']} {placed['args']} is denied: {verdict.reasons}")
            elif "settled" in entry and permits[entry["settled"] - 1][0] is not None:
                permit, call = permits[entry["settled"] - 1]
                session.record(entry["output"], entry["status"] == "failed", permit)
                statuses[call] = entry["status"]
    return len(statuses), problems, statuses


def report(server: StateServer, folder: Path) -> bool:
    lines = records(folder)
    ran = [line for line in lines if "ran" in line]
    refunds = Counter((line["conversation"], line["order"]) for line in ran if line["tool"] == "refund")
    spent = Counter(line["customer"] for line in ran if line["tool"] == "refund")
    calls, problems, statuses = judged(open_ledger(addresses(server.address)[0]))
    lost = [line["ran"] for line in ran if line["ran"] not in statuses]
    forgotten = [line["recorded"] for line in lines if "recorded" in line and statuses.get(line["recorded"]) != "ok"]
    over = {customer: count for customer, count in spent.items() if count > LIMIT}
    twice = [name for name, count in refunds.items() if count > 1]
    checked, unchecked = sum("checked" in line for line in lines), sum(line.get("unchecked", False) for line in lines)
    print(f"{checked:,} checks, {len(ran):,} calls ran, {unchecked:,} denied unchecked; {dict(server.events)}")
    print(f"{calls:,} calls in the histories, {sum(status is None for status in statuses.values())} still in flight")
    print(f"ran twice: {twice}; denied by one session: {problems[:3]}; above the limit: {over}")
    print(f"ran and not in the history: {lost[:3]}; acknowledged outcomes that are lost: {forgotten[:3]}")
    return not (twice or problems or over or lost or forgotten)


def cost(address: str, calls: int = 300) -> None:
    """Measures calls of one process, each with its outcome."""
    guard, times = guard_on(address), []
    guard.before(login := HostCall("authenticate", {}, "cost", "login"))
    guard.use(login)
    guard.after(login, Outcome("done"))
    cpu = time.process_time()
    for at in range(calls):
        started = time.perf_counter()
        call = HostCall("refund", {"order": at, "customer": f"cost {at % 100}"}, "cost", str(at))
        assert guard.before(call).label == 0
        guard.use(call)
        guard.after(call, Outcome("done"))
        times.append(1000 * (time.perf_counter() - started))
    cuts = quantiles(times, n=100)
    used = 1000 * (time.process_time() - cpu) / calls
    print(f"per call with its outcome: p50 {cuts[49]:.1f} ms, p99 {cuts[98]:.1f} ms, CPU of the process {used:.1f} ms")


def main() -> int:
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], Path(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
        return 0
    seconds, processes = float((sys.argv[2:] or ["60"])[0]), int((sys.argv[3:] or ["8"])[0])
    with tempfile.TemporaryDirectory() as temporary, server_at(sys.argv[1], Path(temporary)) as server:
        folder = Path(temporary, "records")
        folder.mkdir()
        cost(server.address)
        attack(server, folder, seconds, processes)
        return 0 if report(server, folder) else 1


if __name__ == "__main__":
    sys.exit(main())
