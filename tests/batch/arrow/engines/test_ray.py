"""The engine `ray`, on one machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from guardagent.errors import InputError
from tests.batch.arrow.engines.cases import ClusterCases, parts_of, write_scattered
from tests.batch.arrow.logs import POLICY
from tests.batch.arrow.runs import audit, bundle_of

pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


class TestRay(ClusterCases):
    """Within a Ray that the host has started."""

    engine = "ray"

    @pytest.fixture(autouse=True, scope="class")
    def _host(self) -> Iterator[None]:
        import ray

        ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
        yield
        assert ray.is_initialized()  # the runs have left it alone
        ray.shutdown()


def test_a_run_without_ray_starts_one_and_ends_it(tmp_path: Path) -> None:
    import ray

    write_scattered(tmp_path / "in", 0, 9)
    bundle = bundle_of(tmp_path, POLICY)
    audit([tmp_path / "in"], bundle, tmp_path / "out", "ray", {"cpus": "1"}, partitions=3)
    audit([tmp_path / "in"], bundle, tmp_path / "local", partitions=3)
    assert parts_of(tmp_path / "out") == parts_of(tmp_path / "local")
    assert not ray.is_initialized()


@pytest.mark.parametrize("options", [{"cpus": "0"}, {"cpus": "two"}, {"address": "elsewhere:1", "cpus": "2"}])
def test_a_wrong_number_of_cores_is_refused(tmp_path: Path, options: dict[str, str]) -> None:
    write_scattered(tmp_path / "in", 0, 1)
    with pytest.raises(InputError, match=r"^the option 'cpus' is '.*'; expected a number of cores, and no 'address'$"):
        audit([tmp_path / "in"], bundle_of(tmp_path, POLICY), tmp_path / "out", "ray", options)


def test_a_cluster_that_cannot_be_reached(tmp_path: Path) -> None:
    write_scattered(tmp_path / "in", 0, 1)
    with pytest.raises(InputError, match=r"^Ray at '127\.0\.0\.1:1': cannot be reached: "):
        audit([tmp_path / "in"], bundle_of(tmp_path, POLICY), tmp_path / "out", "ray", {"address": "127.0.0.1:1"})
