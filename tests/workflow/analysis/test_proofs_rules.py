"""Rules of a policy are checked on a graph by the tool orders that they imply."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from guardagent import load_policies
from guardagent.policy.load import compile_rules
from guardagent.testing import ScriptedModel
from guardagent.workflow.analysis.proofs import rule_results
from guardagent.workflow.analysis.report import RuleResult
from tests.workflow.graphs import graph_of

TOOLS = {tool: [tool] for tool in ("a", "b", "c")}
TAGS = {"two": frozenset({"a", "b"})}


def result_of(rule: str, calls: str) -> RuleResult:
    """Returns the result of a rule on the only path with these calls."""
    nodes = ["start", *(f"{tool}{at}" for at, tool in enumerate(calls)), "end"]
    edges = " ".join(f"{node}>{other}" for node, other in pairwise(nodes))
    graph = graph_of(edges, tools={node: [node[0]] for node in nodes[1:-1]})
    (result,) = rule_results(graph, compile_rules([rule], tags=TAGS))
    return result


def on(rule: str, *calls: str) -> str:
    """Returns P, V or U for each path: proved, violated, undecidable."""
    return "".join(result_of(rule, call).status[0].upper() for call in calls)


@pytest.mark.parametrize(
    ("rule", "expected"),  # on paths that call b, a; a, b; a; b; nothing
    [
        ("before(a(), true, b(), true)", "PVVPP"),
        ("before(a(x=v), true, b(), true)", "PVVPP"),
        ("before(a(x=.*), true, b(x=.*), true)", "UVVPP"),
        ("before(a(x=v), true, b(x=v), true)", "UVVPP"),
        ("before(a(), true, f:b(), output(f) == 1)", "UVVPP"),
        ("before(a(), true, b(), false)", "VVVPP"),
        ("before(a(x=1), true, b(), true)", "PUUPP"),
        ("before(a(x=v, y=v), true, b(), true)", "PUUPP"),
        ("before(a(x=v), v > 1, b(), true)", "PUUPP"),
        ("before(a(), false, b(), true)", "PPPPP"),
        ("before(@two(), true, c(), true)", "VVVVP"),
        ("after(a(), true, b(), true)", "VPVPP"),
        ("after(a(x=v), true, b(x=v), true)", "VUVPP"),
        ("after(a(x=1), true, b(), true)", "UUUPP"),  # a call whose x is a text makes it unknown
        ("after(a(), fact(sure) == true, b(), true)", "UUUPP"),
        ("seq(b(), a())", "PVVPP"),
        ("forall(a(), false)", "VVVPP"),
        ("forall(a(x=v), v > 1)", "UUUPP"),
        ("forall(a(), true)", "PPPPP"),
        ("exists(a(), true)", "PPPVV"),
        ("exists(a(x=.*), true)", "UUUVV"),  # a call without x would not do
        ("exists(a(), false)", "VVVVV"),
        ("NOT exists(a(x=v), true)", "VVVPP"),
        ("NOT exists(a(x=1), true)", "UUUPP"),
        ("NOT forall(a(), false)", "PPPVV"),
        ("NOT before(a(), true, b(), true)", "VPPVV"),
        ("NOT before(a(), true, b(x=1), true)", "UPPVV"),
        ("NOT after(a(), true, b(), true)", "PVPVV"),
        ("NOT after(a(x=1), true, b(), true)", "UVUVV"),
        ("before(a(), true, b(x=1), true) AND (G !tool:b)", "VVVVP"),
        ("before(a(), true, b(x=1), true) OR (F tool:b)", "PPVPP"),
        ("before(a(), true, b(x=1), true) OR forall(a(x=v), v > 1)", "UUUPP"),
    ],
)
def test_what_follows_from_a_rule_over_data(rule: str, expected: str) -> None:
    """A path that violates the order violates the rule; a rule that depends on data is undecidable."""
    assert on(rule, "ba", "ab", "a", "b", "") == expected


@pytest.mark.parametrize(
    ("rule", "expected"),  # on paths that call b, a; a; b; nothing
    [
        ("G(tool:a -> (O tool:b && O decision:yes))", "UVPP"),
        ("G(tool:a -> (O tool:b || pii))", "PUPP"),
        ("tool:a -> F action:write", "UUPP"),
        ("G !pii", "UUUP"),
        ("(G !pii) AND (G !tool:a)", "VVUP"),
        ("(G !pii) OR (G !tool:a)", "UUPP"),
        ("F pii", "UUUV"),
        ("H(pii) || tool:b", "PUPP"),
    ],
)
def test_labels_that_a_host_sets_are_unknown_before_run_time(rule: str, expected: str) -> None:
    """An action, a decision or a tag is unknown; a rule that holds or fails without them is decided."""
    assert on(rule, "ba", "a", "b", "") == expected


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            "G(tool:a -> O decision:yes)",
            "it depends on decision:yes, which the host sets at run time; the rest is",
        ),
        ("forall(a(x=v), v > 1)", "it depends on data; the rest is checked at run time"),
        ("before(a(), true, f:b(), output(f) == 1)", "the tool order that it implies holds on every path"),
        ("G(tool:a -> O tool:b)", "it holds on every path"),
        ("G !tool:a", "this path violates it"),
        ("F tool:c", "the path ends with a pending obligation"),
    ],
)
def test_an_undecidable_rule_has_a_reason(rule: str, message: str) -> None:
    """The message has the reason."""
    assert message in result_of(rule, "ba").message


def test_each_rule_of_a_policy_has_its_result(write: Callable[..., Path]) -> None:
    """All formulas of a list must hold; a natural language rule is for the session."""
    policies = load_policies(
        write(
            "p.yaml",
            """
            version: 1
            tags: {writes: [a, b]}
            policies:
              - id: listed
                temporal: ["G !tool:c", "G(tool:a -> O tool:b)"]
              - id: tagged
                temporal: F @writes
              - id: worded
                request: Be kind.
            """,
        ),
        model=ScriptedModel([]),
    )
    graph = graph_of("start>a a>end", tools=TOOLS)
    found = {rule_result.id: (rule_result.status, rule_result.witness) for rule_result in rule_results(graph, policies)}
    assert found == {
        "listed": ("violated", ("start", "a")),
        "tagged": ("proved", ()),
        "worded": ("undecidable", ()),
    }
