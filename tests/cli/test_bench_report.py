"""The command `report`: formats, files, the period, and exit status."""

import json
from pathlib import Path

import pyarrow.parquet as pq

from tests.batch.report.results import results, verdict, write_manifest, write_part
from tests.conftest import Cli, CommandResult


def test_a_report_is_markdown_on_standard_output(cli: Cli, tmp_path: Path) -> None:
    """Denied traces do not change the status: the audit had its own."""
    ran = cli("report", results(tmp_path / "out", [verdict("a", ("receipt", None))]))
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("# Audit report\n\n## Summary\n")
    assert "| denied | 1 (100.0%) |" in ran.out


def test_missing_parts_exit_with_3(cli: Cli, tmp_path: Path) -> None:
    """After the report, which says so too."""
    out = write_manifest(tmp_path / "out", 2)
    write_part(out, 0, [verdict("a")])
    ran = cli("report", out)
    assert ran.status == 3
    assert ran.out.startswith("# Audit report\n\n> **INCOMPLETE: 1 of 2 parts are missing (1).")
    assert ran.err == "guardagent: 1 of 2 parts are missing; resume the audit\n"


def test_the_suffix_of_the_file_chooses_the_format(cli: Cli, tmp_path: Path) -> None:
    """Unless an option does."""
    out = results(tmp_path / "out", [verdict("a", ("receipt", None))])
    assert cli("report", out, "-o", tmp_path / "weeks.parquet") == CommandResult(0, "", "")
    assert pq.read_table(tmp_path / "weeks.parquet").num_rows == 4
    cli("report", out, "-o", tmp_path / "a.txt", "--format", "json", "--top", 0)
    assert json.loads((tmp_path / "a.txt").read_text())["telling_traces"] == []
    cli("report", out, "-o", tmp_path / "b.txt")
    assert (tmp_path / "b.txt").read_text().startswith("# Audit report")
    assert "expected one of .html, .json, .md, .parquet" in cli("report", out, "-o", tmp_path / "c.docx").err


def test_a_period_leaves_traces_out(cli: Cli, tmp_path: Path) -> None:
    """The report says how many."""
    out = results(tmp_path / "out", [verdict("a"), verdict("b", ended=0.0)])
    ran = cli("report", out, "--since", "2026-05-01", "--until", "2026-05-31")
    assert "from 2026-05-01 to 2026-05-31; 1 other traces are left out" in ran.out
    assert "| traces | 1 |" in ran.out


def test_an_earlier_audit_is_compared(cli: Cli, tmp_path: Path) -> None:
    """It counts as a whole, and a missing part of it gives 3, too."""
    out = results(tmp_path / "out", [verdict("a", ("receipt", None))])
    earlier = write_manifest(tmp_path / "earlier", 2)
    write_part(earlier, 0, [verdict("b", ended=0.0), verdict("c", ("receipt", None))])
    ran = cli("report", out, "--against", earlier, "--since", "2026-05-01")
    assert (ran.status, ran.err) == (3, "guardagent: 1 of 2 parts are missing; resume the audit\n")
    assert "| `keep receipt` | `receipt` | steady | 50.0% | 100.0% |" in ran.out
    assert ran.out.index("### Against the earlier audit") < ran.out.index("INCOMPLETE") < ran.out.index("## Overview")
    against = json.loads(cli("report", out, "--against", earlier, "--format", "json").out)["against"]
    assert (against["totals"]["traces"], against["telling_traces"]) == (2, [])
    assert cli("report", out, "--against", tmp_path / "none").status == 2


def test_invalid_arguments_are_errors(cli: Cli, tmp_path: Path) -> None:
    """They are refused before the results are read."""
    out = results(tmp_path / "out", [verdict("a")])
    for arguments, says in (
        ((out, "--format", "pdf"), "--format: unknown report format 'pdf'"),
        ((out, "--since", "May"), "'--since' 'May' is not a date; expected one such as 2026-05-31"),
        ((out, "--since", "2026-05-31", "--until", "2026-05-01"), "'--until' 2026-05-01 is before"),
        ((tmp_path / "none",), "none: no such file or folder"),
        ((out, "-o", tmp_path / "no" / "file.md"), "cannot be written"),
    ):
        ran = cli("report", *arguments)
        assert (ran.status, ran.out) == (2, "")
        assert says in ran.err
