"""How long a check takes: `python benchmarks/speed.py [RUNS]`, on the shipped demonstrations of the EHR agent.

Wall and CPU time of the host process per check, warm, through the public `guard`; beside it, in the same run, the same
program executed bare, without sandbox, recording or required checks. CPU time of a fresh `import guardagent`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from guardagent import GuardAgent, guard

IMPORT = "import time; t = time.process_time(); import guardagent; print(time.process_time() - t)"


def measure(check: Callable[[str, str], Any], runs: list[tuple[str, str]], rounds: int) -> tuple[float, float, float]:
    """(median, 99th percentile) of wall time and median of CPU time per check, in milliseconds."""
    wall, cpu = [], []
    for number in range(rounds):
        for agent_input, recorded in runs:
            log = f"{recorded} {number}"  # no log is seen twice, so nothing that is kept of one helps
            started, cpu_started = time.perf_counter(), time.process_time()
            check(agent_input, log)
            cpu.append((time.process_time() - cpu_started) * 1000)
            wall.append((time.perf_counter() - started) * 1000)
    return statistics.median(wall), statistics.quantiles(wall, n=100)[98], statistics.median(cpu)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    agent = GuardAgent(agent="ehragent", mode="program")
    assert agent.known is not None
    runs = [(item.agent_input, item.agent_output) for item in agent.known.demonstrations]
    names = dict(agent.toolbox.functions)
    exec(agent.program or "", names)  # noqa: S102 - our own program, for comparison
    checks: dict[str, Callable[[str, str], Any]] = {
        "guard(...)": lambda asked, log: guard(None, asked, log, agent="ehragent"),
        "bare program": lambda asked, log: names["check"](asked, log, {}),
    }
    for check in checks.values():
        measure(check, runs, 3)
    for name, check in checks.items():
        median, high, cpu = measure(check, runs, rounds)
        print(f"{name:14} median {median:6.2f} ms  p99 {high:6.2f} ms  host CPU {cpu:5.2f} ms")
    times = [float(subprocess.check_output([sys.executable, "-c", IMPORT])) for _ in range(5)]  # noqa: S603
    print(f"{'import':14} median {statistics.median(times):6.3f} s of CPU")


if __name__ == "__main__":
    main()
