"""What a session may rely on: proofs of exactly this graph and policy, as they are now."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from guardagent import InputError, Policies
from guardagent.policy.load import compile_rules
from guardagent.workflow.graph import END, START, Graph, GraphBuilder
from guardagent.workflow.proofs import prove


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
    """With the reason."""
    proofs = prove(chain(["a"], **{known: True}), compile_rules([NEVER]))
    assert not proofs.rules
    assert "not known" in proofs.obstacle


def test_a_session_skips_what_is_proved_for_its_graph() -> None:
    """A call of another tool is judged by all rules; and so is every call once the graph has changed."""
    policies, graph = compile_rules([NEVER, "G !tool:a"]), chain(["a"], ["b"])
    proofs = prove(graph, policies)
    assert proofs.rules == {"rule 1"}
    session = policies.session()
    session.rely_on(proofs, graph)
    assert [session.check(tool, reserve=False).label for tool in ("b", "a", "drop")] == [0, 1, 1]
    changed = chain(["a"], ["drop"])
    session.graph_changed(changed)
    assert session.check("drop", reserve=False).label == 1


def other_policy() -> Policies:
    return compile_rules(["G !tool:other"])


def test_proofs_of_another_graph_source_or_policy_are_refused(tmp_path: Path) -> None:
    """Whatever changed since."""
    source = tmp_path / "nodes.py"
    source.write_text("def a(): ...")
    policies, graph = compile_rules([NEVER]), chain(["a"], file=str(source), line=1)
    proofs = prove(graph, policies)
    policies.session().rely_on(proofs, graph)
    with pytest.raises(InputError, match="prove them again"):
        policies.session().rely_on(proofs, chain(["a"], ["b"]))
    with pytest.raises(InputError, match="prove them again"):
        other_policy().session().rely_on(proofs, graph)
    source.write_text("def a(): return 1")
    with pytest.raises(InputError, match="prove them again"):
        policies.session().rely_on(proofs, graph)
