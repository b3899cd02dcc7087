"""The selection of traces."""

from pathlib import Path

from guardagent.batch.report import make_report
from tests.batch.report.results import results, verdict


def selected(folder: Path, *rows: dict[str, object], top: int = 10) -> list[str | None]:
    return [telling_trace.trace for telling_trace in make_report(str(results(folder, rows)), top=top).telling_traces]


def test_each_trace_shows_as_many_new_rules_as_possible(tmp_path: Path) -> None:
    """Then severity, the number of violations, and the id decide."""
    rows = [
        verdict("two", ("login_first", 0), ("small_refunds", 1)),
        verdict("new", ("receipt", None)),
        verdict("severe", ("login_first", 0), decision="halt"),
        verdict("often", *(("login_first", at) for at in range(4))),
        verdict("b", ("login_first", 0)),
        verdict("a", ("login_first", 0)),
        verdict("clean"),
    ]
    assert selected(tmp_path / "all", *rows) == ["two", "new", "severe", "often", "a", "b"]
    assert selected(tmp_path / "first", *rows, top=2) == ["two", "new"]
    assert selected(tmp_path / "none", *rows, top=0) == []


def test_violations_are_in_order_and_the_first_ones(tmp_path: Path) -> None:
    """The end of the trace comes last."""
    violations = [("receipt", None), ("login_first", 7), *(("small_refunds", at) for at in range(30))]
    out = results(tmp_path / "out", [verdict("a", *violations)])
    (trace,) = make_report(str(out)).telling_traces
    assert (trace.total, len(trace.violations)) == (32, 20)
    assert [violation.event for violation in trace.violations[:10]] == [0, 1, 2, 3, 4, 5, 6, 7, 7, 8]
    (short,) = make_report(str(results(tmp_path / "short", [verdict("a", *violations[:2])]))).telling_traces
    assert [(violation.rule, violation.event) for violation in short.violations] == [
        ("login_first", 7),
        ("receipt", None),
    ]
