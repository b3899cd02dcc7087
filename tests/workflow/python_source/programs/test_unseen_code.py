"""No proof covers less than the program: a tool that its source hides is in the graph, or the graph is not complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent.errors import InputError
from guardagent.policy.load import load_policies
from guardagent.workflow.verify import verify_all
from tests.tiers import slow_but_every
from tests.workflow.python_source.programs import hidden_tools

NEVER = load_policies(
    data={"version": 1, "policies": [{"id": "never", "temporal": "G !tool:danger", "message": "Never."}]}
)


def proofs(folder: Path, code: str) -> set[str]:
    """For the agent of a program, whether it is proved that it never calls the tool `danger`."""
    try:
        listing = verify_all(hidden_tools.write(folder, code), NEVER, source_only=True)
    except InputError:  # it cannot be read
        return set()
    reports = [report for report in listing.reports if report.target.endswith(":agent")] or listing.reports
    return {result.every_run.status for report in reports for result in report.rules}


@pytest.mark.parametrize(("title", "code"), slow_but_every(3, hidden_tools.programs("hidden.txt")))
def test_a_hidden_tool_is_not_disproved(title: str, code: str, tmp_path: Path) -> None:
    assert "proved" not in proofs(tmp_path, code), title


@pytest.mark.parametrize(("title", "code"), hidden_tools.programs("known.txt"))
def test_a_program_without_the_tool_is_proved(title: str, code: str, tmp_path: Path) -> None:
    assert proofs(tmp_path, code) == {"proved"}, title


def test_a_builder_that_is_passed_on_can_have_any_edges(tmp_path: Path) -> None:
    """Not so a compiled graph."""
    code = (
        "from langgraph.graph import START, StateGraph\n"
        "from elsewhere import extend, serve\n"
        "b = StateGraph(dict).add_node('n', lambda s: s).add_edge(START, 'n')\n"
        "extend(b)\nagent = b.compile()\nserve(agent)\n"
    )
    for passed, known in ((code, False), (code.replace("extend(b)\n", ""), True)):
        report = verify_all(hidden_tools.write(tmp_path, passed), NEVER, source_only=True).reports[0]
        edges = {(edge.source, edge.target) for edge in report.graph.edges}
        assert (("n", "n") not in edges, report.rules[0].status == "proved") == (known, known)


@pytest.mark.parametrize(
    "late",
    [
        "import elsewhere\nagent = Agent(name='a', tools=TOOLS)\nelsewhere.extend(agent)\n",
        "def Tools(): return TOOLS\ndef f():\n  t = Tools()\n  t.append(danger)\nagent = Agent(name='a', tools=TOOLS)",
    ],
)
def test_what_a_name_hides_is_not_disproved(late: str, tmp_path: Path) -> None:
    """A function of a module that is not seen, and a function that is named like a class."""
    head = "from agents import Agent\nfrom tools import danger, safe\nTOOLS = [safe]\n"
    assert "proved" not in proofs(tmp_path, head + late)
