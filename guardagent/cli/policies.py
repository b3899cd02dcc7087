"""The commands `check`, `test` and `audit`: judge many records by policies."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guardagent.cli.options import JsonLines, Locked, OptionalPolicyFiles, PolicyFiles, RequestModelName, RequireReview
from guardagent.cli.output import note, print_json, print_line, screen, unreadable
from guardagent.cli.tables import (
    Engine,
    EngineOptions,
    FileFormat,
    Partitions,
    TableRun,
    Where,
    audit_tables,
)
from guardagent.errors import InputError

if TYPE_CHECKING:
    from guardagent.batch.jobs import Job, MetricsOnly, Result, VerdictMetrics
    from guardagent.policy.policies import Policies

Cases = Annotated[str, typer.Argument(help="Cases, one JSON object per line (a file, or - for standard input).")]
Traces = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...",
        help="Traces, one JSON object per line (a file, or - for standard input); or tables: several files, folders or "
        "URLs of JSON Lines or Parquet.",
    ),
]
Workers = Annotated[int, typer.Option("--workers", min=1, help="The number of parallel processes.")]
OptionalWorkers = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="The number of parallel processes (default: 1; for tables one per core)."),
]
OutputFileOrFolder = Annotated[
    str | None,
    typer.Option("--out", help="The file for the verdicts, one JSON object per line; for tables a folder or its URL."),
]
Out = Annotated[Path | None, typer.Option("--out", help="The file for the verdicts, one JSON object per line.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue after the verdicts in '--out'.")]


def check(
    cases: Cases,
    *,
    policies: PolicyFiles,
    model: RequestModelName = None,
    workers: Workers = 1,
    out: Out = None,
    resume: Resume = False,
    locked: Locked = None,
    require_review: RequireReview = False,
    as_json: JsonLines = False,
) -> None:
    """Judge the proposed call of each case.

    If cases carry labels, also reports accuracy, precision and recall.
    """
    from guardagent.batch.cases import judge_case
    from guardagent.batch.jobs import Job
    from guardagent.batch.records import read_case

    run = _BatchRun(
        Job(cases, _loader(policies, model, locked, require_review), read_case, judge_case),
        "cases",
        as_json,
        model,
        workers,
        out,
        resume,
    )
    metrics = run.judge(run.reporter(every=True))
    raise typer.Exit(metrics.status)


def audit(
    traces: Traces,
    *,
    policies: PolicyFiles,
    model: RequestModelName = None,
    engine: Engine = None,
    engine_options: EngineOptions = None,
    file_format: FileFormat = None,
    where: Where = None,
    partitions: Partitions = None,
    workers: OptionalWorkers = None,
    out: OutputFileOrFolder = None,
    resume: Resume = False,
    locked: Locked = None,
    require_review: RequireReview = False,
    as_json: JsonLines = False,
) -> None:
    """Replay whole traces up to their end.

    Obligations that are unmet at the end are violations. Without '--json' or '--out', shows only denials and warnings.
    Tables are judged by an engine, each trace as a whole, whichever files its events come from.
    """
    tables = TableRun(traces, engine, engine_options, file_format, where, partitions, out, resume, workers)
    if tables.are_tables:
        raise typer.Exit(audit_tables(tables, policies, locked=locked, require_review=require_review, as_json=as_json))
    tables.refuse_options()
    from guardagent.batch.audit import TraceJudge
    from guardagent.batch.jobs import Job
    from guardagent.batch.records import read_trace

    judge = TraceJudge(traces[0])
    run = _BatchRun(
        Job(traces[0], _loader(policies, model, locked, require_review), read_trace, judge, judge.prepare),
        "traces",
        as_json,
        model,
        workers or 1,
        None if out is None else Path(out),
        resume,
    )
    metrics = run.judge(run.reporter(every=False))
    raise typer.Exit(metrics.status)


def compare(
    files: Annotated[
        list[str], typer.Argument(metavar="CASES", help="Cases with expected labels or rules (a file, or -).")
    ],
    *,
    policies: OptionalPolicyFiles = None,
    model: RequestModelName = None,
    as_json: JsonLines = False,
) -> None:
    """Compare verdicts with the expected labels and rules, as a diff.

    Exits with 1 if one differs. Instead of '--policies', the policy file may be the first argument.
    """
    from guardagent.batch.cases import difference, judge_case, read_expectation
    from guardagent.batch.jobs import Job

    paths, cases = _policies_and_cases(files, policies)
    run = _BatchRun(Job(cases, _loader(paths, model), read_expectation, judge_case), "cases", as_json, model)
    different = 0

    def report(result: Result) -> None:
        nonlocal different
        different += bool(difference(result))
        run.show_comparison(result)

    metrics = run.judge(report)
    note(f"{metrics.judged - different:,} of {metrics.judged:,} cases match their expectation")
    raise typer.Exit(2 if metrics.unreadable else int(different > 0))


def _policies_and_cases(files: list[str], policies: list[str] | None) -> tuple[list[str], str]:
    paths = [*(policies or []), *files]
    if len(files) != (1 if policies else 2):
        raise InputError(f"unexpected number of files: {len(paths)}; expected CASES --policies FILE, one file each")
    return paths[:-1], paths[-1]


@dataclass(slots=True)
class _BatchRun:
    """Judges one file. Rows go to standard output, everything else to standard error."""

    job: Job
    record_kind: str
    as_json: bool
    model: str | None = None
    workers: int = 1
    out: Path | None = None
    resume: bool = False
    ids: tuple[str, ...] = ()

    def judge(self, report: Callable[[Result], None]) -> VerdictMetrics:
        """Judges the remaining lines, reports each result, and prints a summary."""
        from guardagent.cli.render_results import summary

        policies = self.job.load()
        self.ids = policies.ids
        if self.job.prepare is not None:
            self.job.prepare(policies, workers=self.workers, resume=self.resume)
        result_log = self._result_log(policies)
        with self._interrupt_message(result_log), contextlib.closing(self._results(policies, result_log)) as results:
            for result in results:
                if result.error:
                    unreadable(result.error, as_json=self.as_json)
                else:
                    report(result)
        if not result_log.metrics.judged and not result_log.metrics.unreadable:
            raise InputError(f"{self.job.name}: holds no {self.record_kind}; expected one JSON object per line")
        note(summary(result_log.metrics, self.record_kind))
        return result_log.metrics

    def reporter(self, *, every: bool) -> Callable[[Result], None]:
        """Prints results as JSON rows or as text; prints nothing if `--out` keeps them."""
        if self.as_json:
            return lambda result: print_line(result.row)
        if self.out is not None:
            return lambda _: None
        from guardagent.cli.render_results import show_result

        console = screen()
        return lambda result: show_result(result, console) if every or not result.is_clean else None

    def show_comparison(self, result: Result) -> None:
        """Prints expectation and result as a JSON row or, if they differ, as a diff."""
        from guardagent.batch.cases import difference
        from guardagent.cli.render_results import show_difference

        found = difference(result)
        if self.as_json:
            expected = {"label": result.expected_label, "rules": result.expected_rules}
            compared = {"expected": expected, "differs": bool(found), "difference": asdict(found)}
            print_json({**json.loads(result.row), **compared})
        elif found:
            show_difference(result, f"{self.job.name}:{result.line}:", self.ids, screen())

    def _results(self, policies: Policies, result_log: MetricsOnly) -> Generator[Result]:
        from guardagent.batch.pipeline import judge_file

        with self._progress_bar() as advance:
            yield from judge_file(self.job, policies, result_log, workers=self.workers, advance=advance)

    def _result_log(self, policies: Policies) -> MetricsOnly:
        from guardagent._version import __version__
        from guardagent.batch.jobs import MetricsOnly, ResumableLog, VerdictMetrics

        metrics = VerdictMetrics.for_rules(policies.ids)
        if self.out is None:
            if self.resume:
                raise InputError("'--resume' needs '--out FILE', the file with the verdicts so far")
            return MetricsOnly(metrics)
        model = f", {self.model}" if policies.requests else ""
        setup = f"guardagent {__version__}, {self.record_kind}, policies {policies.digest}{model}"
        return ResumableLog(self.out, setup, metrics, resume=self.resume)

    @contextlib.contextmanager
    def _interrupt_message(self, result_log: MetricsOnly) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            more = f"; add '--resume' to continue after the verdicts in {self.out}" if self.out else ""
            note(f"guardagent: interrupted after {result_log.metrics.judged:,} {self.record_kind}{more}")
            raise typer.Exit(130) from None

    @contextlib.contextmanager
    def _progress_bar(self) -> Iterator[Callable[[int], None]]:
        """A progress bar on standard error, if that is a terminal and no rows go to the same terminal."""
        rows_shown = sys.stdout.isatty() and (self.as_json or self.out is None)
        if rows_shown or not sys.stderr.isatty():
            yield lambda _: None
            return
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

        columns = (self.record_kind, BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        # Rich would redirect standard output to the bar's console, even if it is a file.
        with Progress(*columns, console=screen(stderr=True), redirect_stdout=False) as bar:
            task = bar.add_task("", total=_size(self.job.path))
            yield lambda done: bar.update(task, completed=done)


def _loader(
    paths: list[str],
    model: str | None,
    locked: Path | None = None,
    require_review: bool = False,  # noqa: FBT001, FBT002 - an option
) -> Callable[[], Policies]:
    from guardagent.policy.load import load_policies

    return partial(load_policies, paths, model=model, locked=locked, require_review=require_review)


def _size(path: str) -> int | None:
    """The size of a file in bytes; None for a stream."""
    return Path(path).stat().st_size if Path(path).is_file() else None
