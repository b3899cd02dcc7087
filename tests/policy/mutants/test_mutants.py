"""The mutants of a policy."""

from __future__ import annotations

from typing import Any

import pytest

from guardagent import load_policies
from guardagent.errors import InputError
from guardagent.policy.mutants import Mutants, is_equivalent, mutants_of, source_of
from guardagent.policy.policies import Policies
from guardagent.types import Decision

TAGS = {"writes": ["pay", "refund"]}
SMT = "(declare-const a Int)(declare-const ok Bool)(assert (= ok (and (<= a 5) (not (= a 3)))))"
SOLVER = {"smt": SMT, "tools": {"pay": {"permit": "ok", "variables": {"a": {"from": "args.amount"}}}}}


def policies(temporal: Any = None, **keys: Any) -> Policies:
    rule = {"id": "a", **({"temporal": temporal} if temporal else {}), **keys}
    return load_policies(data={"version": 1, "tags": TAGS, "policies": [rule]})


def of(temporal: Any = None, **keys: Any) -> Mutants:
    return mutants_of(policies(temporal, **keys), "a")


CHANGES = {
    "forall(pay(amount=a), a <= 100)": {
        ("limit moved", "forall(pay(amount=a), a < 100)"),
        ("limit moved", "forall(pay(amount=a), a <= 101)"),
        ("limit moved", "forall(pay(amount=a), a <= 99)"),
        ("condition negated", "forall(pay(amount=a), a > 100)"),
        ("condition dropped", "forall(pay(amount=a), true)"),
    },
    "forall(pay(), some(g:get(), within 24h))": {
        ("limit moved", "forall(pay(), some(g:get(), within 86401s))"),
        ("window dropped", "forall(pay(), some(g:get()))"),
        ("condition negated", "forall(pay(), !some(g:get(), within 1d))"),
    },
    "forall(pay(), now - time(fact(a)) > 2d)": {
        ("limit moved", "forall(pay(), (now - time(fact(a))) >= 172800)"),
        ("limit moved", "forall(pay(), (now - time(fact(a))) > 259200)"),
        ("limit moved", "forall(pay(), (now - time(fact(a))) > 86400)"),
        ("condition negated", "forall(pay(), (now - time(fact(a))) <= 172800)"),
        ("condition dropped", "forall(pay(), true)"),
    },
    "forall(@writes(to=t), fact(a) == t && fact(b) == 1)": {
        ("tool left out", "forall(refund(to=t), (fact(a) == t) && (fact(b) == 1))"),
        ("condition dropped", "forall(@writes(to=t), fact(a) == t)"),
        ("or in place of and", "forall(@writes(to=t), (fact(a) == t) || (fact(b) == 1))"),
    },
    "before(pay(to=t), true, get(id=t), true)": {
        ("after in place of before", "after(pay(to=t), true, get(id=t), true)"),
        ("argument dropped", "before(pay(to=t), true, get(), true)"),
        ("calls exchanged", "before(get(id=t), true, pay(to=t), true)"),
    },
    "G(tool:pay -> O tool:login)": {
        ("earlier step dropped", "G true"),
        ("step negated", "G (!tool:pay || (O !tool:login))"),
    },
    "tool:pay -> F[<=2] tool:get": {("limit moved", "G (!tool:pay || (F[<=3] tool:get))")},
    'forall(pay(to=t), t in ["a", "b"])': {("item left out", 'forall(pay(to=t), t in ["a"])')},
    "forall(pay(x=x), all(y in x, y > 0.5))": {
        ("quantifier changed", "forall(pay(x=x), any(y in x, y > 0.5))"),
        ("limit moved", "forall(pay(x=x), all(y in x, y > 0.6))"),
    },
}


@pytest.mark.parametrize("rule", CHANGES)
def test_a_rule_has_small_changes(rule: str) -> None:
    """Limits, conditions, tools, arguments, order and windows."""
    assert CHANGES[rule] <= {(mutant.kind, mutant.text) for mutant in of(rule).mutants}


@pytest.mark.parametrize("rule", CHANGES)
def test_every_mutant_loads_as_a_policy(rule: str) -> None:
    """Its text is a rule of the language, and its id and response are those of the rule."""
    made = of(rule, on_violation="escalate")
    assert made.mutants
    for mutant in made.mutants:
        assert load_policies(data={"version": 1, "tags": TAGS, "policies": [{"id": "a", "temporal": mutant.text}]})
        assert (mutant.source.id, mutant.source.on_violation) == ("a", Decision.ESCALATE)


def test_a_mutant_says_what_it_changes() -> None:
    """In words, with what stood there before."""
    moved = next(mutant for mutant in of("forall(pay(amount=a), a <= 100)").mutants if mutant.text.endswith("101)"))
    assert moved.description == "limit moved: «… is at most 100.» becomes «… is at most 101.»"


def test_a_solver_rule_has_mutants() -> None:
    """Of its constraints and permits; each compiles."""
    made = of(solver=SOLVER)
    assert {"limit moved", "condition negated", "permit dropped", "constraint dropped", "condition dropped"} <= {
        mutant.kind for mutant in made.mutants
    }
    assert any("(< a 5)" in mutant.text for mutant in made.mutants)


def test_a_scope_has_mutants() -> None:
    """A role less."""
    made = of("forall(pay(), false)", applies_to={"roles": ["a", "b"]})
    assert [mutant.text for mutant in made.mutants if mutant.kind == "role dropped"] == [
        "without the role a",
        "without the role b",
    ]


def test_the_number_is_bounded() -> None:
    """The rest is counted, and every kind of change keeps its share."""
    made = mutants_of(policies("forall(pay(amount=a), a <= 100 && a > 1 && a != 7)"), "a", limit=5)
    assert len(made.mutants) == 5
    assert len({mutant.kind for mutant in made.mutants}) >= 4
    assert made.left_out[0].endswith("more mutants: only 5 were made")


def test_constants_and_definitions_are_expanded() -> None:
    """A limit that is a constant moves too; a table stays."""
    data = {
        "version": 1,
        "constants": {"limit": 5, "limits": {"table": {"ann": 9}}},
        "define": {"small(x)": "x <= limit"},
        "policies": [
            {"id": "a", "temporal": "forall(pay(amount=a), small(a))"},
            {"id": "b", "temporal": "forall(pay(amount=a, to=t), a <= limits[t])"},
        ],
    }
    loaded = load_policies(data=data)
    assert "forall(pay(amount=a), a <= 6)" in {mutant.text for mutant in mutants_of(loaded, "a").mutants}
    assert "forall(pay(amount=a, to=t), a < limits[t])" in {mutant.text for mutant in mutants_of(loaded, "b").mutants}


def test_an_equivalent_mutant_is_recognised() -> None:
    """Lint proves it; a mutant with another meaning is none."""
    rule = policies("forall(pay(n=n), len([1, 2]) < 3 && n <= 5)")
    decided = {
        mutant.text: is_equivalent(rule, source_of(rule, "a"), mutant) for mutant in mutants_of(rule, "a").mutants
    }
    assert decided["forall(pay(n=n), n <= 5)"]
    assert not decided["forall(pay(n=n), (len([1, 2]) < 3) && (n < 5))"]


def test_an_unknown_policy_is_an_error() -> None:
    """With the nearest id."""
    with pytest.raises(InputError, match="no such policy"):
        mutants_of(policies("forall(pay(), false)"), "b")
