"""Several rules followed at once say what each of them says alone."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.monitors import ProductMonitor
from guardagent.policy.monitors.automaton import Compiled, Product, Standing
from guardagent.types import Event
from tests.policy.rules import RULES, chosen_rules, events, rule, stepped


@given(chosen_rules, st.lists(events, max_size=12))
def test_all_rules_together_agree_with_each_alone(rules: list[Compiled], trace: list[Event]) -> None:
    """They agree on the standings and on which event violated which rule, each reported once."""
    monitor = ProductMonitor(rules)
    reported = monitor.run(trace)
    alone = [stepped(rule, trace) for rule in rules]
    assert monitor.standings == tuple(standing for standing, _ in alone)
    assert reported == sorted((event, at) for at, (_, event) in enumerate(alone) if event >= 0)


@given(chosen_rules, st.lists(events, max_size=12))
def test_steps_are_a_run(rules: list[Compiled], trace: list[Event]) -> None:
    """One event at a time, and a run can be continued."""
    product = Product(rules)
    whole, halves, single = ProductMonitor(product), ProductMonitor(product), ProductMonitor(product)
    reported = whole.run(trace)
    half = len(trace) // 2
    continued = halves.run(trace[:half]) + [(event + half, at) for event, at in halves.run(trace[half:])]
    steps = [single.step(event, ok=event.status == "ok") for event in trace]
    assert reported == continued == [(event, at) for event, places in enumerate(steps) for at in places]


def test_what_helps_must_have_worked_and_what_harms_must_not() -> None:
    """A step that did not go well satisfies nothing and violates all the same."""
    monitor = ProductMonitor([rule("F tool:send"), rule("G !tool:send")])
    assert monitor.step(Event("send"), ok=False) == (1,)
    assert monitor.standings == (Standing.UNMET, Standing.VIOLATED)
    assert monitor.step(Event("send"), ok=True) == ()
    assert monitor.standings == (Standing.SATISFIED, Standing.VIOLATED)


def test_a_product_that_forgets_says_the_same() -> None:
    """Names that nobody has seen before cannot fill the memory, and change nothing."""
    chance = random.Random(1)  # noqa: S311 - a fixed seed
    trace = [Event(chance.choice(["get", "send", f"new {at}"]), status="ok") for at in range(3000)]
    forgetful = Product(RULES, keep=10)
    assert ProductMonitor(forgetful).run(trace) == ProductMonitor(RULES).run(trace)
    assert len(forgetful.letters) + len(forgetful.start) <= 11


def test_threads_share_a_product() -> None:
    """While it learns, and while it forgets."""
    chance = random.Random(2)  # noqa: S311 - a fixed seed
    traces = [[Event(chance.choice(["get", "send", "list", "drop"])) for _ in range(200)] for _ in range(32)]
    expected = [ProductMonitor(RULES).run(trace) for trace in traces]
    product = Product(RULES, keep=20)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda trace: ProductMonitor(product).run(trace), traces)) == expected
