"""The public cases of tau-bench as traces: tables say what sessions say."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent.batch.audit import judge_trace
from guardagent.batch.records import trace_of
from tests.batch.arrow.logs import write_lines
from tests.batch.arrow.runs import audit, verdicts
from tests.batch.arrow.tau import CASES, read_cases, write_cases


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_tables_of_cases_are_judged_as_by_sessions(tmp_path: Path, shared: Path, name: str) -> None:
    bundle, files = write_cases(tmp_path / "log", shared, name)
    records, policies = read_cases(shared, name), bundle.policies()
    write_lines(tmp_path / "log.jsonl", records)
    audit([tmp_path / "log.jsonl"], bundle, tmp_path / "traces", options={"workers": "2"})
    audit(files, bundle, tmp_path / "events", options={"workers": "2"})
    by_trace = verdicts(tmp_path / "traces")
    assert by_trace == verdicts(tmp_path / "events")
    assert len(by_trace) == len(records) > 100
    for record in records:
        verdict, row = judge_trace(policies, trace_of(record, policies.failed_output)), by_trace[record["id"]]
        assert (row["decision"], row["rules"], row["errors"], row["reasons"]) == (
            str(verdict.decision),
            list(verdict.rules),
            list(verdict.errors),
            list(verdict.reasons),
        )
