"""The cost of the sandbox: `python benchmarks/sandbox.py [ROUNDS]`, on guard programs in the style of models.

For each engine the time of one warm run beside a bare `exec` of the same source text in the same round, and the ratio
of the medians. `new` gives the engine a text it has not seen (gate, transformation and compilation included), `known`
one that it has. Then 10,000 runs from 8 threads: errors, growth of memory and of descriptors.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import yaml

from guardagent import ProgramError, Sandbox, Toolbox
from guardagent.sandbox import load_sandbox

FOLDER = Path(__file__).parents[1] / "tests" / "sandbox" / "programs"
TOOLS = {name: Toolbox.load().functions[name] for name in ("check_access", "check_rule")}


def milliseconds(function: Callable[[], Any]) -> float:
    started = time.perf_counter()
    function()
    return (time.perf_counter() - started) * 1000


def bare(source: str, arguments: dict[str, Any]) -> Any:
    names: dict[str, Any] = {**TOOLS, "__name__": "program", "print": lambda *_, **__: None}
    exec(source, names)  # noqa: S102 - our own programs, for comparison
    return names["check"](**arguments)


def compare(engine: Sandbox, programs: dict[str, tuple[str, dict[str, Any]]], rounds: int, *, new: bool) -> None:
    ratios, slow = [], []
    for source, arguments in programs.values():
        base, times = [], []
        engine.run(source, arguments, TOOLS)
        for number in range(rounds):
            text = f"{source}\n# {number} {time.perf_counter_ns()}\n" if new else source
            base.append(milliseconds(lambda text=text, arguments=arguments: bare(text, dict(arguments))))  # type: ignore[misc]
            times.append(milliseconds(lambda text=text, arguments=arguments: engine.run(text, arguments, TOOLS)))  # type: ignore[misc]
        ratios.append(statistics.median(times) / statistics.median(base))
        slow += times
    high = statistics.quantiles(slow, n=100)[98]
    print(
        f"  {'new' if new else 'known':6} {len(programs):3} programs  ratio of medians: "
        f"median {statistics.median(ratios):5.2f}, lowest {min(ratios):5.2f}, highest {max(ratios):5.2f}   "
        f"p50 {statistics.median(slow):5.2f} ms  p99 {high:5.2f} ms"
    )


def storm(engine: Sandbox, source: str, arguments: dict[str, Any], runs: int = 10_000, threads: int = 8) -> None:
    errors: list[str] = []

    def work() -> None:
        for _ in range(runs // threads):
            try:
                engine.run(source, arguments, TOOLS)
            except Exception as error:  # noqa: BLE001 - counted
                errors.append(str(error))

    me = psutil.Process()
    engine.run(source, arguments, TOOLS)
    before = (me.memory_info().rss, me.num_fds(), len(me.children(recursive=True)))
    workers = [threading.Thread(target=work) for _ in range(threads)]
    took = milliseconds(lambda: [*map(threading.Thread.start, workers), *map(threading.Thread.join, workers)])
    after = (me.memory_info().rss, me.num_fds(), len(me.children(recursive=True)))
    print(
        f"  {runs:,} runs from {threads} threads: {len(errors)} errors, {took / runs:.2f} ms a run, "
        f"memory {(after[0] - before[0]) / 1e6:+.1f} MB, descriptors {after[1] - before[1]:+}, "
        f"processes {after[2] - before[2]:+}"
    )


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    sys.modules["program"] = types.ModuleType("program")
    runs = yaml.safe_load((FOLDER / "runs.yaml").read_text())
    for name in ("monty", "restricted"):
        engine = load_sandbox(name)
        programs = {}
        for program, arguments in runs.items():
            source = (FOLDER / f"{program}.py").read_text()
            try:
                engine.run(source, arguments[0], TOOLS)
            except ProgramError:
                continue  # it is for the other engine
            programs[program] = (source, arguments[0])
        print(name)
        compare(engine, programs, rounds, new=False)
        compare(engine, programs, rounds, new=True)
        storm(engine, *next(iter(programs.values())))
        engine.close()


if __name__ == "__main__":
    main()
