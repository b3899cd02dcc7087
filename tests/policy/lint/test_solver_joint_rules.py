"""Names of one solver rule mean nothing in another, whether the rules share a Z3 context or not."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from guardagent.policy import load
from guardagent.policy.equivalence import Different, Same, compare_rules
from guardagent.policy.lint import lint_report
from guardagent.policy.load import load_policies

pytest.importorskip("z3")

SORT, ENUM = "(declare-sort S 0)(declare-const a S)(declare-const b S)", "(declare-datatypes ((K 0)) (((x) %s)))"
OF_K = "(declare-fun h (Int) K)(assert (= (h 1) x))"
RECURSIVE = "(define-fun-rec g ((x Int)) Int (ite (<= x 0) %s (g (- x 1))))"
RECORD = "(declare-datatypes ((R 0)) (((%s))))(declare-const c R)"
PAIRS = {  # the constraints of two rules: the first permits n below a bound, the second n above another
    "functions": [
        ("(declare-fun f (Int) Int)(assert (= (f 1) 2))(assert (= (f 2) 5))", "(< n (f (f 1)))"),
        ("(declare-fun f (Int) Int)(assert (= (f 1) 2))(assert (= (f 2) 2))", "(> n (f (f 1)))"),
    ],
    "axioms": [
        ("(declare-fun f (Int) Int)(assert (forall ((x Int)) (= (f x) (+ x 1))))", "(< n (f 4))"),
        ("(declare-fun f (Int) Int)(assert (forall ((x Int)) (= (f x) (- x 1))))", "(> n (f 3))"),
    ],
    "signatures": [
        ("(declare-fun f (Int) Int)(assert (= (f 1) 5))", "(< n (f 1))"),
        ('(declare-fun f (String) Real)(assert (= (f "a") 2.0))', '(> (to_real n) (f "a"))'),
    ],
    "constants": [
        ("(declare-const k Int)(assert (= k 5))", "(< n k)"),
        ("(declare-const k Real)(assert (= k 2.5))", "(> (to_real n) k)"),
    ],
    "arrays": [
        ("(declare-const m (Array Int Int))(assert (= (select m 0) 5))", "(< n (select m 0))"),
        ("(declare-const m (Array Int Int))(assert (= (select m 0) 2))", "(> n (select m 0))"),
    ],
    "macros": [
        ("(define-fun g ((x Int)) Int (+ x 5))", "(< n (g 0))"),
        ("(define-fun g ((x Int)) Int (+ x 2))", "(> n (g 0))"),
    ],
    "recursive functions": [(RECURSIVE % 5, "(< n (g 1))"), (RECURSIVE % 2, "(> n (g 1))")],
    "sorts": [
        (f"{SORT}(assert (forall ((x S) (y S)) (= x y)))", "(and (< n 5) (= a b))"),
        (f"{SORT}(assert (distinct a b))", "(and (> n 2) (distinct a b))"),
    ],
    "enumerations": [
        (f"{ENUM % '(y)'}{OF_K}", "(and (< n 5) (distinct (h 1) y))"),
        (f"{ENUM % '(y) (z)'}{OF_K}", "(and (> n 2) (distinct (h 1) z))"),
    ],
    "constructors": [
        ("(declare-datatypes ((K 0)) (((x) (y))))(declare-const c K)(assert (= c x))", "(and (< n 5) (= c x))"),
        ("(declare-datatypes ((L 0)) (((y) (x))))(declare-const c L)(assert (= c y))", "(and (> n 2) (= c y))"),
    ],
    "records": [
        (f"{RECORD % 'r (p Int)'}(assert (= (p c) 5))", "(< n (p c))"),
        (f"{RECORD % 'q (p Real)'}(assert (= (p c) 2.0))", "(> (to_real n) (p c))"),
    ],
    "names": [
        ("(declare-const |k 1| Int)(declare-const k Int)(assert (= k 5 |k 1|))", "(< n k)"),
        ("(declare-const |k 1| Int)(declare-const k Int)(assert (= k 2))(assert (= |k 1| 4))", "(> n k)"),
    ],
}  # fmt: skip


@pytest.fixture(params=["shared contexts", "separate contexts"], autouse=True)
def _contexts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "separate contexts":
        monkeypatch.setattr(load, "_shared_contexts", lambda _: nullcontext())


def policy(*rules: tuple[str, str], argument: str = "n") -> str:
    """Rules for `t`; the last of them reads `n` in the argument."""
    sources = ["n"] * (len(rules) - 1) + [argument]
    written = [
        {
            "id": f"s{number}",
            "solver": {
                "smt": f"{smt}(declare-const n Int)",
                "tools": {"t": {"permit": permit, "variables": {"n": {"from": f"args.{source}"}}}},
            },
        }
        for number, ((smt, permit), source) in enumerate(zip(rules, sources, strict=True))
    ]
    return json.dumps({"version": 1, "unlisted": "deny", "tools": ["t"], "policies": written})


def permitted(path: Path, **others: int) -> list[int]:
    session = load_policies(path).session()
    return [n for n in range(8) if session.check("t", {"n": n, **others}).label == 0]


@pytest.mark.parametrize("name", PAIRS)
def test_rules_of_one_tool_keep_their_names_apart(name: str, tmp_path: Path) -> None:
    """Sessions permit some calls, and so lint reports nothing; it says so where the two cannot be asked together."""
    path = tmp_path / "policies.yaml"
    path.write_text(policy(*PAIRS[name]))
    assert permitted(path) == [3, 4]
    report = lint_report(path)
    assert report.findings == ()
    assert bool(report.undecided) is (name in ("recursive functions", "sorts", "enumerations", "records"))


@pytest.mark.parametrize("name", PAIRS)
def test_no_rule_is_taken_for_the_other(name: str, tmp_path: Path) -> None:
    """Each order of the two is the same policy, and none of them is the first rule alone."""
    drafts, both = [], PAIRS[name]
    for number, rules in enumerate([both, both[::-1], both[:1]]):
        path = tmp_path / f"{number}.yaml"
        path.write_text(policy(*rules))
        drafts.append(load_policies(path))
    assert not isinstance(compare_rules(drafts[0], drafts[1], seconds=0.2), Different)
    assert not isinstance(compare_rules(drafts[0], drafts[2], seconds=0.2), Same)


@pytest.mark.parametrize("name", ["functions", "axioms", "signatures", "constants", "arrays", "macros", "names"])
def test_contradictions_are_found_with_all_names(name: str, tmp_path: Path) -> None:
    """A rule and its negation exclude each other, unless they read different arguments."""
    first, permit = PAIRS[name][0]
    path = tmp_path / "policies.yaml"
    path.write_text(policy((first, permit), (first, f"(not {permit})")))
    assert permitted(path) == []
    assert [finding.kind for finding in lint_report(path).findings] == ["contradictory"]
    path.write_text(policy((first, permit), (first, f"(not {permit})"), argument="m"))
    assert permitted(path, m=6) == [0, 1, 2, 3, 4]
    assert lint_report(path).findings == ()


def test_rules_that_read_different_tables_do_not_exclude_each_other(tmp_path: Path) -> None:
    """However long the rows are that the tables share."""
    rows = {f"a_longer_key_{number}": number for number in range(9)}
    content = json.loads(policy(("", "(< n 5)"), ("", "(not (< n 5))")))
    for rule, name in zip(content["policies"], ("low", "high"), strict=True):
        rule["solver"]["tools"]["t"]["variables"]["n"]["from"] = f"{name}[args.kind]"
    tables = {name: {"value": {"table": {**rows, "x": row}}} for name, row in (("low", 1), ("high", 9))}
    path = tmp_path / "policies.yaml"
    path.write_text(json.dumps({**content, "constants": tables}))
    assert load_policies(path).session().check("t", {"kind": "x"}).label == 0
    assert lint_report(path).findings == ()
