"""pass^k and joint^k over the runs of each task.

pass^k is the chance that k runs of a task all succeed (tau-bench, arXiv 2406.12045). With c successes in n runs,
C(c, k) / C(n, k) estimates it without bias: the share of all choices of k runs that succeed. It is averaged over the
tasks with at least k runs. joint^k is the same for runs that succeed and violate nothing.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from math import comb

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from guardagent.batch.report.figures import PassRate, PassRates
from guardagent.batch.report.verdict_batch import VerdictBatch

MAX_K = 8
MAX_TASKS = 500_000
Runs = tuple[int, int, int]  # runs, successes, successes without a violation


class TaskRuns:
    """The runs of each task. If there are too many tasks, a sample of them by hash: each is in it as a whole."""

    def __init__(self, limit: int = MAX_TASKS) -> None:
        self._runs: dict[int, Runs] = {}
        self._unknown = 0
        self._level, self._limit = 0, limit

    def add(self, batch: VerdictBatch) -> None:
        success = batch.rows["success"]
        clean = (batch.per_row(batch.rules.rows) == 0) & ~batch.unchecked
        known = pc.and_(pc.is_valid(batch.rows["task"]), pc.is_valid(success))
        self._unknown += pc.sum(pc.and_not(pc.is_valid(batch.rows["task"]), pc.is_valid(success))).as_py() or 0
        passed = pc.fill_null(success, False)  # noqa: FBT003 - a value
        table = pa.table({
            "task": batch.rows["task"],
            "run": pa.array(np.ones(len(batch), dtype=np.int64)),
            "passed": passed.cast(pa.int64()),
            "joint": pc.and_(passed, pa.array(clean)).cast(pa.int64()),
        }).filter(known)  # fmt: skip
        grouped = table.group_by("task").aggregate([("run", "sum"), ("passed", "sum"), ("joint", "sum")])
        names = ("task", "run_sum", "passed_sum", "joint_sum")
        for task, *runs in zip(*(grouped[name].to_pylist() for name in names), strict=True):
            self._add(task, runs)

    def _add(self, task: str, more: list[int]) -> None:
        key = int.from_bytes(blake2b(task.encode("utf-8", "surrogatepass"), digest_size=8).digest())
        if key & ((1 << self._level) - 1):
            return
        runs, passed, joint = self._runs.get(key, (0, 0, 0))
        self._runs[key] = (runs + more[0], passed + more[1], joint + more[2])
        while len(self._runs) > self._limit:
            self._level += 1
            mask = (1 << self._level) - 1
            self._runs = {key: runs for key, runs in self._runs.items() if not key & mask}

    def rates(self) -> PassRates:
        kinds = Counter(self._runs.values())
        most = min(MAX_K, max((runs for runs, _, _ in kinds), default=0))
        return PassRates(
            tuple(_rate(kinds, k) for k in range(1, most + 1)),
            len(self._runs),
            sum(runs * tasks for (runs, _, _), tasks in kinds.items()),
            self._unknown,
            1 << self._level,
        )


def _rate(kinds: Counter[Runs], k: int) -> PassRate:
    enough = [(*kind, number) for kind, number in sorted(kinds.items()) if kind[0] >= k]
    tasks = sum(number for *_, number in enough)
    passed = sum(number * comb(passed, k) / comb(runs, k) for runs, passed, _, number in enough)
    joint = sum(number * comb(joint, k) / comb(runs, k) for runs, _, joint, number in enough)
    return PassRate(k, tasks, passed / tasks, joint / tasks)
