"""The MCP proxy between clients and servers of other libraries: `python -m benchmarks.mcp_peers FOLDER [CLIENT…]`.

Installs the libraries into FOLDER (pip and npm; Node.js 20 or newer). Each client lists the tools of each server
through the proxy, and makes two calls, over standard input and output and over HTTP. Prints a table for
docs/hosts/mcp.md.

yes    the proxy denies the call of 500, passes the call of 50, and the client speaks the revision that it asked for
-      the two do not work without the proxy either
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
PYTHON = {"mcp1": ["mcp<2"], "mcp2": ["mcp>=2.3"], "fastmcp4": ["fastmcp>=4.2"]}
NODE = {
    "ts1": ["@modelcontextprotocol/sdk@1", "zod"],
    "ts2": [f"@modelcontextprotocol/{name}@2" for name in ("client", "server", "node")] + ["zod"],
}
CLIENTS = [
    ("mcp1", "handshake"),
    ("mcp2", "handshake"),
    ("mcp2", "newest"),
    ("fastmcp4", "handshake"),
    ("fastmcp4", "newest"),
    ("ts1", "handshake"),
    ("ts2", "handshake"),
    ("ts2", "newest"),
]
SERVERS = ["mcp1", "mcp2", "fastmcp4", "ts1", "ts2", "ts2-newest"]
NEWEST = "2026-07-28"
SECONDS = 120.0


class Peers:
    """The libraries in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    def install(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, packages in PYTHON.items():
            if not (self.folder / name).exists():
                done([sys.executable, "-m", "venv", str(self.folder / name)])
                done([str(self.folder / name / "bin/pip"), "install", "--quiet", *packages])
        for name, packages in NODE.items():
            if not (self.folder / name).exists():
                (self.folder / name).mkdir()
                done(["npm", "install", "--silent", "--prefix", str(self.folder / name), *packages])
        for script in HERE.glob("*.mjs"):  # Node.js looks for packages beside a script
            for name in NODE:
                (self.folder / name / script.name).write_text(script.read_text())

    def script(self, role: str, library: str) -> list[str]:
        """Returns the command of a client or a server."""
        if library in PYTHON:
            return [str(self.folder / library / "bin/python"), str(HERE / f"{role}.py"), library]
        return ["node", str(self.folder / library.partition("-")[0] / f"{role}.mjs"), library]

    def versions(self) -> Iterator[str]:
        for name in PYTHON:
            package = "fastmcp" if name == "fastmcp4" else "mcp"
            code = f"import importlib.metadata as m; print(m.version({package!r}))"
            yield f"{name} {done([str(self.folder / name / 'bin/python'), '-c', code]).strip()}"
        for name, packages in NODE.items():
            package = packages[0].rpartition("@")[0]
            manifest = self.folder / name / "node_modules" / package / "package.json"
            yield f"{name} {json.loads(manifest.read_text())['version']}"


def done(command: list[str]) -> str:
    """Returns the output of a command that succeeds."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603 - our own


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def serving(command: list[str], port: int) -> Iterator[str]:
    """Starts a process that serves at a port. Yields its address."""
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=nothing, stderr=nothing)  # noqa: S603 - our own
    try:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(SECONDS)


def run_client(client: list[str], revision: str, target: list[str]) -> dict[str, str]:
    """Runs a client. Returns what it saw, or the last line of its error."""
    try:
        ran = subprocess.run(  # noqa: S603 - our own
            [*client, revision, *target], capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": "no answer"}
    if ran.returncode or not ran.stdout.strip():
        lines = [line.strip() for line in ran.stderr.splitlines() if "Error" in line]
        return {"error": lines[-1] if lines else ran.stderr[-200:]}
    return dict(json.loads(ran.stdout.splitlines()[-1]))


def proxied(*options: str) -> list[str]:
    return [sys.executable, "-m", "guardagent", "mcp-proxy", "--policies", str(HERE / "policies.yaml"), *options, "--"]


def through(peers: Peers, client: list[str], revision: str, server: str, transport: str) -> dict[str, str]:
    """Returns what a client sees of a server behind the proxy, over one transport on both sides."""
    command = peers.script("server", server)
    if transport == "stdio":
        return run_client(client, revision, ["stdio", *proxied(), *command, "stdio"])
    behind, front = free_port(), free_port()
    listen = ("--listen", f"127.0.0.1:{front}", "--conversation-header", "X-Run")
    with (
        serving([*command, "http", str(behind)], behind) as url,
        serving([*proxied(*listen), url], front) as address,
    ):
        return run_client(client, revision, ["http", address])


def straight(peers: Peers, client: list[str], revision: str, server: str, transport: str) -> dict[str, str]:
    command = peers.script("server", server)
    if transport == "stdio":
        return run_client(client, revision, ["stdio", *command, "stdio"])
    port = free_port()
    with serving([*command, "http", str(port)], port) as url:
        return run_client(client, revision, ["http", url])


def cell(peers: Peers, library: str, revision: str, server: str, transport: str) -> str:
    client = peers.script("client", library)
    seen = through(peers, client, revision, server, transport)
    if "at most 100" in seen.get("denied", "") and works(revision, seen):
        return "yes"
    return f"no: {json.dumps(seen)}" if works(revision, straight(peers, client, revision, server, transport)) else "-"


def works(revision: str, seen: dict[str, str]) -> bool:
    return seen.get("allowed") == "paid 50" and (seen.get("revision") == NEWEST) == (revision == "newest")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("clients", nargs="*")
    options = parser.parse_args()
    peers = Peers(options.folder)
    peers.install()
    os.environ.setdefault("FASTMCP_LOG_LEVEL", "ERROR")
    print(", ".join(peers.versions()), "\n")
    print("| client | revision |", " | ".join(SERVERS), "|")
    print("|---|---|" + "---|" * len(SERVERS), flush=True)
    for library, revision in CLIENTS:
        if options.clients and library not in options.clients:
            continue
        row = []
        for server in SERVERS:
            cells = [cell(peers, library, revision, server, transport) for transport in ("stdio", "http")]
            row.append(cells[0] if cells[0] == cells[1] else " / ".join(cells))
        print(f"| {library} | {revision} |", " | ".join(row), "|", flush=True)


if __name__ == "__main__":
    main()
