"""A suppression needs a reason and a matching finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent import load_policies, verify
from guardagent.workflow.model.graph import START, Graph, GraphBuilder


def stuck(file: Path, line: int = 3) -> Graph:
    """Returns a graph with a dead end that is defined in a line of a file."""
    builder = GraphBuilder("stuck", "test")
    builder.node("sink", "llm", file=str(file), line=line)
    builder.edge(START, "sink")
    return builder.graph()


def found(graph: Graph, policies: Path | None = None) -> dict[str, str | None]:
    report = verify(graph, load_policies(policies) if policies else None)
    return {finding.check: finding.suppressed for finding in report.findings if finding.node == "sink"}


@pytest.mark.parametrize(
    "source",
    [
        "\n\ndef sink(): ...  # guardagent: ignore dead-end, livelock -- unexpected end\n",
        "\n# guardagent: ignore dead_ends, reverse-reachability -- unexpected end\ndef sink(): ...\n",
        "# guardagent: ignore dead-ends, livelock -- unexpected end\n@decorated\ndef sink(): ...\n",
    ],
)
def test_a_comment_at_the_definition_suppresses(tmp_path: Path, source: str) -> None:
    """In its line or above, decorators included, under any of the check's names."""
    file = tmp_path / "nodes.py"
    file.write_text(source)
    assert found(stuck(file)) == {"dead_ends": "unexpected end", "reverse_reachability": "unexpected end"}


@pytest.mark.parametrize(
    ("comment", "problem"),
    [
        ("ignore dead-end", "has no reason"),
        ("ignore dead-end --", "has no reason"),
        ("ignore router-shape -- why not", "matches no finding"),
        ("ignore dead-and -- why not", "did you mean 'dead-end'?"),
        ("ignore -- why not", "names an unknown check"),
    ],
)
def test_a_suppression_that_is_wrong_is_a_finding(tmp_path: Path, comment: str, problem: str) -> None:
    """A wrong suppression suppresses nothing."""
    file = tmp_path / "nodes.py"
    file.write_text(f"\n\ndef sink(): ...  # guardagent: {comment}\n")
    report = verify(stuck(file))
    (wrong,) = [finding for finding in report.findings if finding.check == "suppressions"]
    assert problem in wrong.message
    assert f"{file}:3" in wrong.message
    assert not any(finding.suppressed for finding in report.findings)


def test_a_policy_file_suppresses_too(tmp_path: Path) -> None:
    """The entry names check and node; an entry without a match is a finding with its line."""
    path = tmp_path / "policies.yaml"
    path.write_text(
        "version: 1\npolicies: [{id: a, temporal: G !tool:drop}]\nignore:\n"
        "  - {check: dead-end, node: sink, reason: unexpected end}\n"
        "  - {check: livelock, node: other, reason: unexpected end}\n"
    )
    graph = stuck(tmp_path / "none.py")
    assert found(graph, path) == {"dead_ends": "unexpected end", "reverse_reachability": None}
    messages = [finding.message for finding in verify(graph, load_policies(path)).findings]
    assert any(f"{path}:5: the suppression of 'livelock' at 'other' matches no finding" in text for text in messages)
