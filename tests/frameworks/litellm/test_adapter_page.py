"""The program of docs/hosts/litellm.md is run unchanged, against the real proxy with the page's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("litellm")

from tests.docs.host_page import REFUNDS, run_program
from tests.docs.test_docs import BLOCK, ROOT, expected_output
from tests.frameworks.litellm.proxy_process import KEY, proxy_process, start
from tests.frameworks.model_server import model_server

PAGE = ROOT / "docs" / "hosts" / "litellm.md"


def write_files(folder: Path) -> str:
    """Writes the files of the page. Returns its program, which has less than forty lines."""
    blocks = list(BLOCK.finditer(PAGE.read_text(encoding="utf-8")))
    for block in blocks:
        if block["file"]:
            (folder / block["file"]).write_text(block["text"])
    (text,) = [block["text"] for block in blocks if block["kind"] == "python"]
    assert len([line for line in text.splitlines() if not line.startswith("#> ")]) < 40
    return text


@pytest.mark.slow
def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy blocks a real call; the model, behind HTTP, reads why and asks for less."""
    text = write_files(tmp_path)
    with model_server(REFUNDS) as server, proxy_process(tmp_path, server.url) as address:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{address}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        printed = run_program(text, tmp_path)
    assert printed == expected_output(text)
    assert "refund 100 or less" in str(server.requests[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("mode: [pre_call, post_call]", "mode: pre_call"), "expected 'mode: [pre_call, post_call]'"),
        (("ledger: sqlite", "ledgr: sqlite"), "no option 'ledgr'"),
    ],
)
def test_a_wrong_option_stops_the_start(change: tuple[str, str], reason: str, tmp_path: Path) -> None:
    """The proxy does not run without its guard."""
    write_files(tmp_path)
    config = tmp_path / "config.yaml"
    config.write_text(config.read_text().replace(*change))
    process = start(tmp_path, "http://127.0.0.1:1/v1", 0)
    try:
        assert process.wait(90) != 0
    finally:
        process.kill()
    assert reason in (tmp_path / "proxy.log").read_text()
