"""Events per CPU second that five temporal rules follow: `python -m benchmarks.monitors [ROUNDS]`.

One long trace, event by event, and 10,000 traces at once; beside it, in the same rounds over the same events, the
package `agentproofx`, where it is installed. Events are made beforehand, everything else counts; medians of CPU time.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module, metadata
from typing import Any

from benchmarks.whole_logs import Columns, replay_batch
from guardagent.policy.language.formula import atoms, read_temporal
from guardagent.policy.monitors.automaton import Alphabet, Compiled, Product, Standing, compile_formula
from guardagent.types import Event

RULES = [
    "G !tool:delete_account",
    "tool:draft_email -> F tool:human_review",
    "tool:fetch_pii -> F[<=3] tool:anonymize",
    "tool:plan -> F tool:approve -> F tool:deploy",
    "tool:authenticate U tool:open_session",
]
TASKS = [
    ["search", "read_page"],
    ["draft_email", "search", "human_review", "send_email"],
    ["fetch_pii", "count_rows", "anonymize", "write_report"],
    ["plan", "run_tests", "approve", "search", "deploy"],
    ["list_files", "read_file", "calculate", "read_file"],
]
BEGINNING = ["authenticate", "authenticate", "open_session"]
WANTED = {"one trace": 15, "10,000 traces": 80}

Trace = list[str]
Run = Callable[[], int]  # gives how many rules are violated in how many traces, so that all can be seen to agree


class ProductMonitor:
    """Monitors one trace event by event.

    Args:
        rules: the rules, or a product that several monitors share.
    """

    __slots__ = ("_letters", "_rules", "_state")

    def __init__(self, rules: Product | Sequence[Compiled]) -> None:
        product = rules if isinstance(rules, Product) else Product(rules)
        self._rules, self._letters, self._state = product.rules, product.letters, product.start

    def step(self, event: Event, *, ok: bool) -> Sequence[int]:
        """Processes an event; returns the indexes of the rules that it violates for good, each rule once."""
        letter = self._letters[event.tool, event.action, event.decision, event.tags, ok]
        self._state, violated = self._state[letter]
        return violated

    def run(self, events: Iterable[Event]) -> list[tuple[int, int]]:
        """Processes events; returns (event index, rule index) for each violation. Success is status "ok"."""
        state, letters, run = self._state, self._letters, []
        for at, event in enumerate(events):
            letter = letters[event.tool, event.action, event.decision, event.tags, event.status == "ok"]
            state, violated = state[letter]
            if violated:
                run += [(at, rule) for rule in violated]
        self._state = state
        return run

    @property
    def standings(self) -> tuple[Standing, ...]:
        """The current standing of each rule."""
        states = zip(self._rules, self._state.parts, strict=True)
        return tuple(automaton.standing(state) for (_, automaton), state in states)


def tools_of_a_trace(chance: random.Random, tasks: int, slips: float) -> Trace:
    """An agent that does one task after the other, and now and then something at random."""
    names = list(BEGINNING)
    for _ in range(tasks):
        names += chance.choice(TASKS)
        if chance.random() < slips:
            names.append(chance.choice(["delete_account", "draft_email", "plan", "fetch_pii"]))
    return names


def compiled(text: str) -> Compiled:
    formula = read_temporal(text)
    alphabet = Alphabet(atoms(formula))
    return alphabet, compile_formula(formula, alphabet.letters)


def one_by_one(rules: Sequence[Compiled], trace: Sequence[Event]) -> int:
    monitor = ProductMonitor(rules)
    for event in trace:
        monitor.step(event, ok=event.status == "ok")
    return monitor.standings.count(Standing.VIOLATED)


def continued(rules: Sequence[Compiled], trace: Sequence[Event]) -> int:
    monitor = ProductMonitor(rules)
    monitor.run(trace)
    return monitor.standings.count(Standing.VIOLATED)


def batch(rules: Sequence[Compiled], traces: Sequence[Sequence[Event]] | Columns) -> int:
    return int((replay_batch(rules, traces).standings == Standing.VIOLATED).sum())


def ours(traces: Sequence[Trace]) -> dict[str, Run]:
    rules = list(map(compiled, RULES))
    events = [[Event(name, status="ok") for name in trace] for trace in traces]
    if len(events) == 1:
        return {
            "Monitor.step": lambda: one_by_one(rules, events[0]),
            "Monitor.run": lambda: continued(rules, events[0]),
        }
    lengths, names = [len(trace) for trace in traces], [name for trace in traces for name in trace]
    well = [True] * len(names)
    return {
        "replay_batch, of events": lambda: batch(rules, events),
        "replay_batch, of columns": lambda: batch(rules, Columns(lengths, well, names)),
    }


def theirs(traces: Sequence[Trace]) -> dict[str, Run]:
    """The same with `agentproofx`, if it is installed."""
    try:
        ltl: Any = import_module("agentproof.monitor.ltl")
    except ImportError:
        return {}
    rules = tuple(ltl.compile_monitor_rule(ltl.MonitorRuleSpec(text, text)) for text in RULES)
    events = [[{"tool_name": name} for name in trace] for trace in traces]

    def run() -> int:
        violated = 0
        for trace in events:
            state: dict[str, int] = {}
            for event in trace:
                state, _, _ = ltl.evaluate_monitors(rules, state, event)
            violated += sum(state[rule.rule_id] in rule.violation_states for rule in rules)
        return violated

    return {f"agentproofx {metadata.version('agentproofx')}": run}


def measure(runs: dict[str, Run], rounds: int) -> dict[str, float]:
    """The median of the CPU seconds of each, taken in turn."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        results = set()
        for name, run in runs.items():
            started = time.process_time()
            results.add(run())
            times[name].append(time.process_time() - started)
        assert len(results) == 1, f"they disagree: {results}"
    return {name: statistics.median(taken) for name, taken in times.items()}


def report(title: str, traces: Sequence[Trace], rounds: int) -> None:
    events = sum(map(len, traces))
    baseline = theirs(traces)
    medians = measure({**ours(traces), **baseline}, rounds)
    print(f"{title}: {events:,} events, {len(RULES)} rules")
    for name, seconds in medians.items():
        times = "".join(
            f"  {medians[other] / seconds:6.1f} times as many (wanted: {WANTED[title]})"
            for other in baseline
            if other != name
        )
        print(f"  {name:26} {events / seconds:12,.0f} events/s  {seconds / events * 1e9:8.0f} ns each{times}")


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    chance = random.Random(1)  # noqa: S311 - the same events every time
    if not theirs([]):
        print("agentproofx is not installed, so there is nothing to compare with: pip install agentproofx")
    report("one trace", [tools_of_a_trace(chance, 10_000, 0.0)], rounds)
    report("10,000 traces", [tools_of_a_trace(chance, chance.randrange(12), 0.02) for _ in range(10_000)], rounds)


if __name__ == "__main__":
    main()
