"""A session relies only on proofs of exactly this graph and this policy."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from guardagent import InputError, Policies, ToolDenied, verify
from guardagent.policy.load import compile_rules
from guardagent.workflow.analysis.proofs import prove
from guardagent.workflow.model.graph import END, START, Graph, GraphBuilder


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
