"""The time of a check while calls wait for reviewers: `python -m benchmarks.waiters [STATE [SECONDS [RATE]]]`.

STATE is as for `benchmarks/server.py`. It starts `guardagent serve`, lets a number of requests wait for an approval
that nobody answers (they come within 10 seconds; each waits up to 20 seconds, and then again), and offers checks at a
fixed rate (50 a second). The table has, for each number, p50 and p99 of a check in milliseconds, the longest, the
checks that were not answered with 200, the CPU time of the server, and (Linux) the time for which its event loop waited
for a CPU, in milliseconds a second: where that is more than a few, other programs of the machine make the p99.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import quantiles
from typing import Any

from benchmarks.server import KeptConnection, cpu_seconds, served

WAITERS = (0, 40, 2000)
POLICIES = """\
version: 1
policies:
  - {id: small, on_violation: escalate, temporal: "forall(pay(amount=a), a <= 100)"}
"""
GIVES_UP, RAMP = 60.0, 10.0  # seconds


class Waiter:
    """A request that waits for an approval, again and again."""

    def __init__(self, port: int, token: str, approval: str) -> None:
        head = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n"
        self._port, self._text = port, f"GET /v1/approvals/{approval}?wait=20 HTTP/1.1\r\n{head}".encode()

    async def run(self, pause: float) -> None:
        await asyncio.sleep(pause)
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        while True:
            writer.write(self._text)
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            await reader.readexactly(int(head.partition("content-length:")[2].partition("\r\n")[0]))
            if " 503 " in head.partition("\r\n")[0]:
                await asyncio.sleep(1.0)


async def checked(port: int, token: str, session: str, rate: float, seconds: float) -> tuple[list[float], int]:
    """Offers checks at a rate. Returns the milliseconds of each, and the number of those that failed."""
    taken: list[float] = []
    failed = 0
    idle: list[KeptConnection] = []

    async def check(number: int, due: float) -> None:
        nonlocal failed
        connection = idle.pop() if idle else KeptConnection(port, token)
        call = {"id": f"{time.time()}-{number}", "tool": "look", "args": {}}
        try:
            async with asyncio.timeout(GIVES_UP):
                await connection.post(f"/v1/sessions/{session}/check", {"call": call, "reserve": False})
        except (ConnectionError, TimeoutError):
            failed += 1
        else:
            idle.append(connection)
        taken.append((time.perf_counter() - due) * 1000)

    started, running = time.perf_counter(), []
    for number in range(int(rate * seconds)):
        due = started + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        running.append(asyncio.create_task(check(number, due)))
    await asyncio.gather(*running)
    return taken, failed


def waited_for_cpu(pid: int) -> float:
    """The milliseconds for which the first thread of a process waited for a CPU; NaN if unknown."""
    stat = Path(f"/proc/{pid}/schedstat")
    return int(stat.read_text().split()[1]) / 1e6 if stat.exists() else float("nan")


async def measured(port: int, token: str, pid: int, rate: float, seconds: float) -> None:
    """Prints a row for each number of waiting requests."""
    agent = KeptConnection(port, token)
    tools: list[dict[str, Any]] = [{"name": "pay"}, {"name": "look"}]
    attachment = (await agent.post("/v1/attachments", {"policy": "default", "tools": tools}))["id"]
    session = (await agent.post("/v1/sessions", {"attachment": attachment, "id": "s"}))["id"]
    call = {"id": "large", "tool": "pay", "args": {"amount": 500}}
    approval = (await agent.post(f"/v1/sessions/{session}/check", {"call": call}))["approval"]["id"]
    await checked(port, token, session, rate, 2.0)
    print(
        "| waiting | p50 ms | p99 ms | longest | failed | CPU of a core | waited ms/s |\n|---|---|---|---|---|---|---|"
    )
    for count in WAITERS:
        pauses = [RAMP * at / count for at in range(count)]
        waiters = [asyncio.create_task(Waiter(port, token, approval).run(pause)) for pause in pauses]
        await asyncio.sleep(RAMP + 2.0 if count else 0.0)
        before, waited, started = cpu_seconds(pid), waited_for_cpu(pid), time.perf_counter()
        taken, failed = await checked(port, token, session, rate, seconds)
        elapsed = time.perf_counter() - started
        cpu, waited = (cpu_seconds(pid) - before) / elapsed, (waited_for_cpu(pid) - waited) / elapsed
        cuts = quantiles(taken, n=100)
        print(
            f"| {count} | {cuts[49]:.1f} | {cuts[98]:.1f} | {max(taken):.0f} | {failed} | {cpu:.0%} | {waited:.1f} |",
            flush=True,
        )
        for waiter in waiters:
            waiter.cancel()
        await asyncio.gather(*waiters, return_exceptions=True)


def main() -> None:
    state = sys.argv[1] if len(sys.argv) > 1 else "sqlite"
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 30.0
    rate = float(sys.argv[3]) if len(sys.argv) > 3 else 50.0
    with tempfile.TemporaryDirectory() as folder, served(Path(folder), state, POLICIES) as (port, token, pid):
        print(json.dumps({"state": state.partition(":")[0], "checks a second": rate, "seconds": seconds}))
        asyncio.run(measured(port, token, pid, rate, seconds))


if __name__ == "__main__":
    main()
