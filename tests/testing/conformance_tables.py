"""The tables of docs/conformance.md: the `declarations.py` of each framework's tests, side by side.

`CANNOT` has for each host the scenarios that it cannot play, with the reasons. `BREAKS` has for each host its cells
about past breaks by attacks, where they differ from the usual ones. A cell names tests, as FILE::TEST in the folder of
the declaration (or under tests/, with a leading slash), the scenario that plays it, as `=SCENARIO`, or a reason.

`python -m tests.testing.conformance_tables` writes the tables into the page.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from guardagent.testing.conformance import matrix

FRAMEWORKS = Path(__file__).parents[1] / "frameworks"
COMMANDS = "commands"
RUN_NOTHING = "cannot occur because a command runs no agent's tools"
OWN_POLICIES = "cannot occur because attaching a guard runs its policies on purpose; they are the operator's own"

USUAL: dict[str, str] = {
    "the transport sends a judged call again": (
        "cannot occur because no message lies between the verdict and the tool"
    ),
    "a session relies on a proof for the graph as drawn": (
        "cannot occur because an adapter uses no proofs; sessions do, and accept only proofs for every run"
    ),
    "one approval, several executions": "=approve twice",
    "an answer approves another call than was shown": "=another call than was shown",
    "a serializer hides the value that the tool receives": "",  # each host declares it
    "a failure beside other content counts as success": "=failed output",
    "reading a policy or a prompt runs the files that it names": OWN_POLICIES,
    "the guard accepts tools that a server adds or changes later": "=late tools of a server",
    "names that differ in case only, at any depth": (
        "/_support/test_arguments.py::test_names_that_some_reader_treats_as_equal_deny_everywhere"
    ),
    "members of a message that clients read in any case": (
        "cannot occur because this host has no JSON-RPC message that two readers could read in two ways"
    ),
    "another spelling of a resource's URI": "cannot occur because resources are not events in this host",
    "an argument draws a line of its own in the approval request": (
        "/enforcement/test_approval.py::test_no_value_leaves_its_line"
    ),
    "a native module beside a locked file": OWN_POLICIES,
    "the guard does not judge a final answer from a tool": "=final answer",
    "a sub-agent under another id has a fresh history": "=sub-agent under another id",
    "a sub-agent in a thread that a tool starts has a fresh history": "=sub-agent in a thread of its own",
    "endless input costs memory and time": "cannot occur because the host reads the input, with its own limits",
    "a cache answers in place of the guard": "cannot occur because the host keeps no results of tools",
    "of two calls with one id, the second runs unseen": "=repeated ids",
    "tools run before the guard is attached": (
        "cannot occur because the adapter guards a tool before the agent receives it"
    ),
}
"""Break -> the cell of a host that declares no other."""

OF_COMMANDS: dict[str, str] = {
    **dict.fromkeys(USUAL, RUN_NOTHING),
    "a session relies on a proof for the graph as drawn": (
        "/workflow/analysis/test_proofs.py::test_a_report_is_no_proof "
        "/frameworks/langgraph/test_adapter_sessions.py::test_no_session_breaks_what_is_proved_for_every_run"
    ),
    "reading a policy or a prompt runs the files that it names": (
        "/cli/test_workflow.py::test_nothing_of_a_policy_is_run "
        "/models/test_prompts.py::test_an_invalid_template_denies_with_its_location"
    ),
    "a native module beside a locked file": (
        "/programs/runtime/test_lock.py::test_nothing_takes_the_place_of_a_locked_file "
        "/programs/runtime/test_lock.py::test_what_no_import_shows_is_not_imported"
    ),
    "endless input costs memory and time": "/batch/test_records.py::test_a_line_that_is_too_long_is_one_error",
}


def declared() -> dict[str, Any]:
    """Returns the folder of each framework whose tests declare something -> its declarations."""
    return {
        file.parent.name: import_module(f"tests.frameworks.{file.parent.name}.declarations")
        for file in sorted(FRAMEWORKS.glob("*/declarations.py"))
    }


def scenarios() -> dict[str, dict[str, str]]:
    """Returns for each host the scenarios that it cannot play, with the reasons."""
    return {host: cells for module in declared().values() for host, cells in module.CANNOT.items()}


def breaks() -> dict[str, dict[str, str]]:
    """Returns for each host the cell of each break; tests are named under tests/."""
    table = {
        host: {**USUAL, **{name: _under_tests(cell, folder) for name, cell in cells.items()}}
        for folder, module in declared().items()
        for host, cells in module.BREAKS.items()
    }
    return {**table, COMMANDS: OF_COMMANDS}


def tests() -> set[str]:
    """Returns all tests that a cell names."""
    cells = (cell for of_host in breaks().values() for cell in of_host.values())
    return {part.removeprefix("/") for cell in cells for part in cell.split() if "::" in part}


def tables() -> dict[str, str]:
    """Returns the tables by their names in the page."""
    cannot = scenarios()
    reasons = {host: _reasons(cells, cannot.get(host, {})) for host, cells in breaks().items()}
    return {"scenarios": matrix(cannot), "breaks": matrix(reasons, list(USUAL), "break")}


def _under_tests(cell: str, folder: str) -> str:
    named = (part if part.startswith("/") else f"/frameworks/{folder}/{part}" for part in cell.split())
    return " ".join(named) if "::" in cell else cell


def _reasons(cells: dict[str, str], cannot: dict[str, str]) -> dict[str, str]:
    """Returns the reasons of the cells that name no test."""
    reasons = {name: cannot.get(cell[1:]) if cell.startswith("=") else cell for name, cell in cells.items()}
    return {name: cell for name, cell in reasons.items() if cell is not None and "::" not in cell}


if __name__ == "__main__":
    page = FRAMEWORKS.parents[1] / "docs" / "conformance.md"
    text = page.read_text(encoding="utf-8")
    for name, table in tables().items():
        before, mark, after = text.partition(f"<!-- {name} -->\n")
        text = f"{before}{mark}{table}<!-- end -->{after.partition('<!-- end -->')[2]}"
    page.write_text(text, encoding="utf-8")
