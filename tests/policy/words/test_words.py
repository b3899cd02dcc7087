"""Rules in words: plain sentences that tell different rules apart."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from guardagent import load_policies
from guardagent.errors import InputError
from guardagent.policy.language import ast
from guardagent.policy.language.declarations import Declarations
from guardagent.policy.language.grammar import TemporalError
from guardagent.policy.language.parser import read_rule
from guardagent.policy.load import read_policies
from guardagent.policy.mutants import RuleVariants
from guardagent.policy.policies import Policies
from guardagent.policy.words import definitions_in_words, policies_in_words, policy_in_words
from guardagent.policy.words.rules import RuleWords
from tests.policy.canonical import canonical
from tests.policy.data_cases import FUNCTIONS, TAGS, Maker
from tests.tiers import slow_after, slow_but_every

HOUSE = Path(__file__).parents[3]
DECLARED = Declarations(functions=frozenset(FUNCTIONS), tags=frozenset(TAGS))
FILES = sorted(
    path
    for folder in ("benchmarks", "guardagent")
    for path in (HOUSE / folder).rglob("*.yaml")
    if re.search(r"^policies:", path.read_text(), re.MULTILINE)
)
BLOCKS = [
    block
    for page in sorted((HOUSE / "docs").rglob("*.md"))
    for block in re.findall(r"```yaml\n(version: 1\n.*?)```", page.read_text(), re.DOTALL)
    if "\npolicies:" in block
]


def words(rule: str) -> str:
    return RuleWords().sentence(read_rule(rule, DECLARED))


def generated(seed: int) -> ast.Rule | None:
    try:
        return read_rule(Maker(seed).rule(), DECLARED)
    except TemporalError:
        return None


SENTENCES = {
    "forall(refund(amount=a), a <= 500)": "A call of `refund` is allowed only if its `amount` is at most 500.",
    "forall(export(), false)": "A call of `export` is never allowed.",
    "G(tool:refund -> O tool:login)": "A call of `refund` is allowed only after an earlier successful call of `login`.",
    "tool:draft -> F tool:send": (
        "After every call of `draft` there must be a successful call of `send` before the next call of `draft` and "
        "before the end."
    ),
    "before(refund(order_id=o), true, f:get_order(order_id=o), output(f).paid == true)": (
        "A call of `refund` is allowed only after an earlier successful call of `get_order` (with the same "
        "`order_id`, such that `paid` of its output is true)."
    ),
    "forall(pay(to=t, amount=a), sum(f:pay(to=t), !failed(f), args(f).amount, within 24h) + a <= 1000)": (
        "A call of `pay` is allowed only if the sum of `amount` of that call's arguments over the earlier calls of "
        "`pay` in the last 24 hours (with the same `to`, such that it did not fail) plus its `amount` is at most 1000."
    ),
    "forall(cancel(), now - time(last(book())) < 90m)": (
        "A call of `cancel` is allowed only if now minus the time of the last earlier call of `book` is less than "
        "90 minutes."
    ),
}


@pytest.mark.parametrize("rule", SENTENCES)
def test_a_rule_is_a_plain_sentence(rule: str) -> None:
    """The words are those of an operator, with every limit."""
    assert words(rule) == SENTENCES[rule]


@pytest.mark.parametrize("start", slow_after(4, range(0, 400, 40)))
def test_different_rules_have_different_words(start: int) -> None:
    """Neither two random rules, nor a rule and a small change of it, share a text."""
    known_texts: dict[str, str] = {}
    for seed in range(start, start + 40):
        rule = generated(seed)
        for variant in () if rule is None else (rule, *(changed for _, changed in RuleVariants(TAGS).variants(rule))):
            try:
                text = RuleWords().sentence(variant)
            except KeyError:
                continue  # the change removed a label that the rule uses, so it is no rule
            form = canonical(variant)
            assert known_texts.setdefault(text, form) == form, text


def formula(chance: Random, depth: int) -> str:
    """A random propositional rule."""
    if depth == 0 or chance.random() < 0.2:
        return chance.choice(["p", "tool:a", "tool:b", "!p", "!tool:a", "@any_of", "true"])
    chance_formula, other = formula(chance, depth - 1), formula(chance, depth - 1)
    unary = [f"{operator} ({chance_formula})" for operator in ("G", "F", "X", "O", "H", "Y", "!", "F[<=2]", "F[<=1]")]
    binary = [
        f"({chance_formula}) {operator} ({other})" for operator in ("U", "W", "R", "S", "&&", "||", "->", "&&", "->")
    ]
    return chance.choice([*unary, *binary, f"G(({chance_formula}) -> ({other}))", "tool:a -> F tool:b -> F p"])


def test_different_orders_of_steps_have_different_words() -> None:
    """Random formulas of past and future operators."""
    chance = Random(1)  # noqa: S311 - a fixed seed
    rules: dict[str, ast.Rule] = {}
    for _ in range(3000):
        rule = read_rule(formula(chance, 3), DECLARED)
        text = RuleWords().sentence(rule)
        assert rules.setdefault(text, rule) == rule, text
    assert len(rules) > 1000


@pytest.mark.parametrize("start", slow_after(4, range(0, 400, 40)))
def test_a_moved_part_changes_the_words(start: int) -> None:
    """Exchanging two parts of a rule is visible, wherever they stand."""
    chance = Random(start)  # noqa: S311 - a fixed seed
    for seed in range(start, start + 40):
        rule = generated(seed)
        parts = () if rule is None else ast.walk(rule)
        compared = [part for part in parts if isinstance(part, ast.Compare | ast.Implies | ast.Arithmetic)]
        if rule is None or not compared:
            continue
        chosen = chance.choice(compared)
        names = ("first", "second") if isinstance(chosen, ast.Implies) else ("left", "right")
        first, second = (getattr(chosen, name) for name in names)
        if canonical(first) == canonical(second):
            continue
        before = RuleWords().sentence(rule)
        for name, value in zip(names, (second, first), strict=True):
            object.__setattr__(chosen, name, value)
        assert RuleWords().sentence(rule) != before


def coded(policies: Policies) -> tuple[int, int]:
    rule_words = policies_in_words(policies).values()
    return sum(rule_word.coded for rule_word in rule_words), sum(rule_word.atoms for rule_word in rule_words)


@pytest.mark.parametrize("path", slow_but_every(2, FILES), ids=lambda path: path.relative_to(HOUSE).as_posix())
def test_the_shipped_policies_have_words(path: Path) -> None:
    """At most one condition in ten stays code."""
    code, atoms = coded(read_policies(path))
    assert code * 10 <= atoms


def test_the_policies_of_the_docs_have_words() -> None:
    """Every block that loads by itself; the others refer to files."""
    loaded = 0
    for block in BLOCKS:
        try:
            policies = load_policies(text=block)
        except InputError:
            continue
        loaded += 1
        code, atoms = coded(policies)
        assert code * 10 <= atoms
    assert loaded > 5


NAMED = {
    "version": 1,
    "constants": {"limit": 500},
    "define": {"small(amount)": "amount <= limit", "staff": '"staff" in principal.roles'},
    "policies": [
        {"id": "a", "temporal": "forall(refund(amount=a), small(a) || staff)", "applies_to": {"roles": ["b", "c"]}},
        {"id": "b", "temporal": "forall(pay(amount=a), a < limit)", "on_violation": "escalate"},
    ],
}


def test_definitions_stay_names_on_request() -> None:
    """A reader sees the name, and its definition once."""
    policies = load_policies(data=NAMED)
    who = "This holds only for principals with the role `b` or `c`. "
    assert policy_in_words(policies, "a").text == (
        f'{who}A call of `refund` is allowed only if its `amount` is at most 500 or the principal has the role "staff".'
    )
    assert policy_in_words(policies, "a", named=True).text == (
        f"{who}A call of `refund` is allowed only if `small` holds for its `amount` or `staff` holds."
    )
    assert definitions_in_words(policies)["small"] == "`small(amount)` means: `amount` is at most `limit`."
    assert policy_in_words(policies, "b").text.endswith("A call that violates it needs the approval of a person.")


def test_an_unknown_policy_is_an_error() -> None:
    """It names the nearest id."""
    with pytest.raises(InputError, match="no such policy 'limt'"):
        policy_in_words(load_policies(data=NAMED), "limt")


def test_a_solver_rule_has_words() -> None:
    """The permit, the constraints and the sources of the values."""
    smt = "(declare-const a Int)(declare-const ok Bool)(assert (= ok (or (<= a 5) (not (> a 100)))))"
    tools = {"pay": {"permit": "ok", "variables": {"a": {"from": "args.amount"}}}}
    policies = load_policies(data={"version": 1, "policies": [{"id": "a", "solver": {"smt": smt, "tools": tools}}]})
    assert policy_in_words(policies, "a").text == (
        "A call of `pay` is allowed only if `ok` is true, in a way that fits the constraints. For it, `a` is `amount` "
        "of the call's arguments. The constraints are: (1) `ok` is ((`a` is at most 5) or (it is not true that (`a` "
        "is more than 100))). `a` is a whole number. `ok` is true or false."
    )
