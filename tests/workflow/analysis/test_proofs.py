"""A session relies only on proofs of exactly this graph and this policy."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from guardagent import InputError, Policies, ToolDenied, load_policies, verify
from guardagent.policy.language.formula import Formula
from guardagent.policy.load import compile_rules
from guardagent.policy.monitors.automaton import Letter
from guardagent.testing import ScriptedModel
from guardagent.workflow.analysis.proofs import prove, rule_results
from guardagent.workflow.analysis.report import EveryRunResult, GraphFinding, RuleResult
from guardagent.workflow.drawing import draw
from guardagent.workflow.model.graph import END, START, Graph, GraphBuilder
from guardagent.workflow.model.graph_json import read_graph
from guardagent.workflow.reports import render_all
from tests.conftest import Write
from tests.frameworks.simulated_runs import Called, session
from tests.policy.naive import holds
from tests.properties.test_all_traces import Naive
from tests.properties.test_soundness import ProofCase, letter_of
from tests.tiers import slow_after
from tests.workflow.graphs import graph_of
from tests.workflow.random_cases import Maker
from tests.workflow.samples import alone


def chain(*tools: Sequence[str], **metadata: Any) -> Graph:
    """One tool node after another."""
    builder = GraphBuilder("chain", "test")
    before = START
    for number, several in enumerate(tools):
        builder.node(f"n{number}", "tool", tools=several, **metadata)
        builder.edge(before, f"n{number}")
        before = f"n{number}"
    builder.edge(before, END)
    return builder.graph()


NEVER, FIRST = "G !tool:drop", "G(tool:b -> O tool:a)"


@pytest.mark.parametrize(("rule", "proved"), [(NEVER, True), (FIRST, False), ("forall(drop(), false)", True)])
def test_a_proof_must_hold_from_any_node_and_if_calls_are_denied(rule: str, proved: bool) -> None:
    """On the graph itself b comes after a; taken up at b, or with a denied, it does not."""
    assert bool(prove(chain(["a"], ["b"]), compile_rules([rule])).rules) is proved


def test_a_guard_is_left_only_rules_that_a_call_breaks() -> None:
    """It can deny a call, and cannot make the agent call a tool."""
    rules = compile_rules([FIRST, "G(tool:b -> F tool:a)", "exists(a(), false)"])
    statuses = [result.status for result in rule_results(chain(["b"], guarded=True), rules)]
    assert statuses == ["undecidable", "violated", "violated"]
    assert not prove(chain(["b"], guarded=True), rules).rules


@pytest.mark.parametrize("known", ["widened", "guess"])
def test_nothing_is_proved_of_a_graph_that_is_not_known(known: str) -> None:
    """The proofs have the reason."""
    proofs = prove(chain(["a"], **{known: True}), compile_rules([NEVER]))
    assert not proofs.rules
    assert "unknown" in proofs.obstacle


def test_a_session_skips_what_is_proved_for_its_graph() -> None:
    """A call of another tool is judged by all rules; and so is every call once the graph has changed."""
    policies, graph = compile_rules([NEVER, "G !tool:a"]), chain(["a"], ["b"])
    proofs = prove(graph, policies)
    assert proofs.rules == {"rule 1"}
    session = policies.session()
    session.rely_on(proofs, graph)
    assert [session.check(tool, reserve=False).label for tool in ("b", "a", "drop")] == [0, 1, 1]
    changed = chain(["a"], ["drop"])
    session.graph_changed()
    assert [session.check(tool, reserve=False).label for tool in ("a", "drop")] == [1, 1]
    session.rely_on(prove(changed, policies), changed)
    assert session.check("drop", reserve=False).label == 1


# --- what a host really does, and the effects that tools then have

AT_MOST_ONE = "G(tool:refund -> !(Y O tool:refund))"
IN_ORDER = "G(tool:read_secret -> H !tool:export)"


def effects(graph: Graph, rules: Sequence[str], *tools: str) -> list[str]:
    """Returns the tools that ran, of those that a host called in a session with proofs."""
    policies, ran = compile_rules(list(rules)), list[str]()
    session = policies.session()
    session.rely_on(prove(graph, policies), graph)
    for tool in tools:
        with suppress(ToolDenied):
            session.call(lambda tool=tool: ran.append(tool), tool)
    return ran


@pytest.mark.parametrize("nodes", [[["refund"]], [["read_secret"], ["refund"]]])
def test_one_node_that_pays_is_run_again(nodes: Sequence[Sequence[str]]) -> None:
    """By a retry, a second call in the message, a sending, a resumption or a second invocation."""
    assert effects(chain(*nodes), [AT_MOST_ONE], "refund", "refund") == ["refund"]


def test_a_graph_is_invoked_twice_or_taken_up_in_the_middle() -> None:
    """An order that each path keeps is not the order of a session."""
    graph = chain(["read_secret"], ["export"])
    ran = effects(graph, [IN_ORDER], "read_secret", "export", "read_secret", "export")
    assert ran == ["read_secret", "export", "export"]
    assert effects(graph, ["G(tool:export -> O tool:read_secret)"], "export", "read_secret", "export") == [
        "read_secret", "export"
    ]  # fmt: skip


def test_a_call_of_another_tool_ends_what_was_relied_on() -> None:
    """Whether it comes after, or came before; a denied one is none."""
    graph, rules = chain(["a"]), ["G(tool:drop -> !F tool:a)"]
    assert effects(graph, rules, "a", "drop", "a") == ["a", "drop"]
    policies = compile_rules(rules)
    session = policies.session()
    session.call(lambda: None, "drop")
    session.rely_on(prove(graph, policies), graph)
    assert session.check("a").label == 1
    fork = policies.session()
    fork.rely_on(prove(graph, policies), graph)
    assert fork.check("drop", reserve=False).label == 0
    assert fork.check("a").label == 0


def test_a_report_is_no_proof() -> None:
    """A rule that is only proved as drawn is still judged at run time."""
    policies, graph = compile_rules([AT_MOST_ONE]), chain(["refund"])
    report = verify(graph, policies)
    assert report.rules[0].status == "proved"
    with pytest.raises(InputError, match="has the type 'Report'"):
        policies.session().rely_on(report, graph)  # type: ignore[arg-type]


def other_policy() -> Policies:
    return compile_rules(["G !tool:other"])


def test_proofs_of_another_graph_source_or_policy_are_refused(tmp_path: Path) -> None:
    """Any change makes the proofs invalid."""
    source = tmp_path / "nodes.py"
    source.write_text("def a(): ...")
    policies, graph = compile_rules([NEVER]), chain(["a"], file=str(source), line=1)
    proofs = prove(graph, policies)
    policies.session().rely_on(proofs, graph)
    with pytest.raises(InputError, match="do not match the current graph"):
        policies.session().rely_on(proofs, chain(["a"], ["b"]))
    with pytest.raises(InputError, match="do not match the current graph"):
        other_policy().session().rely_on(proofs, graph)
    source.write_text("def a(): return 1")
    with pytest.raises(InputError, match="do not match the current graph"):
        policies.session().rely_on(proofs, graph)


# --- results for every run, however a host drives a graph in one session


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
    assert "for every run: no proof: export: violates it" in render_all(alone(report), form)
    assert "for every run: no proof: a run without calls" in render_all(alone(report), "github")
    shown = json.loads(render_all(alone(report), "sarif"))["runs"][0]["properties"]["rules"]
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


# --- rules of a policy are checked on a graph by the tool orders that they imply


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
        ("G(tool:a -> O decision:yes)", "it depends on decision:yes, which the host sets at run time; the rest is"),
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


def test_each_rule_of_a_policy_has_its_result(write: Write) -> None:
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
    results = {
        rule_result.id: (rule_result.status, rule_result.witness) for rule_result in rule_results(graph, policies)
    }
    assert results == {"listed": ("violated", ("start", "a")), "tagged": ("proved", ()), "worded": ("undecidable", ())}
