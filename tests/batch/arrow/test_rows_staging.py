"""Traces of other systems are audited like others, also if a trace is in several files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from guardagent.batch.arrow import run_work
from guardagent.batch.arrow.judge import audit_work
from guardagent.batch.arrow.source_files import find_files
from guardagent.errors import UnknownNameError
from tests.batch.arrow.logs import POLICY
from tests.batch.arrow.readers.test_otel import agent, call, export
from tests.batch.arrow.runs import bundle_of, verdicts


def test_spans_in_several_files_are_one_conversation(tmp_path: Path) -> None:
    login = call("a", "login", args="{}", result="welcome")
    refund = call("b", "refund", args='{"order": "#1", "amount": 5}', start=2)
    hidden = {**call("c", "refund", args=None), "traceId": "t2", "parentSpanId": ""}
    (tmp_path / "in").mkdir()
    for name, document in (("a.jsonl", export(refund, hidden)), ("b.json", [export(login), export(agent())])):
        (tmp_path / "in" / name).write_text(json.dumps(document))
    files = find_files([str(tmp_path / "in")], file_format="otel")
    work = audit_work(bundle_of(tmp_path, POLICY))
    counts = run_work(files, work, str(tmp_path / "out"), options={"workers": "1"})
    by_trace = verdicts(tmp_path / "out")
    assert by_trace["c1"]["rules"] == ["order_was_read", "receipt"], "the login came first"
    assert by_trace["c1"]["events"] == 2
    assert "were not recorded" in by_trace["t2"]["error"]
    assert (counts.traces, counts.unreadable, counts.status) == (2, 1, 2)


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="'otl'; did you mean 'otel'"):
        find_files([str(tmp_path)], file_format="otl")
