"""The commands that judge many records by policies: `check`, `test` and `audit`."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guardagent.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from guardagent.batch.job import Job, Result
    from guardagent.batch.resumable_log import MetricsOnly
    from guardagent.batch.verdict_metrics import VerdictMetrics
    from guardagent.policy.policies import Policies

Cases = Annotated[str, typer.Argument(help="Cases, one JSON object in a line (a file, - for stdin).")]
Traces = Annotated[str, typer.Argument(help="Traces, one JSON object in a line (a file, - for stdin).")]
PolicyFile = Annotated[str, typer.Option("--policies", help="The policy file.")]
ModelName = Annotated[
    str | None,
    typer.Option("--model", envvar="GUARDAGENT_MODEL", help="The model for `request:` policies without a program."),
]
Workers = Annotated[int, typer.Option("--workers", min=1, help="How many processes judge at once.")]
Out = Annotated[Path | None, typer.Option("--out", help="Keep the verdicts there, one JSON object in a line.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on after the verdicts that --out holds.")]
Locked = Annotated[
    Path | None, typer.Option("--locked", help="A lock file; nothing runs that does not stand in it. See lock.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object in a line and nothing else.")]


def register(app: typer.Typer) -> None:
    """Adds the commands to an app."""
    app.command()(check)
    app.command("test")(compare)
    app.command()(audit)


def check(
    cases: Cases,
    *,
    policies: PolicyFile,
    model: ModelName = None,
    workers: Workers = 1,
    out: Out = None,
    resume: Resume = False,
    locked: Locked = None,
    as_json: Json = False,
) -> None:
    """Judge the call that each case proposes; where cases carry labels, measure the policies."""
    from guardagent.batch.cases import judge_case
    from guardagent.batch.job import Job
    from guardagent.batch.records import read_case

    run = _Run(
        Job(cases, _loader(policies, model, locked), read_case, judge_case),
        "cases",
        as_json,
        model,
        workers,
        out,
        resume,
    )
    tally = run.judge(run.shown(every=True))
    raise typer.Exit(tally.status)


def audit(
    traces: Traces,
    *,
    policies: PolicyFile,
    model: ModelName = None,
    workers: Workers = 1,
    out: Out = None,
    resume: Resume = False,
    locked: Locked = None,
    as_json: Json = False,
) -> None:
    """Replay whole traces, with what is owed at their end; in words, all that are not plainly allowed."""
    from guardagent.batch.audit import judge_trace
    from guardagent.batch.job import Job
    from guardagent.batch.records import read_trace

    run = _Run(
        Job(traces, _loader(policies, model, locked), read_trace, judge_trace),
        "traces",
        as_json,
        model,
        workers,
        out,
        resume,
    )
    tally = run.judge(run.shown(every=False))
    raise typer.Exit(tally.status)


def compare(
    policies: Annotated[str, typer.Argument(help="The policy file.")],
    cases: Cases,
    *,
    model: ModelName = None,
    as_json: Json = False,
) -> None:
    """Compare verdicts with the labels and rules that cases expect, as a diff; exit 1 where one differs."""
    from guardagent.batch.cases import difference, judge_case, read_expectation
    from guardagent.batch.job import Job

    run = _Run(Job(cases, _loader(policies, model), read_expectation, judge_case), "cases", as_json, model)
    different = 0

    def report(result: Result) -> None:
        nonlocal different
        different += bool(difference(result))
        run.show_compared(result)

    tally = run.judge(report)
    _say(f"{tally.judged - different:,} of {tally.judged:,} cases are as expected")
    raise typer.Exit(2 if tally.unreadable else int(different > 0))


@dataclass(slots=True)
class _Run:
    """A file to judge, and how. Rows go to standard output, everything else to standard error."""

    job: Job
    things: str
    as_json: bool
    model: str | None = None
    workers: int = 1
    out: Path | None = None
    resume: bool = False
    ids: tuple[str, ...] = ()

    def judge(self, report: Callable[[Result], None]) -> VerdictMetrics:
        """Judges what is not judged yet, reports each result, and sums up."""
        from guardagent.cli.render_judged import summary

        policies = self.job.load()
        self.ids = policies.ids
        journal = self._journal(policies)
        with self._ended_well(journal), contextlib.closing(self._results(policies, journal)) as results:
            for result in results:
                if result.error:
                    _say(f"guardagent: {result.error}")
                else:
                    report(result)
        if not journal.metrics.judged and not journal.metrics.unreadable:
            raise InputError(f"{self.job.name}: holds no {self.things}; expected one JSON object in a line")
        _say(summary(journal.metrics, self.things))
        return journal.metrics

    def shown(self, *, every: bool) -> Callable[[Result], None]:
        """Shows results as rows of JSON, in words, or not at all where they are kept in a file."""
        if self.as_json:
            return lambda result: _print(result.row)
        if self.out is not None:
            return lambda _: None
        from guardagent.cli.render_judged import show_result

        console = _console()
        return lambda result: show_result(result, console) if every or not result.plain else None

    def show_compared(self, result: Result) -> None:
        """Shows what a case expects beside what came: as a row of JSON, or where they differ, as a diff."""
        from guardagent.batch.cases import difference
        from guardagent.cli.render_judged import show_difference

        found = difference(result)
        if self.as_json:
            expected = {"label": result.expected_label, "rules": result.expected_rules}
            row = {**json.loads(result.row), "expected": expected, "differs": bool(found), "difference": asdict(found)}
            _print(json.dumps(row, ensure_ascii=False).encode("utf-8", "backslashreplace").decode())
        elif found:
            show_difference(result, f"{self.job.name}:{result.line}:", self.ids, _console())

    def _results(self, policies: Policies, journal: MetricsOnly) -> Generator[Result]:
        from guardagent.batch.pipeline import judge_file

        with self._bar() as advance:
            yield from judge_file(self.job, policies, journal, workers=self.workers, advance=advance)

    def _journal(self, policies: Policies) -> MetricsOnly:
        from guardagent._version import __version__
        from guardagent.batch.resumable_log import MetricsOnly, ResumableLog
        from guardagent.batch.verdict_metrics import VerdictMetrics

        tally = VerdictMetrics.over(policies.ids)
        if self.out is None:
            if self.resume:
                raise InputError("--resume without --out; expected --out FILE, which holds the verdicts to go on after")
            return MetricsOnly(tally)
        model = f", {self.model}" if policies.requests else ""
        setup = f"guardagent {__version__}, {self.things}, policies {policies.digest}{model}"
        return ResumableLog(self.out, setup, tally, resume=self.resume)

    @contextlib.contextmanager
    def _ended_well(self, journal: MetricsOnly) -> Iterator[None]:
        try:
            yield
            sys.stdout.flush()
        except KeyboardInterrupt:
            more = f"; the same command with --resume goes on after what {self.out} holds" if self.out else ""
            _say(f"guardagent: interrupted after {journal.metrics.judged:,} {self.things}{more}")
            sys.exit(130)
        except BrokenPipeError:  # nobody reads on; the last flush must not complain of it once more
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(141)

    @contextlib.contextmanager
    def _bar(self) -> Iterator[Callable[[int], None]]:
        """A progress bar on standard error, if that is a terminal and standard output shows no rows there."""
        rows_shown = sys.stdout.isatty() and (self.as_json or self.out is None)
        if rows_shown or not sys.stderr.isatty():
            yield lambda _: None
            return
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

        columns = (self.things, BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        # Rich would lead standard output to the bar's console, even where it is a file.
        with Progress(*columns, console=_console(stderr=True), redirect_stdout=False) as bar:
            task = bar.add_task("", total=_size(self.job.path))
            yield lambda done: bar.update(task, completed=done)


def _loader(path: str, model: str | None, locked: Path | None = None) -> Callable[[], Policies]:
    from guardagent.policy.load import load_policies

    return partial(load_policies, path, model=model, locked=locked)


def _size(path: str) -> int | None:
    """How many bytes a file has; None where that is not known beforehand."""
    return Path(path).stat().st_size if Path(path).is_file() else None


def _console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, soft_wrap=True)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
