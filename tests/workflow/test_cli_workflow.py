"""The commands `verify` and `graph`: exit statuses, formats, and nothing but the answer on standard output."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from guardagent.workflow.graph import END, START, GraphBuilder
from tests.conftest import Ran

Cli = Callable[..., Ran]

RULES = "version: 1\npolicies: [{id: never, temporal: G !tool:drop}]\n"


def write(folder: Path, *tools: str) -> Path:
    """A graph with one tool node."""
    builder = GraphBuilder("mine", "test")
    builder.node("act", "tool", tools=tools)
    builder.edge(START, "act")
    builder.edge("act", END)
    path = folder / "graph.json"
    path.write_text(json.dumps(builder.graph().to_dict()))
    (folder / "rules.yaml").write_text(RULES)
    return path


@pytest.mark.parametrize(("tool", "status"), [("read", 0), ("drop", 1)])
def test_the_exit_status_says_whether_it_holds(cli: Cli, tmp_path: Path, tool: str, status: int) -> None:
    """And the JSON has the public keys, in order."""
    answer = cli("verify", write(tmp_path, tool), "--policies", tmp_path / "rules.yaml", "--format", "json")
    assert answer.status == status
    report = json.loads(answer.out)
    assert list(report) == ["target", "framework", "graph_hash", "passed", "findings", "rules", "notes"]
    assert report["passed"] is (status == 0)


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (["--require-human"], 1),
        (["--sensitive", "read"], 1),
        (["--sensitive", "raed"], 2),
        (["--format", "pdf"], 2),
        (["--policies", "none.yaml"], 2),
    ],
)
def test_options(cli: Cli, tmp_path: Path, options: list[str], status: int) -> None:
    """What is asked for is checked, and what there is not is said."""
    answer = cli("verify", write(tmp_path, "read"), *options)
    assert answer.status == status
    assert bool(answer.err) is (status == 2)


@pytest.mark.parametrize("text", ["", "[]", '{"nodes": 5}', "{"])
def test_what_is_no_graph_is_wrong_input(cli: Cli, tmp_path: Path, text: str) -> None:
    """With status 2 and one line."""
    (tmp_path / "bad.json").write_text(text)
    answer = cli("verify", tmp_path / "bad.json")
    assert (answer.status, answer.out, len(answer.err.splitlines())) == (2, "", 1)


@pytest.mark.parametrize("form", ["json", "mermaid", "dot", "svg"])
def test_a_graph_is_drawn(cli: Cli, tmp_path: Path, form: str) -> None:
    """To standard output, or to a file."""
    path = write(tmp_path, "read")
    shown = cli("graph", path, "--format", form)
    assert shown.status == 0
    assert cli("graph", path, "--format", form, "--out", tmp_path / "out").status == 0
    assert (tmp_path / "out").read_text() == shown.out
    assert "act" in shown.out
