"""Results of audits, for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from guardagent.batch.arrow.schema import VERDICTS

RULES = (("login_first", True), ("lookup_first", True), ("small_refunds", False), ("receipt", False))
MONDAY = 1_777_852_800.0  # 2026-05-04, in week 19
Found = tuple[str, int | None]  # a rule and an event


def verdict(trace: str | None, *violations: Found, decision: str | None = None, **more: Any) -> dict[str, Any]:
    """A verdict with violations, all of which are listed; `more` replaces other columns."""
    rules = sorted({rule for rule, _ in violations})
    chosen = decision or ("deny" if violations else "allow")
    counts = [{"rule": rule, "count": sum(violation == rule for violation, _ in violations)} for rule in rules]
    listed = [{"rule": rule, "event": at, "message": f"{rule} at {at}", "evidence": "{}"} for rule, at in violations]
    row: dict[str, Any] = {
        "trace": trace, "decision": chosen, "label": int(chosen not in ("allow", "warn")), "rules": rules,
        "reasons": [], "violations": listed, "counts": counts, "errors": [], "events": 4, "started": MONDAY,
        "ended": MONDAY + 60, "task": None, "success": None, "elapsed_ms": 2.0, "error": None, "source": None,
    }  # fmt: skip
    return {**row, **more}


def unreadable(trace: str | None = None) -> dict[str, Any]:
    """A row without a verdict."""
    return dict.fromkeys(VERDICTS.names) | {"trace": trace, "label": 1, "error": "not JSON", "source": "a:1"}


def write_manifest(folder: Path, partitions: int = 1, **more: Any) -> Path:
    folder.mkdir(exist_ok=True)
    rules = [{"id": rule, "message": f"keep {rule}", "order": order} for rule, order in RULES]
    values = {"guardagent_audit": 1, "partitions": partitions, "rules": rules, "engine": "local", **more}
    (folder / "_audit.json").write_text(json.dumps(values))
    return folder


def write_part(folder: Path, number: int, rows: Sequence[dict[str, Any]], schema: pa.Schema = VERDICTS) -> Path:
    path = folder / f"part-{number:05}.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    return path


def results(folder: Path, *parts: Sequence[dict[str, Any]]) -> Path:
    """Writes a complete audit with some parts."""
    write_manifest(folder, len(parts))
    for number, rows in enumerate(parts):
        write_part(folder, number, rows)
    return folder
