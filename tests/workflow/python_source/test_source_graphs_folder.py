"""All workflows of a folder are read, and what cannot be read is listed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from guardagent.workflow.python_source import source_graphs
from tests.conftest import Cli

FILES = {
    "a.py": "from agents import Agent\nx = Agent(name='x', handoffs=[Agent(name='z')])\ny = Agent(name='y')\n",
    "pack/b.py": (
        "from langgraph.graph import *\n"
        "g = StateGraph(dict)\n"
        "g.add_node('n', lambda state: state)\n"
        "g.add_edge(START, 'n')\n"
    ),
    "c.py": "from a import x\nimport os, agents\n",
    "bad.py": "import agents\ndef (\n",
    "ai.py": "from pydantic_ai import Agent\n",
    "none.py": "def (\n",
    ".hidden/h.py": "import agents\ndef (\n",
    "env/pyvenv.cfg": "",
    "env/e.py": "import agents\ndef (\n",
}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, content in FILES.items():
        (tmp_path / "repo" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "repo" / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    return Path("repo")


@pytest.mark.slow
def test_a_folder(cli: Cli, repository: Path) -> None:
    """As JSON, as one page, and as SARIF with relative positions."""
    listed = json.loads(cli("graph", repository).out)
    assert [(graph["name"], graph["file"], graph["line"]) for graph in listed["graphs"]] == [
        ("repo/a.py:x", "repo/a.py", 2), ("repo/a.py:y", "repo/a.py", 3), ("repo/pack/b.py:g", "repo/pack/b.py", 2)
    ]  # fmt: skip
    assert [(unread["file"], unread["line"]) for unread in listed["unread"]] == [("repo/bad.py", 2)]
    page = cli("graph", repository, "--format", "html").out
    assert "repo/pack/b.py:g" in page
    assert "http" not in page.replace("http-equiv", "")
    answer = cli("verify", repository, "--format", "sarif")
    (run,) = json.loads(answer.out)["runs"]
    places = {result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]}
    assert (answer.status, places) == (1, {"repo/pack/b.py"})


@pytest.mark.slow
def test_a_file_that_takes_too_long_is_listed(repository: Path) -> None:
    """The others are read."""
    for name in ("bad.py", "ai.py", "a.py", "c.py"):
        (repository / name).unlink()
    graphs = source_graphs.graphs_of_folder(repository, seconds=0.0001)
    assert [unread.reason for unread in graphs.unread] == ["reading it took longer than 0.0001 seconds"]


def test_a_large_file_is_listed(repository: Path) -> None:
    """With its size."""
    (repository / "big.py").write_text("#" * (source_graphs.MOST_BYTES + 1))
    assert any("1,000,001 bytes" in unread.reason for unread in source_graphs.graphs_of_folder(repository).unread)


@pytest.mark.parametrize(("options", "status"), [((), 0), (("--require-human",), 1)])
def test_a_file_with_several(cli: Cli, repository: Path, options: tuple[str, ...], status: int) -> None:
    """In each format; one by its name with its source alone."""
    for form in ("text", "json", "github", "html", "sarif"):
        answer = cli("verify", repository / "a.py", "--format", form, *options)
        assert (answer.status, "repo/a.py:y" in answer.out) == (status, True)
    for form in ("json", "mermaid", "dot", "html"):
        assert "repo/a.py:y" in cli("graph", repository / "a.py", "--format", form).out
    refused = cli("graph", repository / "a.py", "--format", "svg")
    assert (refused.status, "'x', 'y'" in refused.err) == (2, True)
    assert json.loads(cli("graph", "repo/a.py:y", "--source-only").out)["name"] == "repo/a.py:y"
