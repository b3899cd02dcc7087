"""Folders of results: complete, incomplete and wrong ones."""

from pathlib import Path

import fsspec
import pyarrow as pa
import pytest

from guardagent.batch.arrow.schema import VERDICTS
from guardagent.batch.report import make_report
from guardagent.errors import InputError
from tests.batch.report.results import results, unreadable, verdict, write_manifest, write_part


def refused(folder: Path | str) -> str:
    with pytest.raises(InputError) as error:
        make_report(str(folder))
    return str(error.value)


def test_missing_parts_make_a_report_incomplete(tmp_path: Path) -> None:
    """The figures of the others are still reported."""
    out = write_manifest(tmp_path / "out", 40)
    write_part(out, 7, [verdict("a")])
    report = make_report(str(out))
    assert (report.complete, report.missing, report.missing_parts[:2], report.totals.traces) == (False, 39, (0, 1), 1)
    assert len(report.missing_parts) == 20


def test_results_may_be_a_url(tmp_path: Path) -> None:
    """Of any file system that fsspec knows."""
    memory = fsspec.filesystem("memory")
    memory.put(str(results(tmp_path / "out", [verdict("a")], [])), "/audits/may", recursive=True)
    assert make_report("memory://audits/may").totals.traces == 1
    assert "memory://audits/none: no such file or folder" in refused("memory://audits/none")
    assert "cannot be read" in refused("nosuch://audits")


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    """The message says what is missing."""
    assert "none: no such file or folder; expected the folder of an audit" in refused(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    assert "has no '_audit.json'; expected the results of 'guardagent audit" in refused(tmp_path / "empty")
    (tmp_path / "file").write_text("x")
    assert "_audit.json" in refused(tmp_path / "file")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "_audit.json:1: not JSON"),
        ("[]", "is not a manifest"),
        ('{"version": 1}', "is not a manifest"),
        ('{"guardagent_audit": 2}', "has version 2; expected 1: use the same release"),
        ('{"guardagent_audit": 1, "partitions": 0}', "'partitions' is 0; expected 1 to 65536"),
        ('{"guardagent_audit": 1, "partitions": true, "rules": []}', "'partitions' is True"),
        ('{"guardagent_audit": 1, "partitions": 1}', "lacks the list 'rules'"),
        ('{"guardagent_audit": 1, "partitions": 1, "rules": [{"id": "a"}]}', "lacks 'id' or 'order'"),
        ("\xff", "is not UTF-8 text"),
    ],
)
def test_a_manifest_is_read_strictly(tmp_path: Path, text: str, says: str) -> None:
    """A report on half a manifest would be wrong."""
    (tmp_path / "_audit.json").write_bytes(text.encode("latin-1"))
    assert says in refused(tmp_path)


def test_a_corrupt_part_is_refused(tmp_path: Path) -> None:
    """Whether it is no Parquet file, or cut."""
    out = results(tmp_path / "out", [verdict("a")], [verdict("b")])
    part = out / "part-00001.parquet"
    part.write_bytes(part.read_bytes()[:-9])
    assert "part-00001.parquet: cannot be read" in refused(out)
    part.write_bytes(b"")
    assert "remove this file and resume the audit" in refused(out)


def test_a_part_of_another_schema_is_refused(tmp_path: Path) -> None:
    """Without a version, of another version, or with other columns."""
    out = write_manifest(tmp_path / "out")
    write_part(out, 0, [verdict("a")], VERDICTS.with_metadata({}))
    assert "has no verdicts of an audit; expected version 1" in refused(out)
    write_part(out, 0, [verdict("a")], VERDICTS.with_metadata({"guardagent.verdicts": "2"}))
    assert "has verdicts of version 2; expected version 1" in refused(out)
    label = VERDICTS.get_field_index("label")
    write_part(out, 0, [verdict("a")], VERDICTS.set(label, pa.field("label", pa.int64())))
    assert "column 'label' is int64; expected int8" in refused(out)
    write_part(out, 0, [verdict("a")], VERDICTS.remove(label))
    assert "column 'label' is missing" in refused(out)


def test_a_trace_cannot_count_twice(tmp_path: Path) -> None:
    """Two files of one partition, or parts of an audit with more partitions, are refused."""
    out = results(tmp_path / "out", [verdict("a")])
    (out / "part-0-again.parquet").write_bytes((out / "part-00000.parquet").read_bytes())
    assert "is a second part 0" in refused(out)
    (out / "part-0-again.parquet").rename(out / "part-00009.parquet")
    assert "one of more than 1" in refused(out)


@pytest.mark.parametrize("decision", [None, "maybe"])
def test_a_verdict_without_a_decision_is_refused(tmp_path: Path, decision: str | None) -> None:
    """It must not count as allowed."""
    out = results(tmp_path / "out", [verdict("a") | {"decision": decision}])
    assert "part-00000.parquet: a verdict has no decision or an unknown one" in refused(out)


def test_only_unreadable_rows_are_a_report(tmp_path: Path) -> None:
    """They are what the audit found."""
    report = make_report(str(results(tmp_path / "out", [unreadable(), unreadable("a")])))
    assert (report.totals.traces, report.totals.unreadable, report.telling_traces) == (0, 2, ())
