"""Compiled constraints have exactly Z3's results, where every operation is in its domain."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from random import Random
from typing import Any

import pytest

from guardagent.policy.solver.question import Encoding, Question
from guardagent.policy.solver.z3_text import VariableDeclaration
from tests.policy.smt_policies import TABLE, VARIABLES, Policy, facts, policy, values
from tests.tiers import slow_after

z3 = pytest.importorskip("z3")


def by_z3(made: Policy, assignment: dict[str, Any]) -> bool | None:
    """Returns Z3's result for the text with the facts in it."""
    solver = z3.Solver()
    solver.set(rlimit=3_000_000)
    text = f"{made.text}{facts(assignment)}(assert {made.permit})"
    solver.add(z3.parse_smt2_string(text.replace("é", "\\u{e9}")))  # Z3 would read two bytes
    return {"sat": True, "unsat": False}.get(str(solver.check()))


@pytest.mark.parametrize("policies", slow_after(1, [50, 400]))
def test_random_policies(policies: int) -> None:
    """On random policies with every operator the results are Z3's where they are defined, and nearly always decided.

    Nothing is permitted that Z3 refuses. What Z3 permits is refused only as undefined.
    """
    outcomes: Counter[tuple[bool | None, bool | None]] = Counter()
    used: set[str] = set()
    for seed in range(policies):
        rng = Random(seed)  # noqa: S311 - a fixed seed
        made = policy(rng)
        question = Encoding.read(made.text, {}).question(made.permit, list(VARIABLES))
        for _ in range(6):
            assignment = values(rng)
            fast, slow = question.evaluate(list(assignment.values())), by_z3(made, assignment)
            used |= made.operators if fast is not None else set()
            if fast is False and slow and question.places:
                assert question.solve(assignment).status in ("undefined", "unknown"), (seed, assignment)
                continue
            outcomes[fast, slow] += 1
            assert fast == slow or None in (fast, slow), (seed, assignment)
    assert used >= {name for forms in TABLE.values() for name, _ in forms} | {"let", "str.in_re"}
    answered = outcomes[True, True] + outcomes[False, False]
    assert answered > 0.95 * outcomes.total(), outcomes
    assert min(outcomes[True, True], outcomes[False, False]) > 0.2 * outcomes.total(), outcomes


def question_of(permit: str, text: str = "", **sorts: str) -> Question:
    """A question over variables of these sorts."""
    declared = {name: VariableDeclaration(sort) for name, sort in sorts.items()}
    return Encoding.read(text, declared).question(permit, list(sorts))


@pytest.mark.parametrize(
    ("permit", "value", "expected"),
    [
        ("(= (div x (- 2)) (- 3))", 7, True),
        ("(= (mod x (- 2)) 1)", -7, True),
        ("(= (rem x (- 2)) (- 1))", 7, True),
        ("(= (/ x 2) 3.5)", 7, True),
        ("(= (to_int (/ x 2)) (- 4))", -7, True),
        ("(< x 9223372036854775808)", 2**63, False),
        ("(= (/ 1 x) 0.0)", 0, False),
        ("(or (= x 0) (= (/ 1 x) 0.5))", 0, True),
        ("(and (> x 5) (= (div 1 x) 7))", 0, False),
        ("(exists ((y Int)) (> x y))", 1, None),
        ("(> x 1)", True, None),
        ("(> x 1)", 2.0, None),
        ("(> x 1)", "2", None),
        ("(> x 1)", None, None),
        ("(> x 1)", Fraction(3), None),
    ],
)
def test_numbers(permit: str, value: object, expected: bool | None) -> None:
    """Division follows SMT-LIB and by zero permits nothing; a value that is not an Int is left to the solver."""
    assert question_of(permit, x="Int").evaluate([value]) is expected


@pytest.mark.parametrize(
    ("permit", "value", "expected"),
    [
        ('(= s "a""b\\u{e9}")', 'a"bé', True),
        ('(= s "é")', "é", True),
        ('(= s "\\u{41}")', "\\u{41}", False),
        ('(= s "x) (assert true")', "x) (assert true", True),
        ('(= s "")', "\ud800", None),
        ('(= s "")', "\U00030000", None),
        ("(= (str.to_int s) (- 1))", "٣", False),
        ("(str.in_re s (re.+ (re.range |a| |z|)))".replace("|", '"'), "abc\n", False),
        ('(str.in_re s (re.inter re.all (re.comp (str.to_re "no"))))', "yes", True),
        ('(str.in_re s (re.* (re.comp (str.to_re "no"))))', "yes", None),
        ("(str.in_re s (re.* re.allchar))", "a\nb\0", True),
        ("(= (str.++ s s) (str.replace_all s s s))", "", True),
    ],
)
def test_texts(permit: str, value: str, expected: bool | None) -> None:
    """Strings are compared by code points; characters that SMT-LIB lacks and some languages are left to the solver."""
    assert question_of(permit, s="String").evaluate([value]) is expected


@pytest.mark.parametrize(
    ("text", "permit", "expected"),
    [
        ("(declare-const p Bool)(assert (= p (> x 3)))", "p", True),
        ("(declare-const p Bool)(assert (=> p (> x 9)))", "p", False),
        ("(declare-const p Bool)(declare-const y Int)(assert (= p (> y 9)))(assert (= (+ x 1) y))", "p", False),
        ("(declare-const p Bool)(declare-const q Bool)(assert (or p q))(assert (not (and p q)))", "(> x 3)", True),
        ("(declare-const p Bool)(declare-const q Bool)(assert (xor p q))(assert (= p q))", "(> x 3)", False),
        ("(declare-const other Int)(assert (>= other 0))(assert (<= other 9))", "(> x 3)", True),
        ("(declare-const other Int)(assert (>= other x))(assert (<= other 9))", "(> x 3)", None),
        ("(declare-const other Int)(assert (>= other x))(assert (<= other 9))", "(> x 30)", False),
        ("(declare-const p Bool)(declare-const other Int)(assert (=> p (> other x)))", "(> x 3)", True),
        ("(declare-fun f (Int) Bool)(assert (f x))", "true", False),
        ("(declare-const a Int)(declare-const b Int)(assert (= a (+ b 1)))(assert (= b (+ a 1)))", "true", None),
        ("(declare-datatypes ((C 0)) (((r) (g))))(declare-const c C)(assert (distinct c r))", "((_ is r) c)", False),
        ("(define-fun-rec f ((n Int)) Int (ite (< n 1) 0 (f (- n 1))))", "(= (f x) 0)", None),
    ],
)
def test_constants(text: str, permit: str, expected: bool | None) -> None:
    """Constants are computed from definitions or tried; the rest is left to the solver."""
    assert question_of(permit, text, x="Int").evaluate([5]) is expected


def test_odd_values() -> None:
    """The evaluator never raises, whatever the values."""
    question = question_of("(and b (> r 1) (= s c))", b="Bool", r="Real", s="String", c="String")
    odd = [None, float("nan"), 1.5, [], {}, object(), b"a", 10**5000, "x" * 10**6, Fraction(1, 3), True, "a"]
    rng = Random(1)  # noqa: S311 - a fixed seed
    for _ in range(300):
        assert question.evaluate([rng.choice(odd) for _ in range(4)]) in (None, False, True)
    assert question.evaluate([]) is None
    assert question.evaluate([True, Fraction(3, 2), "a", "a", 1]) is None


def test_deep_terms() -> None:
    """Terms with shared subterms, deeper than Python's nesting limit, are compiled."""
    names = [f"(define-fun f{number} () Int (+ f{number - 1} f{number - 1} x))" for number in range(1, 200)]
    question = question_of("(> f199 0)", "(declare-const x Int)(define-fun f0 () Int x)" + "".join(names), x="Int")
    assert [question.evaluate([value]) for value in (1, 0, -1)] == [True, False, False]


def test_no_text_of_the_policy_in_the_code() -> None:
    """Names and strings that look like code are only compared."""
    name = '|__import__("os").system("x")|'
    text = f"(declare-const {name} Bool)(assert (= {name} (= s \"' + str(1) + '\")))"
    assert question_of(name, text, s="String").evaluate(["' + str(1) + '"]) is True
