"""A stop file stops the guards that watch it at once, and a file that cannot be read lets nothing run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from guardagent import load_policies
from guardagent.enforcement import HostCall, Outcome, ToolGuard
from guardagent.enforcement.stops import NoSuchStopError, Stop, StopFile, new_stop
from guardagent.errors import InputError
from guardagent.policy.load import compile_rules
from guardagent.types import Decision
from tests.enforcement.guards import LIMIT, MemoryLog, guard, ran, refund, yes


@pytest.fixture
def file(tmp_path: Path) -> StopFile:
    return StopFile(tmp_path / "stops.json", create=True)


def stop(file: StopFile, **named: str) -> Stop:
    made = new_stop("wrong refunds", "ann", named)
    file.add(made)
    return made


def test_a_stop_holds_from_the_next_call_until_it_is_lifted(file: StopFile) -> None:
    log = MemoryLog()
    guards = [guard(LIMIT, stop_file=file.path, log=log) for _ in range(2)]
    for tool_guard in guards:
        ran(tool_guard, refund())
    made = stop(file)
    for tool_guard in guards:
        verdict = tool_guard.before(refund())
        assert verdict.decision is Decision.HALT
        assert verdict.reasons == ("stopped by ann (everything): wrong refunds; a person has to lift the stop",)
        assert tuple(log.records[-1]["reasons"]) == verdict.reasons
    file.lift(made.id)
    for tool_guard in guards:
        ran(tool_guard, refund())
    with pytest.raises(NoSuchStopError):
        file.lift(made.id)


@pytest.mark.parametrize(
    ("named", "covers"),
    [
        ({"tool": "refund"}, {"refund"}),
        ({"tool": "pay_back"}, {"refund"}),  # the host's name
        ({"tool": "@money"}, {"refund", "charge"}),
        ({"tool": "@urgent"}, {"login"}),  # a tag of the call
        ({"agent": "billing"}, {"charge"}),
        ({"session": "d"}, {"receipt"}),
        ({"tool": "@money", "agent": "billing"}, {"charge"}),
        ({"tool": "login", "session": "d"}, set()),
    ],
)
def test_a_stop_covers_the_calls_that_fit_all_that_it_names(
    file: StopFile, named: dict[str, str], covers: set[str]
) -> None:
    policies = compile_rules([LIMIT], tags={"money": frozenset({"refund", "charge"})})
    tool_guard = ToolGuard(policies, stop_file=file.path, aliases={"pay_back": "refund"})
    calls = {
        "refund": refund(conversation="c"),
        "charge": HostCall("charge", {}, "c", agent="billing"),
        "login": HostCall("login", {}, "c", tags=frozenset({"urgent"})),
        "receipt": HostCall("receipt", {}, "d"),
    }
    calls["refund"] = HostCall("pay_back", calls["refund"].args, "c")
    stop(file, **named)
    assert {name for name, call in calls.items() if tool_guard.before(call).label} == covers


def test_a_tool_behind_another_is_stopped(file: StopFile, tmp_path: Path) -> None:
    policies = tmp_path / "policies.yaml"
    dispatch = "unlisted: allow\ndispatch: {call_tool: {tool: name, arguments: args}}"
    policies.write_text(f'version: 1\n{dispatch}\npolicies:\n- {{id: small, temporal: "{LIMIT}"}}\n')
    tool_guard = ToolGuard(policies, stop_file=file.path)

    def denied(tool: str) -> bool:
        return bool(tool_guard.before(HostCall("call_tool", {"name": tool, "args": {"amount": 1}}, "c")).label)

    assert not denied("refund")
    stop(file, tool="refund")
    assert (denied("refund"), denied("login")) == (True, False)


def test_a_call_that_was_allowed_before_the_stop_does_not_begin_after_it(file: StopFile) -> None:
    tool_guard = guard(LIMIT, stop_file=file.path)
    call = refund()
    assert tool_guard.before(call).label == 0
    stop(file)
    with pytest.raises(InputError, match="stopped by ann"):
        tool_guard.use(call)
    assert not tool_guard.session("c").history


def test_an_approval_from_before_the_stop_lets_nothing_run(file: StopFile, tmp_path: Path) -> None:
    policies = tmp_path / "policies.yaml"
    policies.write_text(f'version: 1\npolicies:\n- {{id: small, temporal: "{LIMIT}", on_violation: escalate}}\n')
    tool_guard = ToolGuard(policies, stop_file=file.path)
    call = refund(500)
    assert tool_guard.before(call).decision is Decision.ESCALATE
    stop(file, tool="refund")
    assert "stopped by ann" in tool_guard.resolve(call, yes(call)).reasons[0]


@pytest.mark.parametrize("text", [None, "", "{", '{"stops": [{"id": 1}]}', '{"stops": {}}', "[]"])
def test_a_file_that_is_gone_or_damaged_lets_nothing_run(file: StopFile, text: str | None) -> None:
    tool_guard = guard(LIMIT, stop_file=file.path)
    ran(tool_guard, refund())
    file.path.unlink()
    if text is not None:
        file.path.write_text(text)
    verdict = tool_guard.before(refund())
    assert verdict.label == 1
    assert "stop file" in verdict.errors[0]
    with pytest.raises(InputError, match="stop file"):
        StopFile(file.path)


def test_a_stop_that_has_ended_covers_nothing(tmp_path: Path) -> None:
    now = [100.0]
    clock = lambda: now[0]  # noqa: E731 - read often
    file = StopFile(tmp_path / "stops.json", create=True, clock=clock)
    file.add(new_stop("for now", "ann", seconds=5, clock=clock))
    call = HostCall("login", {}, "c")
    assert file.covering(call, frozenset) is not None
    now[0] = 105.0
    assert file.covering(call, frozenset) is None


@pytest.mark.parametrize("seconds", [0, -1, True, float("inf"), float("nan"), "2h"])
def test_a_stop_that_would_cover_nothing_is_refused(seconds: Any) -> None:
    with pytest.raises(InputError, match="expected a positive number"):
        new_stop("why", "ann", seconds=seconds)


def test_a_stop_that_says_nothing_is_refused(file: StopFile) -> None:
    for reason, named in (("", {}), ("x" * 1001, {}), ("why", {"tool": " "}), ("why", {"tool": "@"})):
        with pytest.raises(InputError):
            new_stop(reason, "ann", named)
    with pytest.raises(InputError, match="tenants"):
        stop(file, tenant="shop")


def test_a_call_that_runs_may_still_end(file: StopFile) -> None:
    tool_guard = guard(LIMIT, stop_file=file.path)
    call = refund()
    assert tool_guard.before(call).label == 0
    tool_guard.use(call)
    stop(file)
    tool_guard.after(call, Outcome("done"))
    assert [event.status for event in tool_guard.session("c").history] == ["ok"]


HALTS = {
    "version": 1,
    "policies": [{"id": "abroad", "temporal": 'forall(wire(to=c), c == "DE")', "on_violation": "halt_tool"}],
}


def test_a_rule_stops_its_tool_until_a_person_lifts_the_stop(tmp_path: Path) -> None:
    """For other guards with the same file, too; a preview stops nothing."""
    path = tmp_path / "stops.json"
    first, second = (ToolGuard(load_policies(data=HALTS), stop_file=path) for _ in range(2))
    abroad, home = HostCall("wire", {"to": "FR"}, "a", id="1"), HostCall("wire", {"to": "DE"}, "b", id="2")
    assert first.preview(abroad).label == 1
    assert StopFile(path).stops() == ()
    verdict = first.before(abroad)
    [stop] = StopFile(path).stops()
    assert (verdict.rules, verdict.details["stop"]) == (("abroad",), stop.id)
    assert (stop.tool, stop.by, stop.reason) == ("wire", "the guard", "the rule 'abroad' was violated")
    for each in (first, second):
        assert "stopped by the guard" in each.before(home).reasons[0]
        assert each.before(HostCall("look", {}, "b", id="3")).label == 0
    StopFile(path).lift(stop.id)
    assert second.before(HostCall("wire", {"to": "DE"}, "b", id="4")).label == 0


def test_a_rule_that_stops_a_tool_needs_something_that_stops(tmp_path: Path) -> None:
    """At the start, at a reload, and for a call if the file is gone."""
    with pytest.raises(InputError, match=r"abroad.*expected a stop_file"):
        ToolGuard(load_policies(data=HALTS))
    file = tmp_path / "policies.yaml"
    file.write_text("version: 1\npolicies: [{id: a, temporal: 'G(NOT none)'}]\n")
    reloaded = ToolGuard(file)
    file.write_text(json.dumps(HALTS))
    with pytest.raises(InputError, match="expected a stop_file"):
        reloaded.reload()
    path = tmp_path / "stops.json"
    guarded = ToolGuard(load_policies(data=HALTS), stop_file=path)
    path.unlink()
    assert guarded.before(HostCall("wire", {"to": "FR"}, "a", id="1")).label == 1


def test_an_including_file_that_sets_the_response_stops_no_tool(tmp_path: Path) -> None:
    (tmp_path / "inner.yaml").write_text(json.dumps(HALTS))
    outer = {"version": 1, "include": [{"file": "inner.yaml", "as": "x", "on_violation": "warn"}]}
    (tmp_path / "outer.yaml").write_text(json.dumps(outer))
    assert load_policies(tmp_path / "outer.yaml").tool_halts == frozenset()
