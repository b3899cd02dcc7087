"""Draws plot.png: this run beside the paper's numbers, and this run by group."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from guardagent.bench.evaluation import PaperRow
from guardagent.bench.report import percent_text, shares

Values = Mapping[str, float | None]

_WIDTH = 11
_GREYS = ("#2f4b7c", "#6f86ad", "#a9b7d0", "#8c8c8c", "#bdbdbd", "#d9d9d9")
_OURS = "#d1495b"
_OURS_LIGHT = "#edae49"


def draw(path: Path, summary: Mapping[str, Any], paper: Sequence[PaperRow]) -> None:
    """Draws the summary.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    groups = summary["groups"]
    heights = [3.6, *(1.2 + 0.45 * len(blocks) for blocks in groups.values())]
    # An explicit canvas: pyplot would choose a backend for the whole process.
    figure = Figure(figsize=(_WIDTH, sum(heights)), layout=ConstrainedLayoutEngine(h_pad=0.15))
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    _draw_methods(axes[0], summary, [row for row in paper if row.group is None])
    for axis, (dimension, blocks) in zip(axes[1:], groups.items(), strict=True):
        _draw_groups(axis, dimension, {f"{name} (n={block['n']})": shares(block) for name, block in blocks.items()})
    figure.savefig(path, dpi=120)


def _draw_methods(axis: Any, summary: Mapping[str, Any], paper: Sequence[PaperRow]) -> None:
    """Draws the metrics with one bar per method."""
    metrics = list(shares(summary))
    series: list[tuple[str, Values, str]] = [(f"this run (measured, n={summary['n']})", shares(summary), _OURS)]
    for number, row in enumerate(paper):
        series.append((f"{row.method} (paper, n={row.n or '?'})", row.values, _GREYS[number % len(_GREYS)]))
    width = 0.8 / len(series)
    for number, (label, values, colour) in enumerate(series):
        places = [place + (number - (len(series) - 1) / 2) * width for place in range(len(metrics))]
        bars = axis.bar(places, [values.get(name) or 0 for name in metrics], width * 0.95, label=label, color=colour)
        labels = [percent_text(values, name) for name in metrics]
        axis.bar_label(bars, labels, fontsize=6.5, padding=1, rotation=90 if len(series) > 4 else 0)
    axis.set_xticks(range(len(metrics)), metrics)
    axis.set(title=_title(summary), ylabel="percent", ylim=(0, 118))
    axis.set_yticks(range(0, 101, 20))
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
    _tidy(axis)


def _draw_groups(axis: Any, dimension: str, groups: Mapping[str, Values]) -> None:
    """Draws two bars per group: label accuracy, and a finer metric."""
    finer_metric = _finer_metric(groups)
    for offset, metric, colour in ((-0.2, "LPA", _OURS), (0.2, finer_metric, _OURS_LIGHT)):
        places = [place + offset for place in range(len(groups))]
        bars = axis.barh(places, [block[metric] or 0 for block in groups.values()], 0.36, label=metric, color=colour)
        axis.bar_label(bars, [percent_text(block, metric) for block in groups.values()], fontsize=7, padding=2)
    axis.set_yticks(range(len(groups)), [textwrap.fill(name, 36) for name in groups], fontsize=8)
    axis.invert_yaxis()
    axis.set(title=f"this run by {dimension}", xlabel="percent", xlim=(0, 108))
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
    _tidy(axis)


def _finer_metric(groups: Mapping[str, Values]) -> str:
    """The metric beside LPA: the evaluation's own rate, else EA."""
    own = [name for block in groups.values() for name in block if name not in ("LPA", "LPP", "LPR", "EA", "FRA")]
    return own[0] if own else "EA"


def _title(summary: Mapping[str, Any]) -> str:
    return f"{summary['name']}: GuardAgent {summary['version']}, mode {summary['mode']}, guarding {summary['agent']}"


def _tidy(axis: Any) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(length=0)
