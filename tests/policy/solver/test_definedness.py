"""An operation outside of its domain is unknown, and permits nothing."""

from __future__ import annotations

import pytest

from guardagent.policy.solver.question import Encoding, Question
from guardagent.policy.solver.script import SmtError
from guardagent.policy.solver.z3_text import VariableDeclaration

pytest.importorskip("z3")

LIMITS = '(declare-fun limit (String) Int)(assert (= (limit s) (limit s)))(assert (= (limit "EUR") 5))'
ARRAY = "(declare-const limits (Array String Int))"
LIST = "(declare-datatypes ((L 0)) (((nil) (cons (head Int) (tail L)))))(declare-const l L)"
TEXT = "(declare-const ok Bool)(declare-const s String)(declare-const n Int)(declare-const x Int)"


def question_of(permit: str, text: str = "") -> Question:
    declared = {name: VariableDeclaration(sort) for name, sort in (("x", "Int"), ("n", "Int"), ("s", "String"))}
    return Encoding.read(TEXT + text, declared).question(permit, list(declared))


@pytest.mark.parametrize(
    ("text", "permit", "x", "n", "s", "status"),
    [
        ("(assert (= ok (<= (/ x n) 100.0)))", "ok", 1_000_000, 0, "", "undefined"),
        ("(assert (= ok (<= (/ x n) 100.0)))", "ok", 100, 1, "", "sat"),
        ("(assert (= ok (<= (/ x n) 100.0)))", "ok", 101, 1, "", "unsat"),
        ("", "(or (= n 0) (<= (/ x n) 100.0))", 1, 0, "", "sat"),
        ("", "(=> (> n 0) (<= (div x n) 100))", 1, 0, "", "sat"),
        ("", "(and (> n 0) (= (mod x n) 0))", 1, 0, "", "unsat"),
        ("", "(not (= (rem x n) 1))", 1, 0, "", "undefined"),
        ("", "(not (not (= (mod x n) 1)))", 1, 0, "", "undefined"),
        ("", "(ite (= n 0) (= x 1) (= (div x n) 1))", 1, 0, "", "sat"),
        ("", "(= 1 (ite (= n 0) x (div x n)))", 1, 0, "", "sat"),
        ("", "(xor (= (div x n) 1) (= (div x n) 2))", 1, 0, "", "undefined"),
        ("", "(= (= (div x n) 1) (= (div x n) 1))", 1, 0, "", "undefined"),
        ("", "(= (mod x 7) 1)", 1, 0, "", "sat"),
        ("", "(<= (str.to_int s) 5)", 0, 0, "", "undefined"),
        ("", "(<= (str.to_int s) 5)", 0, 0, "4", "sat"),
        ("", '(not (= (str.at s 0) "-"))', 0, 0, "", "undefined"),
        ("", '(distinct (str.substr s x 2) "ab")', -1, 0, "ab", "undefined"),
        ("", '(= (str.substr s 0 2) "")', 0, 0, "", "sat"),
        ("", '(< (str.indexof s "a" n) 0)', 0, 4, "ab", "undefined"),
        ("", '(< (str.indexof s "b") 0)', 0, 0, "a", "sat"),
        ("", "(< (str.to_code s) 5)", 0, 0, "ab", "undefined"),
        ("", '(= (str.from_int x) "")', -1, 0, "", "undefined"),
        ("", '(= (str.from_code x) "")', -1, 0, "", "undefined"),
        (LIMITS, "(<= x (limit s))", 5, 0, "EUR", "sat"),
        (LIMITS, "(<= x (limit s))", 6, 0, "EUR", "unsat"),
        (LIMITS, "(<= x (limit s))", 6, 0, "USD", "undefined"),
        ("(declare-fun f (Int) Int)(assert (forall ((i Int)) (= (f i) 7)))", "(= (f x) 7)", 6, 0, "", "sat"),
        (ARRAY + '(assert (= (select limits "EUR") 5))', "(<= x (select limits s))", 5, 0, "EUR", "sat"),
        (ARRAY + '(assert (= (select limits "EUR") 5))', "(<= x (select limits s))", 9, 0, "USD", "undefined"),
        (ARRAY, '(<= x (select (store limits "EUR" 5) s))', 5, 0, "EUR", "sat"),
        (ARRAY, '(<= x (select (store limits "EUR" 5) s))', 5, 0, "USD", "undefined"),
        (
            ARRAY + '(assert (= limits (store ((as const (Array String Int)) 0) "EUR" 5)))',
            "(<= x (select limits s))",
            1,
            0,
            "USD",
            "unsat",
        ),
        ("(declare-fun f (Int) Int)(assert (forall ((i Int)) (> (f i) 7)))", "(= (f x) 9)", 6, 0, "", "undefined"),
        ("(declare-fun f (Int) Int)(assert (> (f 6) 7))", "(= (f x) 9)", 6, 0, "", "undefined"),
        (
            "(declare-const a (Array Int Int Int))(assert (= a (store ((as const (Array Int Int Int)) 0) 1 2 5)))",
            "(= (select a x n) 5)",
            1,
            2,
            "",
            "sat",
        ),
        ("(declare-const a (Array Int Int Int))", "(= (select (store a 1 2 5) x n) 5)", 1, 3, "", "undefined"),
        (LIST + "(assert (= l nil))", "(>= (head l) 0)", 0, 0, "", "undefined"),
        (LIST + "(assert (= l (cons x nil)))", "(>= (head l) 0)", 0, 0, "", "sat"),
        ("(declare-datatypes ((P 0)) (((p (left Int)))))(declare-const v P)", "(= (left v) x)", 0, 0, "", "sat"),
        ("", "(= ((_ int2bv 8) x) (bvudiv ((_ int2bv 8) x) ((_ int2bv 8) n)))", 255, 0, "", "undefined"),
    ],
)
def test_domains(text: str, permit: str, x: int, n: int, s: str, status: str) -> None:
    """A call is permitted only if no operation outside of its domain decides; the fast evaluation agrees."""
    question = question_of(permit, text)
    assert question.solve({"x": x, "n": n, "s": s}).status == status
    assert question.evaluate([x, n, s]) in (None, status == "sat")


def test_places() -> None:
    """A result that is undefined names the operation and the assertion."""
    place = question_of("ok", "(assert (= ok (= (div x n) (div x 2))))").solve({"x": 1, "n": 0, "s": ""}).undefined[0]
    assert (place.term, place.text) == (0, "(div x n)")


def test_unknown_variables() -> None:
    """A value that leaves the permit undefined is a counterexample for an unknown variable."""
    result = question_of("(<= (/ x n) 100.0)").solve({"x": 1, "s": ""}, ["n"], {"n": [0, 1]})
    assert (result.status, result.counterexample) == ("undefined", {"n": 0})


@pytest.mark.parametrize(
    ("text", "permit", "problem"),
    [
        ("(declare-const f Float32)", "true", "'Float32' is floating-point arithmetic"),
        ("", "(fp.isNaN ((_ to_fp 8 24) RNE 1.0))", "floating-point arithmetic"),
        ("(define-fun-rec g ((i Int)) Int (div 1 i))", "true", "'div' is not defined everywhere"),
        ("(define-fun-rec g ((i Int)) Int (|div| 1 i))", "true", "is not defined everywhere"),
        ("(assert (forall ((i Int)) (= (div 8 i) x)))", "true", "move the operation out of the quantifier"),
    ],
)
def test_refused(text: str, permit: str, problem: str) -> None:
    """Numbers that round are refused, and partial operations where their operands are not known."""
    with pytest.raises(SmtError, match=problem):
        question_of(permit, text)
