"""Tools that call other tools: rules, tags, counters and audits see the inner call."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from guardagent.batch.audit import audit_trace
from guardagent.batch.records import Trace
from guardagent.batch.traces import TraceStep
from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.names import ToolSpec
from guardagent.enforcement.tool_guard import ToolGuard, run
from guardagent.errors import InputError, ToolDenied
from guardagent.policy.load import load_policies
from guardagent.policy.policies import Policies
from guardagent.session.counters import new_counters
from guardagent.session.session import Session
from guardagent.session.shadow import wait_for_shadows
from guardagent.types import Event
from guardagent.workflow.model.graph import GraphBuilder
from guardagent.workflow.verify import verify

FILE: dict[str, Any] = {
    "version": 1,
    "tags": {"writes": ["refund", "cancel"]},
    "tools": {"login": [], "refund": ["id", "amount"], "cancel": ["id"], "pay": None},
    "unlisted": "deny",
    "dispatch": {
        "call_tool": {"tool": "name", "arguments": "arguments"},
        "run": {"tool": "action"},
        "deep": {"tool": "name", "arguments": "arguments", "nested": True},
    },
    "policies": [
        {"id": "first", "temporal": "before(@writes(), true, login(), true)"},
        {"id": "limit", "temporal": "forall(refund(amount=a), a <= 5)"},
        {"id": "once", "temporal": "forall(@writes(), count(@writes()) == 0)"},
        {"id": "order", "temporal": "G(tool:cancel -> O tool:login)"},
    ],
}


def policies(**more: Any) -> Policies:
    return load_policies(data={**FILE, **more})


def session(**more: Any) -> Session:
    opened: Session = policies(**more).session()
    return opened


LOGIN: tuple[str, dict[str, Any]] = ("call_tool", {"name": "login", "arguments": {}})


def outcome(verdict: Any) -> Any:
    return verdict.rules or verdict.errors or verdict.decision.value


@pytest.mark.parametrize(
    "call",
    [
        ("refund", {"id": "a", "amount": 3}),
        ("call_tool", {"name": "refund", "arguments": {"id": "a", "amount": 3}}),
        ("call_tool", {"name": "refund", "arguments": '{"id": "a", "amount": 3}'}),
        ("run", {"action": "refund", "id": "a", "amount": 3}),
        ("deep", {"name": "run", "arguments": {"action": "refund", "id": "a", "amount": 3}}),
        (
            "deep",
            {
                "name": "call_tool",
                "arguments": '{"name": "refund", "arguments": "{\\"id\\": \\"a\\", \\"amount\\": 3}"}',
            },
        ),
    ],
)
def test_an_inner_call_is_judged_as_the_call_itself(call: tuple[str, dict[str, Any]]) -> None:
    """By propositional rules, rules over data, tags and counts, before and after a login."""
    tool, args = call
    over = (tool, json.loads(json.dumps(args).replace("3", "30")))
    now = session()
    assert outcome(now.check(tool, args, reserve=False)) == ("first",)
    now.call(lambda **_: "ok", *LOGIN)
    assert outcome(now.check(*over, reserve=False)) == ("limit",)
    assert now.call(lambda **sent: sent, tool, args) == args
    assert outcome(now.check("cancel", {"id": "b"}, reserve=False)) == ("once",)
    assert [(event.tool, dict(event.args)) for event in now.history][1] == ("refund", {"id": "a", "amount": 3})


@pytest.mark.parametrize(
    ("tool", "args", "problem"),
    [
        ("call_tool", {}, "its argument 'name' does not name"),
        ("call_tool", {"name": 5}, "does not name"),
        ("call_tool", {"name": "refund", "arguments": "[]"}, "'arguments' of 'call_tool' cannot be read"),
        ("call_tool", {"name": "refund", "arguments": '{"id": 1, "id": 2}'}, "cannot be read"),
        ("call_tool", {"name": "refund", "arguments": '"{}"'}, "cannot be read"),
        ("call_tool", {"name": "answer", "arguments": {"text": "x"}}, "reserved for the final answer"),
        ("call_tool", {"name": "run", "arguments": {"action": "login"}}, "'nested: true' in the policy allows"),
        (
            "deep",
            {"name": "deep", "arguments": {"name": "run", "arguments": {"action": "login"}}},
            "which calls another tool",
        ),
        ("call_tool", {"name": "refund", "arguments": {"id": "a", "amount": 3, "force": True}}, "force"),
        ("call_tool", {"name": "delete", "arguments": {}}, "unknown tool 'delete'"),
        ("call_tool", {"name": "Refund", "arguments": {}}, "unknown tool 'Refund'"),
        ("call_tool", {"name": "pay", "arguments": {}}, "no rule"),
    ],
)
def test_an_inner_call_that_is_not_known_is_denied(tool: str, args: dict[str, Any], problem: str) -> None:
    """With what is wrong; so are undeclared tools and arguments, and tools without a rule."""
    now = session()
    verdict = now.check(tool, args)
    assert verdict.label == 1
    assert problem in " ".join((*verdict.errors, *verdict.reasons))
    assert now.check(tool, args, action="x", tags=["y"]).label == 1
    assert now.history == ()


def test_arguments_that_are_absent_are_none() -> None:
    """The rules see a call without them."""
    for args in ({"name": "login"}, {"name": "login", "arguments": None}, {"name": "login", "arguments": "{}"}):
        assert outcome(session().check("call_tool", args)) == "allow"


def test_a_permit_is_for_the_call_that_runs() -> None:
    """It names the outer tool and its arguments, also after a snapshot."""
    now = session()
    permit = now.check(*LOGIN).permit
    assert permit is not None
    assert (permit.tool, dict(permit.args)) == (LOGIN[0], {"name": "login", "arguments": {}})
    with pytest.raises(InputError, match="for another call; expected 'call_tool'"):
        now.use(permit, "login", {})
    restored = policies().restore(now.snapshot(b"k" * 32), b"k" * 32)
    (again,) = restored.in_flight
    assert (again.tool, again.args) == (permit.tool, permit.args)
    assert now.use(permit, *LOGIN) == LOGIN[1]


def test_counters_and_labels_see_the_inner_call() -> None:
    """A counter across conversations, and the sources of values."""
    loaded = policies(
        counters={"refunds": {"on": "refund(id=i, amount=a)", "key": "i", "sum": "a"}},
        labels={"mail": ["login"]},
        policies=[
            {"id": "sum", "temporal": "forall(refund(id=i, amount=a), counter(refunds, i) + a <= 5)"},
            {"id": "origin", "temporal": 'forall(cancel(id=i), !("mail" in sources(i)))'},
            {"id": "listed", "temporal": "forall(login(), true)"},
        ],
    )
    now = loaded.session(counters=new_counters(loaded))
    now.call(lambda **_: "mail ann@x.example", *LOGIN)
    refund = {"name": "refund", "arguments": {"id": "a", "amount": 3}}
    now.call(lambda **_: "ok", "call_tool", refund)
    assert outcome(now.check("call_tool", refund)) == ("sum",)
    assert outcome(now.check("run", {"action": "cancel", "id": "ann@x.example"})) == ("origin",)


def test_a_candidate_resolves_calls_by_its_own_file(tmp_path: Path) -> None:
    """Whether the policy in force resolves them or not."""
    rule = {"id": "limit", "temporal": "forall(refund(amount=a), a <= 5)"}
    files = [{"version": 1, "policies": [rule]}, {"version": 1, "policies": [rule], "dispatch": FILE["dispatch"]}]
    call = {"name": "refund", "arguments": {"amount": 9}}
    for live, candidate in (files, files[::-1]):
        (tmp_path / "candidate.yaml").write_text(json.dumps(candidate))
        seen: list[Any] = []
        now = load_policies(data={**live, "shadow": "candidate.yaml"}, folder=tmp_path).session(
            on_difference=seen.append
        )
        now.check("call_tool", call)
        wait_for_shadows()
        assert [(row.tool, row.candidate["rules"]) for row in seen] in ([("refund", ("limit",))], [("call_tool", ())])


@pytest.mark.parametrize("tags", [frozenset[str](), frozenset({"night"})])
def test_an_audit_sees_the_inner_calls(tags: frozenset[str]) -> None:
    """Of whole traces, with the same verdict as for the calls themselves; an unreadable call is an error."""
    inner = [
        Event("login", {}, status="ok", tags=tags),
        Event("refund", {"id": "a", "amount": 9}, status="ok", tags=tags),
    ]
    outer = [Event("run", {**event.args, "action": event.tool}, status="ok", tags=tags) for event in inner]
    judged, behind = (audit_trace(policies(), Trace("t", tuple(map(TraceStep, events)))) for events in (inner, outer))
    assert behind.rules == judged.rules == ("limit",)
    unread = audit_trace(policies(), Trace("t", (TraceStep(Event("run", {}, status="ok")),)))
    assert "does not name" in " ".join(unread.errors)


def test_a_tool_guard_lets_the_outer_tool_run() -> None:
    """Attaching takes it for a way to tools that are not known; a call is judged, run and recorded."""
    guard = ToolGuard(policies())
    coverage = guard.names.attach([ToolSpec("call_tool", {}), ToolSpec("login", {})])
    assert list(coverage.lines()) == []
    ran: list[Any] = []
    for args in (LOGIN[1], {"name": "refund", "arguments": {"id": "a", "amount": 30}}):
        with suppress(ToolDenied):
            run(guard, HostCall("call_tool", args, "c", str(len(ran))), ran.append)
    assert ran == [LOGIN[1]]


def test_a_rule_about_the_outer_tool_is_an_error_at_load() -> None:
    """It would never judge a call."""
    with pytest.raises(InputError, match=r"rule 'a' names 'run', which 'dispatch:' resolves"):
        policies(tools=["run", "login"], tags={}, policies=[{"id": "a", "temporal": "forall(run(), false)"}])


def test_a_proof_does_not_hold_for_tools_behind_a_tool() -> None:
    """The graph shows only the outer one."""
    builder = GraphBuilder("g", "json")
    builder.node("a", "tool", tools=["call_tool"])
    builder.edge("__start__", "a")
    builder.edge("a", "__end__")
    report = verify(builder.graph(), policies())
    assert {rule.status for rule in report.rules} <= {"violated", "undecidable"}
    assert "'call_tool' calls other tools" in " ".join(report.notes)
