"""Parallel branches run, all of them and in any order: no run of a host does what a proof excludes."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from guardagent.policy.load import compile_rules
from guardagent.workflow.analysis import interleaving
from guardagent.workflow.analysis.interleaving import Forks, InterleavedProduct
from guardagent.workflow.analysis.product import GraphProduct, NumberedGraph
from guardagent.workflow.analysis.proofs import rule_results
from guardagent.workflow.model.graph import Graph
from tests.tiers import slow_after
from tests.workflow.graphs import graph_of
from tests.workflow.host_runs import is_kept, monitor_of, super_steps, tokens
from tests.workflow.random_cases import SETS, Maker

FORK = "start>s s=a s=b a>j b>j j>end"
RUNS = 40  # of a host, for each proof


def drawn(edges: str, framework: str = "json", marks: dict[str, dict[str, Any]] | None = None) -> Graph:
    graph = graph_of(edges, tools={tool: [tool] for tool in "abc"})
    nodes = [replace(node, metadata={**node.metadata, **(marks or {}).get(node.id, {})}) for node in graph.nodes]
    return replace(graph, framework=framework, nodes=tuple(nodes))


def status(graph: Graph, rule: str) -> str:
    (result,) = rule_results(graph, compile_rules([rule], tags={"two": frozenset("ab")}))
    return f"{result.status} {result.mechanism or ''}".strip()


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("!(F tool:a && F tool:b)", "violated bad_prefix"),  # both run
        ("F tool:a", "proved"),
        ("F tool:b", "proved"),
        ("G(tool:b -> O tool:a)", "violated bad_prefix"),  # in any order
        ("G(tool:a -> O tool:b)", "violated bad_prefix"),
        ("G !(tool:a && X F tool:a)", "proved"),  # once
    ],
)
def test_all_branches_of_a_fan_out_run_in_any_order(rule: str, expected: str) -> None:
    assert status(drawn(FORK), rule) == expected
    assert status(drawn(FORK.replace("=", ">"), "langgraph"), rule) == expected


def test_a_node_after_a_join_runs_once_and_after_all_branches() -> None:
    edges = "start>s s=a s=b a>c b>c c>end"
    once, later = "G !(tool:c && X F tool:c)", "G(tool:c -> O tool:a && O tool:b)"
    assert status(drawn(edges), once) == status(drawn(edges), later) == "violated bad_prefix"
    joined = drawn(edges, marks={"c": {"join": ("a", "b")}})
    assert status(joined, once) == status(joined, later) == "proved"
    unknown = drawn(edges, marks={"c": {"join": True}})
    assert status(unknown, once) == status(unknown, later) == "violated bad_prefix"
    barrier = drawn(edges.replace("=", ">"), "langgraph", {"c": {"waits_for": [["a", "b"]]}})
    assert status(barrier, once) == status(barrier, later) == "proved"
    deferred = drawn("start>s s>a s>b a>c b>x x>c c>end", "langgraph", {"c": {"defer": True}})
    assert status(deferred, later) == "proved"


def test_a_deferred_node_does_not_wait_for_what_is_sent_beside_it() -> None:
    before, after = "G(tool:c -> O tool:a)", "G(tool:c -> !F tool:a)"
    graph = drawn("start>s s=a s>c a>b b>end c>end", "langgraph", {"c": {"defer": True}})
    assert status(graph, before) == status(graph, "G(tool:c -> !F tool:b)") == "violated bad_prefix"
    reduced = drawn("start>s s=a a>c c>end", "langgraph", {"c": {"defer": True}})
    assert status(reduced, before) == status(reduced, after) == "proved"


def test_a_branch_that_stops_at_a_barrier_leaves_what_follows_undone() -> None:
    edges = "start>s s>a s>b b?c b?end a>c c>end"
    graph = drawn(edges, "langgraph", {"c": {"waits_for": [["a", "b"]]}})
    assert status(graph, "F tool:a") == "proved"
    assert status(drawn(edges, "langgraph"), "G(tool:c -> O tool:a)") == "violated bad_prefix"


def test_an_edge_for_each_item_is_taken_any_number_of_times() -> None:
    graph = drawn("start>s s=a a>end", "langgraph")
    assert status(graph, "G !(tool:a && X F tool:a)") == "violated bad_prefix"
    assert status(graph, "F tool:a") == "violated unmet_at_end"


def test_a_branch_that_loops_does_not_keep_others_from_running() -> None:
    assert status(drawn("start>s s=a s=x x?y y>x x?end a>end"), "F tool:a") == "proved"
    assert status(drawn("start>s s=b s=x x?y y>x x?a a>end b>end"), "F tool:a") == "violated postponed_by_cycle"


def test_more_orders_than_can_be_looked_at_are_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interleaving, "MAX_CONFIGURATIONS", 3)
    assert status(drawn(FORK), "F tool:a") == "undecidable"
    assert status(drawn(FORK), "G !tool:c") == "proved", "in whatever order the calls of the graph come"
    assert status(drawn(FORK), "G !tool:a") == "undecidable"


# --- against runs


def forked(maker: Maker, chance: random.Random) -> Graph:
    """A random graph with forks, of LangGraph or of a host with tokens."""
    graph = maker.graph(forks=True)
    if chance.random() < 0.5:
        edges = [replace(edge, kind="direct" if edge.kind == "loop" else edge.kind) for edge in graph.edges]
        nodes = []
        for node in graph.nodes:
            before = sorted({edge.source for edge in edges if edge.target == node.id and edge.kind == "direct"})
            metadata: dict[str, Any] = dict(node.metadata)
            if len(before) > 1 and node.kind != "exit" and chance.random() < 0.5:
                metadata["waits_for"] = [before[:2]]
            if node.kind not in ("entry", "exit") and chance.random() < 0.1:
                metadata["defer"] = True
            nodes.append(replace(node, metadata=metadata))
        return replace(graph, framework="langgraph", nodes=tuple(nodes), edges=tuple(edges))
    nodes = []
    for node in graph.nodes:
        before = sorted({edge.source for edge in graph.edges if edge.target == node.id} - {node.id})
        joins = len(before) > 1 and node.kind not in ("entry", "exit") and chance.random() < 0.4
        nodes.append(replace(node, metadata={**node.metadata, **({"join": tuple(before)} if joins else {})}))
    return replace(graph, framework="json", nodes=tuple(nodes))


@pytest.mark.parametrize("part", slow_after(1, range(10)))
def test_no_run_of_a_host_does_what_a_proof_excludes(part: int) -> None:
    proved = violated = 0
    for seed in range(part * 400, part * 400 + (400 if part else 150)):
        chance = random.Random(seed)  # noqa: S311 - a fixed seed
        maker = Maker(seed)
        graph, rule = forked(maker, chance), maker.formula()
        (result,) = rule_results(graph, compile_rules([rule], tags=SETS))
        violated += result.status == "violated"
        if result.status != "proved":
            continue
        proved += 1
        for _ in range(RUNS):
            calls, has_ended = (super_steps if graph.framework == "langgraph" else tokens)(graph, chance)
            assert is_kept(monitor_of(rule), calls, has_ended=has_ended), (seed, rule, calls)
    assert proved > 10 < violated


@pytest.mark.parametrize("part", slow_after(1, range(4)))
def test_without_forks_the_product_finds_what_single_paths_find(part: int) -> None:
    for seed in range(part * 300, part * 300 + 300):
        maker = Maker(seed)
        graph = maker.graph()
        graph = replace(graph, framework="json", edges=tuple(replace(edge, kind="direct") for edge in graph.edges))
        numbered = NumberedGraph(graph)
        product = GraphProduct(numbered, monitor_of(maker.formula()))
        both = InterleavedProduct(numbered, Forks.of(graph), product).violation(), product.violation()
        mechanisms = [None if violation is None else violation.mechanism for violation in both]
        assert (mechanisms[0] is None) == (mechanisms[1] is None), (seed, mechanisms)
