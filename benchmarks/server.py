"""The time of a check over HTTP, in an open loop: `python benchmarks/server.py [STATE [RULES [SECONDS [PER_TOOL]]]]`.

STATE is `sqlite`, or the address of a PostgreSQL or Redis server (an empty schema or prefix). It starts `guardagent
serve` with a policy of RULES rules (10), of which PER_TOOL (20) concern each tool, and offers checks at a fixed rate,
whatever the answers take, from 100 a second up until the server no longer keeps up (the cliff). Each check is of a
session's next call, and its record follows. The time of a check counts from the moment at which it was due, so
waiting in line counts.

The table has, for each rate, the checks that were answered in a second, p50 and p99 in milliseconds, and the CPU time
of the server for a call (check and record). The client needs CPU time, too: on two cores the cliff is that of both.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles
from typing import Any

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

    def __init__(self, port: int, token: str, attachment: str, tools: int) -> None:
        self._port, self._token, self._attachment, self._tools = port, token, attachment, tools
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

    async def _offered(self, due: float, taken: list[float]) -> None:
        with contextlib.suppress(ConnectionRefusedError):
            await self._call(due, taken)

    async def _call(self, due: float, taken: list[float]) -> None:
        connection = self._idle.popleft() if self._idle else KeptConnection(self._port, self._token)
        session, calls = self._sessions.popleft() if self._sessions else ("", CALLS_OF_A_SESSION)
        if calls >= CALLS_OF_A_SESSION:
            session, calls = await self._opened(connection), 0
            due = time.perf_counter()
        acts = f"act{secrets.randbelow(self._tools)}", {"order": f"o{calls}", "amount": calls}
        tool, args = acts if calls else ("authenticate", {"user": "ann"})
        call = {"id": secrets.token_hex(8), "tool": tool, "args": args}
        answer = await connection.post(f"/v1/sessions/{session}/check", {"call": call})
        taken.append((time.perf_counter() - due) * 1000)
        assert answer["verdict"]["label"] == 0, answer
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
    port = 20000 + os.getpid() % 20000
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


async def measured(port: int, token: str, pid: int, seconds: float, count: int) -> None:
    """Prints a row for each rate."""
    attachment = await KeptConnection(port, token).post("/v1/attachments", {"policy": "default", "tools": tools(count)})
    load = Load(port, token, attachment["id"], count)
    await load.run(50, 2)
    print("| offered/s | answered/s | p50 ms | p99 ms | CPU ms/call |\n|---|---|---|---|---|")
    for rate in RATES:
        before = cpu_seconds(pid)
        answered, taken = await load.run(rate, seconds)
        cpu = (cpu_seconds(pid) - before) * 1000 / len(taken)
        cuts = quantiles(taken, n=100)
        print(f"| {rate} | {answered:.0f} | {cuts[49]:.1f} | {cuts[98]:.1f} | {cpu:.2f} |", flush=True)
        if answered < 0.9 * rate:
            break


def main() -> None:
    state = sys.argv[1] if len(sys.argv) > 1 else "sqlite"
    rules = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 10.0
    count = max(1, rules // (int(sys.argv[4]) if len(sys.argv) > 4 else 20))
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder), state, policy(rules, count)) as (port, token, pid),
    ):
        print(f"{state.partition(':')[0]}, {rules} rules about {count} tools, {seconds:g} s for each rate\n")
        asyncio.run(measured(port, token, pid, seconds, count))


if __name__ == "__main__":
    main()
