"""The engine `spark`, on one machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from guardagent.errors import InputError
from tests.batch.arrow.engines.cases import ClusterCases, parts_of, write_scattered
from tests.batch.arrow.logs import POLICY
from tests.batch.arrow.runs import audit, bundle_of

pytest.importorskip("pyspark", reason="Spark is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


class TestSpark(ClusterCases):
    """Within a session that the host has started."""

    engine = "spark"

    @pytest.fixture(autouse=True, scope="class")
    def _host(self) -> Iterator[None]:
        from guardagent.batch.arrow.engines.spark import spark_session

        with spark_session({"master": "local[2]"}):
            yield

    def test_properties_of_the_host_are_set_back(self, tmp_path: Path) -> None:
        """Those of the run hold for the run alone."""
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        assert session
        session.conf.set("spark.sql.shuffle.partitions", "11")
        self.audit_one(tmp_path, bundle_of(tmp_path, POLICY), {"spark.sql.shuffle.partitions": "3"})
        assert session.conf.get("spark.sql.shuffle.partitions") == "11"
        assert session.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == "10000"

    @pytest.mark.parametrize(("name", "message"), [("master", "no option 'master'"), ("spark.driver.memory", "take")])
    def test_what_a_running_session_cannot_change(self, tmp_path: Path, name: str, message: str) -> None:
        with pytest.raises(InputError, match=message):
            self.audit_one(tmp_path, bundle_of(tmp_path, POLICY), {name: "1g"})


def test_a_run_without_a_session_starts_spark_quietly(tmp_path: Path) -> None:
    """Only our own lines are on standard error, and Spark has ended."""
    write_scattered(tmp_path / "in", 0, 9)
    bundle = bundle_of(tmp_path, POLICY)
    command = [sys.executable, "-m", "guardagent", "audit", str(tmp_path / "in"), "--engine", "spark"]
    command += ["--policies", str(tmp_path / "policies.yaml"), "--out", str(tmp_path / "out"), "--partitions", "3"]
    run = subprocess.run([*command, "--engine-options", "master=local[1]"], capture_output=True, text=True, check=False)
    audit([tmp_path / "in"], bundle, tmp_path / "local", partitions=3)
    assert parts_of(tmp_path / "out") == parts_of(tmp_path / "local")
    assert "WARN" not in run.stderr
    assert len(run.stderr.splitlines()) < 12
    assert run.returncode in (1, 2)


def test_a_wrong_master_is_refused(tmp_path: Path) -> None:
    """With Java's reason, not its stack."""
    write_scattered(tmp_path / "in", 0, 1)
    with pytest.raises(InputError, match=r"^Spark does not start: .*Could not parse Master URL: 'elsewhere'$"):
        audit([tmp_path / "in"], bundle_of(tmp_path, POLICY), tmp_path / "out", "spark", {"master": "elsewhere"})
