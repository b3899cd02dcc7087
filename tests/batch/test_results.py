"""Rows are appended by one run at a time, and read back whole."""

from pathlib import Path

import pytest

from guardagent.batch.results import ResultLog
from guardagent.errors import InputError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


def test_a_torn_row_is_dropped(path: Path) -> None:
    """It is ignored, and removed before the next row."""
    path.write_bytes('{"a": 1}\n{"b": "caf\u00e9'.encode()[:-1])
    with ResultLog(path) as log:
        assert log.rows() == ['{"a": 1}']
        assert log.size > 9
        log.drop_torn_row()
        log.append('{"c": 3}')
        assert (log.rows(), log.rows(9)) == (['{"a": 1}', '{"c": 3}'], ['{"c": 3}'])


def test_a_second_writer_is_refused(path: Path) -> None:
    """A second writer is refused until the first one ends; the rows remain."""
    with ResultLog(path) as log:
        log.append("{}")
        with pytest.raises(InputError, match="another run is writing to it; wait until that run ends"):
            ResultLog(path)
    with ResultLog(path) as log:
        assert log.rows() == ["{}"]


def test_replaced_rows_are_the_last(path: Path) -> None:
    """They lie in a new file, which the next run writes to, and nothing else is left."""
    with ResultLog(path) as log:
        log.append("1")
        log.replace(["2", "3"])
    with ResultLog(path) as log:
        log.append("4")
    assert path.read_text() == "2\n3\n4\n"
    assert list(path.parent.iterdir()) == [path]
