"""Rows that cannot be read are an error of their trace, or of the run; never an allowance."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import math
import os
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from guardagent.batch.arrow import run_work
from guardagent.batch.arrow.judge import audit_work
from guardagent.batch.arrow.policy_bundle import PolicyBundle
from guardagent.batch.arrow.rows import rows_of
from guardagent.batch.arrow.source_files import PartitionFilter, Split, find_files
from guardagent.errors import InputError, UnknownNameError
from tests.batch.arrow.logs import POLICY, conversations, events_of, write_lines, write_table
from tests.batch.arrow.readers.test_otel import agent, call, export
from tests.batch.arrow.runs import audit, bundle_of, verdicts

STRING, INTEGER, DECIMAL = pa.string(), pa.int64(), pa.decimal128(10, 2)
LOGIN = {"trace": "t", "tool": "login", "args": {}}


def rows_of_lines(folder: Path, *lines: str | dict[str, Any]) -> dict[str | None, Any]:
    """The rows of an audit of these lines."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (folder / "log.jsonl").write_text("\n".join(texts), encoding="utf-8")
    summary = audit([folder / "log.jsonl"], bundle_of(folder, POLICY), folder / "out")
    rows: dict[str | None, Any] = dict(verdicts(folder / "out").items())
    assert summary.unreadable == sum(row["error"] is not None for row in rows.values())
    return rows


@pytest.mark.parametrize(
    ("line", "trace", "error"),
    [
        ("{", None, "the line at byte"),
        ("[]", None, "not an object"),
        ('{"tool": "refund"}', None, "has no 'trace'"),
        ('{"events": []}', None, "has no 'id'"),
        ('{"trace": ["t"], "tool": "refund"}', None, "has no 'trace'"),
        ('{"trace": "\\ud800", "tool": "refund"}', None, "is not valid Unicode"),
        ('{"trace": "t", "tool": "refund", "arguments": {}}', "t", "did you mean 'args'"),
        ('{"trace": "t", "tool": "refund", "args": {"a": 1, "a": 2}}', "t", "twice"),
        ('{"trace": "t", "tool": "refund", "args": {"a": NaN}}', "t", "NaN"),
        ('{"trace": "t", "tool": "refund", "failed": fals', "t", "the line at byte"),
        ('{"tool": "refund", "trace": "t", "failed": fals', None, "the line at byte"),
        ('{"trace": "\\ud800", "failed": fals', None, "the line at byte"),
        ('{"trace": "t", "tool": 3}', "t", "'tool'|tool: is"),
        ('{"trace": "t"}', "t", "has no content"),
        ('{"trace": "t", "tool": "a", "time": "noon"}', "t", "time"),
        ('{"id": "t", "events": [{"tool": "refund", "args": []}]}', "t", "args"),
        ('{"trace": "t", "tool": "a", "args": ' + '{"a":' * 3000 + "1" + "}" * 3000 + "}", "t", "nested too deep"),
        ('{"trace": "t", "tool": "a", "principal": {"name": "x"}}', "t", "principal"),
    ],
)
def test_an_unreadable_line_is_an_error_of_its_trace(tmp_path: Path, line: str, trace: str | None, error: str) -> None:
    """The other traces are judged, and an error of one row is one of the whole trace."""
    rows = rows_of_lines(tmp_path, LOGIN, line, {**LOGIN, "trace": "other"})
    assert rows[trace]["error"] is not None
    assert (rows[trace]["label"], rows[trace]["decision"]) == (1, None)
    assert re.search(error, rows[trace]["error"]), rows[trace]["error"]
    assert rows["other"]["decision"] == "allow"


def test_half_of_a_surrogate_pair_is_shown_as_its_escape(tmp_path: Path) -> None:
    row = rows_of_lines(tmp_path, {**LOGIN, "task": "\ud800", "tool": "refund", "args": {"order": "\udfff"}})["t"]
    assert row["task"] == "\\ud800"
    assert "order_was_read" in row["rules"]


def test_events_whose_order_is_unknown_are_an_error(tmp_path: Path) -> None:
    for name, times in (("a", [1.0, None]), ("b", [2.0, 2.0])):
        rows = [{**LOGIN, "trace": name, "tool": f"tool{at}", "time": time} for at, time in enumerate(times)]
        for at, row in enumerate(rows):
            write_lines(tmp_path / f"{name}{at}.jsonl", [row])
    audit([tmp_path / "*.jsonl"], bundle_of(tmp_path, POLICY), tmp_path / "out")
    by_trace = verdicts(tmp_path / "out")
    assert "come from several files" in by_trace["a"]["error"]
    assert "different events have the time 2.0" in by_trace["b"]["error"]


def test_rows_that_contradict_each_other_are_an_error(tmp_path: Path) -> None:
    rows = [{**LOGIN, "principal": {"id": name}} for name in ("ann", "bob")]
    assert "different values of 'principal'" in rows_of_lines(tmp_path, *rows)["t"]["error"]


def test_a_corrupt_file_ends_the_run(tmp_path: Path) -> None:
    """Its rows may belong to any trace."""
    write_table(tmp_path / "good.parquet", events_of(conversations(1, 9)))
    data = (tmp_path / "good.parquet").read_bytes()
    bundle = bundle_of(tmp_path, POLICY)
    for bad in (data[:-9], data[: len(data) // 2], b"", data[:100] + b"\0" * 400 + data[500:]):
        (tmp_path / "bad.parquet").write_bytes(bad)
        with pytest.raises(InputError, match=r"bad\.parquet: cannot be read as Parquet"):
            audit([tmp_path / "good.parquet", tmp_path / "bad.parquet"], bundle, tmp_path / f"out{len(bad)}")


def test_a_corrupt_compressed_file_ends_the_run(tmp_path: Path) -> None:
    data = gzip.compress(b"".join(json.dumps({**LOGIN, "trace": f"t{at}"}).encode() + b"\n" for at in range(999)))
    bundle = bundle_of(tmp_path, POLICY)
    for at, bad in enumerate((data[:-20], data[:60] + b"\0" * 40 + data[100:], b"no gzip")):
        (tmp_path / "log.jsonl.gz").write_bytes(bad)
        with pytest.raises(InputError, match=r"log\.jsonl\.gz: cannot be read"):
            audit([tmp_path / "log.jsonl.gz"], bundle, tmp_path / f"out{at}")


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"trace": ["t"]}, "expected 'trace', and 'tool'"),
        ({"tool": ["a"]}, "expected 'trace', and 'tool'"),
        ({"trace": ["t"], "tool": ["a"], "argz": ["{}"]}, "did you mean 'args'"),
        ({"trace": ["t"], "tool": ["a"], "arguments": ["{}"]}, "did you mean 'args'"),
        ({"trace": ["t"], "tool": [3]}, "'tool' is of the type int64"),
        ({"trace": ["t"], "tool": ["a"], "time": pa.array([0], pa.timestamp("us"))}, "with its zone"),
        ({"trace": ["t"], "tool": ["a"], "failed": ["no"]}, "'failed' is of the type string"),
        ({"trace": ["t"], "tool": ["a"], "args": pa.array([{"a": b"x"}])}, "'args'"),
    ],
)
def test_columns_that_are_missing_or_of_another_type_end_the_run(
    tmp_path: Path, columns: dict[str, Any], error: str
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    with pytest.raises(InputError, match=error):
        audit([tmp_path / "log.parquet"], bundle_of(tmp_path, POLICY), tmp_path / "out")


def test_columns_of_similar_types(tmp_path: Path) -> None:
    """Arguments as structs, times with a zone, names as a dictionary. A null in a struct is an absent argument."""
    kind = pa.struct([("order", pa.string()), ("amount", pa.int64()), ("note", pa.string())])
    args = pa.array([{}, {"order": "#1"}, {"order": "#1", "amount": 100}, {"order": "#1"}], kind)
    columns = {
        "trace": pa.array([7] * 4),
        "tool": pa.array(["login", "read", "refund", "receipt"]).dictionary_encode(),
        "args": args,
        "output": pa.array(['"ok"'] * 4, pa.large_string()),
        "time": pa.array([4, 3, 2, 1], pa.timestamp("ms", "Europe/Berlin")),
        "tags": pa.array([["x"]] * 4),
    }
    bundle = bundle_of(tmp_path, POLICY)
    pq.write_table(pa.table({name: column[::-1] for name, column in columns.items()}), tmp_path / "log.parquet")
    audit([tmp_path / "log.parquet"], bundle, tmp_path / "out")
    row = verdicts(tmp_path / "out")["7"]
    assert row["rules"] == ["login_first", "order_was_read", "receipt"], "times decide, not the order in the file"
    assert (row["started"], row["ended"]) == (0.001, 0.004)


NOON = dt.datetime(2026, 1, 31, 12, 0, tzinfo=dt.UTC)
ARGS = {
    "amount": Decimal("19.99"),
    "number": 3,
    "by": {"name": "Ann"},
    "items": [{"code": "a", "note": None}],
    "at": NOON,
}


def args_type(amount: Any = DECIMAL, number: Any = INTEGER, name: Any = STRING, zone: str = "UTC", **kinds: Any) -> Any:
    by = kinds.get("by", pa.struct([("name", name)]))
    items = kinds.get("items", pa.list_)(pa.struct([("code", name), ("note", name)]))
    unit = kinds.get("unit", "us")
    fields = [("amount", amount), ("number", number), ("by", by), ("items", items), ("at", pa.timestamp(unit, zone))]
    return pa.struct([*fields, ("absent", pa.struct([("x", INTEGER)]))])


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (args_type(), {}),
        (args_type(pa.float32()), {}),
        (args_type(pa.float64(), pa.uint8()), {}),
        (args_type(pa.decimal256(40, 18), pa.uint64()), {}),
        (args_type(pa.decimal32(6, 2), pa.decimal128(20, 0)), {}),
        (args_type(name=pa.large_string(), items=pa.large_list), {}),
        (args_type(by=pa.map_(STRING, STRING), zone="Europe/Berlin", unit="ms"), {}),
        (args_type(items=lambda item: pa.list_(item, 1), unit="ns"), {}),
        (args_type(), {"use_deprecated_int96_timestamps": True}),
    ],
)
def test_types_that_writers_choose_for_the_same_values(tmp_path: Path, kind: Any, options: dict[str, Any]) -> None:
    """Decimals, unsigned numbers, maps, zones, Spark's times and null structs give the same arguments."""
    table = pa.table({
        "trace": pa.array(["t"]).dictionary_encode(), "tool": pa.array(["pay"], pa.large_string()),
        "args": pa.array([as_type(ARGS, kind)], kind), "time": pa.array([NOON], pa.timestamp("us", "UTC")),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "log.parquet", **options)
    (batch,) = rows_of(Split(str(tmp_path / "log.parquet"), "parquet", 0, 1))
    (row,) = batch.to_pylist()
    expected = {"amount": 19.99, "number": 3, "by": {"name": "Ann"}, "items": [{"code": "a"}]}
    assert json.loads(row["args"]) == {**expected, "at": "2026-01-31T12:00:00+00:00"}
    assert (row["time"], row["error"]) == (NOON.timestamp(), None)


@pytest.mark.parametrize("encoding", ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "PLAIN"])
def test_every_encoding_of_traces_is_read(tmp_path: Path, encoding: str) -> None:
    """DuckDB's second version of Parquet writes strings by their lengths."""
    table = pa.table({"trace": ["t"], "tool": ["login"]})
    pq.write_table(table, tmp_path / "log.parquet", use_dictionary=False, column_encoding={"trace": encoding})
    audit([tmp_path / "log.parquet"], bundle_of(tmp_path, POLICY), tmp_path / "out")
    assert verdicts(tmp_path / "out")["t"]["decision"] == "allow"


def as_type(values: dict[str, Any], kind: Any) -> dict[str, Any]:
    """Values as pyarrow takes them for a type."""
    as_number = {True: Decimal, False: float}[pa.types.is_decimal(kind.field("amount").type)]
    by = values["by"] if pa.types.is_struct(kind.field("by").type) else list(values["by"].items())
    return {**values, "amount": as_number(str(values["amount"])), "by": by}


@pytest.mark.parametrize(
    ("values", "kind", "problem"),
    [
        ([1.5, math.nan], pa.float64(), "nan is not a JSON value"),
        ([1.5, math.inf], pa.float32(), "inf is not a JSON value"),
        ([Decimal(1), Decimal("12345678901234567.89")], pa.decimal128(30, 2), "12345678901234567.89 has more digits"),
        ([[("a", 1)], [("a", 1), ("a", 2)]], pa.map_(STRING, INTEGER), "key 'a' appears twice"),
    ],
)
def test_a_value_that_json_lacks_is_an_error_of_its_row(tmp_path: Path, values: Any, kind: Any, problem: str) -> None:
    """The other rows of the file are judged."""
    nested = pa.array([{"x": value} for value in values], pa.struct([("x", kind)]))
    pq.write_table(pa.table({"trace": ["a", "b"], "tool": ["login"] * 2, "args": nested}), tmp_path / "log.parquet")
    audit([tmp_path / "log.parquet"], bundle_of(tmp_path, POLICY), tmp_path / "out")
    by_trace = verdicts(tmp_path / "out")
    assert f"args: {problem}" in by_trace["b"]["error"]
    assert by_trace["a"]["decision"] == "allow"


def test_values_that_are_not_json_are_an_error_of_their_trace(tmp_path: Path) -> None:
    table = pa.table(
        {"trace": ["a", "b"], "tool": ["login"] * 2, "args": ["{}", "{'x'}"], "time": ["2026-01-31T09:30:00Z", None]}
    )
    pq.write_table(table, tmp_path / "log.parquet")
    audit([tmp_path / "log.parquet"], bundle_of(tmp_path, POLICY), tmp_path / "out")
    by_trace = verdicts(tmp_path / "out")
    assert by_trace["a"]["decision"] == "allow"
    assert "args: not JSON" in by_trace["b"]["error"]


def test_partition_filters_choose_whole_files(tmp_path: Path) -> None:
    for day in ("2026-10-31", "2026-11-01", "2026-11-02"):
        (tmp_path / "log" / f"date={day}").mkdir(parents=True)
        write_lines(tmp_path / "log" / f"date={day}" / "events.jsonl", [{**LOGIN, "trace": day}])
    (tmp_path / "log" / "_SUCCESS").touch()

    def selected(*filters: str) -> list[str]:
        files = find_files([str(tmp_path / "log")], filters=[PartitionFilter.parse(condition) for condition in filters])
        return [Path(file.path).parent.name[-2:] for file in files]

    assert selected("date>=2026-11-01") == ["01", "02"]
    assert selected("date!=2026-11-01", "date<2026-11-02") == ["31"]
    with pytest.raises(InputError, match="no partition column 'dat'; did you mean 'date'"):
        selected("dat=1")
    with pytest.raises(InputError, match="expected COLUMN=VALUE"):
        selected("date")
    with pytest.raises(InputError, match="no file to read"):
        selected("date=2027-01-01")


def test_columns_that_are_not_in_the_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "tool=refund").mkdir()
    write_lines(tmp_path / "tool=refund" / "log.jsonl", [{"trace": "t", "action": "pay"}])
    with pytest.raises(InputError, match="'tool' is a partition column"):
        find_files([str(tmp_path)])


def test_results_of_an_audit_are_no_events(tmp_path: Path) -> None:
    write_lines(tmp_path / "log.jsonl", [LOGIN])
    bundle = bundle_of(tmp_path, POLICY)
    audit([tmp_path / "log.jsonl"], bundle, tmp_path / "results")
    with pytest.raises(InputError, match="holds the verdicts of an audit"):
        audit([tmp_path / "results"], bundle, tmp_path / "again")


def test_files_of_an_unknown_format_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match=r"notes.txt: has an unknown format"):
        find_files([str(tmp_path)])
    (tmp_path / "notes.txt").rename(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl"))
    with pytest.raises(InputError, match="is not UTF-8"):
        find_files([str(tmp_path)])
    with pytest.raises(InputError, match="no file to read"):
        find_files([str(tmp_path / "missing")])
    with pytest.raises(InputError, match="cannot be read"):
        find_files(["nosuch://bucket/x"])


def test_a_bundle_is_checked_where_it_is_loaded(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, POLICY)
    other = bundle_of(tmp_path, POLICY.replace("100", "200"), "other.yaml")
    with pytest.raises(InputError, match="changed on its way"):
        replace(bundle, archive=other.archive).policies()
    with pytest.raises(InputError, match="expected 0\\.0, as where the run was started"):
        replace(bundle, version="0.0").policies()
    mixed = replace(bundle, archive=other.archive, archive_digest=other.archive_digest, files=other.files)
    with pytest.raises(InputError, match="policies differ on this worker"):
        mixed.policies()


def test_a_bundle_has_everything_that_the_policies_refer_to(tmp_path: Path) -> None:
    """An included file, and a toolbox with a private module."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "_limits.py").write_text("LIMIT = 5\n")
    (tmp_path / "tools" / "limits.py").write_text(
        'from ._limits import LIMIT\n\n\ndef limit(state: dict) -> int:\n    """The limit."""\n    return LIMIT\n'
    )
    (tmp_path / "common.yaml").write_text(POLICY)
    (tmp_path / "policies.yaml").write_text(
        "version: 1\ninclude: [common.yaml]\ntoolbox: [tools/limits.py]\n"
        "policies: [{id: own, temporal: 'forall(refund(amount=a), a <= state.limit)'}]\n"
    )
    bundle = PolicyBundle.of([tmp_path / "policies.yaml"])
    for path in sorted(tmp_path.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    assert "own" in replace(bundle).policies().ids
    (tmp_path / "asks.yaml").write_text("version: 1\npolicies: [{id: r, request: Be kind.}]\n")
    with pytest.raises(InputError, match="a request needs a program or a model"):
        PolicyBundle.of([tmp_path / "asks.yaml"])


# --- traces of other systems are audited like others, also if a trace is in several files


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
