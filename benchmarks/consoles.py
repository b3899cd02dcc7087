"""The time of a check while consoles are open: `python -m benchmarks.consoles [ROUNDS [STATE OTHER]]`.

It starts `guardagent serve` twice, with the same policy. STATE and OTHER are the addresses of their states, of empty
stores; by default, each has a folder. At the second server, 2,000 calls wait for approval, and 20 people are signed in:
14 have the list of approvals open, and 6 the verdicts as they come. Their pages refresh themselves as in a browser, by
the addresses and intervals in the page, and with the headers that `console.js` sends.

In ROUNDS rounds (6) each server in turn is offered checks at a fixed rate, each of a session's next call, and its
record follows; as in `benchmarks/server.py`, waiting in line counts. The consoles are in a process of their own, and
open in the rounds of their server only.

The table has, for each server, p50 and p99 of a check in milliseconds over all rounds, the CPU time of the server, and
the refreshes in a second. The exit status is 0 if p99 with the consoles is at most 1.2 times that without them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from statistics import quantiles
from urllib.parse import urlencode

from benchmarks.server import KeptConnection, Load, cpu_seconds, policy, served, tools
from guardagent.server.access import Caller, CallerRole, TokenStore

RULES, TOOLS, WAITING, OF_A_SESSION = 20, 2, 2_000, 50
PAGES = ["/console/approvals"] * 14 + ["/console/live"] * 6
RATE, SECONDS, SETTLE = 50, 15.0, 6.0
MOST = 1.2
_ASK = '  - {id: large, on_violation: escalate, temporal: "forall(pay(amount=a), a <= 100)"}\n'
_PART = re.compile(r'data-refresh="([^"]+)" data-seconds="(\d+)"')


# --- consoles


class Browser:
    """A browser that has a page of the console open, on one connection."""

    def __init__(self, port: int) -> None:
        self._port, self._cookie = port, ""

    async def follow(self, token: str, page: str) -> None:
        """Signs in, opens a page, and refreshes it for ever; prints the status of each refresh."""
        await asyncio.sleep(random.uniform(0, SETTLE / 2))  # noqa: S311 - no secret
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)

        async def answer(method: str, path: str, head: str, body: str = "") -> tuple[str, str]:
            head = f"Host: 127.0.0.1:{self._port}\r\nContent-Length: {len(body)}\r\n{head}\r\n\r\n"
            writer.write(f"{method} {path} HTTP/1.1\r\n{head}{body}".encode())
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
            return head, (await reader.readexactly(length)).decode()

        form = "Content-Type: application/x-www-form-urlencoded"
        head, _ = await answer("POST", "/console/sign-in", form, urlencode({"token": token, "next": page}))
        cookie = "Cookie: " + head.partition("set-cookie: ")[2].partition(";")[0]
        _, text = await answer("GET", page, cookie)
        address, seconds = _PART.findall(text)[0]
        while True:
            await asyncio.sleep(float(seconds))
            head, _ = await answer("GET", unescape(address), f"{cookie}\r\nX-Refresh: 1")
            print(head.split()[1], flush=True)


async def follow_all(port: int, tokens: list[str]) -> None:
    """Keeps a console with each token open."""
    await asyncio.gather(*(Browser(port).follow(*each) for each in zip(tokens, PAGES, strict=True)))


@contextlib.contextmanager
def open_consoles(port: int, tokens: list[str]) -> Iterator[list[str]]:
    """Consoles that are open for a while; the list has the statuses of their refreshes afterwards."""
    command = [sys.executable, "-m", "benchmarks.consoles", "--follow", str(port), *tokens]
    statuses: list[str] = []
    with tempfile.TemporaryFile("w+") as file:
        with subprocess.Popen(command, stdout=file) as process:  # noqa: S603 - itself
            try:
                yield statuses
            finally:
                process.kill()
        file.seek(0)
        statuses += file.read().split()


# --- checks


@dataclass
class Side:
    """A server, the tokens of the people who watch it, and what was measured there."""

    port: int
    pid: int
    load: Load
    tokens: list[str]
    taken: list[float] = field(default_factory=list)
    cpu: float = 0.0
    refreshes: int = 0

    async def measure(self) -> None:
        """Offers checks for a round."""
        watched: contextlib.AbstractContextManager[list[str]] = contextlib.nullcontext([])
        if self.tokens:
            watched = open_consoles(self.port, self.tokens)
        with watched as statuses:
            await self.load.run(RATE, SETTLE)
            before = cpu_seconds(self.pid)
            _, taken = await self.load.run(RATE, SECONDS)
            self.cpu += cpu_seconds(self.pid) - before
            self.taken += taken
        self.refreshes += len(statuses)
        if {*statuses} - {"200"} or bool(statuses) != bool(self.tokens):
            raise SystemExit(f"the consoles were answered {statuses}")

    def row(self, name: str, rounds: int) -> str:
        """Its row of the table."""
        cuts = quantiles(self.taken, n=100)
        cpu, refreshes = self.cpu / SECONDS / rounds, self.refreshes / (SETTLE + SECONDS) / rounds
        return f"| {name} | {cuts[49]:.1f} | {cuts[98]:.1f} | {cpu:.0%} | {refreshes:.1f} |"


async def side_of(port: int, token: str, pid: int, tokens: list[str]) -> Side:
    """A server; calls wait there if people watch it."""
    agent = KeptConnection(port, token)
    value = {"policy": "default", "tools": [*tools(TOOLS), {"name": "pay"}]}
    attachment = (await agent.post("/v1/attachments", value))["id"]
    for number in range(WAITING if tokens else 0):
        if number % OF_A_SESSION == 0:
            session = (await agent.post("/v1/sessions", {"attachment": attachment}))["id"]
        args = {"amount": 101 + number, "order": f"o{number}", "to": "Ann Example", "note": "a note for the payee" * 5}
        call = {"id": f"c{number}", "tool": "pay", "args": args}
        answer = await agent.post(f"/v1/sessions/{session}/check", {"call": call})
        assert answer["approval"]["status"] == "pending", answer
    return Side(port, pid, Load(port, token, attachment, TOOLS), tokens)


async def measured(sides: list[Side], rounds: int) -> None:
    for _ in range(rounds):
        for side in sides:
            await side.measure()
            print(".", end="", file=sys.stderr, flush=True)


def people(folder: Path) -> list[str]:
    """Returns the tokens of people who may answer approvals."""
    store = TokenStore(folder / "tokens.db")
    roles = frozenset({CallerRole.APPROVER})
    try:
        return [store.create(Caller(f"person{at}", roles, "shop"), None)[1] for at in range(len(PAGES))]
    finally:
        store.close()


def main() -> int:
    if sys.argv[1:2] == ["--follow"]:
        asyncio.run(follow_all(int(sys.argv[2]), sys.argv[3:]))
        return 0
    rounds, states = int((sys.argv[1:] or ["6"])[0]), sys.argv[2:4] or ["sqlite", "sqlite"]
    text, sides = policy(RULES, TOOLS) + _ASK, []
    with contextlib.ExitStack() as stack:
        for state, is_watched in zip(states, (False, True), strict=True):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            server = stack.enter_context(served(folder, state, text))
            sides.append(asyncio.run(side_of(*server, people(folder) if is_watched else [])))
        print(
            json.dumps({"states": [state.partition(":")[0] for state in states], "checks a second": RATE}), flush=True
        )
        asyncio.run(measured(sides, rounds))
    print("\n| server | p50 ms | p99 ms | CPU of a core | refreshes/s |\n|---|---|---|---|---|")
    print(sides[0].row("alone", rounds))
    print(sides[1].row(f"{WAITING} wait, {len(PAGES)} consoles", rounds))
    calm, busy = (quantiles(side.taken, n=100)[98] for side in sides)
    print(f"\np99 with the consoles is {busy / calm:.2f} times that without them")
    return 0 if busy <= MOST * calm else 1


if __name__ == "__main__":
    sys.exit(main())
