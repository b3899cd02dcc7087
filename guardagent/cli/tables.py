"""`audit` and `replay` over tables: their options, and how they run."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guardagent._support.requirements import require
from guardagent.cli.output import note, print_json, screen, unreadable
from guardagent.errors import InputError

if TYPE_CHECKING:
    from guardagent.batch.arrow.judging import AuditCounts
    from guardagent.batch.arrow.traces import AuditFolder, Summarized, Work

Engine = Annotated[
    str | None, typer.Option("--engine", help="Judge tables of any size by this engine: local, duckdb, spark or ray.")
]
EngineOptions = Annotated[
    list[str] | None, typer.Option("--engine-options", help="NAME=VALUE: an option of the engine; repeatable.")
]
FileFormat = Annotated[
    str | None,
    typer.Option("--format", help="The format of the files: jsonl, parquet, or that of another system's traces."),
]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", help="COLUMN=VALUE (or != < <= > >=): only files in these partition folders; repeatable."),
]
Partitions = Annotated[
    int | None, typer.Option("--partitions", min=1, help="The number of parts of the output (default: by size).")
]


@dataclass(frozen=True, slots=True)
class TableRun:
    """The options of a command over tables."""

    paths: Sequence[str]
    engine: str | None
    engine_options: Sequence[str] | None
    file_format: str | None
    where: Sequence[str] | None
    partitions: int | None
    out: str | None
    resume: bool
    workers: int | None = None

    @property
    def are_tables(self) -> bool:
        """Whether the paths are more than one file of JSON Lines, or an engine is asked for."""
        if self.engine is not None or self.file_format is not None or len(self.paths) > 1:
            return True
        path = self.paths[0]
        return path != "-" and (Path(path).is_dir() or "://" in path or path.endswith((".parquet", ".pq")))

    def refuse_options(self, **more: object) -> None:
        """Checks that no option for tables is set, nor one of some others.

        Raises:
            InputError: one is.
        """
        own = {"engine-options": self.engine_options, "where": self.where, "partitions": self.partitions}
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
        from guardagent.batch.arrow.parquet import PartitionFilter, find_files
        from guardagent.batch.arrow.traces import AuditFolder

        filters = [PartitionFilter.parse(one) for one in self.where or ()]
        files = find_files(self.paths, file_format=self.file_format, filters=filters)
        engine = self.engine or "local"
        options = _options_of(self.engine_options, self.workers, engine)
        with _output_folder(self.out) as folder, _interrupt_message(self.out), _progress_of_parts() as advance:
            summary = run_work(
                files,
                work,
                folder,
                engine=engine,
                options=options,
                partitions=self.partitions,
                resume=self.resume,
                advance=advance,
            )
            yield summary, AuditFolder(folder)


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
        name, found, value = text.partition("=")
        if not found or not name:
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


@contextlib.contextmanager
def _progress_of_parts() -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

    columns = ("partitions", BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen(stderr=True), redirect_stdout=False) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextlib.contextmanager
def _interrupt_message(out: str | None) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        more = f"; add '--resume' to continue with the parts that are missing in {out}" if out else ""
        note(f"guardagent: interrupted{more}")
        raise typer.Exit(130) from None


def audit_tables(
    tables: TableRun, policies: Sequence[str], *, locked: Path | None, require_review: bool, as_json: bool
) -> int:
    """Judges the traces of tables, prints the result, and returns the exit status."""
    require_arrow()
    from guardagent.batch.arrow.judging import AuditWork
    from guardagent.batch.arrow.traces import PolicyBundle

    bundle = PolicyBundle.of(policies, locked=locked, require_review=require_review)
    with tables.run(AuditWork(bundle)) as (summary, folder):
        _print_rows(folder, as_json=as_json, stored=tables.out is not None)
    if not summary.traces:
        raise InputError(f"{', '.join(tables.paths)}: no traces; expected rows with a 'trace'")
    _summarize(summary, bundle.policies().ids, tables.out)
    return summary.status


def _print_rows(folder: AuditFolder, *, as_json: bool, stored: bool) -> None:
    """Prints all rows as JSON, or denials and warnings as text; with `--out` only errors."""
    from guardagent.batch.jobs import Result
    from guardagent.cli.render_results import show_result

    console = screen()
    columns = ["trace", "error", "source"] if stored and not as_json else None
    for row in folder.rows(columns):
        if row["error"] is not None:
            unreadable(error_of(row), as_json=as_json)
        elif as_json:
            print_json(_plain(row))
        elif not stored and row["decision"] != "allow":
            text = json.dumps({**row, "id": row["trace"], "risk": None, "checked_by": "policy"})
            show_result(Result(0, row=text, label=row["label"], rules=tuple(row["rules"])), console)


def error_of(row: Mapping[str, Any]) -> str:
    """The error of a row for people, with its place."""
    where = f"{row['source']}: " if row["source"] and row["source"] not in row["error"] else ""
    return f"{where}{row['trace'] or 'a row'}: {row['error']}"


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    violations = [{**one, "evidence": json.loads(one["evidence"])} for one in row["violations"]]
    counts = {one["rule"]: one["count"] for one in row["counts"]}
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
    from guardagent.batch.jobs import VerdictMetrics
    from guardagent.cli.render_results import summary as text_of

    metrics = VerdictMetrics.for_rules(rules)
    metrics.judged = summary.traces - summary.unreadable
    metrics.unreadable, metrics.denied, metrics.unchecked = summary.unreadable, summary.denied, summary.unchecked
    metrics.violated.update(summary.violated)
    note(text_of(metrics, "traces"))
    if out is not None:
        note(f"{summary.events:,} events; 'guardagent report {out}' tells more")
