"""The cost of a solver rule: `python benchmarks/solver.py [ROUNDS]`, in microseconds of CPU time per check.

A rule of 25 assertions on who may cancel a flight judges allowed and denied calls in three ways: by its compiled
function, by an incremental Z3 that gets each call's facts, and by a Z3 that parses the whole text for each call. The
last line is a denial with its explanation, which a session computes once for the same facts.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from guardagent.policy.solver.question import Encoding, Question

TEXT = """
(set-logic ALL)
(declare-datatypes ((Cabin 0)) (((basic_economy) (economy) (business))))
(declare-datatypes ((Tier 0)) (((regular) (silver) (gold))))
(declare-datatypes ((Reason 0)) (((change_of_plan) (airline_cancelled) (health) (weather))))
(declare-const cabin Cabin)
(declare-const tier Tier)
(declare-const reason Reason)
(declare-const hours_since_booking Int)
(declare-const segments_flown Int)
(declare-const passengers Int)
(declare-const paid Real)
(declare-const insured Bool)
(declare-const confirmed Bool)
(declare-const same_user Bool)
(declare-const within_a_day Bool)
(declare-const fault_of_airline Bool)
(declare-const covered Bool)
(declare-const eligible Bool)
(declare-const untouched Bool)
(declare-const identified Bool)
(declare-const sane Bool)
(declare-const refund Real)
(declare-const compensated Bool)
(declare-const transferred Bool)
(declare-const can_cancel Bool)
(define-fun between ((low Int) (n Int) (high Int)) Bool (and (<= low n) (<= n high)))

; What a booking is like.
(assert (>= hours_since_booking 0))
(assert (between 0 segments_flown 12))
(assert (between 1 passengers 5))
(assert (>= paid 0.0))
(assert (=> (= cabin basic_economy) (<= passengers 4)))
(assert (= sane (and (> passengers 0) (>= paid 0.0) (< segments_flown 12))))

; Which grounds there are.
(assert (= within_a_day (<= hours_since_booking 24)))
(assert (= fault_of_airline (= reason airline_cancelled)))
(assert (= covered (and insured (or (= reason health) (= reason weather)))))
(assert (= eligible (or within_a_day fault_of_airline covered (= cabin business))))
(assert (= untouched (= segments_flown 0)))
(assert (= identified (and same_user confirmed)))

; What a customer gets back.
(assert (= refund (ite (or within_a_day fault_of_airline) paid (ite eligible (* 0.9 paid) 0.0))))
(assert (=> can_cancel (<= refund paid)))
(assert (=> (and can_cancel (= tier regular)) (<= refund 20000.0)))
(assert (=> (and can_cancel (= tier silver)) (<= refund 40000.0)))
(assert (= compensated (and fault_of_airline (distinct tier regular) (> passengers 0))))
(assert (=> compensated identified))

; When it may be cancelled.
(assert (=> can_cancel eligible))
(assert (=> can_cancel untouched))
(assert (=> can_cancel identified))
(assert (=> (not untouched) transferred))
(assert (=> transferred (not can_cancel)))
(assert (=> (and (= cabin basic_economy) (not within_a_day) (not insured)) (=> can_cancel fault_of_airline)))
(assert (= can_cancel (and sane eligible untouched identified)))
"""
PERMIT = "can_cancel"
NAMES = (
    *("cabin", "tier", "reason", "hours_since_booking", "segments_flown", "passengers"),
    *("paid", "insured", "confirmed", "same_user"),
)
Row = tuple[Any, ...]
WANTED = 15.0
REPEATED = {"compiled": 400, "Z3, incremental": 8, "Z3, text read each time": 4}


def calls() -> dict[str, list[Row]]:
    """Equally many allowed and denied calls."""
    rows = [
        (cabin, tier, reason, hours, flown, 2, 480, insured, True, flown == 0 or hours > 5)
        for cabin, tier, reason, hours, flown, insured in product(
            ("basic_economy", "economy", "business"),
            ("regular", "gold"),
            ("change_of_plan", "airline_cancelled", "health"),
            (3, 31),
            (0, 1),
            (False, True),
        )
    ]
    rows_by_outcome: dict[str, list[Row]] = {"allowed": [], "denied": []}
    for row in rows:
        rows_by_outcome["allowed" if by_hand(row) else "denied"].append(row)
    number = min(map(len, rows_by_outcome.values()))
    return {outcome: some[:: len(some) // number][:number] for outcome, some in rows_by_outcome.items()}


def by_hand(row: Row) -> bool:
    """The expected result of the rule, in Python."""
    cabin, _, reason, hours, flown, _, _, insured, confirmed, same_user = row
    grounds = hours <= 24 or reason == "airline_cancelled" or (insured and reason in ("health", "weather"))
    return bool((grounds or cabin == "business") and flown == 0 and confirmed and same_user)


def literal(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def incremental(rows: Sequence[Row]) -> Callable[[], int]:
    """Incremental Z3: each call pushes its facts, checks, and pops."""
    import z3

    assertions = z3.parse_smt2_string(TEXT + "".join(f"(assert (= {name} {name}))" for name in NAMES))
    constants = [term.arg(0) for term in list(assertions)[-len(NAMES) :]]
    solver = z3.SimpleSolver()
    solver.add(z3.parse_smt2_string(f"{TEXT}(assert {PERMIT})"))

    def term(constant: Any, value: Any) -> Any:
        sort = constant.sort()
        if isinstance(value, str):
            return next(
                constructor()
                for constructor in map(sort.constructor, range(sort.num_constructors()))
                if constructor.name() == value
            )
        return z3.BoolVal(value) if isinstance(value, bool) else z3.RealVal(value) if z3.is_real(constant) else value

    facts = [
        [constant == term(constant, value) for constant, value in zip(constants, row, strict=True)] for row in rows
    ]

    def run() -> int:
        allowed = 0
        for fact in facts:
            solver.push()
            solver.add(fact)
            allowed += solver.check() == z3.sat
            solver.pop()
        return allowed

    return run


def parsing(rows: Sequence[Row]) -> Callable[[], int]:
    """Z3 on the whole text with each call's facts."""
    import z3

    def facts(row: Row) -> str:
        return "".join(f"(assert (= {name} {literal(value)}))" for name, value in zip(NAMES, row, strict=True))

    texts = [f"{TEXT}{facts(row)}(assert {PERMIT})" for row in rows]

    def run() -> int:
        allowed = 0
        for text in texts:
            solver = z3.SimpleSolver()
            solver.from_string(text)
            allowed += solver.check() == z3.sat
        return allowed

    return run


def compiled(question: Question, rows: Sequence[Row]) -> Callable[[], int]:
    fast = question.evaluate
    return lambda: sum(fast(row) is True for row in rows)


def explained(question: Question, rows: Sequence[Row]) -> Callable[[], int]:
    """Z3 with a minimal core for denials."""
    named = [dict(zip(NAMES, row, strict=True)) for row in rows]
    return lambda: sum(question.solve(values).status == "sat" for values in named)


def microseconds(run: Callable[[], int], repeated: int, allowed: int, checks: int) -> float:
    gc.collect()
    gc.freeze()
    started = time.process_time()
    allowed_counts = [run() for _ in range(repeated)]
    taken = time.process_time() - started
    gc.unfreeze()
    assert set(allowed_counts) == {allowed}, f"{allowed_counts[0]} of {checks} calls are allowed; expected {allowed}"
    return taken / repeated / checks * 1e6


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    question = Encoding.read(TEXT, {}).question(PERMIT, NAMES)
    print(f"{TEXT.count('(assert ')} assertions, {len(NAMES)} variables; microseconds of CPU (times the compiled rule)")
    for outcome, rows in calls().items():
        contenders = {
            "compiled": compiled(question, rows),
            "Z3, incremental": incremental(rows),
            "Z3, text read each time": parsing(rows),
        }
        allowed = len(rows) if outcome == "allowed" else 0
        taken: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(rounds):
            for name, run in contenders.items():
                taken[name].append(microseconds(run, REPEATED[name], allowed, len(rows)))
        medians = {name: statistics.median(seconds) for name, seconds in taken.items()}
        for name, median in medians.items():
            wanted = f"  (wanted: {WANTED:.0f})" if name == "compiled" else ""
            print(f"{outcome:9}{name:26}{median:9.2f} ({median / medians['compiled']:7.1f}){wanted}")
    rows = calls()["denied"]
    median = statistics.median(microseconds(explained(question, rows), 1, 0, len(rows)) for _ in range(rounds))
    print(f"denied   with its minimal core     {median:9.2f}")


if __name__ == "__main__":
    main()
