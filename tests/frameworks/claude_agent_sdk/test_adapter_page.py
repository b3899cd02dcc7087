"""The programs of docs/hosts/claude-agent-sdk.md are run unchanged, with the SDK's own program."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("claude_agent_sdk")

from tests.docs.host_page import run_program
from tests.docs.test_docs import BLOCK, ROOT, expected_output
from tests.frameworks.claude_agent_sdk.messages_server import ModelTurn, messages_server
from tests.frameworks.claude_agent_sdk.sessions import offline

TOOL = "mcp__shop__refund"
REFUNDS: list[ModelTurn] = [
    [(TOOL, {"order_id": "W1", "amount": 500})],
    [(TOOL, {"order_id": "W1", "amount": 50})],
    "You get 50 back.",
]


@pytest.mark.slow
def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program blocks a real call; the model, behind HTTP, reads why and asks for less."""
    blocks = list(BLOCK.finditer((ROOT / "docs" / "hosts" / "claude-agent-sdk.md").read_text(encoding="utf-8")))
    programs = [block["text"] for block in blocks if block["kind"] == "python"]
    for block in (block for block in blocks if block["file"]):
        (tmp_path / block["file"]).write_text(block["text"])
    requests: list[dict[str, object]] = []
    for text in programs:
        assert len([line for line in text.splitlines() if not line.startswith("#> ")]) < 40
        with messages_server({"": REFUNDS}) as server:
            for name, value in offline(server.url, tmp_path / "home")["env"].items():
                monkeypatch.setenv(name, value)
            printed = run_program(text, tmp_path)
            requests += server.requests
        assert printed == expected_output(text)
    assert len(programs) == 2
    assert "refund 100 or less" in str(requests[1])
