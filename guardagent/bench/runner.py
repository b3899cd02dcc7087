"""Runs an evaluation: every example through the guard, then the metrics, the table and the plot."""

from __future__ import annotations

import contextlib
import hashlib
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from guardagent.bench.evaluation import Evaluation, Example, load_evaluation
from guardagent.bench.metrics import measure, measure_cost, measure_groups, wrong_rows
from guardagent.bench.plot import draw
from guardagent.bench.report import table
from guardagent.bench.results import Results, Row, digest_of, result_row, setup_of, write_rows, write_text
from guardagent.errors import InputError
from guardagent.guard import GuardAgent, Mode
from guardagent.models import name_of
from guardagent.types import Verdict


class Judge(Protocol):
    """What is evaluated: a GuardAgent, or anything with its `guard`."""

    def guard(self, input: str, output_log: str, facts: Mapping[str, Any] | None = None) -> Verdict:  # noqa: A002
        ...


def run_evaluation(
    name: str,
    data: Path,
    out: Path,
    *,
    mode: Mode = "auto",
    model: str | None = None,
    toolbox: Sequence[Path | str] | Path | str | None = None,
    memory: Path | str | None = None,
    progress: bool = False,
    benchmarks: Path | None = None,
) -> dict[str, Any]:
    """Judges every example of a data file and writes the results into a folder.

    An interrupted run, started again with the same arguments, judges only what is missing.

    Args:
        name: the evaluation: a folder of `benchmarks`, with `-` or `_`.
        data: JSON Lines, or the original as published where the evaluation reads it.
        out: the folder for results.jsonl, summary.json, table.md and plot.png.
        mode: as for GuardAgent, like `model`, `toolbox` and `memory`.
        model: the model that writes code where there is no program.
        toolbox: one or more folders of functions to add.
        memory: a folder with one folder per agent.
        progress: show a progress bar on standard error, if that is a terminal.
        benchmarks: a folder of evaluations instead of the shipped one.

    Returns:
        The summary.

    Raises:
        InputError: a name, a file or an option is wrong.
    """
    evaluation, source = load_evaluation(name, benchmarks)
    examples = evaluation.load(data)
    with GuardAgent(agent=evaluation.agent, mode=mode, model=model, toolbox=toolbox, memory=memory) as guard:
        if guard.obstacle:  # every single verdict would be that nothing is configured
            raise InputError(guard.obstacle)
        results = Results(_folder(out) / "results.jsonl", retry_errors=guard.program is None)
        results.refuse_others(example.id for example in examples)
        (out / "summary.json").unlink(missing_ok=True)  # only a complete run has one
        rows = judge_all(evaluation, examples, guard, results, setup_of(guard, source), progress=progress)
        about = {
            "name": name.replace("_", "-"),
            "agent": evaluation.agent,
            "mode": mode,
            "model": name_of(guard.model) if guard.model else None,
        }
    summary = _summary(evaluation, rows, {**about, "data": data.name, "data_sha256": _digest(data)})
    _write(out, evaluation, summary)
    return summary


def judge_all(
    evaluation: Evaluation,
    examples: Sequence[Example],
    guard: Judge,
    results: Results,
    setup: str,
    *,
    progress: bool = False,
) -> list[Row]:
    """The rows of all examples, in their order; those that `results` has already are not judged again."""
    rows = []
    with _interrupts() as raise_if_interrupted, _bar(len(examples), shown=progress) as advance:
        for example in examples:
            digest = digest_of(example, setup)
            row = results.get(example, digest)
            if row is None:
                verdict = guard.guard(example.agent_input, example.agent_output)
                raise_if_interrupted()
                row = result_row(evaluation, example, verdict, digest)
                results.append(row)
            rows.append(row)
            advance()
    write_rows(results.path, rows)
    return rows


def _digest(data: Path) -> str:
    with data.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out}: cannot be made a folder: {error.strerror}") from None
    return out


def _summary(evaluation: Evaluation, rows: Sequence[Row], about: Mapping[str, Any]) -> dict[str, Any]:
    from guardagent import __version__

    return {
        **about,
        "version": __version__,
        **measure(rows),
        **measure_cost(rows),
        "groups": measure_groups(rows),
        "wrong": wrong_rows(rows),
        "paper": [
            {"mark": "paper", "source": row.source, "method": row.method, "n": row.n, "group": row.group}
            | dict(row.values)
            for row in evaluation.paper
        ],
    }


def _write(out: Path, evaluation: Evaluation, summary: Mapping[str, Any]) -> None:
    write_text(out / "table.md", table(summary, evaluation.paper))
    try:
        draw(out / "plot.png", summary, evaluation.paper)
    except ImportError:
        sys.stderr.write("no plot: matplotlib is not installed; install guardagent[bench]\n")
    write_text(out / "summary.json", json.dumps(summary, indent=2, ensure_ascii=False) + "\n")


@contextlib.contextmanager
def _interrupts() -> Iterator[Callable[[], None]]:
    """Remembers a Ctrl-C: a sandbox engine may swallow it, or make a verdict of it, which must not be kept."""
    came: list[int] = []

    def handler(number: int, frame: FrameType | None) -> None:
        came.append(number)
        signal.default_int_handler(number, frame)

    def raise_if_interrupted() -> None:
        if came:
            raise KeyboardInterrupt

    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield raise_if_interrupted  # who has a handler of their own decides what it does
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield raise_if_interrupted
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def _bar(total: int, *, shown: bool) -> Iterator[Callable[[], None]]:
    if not (shown and sys.stderr.isatty()):
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("judging", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total)
        yield lambda: bar.advance(task)
