"""The results of an evaluation: the file results.jsonl, the tables in Markdown, and plot.png.

The file has one row per example, written when it is judged, so that an interrupted run can resume. A table has this run
beside the paper's numbers, and one table follows for each breakdown; the plot shows the same.

Of a run with a model, further tables show the generation: executable code before and after debugging, and errors (the
paper's Table 2 and Appendix K), time (Table 6) and words (Table 7).
"""

from __future__ import annotations

import hashlib
import json
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from guardagent._support.files import parse_json, save_text
from guardagent._support.requirements import install_hint
from guardagent._version import __version__
from guardagent.batch.results import ResultLog
from guardagent.bench.evaluation import BenchExample, Evaluation, PaperRow
from guardagent.bench.metrics import METRICS, mean, percent
from guardagent.errors import ContentError, InputError
from guardagent.guard import GuardAgent
from guardagent.programs.answers import holds_code
from guardagent.programs.generation import CHECKED_BY
from guardagent.programs.program import UNKNOWN
from guardagent.types import Step, Verdict, thaw

Row = dict[str, Any]

_KEYS = {"id", "label", "truth", "errors", "digest"}


class Results(ResultLog):
    """The file of rows. A row is reused only if its digest is that of the example and the guard.

    With `retry_errors`, rows that could not be checked are judged again: a failure of a model may be temporary.
    """

    def __init__(self, path: Path, *, retry_errors: bool = False) -> None:
        self._retry_errors = retry_errors
        super().__init__(path)

    def _resume(self) -> None:
        self._rows = {row["id"]: row for row in self._read()}
        self.drop_torn_row()

    def refuse_other_rows(self, ids: Iterable[str]) -> None:
        """Checks that all rows belong to this data.

        Raises:
            InputError: a row belongs to an unknown example.
        """
        refuse_rows(self.path, sorted(self._rows.keys() - set(ids)))

    def get(self, example: BenchExample, digest: str) -> Row | None:
        row = self._rows.get(example.id)
        if row is None or row["digest"] != digest or (self._retry_errors and row["errors"]):
            return None
        return row

    def keep(self, row: Row) -> None:
        """Appends the row of an example."""
        self.append(line_of(row))

    def complete(self, rows: Iterable[Row]) -> None:
        """Replaces the file by the rows of all examples in the order of the data."""
        self.replace(map(line_of, rows))

    def _read(self) -> Iterator[Row]:
        for number, line in enumerate(self.rows(), start=1):
            if not line.strip():
                continue
            row = parse_json(line, self.path, number)
            if not isinstance(row, dict) or not row.keys() >= _KEYS:
                message = "is not a row of an evaluation; expected the rows of an earlier run, or an empty folder"
                raise ContentError(message, self.path, number)
            yield row


def result_row(
    evaluation: Evaluation, example: BenchExample, verdict: Verdict, digest: str, *, of_program: bool = False
) -> Row:
    """The row of a verdict. `explained` is None for a run that must pass, `answered` for one that must be denied.

    With `of_program`, a verdict by a model means that the program could not decide the run.
    """
    must_deny = example.label == 1
    allowed_answer = verdict.answer if verdict.label == 0 else None
    return {
        "id": example.id,
        "label": verdict.label,
        "truth": example.label,
        "decision": str(verdict.decision),
        "label_right": verdict.label == example.label,
        "explained": (verdict.label == 1 and evaluation.explained(verdict, example)) if must_deny else None,
        "answered": None if must_deny else _answers(evaluation, allowed_answer, example),
        "run_right": None if must_deny else _answers(evaluation, evaluation.run_answer(example), example),
        "rates": {name: rate(verdict, example) for name, rate in evaluation.rates.items()},
        "details": thaw(verdict.details),
        "reasons": list(verdict.reasons),
        "errors": list(verdict.errors),
        "answer": verdict.answer,
        "risk": verdict.risk,
        "checked_by": verdict.checked_by,
        "model_calls": verdict.model_calls,
        "elapsed_ms": round(verdict.elapsed_ms, 3),
        "unknown": bool(verdict.details.get(UNKNOWN)) or (of_program and verdict.checked_by == CHECKED_BY),
        "generated": describe(verdict),
        "groups": evaluation.groups(example),
        "digest": digest,
    }


def digest_of(example: BenchExample, setup: str) -> str:
    """A digest of the example and the setup."""
    values = [
        setup,
        example.id,
        example.agent_input,
        example.agent_output,
        example.label,
        thaw(example.truth),
    ]
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:24]


def setup_of(guard: GuardAgent, evaluation_file: Path, settings: Mapping[str, Any]) -> str:
    """Identifies the setup of a run: settings, the guard's files, the evaluation and the version."""
    files = [file for file in (*guard.sources, evaluation_file) if file.is_file()]
    # Names without folders, so that a checkout may move.
    contents = [(file.name, hashlib.sha256(file.read_bytes()).hexdigest()) for file in files]
    return repr((__version__, dict(settings), contents))


def refuse_rows(path: Path, others: Sequence[Any]) -> None:
    """Refuses a file with rows of other data, by their ids.

    Raises:
        InputError: there are some.
    """
    if others:
        raise InputError(
            f"{path}: holds {len(others)} rows of other data, such as {others[0]!r}; "
            "expected a new folder, or the folder of the same evaluation and data"
        )


def results_folder(out: Path) -> Path:
    """Creates the folder of a run.

    Raises:
        InputError: it cannot be created.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out}: the folder cannot be created: {error.strerror}") from None
    return out


def write_results(out: Path, text: str, plot: Callable[[Path], None], summary: Mapping[str, Any]) -> None:
    """Writes table.md, plot.png and summary.json; without matplotlib, prints a note instead of a plot."""
    save_text(out / "table.md", text)
    try:
        plot(out / "plot.png")
    except ImportError:
        sys.stderr.write(f"no plot: matplotlib is not installed; {install_hint('bench')}\n")
    save_text(out / "summary.json", json.dumps(summary, indent=2, ensure_ascii=False) + "\n")


def line_of(row: Mapping[str, Any]) -> str:
    """A row as JSON; a lone surrogate becomes its JSON escape."""
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()


def _answers(evaluation: Evaluation, answer: str | None, example: BenchExample) -> bool:
    return answer is not None and evaluation.answered(answer, example)


Block = Mapping[str, Any]

NOT_RUN = {
    "program": "not run: --mode program",
    "generate": "not run: needs a model (--mode generate --model M)",
    "model-only": "not run: needs a model (--mode model-only --model M)",
}


def table(summary: Block, evaluation: Evaluation) -> str:
    """The content of table.md."""
    paper = evaluation.paper
    parts = [
        f"# {summary['name']}",
        about(summary),
        _main_table(summary, paper),
        _notes(summary, paper),
        *(_group_table(summary, dimension, paper) for dimension in summary["groups"]),
        *generated_tables(summary, evaluation),
    ]
    return "\n\n".join(parts) + "\n"


def shares(block: Block) -> dict[str, float | None]:
    """The metrics of a block by name: the paper's five, then those of the evaluation."""
    return {**{name: block[name] for name in METRICS}, **block["rates"]}


def percent_text(values: Mapping[str, float | None], metric: str) -> str:
    """Formats a percentage with one decimal; `n/a` for an empty denominator, a dash if not reported."""
    if metric not in values:
        return "-"
    value = values[metric]
    return "n/a" if value is None else f"{value:.1f}"


def about(summary: Block) -> str:
    """A sentence with version, mode, model and settings."""
    model = f", model {summary['model']}" if summary["model"] else ""
    all_settings = {name: value for name, value in summary["settings"].items() if name not in ("mode", "model")}
    settings_in_use = {name: value for name, value in all_settings.items() if value is not None and value is not False}
    changed = [name if value is True else f"{name} {value}" for name, value in settings_in_use.items()]
    settings = f" Settings: {', '.join(changed).replace('_', ' ')}." if changed else ""
    if summary["mode"] == "generate" and not all_settings["required_checks"]:
        settings += " Without the host's required checks, as in the paper."
    return (
        f"GuardAgent {summary['version']}, mode {summary['mode']}{model}, guarding {summary['agent']}, "
        f"on the {summary['n']} runs of {summary['data']}. All metrics in percent.{settings}"
    )


def _main_table(summary: Block, paper: Sequence[PaperRow]) -> str:
    metrics = list(shares(summary))
    rows = [line("**this run**", "measured", summary["n"], shares(summary), metrics)]
    ran = {summary["mode"]}
    if summary["mode"] == "auto":
        alone = summary["unknown"]["program_alone"]
        rows.append(line("its program alone", "measured", alone["n"], shares(alone), metrics))
        ran.add("program")
    rows += [line(mode, reason, None, {}, metrics) for mode, reason in NOT_RUN.items() if mode not in ran]
    rows += [_paper_line(row.method, row, metrics) for row in paper if row.group is None]
    return markdown(["guard", "source", "n", *metrics], rows)


def _paper_line(first: str, row: PaperRow, metrics: Sequence[str]) -> list[str]:
    return line(first, f"paper ({row.source})", row.n, row.values, metrics)


def line(
    first: str, source: str, n: int | None, values: Mapping[str, float | None], metrics: Sequence[str]
) -> list[str]:
    """A row of a table."""
    return [first, source, "-" if n is None else str(n), *(percent_text(values, name) for name in metrics)]


def _notes(summary: Block, paper: Sequence[PaperRow]) -> str:
    counts, times = summary["counts"], summary["elapsed_ms"]
    right = f"{counts['right_runs']} of the {counts['TN'] + counts['FP']} runs that must pass"
    passed = f"{percent_text(summary, 'FRA_of_right_runs')} percent of these"
    lines = [
        f"- {right} gave the right answer without a guard; {passed} passed with the right answer.",
        f"- Denied because they could not be checked: {summary['errors']}. Model calls: {_calls(summary)}.",
        f"- Not decided by the program: {percent_text(summary['unknown'], 'share')} percent of the runs.",
        f"- Time per verdict: median {times['median']:.1f} ms, p99 {times['p99']:.1f} ms.",
    ]
    if wrong := [row["id"] for row in summary["wrong"]]:
        more = f" and {len(wrong) - 20} more" if len(wrong) > 20 else ""
        lines.append(f"- Rows with an error ({len(wrong)}; see summary.json): {', '.join(wrong[:20])}{more}.")
    if paper:
        lines.append("- Rows marked *paper* are quoted; their authors measured them on other examples.")
    return "\n".join(lines)


def _calls(summary: Block) -> str:
    cached = (summary["generated"] or {"cached": 0})["cached"]
    from_cache = f", {cached} of them answered from the cache" if cached else ""
    return f"{summary['model_calls']}{from_cache}"


def _group_table(summary: Block, dimension: str, paper: Sequence[PaperRow]) -> str:
    groups = summary["groups"][dimension]
    values = {group: shares(block) for group, block in groups.items()}
    metrics = [name for name in shares(summary) if any(block[name] is not None for block in values.values())]
    rows = []
    for group, block in values.items():
        rows.append(line(group, "measured", groups[group]["n"], block, metrics))
        quoted = (row for row in paper if row.group == (dimension, group))
        rows += [_paper_line(f"{group}: {row.method}", row, metrics) for row in quoted]
    return f"## By {dimension}\n\n" + markdown([dimension, "source", "n", *metrics], rows)


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
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    groups = summary["groups"]
    heights = [3.6, *(1.2 + 0.45 * len(blocks) for blocks in groups.values())]
    figure = new_figure(_WIDTH, sum(heights), ConstrainedLayoutEngine(h_pad=0.15))
    axes = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    _draw_methods(axes[0], summary, [row for row in paper if row.group is None])
    for axis, (dimension, blocks) in zip(axes[1:], groups.items(), strict=True):
        _draw_groups(axis, dimension, {f"{name} (n={block['n']})": shares(block) for name, block in blocks.items()})
    figure.savefig(path, dpi=120)


def new_figure(width: float, height: float, layout: Any = "constrained") -> Any:
    """Returns an empty figure with a canvas: pyplot would choose a backend for the whole process.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


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
    own = [name for block in groups.values() for name in block if name not in METRICS]
    return own[0] if own else "EA"


def _title(summary: Mapping[str, Any]) -> str:
    return f"{summary['name']}: GuardAgent {summary['version']}, mode {summary['mode']}, guarding {summary['agent']}"


def _tidy(axis: Any) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(length=0)


# --- generation

ATTEMPTS = ("code", "debug")
NO_CODE = "no code"
"""No version of the code was generated: the plan was unusable, or the model did not answer."""

_MODEL_STEPS = ("plan", *ATTEMPTS, "judge")


def describe(verdict: Verdict) -> dict[str, Any] | None:
    """The part of a row about generation; None for a verdict without a model."""
    if not verdict.story:
        return None
    votes = sorted({step.vote for step in verdict.story})
    judged = [step.text for step in verdict.story if step.name == "judge"]
    return {
        "usage": asdict(verdict.usage),
        "attempts": [] if judged else [_attempts(_steps_of_vote(verdict.story, vote)) for vote in votes],
        "words": {
            "demonstration": mean(_demonstrations(verdict.story)),
            "prompt": mean(map(_prompt_words, _first_prompts(verdict.story))),
            "response": sum(len(step.text.split()) for step in verdict.story if step.name in _MODEL_STEPS),
        },
        "code_written": holds_code(judged[0]) if judged and judged[0] else None,
    }


def is_silent(verdict: Verdict) -> bool:
    """Whether a model was called and gave no answer at all."""
    answers = [step.text for step in verdict.story if step.name in _MODEL_STEPS]
    return bool(verdict.errors and answers) and not any(answers)


def measure_generated(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The metrics over all rows with a model; None without such rows."""
    generated_rows = [row for row in rows if row.get("generated")]
    if not generated_rows:
        return None
    records = [row["generated"] for row in generated_rows]
    attempts = [attempt for record in records for attempt in record["attempts"]]
    written = [record["code_written"] for record in records if record["code_written"] is not None]
    return {
        "executable": {
            "before": percent(sum(attempt[0] is None for attempt in attempts), len(attempts)),
            "after": percent(sum(attempt[-1] is None for attempt in attempts), len(attempts)),
        },
        "errors": _error_counts(attempts),
        "code_written": percent(sum(written), len(written)),
        "cached": sum(record["usage"]["cached"] for record in records),
        "per_check": _per_check(generated_rows),
    }


def _per_check(rows: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """The means per check. Time and money are averaged only over rows without cached answers."""
    words, usage = [row["generated"]["words"] for row in rows], [row["generated"]["usage"] for row in rows]
    uncached = [row for row in rows if not row["generated"]["usage"]["cached"]]
    return {
        "seconds": mean(row["elapsed_ms"] / 1000 for row in uncached),
        "words of a demonstration": mean(word["demonstration"] for word in words),
        "words of a prompt": mean(word["prompt"] for word in words),
        "words of the answers": mean(word["response"] for word in words),
        "prompt tokens": mean(counts["prompt_tokens"] for counts in usage),
        "completion tokens": mean(counts["completion_tokens"] for counts in usage),
        "US dollars": mean((row["generated"]["usage"]["cost"] for row in uncached), digits=6),
    }


def _steps_of_vote(story: Sequence[Step], vote: int) -> list[Step]:
    return [step for step in story if step.vote == vote]


def _attempts(story: Sequence[Step]) -> list[str | None]:
    """The kind of error of each version of the code, None for one that ran; never empty."""
    kinds = [_error_kind(step) for step in story if step.name == "run" or (step.name in ATTEMPTS and step.kind)]
    return kinds or [NO_CODE]


def _error_kind(step: Step) -> str | None:
    """The kind of error; `other` if the error has no kind."""
    return step.kind or ("other" if step.error else None)


def _error_counts(attempts: Sequence[Sequence[str | None]]) -> dict[str, dict[str, int]]:
    """Kind of the first version's error -> the number of examples, and of those solved by debugging."""
    failed = [attempt for attempt in attempts if attempt[0] is not None]
    before = Counter(str(attempt[0]) for attempt in failed)
    solved = Counter(str(attempt[0]) for attempt in failed if attempt[-1] is None)
    return {kind: {"examples": count, "solved": solved[kind]} for kind, count in sorted(before.items())}


def _first_prompts(story: Sequence[Step]) -> list[Step]:
    """The first step of each kind except debugging: plan and code, or the judgement."""
    names: dict[str, Step] = {}
    for step in story:
        if step.name in _MODEL_STEPS and step.name != "debug":
            names.setdefault(step.name, step)
    return list(names.values())


def _prompt_words(step: Step) -> int:
    return sum(len(message.content.split()) for message in step.prompt)


def _demonstrations(story: Sequence[Step]) -> list[int]:
    lines = [line for step in story[:1] if step.name == "retrieve" for line in step.text.split("\n") if line]
    return [_words(json.loads(line)) for line in lines]


def _words(record: Mapping[str, Any]) -> int:
    return sum(len(("\n".join(value) if isinstance(value, list) else value).split()) for value in record.values())


def generated_tables(summary: Mapping[str, Any], evaluation: Evaluation) -> list[str]:
    """Sections of table.md: executable code, errors, and the time and words of one check."""
    figures, paper = summary["generated"], evaluation.paper_generated
    if figures is None:
        return []
    sections = [_section("One check", figures["per_check"], paper.per_check)]
    if summary["mode"] == "model-only":
        measured = {"percent": figures["code_written"]}
        return [*sections, _section("Answers that are code although none was requested", measured, paper.code_written)]
    title = "Executable code before and after debugging, in percent"
    return [
        *sections,
        _section(title, figures["executable"], paper.executable),
        *_error_section(figures["errors"], paper.errors),
    ]


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with numbers from the third column on."""
    aligned = ["---" if column < 2 else "---:" for column in range(len(head))]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in [head, aligned, *rows])


def _section(title: str, measured: Values, paper: Sequence[PaperRow]) -> str:
    rows = [_row("**this run**", "measured", measured, list(measured))]
    rows += [_row(row.method, f"paper ({row.source})", row.values, list(measured)) for row in paper]
    return f"## {title}\n\n" + markdown(["guard", "source", *measured], rows)


def _row(first: str, source: str, values: Values, columns: Sequence[str]) -> list[str]:
    return [first, source, *(_number(values[name]) if name in values else "-" for name in columns)]


def _error_section(errors: Mapping[str, Values], paper: Sequence[PaperRow]) -> list[str]:
    if not errors:
        return []
    columns = ["examples", "solved"]
    rows = [_row(kind, "measured", count, columns) for kind, count in errors.items()]
    rows += [_row(row.method, f"paper ({row.source})", row.values, columns) for row in paper]
    return ["## Errors of the first version of the code\n\n" + markdown(["kind", "source", *columns], rows)]


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:g}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
