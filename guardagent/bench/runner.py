"""Runs an evaluation: judges every example, then writes metrics, table and plot."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from guardagent._support import execution
from guardagent._version import __version__
from guardagent.batch.pipeline import map_concurrently
from guardagent.bench.evaluation import BenchExample, Evaluation, PaperRow, Replay, find_evaluation
from guardagent.bench.experiment import Experiment, Judge
from guardagent.bench.generation import is_silent, measure_generated
from guardagent.bench.metrics import measure, measure_cost, measure_groups, measure_unknown, wrong_rows
from guardagent.bench.plot import draw
from guardagent.bench.replay import run_replay
from guardagent.bench.report import table
from guardagent.bench.results import Results, Row, digest_of, result_row, setup_of, write_text
from guardagent.errors import InputError, ModelError
from guardagent.types import Verdict

_MAX_SILENT_EXAMPLES = 3  # after this many examples without an answer, the run ends


def run_evaluation(
    name: str,
    data: Path,
    out: Path,
    *,
    progress: bool = False,
    benchmarks: Path | None = None,
    policies: Path | None = None,
    state: Path | None = None,
    facts: Mapping[str, Any] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Judges every example of a data file and writes the results into a folder.

    An interrupted run resumes when it is started again with the same arguments.

    Args:
        name: the evaluation: a folder of `benchmarks`, with `-` or `_`.
        data: JSON Lines, or the original as published if the evaluation supports it.
        out: the folder for results.jsonl, summary.json, table.md and plot.png.
        progress: show a progress bar on standard error, if that is a terminal.
        benchmarks: a folder of evaluations instead of the shipped one.
        policies: for an evaluation of trajectories, the guard's policy file.
        state: for an evaluation of trajectories, the guard's state.
        facts: for an evaluation of trajectories, the guard's facts.
        settings: the settings of an `Experiment`: mode, model, toolbox, memory, and the paper's ablations.

    Returns:
        The summary.

    Raises:
        InputError: a name, a file or a setting is invalid.
        ModelError: the model answers none of the first examples.
    """
    experiment = Experiment(**settings)
    evaluation, source = find_evaluation(name, benchmarks)
    if isinstance(evaluation, Replay):
        if experiment != Experiment(model=experiment.model):
            raise InputError(f"evaluation {name!r} uses no model; expected only '--policies', '--state' and '--facts'")
        return run_replay(evaluation, name, data, out, policies=policies, state=state, facts=facts)
    if (policies, state, facts) != (None, None, None):
        raise InputError(
            f"evaluation {name!r} uses its agent's guard; expected no '--policies', '--state' or '--facts'"
        )
    examples = evaluation.load(data)
    with (
        experiment.guard_agent(evaluation.agent, evaluation.shots) as guard,
        Results(_folder(out) / "results.jsonl", retry_errors=guard.model is not None) as results,
    ):
        results.refuse_other_rows(example.id for example in examples)
        (out / "summary.json").unlink(missing_ok=True)  # only a completed run has one
        settings_row = experiment.settings(guard)
        setup, judge = setup_of(guard, source, settings_row), experiment.judge(guard)
        rows = judge_all(
            evaluation,
            examples,
            judge,
            results,
            setup,
            progress=progress,
            workers=experiment.workers,
            of_program=guard.program is not None,
        )
        about = {
            "name": name.replace("_", "-"),
            "agent": evaluation.agent,
            "mode": settings_row["mode"],
            "model": settings_row.get("model"),
            "settings": settings_row,
        }
    summary = _summary(evaluation, rows, {**about, "data": data.name, "data_sha256": _digest(data)})
    _write(out, evaluation, summary)
    return summary


def judge_all(
    evaluation: Evaluation,
    examples: Sequence[BenchExample],
    judge: Judge,
    results: Results,
    setup: str,
    *,
    progress: bool = False,
    workers: int = 1,
    of_program: bool = False,
) -> list[Row]:
    """Judges all examples and returns their rows in order; rows that `results` already has are reused."""
    digests = {example.id: digest_of(example, setup) for example in examples}
    rows = {example.id: results.get(example, digests[example.id]) for example in examples}
    missing = [example for example in examples if rows[example.id] is None]
    refuse_silence = _refuse_silence(already=len(examples) - len(missing))
    with (
        results,
        execution.remember() as raise_if_interrupted,
        _progress_bar(len(examples), shown=progress) as advance,
    ):
        advance(len(examples) - len(missing))
        for example, verdict in _verdicts(judge, missing, workers):
            raise_if_interrupted()
            row = result_row(evaluation, example, verdict, digests[example.id], of_program=of_program)
            results.keep(row)
            rows[example.id] = row
            advance(1)
            refuse_silence(verdict)
        done = [row for row in rows.values() if row is not None]
        results.complete(done)
    return done


def _verdicts(judge: Any, examples: Sequence[BenchExample], workers: int) -> Iterator[tuple[BenchExample, Verdict]]:
    """Yields each example with its verdict as soon as it is judged."""
    if workers == 1:
        for example in examples:
            yield example, judge.guard(example.agent_input, example.agent_output)
        return
    with _event_loop() as loop:

        def submit(example: BenchExample) -> Future[Verdict]:
            return asyncio.run_coroutine_threadsafe(judge.aguard(example.agent_input, example.agent_output), loop)

        yield from map_concurrently(submit, examples, lambda begun: len(begun) < workers, ordered=False)


@contextlib.contextmanager
def _event_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Runs an event loop in a thread. At its end, pending tasks and their model requests are cancelled."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            yield loop
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()


def _refuse_silence(already: int) -> Callable[[Verdict], None]:
    """A callback that ends a run if the model answered none of the first examples: the others would fail too.

    Args:
        already: the number of examples judged in an earlier run; if it is not zero, the model did answer.
    """
    silent = 0

    def refuse(verdict: Verdict) -> None:
        nonlocal already, silent
        if not is_silent(verdict):
            already += 1
        silent += 1
        if not already and silent == _MAX_SILENT_EXAMPLES:
            raise ModelError(
                f"the model answered none of the first {_MAX_SILENT_EXAMPLES} examples: {verdict.errors[0]}"
            )

    return refuse


def _digest(data: Path) -> str:
    with data.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out}: the folder cannot be created: {error.strerror}") from None
    return out


def _summary(evaluation: Evaluation, rows: Sequence[Row], about: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **about,
        "version": __version__,
        **measure(rows),
        **measure_cost(rows),
        "unknown": measure_unknown(rows),
        "generated": measure_generated(rows),
        "groups": measure_groups(rows),
        "wrong": wrong_rows(rows),
        "paper": _quoted(evaluation.paper),
        "paper_generated": {
            part.name: _quoted(getattr(evaluation.paper_generated, part.name))
            for part in dataclasses.fields(evaluation.paper_generated)
        },
    }


def _quoted(rows: Sequence[PaperRow]) -> list[dict[str, Any]]:
    return [
        {"mark": "paper", "source": row.source, "method": row.method, "n": row.n, "group": row.group} | dict(row.values)
        for row in rows
    ]


def _write(out: Path, evaluation: Evaluation, summary: Mapping[str, Any]) -> None:
    write_text(out / "table.md", table(summary, evaluation))
    try:
        draw(out / "plot.png", summary, evaluation.paper)
    except ImportError:
        sys.stderr.write("no plot: matplotlib is not installed; install 'guardagent[bench]'\n")
    write_text(out / "summary.json", json.dumps(summary, indent=2, ensure_ascii=False) + "\n")


@contextlib.contextmanager
def _progress_bar(total: int, *, shown: bool) -> Iterator[Callable[[int], None]]:
    if not (shown and sys.stderr.isatty()):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("judging", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total)
        yield lambda count: bar.advance(task, count)
