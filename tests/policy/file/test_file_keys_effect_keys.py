"""Effects of tools: tags, requirements in one line, and the worst step of a chain."""

from __future__ import annotations

from typing import Any

import pytest

from guardagent import load_policies, verify
from guardagent.enforcement import ToolGuard, ToolSpec
from guardagent.errors import ContentError
from guardagent.policy.file.file_keys import LEVELS, worst_effect, worst_of
from guardagent.types import Decision
from guardagent.workflow.model.graph import Edge, Graph, Node

EFFECTS = {"look": "read", "refund": "reversible", "wire": "irreversible"}


def policies(**more: Any) -> Any:
    return load_policies(data={"version": 1, "effects": EFFECTS, **more})


@pytest.mark.parametrize(
    ("require", "expected"),
    [
        ({"irreversible": "approval"}, ["allow", "allow", "escalate", "deny"]),
        ({"irreversible": "deny"}, ["allow", "allow", "deny", "deny"]),
        ({"reversible": "approval"}, ["allow", "escalate", "escalate", "deny"]),
        ({"reversible": "approval", "irreversible": "deny"}, ["allow", "escalate", "deny", "deny"]),
        ({"read": "deny"}, ["deny", "deny", "deny", "deny"]),
    ],
)
def test_a_requirement_holds_for_its_effect_and_worse_ones(require: Any, expected: list[str]) -> None:
    """A tool without an effect is denied."""
    session = policies(require=require).session()
    decisions = [str(session.check(tool, reserve=False).decision) for tool in (*EFFECTS, "unknown")]
    assert decisions == expected


def test_the_names_of_effects_are_tags() -> None:
    rule = {"id": "late", "temporal": "@irreversible -> O @read"}
    session = policies(policies=[rule]).session()
    assert session.check("wire", reserve=False).label == 1
    session.call(lambda: "", "look")
    assert session.check("wire", reserve=False).label == 0
    assert session.check("unknown", reserve=False).label == 0  # nothing is required


def test_approval_lifts_a_requirement() -> None:
    guarded = policies(require={"irreversible": "approval"})
    assert guarded.can_be_approved(guarded.session().check("wire"))
    assert guarded.responses == {"require_irreversible": Decision.ESCALATE}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"effects": {"a": "harmless"}}, "harmless"),
        ({"require": {"irreversible": "approval"}}, "'require' without 'effects'"),
        ({"effects": EFFECTS, "require": {"worst": "deny"}}, "worst"),
        ({"effects": EFFECTS, "require": {"read": "maybe"}}, "maybe"),
        ({"effects": EFFECTS, "tools": ["wier", *EFFECTS], "require": {"read": "deny"}}, "'wier' has no effect"),
        ({"effects": EFFECTS, "tags": {"read": ["look"]}}, "comes from 'effects'"),
    ],
)
def test_mistakes_are_errors_with_their_place(content: Any, problem: str) -> None:
    rule = [{"id": "a", "temporal": "G(NOT @read)"}]
    with pytest.raises(ContentError, match=problem):
        load_policies(data={"version": 1, "policies": rule, **content})


def test_a_chain_is_as_severe_as_its_worst_step() -> None:
    session = policies(policies=[{"id": "a", "temporal": "G(NOT none)"}]).session()
    assert session.effect is None
    seen: list[str | None] = []
    for tool in ("look", "refund", "look", "unknown"):
        session.call(lambda: "", tool)
        seen.append(session.effect)
    assert seen == ["read", "reversible", "reversible", "irreversible"]
    assert worst_effect({}, ["wire"]) is None
    assert worst_of([{"a": "read", "b": "irreversible"}, {"a": "reversible", "b": "read"}]) == {
        "a": "reversible",
        "b": LEVELS[-1],
    }


def test_verify_notes_the_worst_effect_of_a_run() -> None:
    nodes = (Node("start", "entry"), Node("pay", "tool", tools=("wire", "odd")), Node("end", "exit"))
    graph = Graph("g", "test", "start", ("end",), nodes, (Edge("start", "pay"), Edge("pay", "end")))
    notes = verify(graph, policies(require={"irreversible": "approval"})).notes
    assert "the worst effect of a run is irreversible: wire (pay), odd (pay)" in notes
    assert "tools without an effect count as irreversible: odd" in notes


def test_a_server_only_hints_at_effects() -> None:
    """Its hints change no verdict."""
    guard = ToolGuard(policies(require={"irreversible": "approval"}))
    hints = {"look": {"readOnlyHint": True}, "wire": {"readOnlyHint": True}, "refund": {"destructiveHint": True}}
    guard.attach([ToolSpec(name, {}, "", {"annotations": hint}) for name, hint in hints.items()])
    lines = [line for line in guard.coverage.lines() if line.startswith("the server says")]
    assert lines == [
        "the server says that 'wire' is read; the policy's 'effects', which holds, says irreversible",
        "the server says that 'refund' is irreversible; the policy's 'effects', which holds, says reversible",
    ]
