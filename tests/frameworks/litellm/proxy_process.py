"""The real proxy as a process, started by its own command."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

KEY = "sk-test"


@contextlib.contextmanager
def proxy_process(folder: Path, upstream: str) -> Iterator[str]:
    """Runs the proxy with the `config.yaml` of a folder until the end of the block. Yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = start(folder, upstream, port)
    try:
        address = f"http://127.0.0.1:{port}"
        until = time.monotonic() + 90
        while not _is_alive(address):
            assert process.poll() is None, (folder / "proxy.log").read_text()
            assert time.monotonic() < until, (folder / "proxy.log").read_text()
            time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(30)


def start(folder: Path, upstream: str, port: int) -> subprocess.Popen[bytes]:
    """Starts the proxy. Its output goes into `proxy.log`."""
    command = [str(Path(sys.executable).with_name("litellm")), "--config", "config.yaml", "--port", str(port)]
    more = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": KEY}
    more |= {"OPENAI_BASE_URL": upstream, "OPENAI_API_BASE": upstream, "OPENAI_API_KEY": "none"}
    with (folder / "proxy.log").open("wb") as log:
        return subprocess.Popen(
            [*command, "--host", "127.0.0.1"], cwd=folder, env={**os.environ, **more}, stdout=log, stderr=log
        )


def _is_alive(address: str) -> bool:
    try:
        return httpx.get(f"{address}/health/liveliness", timeout=1).status_code == 200
    except httpx.HTTPError:
        return False
