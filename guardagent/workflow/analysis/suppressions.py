"""Suppressions: findings that an author accepts, each with a reason.

    graph.add_node("sink", sink)  # guardagent: ignore dead-end -- the run may end here

A comment is in the line of the node's definition or above it. A policy file lists suppressions under `ignore:`. A
suppression without a reason or without a matching finding is itself a finding.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from guardagent.errors import name_hint
from guardagent.workflow.analysis._checks import CHECKS
from guardagent.workflow.analysis.report import GraphFinding
from guardagent.workflow.model.graph import Graph, Node

_COMMENT = re.compile(r"#\s*guardagent:\s*ignore\b\s*(?P<checks>[\w\s,-]*?)\s*(?:--\s*(?P<reason>.*))?$")
_ALIASES = {
    "dead-end": "dead_ends",
    "livelock": "reverse_reachability",
    "tool-declaration": "tool_declarations",
}


@dataclass(frozen=True, slots=True)
class Suppression:
    """An accepted finding.

    Attributes:
        check: the name of the check, as the author wrote it.
        node: the id of the node; None for the whole graph.
        reason: the reason of the author.
        place: the location of the suppression, `file:line`.
    """

    check: str
    node: str | None
    reason: str
    place: str

    def matches(self, finding: GraphFinding) -> bool:
        return check_of(self.check) == finding.check and self.node == finding.node


def check_of(name: str) -> str | None:
    """Returns the check with a name such as `dead-end` or `dead_ends`; None if there is none."""
    return _names().get(name.replace("_", "-"))


@cache
def _names() -> dict[str, str]:
    return {name.replace("_", "-"): name for name in (*CHECKS, "suppressions")} | _ALIASES


def apply_suppressions(
    graph: Graph, findings: Sequence[GraphFinding], suppressions: Sequence[Suppression] = ()
) -> list[GraphFinding]:
    """Marks the suppressed findings, and adds a finding for each wrong suppression.

    Args:
        graph: the graph, whose nodes may have comments in their sources.
        findings: the findings of the structural checks.
        suppressions: those of the policy file.
    """
    known = [*suppressions, *_comments(graph)]
    marked = [_marked(finding, known) for finding in findings]
    return [*marked, *(wrong for one in known for wrong in _problems(one, findings))]


def _marked(finding: GraphFinding, known: Sequence[Suppression]) -> GraphFinding:
    reason = next((one.reason for one in known if one.reason and one.matches(finding)), None)
    return finding if reason is None else replace(finding, suppressed=reason)


def _problems(one: Suppression, findings: Sequence[GraphFinding]) -> Iterator[GraphFinding]:
    what = f"{one.place}: the suppression of {one.check!r}{f' at {one.node!r}' if one.node else ''}"
    if check_of(one.check) is None:
        problem = f"{what} names an unknown check{name_hint(one.check, _names())}"
    elif not one.reason:
        problem = f"{what} has no reason; expected '-- REASON'"
    elif not any(one.matches(finding) for finding in findings):
        problem = f"{what} matches no finding; remove it"
    else:
        return
    yield GraphFinding("suppressions", one.node, "error", problem)


def _comments(graph: Graph) -> Iterator[Suppression]:
    """Yields the suppressions in the source files of the nodes."""
    places: dict[str, dict[int, Node]] = {}
    for node in graph.nodes:
        file, line = node.metadata.get("file"), node.metadata.get("line")
        if isinstance(file, str) and isinstance(line, int):
            places.setdefault(file, {})[line] = node
    for file, nodes in places.items():
        yield from _comments_of(Path(file), nodes)


def _comments_of(file: Path, nodes: dict[int, Node]) -> Iterator[Suppression]:
    for line, match in _suppression_comments(file):
        node = next((nodes[at] for at in (line, line + 1, line + 2) if at in nodes), None)
        names = [name.strip() for name in match["checks"].split(",")]
        for name in names:
            graph_wide = check_of(name) == "human_presence"
            yield Suppression(
                name, None if graph_wide or node is None else node.id, (match["reason"] or "").strip(), f"{file}:{line}"
            )


def _suppression_comments(file: Path) -> Iterator[tuple[int, re.Match[str]]]:
    """Yields the suppression comments of a file, each with its line."""
    try:
        text = file.read_text(encoding="utf-8")
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and (match := _COMMENT.search(token.string)):
                yield token.start[0], match
    except (OSError, UnicodeError, tokenize.TokenError, SyntaxError):
        return  # a source that cannot be read has no suppressions
