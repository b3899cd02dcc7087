"""The tour of docs/remote_guard.md runs against the server of docs/server.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent.server.access import CallerRole
from tests.docs.test_docs import BLOCK, run_python
from tests.remote_guards import running_server

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
def test_the_tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program prints what the page shows."""
    pages = {
        name: list(BLOCK.finditer((DOCS / name).read_text(encoding="utf-8")))
        for name in ("server.md", "remote_guard.md")
    }
    policy = tmp_path / "shop.yaml"
    policy.write_text(next(block["text"] for block in pages["server.md"] if block["file"] == "shop.yaml"))
    with running_server(tmp_path / "server", policy) as server:
        monkeypatch.setenv("SERVER", server.url)
        monkeypatch.setenv("GUARDAGENT_TOKEN", server.tokens[CallerRole.AGENT])
        tours = [block["text"] for block in pages["remote_guard.md"] if block["kind"] == "py"]
        assert len(tours) == 1
        run_python(tours[0], tmp_path)
