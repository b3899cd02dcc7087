"""The time of a check over HTTP: `python benchmarks/server.py [STATE [RULES [SECONDS [PER_TOOL]]]] [--bare] [--deny]`.

STATE is `sqlite`, or the address of a PostgreSQL or Redis server (an empty schema or prefix). It starts `guardagent
serve` with a policy of RULES rules (10), of which PER_TOOL (20) concern each tool, and offers checks at a fixed rate,
whatever the answers take, from 100 a second up until the server no longer keeps up (the cliff). Each check is of a
session's next call, and its record follows. The time of a check counts from the moment at which it was due, so
waiting in line counts.

The table has, for each rate, the checks that were answered in a second, p50 and p99 in milliseconds, and the CPU time
of the server for a call (check and record). The client needs CPU time, too: on two cores the cliff is that of both.
Before the table is the same for a closed loop: one connection, on which each request follows the answer to the last.

With `--bare`, a Starlette application with the same two routes is measured in the same way, and the ratios are printed:
it parses a body, commits it to an SQLite file durably, and answers. With `--deny`, every call but a session's first is
denied, so a call is a check alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles
from typing import Any

BARE = """
import json, sqlite3, sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

db = sqlite3.connect(sys.argv[2], isolation_level=None, check_same_thread=False)
db.execute("PRAGMA journal_mode = WAL")
db.execute("PRAGMA synchronous = FULL")
db.execute("CREATE TABLE bodies (body TEXT)")

async def kept(request):
    body = await request.json()
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO bodies VALUES (?)", (json.dumps(body),))
    db.execute("COMMIT")
    return JSONResponse({"id": "s", "verdict": {"label": 0}})

paths = ("/v1/attachments", "/v1/sessions", "/v1/sessions/{id}/check", "/v1/sessions/{id}/record")
app = Starlette(routes=[Route(path, kept, methods=["POST"]) for path in paths])
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", lifespan="off")
"""
RATES = (100, 200, 500, 700, 1000, 1500, 2000)
CALLS_OF_A_SESSION = 8


def tools(count: int) -> list[dict[str, Any]]:
    """The tool `authenticate`, and those that the rules concern."""
    arguments = {"order": {"type": "string"}, "amount": {"type": "integer"}}
    ruled_tools = [
        {"name": f"act{at}", "parameters": {"type": "object", "properties": arguments}} for at in range(count)
    ]
    return [
        {"name": "authenticate", "parameters": {"type": "object", "properties": {"user": {"type": "string"}}}},
        *ruled_tools,
    ]


def policy(rules: int, count: int) -> str:
    """Rules of four kinds about some tools."""
    kinds = (
        "forall({tool}(amount=a), a <= {limit})",
        "before({tool}(order=o), True, f:authenticate(user=.*), output(f) != 'no {limit}')",
        "forall({tool}(order=o), count(f:{tool}(order=o)) < {limit})",
        "G(tool:{tool} -> O tool:authenticate)",
    )
    lines = []
    for at in range(rules):
        formula = kinds[at // count % len(kinds)].format(limit=1000 + at, tool=f"act{at % count}")
        lines.append(f'  - {{id: rule{at}, temporal: "{formula}"}}')
    return "\n".join(["version: 1", "policies:", *lines, ""])


class KeptConnection:
    """One connection that is kept."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._head = port, f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
        self._streams: Any = None

    async def post(self, path: str, value: Any) -> Any:
        """Returns the answer.

        Raises:
            ConnectionRefusedError: the server has too much to do.
        """
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        body = json.dumps(value).encode()
        key = secrets.token_hex(16)
        writer.write(
            f"POST {path} HTTP/1.1\r\n{self._head}Idempotency-Key: {key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length:")[2].partition("\r\n")[0])
        answer = await reader.readexactly(length)
        if head.startswith("http/1.1 503"):
            raise ConnectionRefusedError
        if not head.startswith(("http/1.1 200", "http/1.1 201")):
            raise SystemExit(f"{path}: {head.splitlines()[0]}: {answer.decode()[:500]}")
        return json.loads(answer)


class Load:
    """Offers checks at a rate."""

    def __init__(self, port: int, token: str, attachment: str, tools: int, amount: int = 0) -> None:
        self._port, self._token, self._attachment, self._tools = port, token, attachment, tools
        self._amount = amount
        self._idle: deque[KeptConnection] = deque()
        self._sessions: deque[tuple[str, int]] = deque()

    async def run(self, rate: int, seconds: float) -> tuple[float, list[float]]:
        """Returns the answered checks in a second, and the milliseconds of each."""
        taken: list[float] = []
        count, started = int(rate * seconds), time.perf_counter()
        running = set()
        for at in range(count):
            due = started + at / rate
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            task = asyncio.create_task(self._offered(due, taken))
            running.add(task)
            task.add_done_callback(running.discard)
        await asyncio.gather(*running)
        return len(taken) / (time.perf_counter() - started), taken

    async def run_closed(self, seconds: float) -> tuple[float, list[float]]:
        """Makes calls one after the other; returns the same as `run`."""
        taken: list[float] = []
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            await self._call(time.perf_counter(), taken)
        return len(taken) / (time.perf_counter() - started), taken

    async def _offered(self, due: float, taken: list[float]) -> None:
        with contextlib.suppress(ConnectionRefusedError):
            await self._call(due, taken)

    async def _call(self, due: float, taken: list[float]) -> None:
        connection = self._idle.popleft() if self._idle else KeptConnection(self._port, self._token)
        session, calls = self._sessions.popleft() if self._sessions else ("", CALLS_OF_A_SESSION)
        if calls >= CALLS_OF_A_SESSION:
            session, calls = await self._opened(connection), 0
            due = time.perf_counter()
        acts = f"act{secrets.randbelow(self._tools)}", {"order": f"o{calls}", "amount": self._amount + calls}
        tool, args = acts if calls else ("authenticate", {"user": "ann"})
        call = {"id": secrets.token_hex(8), "tool": tool, "args": args}
        answer = await connection.post(f"/v1/sessions/{session}/check", {"call": call})
        taken.append((time.perf_counter() - due) * 1000)
        is_allowed = answer["verdict"]["label"] == 0
        assert is_allowed or (calls and self._amount), answer
        if is_allowed:
            outcome = {"output": "done", "failed": False, "ended": True}
            await connection.post(f"/v1/sessions/{session}/record", {"call_id": call["id"], "outcome": outcome})
        self._sessions.append((session, calls + 1))
        self._idle.append(connection)

    async def _opened(self, connection: KeptConnection) -> str:
        answer = await connection.post("/v1/sessions", {"attachment": self._attachment})
        return str(answer["id"])


@contextlib.contextmanager
def served(folder: Path, state: str, policies: str) -> Iterator[tuple[int, str, int]]:
    """A server with these policies; its port, a token of an agent, and its process id."""
    (folder / "policies.yaml").write_text(policies)
    command = [sys.executable, "-m", "guardagent"]
    made = [
        *command,
        "token",
        "create",
        "--tokens",
        "tokens.db",
        "--principal",
        "bot",
        "--role",
        "agent",
        "--tenant",
        "shop",
    ]
    token = subprocess.run(made, cwd=folder, capture_output=True, text=True, check=True).stdout.split()[-1]  # noqa: S603 - itself
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = int(unused.getsockname()[1])
    address = f"sqlite:{folder}/state.db" if state == "sqlite" else state
    options = [
        "--policies",
        "policies.yaml",
        "--state",
        address,
        "--tokens",
        "tokens.db",
        "--listen",
        f"127.0.0.1:{port}",
    ]
    with (
        (folder / "server.log").open("w") as log,
        subprocess.Popen([*command, "serve", *options], cwd=folder, stdout=log, stderr=log) as process,  # noqa: S603 - itself
    ):
        try:
            asyncio.run(_until_up(port, process, folder))
            yield port, token, process.pid
        finally:
            process.terminate()


async def _until_up(port: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    for _ in range(600):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return
        if process.poll() is not None:
            break
    raise SystemExit(f"the server did not start:\n{(folder / 'server.log').read_text()}")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def served_bare(folder: Path) -> Iterator[tuple[int, str, int]]:
    """The bare application, as `served`."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = int(unused.getsockname()[1])
    command = [sys.executable, "-c", BARE, str(port), str(folder / "bare.db")]
    with (folder / "server.log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:  # noqa: S603 - itself
        try:
            asyncio.run(_until_up(port, process, folder))
            yield port, "none", process.pid
        finally:
            process.terminate()


def memory(pid: int) -> float:
    """The memory of a process in MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


async def measured(port: int, token: str, pid: int, seconds: float, count: int, amount: int) -> dict[str, float]:
    """Prints a row for the closed loop and for each rate; returns the CPU milliseconds of a call in each."""
    attachment = await KeptConnection(port, token).post("/v1/attachments", {"policy": "default", "tools": tools(count)})
    load, cpu = Load(port, token, attachment["id"], count, amount), dict[str, float]()
    await load.run(50, 2)
    print("| offered/s | answered/s | p50 ms | p99 ms | CPU ms/call | memory MB |\n|---|---|---|---|---|---|")
    for rate in (0, *RATES):
        before, name = cpu_seconds(pid), str(rate or "closed loop")
        answered, taken = await (load.run(rate, seconds) if rate else load.run_closed(seconds))
        cpu[name] = (cpu_seconds(pid) - before) * 1000 / len(taken)
        cuts = quantiles(taken, n=100)
        row = f"| {name} | {answered:.0f} | {cuts[49]:.1f} | {cuts[98]:.1f} | {cpu[name]:.2f} | {memory(pid):.0f} |"
        print(row, flush=True)
        if answered < 0.9 * rate:
            break
    return cpu


def main() -> None:
    options = {option for option in sys.argv[1:] if option.startswith("--")}
    values = [*(option for option in sys.argv[1:] if option not in options), "", "", "", ""]
    state, rules, seconds = values[0] or "sqlite", int(values[1] or 10), float(values[2] or 10.0)
    count = max(1, rules // int(values[3] or 20))
    amount = 1_000_000 if "--deny" in options else 0
    with tempfile.TemporaryDirectory() as folder:
        print(f"{state.partition(':')[0]}, {rules} rules about {count} tools, {seconds:g} s for each rate\n")
        with served(Path(folder), state, policy(rules, count)) as (port, token, pid):
            guarded = asyncio.run(measured(port, token, pid, seconds, count, amount))
        if "--bare" in options:
            print("\na bare application\n")
            with served_bare(Path(folder)) as (port, token, pid):
                bare = asyncio.run(measured(port, token, pid, seconds, count, 0))
            print("\nCPU time of a call, in those of the bare application")
            for name in (name for name in guarded if name in bare):
                print(f"    {name}: {guarded[name] / bare[name]:.2f}")


if __name__ == "__main__":
    main()
