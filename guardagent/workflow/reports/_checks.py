"""What each structural check is about: the words that reports have for it."""

from __future__ import annotations

from dataclasses import dataclass

from guardagent.workflow.analysis.report import CheckName, EveryRun, Mechanism, RuleStatus


@dataclass(frozen=True, slots=True)
class About:
    """A check in words.

    Attributes:
        title: what has to hold.
        why: what is wrong where it does not.
        remedy: what can be done.
    """

    title: str
    why: str
    remedy: str


CHECKS: dict[CheckName, About] = {
    "exit_reachability": About(
        "Every exit can be reached",
        "No path leads from the entry to this exit, so the workflow can never end there.",
        "Add the edge that is missing, or take the exit out.",
    ),
    "reverse_reachability": About(
        "From everywhere an exit can be reached",
        "Once the workflow is at this node it can never end.",
        "Add a way out of the cycle or the dead end that the path leads into.",
    ),
    "dead_ends": About(
        "Every node but an exit leads somewhere",
        "The workflow stops at this node without being at an exit.",
        "Add an edge to what comes next, or to the exit.",
    ),
    "router_shape": About(
        "Every edge that leaves a router has a condition",
        "An edge without a condition is taken whatever the router decides.",
        "Make the edge conditional, or the node no router.",
    ),
    "human_presence": About(
        "A person takes part",
        "The workflow runs from its entry to its exit and asks nobody.",
        "Ask a person at some step, or before a tool runs.",
    ),
    "human_coverage": About(
        "No path leads to a sensitive tool without a person",
        "The sensitive tool can run though nobody was asked.",
        "Ask a person on every path to the tool, or before the tool itself.",
    ),
    "tool_declarations": About(
        "Every tool node says which tools it has",
        "What this node can call is not known, so that nothing can be proved of it.",
        "Declare the node's tools.",
    ),
    "suppressions": About(
        "Every suppression has a reason and matches a finding",
        "A suppression that says nothing, or that excuses nothing, hides what comes later.",
        "Write the reason behind `--`, or take the suppression out.",
    ),
}

MECHANISMS: dict[Mechanism, str] = {
    "bad_prefix": "broken on the way",
    "unmet_at_end": "still owed at the end",
    "postponed_by_cycle": "put off for ever by a cycle",
}

STATUSES: dict[RuleStatus, str] = {
    "proved": "holds on every path",
    "violated": "is violated on the path shown",
    "undecidable": "cannot be decided before the agent runs",
}

_EVERY_RUN: dict[RuleStatus, str] = {"proved": "proved", "violated": "no proof", "undecidable": "not known"}


def in_every_run(found: EveryRun) -> str:
    """What is known for every run, beside what holds as the graph is drawn; empty where nothing is said of it."""
    return f"for every run: {_EVERY_RUN[found.status]}: {found.message}" if found.message else ""
