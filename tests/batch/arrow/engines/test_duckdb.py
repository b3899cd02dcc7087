"""The engine `duckdb`."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent.errors import InputError
from tests.batch.arrow.engines.cases import EngineCases
from tests.batch.arrow.logs import POLICY
from tests.batch.arrow.runs import bundle_of

pytest.importorskip("duckdb", reason="DuckDB is not installed")
pytestmark = pytest.mark.slow


class TestDuckDb(EngineCases):
    """With a pool of processes."""

    engine = "duckdb"

    def test_a_wrong_limit_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"DuckDB cannot sort the rows: .*[Mm]emory"):
            self.audit_one(tmp_path, bundle_of(tmp_path, POLICY), {"memory_limit": "much"})
