"""Every exit can be reached from the entry."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.workflow.analysis.checks import CheckContext, CheckDescription
from guardagent.workflow.analysis.report import GraphFinding

ORDER = 1
ABOUT = CheckDescription(
    "Every exit can be reached",
    "No path leads from the entry to this exit, so the workflow can never end there.",
    "Add the missing edge, or remove the exit.",
)


def check(view: CheckContext) -> Iterator[GraphFinding]:
    for exit_id in view.graph.exit_ids:
        if view.numbered.numbers[exit_id] not in view.reached:
            message = f"the exit {exit_id!r} cannot be reached from the entry {view.graph.entry_id!r}"
            yield GraphFinding("exit_reachability", exit_id, "error", message, (exit_id,))
