"""SMT-LIB text is read with positions and comments; calls are checked; cores are minimal and remedies valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists, sampled_from, tuples

from guardagent.errors import InputError
from guardagent.policy.solver.question import Encoding, Question, SmtError
from guardagent.policy.solver.sources import shared_contexts
from guardagent.policy.solver.z3_text import INT, MEMORY, REAL, STRING, Sort, VariableDeclaration, new_context
from tests.policy.smt_policies import ENUMERATION, VARIABLES, policy, values

pytest.importorskip("z3")
TEXT = """; An airline's rules.
(set-logic ALL)
(set-option :produce-unsat-cores true)
(declare-datatypes ((Cabin 0)) (((basic_economy) (economy) (|first class|))))
(declare-const cabin Cabin) ; cabin {}
; booked {} hours ago
(declare-fun hours () Int)
(declare-const |has insurance| Bool)
(declare-const can_cancel Bool)

; Cancelled within a day,
; or never.
(assert (= can_cancel
  (or (< hours 24) |has insurance| ; insured
      (= cabin |first class|))))  ; says the manual
(assert (! (>= hours 0) :named not_before)) ; hours do not run back
(assert (=> can_cancel (not (= cabin basic_economy))))
"""
NAMES = ["cabin", "hours", "has insurance"]


@pytest.fixture(scope="module")
def airline() -> Question:
    return Encoding.read(TEXT, {}).question("can_cancel", NAMES)


def test_declarations_and_assertions() -> None:
    """Declarations, enumerations and assertions come with their lines and with the comments beside them."""
    encoding = Encoding.read(TEXT, {})
    cabin = Sort("Cabin", ("basic_economy", "economy", "first class"))
    assert encoding.constants["cabin"] == cabin
    assert encoding.constants["hours"] == INT
    assert encoding.enumerations == {"Cabin": cabin.values}
    assert encoding.comments == {"cabin": "cabin {}", "hours": "booked {} hours ago"}
    assertions = [(assertion.line, assertion.name, assertion.comment) for assertion in encoding.assertions]
    assert assertions == [
        (13, None, "Cancelled within a day, or never."),
        (16, "not_before", "hours do not run back"),
        (17, None, None),
    ]
    assert encoding.assertions[2].text == "(=> can_cancel (not (= cabin basic_economy)))"


def test_declared_beside_the_text() -> None:
    """Variables may be declared in the policy file, with a sort of the text or a new enumeration."""
    declared = {
        "fast one": VariableDeclaration("Speed", ("slow", "very fast")),
        "other": VariableDeclaration("Cabin"),
        "price": VariableDeclaration("Real"),
        "hours": VariableDeclaration("Int"),
        "cabin": VariableDeclaration(None),
    }
    encoding = Encoding.read(f"{TEXT}(assert (> price 1.5))", declared)
    assert encoding.constants["fast one"] == Sort("Speed", ("slow", "very fast"))
    assert encoding.constants["other"] == encoding.constants["cabin"]
    assert encoding.constants["price"] == REAL
    question = encoding.question("(and can_cancel (= |fast one| |very fast|))", ["fast one"])
    assert [question.solve({"fast one": speed}).status for speed in ("slow", "very fast")] == ["unsat", "sat"]


@pytest.mark.parametrize(
    ("text", "line", "column", "problem"),
    [
        ("(declare-const x Int)\n  (assert (> x yy))", 2, 16, "unknown constant yy; known: x"),
        ('(declare-const x Int)\n(assert\n (> x "a"))', 3, 10, "String"),
        ("(declare-const x Int)\n(assert (+ x 1))", 2, 16, "expected a term of sort Bool"),
        ("(declare-const x Int)\n(declare-const x Bool)", 2, 1, "declared twice"),
        ("(assert true", 1, 1, "not closed"),
        ("(assert true))", 1, 14, "has no matching"),
        ('(assert (= "a\n', 1, 12, "a string is not terminated"),
        ("(assert |a\n", 1, 9, "a quoted symbol is not terminated"),
        ("(assert a\0)", 1, 10, "unexpected character"),
        ("\n(check-sat)", 2, 1, "remove the command"),
        ("(get-model)", 1, 1, "remove the command"),
        ("(push 1)", 1, 1, "remove the command"),
        ('(include "x")', 1, 1, "insert the content of that file"),
        ("(asert true)", 1, 1, "did you mean 'assert'"),
        ("(assert true false)", 1, 1, "'assert' has 2 arguments; expected 1"),
        ("(set-logic QF_LIAA)", 1, 1, "unknown logic"),
        ('(set-option :regular-output-channel "x")', 1, 1, "is not allowed in a policy"),
        ("true", 1, 1, "is outside a command"),
        ("(declare-const 1x Int)", 1, 16, "is not a name"),
        ("(declare-const x Intt)", 1, 18, "unknown sort"),
        ("()", 1, 1, "unknown command"),
        (f"(assert {'(not ' * 500}true{')' * 500})", 1, 2004, "nested parentheses"),
        ("; ok\n(assert (= 1 \ud800))", 2, 14, "is not an SMT-LIB character"),
        ("(declare-const é Int)", 1, 16, "a quoted symbol '|…|'"),
    ],
)
def test_errors_are_located(text: str, line: int, column: int, problem: str) -> None:
    """Each error has its line and column, and says what was expected."""
    with pytest.raises(SmtError) as caught:
        Encoding.read(text, {"n": VariableDeclaration("Int")} if "declared" in text else {})
    assert (caught.value.line, caught.value.column) == (line, column), caught.value
    assert problem in caught.value.problem


def test_added_declarations_do_not_move_errors() -> None:
    """A variable that the policy file declares does not change the position of an error, even in the first line."""
    declared = {
        "n": VariableDeclaration("Int"),
        "kind": VariableDeclaration("Kind", ("a b", "c")),
        "m": VariableDeclaration("C"),
    }
    for text, place in (
        ('(declare-datatype C ((r)))(assert (= "é" (+ n s))) ; é', (1, 47)),
        ("(set-logic ALL) (declare-datatype C ((r)))\n; é\n(assert (> n\nz))", (4, 1)),
        ('(set-logic ALL)(declare-datatype C ((r)))(assert (= kind |a b|))\n(assert (= m "é" z))', (2, 18)),
    ):
        with pytest.raises(SmtError) as caught:
            Encoding.read(text, declared)
        assert (caught.value.line, caught.value.column) == place


@pytest.mark.parametrize(
    ("permit", "line", "problem"),
    [
        ("(and true\n  yy)", 2, "unknown constant yy"),
        ("x) (assert true", 1, "has no matching"),
        ("true false", 1, "more than one term"),
        ("; nothing", 1, "no term"),
        ("hours", 1, "expected a term of sort Bool"),
        ("(and can_cancel", 1, "not closed"),
    ],
)
def test_errors_of_a_permit(permit: str, line: int, problem: str) -> None:
    """A permit is one predicate; errors in it have positions in the permit."""
    with pytest.raises(SmtError, match="permit: line") as caught:
        Encoding.read(TEXT, {}).question(permit, NAMES)
    assert caught.value.of_permit
    assert caught.value.line == line
    assert problem in caught.value.problem


@pytest.mark.parametrize("sort", ["Bool", "Int) (assert false"])
def test_declarations_must_agree(sort: str) -> None:
    """A variable declared in the policy file and in the text has the same sort in both."""
    with pytest.raises(SmtError, match="as the policy file declares") as caught:
        Encoding.read(TEXT, {"hours": VariableDeclaration(sort)})
    assert caught.value.line == 7


@pytest.mark.parametrize(
    ("name", "declared"),
    [
        *(("new", (sort,)) for sort in ("Int) (assert false", "Intt", None)),
        *(("new", ("New", items)) for items in ((), ("a", "a"), (1, 2), ("a|b",), ("economy",))),
        *((name, ("Int",)) for name in ("a|b", "economy")),
    ],
)
def test_wrong_declarations(name: str, declared: tuple[Any, ...]) -> None:
    """An invalid declaration of the policy file is an error."""
    with pytest.raises(SmtError):
        Encoding.read(TEXT, {name: VariableDeclaration(*declared)})


def test_unknown_variables() -> None:
    """An undeclared variable is an error with the nearest name."""
    with pytest.raises(InputError, match="did you mean 'hours'"):
        Encoding.read(TEXT, {}).question("can_cancel", ["hour"])


def test_damaged_texts() -> None:
    """A damaged text is read or raises SmtError."""
    rng = Random(3)  # noqa: S311 - a fixed seed
    for _ in range(150):
        start = rng.randrange(len(TEXT))
        damaged = TEXT[:start] + rng.choice(["", "(", ")", '"', "|", "\0", ";", "é", "|é|"]) + TEXT[start + 3 :]
        with suppress(SmtError):
            Encoding.read(damaged, {"n": VariableDeclaration("Int")})


def test_a_long_text_is_read() -> None:
    """Megabytes of text are read, and their last line is found."""
    text = "(declare-const x Int)\n" + "(assert (< x 5)) ; é\n" * 20_000
    with pytest.raises(SmtError) as caught:
        Encoding.read(f"{text}(assert (> x y))", {})
    assert caught.value.line == 20_002


def minimal(encoding: Encoding, permit: str, core: Sequence[str], assignment: Mapping[str, Any]) -> None:
    """Checks that a core is minimal: without any element the rest is satisfiable."""
    for dropped in core:
        kept = [name for name in core if name != dropped]
        numbers = [int(name.split(":")[1]) for name in kept if name.startswith("assertion:")]
        text = TEXT[: TEXT.index("(assert")] + "".join(
            f"(assert {encoding.assertions[number].text})" for number in numbers
        )
        question = Encoding.read(text, {}).question(permit if "permit" in kept else "true", NAMES)
        assert question.solve({name: assignment[name] for name in NAMES if f"variable:{name}" in kept}).status == "sat"


def test_cores_are_minimal(airline: Question) -> None:
    """The core of a denial is minimal."""
    encoding = Encoding.read(TEXT, {})
    for row in product(["basic_economy", "economy", "first class"], [-1, 3, 30], [False, True]):
        assignment = dict(zip(NAMES, row, strict=True))
        answer = airline.solve(assignment)
        assert answer.status == ("sat" if airline.evaluate(row) else "unsat")
        if answer.status == "unsat":
            minimal(encoding, "can_cancel", answer.core, assignment)
    late = airline.solve({"cabin": "economy", "hours": 30, "has insurance": False})
    assert late.core == ("variable:cabin", "variable:hours", "variable:has insurance", "assertion:0", "permit")
    assert airline.solve({"hours": -1}).core == ("variable:hours", "assertion:1")


def test_random_answers_have_minimal_cores() -> None:
    """On random policies the solver agrees with the compiled rule, and cores are unsatisfiable."""
    rng = Random(11)  # noqa: S311 - a fixed seed
    for _ in range(25):
        made = policy(rng)
        encoding = Encoding.read(made.text, {})
        question = encoding.question(made.permit, list(VARIABLES))
        assignment = values(rng)
        answer, fast = question.solve(assignment), question.evaluate(list(assignment.values()))
        assert fast is None or answer.status in (("unknown", "sat") if fast else ("unknown", "unsat", "undefined"))
        if answer.status == "unsat":
            again = question.solve({name: assignment[name] for name in assignment if f"variable:{name}" in answer.core})
            assert again.status == "unsat"


EVERY = """(declare-const x Int) (declare-const y Int) (declare-const r Real) (declare-const s String)
(declare-const b Bool) (declare-const p Bool) (declare-const q Bool) (declare-const z Int)
(declare-datatypes ((Colour 0)) (((red) (green) (blue)))) (declare-const c Colour) (declare-const d Colour)
"""


@pytest.mark.parametrize(
    ("asserted", "permit", "known", "every", "status"),
    [
        ("(= p (or b (> x 3)))", "p", {"x": 5}, ["b"], "sat"),
        ("(= p (or b (> x 3)))", "p", {"x": 2}, ["b"], "unsat"),
        ("(= p (> (* y y) (- 1)))", "p", {}, ["x"], "sat"),
        ("(>= x 0)", "true", {}, ["x"], "unsat"),
        ("(= p (>= (+ x y) x))", "p", {"y": 0}, ["x"], "sat"),
        ("(= p (>= (+ x y) x))", "p", {"y": -1}, ["x"], "unsat"),
        ("(= p (not (= x 77)))", "p", {}, ["x"], "unsat"),
        ("(=> p (distinct c d))", "p", {}, ["c"], "sat"),
        ("(=> p (= c d))", "p", {"d": "red"}, ["c"], "unsat"),
        ("(> z x)", "(> z y)", {}, ["x", "y"], "sat"),
        ("(= (* 2 z) x)", "true", {}, ["x"], "unsat"),
        ("(= p (or q (< r 1.5)))", "(and p (not q))", {}, ["r"], "unsat"),
        ("(= p (or q (< r 1.5)))", "p", {}, ["r"], "sat"),
        ('(= p (str.prefixof "a" s))', "p", {}, ["s"], "unsat"),
        ("(= p (>= (str.len s) 0))", "p", {}, ["s"], "sat"),
        ("(= p (and b (= c red)))", "(=> (not b) true)", {}, ["c", "b", "x"], "sat"),
    ],
)
def test_every_value(asserted: str, permit: str, known: dict[str, Any], every: list[str], status: str) -> None:
    """A universal variable is satisfiable for every value, or has a counterexample."""
    question = Encoding.read(f"{EVERY}(assert {asserted})", {}).question(permit, ["x", "y", "r", "s", "b", "c", "d"])
    answer = question.solve(known, every)
    assert answer.status == status
    if status == "unsat":
        assert set(answer.counterexample or {}) == set(every)
        assert question.solve({**known, **(answer.counterexample or {})}).status == "unsat"
        assert answer.core


def test_every_agrees_with_trying_all() -> None:
    """On random policies and small domains, universal variables agree with trying all values."""
    rng, seen = Random(5), set()  # noqa: S311 - a fixed seed
    for _ in range(25):
        made = policy(rng)
        question = Encoding.read(made.text, {}).question(made.permit, list(VARIABLES))
        known = values(rng)
        every = rng.sample(["b1", "b2", "c1", "i1", "s1"], 2)
        of_sort = {"b": (False, True), "c": ENUMERATION, "i": (0, 1, 24), "s": ("", "a", "7")}
        domains = {name: of_sort[name[0]] for name in every}
        tried = [
            question.evaluate([{**known, **dict(zip(every, row, strict=True))}[name] for name in VARIABLES])
            for row in product(*domains.values())
        ]
        answer = question.solve({name: known[name] for name in known if name not in every}, every, domains)
        seen.add(answer.status)
        assert answer.status != (
            "unsat" if False not in tried and None not in tried else "sat" if False in tried else ""
        )
    assert {"sat", "unsat"} <= seen


def test_nothing_is_satisfied_by_accident(airline: Question) -> None:
    """Empty domains, values of other sorts, unknown names and timeouts have the result "unknown"."""
    cabin = {"cabin": "economy", "has insurance": True}
    assert airline.solve(cabin, ["hours"], {"hours": []}).status == "unknown"
    assert airline.solve(cabin, ["hours"], {"hours": [True, 3.0]}).status == "unknown"
    assert airline.solve({**cabin, "hours": 3}, ["hours"]).status == "unknown"
    assert airline.solve(cabin, ["can_cancel"]).status == "unknown"
    for odd in (None, True, "3", 3.0, float("nan"), Fraction(1, 2), 10**100_000, [3]):
        assert airline.solve({**cabin, "hours": odd}).status == "unknown"
    for odd in ("Economy", "economy) (assert true", "", None, 1):
        assert airline.solve({"cabin": odd}).status == "unknown"
    assert airline.solve({**cabin, "hours": 2**80}, timeout=0).status == "unknown"
    assert airline.solve({**cabin, "hours": 2**80}).status == "sat"


def test_hard_questions_end() -> None:
    """A check that exceeds its time limit has the result "unknown"."""
    text = "(declare-const x Int)(declare-const y Int)(declare-const z Int)(declare-const k Int)"
    question = Encoding.read(text, {}).question("(= (+ (* x x x) (* y y y) (* z z z)) k)", ["k"])
    assert question.evaluate([114]) is None
    assert question.solve({"k": 114}, timeout=0.3).status == "unknown"


def test_long_texts() -> None:
    """Strings that would take Z3 minutes are not passed to it; others are, up to a length."""
    encoding = Encoding.read("", {"s": VariableDeclaration("String")})
    replaced = encoding.question('(= (str.replace_all s "a" s) "b")', ["s"])
    assert [replaced.solve({"s": "a" * length}).status for length in (100, 5000)] == ["unsat", "unknown"]
    assert replaced.evaluate(["a" * 3000]) is False
    plain = encoding.question('(str.contains s "b")', ["s"])
    assert [plain.solve({"s": "a" * length}).status for length in (5000, 10**6)] == ["unsat", "unknown"]


def test_remedies(airline: Question) -> None:
    """A remedy has the fewest changes, as near as possible to the current values, or is None."""
    late = {"cabin": "economy", "hours": 30, "has insurance": False}
    assert airline.remedy(late, ["hours"]) == {"hours": 23}
    assert airline.remedy(late, ["has insurance", "hours"]) == {"has insurance": True}
    assert airline.remedy({**late, "hours": 3}, NAMES) == {}
    assert airline.remedy({**late, "cabin": "basic_economy"}, ["cabin", "hours"], {"cabin": ["basic_economy"]}) is None
    both = airline.remedy({**late, "cabin": "basic_economy"}, ["cabin", "hours"], {"cabin": ["economy"]})
    assert both == {"cabin": "economy", "hours": 23}


@pytest.mark.parametrize(
    ("permit", "value", "domain", "changed"),
    [
        ("(<= x 99.5)", Fraction(500), None, 99),
        ("(and (> x 1) (< x 1.3))", 500, None, Fraction(129, 100)),
        ("(= (* 3 x) 1.0)", 5, None, Fraction(1, 3)),
        ("(= (* x x) 2.0)", 5, None, None),
        ("(> x 1000000)", 5, [10, 2_000_000], 2_000_000),
    ],
)
def test_remedies_of_reals(permit: str, value: object, domain: list[int] | None, changed: object) -> None:
    """Whole numbers are preferred, then hundredths; inexact values are not a remedy."""
    question = Encoding.read("", {"x": VariableDeclaration("Real")}).question(permit, ["x"])
    remedy = question.remedy({"x": value}, ["x"], {} if domain is None else {"x": domain})
    assert remedy == (None if changed is None else {"x": changed})


@given(
    lists(tuples(integers(0, 140), integers(0, 9)), min_size=1, max_size=4),
    integers(-70, 70),
    sampled_from(["Int", "Real"]),
)
def test_remedies_are_the_nearest_numbers(ranges: list[tuple[int, int]], now: int, sort: str) -> None:
    """Also where the permitted numbers have gaps."""
    permit = "".join(f" (<= {low} (+ x 70) {low + more})" for low, more in ranges)
    question = Encoding.read("", {"x": VariableDeclaration(sort)}).question(f"(or false{permit})", ["x"])
    remedy = question.remedy({"x": now}, ["x"])
    permitted = {number for low, more in ranges for number in range(low - 70, low + more - 69)}
    assert remedy is not None
    if now in permitted:
        assert remedy == {}
    else:
        assert remedy["x"] in permitted
        assert abs(remedy["x"] - now) == min(abs(number - now) for number in permitted)


def test_remedies_of_texts() -> None:
    """A string is returned character by character, whatever its content."""
    encoding = Encoding.read("", {"s": VariableDeclaration("String")})
    assert encoding.constants["s"] == STRING
    question = encoding.question('(= s (str.++ "\\u{1F600}" "\\u{5c}u{41}""é"))', ["s"])
    assert question.remedy({"s": "x"}, ["s"]) == {"s": '\U0001f600\\u{41}"é'}


def test_threads(airline: Question) -> None:
    """Threads that share a question, and questions that share a text, get the answers that one thread gets."""
    other = Encoding.read(TEXT, {}).question("(not can_cancel)", NAMES)
    rows = list(product(["economy", "first class"], [3, 30], [False, True])) * 4

    def results(row: tuple[Any, ...]) -> tuple[object, ...]:
        assignment = dict(zip(NAMES, row, strict=True))
        return (
            airline.solve(assignment),
            other.solve(assignment),
            airline.evaluate(row),
            airline.remedy(assignment, ["hours"]),
        )

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(results, rows)) == [results(row) for row in rows]


def test_the_memory_of_other_contexts_is_not_that_of_a_check() -> None:
    """Z3 compares a solver's limit with what the whole process takes."""
    others = [new_context() for _ in range(MEMORY // 14)]
    free = Encoding.read("(declare-const n Int)(assert (> (* n n) 40))", {}).question("(< n 9)", ["n"])
    assert free.solve({}).status == "sat"
    assert others


def test_encodings_share_a_context_where_their_sorts_agree() -> None:
    """Z3 keeps one definition of each sort in a context."""
    cabin, other = (f"(declare-datatypes ((Cabin 0)) (((a) ({name}))))" for name in "bc")
    texts = ["(declare-const n Int)", "(declare-const m Real)", cabin, cabin + "(declare-const x Cabin)", other]
    with shared_contexts():
        contexts = [Encoding.read(text, {}).question("true", []).terms[-1].ctx for text in texts]
        declared = {"x": VariableDeclaration("Kind", ["a", "b"])}
        contexts.append(Encoding.read("", declared).question("true", ["x"]).terms[-1].ctx)
    assert [contexts.index(context) for context in contexts] == [0, 0, 2, 2, 4, 5]
