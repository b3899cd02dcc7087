"""The cost of conditions over a long history: `python -m benchmarks.histories [CALLS]`.

First, a check of one rule for each construct after 10, 100 and CALLS calls (default: 1,000), in microseconds of CPU.
Half of the checks are denied. In the second table, every third output is an error instead of JSON. Then a desk with 33
rules, 12 of them over outputs: a conversation of CALLS calls, in which checks and records alternate; p50 and p99 of
both, each step the median of five plays, and the memory of the session per recorded call.
"""

from __future__ import annotations

import gc
import json
import random
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from guardagent import Session, load_policies
from guardagent.policy.load import compile_rules
from guardagent.types import Decision, Event

CONSTRUCTS = {
    "some(f:look(id=a))": "forall(pay(acct=a), some(f:look(id=a)))",
    "sum(f:pay(acct=a), !failed(f), args(f).n)": (
        "forall(pay(acct=a), sum(f:pay(acct=a), !failed(f), args(f).n) <= 100)"
    ),
    "output(f).id == a": "forall(pay(acct=a), some(f:look(), output(f).id == a && output(f).ok == true))",
    "output(f).id == a || output(f).alias == a": (
        "forall(pay(acct=a), some(f:look(), output(f).id == a || output(f).alias == a))"
    ),
    "a in output(f).ids": "forall(pay(acct=a), some(f:look(), a in output(f).ids))",
    "any(x in output(f).rows, x.id == a)": "forall(pay(acct=a), some(f:look(), any(x in output(f).rows, x.id == a)))",
    "any(x in output(f).rows, x.id == a && x.limit >= n)": (
        "forall(pay(acct=a, n=n), some(f:look(), any(x in output(f).rows, x.id == a && x.limit >= n)))"
    ),
    "sum(f:look(), any(x in output(f).rows, x.id == a), ...)": (
        "forall(pay(acct=a), sum(f:look(), any(x in output(f).rows, x.id == a), output(f).limit) <= 4)"
    ),
    "last(f:look(), any(x in output(f).rows, x.id == a))": (
        "forall(pay(acct=a), output(last(f:look(), any(x in output(f).rows, x.id == a))).ok == true)"
    ),
    "output(f).limit >= n": "forall(pay(n=n), some(f:look(), output(f).limit >= n + 2))",
    "now - time(f) <= 1h": "forall(pay(), some(f:look(), now - time(f) <= 1h))",
    "mentions(output(f), a)": "forall(pay(acct=a), some(f:look(), mentions(output(f), a)))",
    "some, within 1h, and output(f).id == a": (
        "forall(pay(acct=a), some(f:look(), any(x in output(f).rows, x.id == a), within 1h))"
    ),
    "some in some": "forall(pay(acct=a), some(f:look(), some(g:look(id=a), args(g).id == args(f).id)))",
    "count(f:look(), output(f).limit >= n)": "forall(pay(n=n), count(f:look(), output(f).limit >= n) < 0)",
    "count(f:look(), output(f).id != a)": "forall(pay(acct=a), count(f:look(), output(f).id != a) < 0)",
    "starts_with(output(f).id, a)": 'forall(pay(acct=a), some(f:look(), starts_with(output(f).id, a + "x")))',
}
START = 1_700_000_000


def looked_up(number: int, *, errors: bool) -> str:
    if errors and number % 3 == 1:
        return "Error: no such account"
    rows = [{"id": f"A{number}", "limit": 5}, {"id": f"B{number}", "limit": 1}, {"id": f"C{number}", "limit": 2}]
    fields = {"id": f"A{number}", "alias": f"Z{number}", "ok": True, "limit": number % 7, "ids": [f"A{number}", "X"]}
    return json.dumps({**fields, "rows": rows})


def cost_of(rule: str, calls: int, *, errors: bool) -> float:
    """The median of some checks, half of them about an account that was looked up."""
    session = compile_rules([rule]).session(clock=lambda: START + calls)
    for number in range(calls):
        event = Event("look", {"id": f"A{number}"}, looked_up(number, errors=errors), "ok", time=START + number)
        session.observe(event, judge=False)
    taken = []
    for number in range(31):
        args = {"acct": f"A{number * 37 % calls}" if number % 2 else f"Q{number}", "n": number % 4}
        started = time.process_time_ns()
        session.check("pay", args, reserve=False)
        taken.append(time.process_time_ns() - started)
    return statistics.median(taken[1:]) / 1000  # the first check indexes the calls


def show_constructs(lengths: tuple[int, ...], *, errors: bool) -> None:
    print(f"\n{'every third output is an error: ' if errors else ''}microseconds of CPU after {lengths} calls (growth)")
    for name, rule in CONSTRUCTS.items():
        costs = [cost_of(rule, calls, errors=errors) for calls in lengths]
        print(f"{name:58}" + "".join(f"{cost:10.1f}" for cost in costs) + f"  ({costs[-1] / costs[0]:.1f})")


# --- a desk of an energy supplier

OVER_OUTPUTS = [
    "before(refund(account=a), true, f:get_account(account=a), output(f).verified == true)",
    "before(refund(account=a, bill=b), true, f:list_bills(account=a), any(x in output(f).bills, x.id == b))",
    "forall(refund(bill=b, amount=n), some(f:list_bills(), any(x in output(f).bills, x.id == b && x.total >= n)))",
    'forall(refund(bill=b), !some(f:list_bills(), any(x in output(f).bills, x.id == b && x.status == "disputed")))',
    "before(set_tariff(account=a, tariff=t), true, f:list_tariffs(), t in output(f).ids)",
    "forall(set_tariff(tariff=t), some(f:list_tariffs(), any(x in output(f).tariffs, x.id == t && x.open == true)))",
    "before(block_meter(meter=m), true, f:list_meters(), any(x in output(f).meters, x.id == m))",
    'forall(block_meter(meter=m), output(last(f:get_meter(meter=m))).state == "on")',
    "forall(pay_out(iban=i), some(f:get_account(), output(f).iban == i || output(f).old_iban == i))",
    "forall(pay_out(account=a, amount=n), some(f:get_account(account=a), output(f).balance >= n))",
    "forall(write_letter(to=t), some(f:read_mail(), mentions(output(f), t)))",
    "before(close(account=a), true, f:get_account(account=a), output(f).balance == 0 && fact(confirmed) == true)",
]
OTHERS = [
    *(
        f"before({tool}(account=a), true, f:get_account(account=a), true)"
        for tool in ("refund", "pay_out", "set_tariff")
    ),
    *(f"forall({tool}(amount=n), n > 0 && n <= 900)" for tool in ("refund", "pay_out")),
    "forall(refund(bill=b, amount=n), sum(f:refund(bill=b), !failed(f), args(f).amount) + n <= 2000)",
    "forall(refund(account=a), count(f:refund(account=a), !failed(f)) < 30)",
    "forall(pay_out(account=a), count(f:pay_out(account=a), !failed(f), within 24h) < 50)",
    "forall(set_tariff(account=a), count(f:set_tariff(account=a), !failed(f)) < 40)",
    "forall(block_meter(meter=m), !some(f:block_meter(meter=m), !failed(f), within 1m))",
    "forall(write_letter(to=t, text=x), len(x) < 5000)",
    "forall(write_letter(to=t), t matches /[a-z0-9.]+@[a-z.]+/)",
    'forall(close(), "agent" in principal.roles)',
    *(f"G !tool:{tool}" for tool in ("delete_account", "drop_meter", "export_customers", "erase_mail")),
    *(f"G(tool:{tool} -> O tool:sign_in)" for tool in ("refund", "pay_out", "close", "block_meter")),
]
ACCOUNTS = 60
PLAYS = 5  # of the same conversation: a step takes the median of them


def proposed(chance: random.Random) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Calls with their outputs: look-ups, and actions on what was looked up or not."""
    yield "sign_in", {}, "ok"
    while True:
        at = chance.randrange(ACCOUNTS)
        account, amount, broken = f"acc-{at}", chance.randrange(1, 600), chance.random() < 0.05
        bills = [{"id": f"bill-{at}-{n}", "total": 100 * (n + 1), "status": "paid"} for n in range(6)]
        profile = {"verified": at % 9 > 0, "iban": f"DE{at:020}", "old_iban": f"AT{at:018}", "balance": at * 20}
        tariffs = [{"id": f"t{n}", "open": n % 3 > 0, "price": 20 + n} for n in range(12)]
        meters = [{"id": f"m{at}-{n}", "kind": "power"} for n in range(3)]
        mail = f"Dear desk, write to c{at}@mail.example about bill-{at}-1. " + "Thank you for your help today. " * 20
        outputs: dict[str, tuple[dict[str, Any], Any]] = {
            "get_account": ({"account": account}, profile),
            "list_bills": ({"account": account}, {"bills": bills}),
            "list_tariffs": ({}, {"ids": [tariff["id"] for tariff in tariffs], "tariffs": tariffs}),
            "list_meters": ({"account": account}, {"meters": meters}),
            "get_meter": ({"meter": f"m{at}-0"}, {"state": chance.choice(["on", "off"]), "read": amount}),
            "read_mail": ({"box": at}, mail),
            "refund": ({"account": account, "bill": f"bill-{at}-{amount % 6}", "amount": amount}, "done"),
            "pay_out": ({"account": account, "iban": f"DE{at:020}", "amount": amount}, "done"),
            "set_tariff": ({"account": account, "tariff": f"t{amount % 13}"}, "done"),
            "block_meter": ({"meter": f"m{at}-0"}, "done"),
            "write_letter": ({"to": f"c{at}@mail.example", "text": mail}, "sent"),
            "close": ({"account": account}, "closed"),
        }
        tool = chance.choice(list(outputs))
        args, output = outputs[tool]
        text = output if isinstance(output, str) else json.dumps(output)
        yield tool, args, "Error: try again" if broken else text


def desk(clock: Callable[[], float]) -> Session:
    policies = [{"id": f"r{at}", "temporal": rule} for at, rule in enumerate([*OVER_OUTPUTS, *OTHERS])]
    loaded = load_policies(data={"version": 1, "policies": policies})
    loaded.warm_up()
    return loaded.session(clock=clock, facts={"confirmed": True}, principal={"id": "a", "roles": ["agent"]})


def play(session: Session, calls: int, checks: list[int], records: list[int]) -> int:
    """Plays a conversation until it has a number of calls; returns how many were denied."""
    made = denied = 0
    for tool, args, output in proposed(random.Random(3)):  # noqa: S311 - the same conversation every time
        started = time.process_time_ns()
        verdict = session.check(tool, args)
        checks.append(time.process_time_ns() - started)
        if verdict.decision is not Decision.ALLOW:
            denied += 1
            continue
        started = time.process_time_ns()
        session.record(output, permit=verdict.permit)
        records.append(time.process_time_ns() - started)
        made += 1
        if made == calls:
            return denied
    raise AssertionError("the conversation does not end")


def show_desk(calls: int) -> None:
    plays: list[tuple[list[int], list[int]]] = [([], []) for _ in range(PLAYS)]
    for checks, records in plays:
        moments = iter(range(START, START + 10**9))
        session = desk(partial(next, moments))
        gc.collect()
        gc.freeze()
        denied = play(session, calls, checks, records)
        gc.unfreeze()
    print(f"\n{len(OVER_OUTPUTS) + len(OTHERS)} rules, {calls} calls and {denied} denials, microseconds of CPU")
    for at, name in enumerate(("checks", "records")):
        taken = [statistics.median(step) for step in zip(*(lists[at] for lists in plays), strict=True)]
        for title, part in (("all", taken), ("the last quarter", taken[-(len(taken) // 4) :])):
            ranks = statistics.quantiles(part, n=100)
            print(f"  {name:8} {title:17} p50 {ranks[49] / 1000:8.1f}  p99 {ranks[98] / 1000:8.1f}")
    print(f"  memory per recorded call: {kilobytes(session, calls, OVER_OUTPUTS + OTHERS):.1f} kB, ", end="")
    print(f"of which arguments, output and place in the history {kilobytes(session, calls, OTHERS[-8:]):.1f} kB")


def kilobytes(played: Session, calls: int, rules: list[str]) -> float:
    """The memory of a session with the same calls under some of the rules, per call, after checks of each tool."""
    policies = [{"id": f"r{at}", "temporal": rule} for at, rule in enumerate(rules)]
    loaded = load_policies(data={"version": 1, "policies": policies})
    events = [json.loads(json.dumps([dict(event.args), event.output])) for event in played.history]
    tracemalloc.start()
    session = loaded.session(clock=lambda: START + 10**8, facts={"confirmed": True})
    for event, (args, output) in zip(played.history, events, strict=True):
        copied = Event(event.tool, args, output, event.status, time=event.time)
        session.observe(copied, judge=False)
    for tool, args, _ in islice(proposed(random.Random(4)), 100):  # noqa: S311 - the same calls every time
        session.check(tool, args, reserve=False)
    current, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return current / calls / 1000


def main() -> None:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for errors in (False, True):
        show_constructs((10, 100, calls), errors=errors)
    show_desk(calls)


if __name__ == "__main__":
    main()
