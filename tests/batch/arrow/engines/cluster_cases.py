"""The cases that every engine on a cluster passes. The tests of an engine run them in its environment."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from guardagent.batch.arrow.bundle import PolicyBundle
from guardagent.errors import InputError, LimitError
from tests.batch.arrow.engines.agreement import TRACES, audit, verdicts, write_files, write_parquet
from tests.shop import LOGIN, call, trace, write_lines, write_policies

STOCK = 'def stock(state, item):\n    """The number of items in stock."""\n    '
KILL = "import os\nfrom pathlib import Path\n\n\n" + STOCK
BUY = trace("t", call("buy", item="pen", price=1), state={"stock": {"pen": 1}})


class ClusterCases:
    """A subclass names its engine, and starts it for all of its tests."""

    engine: str

    @settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
    @given(traces=TRACES, random=st.randoms(use_true_random=False), partitions=st.integers(1, 9))
    def test_verdicts_are_those_of_the_local_engine(
        self, tmp_path_factory: pytest.TempPathFactory, traces: Any, random: Random, partitions: int
    ) -> None:
        """Row for row and part for part, in whatever files the events are."""
        folder = tmp_path_factory.mktemp("agreement")
        write_files(folder / "in", traces, random)
        expected = audit(folder / "in", folder / "local", "local", partitions, options={"workers": "1"})
        assert audit(folder / "in", folder / "out", self.engine, partitions) == expected
        assert verdicts(folder / "out") == verdicts(folder / "local")

    def test_a_run_resumes_with_the_parts_that_are_missing(self, tmp_path: Path) -> None:
        """The others stay as they are."""
        write_files(tmp_path / "in", {f"t{number}": [LOGIN] for number in range(40)}, Random(1))
        whole = audit(tmp_path / "in", tmp_path / "out", self.engine, 7)
        before = verdicts(tmp_path / "out")
        for number in (1, 2, 6):
            (tmp_path / "out" / f"part-{number:05}.parquet").unlink()
        kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("part-*")}
        assert audit(tmp_path / "in", tmp_path / "out", self.engine, 7, resume=True) == whole
        assert verdicts(tmp_path / "out") == before
        assert all(path.stat().st_mtime_ns == time for path, time in kept.items())

    def test_a_corrupt_file_is_named(self, tmp_path: Path) -> None:
        """Its footer is intact, so only a worker notices."""
        (tmp_path / "in").mkdir()
        path = tmp_path / "in" / "events.parquet"
        write_parquet(path, [{"trace": "t", "position": at, **LOGIN} for at in range(1000)])
        data = path.read_bytes()
        path.write_bytes(data[:4] + b"\xff" * 200 + data[204:])
        with pytest.raises(InputError, match=rf"(?s)^{re.escape(path.as_uri())}: cannot be read as Parquet: .*file$"):
            audit(tmp_path / "in", tmp_path / "out", self.engine)

    def test_a_worker_without_the_import_of_a_toolbox(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The driver has the module: the error of the worker names it."""
        (tmp_path / "modules").mkdir()
        (tmp_path / "modules" / "only_on_the_driver.py").touch()
        monkeypatch.syspath_prepend(str(tmp_path / "modules"))
        bundle = with_toolbox(tmp_path, "import only_on_the_driver\n\n\n" + STOCK + "return 1\n")
        with pytest.raises(InputError, match=r"^\S*shop.py:1: running .*No module named 'only_on_the_driver'$"):
            self.audit_one(tmp_path, bundle)

    def test_a_worker_with_another_version(self, tmp_path: Path) -> None:
        """It does not judge."""
        bundle = replace(PolicyBundle.of([write_policies(tmp_path)]), version="0.0.1")
        with pytest.raises(InputError, match=r"^this worker has GuardAgent .*; expected 0\.0\.1"):
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
        with pytest.raises(LimitError, match="^a worker was killed, probably for lack of memory; use more"):
            self.audit_one(tmp_path, with_toolbox(tmp_path, KILL + "os.kill(os.getpid(), 9)\n"))

    def test_an_unknown_option_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=rf"^unknown option 'cores' of the engine '{self.engine}'; expected"):
            self.audit_one(tmp_path, None, options={"cores": "2"})

    def audit_one(self, folder: Path, bundle: PolicyBundle | None, **more: Any) -> Any:
        (folder / "in").mkdir()
        write_lines(folder / "in" / "one.jsonl", BUY)
        return audit(folder / "in", folder / "out", self.engine, 1, policies=bundle, **more)


def with_toolbox(folder: Path, text: str) -> PolicyBundle:
    policies = write_policies(folder)
    (folder / "shop.py").write_text(text)
    return PolicyBundle.of([policies])
