"""Runs audits over tables, and reads their verdicts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from guardagent.batch.arrow import run_work
from guardagent.batch.arrow.judge import AuditCounts, audit_work
from guardagent.batch.arrow.policy_bundle import PolicyBundle
from guardagent.batch.arrow.source_files import find_files
from guardagent.batch.arrow.work import AuditFolder
from guardagent.batch.audit import judge_trace
from guardagent.batch.records import read_trace
from guardagent.policy.policies import Policies

Row = dict[str, Any]


def bundle_of(folder: Path, policy: str, name: str = "policies.yaml") -> PolicyBundle:
    (folder / name).write_text(policy, encoding="utf-8")
    return PolicyBundle.of([folder / name])


def audit(
    paths: Sequence[Path | str],
    bundle: PolicyBundle,
    out: Path,
    engine: str = "local",
    options: Mapping[str, str] | None = None,
    **others: Any,
) -> AuditCounts:
    options = {"workers": "1"} if options is None and engine in ("local", "duckdb") else options
    files = find_files([str(path) for path in paths])
    return run_work(files, audit_work(bundle), str(out), engine=engine, options=options, **others)


def verdicts(out: Path) -> dict[str, Row]:
    """The verdict of each trace, without the time that it took."""
    rows = [
        {name: value for name, value in row.items() if name != "elapsed_ms"} for row in AuditFolder(str(out)).rows()
    ]
    by_trace = {row["trace"]: row for row in rows}
    assert len(by_trace) == len(rows), "one verdict for each trace"
    return by_trace


def expected(policies: Policies, records: Sequence[Row]) -> dict[str, Row]:
    """The verdict of a session on each trace, in the columns that depend on it."""
    expected = {}
    for record in records:
        verdict = judge_trace(policies, read_trace(json.dumps(record), "records", 1, policies.failed_output))
        expected[record["id"]] = {
            "decision": str(verdict.decision),
            "label": verdict.label,
            "rules": list(verdict.rules),
            "reasons": list(verdict.reasons),
            "errors": list(verdict.errors),
            "events": len(record["events"]),
            "task": record["task"],
            "success": record["success"],
            "started": record["events"][0]["time"],
            "ended": record["events"][-1]["time"],
        }
    return expected
