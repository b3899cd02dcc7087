"""Traces in random files, and the verdicts of an engine on them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from guardagent.batch.arrow.bundle import PolicyBundle
from guardagent.batch.arrow.output import AuditSummary
from guardagent.batch.arrow.run import run_audit
from guardagent.batch.arrow.splits import find_files
from tests.shop import LOGIN, call, trace, write_lines, write_policies

EVENTS = st.sampled_from(
    [LOGIN, call("refund", amount=5, order=1), call("refund", amount=500, order="é"), call("receipt", order=1)]
)
TRACES = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.lists(EVENTS), max_size=12)


def write_files(folder: Path, traces: Mapping[str, Sequence[Mapping[str, Any]]], random: Random) -> None:
    """Writes each trace as a whole or by events, in random files and in random order, with lines that are no traces."""
    folder.mkdir(exist_ok=True)
    lines: list[Any] = ["{", {"tool": "refund"}] * random.randrange(3)
    rows: list[dict[str, Any]] = []
    for name, events in traces.items():
        if random.random() < 0.4:
            lines.append(trace(name, *events))
        else:
            for position, event in enumerate(events):
                random.choice([lines, rows]).append({"trace": name, "position": position, **event})
    for number, part in enumerate(_in_parts(lines, random)):
        write_lines(folder / f"{number}.jsonl", *part)
    for number, part in enumerate(_in_parts(rows, random)):
        write_parquet(folder / f"{number}.parquet", part)


def _in_parts(items: list[Any], random: Random) -> list[list[Any]]:
    count = random.randint(1, 3)
    random.shuffle(items)
    return [items[start::count] for start in range(count)]


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    names = ("trace", "position", "tool", "args", "output")
    columns = {name: [row[name] for row in rows] for name in names}
    columns |= {name: [json.dumps(value) for value in columns[name]] for name in ("args", "output")}
    kinds = {"position": pa.int64()}
    pq.write_table(pa.table({name: pa.array(columns[name], kinds.get(name, pa.string())) for name in names}), path)


def audit(folder: Path, out: Path, engine: str, partitions: int = 4, **options: Any) -> AuditSummary:
    """Runs an audit of the files with the policies of the shop, unless there are other `policies`."""
    policies = options.pop("policies", None) or PolicyBundle.of([write_policies(folder.parent)])
    resume, arguments = options.pop("resume", False), options.pop("options", {})
    return run_audit(
        find_files([str(folder)]),
        policies,
        str(out),
        engine=engine,
        options=arguments,
        partitions=partitions,
        resume=resume,
    )


def verdicts(out: Path) -> dict[str, list[str]]:
    """The rows of each part, apart from the time that judging took."""
    parts = {}
    for path in sorted(out.glob("part-*.parquet")):
        rows = pq.read_table(path).drop_columns(["elapsed_ms"]).to_pylist()
        parts[path.name] = sorted(json.dumps(row) for row in rows)
    return parts
