"""The cases that every engine passes. The tests of an engine run them in its environment."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from guardagent.batch.arrow import run_work
from guardagent.batch.arrow.judge import AuditCounts, audit_work
from guardagent.batch.arrow.policy_bundle import PolicyBundle
from guardagent.batch.arrow.source_files import find_files
from guardagent.errors import InputError, LimitError
from tests.batch.arrow.logs import POLICY, conversations, events_of, write_table
from tests.batch.arrow.runs import audit, bundle_of
from tests.batch.arrow.tau import CASES, write_cases
from tests.shop import call, trace, write_lines, write_policies

STOCK = 'def stock(state, item):\n    """The number of items in stock."""\n    '
KILL = "import os\nfrom pathlib import Path\n\n\n" + STOCK
BUY = trace("t", call("buy", item="pen", price=1), state={"stock": {"pen": 1}})


def write_scattered(folder: Path, seed: int, count: int) -> None:
    """Writes whole traces, events, rows of tables and unreadable lines to random files, in random order."""
    folder.mkdir()
    random = Random(seed)  # noqa: S311 - the same files every time
    lines: list[Any] = ["{", {"tool": "refund"}] * random.randrange(3)
    rows: list[Any] = []
    for record in conversations(seed, count):
        if random.random() < 0.4:
            lines.append(record)
            continue
        for event in events_of([record]):
            random.choice([lines, rows]).append(event)
    for number, part in enumerate(_in_parts(lines, random)):
        write_lines(folder / f"{number}.jsonl", *part)
    for number, part in enumerate(_in_parts(rows, random)):
        if part:
            write_table(folder / f"{number}.parquet", part)


def _in_parts(items: list[Any], random: Random) -> list[list[Any]]:
    count = random.randint(1, 3)
    random.shuffle(items)
    return [items[start::count] for start in range(count)]


def parts_of(out: Path) -> dict[str, list[str]]:
    """The rows of each part, without the time that judging took."""
    return {
        path.name: sorted(json.dumps(row) for row in pq.read_table(path).drop_columns(["elapsed_ms"]).to_pylist())
        for path in out.glob("part-*.parquet")
    }


class EngineCases:
    """A subclass names its engine, and starts it for all of its tests."""

    engine: str

    @settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
    @given(seed=st.integers(0, 10**6), count=st.integers(0, 20), partitions=st.integers(1, 9))
    def test_verdicts_are_those_of_the_local_engine(
        self, tmp_path_factory: pytest.TempPathFactory, seed: int, count: int, partitions: int
    ) -> None:
        """Row for row and part for part, in whatever files the events are."""
        folder = tmp_path_factory.mktemp("agreement")
        write_scattered(folder / "in", seed, count)
        bundle = bundle_of(folder, POLICY)
        expected = audit([folder / "in"], bundle, folder / "local", partitions=partitions)
        assert audit([folder / "in"], bundle, folder / "out", self.engine, partitions=partitions) == expected
        assert parts_of(folder / "out") == parts_of(folder / "local")

    def test_a_run_resumes_with_the_parts_that_are_missing(self, tmp_path: Path) -> None:
        """Also if another engine began it. The others stay as they are."""
        write_scattered(tmp_path / "in", 1, 40)
        bundle, out = bundle_of(tmp_path, POLICY), tmp_path / "out"
        whole = audit([tmp_path / "in"], bundle, out, partitions=7)
        before = parts_of(out)
        for number in (1, 2, 6):
            (out / f"part-{number:05}.parquet").unlink()
        kept = {path: path.stat().st_mtime_ns for path in out.glob("part-*")}
        assert audit([tmp_path / "in"], bundle, out, self.engine, resume=True) == whole
        assert parts_of(out) == before
        assert all(path.stat().st_mtime_ns == time for path, time in kept.items())

    def test_a_corrupt_file_is_named(self, tmp_path: Path) -> None:
        """Its footer is intact, so only a worker notices."""
        (tmp_path / "in").mkdir()
        path = tmp_path / "in" / "events.parquet"
        write_table(path, events_of(conversations(1, 100)))
        data = path.read_bytes()
        path.write_bytes(data[:4] + b"\xff" * 200 + data[204:])
        with pytest.raises(InputError, match=rf"(?s)^{re.escape(path.as_uri())}: cannot be read as Parquet: .*file$"):
            audit([tmp_path / "in"], bundle_of(tmp_path, POLICY), tmp_path / "out", self.engine)

    def test_the_public_cases_have_the_same_verdicts(self, tmp_path: Path, shared: Path) -> None:
        """Those of tau-bench, with state, facts and, where Z3 is installed, solver rules."""
        for name in CASES if find_spec("z3") else [name for name in CASES if "solver" not in name]:
            folder = tmp_path / name
            bundle, log = write_cases(folder, shared, name)
            audit(log, bundle, folder / "local", partitions=8)
            audit(log, bundle, folder / "out", self.engine, partitions=8)
            assert parts_of(folder / "out") == parts_of(folder / "local")

    def test_a_worker_with_another_version(self, tmp_path: Path) -> None:
        """It does not judge."""
        bundle = replace(PolicyBundle.of([write_policies(tmp_path)]), version="0.0.1")
        with pytest.raises(InputError, match=r"^this worker has GuardAgent .*; expected 0\.0\.1"):
            self.audit_one(tmp_path, bundle)

    def test_an_unknown_option_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=rf"^unknown option 'cores' of the engine '{self.engine}'"):
            self.audit_one(tmp_path, bundle_of(tmp_path, POLICY), {"cores": "2"})

    def audit_one(self, folder: Path, bundle: PolicyBundle, options: dict[str, str] | None = None) -> AuditCounts:
        path = write_lines(folder / "one.jsonl", BUY)
        return audit([path], bundle, folder / "out", self.engine, options or {}, partitions=1)


class ClusterCases(EngineCases):
    """Of an engine whose workers are not processes of this package."""

    def test_a_worker_without_the_import_of_a_toolbox(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The driver has the module: the error of the worker names it."""
        (tmp_path / "modules").mkdir()
        (tmp_path / "modules" / "only_on_the_driver.py").touch()
        monkeypatch.syspath_prepend(str(tmp_path / "modules"))
        bundle = with_toolbox(tmp_path, "import only_on_the_driver\n\n\n" + STOCK + "return 1\n")
        with pytest.raises(InputError, match=r"^\S*shop.py:1: running .*No module named 'only_on_the_driver'$"):
            self.audit_one(tmp_path, bundle)

    def test_the_work_of_a_killed_worker_is_done_by_another(self, tmp_path: Path) -> None:
        """The function kills its process the first time."""
        once = f"""if not Path({str(tmp_path / "killed")!r}).exists():
        Path({str(tmp_path / "killed")!r}).touch()
        os.kill(os.getpid(), 9)
    return 1
"""
        summary = self.audit_one(tmp_path, with_toolbox(tmp_path, KILL + once))
        assert (tmp_path / "killed").exists()
        assert (summary.traces, summary.denied, summary.unchecked) == (1, 0, 0)

    def test_workers_that_are_always_killed_end_the_run(self, tmp_path: Path) -> None:
        """As a partition would that does not fit into memory."""
        with pytest.raises(LimitError, match=r"^a worker was killed, probably for lack of memory; use more"):
            self.audit_one(tmp_path, with_toolbox(tmp_path, KILL + "os.kill(os.getpid(), 9)\n"))

    def test_workers_that_do_not_share_the_folder_are_noticed(self, tmp_path: Path) -> None:
        """Each process has a memory of its own."""
        files = find_files([str(write_lines(tmp_path / "one.jsonl", BUY))])
        with pytest.raises(
            InputError, match=r"^memory://out: has no part-00000\.parquet, which a worker wrote; expected"
        ):
            run_work(files, audit_work(bundle_of(tmp_path, POLICY)), "memory://out", engine=self.engine, partitions=1)


def with_toolbox(folder: Path, text: str) -> PolicyBundle:
    policies = write_policies(folder)
    (folder / "shop.py").write_text(text)
    return PolicyBundle.of([policies])
