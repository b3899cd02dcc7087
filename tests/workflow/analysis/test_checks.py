"""The structural checks: what each finds, what it leaves alone, and the exact witness."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guardagent import load_policies, verify
from guardagent.errors import UnknownNameError
from guardagent.workflow.analysis.checks import structural_findings
from guardagent.workflow.analysis.report import GraphFinding
from guardagent.workflow.model.graph import START, Graph, GraphBuilder
from guardagent.workflow.model.graph_json import read_graph
from tests.workflow.graphs import graph_of, is_path

FINE = graph_of("start>a a>b b>end")


def witnesses(graph: Graph, check: str, **options: Any) -> dict[str | None, list[str]]:
    """Maps each node to the witness of its finding, for one check."""
    findings = structural_findings(graph, **options)
    return {finding.node: list(finding.witness) for finding in findings if finding.check == check}


def checks(graph: Graph, **options: Any) -> set[str]:
    return {finding.check for finding in structural_findings(graph, **options)}


def test_nothing_is_found_in_a_graph_that_is_fine() -> None:
    """The graph is a chain from entry to exit."""
    assert not structural_findings(FINE)


# --- exits


def test_an_exit_that_is_not_reached() -> None:
    """The witness is the exit itself."""
    graph = graph_of("start>a a>end b>done", exits=("end", "done"))
    assert witnesses(graph, "exit_reachability") == {"done": ["done"]}


def test_several_exits_that_are_reached() -> None:
    """The exits are on different paths."""
    assert not structural_findings(graph_of("start?end start?a a>done", exits=("end", "done")))


def test_a_livelock() -> None:
    """Every node of the livelock is a finding, and no node with another path."""
    graph = graph_of("start?a start?end a>b b>c c>b")
    expected = {"a": ["start", "a"], "b": ["start", "a", "b"], "c": ["start", "a", "b", "c"]}
    assert witnesses(graph, "reverse_reachability") == expected
    assert checks(graph) == {"reverse_reachability"}


def test_a_livelock_that_nothing_leads_to_is_none() -> None:
    """Only reachable nodes count."""
    assert not witnesses(graph_of("start>end a>b b>a"), "reverse_reachability")


def test_one_exit_of_several_is_enough_to_end() -> None:
    """Any exit is enough."""
    assert not witnesses(graph_of("start>a a>done", exits=("end", "done")), "reverse_reachability")


# --- dead ends


def test_a_dead_end_has_a_shortest_path() -> None:
    """The order of definitions has no effect."""
    graph = graph_of("start>a a>b b>c c>d start?e e>d a?end")
    assert witnesses(graph, "dead_ends") == {"d": ["start", "e", "d"]}


def test_a_dead_end_that_is_not_reached_stands_for_itself() -> None:
    """The dead end is its own witness."""
    graph = graph_of("start>end a>b", alone="c")
    assert witnesses(graph, "dead_ends") == {"b": ["b"], "c": ["c"]}


def test_an_entry_without_edges_is_a_dead_end() -> None:
    """Nothing else is reachable."""
    graph = graph_of("", alone="a")
    assert witnesses(graph, "dead_ends") == {"start": ["start"], "a": ["a"]}
    assert witnesses(graph, "exit_reachability") == {"end": ["end"]}


def test_an_exit_is_no_dead_end() -> None:
    """This holds with and without outgoing edges."""
    assert not witnesses(graph_of("start?end start?done done>start", exits=("end", "done")), "dead_ends")


# --- routers


@pytest.mark.parametrize(("sign", "wrong"), [("?", False), (">", True), ("=", True), ("@", True)])
def test_edges_of_a_router_are_conditional(sign: str, wrong: bool) -> None:
    """For other kinds of edges, the witness passes the edge."""
    graph = graph_of(f"start>r r?a r{sign}b a>end b>end", kinds={"r": "router"})
    assert witnesses(graph, "router_shape") == ({"r": ["start", "r", "b"]} if wrong else {})


def test_each_wrong_edge_of_a_router_is_a_finding() -> None:
    """An unreachable router is its own witness."""
    graph = graph_of("start>end r>a r>end a>end", kinds={"r": "router"})
    findings = [finding for finding in structural_findings(graph) if finding.check == "router_shape"]
    assert [list(finding.witness) for finding in findings] == [["r"], ["r"]]
    assert [finding.message for finding in findings] == [
        "the router 'r' has a direct edge to 'a'; expected a conditional edge",
        "the router 'r' has a direct edge to 'end'; expected a conditional edge",
    ]


def test_only_routers_have_to_choose() -> None:
    """Other nodes may have edges of any kind."""
    assert not witnesses(graph_of("start=a start@b a>end b?end"), "router_shape")


# --- people


def test_no_person_takes_part() -> None:
    """The witness is a path from the entry to a reachable exit."""
    graph = graph_of("start>a a>done", exits=("end", "done"))
    assert witnesses(graph, "human_presence", require_human=True) == {None: ["start", "a", "done"]}
    assert not witnesses(graph, "human_presence")


def test_no_person_takes_part_and_no_exit_is_reached() -> None:
    """The witness is the entry."""
    assert witnesses(graph_of("start>a a>start"), "human_presence", require_human=True) == {None: ["start"]}


@pytest.mark.parametrize(
    "graph",
    [
        graph_of("start>h h>end", kinds={"h": "human"}),
        graph_of("start>t t>end", tools={"t": ["pay", "look"]}, gated={"t": ["pay"]}),
    ],
)
def test_a_person_is_a_node_or_approves_a_tool(graph: Graph) -> None:
    """One gated tool is enough."""
    assert not witnesses(graph, "human_presence", require_human=True)


def coverage(edges: str, sensitive: Sequence[str] = ("pay",), **options: Any) -> dict[str | None, list[str]]:
    graph = graph_of(edges, kinds={"h": "human"}, **options)
    return witnesses(graph, "human_coverage", sensitive_tools=sensitive)


def test_a_sensitive_tool_behind_a_person() -> None:
    """A human is on every path."""
    assert not coverage("start>h h>t t>end", tools={"t": ["pay"]})


def test_a_sensitive_tool_on_a_way_around_the_person() -> None:
    """The witness is the shortest path without the human."""
    paths = coverage("start?h h>t start?a a>b b>t t>end", tools={"t": ["pay"]})
    assert paths == {"t": ["start", "a", "b", "t"]}


def test_only_ungated_sensitive_tools_need_a_person() -> None:
    """A gated tool has approval, and other tools need none."""
    tools = {"t": ["pay", "look"], "u": ["send"]}
    gated = {"t": ["pay"]}
    assert not coverage("start>t t>u u>end", tools=tools, gated=gated)
    assert coverage("start>t t>u u>end", ["pay", "send"], tools=tools, gated=gated) == {"u": ["start", "t", "u"]}


def test_each_sensitive_tool_of_a_node_is_a_finding() -> None:
    """Each message has the name of the tool."""
    graph = graph_of("start>t t>end", tools={"t": ["pay", "send", "look"]})
    messages = [
        structural_finding.message for structural_finding in structural_findings(graph, sensitive_tools=["send", "pay"])
    ]
    assert messages == [f"'t' can call {tool!r} on a path without human approval" for tool in ("pay", "send")]


def test_a_sensitive_tool_that_is_not_reached_is_covered() -> None:
    """An unreachable tool is covered."""
    assert not coverage("start>end t>end", tools={"t": ["pay"]})


def test_a_sensitive_tool_has_to_exist() -> None:
    """The message has the nearest name."""
    with pytest.raises(UnknownNameError, match="unknown sensitive tool or node 'pya'; did you mean 'pay'"):
        coverage("start>t t>end", ["pya"], tools={"t": ["pay"]})


def test_a_node_is_sensitive_itself() -> None:
    """A plain function may have an effect. A gated node asks for itself; other nodes need somebody before them."""
    assert coverage("start>a a>b b>end", ["b"]) == {"b": ["start", "a", "b"]}
    assert not coverage("start>h h>b b>end", ["b"])
    assert not coverage("start>t t>end", ["t"], tools={"t": ["pay"]}, gated={"t": ["pay"]})
    assert coverage("start>t t>end", ["t"], tools={"t": ["pay", "look"]}, gated={"t": ["pay"]}) == {"t": ["start", "t"]}


def test_a_question_after_the_node_is_too_late() -> None:
    """They only cover what comes later."""
    graph = graph_of("start>h h>b b>end", kinds={"h": "human"})
    for when, uncovered in (("before", set()), ("after", {"h"})):
        nodes = [replace(node, metadata={"interrupt": when}) if node.id == "h" else node for node in graph.nodes]
        asking = replace(graph, nodes=tuple(nodes))
        assert witnesses(asking, "human_coverage", sensitive_tools=["h", "b"]).keys() == uncovered


# --- tools


def test_a_tool_node_without_tools() -> None:
    """The witness is a path, or the node if it is unreachable."""
    graph = graph_of("start>a a>t t>end", kinds={"t": "tool", "u": "tool"}, tools={"a": ["look"]}, alone="u")
    assert witnesses(graph, "tool_declarations") == {"t": ["start", "a", "t"], "u": ["u"]}


# --- all together


def test_witnesses_are_computed_lazily() -> None:
    """A witness behaves like any sequence."""
    (finding,) = [
        structural_finding
        for structural_finding in structural_findings(graph_of("start>a start?end"))
        if structural_finding.check == "dead_ends"
    ]
    witness = finding.witness
    assert witness == ("start", "a")
    assert (len(witness), witness[-1], list(witness), witness[:1]) == (2, "a", ["start", "a"], ("start",))
    assert repr(witness) == "start -> a"
    assert hash(witness) == hash(("start", "a"))


def test_a_long_chain_with_many_findings() -> None:
    """Tens of thousands of nodes need no recursion, and unread witnesses are not computed."""
    size = 30_000
    edges = " ".join(f"n{at}>n{at + 1}" for at in range(size))
    graph = graph_of(f"start>n0 {edges}", kinds={f"n{at}": "router" for at in range(size)})
    findings = structural_findings(graph)
    assert len([finding for finding in findings if finding.check == "router_shape"]) == size
    assert len(findings[-1].witness) == size + 2


CURATED = [
    "adk_compliance_review", "adk_customer_onboarding", "adk_document_processing", "adk_incident_response",
    "autogen_debate", "autogen_investment_team", "autogen_round_robin_brainstorm", "autogen_software_team",
    "crewai_content_pipeline", "crewai_data_analysis", "crewai_hiring_pipeline", "crewai_marketing_campaign",
    "lg_code_assistant", "lg_customer_support", "lg_email_triage", "lg_financial_advisor", "lg_multi_agent_research",
    "lg_rag_pipeline",
]  # fmt: skip


@pytest.mark.parametrize("name", CURATED)
def test_agentproofs_graphs(shared: Path, name: str) -> None:
    """Exactly the checks that must fail do, each with a path of the graph; and sizes are as stated."""
    folder = shared / "workflows"
    expected = json.loads((folder / "expected.json").read_text())[name]
    graph = read_graph(folder / "curated" / f"{name}.json")
    assert (len(graph.nodes), len(graph.edges)) == (expected["nodes"], expected["edges"])
    findings = structural_findings(graph, require_human=True)
    assert sorted({finding.check for finding in findings}) == expected["failed_checks"]
    for finding in findings:
        assert is_valid(graph, finding), finding


def is_valid(graph: Graph, finding: GraphFinding) -> bool:
    """Whether a witness is a path from the entry to the place of the finding, or a node that is not reached."""
    path = list(finding.witness)
    ends_there = finding.node is None or finding.node in path[-2:]
    return is_path(graph, path) and ends_there and (path[0] == graph.entry_id or path == [finding.node])


# --- a suppression needs a reason and a matching finding


def stuck(file: Path, line: int = 3) -> Graph:
    """Returns a graph with a dead end that is defined in a line of a file."""
    builder = GraphBuilder("stuck", "test")
    builder.node("sink", "llm", file=str(file), line=line)
    builder.edge(START, "sink")
    return builder.graph()


def suppressions(graph: Graph, policies: Path | None = None) -> dict[str, str | None]:
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
    assert suppressions(stuck(file)) == {"dead_ends": "unexpected end", "reverse_reachability": "unexpected end"}


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
    assert suppressions(graph, path) == {"dead_ends": "unexpected end", "reverse_reachability": None}
    messages = [finding.message for finding in verify(graph, load_policies(path)).findings]
    assert any(f"{path}:5: the suppression of 'livelock' at 'other' matches no finding" in text for text in messages)
