"""The commands that judge by policy files: `check`, `test`, `audit` and `lint`.

`check`, `test` and `audit` judge many records. `audit` and `replay` over tables share their options, and how they run.
`lint` checks a policy file.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guardagent._support.requirements import require
from guardagent.cli import options
from guardagent.cli.options import (
    interrupt_message,
    note,
    print_json,
    print_line,
    progress_bar,
    screen,
    unreadable_lines,
)
from guardagent.errors import InputError

if TYPE_CHECKING:
    from guardagent.batch.arrow.judge import AuditCounts
    from guardagent.batch.arrow.work import AuditFolder, Summarized, Work
    from guardagent.batch.audit import Assumptions
    from guardagent.batch.pipeline import Job
    from guardagent.batch.results import Result, ResumableLog, VerdictMetrics
    from guardagent.policy.lint import LintFinding
    from guardagent.policy.policies import Policies


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """The options of commands over tables."""

    engine: Annotated[
        str | None,
        typer.Option("--engine", help="Judge tables of any size by this engine: local, duckdb, spark or ray."),
    ] = None
    engine_options: Annotated[
        list[str] | None, typer.Option("--engine-options", help="NAME=VALUE: an option of the engine; repeatable.")
    ] = None
    file_format: Annotated[
        str | None,
        typer.Option("--format", help="The format of the files: jsonl, parquet, or that of another system's traces."),
    ] = None
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where", help="COLUMN=VALUE (or != < <= > >=): only files in these partition folders; repeatable."
        ),
    ] = None
    partitions: Annotated[
        int | None, typer.Option("--partitions", min=1, help="The number of parts of the output (default: by size).")
    ] = None


@dataclass(frozen=True, slots=True)
class TableRun:
    """A command over tables, with its options."""

    paths: Sequence[str]
    options: TableOptions
    out: str | None
    resume: bool
    workers: int | None = None

    @property
    def are_tables(self) -> bool:
        """Whether the paths are more than one file of JSON Lines, or an engine is asked for."""
        if self.options.engine is not None or self.options.file_format is not None or len(self.paths) > 1:
            return True
        path = self.paths[0]
        return path != "-" and (Path(path).is_dir() or "://" in path or path.endswith((".parquet", ".pq")))

    def recognized(self, *, takes_logs: bool = False) -> TableRun:
        """The run with the format of a file of JSON Lines whose first lines are events, or traces of another system.

        Raises:
            InputError: it is an audit log; or '--out' is a file, and such lines are judged as tables.
        """
        if self.are_tables or not Path(self.paths[0]).is_file():
            return self
        from guardagent.batch.records import form_of

        form = form_of(self.paths[0])
        if form == "log" and not takes_logs:
            raise InputError(f"{self.paths[0]}: is an audit log; expected traces: 'guardagent replay' judges logs")
        if form in ("", "log"):
            return self
        if self.out is not None and Path(self.out).suffix in (".jsonl", ".json", ".ndjson"):
            raise InputError(
                f"'--out' is {self.out!r}, but the lines of {self.paths[0]} are judged as a table ('--format {form}'); "
                "expected the name of a folder"
            )
        note(f"{self.paths[0]}: read with '--format {form}', as its first lines show")
        return replace(self, options=replace(self.options, file_format=form))

    def refuse_options(self, **more: object) -> None:
        """Checks that no option for tables is set, nor one of some others.

        Raises:
            InputError: one is.
        """
        tables = self.options
        own = {"engine-options": tables.engine_options, "where": tables.where, "partitions": tables.partitions}
        for name, value in {**own, **more}.items():
            if value:
                raise InputError(f"'--{name}' is for tables; expected '--engine' too")

    @contextlib.contextmanager
    def run(self, work: Work[Summarized]) -> Iterator[tuple[Summarized, AuditFolder]]:
        """Runs the work with a progress bar; gives the summary, and the folder of the results.

        Raises:
            InputError: no file is found, or an option is wrong; also as `run_work`.
        """
        if self.resume and self.out is None:
            raise InputError("'--resume' needs '--out FOLDER', the folder with the results so far")
        from guardagent.batch.arrow import run_work
        from guardagent.batch.arrow.source_files import PartitionFilter, find_files
        from guardagent.batch.arrow.work import AuditFolder

        tables = self.options
        filters = [PartitionFilter.parse(text) for text in tables.where or ()]
        files = find_files(self.paths, file_format=tables.file_format, filters=filters)
        engine = tables.engine or "local"
        options = _options_of(tables.engine_options, self.workers, engine)
        more = f"; add '--resume' to continue with the parts that are missing in {self.out}" if self.out else ""
        with (
            _output_folder(self.out) as output,
            interrupt_message(lambda: more),
            progress_bar("partitions") as advance,
        ):
            folder = AuditFolder(output)
            is_new, is_kept = folder.manifest() is None, False
            try:
                summary = run_work(
                    files,
                    work,
                    output,
                    engine=engine,
                    options=options,
                    partitions=tables.partitions,
                    resume=self.resume,
                    advance=advance,
                )
                is_kept = summary.traces > summary.unreadable
                yield summary, folder
            except BaseException:
                is_kept = is_kept or bool(folder.part_numbers())  # for '--resume'
                raise
            finally:
                if is_new and not is_kept:  # nothing was read: another command may write here
                    folder.discard()


def require_arrow() -> None:
    """Raises an InputError if the extra `arrow` is not installed."""
    require({"pyarrow": "17", "fsspec": "2024.6", "msgspec": "0.19"}, "arrow")


def _options_of(texts: Sequence[str] | None, workers: int | None, engine: str) -> dict[str, str]:
    """The options of an engine.

    Raises:
        InputError: one of them is not NAME=VALUE, or the engine has no `--workers`.
    """
    options = {}
    for text in texts or ():
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise InputError(f"the engine option {text!r} has no value; expected NAME=VALUE")
        options[name] = value
    if workers is not None:
        if engine not in ("local", "duckdb"):
            raise InputError(f"'--workers' is for one machine; expected '--engine-options' of the engine {engine!r}")
        options["workers"] = str(workers)
    return options


@contextlib.contextmanager
def _output_folder(out: str | None) -> Iterator[str]:
    """The folder of the output; without `--out` a temporary one."""
    if out is not None:
        yield out
        return
    with tempfile.TemporaryDirectory(prefix="guardagent-audit-") as folder:
        yield folder


def audit_tables(
    tables: TableRun,
    policies: Sequence[str],
    assumptions: Assumptions,
    *,
    locked: Path | None,
    require_review: bool,
    as_json: bool,
) -> int:
    """Judges the traces of tables, prints the result, and returns the exit status."""
    require_arrow()
    from guardagent.batch.arrow.judge import audit_work
    from guardagent.batch.arrow.policy_bundle import PolicyBundle

    bundle = PolicyBundle.of(policies, locked=locked, require_review=require_review)
    with tables.run(audit_work(bundle, assumptions)) as (summary, folder):
        _print_rows(folder, as_json=as_json, stored=tables.out is not None)
    if not summary.traces:
        raise InputError(f"{', '.join(tables.paths)}: no traces; expected rows with a 'trace'")
    if summary.traces == summary.unreadable and tables.options.file_format is not None:
        note(f"nothing was read with '--format {tables.options.file_format}'; without it, the first lines decide")
    _summarize(summary, bundle.policies().ids, tables.out)
    return summary.status


def _print_rows(folder: AuditFolder, *, as_json: bool, stored: bool) -> None:
    """Prints all rows as JSON, or denials and warnings as text; with `--out` only errors."""
    from guardagent.batch.results import Result
    from guardagent.cli.render import show_result

    console = screen()
    columns = ["trace", "error", "source", "errors", "rules"] if stored and not as_json else None
    with unreadable_lines(as_json=as_json) as unreadable, _unknown_outcomes("traces") as unknown:
        for row in folder.rows(columns):
            if row["error"] is not None:
                unreadable(error_of(row))
            elif as_json:
                print_json(_plain(row))
            elif not unknown.add(row["errors"], row["rules"]) and not stored and row["decision"] != "allow":
                text = json.dumps({**row, "id": row["trace"], "risk": None, "checked_by": "policy"})
                show_result(Result(0, row=text, label=row["label"], rules=tuple(row["rules"])), console)


def error_of(row: Mapping[str, Any]) -> str:
    """The error of a row for people, with its place."""
    where = f"{row['source']}: " if row["source"] and row["source"] not in row["error"] else ""
    return f"{where}{row['trace'] or 'a row'}: {row['error']}"


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    violations = [{**violation, "evidence": json.loads(violation["evidence"])} for violation in row["violations"]]
    counts = {count["rule"]: count["count"] for count in row["counts"]}
    kept = {name: row[name] for name in ("started", "ended", "task", "success") if row[name] is not None}
    names = ("label", "decision", "reasons", "errors", "rules", "events", "elapsed_ms")
    return {
        "id": row["trace"],
        **{name: row[name] for name in names},
        "violations": violations,
        "counts": counts,
        **kept,
    }


def _summarize(summary: AuditCounts, rules: Sequence[str], out: str | None) -> None:
    from guardagent.batch.results import VerdictMetrics
    from guardagent.cli.render import summary as text_of

    metrics = VerdictMetrics.for_rules(rules)
    metrics.judged = summary.traces - summary.unreadable
    metrics.unreadable, metrics.denied, metrics.unchecked = summary.unreadable, summary.denied, summary.unchecked
    metrics.violated.update(summary.violated)
    metrics.escalated = summary.escalated
    note(text_of(metrics, "traces"))
    if out is not None and metrics.judged:
        note(f"{summary.events:,} events; 'guardagent report {out}' tells more")


# --- check, test and audit


Cases = Annotated[str, typer.Argument(help="Cases, one JSON object per line (a file, or - for standard input).")]
Traces = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...",
        help="Traces, one JSON object per line (a file, or - for standard input); or tables: several files, folders or "
        "URLs of JSON Lines or Parquet.",
    ),
]
Assumed = Annotated[
    str | None,
    typer.Option("--assume", help="ok: calls whose outcome is unknown succeeded (default: rules on them are open)."),
]
Approved = Annotated[
    str | None,
    typer.Option("--approved", help='Events that a reviewer approved: lines such as {"trace": "c1", "event": 3}.'),
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
    policies: options.PolicyFiles,
    model: options.RequestModelName = None,
    workers: Workers = 1,
    out: Out = None,
    resume: Resume = False,
    locked: options.Locked = None,
    require_review: options.RequireReview = False,
    as_json: options.JsonLines = False,
) -> None:
    """Judge the proposed call of each case.

    If cases carry labels, also reports accuracy, precision and recall.
    """
    from guardagent.batch.cases import judge_case
    from guardagent.batch.pipeline import Job
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
    policies: options.PolicyFiles,
    model: options.RequestModelName = None,
    tables: TableOptions,
    workers: OptionalWorkers = None,
    out: OutputFileOrFolder = None,
    resume: Resume = False,
    assume: Assumed = None,
    facts: options.FactsText = None,
    approved: Approved = None,
    locked: options.Locked = None,
    require_review: options.RequireReview = False,
    as_json: options.JsonLines = False,
) -> None:
    """Replay whole traces up to their end.

    Obligations that are unmet at the end are violations. Without '--json' or '--out', shows only denials and warnings.
    Tables are judged by an engine, each trace as a whole, whichever files its events come from.
    """
    from guardagent.batch.audit import Assumptions, TraceJudge, read_approved

    if assume not in (None, "ok"):
        raise InputError(f"'--assume' is {assume!r}; expected 'ok'")
    assumptions = Assumptions(
        assume == "ok", options.read_facts(facts), {} if approved is None else read_approved(approved)
    )
    run = TableRun(traces, tables, out, resume, workers).recognized()
    if run.are_tables:
        raise typer.Exit(
            audit_tables(run, policies, assumptions, locked=locked, require_review=require_review, as_json=as_json)
        )
    run.refuse_options()
    from guardagent.batch.pipeline import Job
    from guardagent.batch.records import read_trace

    judge = TraceJudge(traces[0], assumptions)
    batch = _BatchRun(
        Job(traces[0], _loader(policies, model, locked, require_review), read_trace, judge, judge.prepare),
        "traces",
        as_json,
        model,
        workers or 1,
        None if out is None else Path(out),
        resume,
        setup=assumptions.digest,
    )
    metrics = batch.judge(batch.reporter(every=False))
    raise typer.Exit(metrics.status)


def compare(
    files: Annotated[
        list[str], typer.Argument(metavar="CASES", help="Cases with expected labels or rules (a file, or -).")
    ],
    *,
    policies: options.OptionalPolicyFiles = None,
    model: options.RequestModelName = None,
    as_json: options.JsonLines = False,
) -> None:
    """Compare verdicts with the expected labels and rules, as a diff.

    Exits with 1 if one differs. Instead of '--policies', the policy file may be the first argument. Alone, it is tested
    with the cases beside it, such as refunds.cases.jsonl of refunds.yaml.
    """
    from guardagent.batch.cases import difference, judge_case, read_expectation
    from guardagent.batch.pipeline import Job

    paths, cases = _policies_and_cases(files, policies)
    run = _BatchRun(Job(cases, _loader(paths, model), read_expectation, judge_case), "cases", as_json, model)
    different = 0

    def report(result: Result) -> None:
        nonlocal different
        different += bool(difference(result))
        run.show_comparison(result)
        if result.unchecked and not difference(result) and not as_json:
            row = json.loads(result.row)
            note(f"{cases}:{result.line}: {row['id']} matches, but could not be fully checked: {row['errors'][0]}")

    metrics = run.judge(report)
    note(f"{metrics.judged - different:,} of {metrics.judged:,} cases match their expectation")
    raise typer.Exit(2 if metrics.unreadable else int(different > 0))


def _policies_and_cases(files: list[str], policies: list[str] | None) -> tuple[list[str], str]:
    paths = [*(policies or []), *files]
    beside = Path(files[0]).with_suffix(".cases.jsonl")
    if len(paths) == 1 and paths[0].endswith((".yaml", ".yml")) and beside.is_file():
        return paths, str(beside)
    if len(files) != (1 if policies else 2):
        raise InputError(f"unexpected number of files: {len(paths)}; expected CASES --policies FILE, or POLICY CASES")
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
    setup: str = ""

    def judge(self, report: Callable[[Result], None]) -> VerdictMetrics:
        """Judges the remaining lines, reports each result, and prints a summary."""
        from guardagent.cli.render import summary

        policies = self.job.load()
        self.ids = policies.ids
        if self.job.prepare is not None:
            self.job.prepare(policies, workers=self.workers, resume=self.resume)
        metrics, log = self._metrics_and_log(policies)

        def interrupted() -> str:
            more = f"; add '--resume' to continue after the verdicts in {self.out}" if self.out else ""
            return f" after {metrics.judged:,} {self.record_kind}{more}"

        with (
            interrupt_message(interrupted),
            unreadable_lines(as_json=self.as_json) as unreadable,
            _unknown_outcomes(self.record_kind) as unknown,
            contextlib.closing(self._results(policies, metrics, log)) as results,
        ):
            for result in results:
                if result.error:
                    unreadable(result.error)
                elif self.as_json or not (result.unchecked and unknown.add_row(result.row)):
                    report(result)
        if not metrics.judged and not metrics.unreadable:
            raise InputError(f"{self.job.name}: holds no {self.record_kind}; expected one JSON object per line")
        note(summary(metrics, self.record_kind))
        return metrics

    def reporter(self, *, every: bool) -> Callable[[Result], None]:
        """Prints results as JSON rows or as text; prints nothing if `--out` keeps them."""
        if self.as_json:
            return lambda result: print_line(result.row)
        if self.out is not None:
            return lambda _: None
        from guardagent.cli.render import show_result

        console = screen()
        return lambda result: show_result(result, console) if every or not result.is_clean else None

    def show_comparison(self, result: Result) -> None:
        """Prints expectation and result as a JSON row or, if they differ, as a diff."""
        from guardagent.batch.cases import difference
        from guardagent.cli.render import show_difference

        difference_text = difference(result)
        if self.as_json:
            expected = {"label": result.expected_label, "rules": result.expected_rules}
            compared = {"expected": expected, "differs": bool(difference_text), "difference": asdict(difference_text)}
            print_json({**json.loads(result.row), **compared})
        elif difference_text:
            show_difference(result, f"{self.job.name}:{result.line}:", self.ids, screen())

    def _results(self, policies: Policies, metrics: VerdictMetrics, log: ResumableLog | None) -> Generator[Result]:
        from guardagent.batch.pipeline import judge_file

        rows_shown = sys.stdout.isatty() and (self.as_json or self.out is None)  # on the same terminal
        size = _size(self.job.path)
        with progress_bar(self.record_kind, is_shown=not rows_shown) as show:

            def advance(done: int) -> None:
                show(done, size)

            yield from judge_file(self.job, policies, metrics, log, workers=self.workers, advance=advance)

    def _metrics_and_log(self, policies: Policies) -> tuple[VerdictMetrics, ResumableLog | None]:
        from guardagent._version import __version__
        from guardagent.batch.results import ResumableLog, VerdictMetrics

        metrics = VerdictMetrics.for_rules(policies.ids)
        if self.out is None:
            if self.resume:
                raise InputError("'--resume' needs '--out FILE', the file with the verdicts so far")
            return metrics, None
        model = f", {self.model}" if policies.requests else ""
        setup = f"guardagent {__version__}, {self.record_kind}, policies {policies.digest}{model}{self.setup}"
        log = ResumableLog(self.out, setup, metrics, resume=self.resume)
        return log.metrics, log


class _UnknownOutcomes:
    """Counts records of which only outcomes are unknown, by the message for them."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, errors: Sequence[str] | None, rules: Sequence[str] | None) -> bool:
        """Whether a record is one of them; if so, it is counted."""
        from guardagent.batch.audit import UNKNOWN_OUTCOME

        is_one = bool(errors) and not rules and all(error.startswith(UNKNOWN_OUTCOME) for error in errors or ())
        self.counts.update(list(errors or ())[:1] if is_one else ())
        return is_one

    def add_row(self, row: str) -> bool:
        verdict = json.loads(row)
        return self.add(verdict["errors"], verdict["rules"])


@contextlib.contextmanager
def _unknown_outcomes(record_kind: str) -> Iterator[_UnknownOutcomes]:
    """Finally prints each message once, with the number of records."""
    unknown = _UnknownOutcomes()
    yield unknown
    for error, count in unknown.counts.items():
        note(f"{count:,} {record_kind[:-1] if count == 1 else record_kind} could not be fully checked: {error}")


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


def lint(
    policies: Annotated[str, typer.Argument(help="The policy file. No file that it names is run.")],
    *,
    as_json: options.JsonLines = False,
) -> None:
    """Find contradictory, vacuous, shadowed, under-constrained and otherwise faulty rules."""
    from guardagent.policy.lint import lint_report

    result = lint_report(policies)
    for finding in result.findings:
        print_json(asdict(finding)) if as_json else print_line(_finding_text(finding))
    for text in (*result.undecided, *result.notes):
        note(f"note: {text}")
    if not result.findings and not result.undecided:
        note(f"{policies}: no findings in {result.rules} rule{'' if result.rules == 1 else 's'}")
    raise typer.Exit(1 if result.findings else 3 if result.undecided else 0)


def _finding_text(finding: LintFinding) -> str:
    where = " ".join(filter(None, (finding.policy, finding.tool and f"({finding.tool})"))) or "the file"
    return f"{finding.kind}: {where}: {finding.message}\n    for example: {finding.example}"
