"""Conversations for audits: as JSON Lines of traces, JSON Lines of events, or tables of events."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

POLICY = """\
version: 1
failed_output: "^Error"
policies:
  - {id: login_first, temporal: 'G(tool:refund -> O tool:login)', message: Log in first.}
  - {id: order_was_read, temporal: 'before(refund(order=o), True, f:read(order=o), True)', message: Read the order.}
  - {id: small, temporal: 'forall(refund(amount=a), a <= 100)', on_violation: escalate, message: At most 100.}
  - {id: receipt, temporal: 'after(refund(order=o), True, f:receipt(order=o), True)', message: Send a receipt.}
"""

Record = dict[str, Any]


def conversations(seed: int, count: int) -> list[Record]:
    """Whole traces with a time for each event, which is never the same twice in a trace."""
    chance = random.Random(seed)  # noqa: S311 - the same traces every time
    return [
        {"id": f"t{number}", "events": list(_events(chance)), "task": f"task {number % 7}", "success": number % 3 > 0}
        for number in range(count)
    ]


def _events(chance: random.Random) -> Iterator[Record]:
    time = 1_790_000_000 + chance.randrange(10**6)
    for _ in range(chance.randrange(1, 9)):
        time += chance.randrange(1, 500)
        tool = chance.choice(["login", "read", "refund", "receipt", "search"])
        args: Record = {"order": f"#{chance.randrange(3)}"} if tool != "login" else {}
        if tool == "refund":
            args["amount"] = chance.choice([10, 100, 101, 12345678901234567890])
        yield {"tool": tool, "args": args, "output": chance.choice(["done", "Error: no", {"n": 1.5}]), "time": time}


def events_of(records: Sequence[Record]) -> list[Record]:
    """The events of traces, each with its trace."""
    return [
        {"trace": record["id"], "task": record["task"], "success": record["success"], **event}
        for record in records
        for event in record["events"]
    ]


def write_lines(path: Path, rows: Sequence[Record]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_table(path: Path, events: Sequence[Record], **columns: Any) -> None:
    """Writes events as Parquet, with their values as JSON."""
    rows = [{**event, "args": json.dumps(event["args"]), "output": json.dumps(event["output"])} for event in events]
    table = pa.Table.from_pylist(rows)
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    pq.write_table(table, path, row_group_size=50)
