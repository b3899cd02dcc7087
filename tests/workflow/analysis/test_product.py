"""Rules on every path: the kind of a violation, its path and its calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pytest

from guardagent.policy.load import compile_rules
from guardagent.workflow.analysis.proofs import rule_results
from guardagent.workflow.analysis.report import RuleResult
from guardagent.workflow.model.graph import END, START, Graph, GraphBuilder
from guardagent.workflow.verify import verify
from tests.workflow.graphs import graph_of

ONE_EACH = {tool: [tool] for tool in "abcd"}


def result_of(graph: Graph, rule: str) -> RuleResult:
    (result,) = rule_results(graph, compile_rules([rule]))
    return result


def on(
    edges: str,
    rule: str,
    tools: Mapping[str, Sequence[str]] | None = None,
    *,
    chooses: Collection[str] = (),
    exits: Sequence[str] = ("end",),
) -> RuleResult:
    """Returns the result of a rule on a graph whose nodes a, b, c and d call the tools of their names."""
    return result_of(graph_of(edges, tools=ONE_EACH | dict(tools or {}), chooses=chooses, exits=exits), rule)


def mechanism_and_path(result: RuleResult) -> tuple[str | None, str]:
    return result.mechanism, " ".join(result.witness)


# --- the three ways


def test_a_step_that_nothing_can_mend() -> None:
    """The witness is the shortest path to the step."""
    result = on("start>b b>c c>a a>end start?d d>a", "G !tool:a")
    assert mechanism_and_path(result) == ("bad_prefix", "start d a")
    assert result.emitted == ((), ("d",), ("a",))


@pytest.mark.parametrize(("edges", "last"), [("start>a a>end a?b b>end", "end"), ("start>a a?x a?b b>end", "x")])
def test_an_obligation_that_is_pending_where_a_path_ends(edges: str, last: str) -> None:
    """A path ends at an exit or at a dead end."""
    assert mechanism_and_path(on(edges, "tool:a -> F tool:b")) == ("unmet_at_end", f"start a {last}")


def test_an_obligation_that_is_pending_at_an_exit_with_successors() -> None:
    """A run may end there."""
    assert mechanism_and_path(on("start>a a>end end>b b>done", "F tool:b", exits=("end", "done")))[0] == "unmet_at_end"


def test_an_obligation_that_a_cycle_can_postpone_forever() -> None:
    """The witness goes into the cycle and once around."""
    result = on("start>a a>x x?y y>x x?b b>end", "tool:a -> F tool:b")
    assert mechanism_and_path(result) == ("postponed_by_cycle", "start a x y x")
    assert result.cycle == ("y", "x")


def test_the_shortest_cycle_is_reported() -> None:
    """Even around a single node."""
    result = on("start>x x?y y?z z>x y>y x?b b>end", "F tool:b")
    assert (result.witness, result.cycle) == (("start", "x", "y", "z", "x"), ("y", "z", "x"))
    assert on("start>x x>x x?b b>end", "F tool:b").cycle == ("x",)


@pytest.mark.parametrize("edges", ["start>a a>b b>x x?y y>x x?end", "start>a a?b b>a b?end", "start>x x?y y>x x?end"])
def test_a_cycle_that_postpones_nothing(edges: str) -> None:
    """The obligation is met before or on the cycle, or there is none."""
    assert on(edges, "tool:a -> F tool:b").status == "proved"


def test_an_obligation_met_within_a_node_is_not_postponed() -> None:
    """The obligation is pending whenever a run leaves the node, but is met in between."""
    assert on("start>n n>n", "G(tool:b && Y tool:a -> X true)", {"n": ["a", "b"]}).status == "proved"
    assert on("start>n n>n", "G(tool:b -> X true) ", {"n": ["b"]}).mechanism == "postponed_by_cycle"


def test_a_path_that_ends_is_reported_before_a_cycle() -> None:
    """This holds for any length of the path."""
    assert mechanism_and_path(on("start>x x?x x?c c>d d>end", "F tool:b")) == ("unmet_at_end", "start x c d end")


def test_unreachable_nodes_are_on_no_path() -> None:
    """Nodes that only lead into a path are not on it either."""
    assert on("start>b b>end x>a a>b", "G !tool:a").status == "proved"


@pytest.mark.parametrize(("rule", "status"), [("G !tool:a", "proved"), ("F tool:a", "violated"), ("true", "proved")])
def test_a_graph_that_calls_nothing(rule: str, status: str) -> None:
    """Its only trace has no steps."""
    assert on("start>end", rule).status == status


def test_a_rule_that_nothing_can_keep() -> None:
    """The rule is violated before the first step."""
    assert mechanism_and_path(on("start>a a>end", "false")) == ("bad_prefix", "start")


# --- what a node calls


@pytest.mark.parametrize(
    ("rule", "mechanism"),
    [
        ("G !tool:p", "bad_prefix"),
        ("G !tool:r", "bad_prefix"),
        ("F tool:p", "unmet_at_end"),
        ("G(tool:q -> O tool:p)", "bad_prefix"),
        ("G(tool:p -> O tool:q)", "bad_prefix"),
        ("(F tool:p) || (F tool:q) || (F tool:r)", None),
        ("G(tool:p -> !X true)", "bad_prefix"),
    ],
)
def test_several_tools_in_any_order(rule: str, mechanism: str | None) -> None:
    """The node calls one or more of them."""
    assert on("start>n n>end", rule, {"n": ["p", "q", "r"]}).mechanism == mechanism


@pytest.mark.parametrize(
    ("rule", "fixed", "chosen"),
    [
        ("F tool:p", "proved", "violated"),
        ("G(tool:p -> !X tool:p)", "proved", "violated"),
        ("G !tool:p", "violated", "violated"),
        ("true", "proved", "proved"),
    ],
)
def test_a_tool_that_a_model_may_choose(rule: str, fixed: str, chosen: str) -> None:
    """Without a model, the tool is called once; with one, any number of times."""
    assert on("start>n n>end", rule, {"n": ["p"]}).status == fixed
    assert on("start>n n>end", rule, {"n": ["p"]}, chooses="n").status == chosen


def test_the_calls_of_a_witness_are_the_fewest() -> None:
    """This holds for each node of the witness."""
    result = on("start>n n>m m>end", "G !(tool:r && O tool:p)", {"n": ["p", "q"], "m": ["q", "r"]}, chooses="nm")
    assert result.emitted == ((), ("p",), ("r",))


def test_entry_and_exit_are_silent() -> None:
    """They call nothing, even with tools."""
    graph = graph_of("start>end")
    nodes = tuple(replace(node, tools=("a",)) for node in graph.nodes)
    assert result_of(replace(graph, nodes=nodes), "G !tool:a").status == "proved"


@pytest.mark.parametrize(("bound", "mechanism"), [(98, "bad_prefix"), (99, None)])
def test_a_rule_with_many_states(bound: int, mechanism: str | None) -> None:
    """The automaton has a state for each remaining step."""
    chain = " ".join(f"c{at}>c{at + 1}" for at in range(97))
    tools = {f"c{at}": ["c"] for at in range(98)}
    assert on(f"start>a a>c0 {chain} c97>b b>end", f"tool:a -> F[<={bound}] tool:b", tools).mechanism == mechanism


def test_a_long_chain_is_followed_without_recursion() -> None:
    """With a cycle at its end."""
    chain = " ".join(f"n{at}>n{at + 1}" for at in range(20_000))
    result = on(f"start>a a>n0 {chain} n20000>n0", "tool:a -> F tool:b")
    assert result.mechanism == "postponed_by_cycle"
    assert len(result.cycle) == 20_001


# --- rules on graphs with unknown tools: proved and violated only if that holds whatever the unknown calls are


def _graph(*steps: tuple[str, str, bool]) -> Graph:
    """A sequence of nodes, each with its name, its tool and whether it has unknown tools."""
    builder, last = GraphBuilder("g", "json"), START
    for name, tool, unknown in steps:
        builder.node(name, "tool" if tool else "llm", tools=[tool] if tool else [])
        if unknown:
            builder.mark(name, "tools_unknown", "it is imported")
        builder.edge(last, name)
        last = name
    builder.edge(last, END)
    return builder.graph()


CASES = [
    ("a forbidden tool may be hidden", "G !tool:pay", [("a", "", True)], "undecidable"),
    ("a forbidden tool is called after it", "G !tool:pay", [("a", "", True), ("b", "pay", False)], "violated"),
    ("a forbidden tool is called by it", "G !tool:pay", [("a", "pay", True)], "violated"),
    ("it may discharge", "tool:pay -> F tool:log", [("a", "pay", False), ("b", "", True)], "undecidable"),
    ("it comes too early", "tool:pay -> F tool:log", [("a", "", True), ("b", "pay", False)], "violated"),
    ("it may be the missing one", "G(tool:pay -> O tool:log)", [("a", "", True), ("b", "pay", False)], "undecidable"),
    ("it comes too late", "G(tool:pay -> O tool:log)", [("a", "pay", False), ("b", "", True)], "violated"),
]


@pytest.mark.parametrize(("rule", "steps", "status"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_rule_holds_or_fails_only_for_every_unknown_call(
    rule: str, steps: list[tuple[str, str, bool]], status: str
) -> None:
    """Otherwise it is undecidable, and the message names the node."""
    (result,) = verify(_graph(*steps), compile_rules([rule])).rules
    assert result.status == status, result.message
    assert status != "undecidable" or "'a'" in result.message or "'b'" in result.message


def test_an_unknown_part_without_a_node_can_call_anything_anywhere() -> None:
    """A mark on the entry leaves an order open that the graph alone violates."""
    builder = GraphBuilder("g", "json")
    builder.node("a", "tool", tools=["pay"])
    builder.edge(START, "a")
    builder.edge("a", END)
    rule = compile_rules(["tool:pay -> F tool:log"])
    assert verify(builder.graph(), rule).rules[0].status == "violated"
    builder.mark(START, "tools_unknown", "not all nodes are known")
    assert verify(builder.graph(), rule).rules[0].status == "undecidable"


def test_a_strict_report_fails_on_unknown_parts() -> None:
    """Otherwise they are listed, and do not fail it."""
    graph = _graph(("a", "", True))
    assert verify(graph).passed
    report = verify(graph, strict=True)
    assert not report.passed
    assert report.to_dict()["unknown"] == [
        {"node": "a", "mark": "tools_unknown", "reason": "it is imported", "line": None}
    ]
