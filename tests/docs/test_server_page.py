"""The tour of docs/server.md runs against a server."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from guardagent.server.access import PERMITTED
from guardagent.server.http.routes import ROUTES
from tests.docs.test_docs import BLOCK, run_python
from tests.server.servers import ServerProcess, server_processes, tokens_of

pytestmark = pytest.mark.slow
PAGE = Path(__file__).parents[2] / "docs" / "server.md"


def test_the_tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands succeed, and its program prints what the page shows."""
    blocks = list(BLOCK.finditer(PAGE.read_text(encoding="utf-8")))
    for block in blocks:
        if block["file"]:
            (tmp_path / block["file"]).write_text(block["text"])
    (tmp_path / "policies.yaml").write_text((tmp_path / "shop.yaml").read_text())
    tokens = tokens_of(tmp_path)
    monkeypatch.setenv("AGENT", tokens["shop.agent"])
    monkeypatch.setenv("PERSON", tokens["shop.admin"])
    with server_processes(tmp_path, f"sqlite:{tmp_path / 'state'}", 1) as (server,):
        monkeypatch.setenv("SERVER", server.url)
        ran = [run_block(block["kind"], block["text"], tmp_path, server) for block in blocks]
    assert ran.count(True) == 3


def test_every_route_and_option_is_on_the_page() -> None:
    """The table has the roles of each route; the options of the command are explained."""
    page = PAGE.read_text(encoding="utf-8")
    for route in ROUTES:
        roles = ", ".join(sorted(PERMITTED[route.operation]))
        assert f"| `{route.method} {route.path}` | {roles} | {route.summary} |" in page
    options = re.findall(r"`(--[a-z-]+)", (PAGE.parent / "commands" / "serve.md").read_text(encoding="utf-8"))
    assert [option for option in options if option not in page and option != "--help"] == []


def run_block(kind: str, text: str, folder: Path, server: ServerProcess) -> bool:
    """Runs a block of the tour; returns whether it is one."""
    if kind == "py":
        run_python(text, folder)
    elif kind == "bash":
        address = server.url.removeprefix("http://")
        script = text.replace("localhost:8764", address).replace("curl -s", "curl -sf")
        ran = subprocess.run(["/bin/sh", "-ec", script], cwd=folder, env=os.environ, capture_output=True, check=False)
        assert ran.returncode == 0, (script, ran.stdout, ran.stderr)
    return kind in ("py", "bash")
