"""The structural checks of a graph (Agentproof, Definition 3 and Section 6.1), each with shortest witnesses.

A check is a module of this package with the name of the check, and with

    ORDER: int                                                 the position of its findings in reports
    ABOUT: CheckDescription                                    its description in reports
    check(context: CheckContext) -> Iterator[GraphFinding]

To add a check, add a file. Checks of other packages come after the checks of this package.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from types import ModuleType

from guardagent._support.plugins import Plugins
from guardagent.errors import UnknownNameError
from guardagent.workflow.analysis.checks import CheckContext, CheckDescription
from guardagent.workflow.analysis.paths import without_garbage_collection
from guardagent.workflow.analysis.report import GraphFinding
from guardagent.workflow.model.graph import Graph

CHECKS = Plugins("structural check", __name__, ("ABOUT", "ORDER", "check"), group="guardagent.structural_checks")


def structural_findings(
    graph: Graph, *, require_human: bool = False, sensitive_tools: Iterable[str] = ()
) -> list[GraphFinding]:
    """Returns all structural findings of a graph.

    Args:
        graph: the graph.
        require_human: a human has to take part somewhere.
        sensitive_tools: tools that no path may reach without human approval.

    Raises:
        UnknownNameError: a sensitive tool is not in the graph.
    """
    tools = tuple(sensitive_tools)
    known = {tool for node in graph.nodes for tool in node.tools} if tools else set()
    for tool in tools:
        if tool not in known:
            raise UnknownNameError("sensitive tool", tool, known, f"graph {graph.name!r}")
    with without_garbage_collection():
        # The call frees the shared data before garbage collection resumes.
        return _findings(CheckContext(graph, require_human, tools))


def _findings(view: CheckContext) -> list[GraphFinding]:
    found = [(name, finding) for name, one in _in_order() for finding in one.check(view)]
    return [finding if finding.check == name else replace(finding, check=name) for name, finding in found]


def descriptions() -> dict[str, CheckDescription]:
    """Returns the description of each check."""
    return {name: one.ABOUT for name, one in _in_order()}


@cache
def _in_order() -> tuple[tuple[str, ModuleType], ...]:
    return tuple(sorted(CHECKS.load_all(), key=lambda one: (one[0] not in CHECKS.shipped(), one[1].ORDER, one[0])))
