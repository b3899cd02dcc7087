"""Annotations are one command per line, escaped so that no name ends or begins a command."""

from __future__ import annotations

import re
from dataclasses import replace

from guardagent.workflow.analysis.report import GraphFinding
from guardagent.workflow.reports.text import workflow_commands
from tests.workflow.samples import hostile_report, support, support_report

_COMMAND = re.compile(r"::(error|warning|notice) (\w+=[^,:]*)(,\w+=[^,:]*)*::.*")


def test_a_finding_is_beside_the_line_of_its_node() -> None:
    """The annotation has the remedy and the path; suppressed findings have none."""
    finding = GraphFinding("dead_ends", "classify", "error", "50% of\nit", ("__start__", "classify"))
    report = support_report(support(file="agents/a,b.py", line=7))
    _, first, *_ = workflow_commands(replace(report, findings=(finding,), rules=())).splitlines()
    assert first == (
        "::error file=agents/a%2Cb.py,line=7,title=dead_ends%3A Every node except an exit has an outgoing edge::"
        "50%25 of%0Ait%0AAdd an edge to the next node or to the exit.%0Apath: __start__ → classify"
    )


def test_rules_that_are_not_proved_are_annotated() -> None:
    """A violation is an error, in the file of the target if no location is known."""
    unknown, *lines = workflow_commands(support_report()).splitlines()
    assert unknown.endswith("::team: its edges are assumed: it is chosen at run time")
    assert lines[0].startswith("::error file=agents/support.py,line=1,title=policy%3A ask-first::ask-first: violated")
    assert lines[1].endswith("orders → retry → orders → …")
    assert lines[2].startswith("::notice ")
    assert not any("no-drop" in line or "the platform stops it" in line for line in lines)
    assert lines[-1].startswith("GuardAgent: failed: 3 findings, 1 suppressed")


def test_no_name_ends_a_command_or_begins_one() -> None:
    """Each line is one command, except the last, which has no names."""
    *commands, last = workflow_commands(hostile_report()).split("\n")
    assert all(_COMMAND.fullmatch(line) and line.isprintable() for line in commands)
    assert re.fullmatch(r"GuardAgent: failed: [\w ,]+", last)


def test_a_file_elsewhere_on_the_machine_is_not_named() -> None:
    """A path on another machine has no meaning."""
    report = support_report(support(file="/usr/lib/other.py", line=3), target="support")
    assert "other.py" not in workflow_commands(report)
