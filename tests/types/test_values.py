"""The values that rules read: the principal, and objects."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, RootModel

from guardagent import Event, InputError, load_policies
from guardagent.batch.audit import judge_trace
from guardagent.batch.cases import judge_case
from guardagent.batch.records import read_case, read_trace
from guardagent.enforcement import HostCall, SqliteLedger, ToolGuard
from guardagent.errors import ContentError
from guardagent.policy.load import compile_rules
from guardagent.policy.policies import Policies
from guardagent.session.session import Session
from guardagent.types.values import readable, readable_copy
from tests.session.test_session import session_of

# --- a session acts for a principal, and a sub-agent's principal can only be a part of it


ANN = {"id": "ann", "roles": ["agent", "admin"], "tenant": "acme"}
BOB = {"id": "bob", "roles": ["agent", "guest"], "tenant": "acme"}
ADMINS = 'forall(wipe(), "admin" in principal.roles)'
KEY = b"at least sixteen random bytes"


def session(rule: str = ADMINS, principal: Any = ANN, **options: Any) -> Session:
    return compile_rules([rule]).session(principal=principal, **options)


def outcome(session: Session, tool: str = "wipe", **options: Any) -> bool | None:
    verdict = session.check(tool, {}, reserve=False, **options)
    return None if verdict.errors else verdict.label == 0


@pytest.mark.parametrize(
    ("condition", "principal", "allowed"),
    [
        ('"admin" in principal.roles', ANN, True),
        ('"admin" in principal.roles', BOB, False),
        ('"admin" in principal.roles', None, None),
        ('!("guest" in principal.roles)', {"id": "x"}, None),
        ('principal.tenant == "acme" && principal.id == "ann"', ANN, True),
        ('principal.tenant == "acme"', {"id": "x", "roles": []}, None),
        ("known(principal.tenant)", {"id": "x"}, False),
        ('len(principal.roles) == 1 && principal.on_behalf_of.id == "bob"', {**ANN, "on_behalf_of": BOB}, True),
        ('"admin" in principal.roles', {**ANN, "on_behalf_of": BOB}, False),
        ("principal.roles == principal.on_behalf_of.roles", {**ANN, "on_behalf_of": ANN}, True),
    ],
)
def test_conditions_read_the_principal(condition: str, principal: Any, allowed: bool | None) -> None:
    """A field that nobody knows is unknown, and denies; two principals have the roles that both have."""
    assert outcome(session(f"forall(wipe(), {condition})", principal)) is allowed


@pytest.mark.parametrize(
    ("principal", "problem"),
    [
        ({"roles": []}, "'id' of 'principal' is None"),
        ({"id": ""}, "'id' of 'principal' is ''"),
        ({"id": "a", "role": ["x"]}, "unknown key 'role'; did you mean 'roles'"),
        ({"id": "a", "roles": "admin"}, "expected a list of strings"),
        ({"id": "a", "roles": [5]}, "expected a list of strings"),
        ({"id": "a", "tenant": 5}, "'tenant' of 'principal' is 5"),
        ("ann", "has the type 'str'; expected a mapping"),
        ({**ANN, "on_behalf_of": {**BOB, "tenant": "other"}}, "expected the same tenant"),
        ({"id": "a", "on_behalf_of": BOB}, "expected the same tenant"),
    ],
)
def test_an_invalid_principal_is_an_error(principal: Any, problem: str) -> None:
    """The message says what was expected."""
    with pytest.raises(InputError, match=problem):
        session(principal=principal)
    with pytest.raises(InputError, match="no principal that acts"):
        session(principal=None, on_behalf_of=BOB)


def test_a_misspelt_field_is_an_error_when_the_rule_is_loaded() -> None:
    """Also of the principal that this one acts for."""
    for name in ("role", "on_behalf_of.role"):
        with pytest.raises(InputError, match=r"unknown field 'role' of the principal; did you mean 'roles'"):
            session(f'forall(wipe(), "a" in principal.{name})')


@pytest.mark.parametrize(
    ("part", "allowed"),
    [
        ({"id": "sub", "roles": ["admin"], "tenant": "acme"}, True),
        ({"id": "sub", "roles": ["agent"]}, False),
        ({"id": "sub"}, None),
        ({"id": "sub", "roles": ["admin", "root"]}, None),
        ({"id": "sub", "roles": ["admin"], "tenant": "other"}, None),
        ({"id": "sub", "roles": ["admin"], "on_behalf_of": BOB}, None),
        ({"id": "sub", "rolls": []}, None),
        ("sub", None),
    ],
)
def test_a_sub_agent_can_only_narrow_the_principal(part: Any, allowed: bool | None) -> None:
    """A wider principal denies the call, with the cause; the session's own stays as it is."""
    own_session = session()
    assert outcome(own_session, principal=part) is allowed
    assert outcome(own_session) is True
    assert outcome(session("G !tool:x", None), "look", principal=part) is None


def test_the_principal_is_frozen() -> None:
    """Later changes of the host's mapping do not count."""
    roles = ["agent"]
    own_session = session(principal={"id": "ann", "roles": roles})
    roles.append("admin")
    assert outcome(own_session) is False


def test_forks_snapshots_and_the_history_keep_the_principal() -> None:
    """A restored session acts for the same one; events name the principal of their call."""
    rules = compile_rules([ADMINS])
    session = rules.session(principal=ANN, on_behalf_of={**ANN, "id": "boss"})
    session.check("wipe")
    session.record("done")
    session.check("look", principal={"id": "sub"})
    session.record("done")
    assert [event.principal["id"] for event in session.history if event.principal] == ["ann", "sub"]
    assert outcome(session.fork()) is True
    again = rules.restore(session.snapshot(KEY), KEY)
    assert again.principal == session.principal
    assert outcome(again) is True
    assert outcome(again, principal={"id": "x", "roles": ["root"]}) is None


def test_a_case_and_a_trace_have_a_principal() -> None:
    """Files state it as hosts do; a mistake names its place."""
    rules = compile_rules([ADMINS])
    for principal, label in ((ANN, 0), (BOB, 1), (None, 1)):
        case = {"id": 1, "principal": principal, "proposed": {"tool": "wipe"}}
        trace = {"id": 1, "principal": principal, "events": [{"tool": "wipe"}]}
        assert judge_case(rules, read_case(json.dumps(case), "c", 1)).label == label
        assert judge_trace(rules, read_trace(json.dumps(trace), "t", 1)).label == label
    with pytest.raises(ContentError, match=r"^c:1: principal: is invalid: .*'role'.*'roles'"):
        read_case('{"id": 1, "proposed": {"tool": "a"}, "principal": {"id": "x", "role": []}}', "c", 1)
    with pytest.raises(ContentError, match=r"principle: .*did you mean 'principal'"):
        read_case('{"id": 1, "proposed": {"tool": "a"}, "principle": {}}', "c", 1)


# --- scopes


def scoped(rule: str, scope: str, *, more: str = "") -> Policies:
    return load_policies(
        text=f"version: 1\n{more}\npolicies:\n  - id: a\n    temporal: '{rule}'\n    applies_to: {scope}\n"
    )


@pytest.mark.parametrize(
    ("scope", "principal", "agent", "applies"),
    [
        ("{roles: [guest]}", BOB, None, True),
        ("{roles: [guest]}", ANN, None, False),
        ("{roles: [guest]}", None, None, True),
        ("{roles: [guest]}", {"id": "x"}, None, True),
        ("{tenants: [acme]}", ANN, None, True),
        ("{tenants: [other]}", ANN, None, False),
        ("{agents: [planner]}", None, "planner", True),
        ("{agents: [planner]}", None, "writer", False),
        ("{agents: [planner]}", None, None, True),
        ("{roles: [guest], tenants: [other]}", BOB, None, False),
        ("{not: {roles: [admin]}}", ANN, None, False),
        ("{not: {roles: [admin]}}", BOB, None, True),
        ("{not: {roles: [admin]}}", None, None, True),
        ("{roles: [agent], not: {tenants: [acme]}}", ANN, None, False),
    ],
)
def test_a_policy_judges_the_calls_in_its_scope(scope: str, principal: Any, agent: str | None, applies: bool) -> None:
    """It applies where the principal or the agent is unknown."""
    for rule in ("G !tool:wipe", "forall(wipe(), false)"):
        session = scoped(rule, scope).session(principal=principal)
        assert outcome(session, agent=agent) is not applies
    owing = scoped("F tool:mail", scope).session(principal=principal)
    if "agents" not in scope:
        assert (owing.finish().label == 1) is applies


def test_a_sub_agent_can_leave_or_enter_a_scope() -> None:
    """The principal of the call counts; steps outside of the scope are no steps of the rule."""
    session = scoped("tool:refund -> F tool:mail", "{not: {roles: [admin]}}").session(principal=ANN)
    session.check("refund")
    session.record("done")
    assert session.finish().label == 0
    session = scoped("G !tool:wipe", "{not: {roles: [admin]}}").session(principal=ANN)
    assert outcome(session) is True
    assert outcome(session, principal={"id": "sub", "roles": ["agent"]}) is False


def test_a_tool_that_only_others_have_is_unlisted() -> None:
    """With `unlisted: deny` a rule lists its tools for its own scope alone."""
    policies = scoped("forall(wipe(), true)", "{roles: [admin]}", more="unlisted: deny")
    assert outcome(policies.session(principal=ANN)) is True
    assert outcome(policies.session(principal=BOB)) is None


@pytest.mark.parametrize("scope", ["{}", "{role: [a]}", "{roles: []}", "{roles: a}", "{not: {not: {roles: [a]}}}"])
def test_an_invalid_scope_is_an_error(scope: str) -> None:
    """The message has its line."""
    with pytest.raises(InputError, match=r"^text:6: "):
        scoped("G !tool:a", scope)


def test_an_audit_judges_in_scope() -> None:
    """The automata alone would see the steps of everyone."""
    policies = scoped("G(tool:refund -> O tool:login)", "{agents: [planner]}")
    session = policies.session()
    session.observe(Event("login", agent="writer", status="ok"))
    assert outcome(session, "refund", agent="planner") is False


# --- hosts


def test_a_guard_sets_the_principal_of_each_conversation() -> None:
    """A function gets the conversation's id at each check; its failure denies, and the log names the principal."""
    names: list[str] = []

    def principal(name: str) -> Any:
        names.append(name)
        return {"ann": ANN, "bob": BOB}[name]

    class Log(list[Any]):
        pass

    log = Log()
    guard = ToolGuard(compile_rules([ADMINS]), principal=principal, log=log)
    for name, label in (("ann", 0), ("bob", 1), ("ann", 0), ("eve", 1)):
        assert guard.before(HostCall("wipe", {}, name)).label == label
    assert (names.count("ann"), set(names)) == (3, {"ann", "bob", "eve"})
    assert [record.get("principal", {}).get("id") for record in log if record["kind"] == "verdict"][:2] == [
        "ann",
        "bob",
    ]
    sub = HostCall("wipe", {}, "ann", principal={"id": "sub", "roles": ["root"]})
    assert "lacks" in guard.before(sub).errors[0]
    assert ToolGuard(compile_rules([ADMINS])).before(HostCall("wipe", {}, "c")).label == 1
    with pytest.raises(InputError, match="'role'"):
        ToolGuard(compile_rules([ADMINS]), principal={"id": "a", "role": []})


def test_processes_do_not_mix_principals(tmp_path: Path) -> None:
    """A process that continues the conversation for another principal denies."""
    rules = compile_rules([ADMINS])
    ledgers = [SqliteLedger(tmp_path / "ledger.sqlite") for _ in range(3)]
    first, same, other = (
        ToolGuard(rules, principal=principal, ledger=ledger)
        for principal, ledger in zip((ANN, ANN, BOB), ledgers, strict=True)
    )
    assert first.before(HostCall("look", {}, "c")).label == 0
    assert same.before(HostCall("wipe", {}, "c")).label == 0
    assert "another principal" in other.before(HostCall("look", {}, "c")).errors[0]


GUESTS = {"id": "guests", "temporal": "forall(pay(amount=a), a <= 20)", "applies_to": {"roles": ["guest"]}}


@pytest.mark.parametrize(
    ("principal", "part"),
    [
        ({"id": "ann", "roles": ["guest", "clerk"]}, {"id": "helper", "roles": ["clerk"]}),
        ({"id": "ann", "roles": ["guest"]}, {"id": "helper", "roles": []}),
        ({"id": "ann"}, {"id": "helper", "roles": []}),
        ({"id": "bot", "roles": ["clerk"], "on_behalf_of": {"id": "ann", "roles": ["guest"]}}, None),
        ({"id": "bot", "roles": ["guest"], "on_behalf_of": {"id": "ann", "roles": ["clerk"]}}, None),
    ],
)
def test_nobody_escapes_a_restriction_by_acting_with_fewer_roles(principal: Any, part: Any) -> None:
    """Neither a sub-agent, nor an agent on behalf of a user, nor after a restoration."""
    policies = load_policies(data={"version": 1, "policies": [GUESTS]})
    first = policies.session(principal=principal)
    for restored in (False, True):
        restore = policies.restore(first.snapshot(KEY), KEY) if restored else first
        assert restore.check("pay", {"amount": 50}, principal=part, reserve=False).rules == ("guests",)


@pytest.mark.parametrize(
    ("scope", "principal", "part", "listed"),
    [
        ({"roles": ["admin"]}, None, None, False),
        ({"roles": ["admin"]}, {"id": "x"}, None, False),
        ({"roles": ["admin"]}, {"id": "x", "roles": ["admin"]}, None, True),
        ({"roles": ["admin"]}, {"id": "x", "roles": ["admin"]}, {"id": "helper", "roles": []}, False),
        ({"not": {"roles": ["guest"]}}, {"id": "x", "roles": ["guest", "b"]}, {"id": "helper", "roles": ["b"]}, False),
        ({"not": {"roles": ["guest"]}}, {"id": "x", "roles": ["b"]}, None, True),
        ({"agents": ["planner"]}, None, None, False),
    ],
)
def test_a_scope_lists_tools_only_for_those_it_surely_covers(
    scope: Any, principal: Any, part: Any, listed: bool
) -> None:
    """With `unlisted: deny`, an unknown principal gets nothing that only some may have."""
    rule = {"id": "a", "temporal": "forall(wipe(), true)", "applies_to": scope}
    policies = load_policies(data={"version": 1, "unlisted": "deny", "policies": [rule]})
    assert (policies.session(principal=principal).check("wipe", principal=part).label == 0) is listed


# --- models and dataclasses are read at every depth, without running any code of theirs


class Colour(Enum):
    RED = "red"


class Line(BaseModel, extra="allow"):
    sku: str
    count: int = 1


class Lines(RootModel[list[Line]]):
    pass


@dataclass
class Box:
    lines: Any
    colour: Colour = Colour.RED
    packed: datetime = datetime(2026, 1, 2, tzinfo=UTC)


@dataclass(slots=True)
class Order:
    boxes: dict[str, Box]
    parent: Any = None

    @property
    def total(self) -> int:
        raise AssertionError("a property is not a field")


class Unreadable:
    def __getattr__(self, name: str) -> Any:
        raise AssertionError("nothing of it runs")


def order() -> Order:
    return Order({"b1": Box([Line.model_validate({"sku": "a", "count": 2, "gift": True}), Line(sku="b")])})


CONDITIONS = {
    "{}.boxes.b1.lines[0].count == 2 && {}.boxes.b1.lines[0].gift == true": True,
    'any(x in {}.boxes.b1.lines, x.sku == "b")': True,
    '{}.boxes.b1.colour == "red" && {}.boxes.b1.packed == "2026-01-02T00:00:00+00:00"': True,
    'len({}.boxes.b1.lines) == 2 && "b1" in keys({}.boxes)': True,
    '{}.boxes["b1"].lines[1].count > 1': False,
    "{}.total == 1": None,
    "{}.boxes.b1.lines[0].price == 1": None,
}


def answered(session: Session) -> bool | None:
    verdict = session.check("ask", reserve=False)
    return None if verdict.errors else verdict.label == 0


@pytest.mark.parametrize("condition", CONDITIONS)
def test_fields_are_read_in_state_outputs_and_facts(condition: str) -> None:
    """A field that does not exist is unknown, and a property is no field."""
    in_state = session_of(f"forall(ask(), {condition.replace('{}', 'state.o')})", state={"o": order()})
    in_fact = session_of(f"forall(ask(), {condition.replace('{}', 'fact(o)')})", facts={"o": order()})
    in_output = session_of(f"forall(ask(), {condition.replace('{}', 'output(last(get()))')})")
    in_output.check("get")
    in_output.record(order())
    outcomes = {answered(session) for session in (in_state, in_fact, in_output)}
    assert outcomes == {CONDITIONS[condition]}


def test_a_state_can_be_a_model_and_a_function_can_return_one() -> None:
    """Root models are their root; a model equals a mapping of its fields."""
    functions = {"of": lambda state, name: state.boxes[name]}
    session = session_of(
        "forall(ask(), state(of('b1')).lines[0].sku == state.boxes.b1.lines[0].sku)",
        state=Order({"b1": Box(Lines([Line(sku="a")]))}),
        functions=functions,
    )
    assert answered(session) is True
    equal = session_of("forall(ask(line=x), x == state.line)", state={"line": Line(sku="a")})
    assert equal.check("ask", {"line": {"sku": "a", "count": 1}}).label == 0
    assert equal.check("ask", {"line": {"sku": "b", "count": 1}}).rules == ("rule 1",)


@pytest.mark.parametrize("rule", ["state.o.x == 1", "state.o[0] == 1", "state.o == 1", "all(y in state.os, y.x == 1)"])
def test_an_unreadable_type_is_named(rule: str) -> None:
    """Nothing of such an object runs, and the call is denied."""
    session = session_of(f"forall(ask(), {rule})", state={"o": Unreadable(), "os": [Unreadable()]})
    assert "'Unreadable'" in session.check("ask").errors[0]


def test_an_output_is_copied_when_it_is_recorded() -> None:
    """Later changes of the object do not reach the history, which can be saved."""
    session = session_of("G !tool:never")
    made = order()
    session.check("get")
    session.record(made)
    made.boxes["b1"].lines[0].count = 9
    assert session.history[0].output["boxes"]["b1"]["lines"][0]["count"] == 2
    assert b'"gift":true' in session.snapshot(b"sixteen bytes at least")


def test_cycles_and_shared_objects_end() -> None:
    """An object that contains itself has no form there; shared objects are copied once."""
    child = Order({})
    child.parent = child
    copy = readable_copy([child])
    assert copy[0]["parent"] is child
    deep: Any = 1
    for _ in range(60):
        deep = Box([deep, deep])
    lines = readable_copy(deep)["lines"]
    assert lines[0] is lines[1]


def test_a_field_without_a_value_is_missing() -> None:
    """A deleted or unset field is not read from the class."""

    @dataclass
    class Half:
        a: int = field(init=False)
        b: int = 2

    half = Half()
    assert readable(half) == {"b": 2}
    assert readable(Half) is Half
    assert dataclasses.is_dataclass(Half)
