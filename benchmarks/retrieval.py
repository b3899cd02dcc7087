"""Retrieval of demonstrations: `python benchmarks/retrieval.py [exact|speed|memory|writers]`, by default all of them.

exact    300 queries over 5,000 entries, in both directions: the same answers as a full scan, or the run fails
speed    10,000 entries of 2 kB: CPU time of a query, and of a full scan by rapidfuzz in turn with it
memory   100,000 entries of 2 kB: the largest resident size of a process that asks, and the time that it takes
writers  eight processes that add 1,000 entries each, of which three are ended by `kill -9`: what was acknowledged is there

Entries are made from a seed: `logs` are one log with other names and numbers, `words` are random words, `letters` random
letters. Each entry of a group of five is another one of that group with 5 to 25 edits. `near` asks for a run that is as
near to a group as its members are, `novel` for one that is near to nothing.
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
from pathlib import Path
from typing import Any

from rapidfuzz.distance.Levenshtein import distance

from guardagent import Demonstration, retrieve
from guardagent.additions import grow
from guardagent.memory import load_agent
from guardagent.retrieval import Kept
from guardagent.retrieval.sqlite import Backend

K, GROUP, SIZE = 3, 5, 2000
SIGNS = "abcdefghijklmnopqrstuvwxyz 0123456789"
PLAN = ("the request", "the input", "the output", "compare in Python")
Make = Callable[[random.Random], tuple[str, str]]
Query = tuple[str, str]


def letters(rng: random.Random) -> Query:
    return "".join(rng.choices(SIGNS, k=200)), "".join(rng.choices(SIGNS, k=SIZE - 200))


def words(rng: random.Random) -> Query:
    known = ["".join(random.Random(number).choices(SIGNS[:26], k=2 + number % 9)) for number in range(1500)]  # noqa: S311
    text = " ".join(rng.choices(known, k=SIZE // 4))
    return text[:200], text[200:SIZE]


def logs(rng: random.Random) -> Query:
    def step(number: int) -> str:
        patient, table = rng.randrange(100_000), rng.choice(["lab", "vitals", "cost", "diagnosis", "medication"])
        return f"step {number}: load({table!r}); filter patientunitstayid=={patient}; {rng.randrange(200)} rows\n"

    log = "".join(step(number) for number in range(40))
    return f"Identity: nursing\nQuestion: what was last measured for patient {rng.randrange(100_000)}?", log[:SIZE]


KINDS: dict[str, Make] = {"logs": logs, "words": words, "letters": letters}


def edited(text: str, edits: int, rng: random.Random) -> str:
    signs = list(text)
    for _ in range(edits):
        at = rng.randrange(len(signs))
        signs[at : at + rng.randrange(2)] = rng.choice(SIGNS) * rng.randrange(2)
    return "".join(signs)


def like(run: Query, rng: random.Random) -> Query:
    return edited(run[0], rng.randrange(1, 6), rng), edited(run[1], rng.randrange(4, 20), rng)


def entries(count: int, make: Make, seed: int = 1) -> Iterator[Demonstration]:
    rng = random.Random(seed)  # noqa: S311 - test data
    for start in range(0, count, GROUP):
        base = make(rng)
        for number in range(start, min(start + GROUP, count)):
            yield Demonstration(*like(base, rng), PLAN, f"pass  # {number}")


def scan(items: Sequence[Demonstration], query: Query, k: int, *, least_similar: bool = False) -> list[Demonstration]:
    """Every one of them."""

    def rank(item: Demonstration) -> int:
        total = distance(item.agent_input, query[0]) + distance(item.agent_output, query[1])
        return -total if least_similar else total

    return sorted(items, key=rank)[:k]


def seconds(work: Callable[[], Any]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def filled(folder: Path, items: Sequence[Demonstration]) -> Kept:
    store = Backend(f"sqlite:{folder / 'demonstrations.db'}")
    for start in range(0, len(items), 1000):
        store.add(items[start : start + 1000])
    return Kept((), store)


def exact() -> None:
    rng = random.Random(2)  # noqa: S311
    items = [one for kind in KINDS.values() for one in entries(5000 // 3 + 1, kind)][:5000]
    items = [Demonstration(d.agent_input[:99], d.agent_output[: rng.randrange(400)], d.plan, d.code) for d in items]
    with tempfile.TemporaryDirectory() as folder:
        kept = filled(Path(folder), items)
        for number in range(300):
            chosen = rng.choice(items)
            query = like((chosen.agent_input, chosen.agent_output or "x"), rng) if number % 2 else words(rng)
            k, least = rng.randrange(12), number % 5 == 0
            expected = scan(items, query, k, least_similar=least)
            for memory in (items, kept):
                assert retrieve(memory, *query, k, least_similar=least) == expected, number
    print("exact: 300 queries over 5,000 entries, as a list and in a database: all as a full scan")


def speed() -> None:
    print(f"{'10,000 of':10} {'asked':6} {'full scan':>10} {'list':>9} {'database':>9} {'ratio':>6} {'ratio':>6}")
    for name, make in KINDS.items():
        rng, items = random.Random(3), list(entries(10_000, make))  # noqa: S311
        with tempfile.TemporaryDirectory() as folder:
            kept = filled(Path(folder), items)
            for asked in ("near", "novel"):
                groups = [items[GROUP * rng.randrange(2000)] for _ in range(7)]
                queries = [like((d.agent_input, d.agent_output), rng) if asked == "near" else make(rng) for d in groups]
                rows = [_times(items, kept, query) for query in queries]
                full, listed, stored = (1000 * statistics.median(column) for column in zip(*rows, strict=True))
                times = f"{full:7.0f} ms {listed:6.1f} ms {stored:6.1f} ms"
                print(f"{name:10} {asked:6} {times} {full / listed:5.0f}x {full / stored:5.0f}x", flush=True)


def _times(items: Sequence[Demonstration], kept: Kept, query: Query) -> list[float]:
    for memory in (items, kept):
        retrieve(memory, *query, 1)  # what is built once
    assert retrieve(items, *query, K) == retrieve(kept, *query, K) == scan(items, query, K)
    full = seconds(lambda: scan(items, query, K))
    return [
        full,
        *(statistics.median(seconds(lambda m=m: retrieve(m, *query, K)) for _ in range(5)) for m in (items, kept)),
    ]


def memory() -> None:
    """In a process that does nothing else: the parent only fills the database."""
    with tempfile.TemporaryDirectory() as folder:
        store = Backend(f"sqlite:{folder}/demonstrations.db")
        portion: list[Demonstration] = []
        for one in entries(100_000, logs):
            portion.append(one)
            if len(portion) == 1000:
                store.add(portion)
                portion.clear()
        size = sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e6
        print(f"memory: 100,000 entries, {size:.0f} MB on disk")
        subprocess.run([sys.executable, __file__, "_asks", folder], check=True)  # noqa: S603


def _asks(folder: str) -> None:
    store = Backend(f"sqlite:{folder}/demonstrations.db")
    before = _resident()
    first = next(iter(store))
    query = like((first.agent_input, first.agent_output), random.Random(4))  # noqa: S311
    load = seconds(lambda: retrieve(Kept((), store), *query, K))
    again = seconds(lambda: retrieve(Kept((), store), *query, K))
    print(
        f"memory: first query {load:.2f} s, another {again * 1000:.0f} ms; at most {_resident():.0f} MB, {before:.0f} before"
    )
    store.nearest(*logs(random.Random(5)), K)  # noqa: S311
    print(f"memory: at most {_resident():.0f} MB after a novel query")


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
        running = [subprocess.Popen([*command, str(one)], stdout=subprocess.PIPE, text=True) for one in range(8)]  # noqa: S603
        time.sleep(1)
        for one in running[:3]:
            time.sleep(2)
            os.kill(one.pid, signal.SIGKILL)
        said = [line for one in running for line in one.communicate()[0].splitlines(keepends=True)]
        acknowledged = {line.strip() for line in said if line.endswith("\n")}
        took = time.perf_counter() - started
        there = {one.code for one in load_agent(folder).demonstrations}
        lost = acknowledged - there
        print(f"writers: {len(acknowledged)} acknowledged, {len(there)} there, {len(lost)} lost; {took:.0f} s")
        assert not lost
        assert len(there) - len(acknowledged) <= 3  # written, and killed before it was said


def _writes(folder: str, writer: str) -> None:
    rng = random.Random(int(writer))  # noqa: S311
    for number in range(1000):
        code = f"pass  # {writer} {number}"
        grow(Path(folder), [Demonstration(*logs(rng), PLAN, code)])
        print(code, flush=True)


if __name__ == "__main__":
    chosen = sys.argv[1:2] or ["exact", "speed", "memory", "writers"]
    for part in chosen:
        globals()[part](*sys.argv[2:])
