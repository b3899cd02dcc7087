"""An audit over tables says what sessions say, however the events are spread over files."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from guardagent.batch.arrow.judge import judge
from guardagent.batch.arrow.rows import rows_of
from guardagent.batch.arrow.source_files import find_files, splits_of
from guardagent.errors import InputError
from tests.batch.arrow.logs import POLICY, conversations, events_of, write_lines, write_table
from tests.batch.arrow.runs import audit, bundle_of, expected, verdicts
from tests.tiers import examples, slow_after

RECORDS = conversations(1, 60)


def test_verdicts_are_those_of_sessions(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, POLICY)
    write_lines(tmp_path / "log.jsonl", RECORDS)
    summary = audit([tmp_path / "log.jsonl"], bundle, tmp_path / "out")
    judged, wanted = verdicts(tmp_path / "out"), expected(bundle.policies(), RECORDS)
    assert {trace: {name: row[name] for name in wanted[trace]} for trace, row in judged.items()} == wanted
    assert (summary.traces, summary.events) == (60, sum(len(record["events"]) for record in RECORDS))
    assert summary.status == 1
    assert summary.violated["small"] == sum("small" in row["rules"] for row in judged.values()) > 0


@pytest.mark.parametrize("kind", slow_after(1, ["events", "table"]))
def test_events_in_any_format_are_the_same_traces(tmp_path: Path, kind: str) -> None:
    bundle = bundle_of(tmp_path, POLICY)
    write_lines(tmp_path / "log.jsonl", RECORDS)
    events = events_of(RECORDS)
    random.Random(3).shuffle(events)  # noqa: S311 - the same order every time
    folder = tmp_path / "events"
    folder.mkdir()
    for number in range(3):
        if kind == "events":
            write_lines(folder / f"{number}.jsonl", events[number::3])
        else:
            write_table(folder / f"{number}.parquet", events[number::3])
    audit([tmp_path / "log.jsonl"], bundle, tmp_path / "one")
    audit([folder], bundle, tmp_path / "other", options={"workers": "2"})
    assert verdicts(tmp_path / "one") == verdicts(tmp_path / "other")


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_partition_and_order_gives_the_same_verdicts(tmp_path: Path, data: st.DataObject) -> None:
    """Whichever file an event is in, whole traces or single events, the judge gets the same conversations."""
    records = conversations(data.draw(st.integers(0, 10**6)), 5)
    bundle = bundle_of(tmp_path, POLICY)
    rows: list[Any] = []
    for record in records:
        rows += events_of([record]) if data.draw(st.booleans()) else [record]
    rows = data.draw(st.permutations(rows))
    places = [data.draw(st.integers(0, 2)) for _ in rows]
    for number in range(3):
        write_lines(tmp_path / f"{number}.jsonl", [row for row, at in zip(rows, places, strict=True) if at == number])
    size = data.draw(st.integers(40, 2000))
    splits = splits_of(find_files([str(tmp_path / "*.jsonl")]), size)
    batches = [batch for split in splits for batch in rows_of(split)]
    import pyarrow as pa

    table = pa.Table.from_batches(batches).sort_by("trace")
    judged_rows = [row for batch in judge(table.to_batches(3), bundle) for row in batch.to_pylist()]
    wanted = expected(bundle.policies(), records)
    assert {row["trace"]: {name: row[name] for name in wanted[row["trace"]]} for row in judged_rows} == wanted


def test_a_trace_that_is_delivered_twice_counts_once(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, POLICY)
    write_lines(tmp_path / "a.jsonl", RECORDS)
    write_lines(tmp_path / "b.jsonl", RECORDS[:30])
    positioned = [{**event, "position": at} for at, event in enumerate(events_of(RECORDS[:9]))]
    write_lines(tmp_path / "c.jsonl", [*positioned, *positioned[::2]])
    audit([tmp_path / "a.jsonl"], bundle, tmp_path / "once")
    audit([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], bundle, tmp_path / "twice")
    audit([tmp_path / "c.jsonl"], bundle, tmp_path / "events")
    once = verdicts(tmp_path / "once")
    assert once == verdicts(tmp_path / "twice")
    assert verdicts(tmp_path / "events") == {record["id"]: once[record["id"]] for record in RECORDS[:9]}


def test_rows_that_are_not_adjacent_are_refused(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, POLICY)
    write_lines(tmp_path / "log.jsonl", [*events_of(RECORDS[:2]), *events_of(RECORDS[:1])])
    [split] = splits_of(find_files([str(tmp_path / "log.jsonl")]))
    with pytest.raises(InputError, match="'t0' are not adjacent"):
        list(judge(rows_of(split), bundle))


COUNTED = """\
version: 1
counters:
  refunds: {on: refund(order=o), key: o}
policies:
  - {id: once, temporal: 'forall(refund(order=o), counter(refunds, o) < 1)'}
"""


def test_counters_see_all_conversations_in_the_order_of_time(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, COUNTED)
    refund = {"tool": "refund", "args": {"order": "#1"}, "failed": False}
    rows = [{"trace": name, "time": time, **refund} for name, time in [("late", 30.0), ("early", 10.0), ("last", 40.0)]]
    write_lines(tmp_path / "log.jsonl", rows)
    audit([tmp_path / "log.jsonl"], bundle, tmp_path / "out")
    assert {trace: row["label"] for trace, row in verdicts(tmp_path / "out").items()} == {
        "early": 0,
        "late": 1,
        "last": 1,
    }
    with pytest.raises(InputError, match="counts across conversations"):
        audit([tmp_path / "log.jsonl"], bundle, tmp_path / "other", partitions=4)
