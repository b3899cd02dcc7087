"""The cost of a check by the number of rules: `python benchmarks/rule_counts.py [ROUNDS] [--against CHECKOUT]`.

Policies of 1, 10, 100 and 1,000 rules about one tool, each in several mixes: rules of a single kind, the mix that a
policy of a shop has, and that mix for other tools than the checked one. Each number is a median over the rounds, in
microseconds of CPU. With `--against`, another checkout of the package is measured in turn, each in a process of its
own.

    allowed   a check of an allowed call, with `reserve=False`
    denied    the same, of a call that breaks one of the rules
    recorded  an allowed call with its record
    float     an allowed call whose amount is a float
    load      milliseconds to compile the policy
    first     milliseconds of a session and its first check
    session   kilobytes of memory of a session
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from guardagent import Policies, Session
from guardagent.policy.load import compile_rules
from guardagent.types import Decision, Event

COUNTS = (1, 10, 100, 1000)
FACTS = {"user_confirmed": True, "user": {"id": "mia"}, "role": "customer"}
CALL = {
    "order_id": "W1204",
    "amount": 120,
    "quantity": 2,
    "currency": "EUR",
    "method": "card_3",
    "reason": "the parcel arrived damaged",
    "user": "mia",
    "express": False,
    "note": "none",
}
HISTORY = [Event("login", {}, "welcome", "ok"), Event("get_order", {"order_id": "W1204"}, {"status": "paid"}, "ok")]
FORMS: dict[str, list[str]] = {  # {0} is the number of the rule; the first form of each kind is the one that is broken
    "numbers": [
        "forall(refund(amount=a), a > 0 && a <= 6{0}0)",
        "forall(refund(amount=a), a <= 5{0}00)",
        "forall(refund(quantity=q), q >= 1 && q <= 1{0})",
        "forall(refund(amount=a, express=e), !e || a < 1{0}.50)",
        "forall(refund(amount=a, quantity=q), a * q <= 3{0}00)",
    ],
    "strings": [
        'forall(refund(reason=r), r != "because {0}")',
        'forall(refund(method="gift_card_{0}", amount=a), a <= 100)',
        "forall(f:refund(), len(args(f).reason) <= 10{0})",
    ],
    "lists": [
        'forall(refund(currency=c), c in ["EUR", "USD", "C{0}"])',
        'forall(refund(method=m, amount=a), m in ["card_3", "card_{0}"] || a <= {0})',
    ],
    "matches": [
        "forall(refund(order_id=o), o matches /W[0-9]{{4}}|X{0}/)",
        "forall(refund(order_id=/T{0}-.*/, amount=a), a <= 10)",
    ],
    "facts": [
        "forall(refund(amount=a), a > 1{0} -> fact(user_confirmed) == true)",
        'forall(refund(user=u), u == fact(user.id) || fact(role) == "agent {0}")',
    ],
    "before": [
        'before(refund(order_id=o), true, f:get_order(order_id=o), output(f).status != "s{0}")',
        "before(refund(amount=a), a > {0}, login(), true)",
    ],
    "propositional": [
        "G(tool:refund -> O (tool:login || tool:sso_{0}))",
        "G(tool:refund -> H !tool:lock_{0})",
        "G(tool:refund -> (!tool:logout_{0} S tool:login))",
    ],
}
SHARES = {"numbers": 6, "strings": 3, "lists": 3, "matches": 2, "facts": 3, "before": 2, "propositional": 1}
KINDS = [kind for kind, share in SHARES.items() for _ in range(share)]
BROKEN = 'forall(refund(note=n), n != "stolen")'
Figures = dict[str, float]


def rules_of(mix: str, count: int) -> list[str]:
    """The rules of a mix; the allowed call complies with all of them."""
    if mix == "mixed":
        kinds = list(islice(cycle(KINDS), count))
        forms = [FORMS[kind][at // len(KINDS) % len(FORMS[kind])] for at, kind in enumerate(kinds)]
    elif mix == "other tools":
        return [BROKEN] + [
            rule.replace("refund(", "pay(").replace(":refund", ":pay") for rule in rules_of("mixed", count)
        ]
    else:
        forms = [FORMS[mix][at % len(FORMS[mix])] for at in range(count)]
    return [*(form.format(at) for at, form in enumerate(forms, 1)), BROKEN]


def begun(policies: Policies) -> Session:
    session = policies.session(facts=FACTS)
    for event in HISTORY:
        session.observe(event, judge=False)
    return session


def microseconds(run: Callable[[], Any], times: int) -> float:
    gc.collect()
    gc.disable()
    started = time.process_time()
    for _ in range(times):
        run()
    taken = time.process_time() - started
    gc.enable()
    return taken / times * 1e6


def measured(mix: str, count: int) -> Figures:
    rules = rules_of(mix, count)
    started = time.process_time()
    policies = compile_rules(rules)
    load = (time.process_time() - started) * 1e3
    started = time.process_time()
    begun(policies).check("refund", CALL, reserve=False)
    first = (time.process_time() - started) * 1e3
    session, times = begun(policies), max(20, 4000 // count)
    broken, inexact = {**CALL, "note": "stolen"}, {**CALL, "amount": 119.99}
    assert session.check("refund", CALL, reserve=False).decision is Decision.ALLOW
    assert session.check("refund", inexact, reserve=False).decision is Decision.ALLOW
    assert "rule" in session.check("refund", broken, reserve=False).rules[0]

    def recorded() -> None:
        session.check("refund", CALL)
        session.record("done")

    for _ in range(100):
        session.check("refund", CALL, reserve=False)
    return {
        "allowed": microseconds(lambda: session.check("refund", CALL, reserve=False), times),
        "denied": microseconds(lambda: session.check("refund", broken, reserve=False), times),
        "recorded": microseconds(recorded, times),
        "float": microseconds(lambda: session.check("refund", inexact, reserve=False), times),
        "load": load,
        "first": first,
        "session": kilobytes(policies),
    }


def kilobytes(policies: Policies) -> float:
    gc.collect()
    tracemalloc.start()
    kept = [begun(policies) for _ in range(5)]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / len(kept) / 1e3


def one_round(mixes: Sequence[str], counts: Sequence[int]) -> dict[str, Figures]:
    return {f"{mix}, {count}": measured(mix, count) for mix in mixes for count in counts}


def round_in(checkout: Path, arguments: Sequence[str]) -> dict[str, Figures]:
    """A round in a process of its own."""
    command = [sys.executable, __file__, "--once", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - itself
    figures: dict[str, Figures] = json.loads(done.stdout)
    return figures


def show(rounds: dict[Path, list[dict[str, Figures]]]) -> None:
    """One line for each policy and checkout."""
    names = list(rounds)
    rows = rounds[names[0]][0]
    print(f"{'':24}" + "".join(f"{name:>11}" for name in next(iter(rows.values()))))
    for row, columns in rows.items():
        for name in names:
            medians = [statistics.median(figures[row][column] for figures in rounds[name]) for column in columns]
            print(f"{row if name == names[0] else '  against':24}" + "".join(f"{value:11.2f}" for value in medians))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rounds", nargs="?", type=int, default=5)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--mix", action="append", choices=[*FORMS, "mixed", "other tools"])
    parser.add_argument("--count", action="append", type=int)
    parser.add_argument("--once", action="store_true", help="one round in this process, as JSON")
    options = parser.parse_args()
    mixes, counts = options.mix or ["mixed", "other tools", *FORMS], options.count or COUNTS
    if options.once:
        print(json.dumps(one_round(mixes, counts)))
        return
    arguments = [part for mix in mixes for part in ("--mix", mix)] + [
        part for count in counts for part in ("--count", str(count))
    ]
    checkouts = [Path(__file__).parents[1], *([options.against] if options.against else [])]
    rounds: dict[Path, list[dict[str, Figures]]] = {checkout: [] for checkout in checkouts}
    for _ in range(options.rounds):
        for checkout in checkouts:
            rounds[checkout].append(round_in(checkout, arguments))
    show(rounds)


if __name__ == "__main__":
    main()
