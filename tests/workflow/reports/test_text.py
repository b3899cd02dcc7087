"""The report as text: every result, witnesses as paths, and nothing that could drive a terminal."""

from __future__ import annotations

import io
from dataclasses import replace

from guardagent.workflow.analysis.report import GraphFinding
from guardagent.workflow.model.graph import START
from guardagent.workflow.reports import show
from guardagent.workflow.reports.text import TEXT
from tests.workflow.samples import any_graph, hostile_report, support, support_report


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
    show(support_report(), "text", stream)
    stream.flush()
    text = stream.buffer.getvalue().decode("ascii")
    assert text.startswith("x FAILED")
    assert "      +>|o orders  tool  calls log\n" in text
