"""Cost of audits over tables, beside a plain loop over sessions and a bare scan of the same rows.

`python -m benchmarks.tables [--events N ...] [--engines local,duckdb,spark,ray] [--workers N] [--folder DIR]
[--violating SHARE]` writes a log of N events (default: 100,000 and a million) as JSON Lines of traces and as Parquet of
events, in several files and in no order. With a share, the other traces keep all rules. Then it runs each of these in
processes of its own, and prints CPU and elapsed time, throughput and the peak memory of all processes together:

- `scan`: reads all columns of the Parquet files with pyarrow, and does nothing with them;
- `query`: finds the traces that break one of the five rules by a query of DuckDB, if that is installed;
- `loop`: reads the JSON Lines, and replays each trace through a session, in one process;
- `lines`: `guardagent audit` on the JSON Lines, line by line;
- the engines, on JSON Lines and on Parquet.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.audit import POLICIES, events

_FILES = 8
_LENGTH = 50  # events of a trace, on average
_SCAN = """\
import sys, pyarrow.dataset as ds
print(sum(batch.num_rows for batch in ds.dataset(sys.argv[1], format="parquet").to_batches()))
"""
_QUERY = """\
import sys, duckdb
print(duckdb.connect(config={"threads": int(sys.argv[2])}).execute('''
WITH calls AS (
    SELECT trace, time, tool, args->>'$.order_id' AS order_id, output FROM read_parquet(?)
    WHERE tool IN ('refund', 'get_order')
)
SELECT count(DISTINCT refund.trace) FROM calls refund WHERE refund.tool = 'refund' AND NOT EXISTS (
    SELECT 1 FROM calls look_up WHERE look_up.tool = 'get_order' AND look_up.trace = refund.trace
    AND look_up.order_id = refund.order_id AND look_up.time < refund.time
    AND (look_up.output::JSON->>'$')::JSON->>'$.status' = 'delivered'
)''', [sys.argv[1] + "/*.parquet"]).fetchall())
"""
_LOOP = """\
import sys
from pathlib import Path
from guardagent import load_policies
from guardagent.batch.records import read_trace
policies = load_policies(sys.argv[2])
for path in Path(sys.argv[1]).iterdir():
    for number, line in enumerate(path.open(), 1):
        trace = read_trace(line, path, number, policies.failed_output)
        session = policies.session(trace.state, trace.facts, clock=lambda: None)
        for step in trace.steps:
            session.observe(step.event, step.state, step.facts)
        session.finish()
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a command: seconds of CPU in all of its processes, elapsed seconds, and peak memory in MB."""

    cpu: float
    elapsed: float
    peak: int


def compliant(chance: random.Random, count: int) -> Iterator[dict[str, Any]]:
    """A conversation that keeps all rules, with about a number of calls."""
    calls, refunds = list(events(chance, count)), 0
    for call, earlier in zip(calls, [{}, *calls], strict=False):
        if call["tool"] != "refund":
            yield call
        elif refunds < 2 and "delivered" in earlier.get("output", ""):
            refunds += 1
            yield {**call, "args": {**call["args"], "amount": call["args"]["amount"] % 400}}
            yield {"tool": "send_receipt", "args": {"order_id": call["args"]["order_id"]}, "output": "done"}


def write_logs(folder: Path, total: int, violating: float) -> None:
    """Writes the same events twice: as traces in `lines`, and as events in `parquet`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    chance = random.Random(5)  # noqa: S311 - the same log every time
    for name in ("lines", "parquet"):
        (folder / name).mkdir(parents=True)
    rows: list[dict[str, object]] = []
    files = [(folder / "lines" / f"{number}.jsonl").open("w", encoding="utf-8") for number in range(_FILES)]
    written = traces = 0
    part = 0
    while written < total:
        count = min(total - written, 1 + int(chance.expovariate(1 / _LENGTH)))
        start = 1_790_000_000 + chance.randrange(30 * 86_400)
        kind = events if chance.random() < violating else compliant
        trace_events = [{**event, "time": start + at} for at, event in enumerate(kind(chance, count))]
        files[traces % _FILES].write(json.dumps({"id": f"t{traces}", "events": trace_events}) + "\n")
        rows += [
            {**event, "trace": f"t{traces}", "args": json.dumps(event["args"]), "output": json.dumps(event["output"])}
            for event in trace_events
        ]
        written, traces = written + len(trace_events), traces + 1
        if len(rows) >= 200_000 or written >= total:
            chance.shuffle(rows)
            pq.write_table(pa.Table.from_pylist(rows), folder / "parquet" / f"{part}.parquet")
            rows, part = [], part + 1
    for file in files:
        file.close()


def run(command: list[str]) -> Cost:
    """Runs a command to its end."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)  # noqa: S603
    peak = [0]
    watch = threading.Thread(target=_watch, args=(process, peak), daemon=True)
    watch.start()
    error = process.communicate()[1]
    watch.join()
    if process.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}: exit {process.returncode}: {error[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(cpu, time.perf_counter() - started, peak[0])


def _watch(process: subprocess.Popen[str], peak: list[int]) -> None:
    while process.poll() is None:
        try:
            root = psutil.Process(process.pid)
            resident = sum(child.memory_info().rss for child in [root, *root.children(recursive=True)])
        except psutil.Error:
            continue
        peak[0] = max(peak[0], resident // 10**6)
        time.sleep(0.05)


def commands(folder: Path, engines: list[str], workers: int) -> Iterator[tuple[str, list[str]]]:
    """Yields the name of each measurement and its command."""
    lines, parquet, policy = folder / "lines", folder / "parquet", str(folder / "policies.yaml")
    (folder / "all.jsonl").write_bytes(b"".join(path.read_bytes() for path in sorted(lines.iterdir())))
    audit = [sys.executable, "-m", "guardagent", "audit", "-p", policy]
    yield "scan", [sys.executable, "-c", _SCAN, str(parquet)]
    if importlib.util.find_spec("duckdb"):
        yield "query", [sys.executable, "-c", _QUERY, str(parquet), str(workers)]
    yield "loop", [sys.executable, "-c", _LOOP, str(lines), policy]
    yield "lines", [*audit, str(folder / "all.jsonl"), "--workers", str(workers), "--out", str(folder / "out.jsonl")]
    for engine in engines:
        size = ["--workers", str(workers)] if engine in ("local", "duckdb") else []
        options = {"spark": ["--engine-options", f"master=local[{workers}]"]}.get(engine, [])
        for kind, path in (("lines", lines), ("parquet", parquet)):
            out = folder / f"out-{engine}-{kind}"
            yield f"{engine}, {kind}", [*audit, str(path), "--engine", engine, *size, *options, "--out", str(out)]


def measure(folder: Path, total: int, engines: list[str], workers: int, violating: float) -> None:
    """Prints a table of all measurements for a number of events."""
    write_logs(folder, total, violating)
    (folder / "policies.yaml").write_text(POLICIES)
    print(f"\n{total:,} events\n{'':18}{'CPU s':>9}{'s':>9}{'events/s':>12}{'us CPU/event':>14}{'MB':>8}")
    for name, command in commands(folder, engines, workers):
        cost = run(command)
        rate, each = total / cost.elapsed, cost.cpu / total * 1e6
        print(f"{name:18}{cost.cpu:9.1f}{cost.elapsed:9.1f}{rate:12,.0f}{each:14.2f}{cost.peak:8,}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--engines", default="local")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--violating", type=float, default=1.0, help="the share of traces that may break rules")
    parser.add_argument("--folder", type=Path, help="where the logs are written; by default a temporary folder")
    arguments = parser.parse_args()
    for total in arguments.events:
        folder = Path(tempfile.mkdtemp(prefix="tables-", dir=arguments.folder))
        try:
            measure(folder, total, arguments.engines.split(","), arguments.workers, arguments.violating)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
