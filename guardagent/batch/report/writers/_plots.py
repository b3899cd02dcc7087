"""The plots of a report as SVG for a page: text and axes have the colour of the page's text, light or dark."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

from guardagent._support.sections.section import Quoted
from guardagent.batch.report.figures import AuditReport
from guardagent.batch.report.verdict_batch import UNDATED, week_name

LINES = 6  # rules in the plot by week
BARS = 20
_INK = "#010203"  # replaced by the colour of the page
_COLOURS = ("#4c8ed9", "#d9822b", "#3d9970", "#b565c9", "#d1495b", "#8f8f2f")  # readable on light and on dark


def plots(report: AuditReport) -> dict[str, str]:
    """Returns the plots by name; those without data are left out."""
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
    rules = [one for one in report.rules if one.counts.traces]
    return sorted(rules, key=lambda one: (-one.counts.traces, one.id))


def _bars(axis: Any, report: AuditReport) -> str:
    rules = _violated(report)[:BARS]
    names = [_label(one.id) for one in rules]
    axis.barh(range(len(rules)), [100 * one.share for one in rules], color=_COLOURS[0])
    axis.set_yticks(range(len(rules)), names)
    axis.invert_yaxis()
    axis.set_xlabel("% of traces that violate the rule")
    return "Share of traces that violate each rule" if rules else ""


def _week_lines(axis: Any, report: AuditReport) -> str:
    undated = week_name(UNDATED)
    weeks = [one for one in dict.fromkeys(row.week for row in report.weeks) if one != undated]
    rules = [one.id for one in _violated(report)[:LINES]]
    for rule, colour in zip(rules, _COLOURS, strict=False):
        shares = {row.week: 100 * row.share for row in report.weeks if row.rule == rule}
        axis.plot(range(len(weeks)), [shares[week] for week in weeks], ".-", color=colour, label=_label(rule))
    step = max(1, -(-len(weeks) // 12))
    axis.set_xticks(range(0, len(weeks), step), weeks[::step], rotation=30)
    axis.set(ylabel="% of the week's traces")
    axis.set_ylim(bottom=0)
    if rules:
        axis.legend(frameon=False, fontsize=8)
    return "Share of traces that violate the most violated rules, by week" if rules and weeks else ""


def _pass_lines(axis: Any, report: AuditReport) -> str:
    rates = report.pass_rates.rates
    ks = [one.k for one in rates]
    axis.plot(ks, [100 * one.passed for one in rates], "o-", color=_COLOURS[0], label="pass^k")
    axis.plot(ks, [100 * one.joint for one in rates], "o-", color=_COLOURS[1], label="joint^k")
    axis.set(xlabel="k", ylabel="%", ylim=(0, 105))
    axis.set_xticks(ks)
    axis.legend(frameon=False)
    return "pass^k and joint^k" if rates else ""


def _label(text: str) -> str:
    line = Quoted(text)
    return line if len(line) <= 40 else f"{line[:39]}…"
