"""The report as text: every result, witnesses as paths, and nothing that could drive a terminal."""

from __future__ import annotations

import io
import re
from dataclasses import replace

from guardagent.workflow.analysis.report import GraphFinding
from guardagent.workflow.model.graph import START
from guardagent.workflow.reports import show_all
from guardagent.workflow.reports.text import TEXT, workflow_commands
from tests.workflow.samples import alone, any_graph, hostile_report, support, support_report


def test_the_first_line_is_the_outcome() -> None:
    """The second line has the numbers."""
    first, second, *_ = TEXT.render(support_report()).splitlines()
    assert first.startswith("✘ FAILED  agents/support.py:graph  (langgraph, 10 nodes, 14 edges, graph ")
    assert second == "  3 findings, 1 suppressed, 1 unknown, 1 rule proved, 2 rules violated, 1 rule undecidable"


def test_a_witness_is_drawn_as_a_path() -> None:
    """The path has conditions, calls and locations."""
    report = support_report(support(file="agents/support.py", line=7))
    assert """\
    it is broken
        ┌○ __start__  entry
        ├○ classify  llm  agents/support.py:7
        ├○ route  router
        ┆  amount <= 100
        └● refund  tool  calls refund
""" in TEXT.render(report)


def test_a_cycle_leads_back_up() -> None:
    """The line leads to the beginning of the cycle."""
    assert """\
        ├○ route  router
        ┆  intent == "order"
      ╭▶├○ orders  tool  calls log
      │ ┆  failed
      │ ├○ retry  passthrough
      ╰─┘ and around again
""" in TEXT.render(support_report())


def test_a_suppressed_finding_says_why() -> None:
    """The suppressed finding comes last, and without its path."""
    text = TEXT.render(support_report())
    assert "  - suppressed  dead_ends  at retry\n    retry leads nowhere\n    reason: the platform stops it\n" in text
    assert text.index("human_presence") < text.index("suppressed  dead_ends")


def test_long_paths_and_many_findings_are_counted() -> None:
    """The beginning and the end are shown."""
    graph = any_graph(200, 0, 1)
    path = (START, *(node.id for node in graph.nodes[2:150]))
    findings = [GraphFinding("dead_ends", path[-1], "error", "x", path)] * 130
    text = TEXT.render(replace(support_report(), graph=graph, findings=tuple(findings), rules=()))
    assert text.count("⋮  129 more steps") == 100
    assert "  and 30 more; '--format json' has all of them\n" in text


def test_names_cannot_drive_a_terminal() -> None:
    """Names have no control characters, begin no lines, and markup in them is text."""
    text = TEXT.render(hostile_report())
    assert all(char.isprintable() for char in text.replace("\n", ""))
    assert "{{ 7 * 7 }}{% raw %} {0}" in text
    assert not any(line.startswith("::") for line in text.splitlines())


def test_a_stream_with_few_characters_gets_ascii() -> None:
    """There is no error."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    show_all(alone(support_report()), "text", stream)
    stream.flush()
    text = stream.buffer.getvalue().decode("ascii")
    assert text.startswith("x FAILED")
    assert "      +>|o orders  tool  calls log\n" in text


# --- annotations are one command per line, escaped so that no name ends or begins a command


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
