"""The cost of a check by a guard program: `python benchmarks/program_check.py [ROUNDS [AGENT]]`, on runs of its memory.

AGENT is `ehragent`, whose program runs in Monty, or `seeact`, whose runs in RestrictedPython and passes its lexicon.

Warm, through the public `guard`, and in turn with it, in blocks of 20, the bare program: its `check` called as plain
Python with the same toolbox functions in this process, without sandbox, recording and required checks. p50 and p99 of
wall time (wanted of `guard`, on a quiet machine: 1.5 and 10 ms), their ratio (wanted of p50: at most 2.5), and CPU time
of the calling thread. Each call has a log of its own, so that no side finds in a cache what it or the other one has
worked out: `columns_read` keeps eight results, which within one check serve the program and the host. Then 1,000 checks
from 8 threads at once, after as many to warm up: whether each verdict is right, how long they took, and the memory of
this process and its workers before and after.

Exit status 1 if a verdict is wrong, a model was called, or the memory grew by more than 8 MB.
"""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from guardagent import GuardAgent, Verdict, guard

THREADS, CHECKS = 8, 1000
MAX_GROWTH = 8.0  # MB
WARM_UP, BLOCK = 10, 5  # rounds
NUMBERS = itertools.count()
WANTED = {"p50": 1.5, "p99": 10.0, "ratio": 2.5}

Run = tuple[str, str]


AGENT = sys.argv[2] if len(sys.argv) > 2 else "ehragent"


def check(agent_input: str, log: str) -> Verdict:
    return guard(None, agent_input, log, agent=AGENT)


def timed(function: Callable[[str, str], Any], run: Run) -> tuple[float, float]:
    """(wall, CPU) of one call in milliseconds, with a fresh log."""
    log = f"{run[1]} {next(NUMBERS)}"
    started, cpu = time.perf_counter(), time.thread_time()
    function(run[0], log)
    return (time.perf_counter() - started) * 1000, (time.thread_time() - cpu) * 1000


def bare(agent: GuardAgent) -> Callable[[str, str], Any]:
    names: dict[str, Any] = {**agent.toolbox.functions, "__name__": "program"}
    exec(agent.program or "", names)  # noqa: S102 - our own program, for comparison
    return lambda question, log: names["check"](question, log, {})


def one_by_one(agent: GuardAgent, runs: list[Run], rounds: int) -> None:
    sides = {"guard": check, "bare": bare(agent)}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for number in range(-WARM_UP, rounds, BLOCK):
        for name, function in sides.items():
            time.sleep(0.01)  # background work of `guard` must not count for the bare program
            block = [timed(function, run) for _ in range(BLOCK) for run in runs]
            if number >= 0:
                taken[name] += block
    p50 = {name: statistics.median(wall for wall, _ in times) for name, times in taken.items()}
    for name, times in taken.items():
        p99 = statistics.quantiles([wall for wall, _ in times], n=100)[98]
        own = statistics.median(cpu for _, cpu in times)
        wanted = [f" (wanted {WANTED[percentile]})" if name == "guard" else "" for percentile in ("p50", "p99")]
        print(f"{name:6} p50 {p50[name]:6.2f} ms{wanted[0]}   p99 {p99:6.2f} ms{wanted[1]}   CPU {own:6.2f} ms")
    print(f"guard / bare, p50: {p50['guard'] / p50['bare']:.1f} times (wanted {WANTED['ratio']})")


def at_once(runs: list[Run]) -> list[str]:
    """The errors of 1,000 checks from 8 threads."""
    wanted = {run: check(*run).label for run in runs}
    work = [(run, number) for number in range(CHECKS // len(runs)) for run in runs]

    def right(runs: tuple[Run, int]) -> bool:
        (question, log), number = runs
        verdict = check(question, f"{log} {number}")
        return verdict.label == wanted[runs[0]] and not verdict.errors and not verdict.model_calls

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(right, work))
        before, started = memory(), time.perf_counter()
        wrong = sum(not well for well in pool.map(right, work))
        seconds, grown = time.perf_counter() - started, memory() - before
    print(f"{len(work)} checks from {THREADS} threads in {seconds:.2f} s: {wrong} wrong, or not without a model")
    print(f"memory          {before:6.1f} MB before, {grown:+.1f} MB after")
    problems = {"wrong verdicts": wrong, "memory": grown > MAX_GROWTH}
    return [name for name, problem in problems.items() if problem]


def memory() -> float:
    """The memory of this process and its workers that is in use, in MB (Linux)."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    return sum(resident(number) for number in ["self", *children])


def resident(process: str) -> float:
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1_000_000


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 250
    agent = GuardAgent(agent=AGENT, mode="program")
    assert agent.known_agent is not None
    runs = [(item.agent_input, item.agent_output) for item in agent.known_agent.demonstrations]
    one_by_one(agent, runs, rounds)
    if problems := at_once(runs):
        sys.exit(f"not as it should be: {', '.join(problems)}")


if __name__ == "__main__":
    main()
