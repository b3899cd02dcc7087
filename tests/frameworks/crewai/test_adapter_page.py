"""The program of docs/hosts/crewai.md is run unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("crewai", reason="CrewAI is not installed")

from tests.docs.host_page import run_page


def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program blocks a real call; the model, behind HTTP, reads why and asks for less."""
    for name in ("CREWAI_DISABLE_TELEMETRY", "OTEL_SDK_DISABLED", "CREWAI_TESTING"):
        monkeypatch.setenv(name, "true")
    monkeypatch.setenv("CREWAI_TRACING_ENABLED", "false")
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path / "storage"))
    requests = run_page("crewai", tmp_path, monkeypatch)
    assert "refund 100 or less" in str(requests[1])
