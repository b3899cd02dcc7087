"""Retrieval of demonstrations: `python benchmarks/retrieval.py [exact|speed|memory|writers]`, by default all of them.

exact    300 queries over 5,000 entries, in both directions: the same answers as a full scan, or the run fails
speed    10,000 entries of 2 kB: CPU time of a query, and of a full scan by rapidfuzz in turn with it
memory   100,000 entries of 2 kB: the largest resident size of a process that asks, and the time that it takes
writers  eight processes that add 1,000 entries each, three of them ended by `kill -9`: what was acknowledged is there

Entries are made from a seed: `logs` are one log with other names and numbers, `words` random words, `letters` random
letters. The five entries of a group are each a common text with 5 to 25 edits. `near` asks for a run that is as
near to a group as its members are, `novel` for one that is near to nothing, `capped` for that with max_distance 0.1.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rapidfuzz.distance.Levenshtein import distance

from guardagent import Demonstration
from guardagent.programs.memory import sqlite
from guardagent.programs.memory.agents import load_agent, store_demonstrations
from guardagent.programs.memory.retrieval import DemonstrationCollection, Query, nearest

K, GROUP, SIZE = 3, 5, 2000
SIGNS = "abcdefghijklmnopqrstuvwxyz 0123456789"
PLAN = ("the request", "the input", "the output", "compare in Python")
WORDS = ["".join(random.Random(number).choices(SIGNS[:26], k=2 + number % 9)) for number in range(1500)]  # noqa: S311
Make = Callable[[random.Random], tuple[str, str]]
Run = tuple[str, str]


def letters(rng: random.Random) -> Run:
    return "".join(rng.choices(SIGNS, k=200)), "".join(rng.choices(SIGNS, k=SIZE - 200))


def words(rng: random.Random) -> Run:
    text = " ".join(rng.choices(WORDS, k=SIZE // 4))
    return text[:200], text[200:SIZE]


def logs(rng: random.Random) -> Run:
    def step(number: int) -> str:
        patient, table = rng.randrange(100_000), rng.choice(["lab", "vitals", "cost", "diagnosis", "medication"])
        return f"step {number}: load({table!r}); filter patientunitstayid=={patient}; {rng.randrange(200)} rows\n"

    log = "".join(step(number) for number in range(40))
    return f"Identity: nursing\nQuestion: what was last measured for patient {rng.randrange(100_000)}?", log[:SIZE]


KINDS: dict[str, Make] = {"logs": logs, "words": words, "letters": letters}


def edited(text: str, edits: int, rng: random.Random) -> str:
    signs = list(text)
    for _ in range(edits):
        at = rng.randrange(len(signs) + 1)
        signs[at : at + rng.randrange(2)] = rng.choice(SIGNS) * rng.randrange(2)
    return "".join(signs)


def like(run: Run, rng: random.Random) -> Run:
    return edited(run[0], rng.randrange(1, 6), rng), edited(run[1], rng.randrange(4, 20), rng)


def entries(count: int, make: Make, seed: int = 1) -> Iterator[Demonstration]:
    rng = random.Random(seed)  # noqa: S311 - test data
    for start in range(0, count, GROUP):
        base = make(rng)
        for number in range(start, min(start + GROUP, count)):
            yield Demonstration(*like(base, rng), PLAN, f"pass  # {number}")


def scan(items: Sequence[Demonstration], query: Query) -> list[Demonstration]:
    """Runs all of them."""
    every = []
    for item in items:
        far = distance(item.agent_input, query.agent_input) + distance(item.agent_output, query.agent_output)
        every.append(query.neighbour(item, far))
    every.sort(key=lambda neighbour: -neighbour.distance if query.least_similar else neighbour.distance)
    return [neighbour.demonstration for neighbour in every if query.admits(neighbour.distance, neighbour.greatest)][
        : query.k
    ]


def nearest_demonstrations(memory: Sequence[Demonstration], query: Query) -> list[Demonstration]:
    return [neighbour.demonstration for neighbour in nearest(memory, query)]


def timed(work: Callable[[], list[Demonstration]]) -> tuple[list[Demonstration], float]:
    """(result, CPU seconds)."""
    started = time.process_time()
    demonstrations = work()
    return demonstrations, time.process_time() - started


def filled(folder: Path, items: Sequence[Demonstration]) -> DemonstrationCollection:
    store = sqlite.Store(f"sqlite:{folder / 'demonstrations.db'}")
    for start in range(0, len(items), 1000):
        store.add(items[start : start + 1000])
    return DemonstrationCollection((), store)


def exact() -> None:
    rng = random.Random(2)  # noqa: S311
    items = [entry for kind in KINDS.values() for entry in entries(5000 // 3 + 1, kind)][:5000]
    items = [Demonstration(d.agent_input[:99], d.agent_output[: rng.randrange(400)], d.plan, d.code) for d in items]
    with tempfile.TemporaryDirectory() as folder:
        kept = filled(Path(folder), items)
        for number in range(300):
            choice = rng.choice(items)
            run = like((choice.agent_input, choice.agent_output), rng) if number % 2 else words(rng)
            cap = rng.random() if number % 3 == 0 else None
            query = Query(*run, k=rng.randrange(12), least_similar=number % 5 == 0, max_distance=cap)
            expected = scan(items, query)
            for memory in (items, kept):
                assert nearest_demonstrations(memory, query) == expected, number
    print("exact: 300 queries over 5,000 entries, as a list and in a database: all as a full scan")


def speed() -> None:
    print(f"{'10,000 of':10} {'asked':7} {'full scan':>10} {'list':>9} {'database':>9} {'ratio':>6} {'ratio':>6}")
    for name, make in KINDS.items():
        items = list(entries(10_000, make))
        with tempfile.TemporaryDirectory() as folder:
            kept = filled(Path(folder), items)
            for kind, queries in _queries(items, make).items():
                rows = [_times(items, kept, query) for query in queries]
                full, listed, stored = (1000 * statistics.median(column) for column in zip(*rows, strict=True))
                times = f"{full:7.0f} ms {listed:6.1f} ms {stored:6.1f} ms"
                print(f"{name:10} {kind:7} {times} {full / listed:5.0f}x {full / stored:5.0f}x", flush=True)


def _queries(items: Sequence[Demonstration], make: Make) -> dict[str, list[Query]]:
    rng = random.Random(3)  # noqa: S311
    chosen = [items[GROUP * rng.randrange(2000)] for _ in range(3)]
    near = [Query(*like((demonstration.agent_input, demonstration.agent_output), rng), K) for demonstration in chosen]
    novel = [Query(*make(rng), K) for _ in range(3)]
    return {"near": near, "novel": novel, "capped": [replace(query, max_distance=0.1) for query in novel]}


def _times(items: Sequence[Demonstration], kept: DemonstrationCollection, query: Query) -> list[float]:
    """Seconds of a full scan, of a list and of a database, which have to find the same."""
    scanned, full = timed(partial(scan, items, query))
    times = [full]
    for memory in (items, kept):
        nearest_demonstrations(memory, replace(query, k=1))  # what is built once
        rounds = [timed(partial(nearest_demonstrations, memory, query)) for _ in range(3)]
        assert all(answer == scanned for answer, _ in rounds)
        times.append(statistics.median(took for _, took in rounds))
    return times


def memory() -> None:
    """In a process that does nothing else: the parent only fills the database."""
    with tempfile.TemporaryDirectory() as folder:
        store = sqlite.Store(f"sqlite:{folder}/demonstrations.db")
        portion: list[Demonstration] = []
        for entry in entries(100_000, logs):
            portion.append(entry)
            if len(portion) == 1000:
                store.add(portion)
                portion.clear()
        size = sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e6
        print(f"memory: 100,000 entries, {size:.0f} MB on disk")
        subprocess.run([sys.executable, __file__, "_asks", folder], check=True)  # noqa: S603


def _asks(folder: str) -> None:
    kept, before = DemonstrationCollection((), sqlite.Store(f"sqlite:{folder}/demonstrations.db")), _resident()
    first = next(iter(kept))
    query = like((first.agent_input, first.agent_output), random.Random(4))  # noqa: S311
    for name, query_run in {"first": query, "near": query, "novel": logs(random.Random(5))}.items():  # noqa: S311
        _, took = timed(partial(nearest_demonstrations, kept, Query(*query_run, K)))
        print(
            f"memory: {name:5} query {took:6.3f} s; at most {_resident():.0f} MB ({before:.0f} before all)", flush=True
        )


def _resident() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3


def writers() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "agent"
        folder.mkdir()
        (folder / "request.md").write_text("Nothing secret.")
        (folder / "specification.md").write_text("An agent.")
        started = time.perf_counter()
        command = [sys.executable, __file__, "_writes", str(folder)]
        running = [subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE, text=True) for number in range(8)]  # noqa: S603
        time.sleep(1)
        for process in running[:3]:
            time.sleep(2)
            os.kill(process.pid, signal.SIGKILL)
        lines = [line for process in running for line in process.communicate()[0].splitlines(keepends=True)]
        acknowledged = {line.strip() for line in lines if line.endswith("\n")}
        took = time.perf_counter() - started
        there = {demonstration.code for demonstration in load_agent(folder).demonstrations}
        lost = acknowledged - there
        print(f"writers: {len(acknowledged)} acknowledged, {len(there)} there, {len(lost)} lost; {took:.0f} s")
        assert not lost
        assert len(there) - len(acknowledged) <= 3  # written, and killed before the acknowledgement


def _writes(folder: str, writer: str) -> None:
    rng = random.Random(int(writer))  # noqa: S311
    for number in range(1000):
        code = f"pass  # {writer} {number}"
        store_demonstrations(Path(folder), [Demonstration(*logs(rng), PLAN, code)])
        print(code, flush=True)


if __name__ == "__main__":
    chosen = sys.argv[1:2] or ["exact", "speed", "memory", "writers"]
    for part in chosen:
        globals()[part](*sys.argv[2:])
