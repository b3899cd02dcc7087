"""A replay over tables finds the differences that a replay of the same traces in one file finds."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from functools import cache, reduce
from operator import add
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guardagent.batch.arrow.judge import ReplaySummary, replay_work
from guardagent.batch.arrow.policy_bundle import PolicyBundle
from guardagent.batch.arrow.rows import rows_of
from guardagent.batch.arrow.schema import DIFFERENCES, EVENTS
from guardagent.batch.arrow.source_files import find_files, splits_of
from guardagent.batch.arrow.work import AuditFolder, AuditJob, Work, judge_partition, partitions_of
from guardagent.batch.replay import DifferenceTable, ReplayReport, replay
from guardagent.batch.replay.conversation import NoModel, load_replay_policy
from tests.conftest import Cli, CommandResult, Write
from tests.tiers import examples

OLD = """\
version: 1
failed_output: ^Error
counters: {paid: {on: pay(n=n), sum: n}}
policies:
- {id: login, temporal: "G(tool:pay -> O tool:login)"}
- {id: small, temporal: "forall(pay(n=n), n <= 5)", on_violation: escalate}
- {id: receipt, temporal: "after(pay(n=n), n > 1, receipt(), true)"}
- {id: vip, temporal: "forall(pay(n=n), n <= 3 || fact(vip) == true)"}
- {id: total, temporal: "forall(pay(n=n), counter(paid) + n <= 9)"}
"""
NEW = """\
version: 1
unlisted: deny
policies:
- {id: login, temporal: "G(tool:pay -> O tool:login)", on_violation: warn}
- {id: small, temporal: "forall(pay(n=n), n <= 3)"}
- {id: receipt, temporal: "after(pay(n=n), true, receipt(), true)"}
- {id: polite, request: no rude words}
- {id: open, temporal: "forall(pay(n=n), state.open == true)"}
"""
EVENT = st.fixed_dictionaries(
    {"tool": st.sampled_from(["login", "pay", "receipt", "wipe"])},
    optional={
        "args": st.dictionaries(st.sampled_from("nx"), st.integers(0, 9) | st.none() | st.just({"deep": [1, {}]})),
        "output": st.sampled_from(["Error", "fine", None]),
        "failed": st.booleans(),
        "facts": st.fixed_dictionaries({"vip": st.booleans()}),
        "state": st.fixed_dictionaries({"open": st.booleans()}),
        "time": st.integers(0, 5),
    },
)
TRACE = st.fixed_dictionaries(
    {"events": st.lists(EVENT, min_size=1, max_size=5)},
    optional={"state": st.fixed_dictionaries({"open": st.booleans()}), "facts": st.just({"vip": True})},
)
UNREADABLE = st.just({"events": [{"tool": 5}]})


@cache
def folder_of_policies() -> Path:
    folder = Path(tempfile.mkdtemp())
    (folder / "old.yaml").write_text(OLD)
    (folder / "new.yaml").write_text(NEW)
    return folder


def of_file(path: Path) -> ReplayReport:
    policies = folder_of_policies()
    return replay(path, load_replay_policy(policies / "new.yaml"), load_replay_policy(policies / "old.yaml"))


@cache
def work() -> Work[ReplaySummary]:
    bundles = [PolicyBundle.of([folder_of_policies() / name], model=NoModel()) for name in ("new.yaml", "old.yaml")]
    return replay_work(*bundles)


def of_tables(folder: Path, partitions: int) -> ReplaySummary:
    """Runs the work as an engine does, in this process."""
    (out := folder / "out").mkdir()
    job = AuditJob(tuple(splits_of(find_files([str(folder / "in")]))), work(), partitions, AuditFolder(str(out)))
    table = pa.Table.from_batches([batch for split in job.splits for batch in rows_of(split)], EVENTS)
    numbers = pa.chunked_array([partitions_of(batch, partitions) for batch in table.to_batches()])
    for number in range(partitions):
        judge_partition(job, number, table.filter(pc.equal(numbers, number)).sort_by("trace").to_batches())
    return reduce(add, job.folder.finished(ReplaySummary).values())


def events_of(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a trace as records of their own, last event first."""
    whole = {f"trace_{name}": trace[name] for name in ("state", "facts") if name in trace}
    records = [{"trace": trace["id"], "position": at, **event, **whole} for at, event in enumerate(trace["events"])]
    return records[::-1]


def lines(records: Sequence[Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def rules(table: DifferenceTable, *, examples: bool) -> dict[str, Any]:
    rows = {rule: row.to_dict() for rule, row in table.rows.items() if row.differs or row.undecidable}
    kept = [name for name in next(iter(rows.values()), {}) if examples or name in ("differs", "undecidable", "changes")]
    return {rule: {name: row[name] for name in kept} for rule, row in rows.items()}


@settings(max_examples=examples(30))
@given(st.lists(TRACE | TRACE | UNREADABLE, min_size=1, max_size=8), st.booleans(), st.sampled_from([1, 3]))
def test_tables_give_the_differences_of_a_file(traces: list[dict[str, Any]], whole: bool, partitions: int) -> None:
    """Whole traces or single events, with any number of partitions; with one, the examples are the same too."""
    traces = [{"id": f"t{number}", **trace} for number, trace in enumerate(traces)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        (folder / "one.jsonl").write_text(lines(traces))
        records = traces if whole else [event for trace in traces for event in events_of(trace)]
        for at in (0, 1):
            (folder / "in" / f"{at}.jsonl").write_text(lines(records[at::2]))
        expected, replayed = of_file(folder / "one.jsonl"), of_tables(folder, partitions)
        results = ds.dataset(folder / "out", format="parquet").to_table()
    assert (replayed.traces - replayed.unreadable, replayed.unreadable) == (
        expected.conversations,
        len(expected.problems),
    )
    has_examples = partitions == 1
    assert rules(replayed.table, examples=has_examples) == rules(expected.table, examples=has_examples)
    counts = [{**replayed.table.to_dict(), "rules": None}, {**expected.table.to_dict(), "rules": None}]
    assert counts[0] == counts[1]
    assert results.schema.equals(DIFFERENCES)
    assert (pc.sum(results["differs"]).as_py() or 0) == sum(row.differs for row in expected.table.rows.values())


# --- the command

PAID = {"id": "b", "events": [{"tool": "login", "failed": False}, {"tool": "pay", "args": {"n": 4, "x": {"y": [1]}}}]}
QUIET = {"id": "a", "events": [{"tool": "receipt"}]}
SMALL = "version: 1\npolicies:\n- {id: small, temporal: 'forall(pay(n=n), n <= 5)'}\n"
STRICT = SMALL.replace("5", "3")
CLOSED = SMALL + "- {id: polite, request: no rude words}\n"


@pytest.fixture
def compare(cli: Cli, tmp_path: Path) -> Cli:
    """Runs the command on policies and traces."""

    def run(candidate: str, *arguments: object, against: str = SMALL) -> CommandResult:
        (tmp_path / "old.yaml").write_text(against)
        (tmp_path / "new.yaml").write_text(candidate)
        return cli("replay", "-p", tmp_path / "new.yaml", "--against", tmp_path / "old.yaml", *arguments)

    return run


@pytest.mark.slow
def test_the_command_prints_the_same_for_a_file_and_for_tables(compare: Cli, write: Write, tmp_path: Path) -> None:
    """Also for Parquet files, and after a part was lost."""
    log_file = write("one.jsonl", lines([QUIET, PAID]))
    rows = [{"args": None, **event} for event in events_of(PAID)] + events_of(QUIET)
    for number, row in enumerate(rows):
        texts = {name: json.dumps(value) if name == "args" and value else value for name, value in row.items()}
        pq.write_table(pa.Table.from_pylist([texts], EVENTS), write(f"in/{number}.parquet", b""))
    out = tmp_path / "out"
    options = ("--engine", "local", "--engine-options", "workers=1", "--partitions", 2, "--out", out)
    for more in ((), ("--json",)):
        expected = compare(STRICT, log_file, *more)
        strict_compare = compare(STRICT, tmp_path / "in", *options, "--resume", *more)
        assert (strict_compare.status, strict_compare.out) == (expected.status, expected.out) == (1, expected.out)
        assert expected.err in strict_compare.err
        (out / "part-00001.parquet").unlink()
    assert "small: 1 x allow -> deny" in compare(STRICT, tmp_path / "in").out
    assert "already holds results" in compare(STRICT, tmp_path / "in", *options).err
    assert "other policies" in compare(SMALL, tmp_path / "in", *options, "--resume").err


@pytest.mark.parametrize(
    ("candidate", "line", "status"), [(SMALL, "", 0), (CLOSED, "", 3), (SMALL, '{"id": "x", "events": 3}\n', 2)]
)
def test_exit_statuses(compare: Cli, write: Write, candidate: str, line: str, status: int) -> None:
    path = write("one.jsonl", lines([PAID]) + line)
    for options in ((), ("--engine", "local", "--engine-options", "workers=1")):
        done = compare(candidate, path, *options)
        assert done.status == status, done.err
        assert ("events" in done.err) == (status == 2)


def test_options_that_do_not_fit_are_refused(compare: Cli, cli: Cli, write: Write) -> None:
    path = write("one.jsonl", lines([PAID]))
    assert "'--alias' is for audit logs" in compare(SMALL, path, "--engine", "local", "--alias", "a=b").err
    assert "'--out' is for tables" in compare(SMALL, path, "--out", "x").err
    assert "needs '--out FOLDER'" in compare(SMALL, path, "--engine", "local", "--resume").err
    alone = cli("replay", path, "-p", write("old.yaml", SMALL), "--engine", "local")
    assert (alone.status, "expected '--against FILE'" in alone.err) == (2, True)


def test_another_command_does_not_continue_the_run(compare: Cli, cli: Cli, write: Write, tmp_path: Path) -> None:
    path, options = write("one.jsonl", lines([PAID])), ("--engine", "local", "--out", tmp_path / "out")
    assert compare(STRICT, path, *options, "--engine-options", "workers=1").status == 1
    done = cli("audit", path, "-p", tmp_path / "new.yaml", *options, "--resume")
    assert (done.status, "another command" in done.err) == (2, True)


@pytest.mark.parametrize("depth", [600, 5000])
def test_a_trace_that_is_nested_too_deep_is_an_error(depth: int) -> None:
    """The other traces are compared."""
    args = ('{"n": ' + "[" * depth + "]" * depth + "}", '{"n": 4}')
    rows = [{"trace": trace, "tool": "pay", "args": text} for trace, text in zip("ab", args, strict=True)]
    ((batch, summary),) = work().results([pa.RecordBatch.from_pylist(rows, EVENTS)])
    broken, *others = batch.to_pylist()
    assert (broken["trace"], broken["rule"], "nested too deep" in broken["error"]) == ("a", None, True)
    assert {row["trace"] for row in others} == {"b"}
    assert (summary.traces, summary.unreadable) == (2, 1)
