"""Results for every run, however a host drives a graph in one session."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from guardagent import verify
from guardagent.policy.language.formula import Formula
from guardagent.policy.load import compile_rules
from guardagent.policy.monitors.automaton import Letter
from guardagent.workflow.analysis.proofs import rule_results
from guardagent.workflow.analysis.report import EveryRunResult, GraphFinding
from guardagent.workflow.drawing import draw
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.model.graph_json import read_graph
from guardagent.workflow.reports import render
from tests.frameworks.simulated_runs import Called, session
from tests.policy.naive import holds
from tests.properties.test_all_traces import Naive
from tests.properties.test_soundness import ProofCase, letter_of
from tests.tiers import slow_after
from tests.workflow.graphs import graph_of
from tests.workflow.random_cases import Maker

SESSIONS = 15
BATCH = 50


def every_run(graph: Graph, rule: str) -> EveryRunResult:
    (result,) = rule_results(graph, compile_rules([rule]))
    return result.every_run


GRAPH = graph_of("start>read read>export export>end", tools={"read": ["read_secret"], "export": ["export"]})


@pytest.mark.parametrize(
    ("rule", "drawn", "always", "calls"),
    [
        ("G !tool:drop", "proved", "proved", []),
        ("G(tool:drop -> O tool:export)", "proved", "proved", []),
        ("G(tool:read_secret -> H !tool:export)", "proved", "violated", ["export", "read_secret"]),
        ("G(tool:export -> O tool:read_secret)", "proved", "violated", ["export"]),
        ("G(tool:export -> !(Y O tool:export))", "proved", "violated", ["export", "export"]),
        ("F tool:export", "proved", "violated", []),
        ("tool:read_secret -> F tool:export", "proved", "violated", ["read_secret"]),
        ("forall(drop(), false)", "proved", "proved", []),
        ("forall(export(x=v), v > 1)", "undecidable", "undecidable", []),
        ("G(tool:drop -> O pii)", "proved", "proved", []),
        ("G(tool:export -> O pii)", "undecidable", "undecidable", []),
    ],
)
def test_drawn_and_every_run_results_differ(rule: str, drawn: str, always: str, calls: Sequence[str]) -> None:
    """The result for every run has a shortest run that violates the rule."""
    (result,) = rule_results(GRAPH, compile_rules([rule]))
    shown = result.to_dict()
    assert (shown["status"], shown["every_run"]) == (drawn, always)
    assert [call["tool"] for call in shown["every_run_calls"]] == calls
    assert shown["every_run_message"]


def test_a_rule_that_only_a_call_that_fails_breaks() -> None:
    """The result shows the failed call."""
    run_result = every_run(graph_of("start>a a>end", tools={"a": ["a"]}), "G tool:a || H false")
    assert (run_result.status, [(call.tool, call.failed) for call in run_result.calls]) == ("violated", [("a", True)])
    assert "a (which fails)" in run_result.message


@pytest.mark.parametrize("form", ["text", "html"])
def test_reports_show_both_results(form: str) -> None:
    """Text has both; annotations only rules that are not proved as drawn; SARIF has properties."""
    report = verify(GRAPH, compile_rules(["G(tool:export -> O tool:read_secret)", "F tool:drop"]))
    assert "for every run: no proof: export: violates it" in render(report, form)
    assert "for every run: no proof: a run without calls" in render(report, "github")
    shown = json.loads(render(report, "sarif"))["runs"][0]["properties"]["rules"]
    assert [(rule["status"], rule["everyRun"]) for rule in shown] == [("proved", "violated"), ("violated", "violated")]


UNKNOWN = [{"widened": True}, {"guess": True}, {"tools_unknown": True}, {"unknown_tools": ("mcp.*",)}]


@pytest.mark.parametrize("metadata", UNKNOWN)
def test_unknown_parts_of_a_graph_prevent_proofs(metadata: dict[str, object]) -> None:
    """A rule that is violated anyway stays violated."""
    *others, last = GRAPH.nodes
    graph = replace(GRAPH, nodes=(*others, replace(last, metadata=metadata)))
    run_result = every_run(graph, "G !tool:drop")
    assert (run_result.status, run_result.message) == ("undecidable", "parts of the graph are unknown: 'end'")
    assert every_run(graph, "G !tool:export").status == "violated"


def test_tools_that_cannot_be_seen_leave_a_rule_undecidable_as_drawn_too() -> None:
    """A rule without tools is still proved, and the report passes."""
    *others, last = GRAPH.nodes
    graph = replace(GRAPH, nodes=(*others, replace(last, metadata={"tools_unknown": True})))
    report = verify(graph, compile_rules(["G !tool:drop", "G !tool:read_secret", "true"]))
    assert [rule.status for rule in report.rules] == ["undecidable", "violated", "proved"]
    assert "'end' may call tools that cannot" in report.rules[0].message
    assert verify(graph, compile_rules(["G !tool:drop"])).passed


def test_nothing_is_proved_of_a_tool_node_that_declares_none_or_where_a_finding_is_suppressed() -> None:
    """The tool node could call anything, and the finding is a known problem."""
    undeclared = replace(GRAPH, nodes=tuple(replace(node, tools=()) for node in GRAPH.nodes))
    assert every_run(undeclared, "G !tool:drop").status == "undecidable"
    policies = compile_rules(["G !tool:drop"])
    finding = GraphFinding("dead_ends", "end", "error", "", suppressed="it may")
    (result,) = rule_results(GRAPH, policies, [finding])
    assert result.every_run.message == "findings of the graph are suppressed"


# --- files of graphs

FILE = {"entry_id": "s", "exit_ids": ["e"], "edges": [{"source": "s", "target": "a"}, {"source": "a", "target": "e"}]}
NODES = [{"id": "s", "kind": "entry"}, {"id": "a", "kind": "tool", "tools": ["a"]}, {"id": "e", "kind": "exit"}]


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({}, "proved"),  # written by hand
        ({"framework": "langgraph", "notes": []}, "proved"),
        ({"framework": "langgraph"}, "undecidable"),  # from before notes were written
        ({"framework": "langgraph", "notes": ["a: who knows"]}, "undecidable"),
    ],
)
def test_a_file_that_does_not_say_what_could_not_be_seen_proves_nothing_more(
    more: dict[str, object], status: str, tmp_path: Path
) -> None:
    """It is read as what it promised, with what to do; and so is what is written of it."""
    file, again = tmp_path / "graph.json", tmp_path / "again.json"
    file.write_text(json.dumps({**FILE, "nodes": NODES, **more}))
    graph = read_graph(file)
    again.write_text(draw(graph, "json"))
    for checked_graph in (graph, read_graph(again)):
        (rule,) = verify(checked_graph, compile_rules(["G !tool:drop"])).rules
        assert (rule.status, rule.every_run.status) == ("proved", status)
    assert ("guardagent graph TARGET --format json" in str(graph.notes)) is (more == {"framework": "langgraph"})


# --- sessions made up at random: what is proved holds in each, and what is violated is so by the run that is reported


def letters(calls: Sequence[Called]) -> list[Letter]:
    every = [(letter_of(tool).ran, failed) for tool, failed in calls]
    return [Letter(frozenset() if failed else ran, ran) for ran, failed in every]


def keeps(formula: Formula, calls: Sequence[Called]) -> bool:
    return holds(formula, letters(calls)) if calls else bool(Naive(0).holds(formula)[0])


@pytest.mark.parametrize("batch", slow_after(2, range(20)))
def test_propositional_rules(batch: int) -> None:
    """The definitions of formulas decide each session."""
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        case = ProofCase(seed, Maker.rule)
        every_run, reported = case.result.every_run, {tool for node in case.graph.nodes for tool in node.tools}
        assert every_run.status != "undecidable"
        if every_run.status == "proved":
            assert all(keeps(case.formula, session(case.graph, at)) for at in range(SESSIONS)), (seed, case.text)
        else:
            assert {call.tool for call in every_run.calls} <= reported
            assert not keeps(case.formula, [(call.tool, call.failed) for call in every_run.calls]), (seed, case.text)


def says_nothing(case: ProofCase, calls: Sequence[Called]) -> bool:
    """Whether a session that records these calls allows all of them."""
    running = case.policies.session(facts={"sure": case.maker.truth()})
    events = [replace(case.event(tool), status="failed" if failed else "ok") for tool, failed in calls]
    return not any(running.observe(event).label for event in events) and not running.finish().label


OTHERS: list[Callable[[Maker], str]] = [partial(Maker.rule_over_data, plain=False), Maker.rule_with_labels]


@pytest.mark.parametrize("made", OTHERS)
@pytest.mark.parametrize("batch", slow_after(1, range(10)))
def test_rules_over_data_and_with_labels(batch: int, made: Callable[[Maker], str]) -> None:
    """Sessions with random arguments, outputs, facts, actions and tags confirm the results."""
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        case = ProofCase(seed, made)
        every_run = case.result.every_run
        if every_run.status == "proved":
            assert all(says_nothing(case, session(case.graph, at)) for at in range(SESSIONS)), (seed, case.text)
        if every_run.status == "violated":
            assert not says_nothing(case, [(call.tool, call.failed) for call in every_run.calls]), (seed, case.text)
