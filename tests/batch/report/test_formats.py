"""The formats of a report."""

import importlib.util
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from guardagent.batch.report import AuditReport, make_report
from guardagent.batch.report.formats import FORMATS, render
from guardagent.errors import InputError
from tests.batch.report.results import MONDAY, results, verdict, write_manifest, write_part

EVIL = "</svg><script>x</script> [a](http://e.com) `b` | ![i](u) \x1b[31m\u202e\n# h @all"
needs_matplotlib = pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="matplotlib is missing")


@pytest.fixture
def report(tmp_path: Path) -> AuditReport:
    """A report whose strings try to break out."""
    week = 7 * 86_400
    rows = [
        verdict(EVIL, (EVIL, 0), ("login_first", 1), task=EVIL, success=True),
        verdict("b", ("login_first", 1), ended=MONDAY + week, task=EVIL, success=False),
    ]
    return make_report(str(results(tmp_path / "out", rows)))


def test_markdown_has_strings_of_others_in_code_spans_only(report: AuditReport) -> None:
    """One line each, with a longer fence than any within, and no open bar in a table."""
    text = render(report, "markdown").decode()
    shown = "`` </svg><script>x</script> [a](http://e.com) `b` | ![i](u) �[31m� # h @all"
    in_table = shown.replace("|", "\\|")
    assert f"### {shown} ``" in text
    assert f"| {in_table} ``" in text
    assert f"{in_table} at 0 ``" in text
    assert "\x1b" not in text
    assert "script" not in text.replace(shown, "").replace(in_table, "")
    assert {line.count("|") - line.count("\\|") for line in text.splitlines() if line.startswith("| `login")} == {8, 3}


def test_markdown_reads_from_top_to_bottom(report: AuditReport) -> None:
    """The sections, and the figures of a rule."""
    text = render(report, "markdown").decode()
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert titles == [
        "## Overview", "## Rules", "## Weeks", "## Near misses", "## Time", "## Telling traces", "## Repeated tasks",
    ]  # fmt: skip
    assert "| `login_first` | `keep login_first` | 100.0% | 2 | 2 | 0 | 2 |" in text
    assert "| 2026-W20 | `login_first` | 1 | 100.0% | 1 | 1 | 0 | 1 |" in text
    assert "| 1 | 1 | 50.0% | 0.0% |" in text


def test_cut_lists_are_reported(tmp_path: Path) -> None:
    """Numbers of listed violations are lower bounds then."""
    cut = verdict("a", ("login_first", 0))
    cut["counts"][0]["count"] = 500
    text = render(make_report(str(results(tmp_path / "out", [cut]))), "markdown").decode()
    assert "and counts the others: 499 violations are not listed." in text
    assert "| `login_first` | `keep login_first` | 100.0% | 1 | 500 | ≥ 0 | ≥ 0 |" in text
    assert "The first 1 of 500 violations:" in text


@pytest.mark.parametrize("name", ["markdown", "json", pytest.param("html", marks=needs_matplotlib)])
def test_an_incomplete_audit_is_reported_first(tmp_path: Path, name: str) -> None:
    """Before any figure."""
    out = write_manifest(tmp_path / "out", 3)
    write_part(out, 1, [verdict("a")])
    text = render(make_report(str(out)), name).decode()
    first = text.index('"complete": false' if name == "json" else "INCOMPLETE: 2 of 3 parts are missing (0, 2).")
    assert first < text.index("totals" if name == "json" else "Overview")


def test_json_has_all_figures_in_ascii(report: AuditReport) -> None:
    """So that nothing in it reaches a terminal as a control character."""
    text = render(report, "json").decode("ascii")
    assert "\x1b" not in text
    values = json.loads(text)
    assert values["telling_traces"][0]["trace"] == EVIL
    assert values["rules"][0]["counts"]["near_misses"] == 2


def test_parquet_has_a_row_for_each_rule_and_week(report: AuditReport) -> None:
    """Weeks in which nothing violates a rule have a zero."""
    table = pq.read_table(pa.BufferReader(render(report, "parquet")))
    assert table.schema.metadata[b"complete"] == b"true"
    rows = {(row["week"], row["rule"]): row for row in table.to_pylist()}
    assert len(rows) == table.num_rows == 2 * 5
    assert rows["2026-W20", "receipt"]["share"] == 0.0
    assert rows["2026-W19", "login_first"]["near_misses"] == 1


@needs_matplotlib
def test_html_runs_and_loads_nothing(report: AuditReport) -> None:
    """Every string of others is escaped, also in the plots; the same figures give the same page."""
    page = render(report, "html").decode()
    assert page == render(report, "html").decode()
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert page.count("<svg") == page.count("</svg>") == 3
    assert "currentColor" in page
    assert "<?xml" not in page
    assert "\x1b" not in page


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is not None, reason="matplotlib is there")
def test_html_needs_matplotlib(report: AuditReport) -> None:
    """The message names the extra."""
    with pytest.raises(InputError, match=r"matplotlib is not installed; .* '\.\[report\]'"):
        render(report, "html")


def test_the_formats_are_known_by_name() -> None:
    """An unknown one is an error."""
    assert {"html", "json", "markdown", "parquet"} <= {*FORMATS}
    with pytest.raises(InputError, match="unknown report format 'pdf'"):
        FORMATS.load("pdf")
