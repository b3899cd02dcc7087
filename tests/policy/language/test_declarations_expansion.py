"""Definitions: `name(...)` in a condition stands for a condition of the policy file."""

from __future__ import annotations

from typing import Any

import pytest

from guardagent import Policies, load_policies
from guardagent.errors import InputError


def policies(rule: Any, define: dict[str, str], constants: dict[str, Any] | None = None, **more: Any) -> Policies:
    names = {"define": define, "constants": constants or {}, **more}
    return load_policies(data={"version": 1, **names, "policies": [{"id": "r", "temporal": rule}]})


def message_of(rule: str, define: dict[str, str], **more: Any) -> str:
    with pytest.raises(InputError) as caught:
        policies(rule, define, **more)
    return str(caught.value)


def test_a_definition_allows_denies_and_is_unknown() -> None:
    """As the condition itself."""
    define = {"small(amount, most)": "amount > 0 && amount <= most", "allowed": "fact(role) == 'clerk'"}
    session = policies("forall(pay(amount=a), allowed && small(a, limit))", define, {"limit": 10}).session()
    assert session.check("pay", {"amount": 10}, facts={"role": "clerk"}, reserve=False).label == 0
    assert session.check("pay", {"amount": 11}, facts={"role": "clerk"}).rules == ("r",)
    assert session.check("pay", {"amount": 5}).errors


def test_definitions_use_definitions_constants_and_the_history() -> None:
    """Durations and lists too."""
    define = {"paid(to)": "some(f:pay(to=to), args(f).amount > least)", "fine(to)": "paid(to) || to in friends"}
    constants = {"least": 2, "friends": ["Ann", "Bo"], "window": {"duration": "1.5h"}}
    compiled = policies(["forall(send(to=x), fine(x))", "forall(wait(t=t), t == window)"], define, constants)
    session = compiled.session()
    assert session.check("send", {"to": "Ann"}, reserve=False).label == 0
    assert session.check("send", {"to": "Cy"}, reserve=False).rules == ("r",)
    session.call(lambda **_: "ok", "pay", {"to": "Cy", "amount": 3})
    assert session.check("send", {"to": "Cy"}, reserve=False).label == 0
    assert session.check("wait", {"t": 5400}, reserve=False).label == 0
    assert session.check("wait", {"t": 90}, reserve=False).label == 1


@pytest.mark.parametrize(
    ("rule", "define", "to"),
    [
        # The rule's variable `x` must not be the definition's own.
        ("forall(send(to=x), known_one(x))", "any(x in [1, 2], x == y)", 2),
        ("forall(send(to=x), known_one(x))", "some(x:pay(), args(x).n == y)", 2),
        # The definition's variable `id` is a new one, not the rule's.
        ("forall(send(to=y, id=id), known_one(y))", "some(pay(n=id), id == y)", 2),
        # The argument's own variable must not meet that of the definition.
        ("forall(send(to=t), known_one(some(pay(n=x), x == t)))", "all(x in [7], y)", 2),
    ],
)
def test_names_are_not_captured(rule: str, define: str, to: int) -> None:
    """Each name means what it means where it is written."""
    session = policies(rule, {"known_one(y)": define}).session()
    session.call(lambda **_: "ok", "pay", {"n": 2})
    assert session.check("send", {"to": to, "id": 9}, reserve=False).label == 0
    assert session.check("send", {"to": 3, "id": 2}, reserve=False).rules == ("r",)


def test_a_solver_rule_uses_definitions() -> None:
    """And constants."""
    pytest.importorskip("z3")
    variable = {"sort": "Bool", "from": "small(args.amount)"}
    solver = {"smt": "(declare-const unused Int)", "tools": {"pay": {"permit": "ok", "variables": {"ok": variable}}}}
    names = {"define": {"small(amount)": "amount < limit"}, "constants": {"limit": 10}}
    rules = [{"id": "r", "solver": solver}]
    session = load_policies(data={"version": 1, **names, "policies": rules}).session()
    assert session.check("pay", {"amount": 9}, reserve=False).label == 0
    assert session.check("pay", {"amount": 10}, reserve=False).rules == ("r",)
    assert session.check("pay", {}, reserve=False).errors


BOMB = {"d0(x)": "x + x", **{f"d{at}(x)": f"d{at - 1}(x) + d{at - 1}(x)" for at in range(1, 40)}}


@pytest.mark.parametrize(
    ("rule", "define", "place", "says"),
    [
        ("forall(x(a=a), one(a))", {"one(a)": "two(a)", "two(a)": "one(a)"}, "data.define", "uses itself"),
        ("forall(x(a=a), one(a))", {"one(a)": "one(a) || a"}, "data.define.one(a)", "uses itself"),
        ("forall(x(a=a), one(a))", {"one(a)": "a == b"}, "data.define.one(a)", "unknown variable 'b'"),
        ("forall(x(a=a), true)", {"one(a)": "a ="}, "data.define.one(a)", "unexpected"),
        ("forall(x(a=a), true)", {"one(a)": "state(f(a)) == 1"}, "data.define.one(a)", "unknown state function 'f'"),
        ("forall(f:x(), one(args(f)))", {"one(a)": "a == args(f)"}, "data.define.one(a)", "unknown call 'f'"),
        ("forall(x(a=a), one(a, 1))", {"one(a)": "a == 1"}, "data.policies[0]", "'one': 2; expected 'one(a)'"),
        ("forall(x(a=a), one)", {"one(a)": "a == 1"}, "data.policies[0]", "'one': 0; expected 'one(a)'"),
        ("forall(f:x(), one(f))", {"one(a)": "a == 1"}, "data.policies[0]", "'f' is a call"),
        ("forall(x(a=a), on(a))", {"one(a)": "a == 1"}, "data.policies[0]", "did you mean 'one'?"),
        ("forall(x(a=one), one)", {"one": "true"}, "data.policies[0]", "'one' is a definition"),
        ("forall(x(a=a), d39(a) == 1)", BOMB, "data.define.d", "expands to"),
        ("forall(x(a=a), a == 1)", {"one(a, a)": "true"}, "data.define", "names a parameter twice"),
        ("forall(x(a=a), a == 1)", {"one(a": "true"}, "data.define", "is not 'name(parameter, ...)'"),
        ("forall(x(a=a), a == 1)", {"lower(a)": "true"}, "data.define", "'lower' is a function of the language"),
        ("forall(x(a=a), a == 1)", {"len(a)": "true"}, "data.define", "'len' is a word of the language"),
        ("forall(x(a=a), a == 1)", {"pending(a)": "true"}, "data.define", "'pending' is a function of the language"),
        ("forall(x(a=a), one(a) > 1 && one(a))", {"one(a)": "a + 1"}, "data.policies[0]", "is neither true nor false"),
    ],
)  # fmt: skip
def test_a_mistake_is_an_error_at_its_place(rule: str, define: dict[str, str], place: str, says: str) -> None:
    """In the definition, or in the rule that uses it."""
    message = message_of(rule, define)
    assert message.startswith(place)
    assert says in message


@pytest.mark.parametrize(
    ("constants", "says"),
    [
        ({"n": None}, "constant 'n' has no value"),
        ({"n": {"duration": "soon"}}, "'soon' is not a duration"),
        ({"n": [[1]]}, "expected a string, a number"),
        ({"now": 1}, "'now' is a word of the language"),
        ({"a-b": 1}, "'a-b' is not a valid name"),
        ({"one": 1}, "'one' is already a constant"),
        ({"n": {"expected": "much"}}, "the constant has neither 'value' nor 'type'"),
        ({"n": {"type": "text"}}, "'type' is the string 'text'; known: boolean, duration"),
        ({"n": {"type": "number"}}, "constant 'n' has no value"),
        ({"n": {"value": 1, "type": "string"}}, "constant 'n' is a number; expected a string"),
        ({"n": {"value": "a", "least": 1}}, "'least' of a string; expected it for numbers"),
        ({"n": {"value": 1, "matches": "a"}}, "'matches' of a number; expected it for strings"),
        ({"n": {"value": "a", "matches": "("}}, "'matches' is not a valid regular expression"),
        ({"n": {"value": "a", "matches": "b"}}, "constant 'n' is 'a'; expected a string"),
        ({"n": {"value": "", "choices": ["b"]}}, "constant 'n' is an empty string; known: b"),
        ({"n": {"value": [1], "type": "list of strings"}}, "constant 'n' contains 1; expected a list of strings"),
        ({"n": {"value": True, "choices": [False]}}, "constant 'n' is true; known: false"),
        ({"n": {"value": 5, "most": {"duration": "2s"}}}, "constant 'n' is 5; expected a number, at most 2"),
        ({"n": {"value": {"duration": "1s"}, "least": {"duration": "2s"}}}, "constant 'n' is 1; expected a duration"),
    ],
)
def test_a_wrong_constant_is_refused(constants: dict[str, Any], says: str) -> None:
    """With what was expected."""
    assert says in message_of("forall(x(a=a), one(a))", {"one(a)": "true"}, constants=constants)


def test_a_variable_may_not_have_the_name_of_a_constant() -> None:
    """`pay(amount=limit)` would match every amount."""
    assert "'limit' is a constant" in message_of(
        "G(tool:x) AND forall(pay(amount=limit), true)", {}, constants={"limit": 5}
    )


def test_a_plain_duration_is_ambiguous() -> None:
    """`24h` could be a plan's name."""
    text = "version: 1\nconstants:\n  window: 24h\npolicies: [{id: a, temporal: 'G !tool:x'}]\n"
    with pytest.raises(InputError, match=r"text:3: '24h' is ambiguous; write \{duration: 24h\}"):
        load_policies(text=text)
    assert load_policies(text=text.replace("24h", "'24h'")).ids == ("a",)
