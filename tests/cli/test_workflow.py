"""The commands `verify` and `graph`: exit statuses, formats, and nothing but the answer on standard output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from guardagent.workflow.model.graph import END, START, GraphBuilder
from tests.conftest import Cli

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
    """Options add checks, and an unknown tool is an error."""
    answer = cli("verify", write(tmp_path, "read"), *options)
    assert answer.status == status
    assert bool(answer.err) is (status == 2)


def test_nothing_of_a_policy_is_run(cli: Cli, tmp_path: Path) -> None:
    """Neither its toolbox nor its programs: a proof needs names and signatures, which stand in the source."""
    graph = write(tmp_path, "read")
    (tmp_path / "shop.py").write_text(
        f"import pathlib\npathlib.Path({str(tmp_path / 'run')!r}).touch()\n\n"
        "def owner(state: dict, id: str) -> str:\n    'Whose.'\n"
    )
    (tmp_path / "polite.py").write_text("def check(agent_input, agent_output, facts):\n    return {'label': 0}\n")
    (tmp_path / "rules.yaml").write_text(
        "version: 1\ntoolbox: shop.py\npolicies:\n  - {id: own, temporal: 'forall(read(id=i), state(owner(i)) == i)'}\n"
        "  - {id: polite, request: Be polite., program: polite.py}\n"
    )
    answer = cli("verify", graph, "--policies", tmp_path / "rules.yaml", "--format", "json")
    assert (answer.status, answer.err) == (0, "")
    assert [rule["status"] for rule in json.loads(answer.out)["rules"]] == ["undecidable", "undecidable"]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("text", ["", "[]", '{"nodes": 5}', "{"])
def test_what_is_no_graph_is_wrong_input(cli: Cli, tmp_path: Path, text: str) -> None:
    """With status 2 and one line."""
    (tmp_path / "bad.json").write_text(text)
    answer = cli("verify", tmp_path / "bad.json")
    assert (answer.status, answer.out, len(answer.err.splitlines())) == (2, "", 1)


@pytest.mark.parametrize("form", ["json", "mermaid", "dot", "svg", "html"])
def test_a_graph_is_drawn(cli: Cli, tmp_path: Path, form: str) -> None:
    """To standard output, or to a file."""
    path = write(tmp_path, "read")
    shown = cli("graph", path, "--format", form)
    assert shown.status == 0
    assert cli("graph", path, "--format", form, "--out", tmp_path / "out").status == 0
    assert (tmp_path / "out").read_text() == shown.out
    assert "act" in shown.out


@pytest.mark.parametrize("command", ["graph", "verify"])
@pytest.mark.parametrize("out", ["graph.json", "none/graph.svg"])
def test_what_is_read_is_not_overwritten_and_what_cannot_be_written_is_an_error(
    cli: Cli, tmp_path: Path, command: str, out: str
) -> None:
    path = write(tmp_path, "read")
    before = path.read_text()
    answer = cli(command, path, "--out", tmp_path / out)
    assert (answer.status, answer.out, path.read_text()) == (2, "", before)
    assert answer.err.startswith(f"guardagent: {tmp_path / out}: ")
