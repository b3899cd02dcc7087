"""`guardagent audit` over tables: exit status, output, and options that do not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.batch.arrow.logs import POLICY, conversations, events_of, write_lines, write_table
from tests.conftest import Cli


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "p.yaml").write_text(POLICY)
    (tmp_path / "log").mkdir()
    events = events_of(conversations(2, 20))
    write_lines(tmp_path / "log" / "a.jsonl", events[::2])
    write_table(tmp_path / "log" / "b.parquet", events[1::2])
    return tmp_path / "log"


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([{"trace": "a", "tool": "login", "args": {}}], 0),
        ([{"trace": "a", "tool": "refund", "args": {"order": "x", "amount": 1}}], 1),
        ([{"trace": "a", "tool": "refund", "args": {"order": "x", "amount": None}}, {"trace": "b", "tool": "read"}], 3),
        ([{"trace": "a", "tool": 5}, {"trace": "b", "tool": "refund"}], 2),
    ],
)
def test_the_worst_trace_is_the_exit_status(cli: Cli, tmp_path: Path, lines: list[object], status: int) -> None:
    (tmp_path / "p.yaml").write_text(POLICY)
    write_lines(tmp_path / "log.jsonl", lines)  # type: ignore[arg-type]
    for options in ([], ["--json"], ["--out", tmp_path / "out"]):
        command = ("audit", tmp_path / "log.jsonl", "-p", tmp_path / "p.yaml", "--engine", "local", "--workers", "1")
        result = cli(*command, *options)
        assert result.status == status, result.err
    result = cli(
        "audit",
        tmp_path / "log.jsonl",
        "-p",
        tmp_path / "p.yaml",
        "--out",
        tmp_path / "out",
        "--engine=local",
        "--resume",
    )
    assert result.status == status, "a finished run says the same again"


def test_json_rows_are_those_of_a_file_of_traces(cli: Cli, tmp_path: Path, log: Path) -> None:
    """Text of strangers is shown without control characters."""
    policy = tmp_path / "p.yaml"
    write_lines(tmp_path / "log.jsonl", [*conversations(2, 20), {"id": "\x1b[2Jx", "events": [{"tool": "refund"}]}])
    plain = cli("audit", tmp_path / "log.jsonl", "-p", policy, "--json")
    tables = cli("audit", tmp_path / "log.jsonl", "-p", policy, "--json", "--engine", "local", "--workers", "1")
    wanted = {row["id"]: row for row in map(json.loads, plain.out.splitlines())}
    rows = {row["id"]: row for row in map(json.loads, tables.out.splitlines())}
    shared = ("label", "decision", "reasons", "errors", "rules")
    assert {name: [row[key] for key in shared] for name, row in rows.items()} == {
        name: [row[key] for key in shared] for name, row in wanted.items()
    }
    text = cli("audit", log, tmp_path / "log.jsonl", "-p", policy)
    assert "\x1b[2J" not in text.out
    assert "21 traces" in text.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "sparc"], "unknown engine 'sparc'"),
        (["--engine-options", "workers"], "has no value; expected NAME=VALUE"),
        (["--engine-options", "worker=2"], "unknown option 'worker' of the engine 'local'; did you mean 'workers'"),
        (["--engine-options", "workers=no"], "expected a number of processes"),
        (["--where", "day=1"], "has no partition column 'day'"),
        (["--resume"], "needs '--out FOLDER'"),
        (["--format", "jsom"], "trace format 'jsom'"),
    ],
)
def test_options_that_do_not_fit(cli: Cli, tmp_path: Path, log: Path, options: list[str], message: str) -> None:
    result = cli("audit", log, "-p", tmp_path / "p.yaml", *options)
    assert (result.status, result.out) == (2, "")
    assert message in result.err


def test_options_for_tables_need_tables(cli: Cli, tmp_path: Path, log: Path) -> None:
    write_lines(log / "traces.jsonl", conversations(2, 2))
    result = cli("audit", log / "traces.jsonl", "-p", tmp_path / "p.yaml", "--where", "day=1")
    assert result.status == 2
    assert "'--where' is for tables; expected '--engine' too" in result.err
