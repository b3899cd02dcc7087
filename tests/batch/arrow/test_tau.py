"""The public cases of tau-bench as traces: tables say what sessions say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from guardagent.batch.arrow.bundle import PolicyBundle
from guardagent.batch.audit import judge_trace
from guardagent.batch.records import trace_of
from tests.batch.arrow.logs import write_lines
from tests.batch.arrow.runs import audit, verdicts

ROOT = Path(__file__).parents[3]
CASES = {"retail": "retail.yaml", "airline": "airline.yaml", "airline by solver": "airline-solver.yaml"}


def traces(file: Path) -> list[dict[str, Any]]:
    """The history of each case and its proposed call, as a trace."""
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [
        {
            "id": row["id"],
            "events": [*row["history"], row["proposed"]],
            "state": row.get("state") or {},
            "facts": {"user_confirmed": row.get("user_confirmed"), "context": row.get("context") or {}},
        }
        for row in rows
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_tables_of_cases_are_judged_as_by_sessions(tmp_path: Path, shared: Path, name: str) -> None:
    bundle = PolicyBundle.of([ROOT / "benchmarks" / "tau" / CASES[name]])
    records, policies = traces(shared / "tau" / f"{name.split(maxsplit=1)[0]}.jsonl"), bundle.policies()
    write_lines(tmp_path / "log.jsonl", records)
    events = [
        {"trace": one["id"], "position": at, "trace_state": one["state"], "trace_facts": one["facts"], **event}
        for one in records
        for at, event in enumerate(one["events"])
    ]
    for number in range(3):
        write_lines(tmp_path / f"events{number}.jsonl", events[number::3])
    audit([tmp_path / "log.jsonl"], bundle, tmp_path / "traces", options={"workers": "2"})
    audit([tmp_path / "events*.jsonl"], bundle, tmp_path / "events", options={"workers": "2"})
    found = verdicts(tmp_path / "traces")
    assert found == verdicts(tmp_path / "events")
    assert len(found) == len(records) > 100
    for record in records:
        verdict, row = judge_trace(policies, trace_of(record, policies.failed_output)), found[record["id"]]
        assert (row["decision"], row["rules"], row["errors"], row["reasons"]) == (
            str(verdict.decision),
            list(verdict.rules),
            list(verdict.errors),
            list(verdict.reasons),
        )
