"""The formats of the report on an audit, and its content for people: sections with notes and tables, and plots."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from math import sqrt
from pathlib import Path
from typing import Any

from guardagent._support.plugins import Plugins
from guardagent._support.requirements import require
from guardagent._support.sections import Quoted, ReportSection, ReportTable, html, markdown, percent
from guardagent.batch.report import UNDATED, AuditReport, RuleCounts, RuleRow, TellingTrace, Totals, week_name
from guardagent.errors import InputError


@dataclass(frozen=True, slots=True)
class AuditReportFormat:
    """A format. `suffix`: that of files in this format."""

    suffix: str
    render: Callable[[AuditReport], bytes]


def format_of(path: Path | None) -> str:
    """Returns the format whose files have the suffix of a path; `markdown` for a path without one, or a text file.

    Raises:
        InputError: no format has the suffix.
    """
    if path is None or path.suffix in ("", ".txt"):
        return "markdown"
    names = {writer.suffix: name for name, writer in FORMATS.load_all()}
    if path.suffix not in names:
        raise InputError(f"'--out' is '{path}'; expected one of {', '.join(sorted(names))}, or '--format'")
    return names[path.suffix]


def render(report: AuditReport, format: str) -> bytes:  # noqa: A002 - as the option is called
    """Returns the report in one of `FORMATS`.

    Raises:
        UnknownNameError: the format does not exist.
        InputError: a package that the format needs is missing.
    """
    rendered: bytes = FORMATS.load(format).render(report)
    return rendered


def _as_html(report: AuditReport) -> bytes:
    """One HTML page with plots.

    Raises:
        InputError: matplotlib is missing or too old.
    """
    require({"matplotlib": "3.8"}, "report")
    return html(_TITLE, _warning(report), _sections(report), _plots(report)).encode("utf-8", "replace")


def _as_json(report: AuditReport) -> bytes:
    """One JSON object, with the names of the figures as keys."""
    # ASCII alone: the strings of others reach no terminal as control characters.
    return f"{json.dumps(report.to_dict(), indent=2)}\n".encode("ascii")


def _as_markdown(report: AuditReport) -> bytes:
    return markdown(_TITLE, _warning(report), _sections(report)).encode("utf-8", "replace")


def _as_parquet(report: AuditReport) -> bytes:
    """The table of rules and weeks as a Parquet file. Its metadata says whether the audit is complete."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [
            ("week", pa.string()),
            ("rule", pa.string()),
            ("judged", pa.int64()),
            *((name, pa.int64()) for name in ("traces", "violations", "pending", "near_misses", "unlisted")),
            ("share", pa.float64()),
        ],
        metadata={"guardagent.report": str(_PARQUET_VERSION), "complete": str(report.complete).lower()},
    )
    rows = [
        {"week": week.week, "rule": week.rule, "judged": week.judged, **asdict(week.counts), "share": week.share}
        for week in report.weeks
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema), sink)
    return bytes(sink.getvalue())


FORMATS = Plugins(
    "report format",
    "",
    (),
    members={
        "html": AuditReportFormat(".html", _as_html),
        "json": AuditReportFormat(".json", _as_json),
        "markdown": AuditReportFormat(".md", _as_markdown),
        "parquet": AuditReportFormat(".parquet", _as_parquet),
    },
)

_TITLE = "Audit report"
_PARQUET_VERSION = 1
TOP_RULES = 5  # of the summary
WEEKS = 12  # the last weeks of the table; the plot and the Parquet file have all of them
NEAR_MISS = (
    "A near miss is an event at which every violated rule asks for an earlier step: the call itself violated no other "
    "rule, and the step that should have come first was missing. Each event counts once, and once for each of these "
    "rules."
)
TELLING = (
    "Candidates are, for each rule, the traces that violate it and come first by the number of violated rules, the "
    "severity of the decision, the number of violations and the id. Of these, the next one is always the trace with "
    "the most rules not shown so far; then the most severe, then the one with most violations, then the smallest id."
)
_HEAD = ("traces", "violations", "pending at the end", "near misses")
REPEATED = (
    "pass^k is the chance that k runs of a task all succeed; joint^k is the chance that they all succeed and violate "
    "nothing. A run with errors does not count as a run without violations. Both are means over the tasks with at "
    "least k runs, of the unbiased estimate C(c, k) / C(n, k) for c such runs of n."
)


def _warning(report: AuditReport) -> str:
    """The sentence on missing parts; empty for a complete audit."""
    if report.complete:
        return ""
    numbers = ", ".join(map(str, report.missing_parts)) + (", …" if report.missing > len(report.missing_parts) else "")
    return (
        f"INCOMPLETE: {report.missing:,} of {report.partitions:,} parts are missing ({numbers}). No figure below has "
        "their traces; resume the audit."
    )


def _sections(report: AuditReport) -> Iterator[ReportSection]:
    """Yields the sections below the title and the warning; the summary is the first page."""
    yield from _summary(report)
    yield _head(report)
    yield _rules(report)
    yield _weeks(report)
    yield _near_misses(report)
    yield _times(report)
    yield from _telling_traces(report)
    yield _tasks(report)


def _summary(report: AuditReport) -> Iterator[ReportSection]:
    """Yields three sentences, the rules that matter most, and the changes since an earlier audit."""
    yield ReportSection("Summary", ((_judged(report.totals),), _most_broken(report), _next_step(report)))
    for rule in _violated(report)[:TOP_RULES]:
        broken = f" is broken in {_of(rule.counts.traces, report.totals.traces)} of the conversations."
        yield ReportSection(
            _name(rule), ((Quoted(rule.id), broken), *(_example(rule.example) if rule.example else ())), level=3
        )
    if report.against is not None:
        yield _changes(report.against, report)


def _judged(totals: Totals) -> str:
    days = "" if totals.last is None else f", from {_moment(totals.first)[:10]} to {_moment(totals.last)[:10]},"
    numbers = (totals.denied - totals.escalated - totals.undecided, totals.escalated, totals.undecided)
    broken, escalated, undecided = (_of(number, totals.traces) for number in numbers)
    unreadable = f"; {totals.unreadable:,} more could not be read" if totals.unreadable else ""
    return (
        f"{totals.traces:,} conversations{days} were judged: {broken} broke a rule and were denied, {escalated} only "
        f"needed approval, and {undecided} could not be checked{unreadable}."
    )


def _most_broken(report: AuditReport) -> tuple[str, ...]:
    if not (rules := _violated(report)):
        return ("No rule is known to be broken.",)
    weeks = [week for week in report.weeks if week.rule == rules[0].id and week.week != week_name(UNDATED)][-WEEKS:]
    parts = weeks[: len(weeks) // 2], weeks[len(weeks) // 2 :]
    numbers = [(sum(week.counts.traces for week in part), sum(week.judged for week in part)) for part in parts]
    change = f"; its share by week is {_change(*numbers)}"
    for part, (broken, judged) in zip(parts, numbers, strict=True):
        change += f", {percent(broken / judged)} from {part[0].week} to {part[-1].week}" if part else ""
    return ("Broken most often: ", _name(rules[0]), f"{change}.")


def _change(before: tuple[int, int], now: tuple[int, int]) -> str:
    """Compares shares (a part, the whole). A difference of up to two standard errors may be chance."""
    if not (before[1] and now[1]):
        return "not comparable"
    share = (before[0] + now[0]) / (before[1] + now[1])
    margin = 2 * sqrt(share * (1 - share) * (1 / before[1] + 1 / now[1]))
    difference = now[0] / now[1] - before[0] / before[1]
    return "steady" if abs(difference) <= margin else "growing" if difference > 0 else "falling"


def _next_step(report: AuditReport) -> tuple[str, ...]:
    totals, rules = report.totals, _violated(report)
    outcomes = f"{totals.unknown_outcomes:,} conversations depend on outcomes that their log does not have: "
    steps = (
        (report.missing, "resume the audit, for parts of it are missing."),
        (totals.unknown_outcomes, f"{outcomes}set 'failed_output' in the policy, or audit with '--assume ok'."),
        (totals.unreadable, "repair what could not be read: the column 'error' of the results says why."),
        (totals.undecided, "see the column 'errors' of the results for what could not be checked."),
        (len(rules), "see why agents break this rule: "),
    )
    step = next((step for number, step in steps if number), "nothing.")
    return ("Next: ", step) if step[-1] == "." else ("Next: ", step, _name(rules[0]), ".")


def _name(rule: RuleRow) -> Quoted:
    return Quoted((rule.message.strip() or rule.id).rstrip("."))


def _example(example: TellingTrace) -> Iterator[tuple[str, ...]]:
    for violation in example.violations:
        place = f"events[{violation.event}] ({violation.call.partition('(')[0]}): "
        call = (Quoted(violation.call), ": ") if violation.call else ()
        yield "For example ", _id(example.trace), ": ", *call, Quoted(violation.message.removeprefix(place))


def _changes(earlier: AuditReport, report: AuditReport) -> ReportSection:
    """The rules of both audits, without those that neither violates unless they are new or gone."""
    known = [{rule.id: rule for rule in audit.rules} for audit in (earlier, report)]
    rows: list[tuple[str, ...]] = []
    for name, rule in {**known[0], **known[1]}.items():
        before, now = (rules[name].counts.traces if name in rules else 0 for rules in known)
        change = _change((before, earlier.totals.traces), (now, report.totals.traces))
        change = "new" if name not in known[0] else "gone" if name not in known[1] else change
        if before or now or change in ("new", "gone"):
            shares = (percent(rules[name].share) if name in rules else "-" for rules in known)
            rows.append((_name(rule), Quoted(name), change, *shares))
    notes: list[tuple[str, ...]] = [("Before, in ", Quoted(earlier.results), ": ", _judged(earlier.totals))]
    notes += [(_warning(earlier),)] if earlier.missing else []
    (old, old_digest), (new, new_digest) = map(_policies, (earlier, report))
    if old_digest != new_digest:
        names = (f"{old}, {old_digest}", f"{new}, {new_digest}") if old == new else (old, new)
        notes.append(("The policies differ: ", Quoted(names[0]), " before, ", Quoted(names[1]), " now."))
    table = ReportTable(("rule", "id", "change", "before", "now"), tuple(rows), 3)
    return ReportSection("Against the earlier audit", tuple(notes), table, level=3)


def _policies(report: AuditReport) -> tuple[str, str]:
    """The names of the policy files, or else the digest; and the digest, shortened."""
    policies: Any = report.audit.get("policies")
    digest, files = (policies.get("digest"), policies.get("files")) if isinstance(policies, dict) else (None, None)
    short = str(digest or "unknown")[:12]
    return ", ".join(map(str, files)) if files and isinstance(files, list) else short, short


def _head(report: AuditReport) -> ReportSection:
    totals, about = report.totals, report.audit
    period = f"{report.since or 'the beginning'} to {report.until or 'the end'}"
    notes: list[tuple[str, ...]] = [("Results: ", Quoted(report.results))]
    names, digest = (Quoted(text) for text in _policies(report))
    engine = Quoted(about.get("engine", "unknown"))
    notes.append(("Policies: ", names, ", digest: ", digest, ", engine: ", engine))
    notes.append(("Audit: ", Quoted(_moment(about.get("started"))), " to ", Quoted(_moment(about.get("ended")))))
    if report.since or report.until:
        left_out = f"; {totals.outside:,} other traces are left out, including undated ones. Unreadable ones count."
        notes.append((f"Only traces whose last event is from {period}{left_out}",))
    rows = (
        ("traces", f"{totals.traces:,}"),
        ("events", f"{totals.events:,}"),
        ("first event", _moment(totals.first)),
        ("last event", _moment(totals.last)),
        ("denied", _of(totals.denied - totals.escalated, totals.traces)),
        ("only needed approval", _of(totals.escalated, totals.traces)),
        ("not fully checked", _of(totals.unchecked, totals.traces)),
        ("unreadable, without a verdict", f"{totals.unreadable:,}"),
        ("undated", f"{totals.undated:,}"),
    )
    return ReportSection("Overview", tuple(notes), ReportTable(("figure", "value"), rows))


def _rules(report: AuditReport) -> ReportSection:
    rows = tuple(
        (
            Quoted(rule.id),
            Quoted(rule.message) if rule.known else "not in the manifest",
            percent(rule.share),
            *_numbers(rule.counts, report),
        )
        for rule in report.rules
    )
    unlisted = sum(rule.counts.unlisted for rule in report.rules)
    note = (
        f"A verdict lists at most 100 violations of a rule, and counts the others: {unlisted:,} violations are not "
        "listed. Traces and violations are complete; numbers with ≥ are of listed violations only."
    )
    head = ("rule", "message", "share of traces", *_HEAD)
    return ReportSection("Rules", ((note,),) if unlisted else (), ReportTable(head, rows, 2), "rules")


def _numbers(counts: RuleCounts, report: AuditReport) -> tuple[str, ...]:
    pending = f"{'≥ ' if counts.unlisted else ''}{counts.pending:,}"
    near_misses = f"{'≥ ' if report.near_misses.skipped else ''}{counts.near_misses:,}"
    return f"{counts.traces:,}", f"{counts.violations:,}", pending, near_misses


def _weeks(report: AuditReport) -> ReportSection:
    names = list(dict.fromkeys(week.week for week in report.weeks))
    kept = set(names[-WEEKS:])
    rows = tuple(
        (week.week, Quoted(week.rule), f"{week.judged:,}", percent(week.share), *_numbers(week.counts, report))
        for week in report.weeks
        if week.week in kept and week.counts.traces
    )
    note = "ISO weeks of the last event of each trace, in UTC. Rows are of rules that a trace of the week violates."
    more = f" These are the last {WEEKS} of {len(names):,} weeks; Parquet has all." if len(names) > WEEKS else ""
    head = ("week", "rule", "traces of the week", "share", *_HEAD)
    return ReportSection("Weeks", ((note + more,),), ReportTable(head, rows, 2), "weeks")


def _near_misses(report: AuditReport) -> ReportSection:
    near_misses = report.near_misses
    skipped = (
        f" {near_misses.skipped:,} violating traces are left out, since not all of their violations are listed "
        "or not all of their events could be checked."
        if near_misses.skipped
        else ""
    )
    order = [rule for rule in report.rules if rule.order]
    rows = tuple((Quoted(rule.id), f"{rule.counts.near_misses:,}") for rule in order)
    note = f"{near_misses.events:,} events in {near_misses.traces:,} traces. {NEAR_MISS}{skipped}"
    table = ReportTable(("rule that asks for an earlier step", "near misses"), rows)
    return ReportSection("Near misses", ((note,),), table)


def _times(report: AuditReport) -> ReportSection:
    names = {
        "trace_ms": "judging a trace (ms)",
        "event_ms": "judging an event, mean of its trace (ms)",
        "conversation_s": "conversation, first to last event (s)",
    }
    rows = tuple(
        (names[name], f"{times.count:,}", *map(_number, (times.median, times.p95, times.maximum)))
        for name, times in report.times.items()
    )
    rounded = any(not time.exact for time in report.times.values())
    notes = (("Median and p95 are within 0.5 % of the value.",),) if rounded else ()
    return ReportSection("Time", notes, ReportTable(("duration", "traces", "median", "p95", "max"), rows))


def _telling_traces(report: AuditReport) -> Iterator[ReportSection]:
    yield ReportSection("Telling traces", ((TELLING,),) if report.telling_traces else (("No trace violates a rule.",),))
    for telling_trace in report.telling_traces:
        yield _telling_trace(telling_trace)


def _telling_trace(telling_trace: TellingTrace) -> ReportSection:
    violations = f"{telling_trace.total:,} violations of {len(telling_trace.rules):,} rules"
    decision = f"{telling_trace.decision}; {violations}; last event {_moment(telling_trace.ended)}"
    notes: list[tuple[str, ...]] = [(decision,)]
    if telling_trace.task is not None:
        notes.append(("Task: ", Quoted(telling_trace.task)))
    if telling_trace.total > len(telling_trace.violations):
        notes.append((f"The first {len(telling_trace.violations):,} of {telling_trace.total:,} violations:",))
    rows = tuple(
        (
            "at the end" if violation.event is None else str(violation.event),
            Quoted(violation.rule),
            Quoted(violation.call),
            Quoted(violation.message),
        )
        for violation in telling_trace.violations
    )
    return ReportSection(
        _id(telling_trace.trace), tuple(notes), ReportTable(("event", "rule", "call", "message"), rows, 4), level=3
    )


def _id(trace: str | None) -> Quoted:
    return Quoted("a trace without an id" if trace is None else trace)


def _tasks(report: AuditReport) -> ReportSection:
    rates = report.pass_rates
    about = f"{rates.runs:,} runs of {rates.tasks:,} tasks."
    unknown = f" {rates.unknown:,} runs of a task without a known success are left out." if rates.unknown else ""
    sample = f" There are too many tasks: this is a sample of one in {rates.sample:,}." if rates.sample > 1 else ""
    rows = tuple((str(rate.k), f"{rate.tasks:,}", percent(rate.passed), percent(rate.joint)) for rate in rates.rates)
    note = f"{about}{unknown}{sample} {REPEATED}" if rows else f"No run of a task says whether it succeeded.{unknown}"
    table = ReportTable(("k", "tasks", "pass^k", "joint^k"), rows, 0)
    return ReportSection("Repeated tasks", ((note,),), table, "tasks")


def _of(part: int, whole: int) -> str:
    return f"{part:,} ({percent(part / whole)})" if whole else f"{part:,}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _moment(value: Any) -> str:
    if not isinstance(value, int | float):
        return "unknown" if value is None else str(value)
    try:
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return "unknown"


LINES = 6  # rules in the plot by week
BARS = 20
_INK = "#010203"  # replaced by the colour of the page
_COLOURS = ("#4c8ed9", "#d9822b", "#3d9970", "#b565c9", "#d1495b", "#8f8f2f")  # readable on light and on dark
_LINES = ("o-", "s--", "^-.", "D:", "v-", "x--")  # and on paper without colours


def _plots(report: AuditReport) -> dict[str, str]:
    """Returns the plots as SVG by name; those without data are left out.

    Text and axes have the colour of the page's text, light or dark.
    """
    drawn = {
        "rules": _drawn("rules", lambda axis: _bars(axis, report), 1.2 + 0.32 * min(BARS, len(_violated(report)))),
        "weeks": _drawn("weeks", lambda axis: _week_lines(axis, report), 3.6),
        "tasks": _drawn("tasks", lambda axis: _pass_lines(axis, report), 3.2),
    }
    return {name: svg for name, svg in drawn.items() if svg}


def _drawn(name: str, draw: Callable[[Any], str], height: float) -> str:
    """Draws one plot; `draw` returns its description, empty if there is nothing to draw."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    settings = {"svg.hashsalt": name, "svg.fonttype": "none", "text.parse_math": False}
    inks = dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK)
    with mpl.rc_context({**settings, **inks}):
        figure = Figure(figsize=(9, height), layout=ConstrainedLayoutEngine())
        figure.patch.set_alpha(0)
        FigureCanvasSVG(figure)
        axis = figure.subplots()
        axis.patch.set_alpha(0)
        axis.spines[["top", "right"]].set_visible(False)
        description = draw(axis)
        target = io.StringIO()
        figure.savefig(target, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    # One page has several plots, and matplotlib gives the same ids in each.
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{name}-", target.getvalue().replace(_INK, "currentColor"))
    label = f'<svg role="img" aria-label="{description}"'
    return text[text.index("<svg") :].replace("<svg", label, 1) if description else ""


def _violated(report: AuditReport) -> list[Any]:
    rules = [rule for rule in report.rules if rule.counts.traces]
    return sorted(rules, key=lambda rule: (-rule.counts.traces, rule.id))


def _bars(axis: Any, report: AuditReport) -> str:
    rules = _violated(report)[:BARS]
    names = [_label(rule.id) for rule in rules]
    axis.barh(range(len(rules)), [100 * rule.share for rule in rules], color=_COLOURS[0])
    axis.set_yticks(range(len(rules)), names)
    axis.invert_yaxis()
    axis.set_xlabel("% of traces that violate the rule")
    return "Share of traces that violate each rule" if rules else ""


def _week_lines(axis: Any, report: AuditReport) -> str:
    undated = week_name(UNDATED)
    weeks = [report_week for report_week in dict.fromkeys(row.week for row in report.weeks) if report_week != undated]
    rules = [violated_rule.id for violated_rule in _violated(report)[:LINES]]
    for rule, colour, line in zip(rules, _COLOURS, _LINES, strict=False):
        shares = {row.week: 100 * row.share for row in report.weeks if row.rule == rule}
        axis.plot(range(len(weeks)), [shares[week] for week in weeks], line, color=colour, label=_label(rule))
    step = max(1, -(-len(weeks) // 12))
    axis.set_xticks(range(0, len(weeks), step), weeks[::step], rotation=30)
    axis.set(ylabel="% of the week's traces")
    axis.set_ylim(bottom=0)
    if rules:
        axis.legend(frameon=False, fontsize=8)
    return "Share of traces that violate the most violated rules, by week" if rules and weeks else ""


def _pass_lines(axis: Any, report: AuditReport) -> str:
    rates = report.pass_rates.rates
    ks = [rate.k for rate in rates]
    axis.plot(ks, [100 * rate.passed for rate in rates], "o-", color=_COLOURS[0], label="pass^k")
    axis.plot(ks, [100 * rate.joint for rate in rates], "o-", color=_COLOURS[1], label="joint^k")
    axis.set(xlabel="k", ylabel="%", ylim=(0, 105))
    axis.set_xticks(ks)
    axis.legend(frameon=False)
    return "pass^k and joint^k" if rates else ""


def _label(text: str) -> str:
    line = Quoted(text)
    return line if len(line) <= 40 else f"{line[:39]}…"
