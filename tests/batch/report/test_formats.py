"""The formats of a report."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from guardagent.batch.audit import UNKNOWN_OUTCOME
from guardagent.batch.report import AuditReport, make_report
from guardagent.batch.report.formats import FORMATS, TOP_RULES, render
from guardagent.errors import InputError
from tests.batch.report.results import MONDAY, results, unreadable, verdict, write_manifest, write_part

EVIL = "</svg><script>x</script> [a](http://e.com) `b` | ![i](u) \x1b[31m\u202e\n# h @all"
needs_matplotlib = pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="matplotlib is missing")


@pytest.fixture
def report(tmp_path: Path) -> AuditReport:
    """A report whose strings try to break out."""
    week = 7 * 86_400
    rows = [
        verdict(EVIL, (EVIL, 0), ("login_first", 1), task=EVIL, success=True),
        verdict("conv-1/2-3", ("login_first", 1), ended=MONDAY + week, task=EVIL, success=False),
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
        "## Summary", "## Overview", "## Rules", "## Weeks", "## Near misses", "## Time", "## Telling traces",
        "## Repeated tasks",
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
    assert "<span>conv-1/2-3</span>" in page  # whole words: no line ends within
    assert "@media print" in page
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


# --- the first page: three sentences, the rules that matter, and what changed

WEEK = 7 * 86_400


def summary(folder: Path, against: Path | None = None) -> list[str]:
    """The lines of the first page that are not empty."""
    report = make_report(str(folder), against=None if against is None else str(against))
    page = render(report, "markdown").decode().partition("## Summary")[2].partition("## Overview")[0]
    return [line for line in page.splitlines() if line]


def broken(rule: str, part: int, whole: int, week: int = 0) -> list[dict[str, Any]]:
    """Verdicts of a week, of which some violate a rule."""
    ended = MONDAY + week * WEEK
    return [verdict(f"{week}-{at:03}", *([(rule, 0)] if at < part else []), ended=ended) for at in range(whole)]


def test_the_first_sentence_counts_each_conversation_once(tmp_path: Path) -> None:
    """One that breaks a rule is not one that could not be checked, and a warning is neither."""
    rows = [
        verdict("a", ("receipt", None), errors=["no state"]),
        verdict("b", ("receipt", None), decision="warn"),
        verdict("c", ("receipt", None), decision="escalate"),
        verdict("d", decision="deny", errors=["no state"]),
        verdict("e", ended=MONDAY + WEEK),
        unreadable(),
    ]
    assert summary(results(tmp_path / "out", rows))[0] == (
        "5 conversations, from 2026-05-04 to 2026-05-11, were judged: 1 (20.0%) broke a rule and were denied, "
        "1 (20.0%) only needed approval, and 1 (20.0%) could not be checked; 1 more could not be read."
    )


@pytest.mark.parametrize(
    ("weeks", "change"),
    [
        ([(10, 100), (30, 100)], "growing, 10.0% from 2026-W19 to 2026-W19, 30.0% from 2026-W20 to 2026-W20"),
        (
            [(30, 100), (20, 100), (10, 100)],
            "falling, 30.0% from 2026-W19 to 2026-W19, 15.0% from 2026-W20 to 2026-W21",
        ),
        ([(1, 3), (2, 3)], "steady, 33.3% from 2026-W19 to 2026-W19, 66.7% from 2026-W20 to 2026-W20"),
        ([(2, 2)], "not comparable, 100.0% from 2026-W19 to 2026-W19"),
    ],
)
def test_a_share_grows_if_chance_does_not_explain_it(tmp_path: Path, weeks: list[tuple[int, int]], change: str) -> None:
    """Later weeks against earlier ones."""
    rows = [row for week, numbers in enumerate(weeks) for row in broken("receipt", *numbers, week)]
    sentence = f"Broken most often: `keep receipt`; its share by week is {change}."
    assert summary(results(tmp_path / "out", rows))[1] == sentence


BROKEN = verdict("a", ("receipt", None))


@pytest.mark.parametrize(
    ("rows", "step"),
    [
        ([verdict("b", errors=[f"{UNKNOWN_OUTCOME}'buy' is unknown"]), unreadable(), BROKEN], "1 conversations depend"),
        ([unreadable(), verdict("b", decision="deny", errors=["no state"]), BROKEN], "repair what could not be read"),
        ([verdict("b", decision="deny", errors=["no state"]), BROKEN], "see the column 'errors' of the results"),
        ([BROKEN], "see why agents break this rule: `keep receipt`."),
        ([verdict("b")], "nothing."),
    ],
)
def test_the_next_step_is_the_one_without_which_the_others_are_unsure(
    tmp_path: Path, rows: list[dict[str, Any]], step: str
) -> None:
    """An incomplete audit comes before all of them."""
    assert summary(results(tmp_path / "out", rows))[2].startswith(f"Next: {step}")
    out = write_manifest(tmp_path / "more", 2)
    write_part(out, 0, rows)
    assert summary(out)[2] == "Next: resume the audit, for parts of it are missing."


def test_the_rules_that_matter_have_one_example_each(tmp_path: Path) -> None:
    """By the traces that violate them: the call, or the one that a later call was to follow, and the reason."""
    rows = [verdict(f"{rule}{at}", (f"r{rule}", at)) for rule in range(TOP_RULES + 1) for at in range(rule + 1)]
    telling = verdict("t-1", *(("login_first", at) for at in range(30)), ("receipt", None), ("r5", 31))
    call = {"tool": "refund", "args": {"order": "o-1", "amount": 5}}
    for at, key in ((0, "call"), (30, "obliged by")):
        telling["violations"][at] |= {"evidence": json.dumps({key: call}), "message": f"events[{at}] (refund): no."}
    lines = summary(results(tmp_path / "out", [*rows, telling, *broken("receipt", 8, 8), *broken("login_first", 9, 9)]))
    assert [line for line in lines if line.startswith("### ")] == [
        "### `keep login_first`", "### `keep receipt`", "### `r5`", "### `r4`", "### `r3`",
    ]  # fmt: skip
    assert lines[3:9] == [
        "### `keep login_first`",
        "`login_first` is broken in 10 (25.6%) of the conversations.",
        'For example `t-1`: `refund(order="o-1", amount=5)`: `no.`',
        "### `keep receipt`",
        "`receipt` is broken in 9 (23.1%) of the conversations.",
        'For example `t-1`: `refund(order="o-1", amount=5)`: `events[30] (refund): no.`',
    ]


def test_an_earlier_audit_shows_what_changed(tmp_path: Path) -> None:
    """Rules that neither violates are left out unless they are new or gone."""
    now = results(tmp_path / "now", [*broken("receipt", 40, 100), *broken("other", 1, 1, 1)])
    earlier = results(tmp_path / "earlier", broken("receipt", 10, 100))
    write_manifest(earlier, 1, rules=[{"id": rule, "order": False} for rule in ("receipt", "old", "login_first")])
    assert summary(now, earlier)[-5:] == [
        "| `keep receipt` | `receipt` | growing | 10.0% | 39.6% |",
        "| `old` | `old` | gone | 0.0% | - |",
        "| `keep lookup_first` | `lookup_first` | new | - | 0.0% |",
        "| `keep small_refunds` | `small_refunds` | new | - | 0.0% |",
        "| `other` | `other` | new | - | 1.0% |",
    ]


@pytest.mark.parametrize(
    ("before", "now", "names"),
    [
        ({"digest": "a" * 64, "files": ["v1.yaml"]}, {"digest": "b" * 64, "files": ["v2.yaml", "c.yaml"]},
         "`v1.yaml` before, `v2.yaml, c.yaml` now"),
        ({"digest": "a" * 64, "files": ["v1.yaml"]}, {"digest": "b" * 64, "files": ["v1.yaml"]},
         "`v1.yaml, aaaaaaaaaaaa` before, `v1.yaml, bbbbbbbbbbbb` now"),
        ({"digest": "a" * 64}, {"digest": "b" * 64, "files": ["v1.yaml"]}, "`aaaaaaaaaaaa` before, `v1.yaml` now"),
        ({"digest": "a" * 64, "files": ["v1.yaml"]}, {"digest": "a" * 64, "files": ["v1.yaml"]}, None),
    ],
)  # fmt: skip
def test_policies_that_differ_are_named(
    tmp_path: Path, before: dict[str, Any], now: dict[str, Any], names: str | None
) -> None:
    """By their files, and by digests if those have the same names or none."""
    folders = [results(tmp_path / name, [verdict("a")]) for name in ("before", "now")]
    for folder, policies in zip(folders, (before, now), strict=True):
        write_manifest(folder, 1, policies=policies)
    lines = summary(folders[1], folders[0])
    sentences = [line for line in lines if line.startswith("The policies differ")]
    assert sentences == ([f"The policies differ: {names}."] if names else [])
