"""The command `replay`: a candidate policy under the calls of a log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guardagent.cli.options import FactsText, JsonLines, Locked, read_facts
from guardagent.cli.output import note, print_json, screen, unreadable
from guardagent.cli.tables import (
    Engine,
    EngineOptions,
    FileFormat,
    Partitions,
    TableRun,
    Where,
    error_of,
    require_arrow,
)
from guardagent.errors import InputError

if TYPE_CHECKING:
    from guardagent.batch.replay import ReplayReport
    from guardagent.batch.replay.comparison import RuleDifferences

LogFile = Annotated[
    list[str],
    typer.Argument(
        metavar="LOG",
        help="An audit log (.db, .sqlite or .jsonl), or traces (.jsonl); or tables of traces: several files, folders "
        "or URLs of JSON Lines or Parquet.",
    ),
]
PolicyFile = Annotated[Path, typer.Option("-p", "--policies", help="The candidate: a policy file.")]
Against = Annotated[
    Path | None, typer.Option("--against", help="The policy file to compare with (default: the decisions of the log).")
]
Alias = Annotated[
    list[str] | None, typer.Option("--alias", help="TOOL=NAME: the name of a tool in the rules; repeatable.")
]
DifferencesFolder = Annotated[
    str | None, typer.Option("--out", help="The folder for the differences in tables, or its URL.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue with the parts that are missing in '--out'.")]
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", help="The log's key (default: the variable GUARDAGENT_LOG_KEY).")
]


def replay(
    paths: LogFile,
    *,
    policies: PolicyFile,
    against: Against = None,
    alias: Alias = None,
    facts: FactsText = None,
    key_file: KeyFile = None,
    engine: Engine = None,
    engine_options: EngineOptions = None,
    file_format: FileFormat = None,
    where: Where = None,
    partitions: Partitions = None,
    out: DifferencesFolder = None,
    resume: Resume = False,
    locked: Locked = None,
    as_json: JsonLines = False,
) -> None:
    """Show what a candidate policy would have decided on recorded calls.

    Lists the differences by rule, with an example each. Calls whose values the log redacts or cuts are undecidable, and
    counted apart. Exits with 1 if a decision differs, and otherwise with 3 if one is undecidable. Tables of traces are
    replayed by an engine, each trace as a whole, whichever files its events come from.
    """
    tables = TableRun(paths, engine, engine_options, file_format, where, partitions, out, resume)
    if tables.are_tables:
        _refuse_log_options(alias=alias, facts=facts, key_file=key_file)
        report = _replay_tables(tables, policies, against, locked)
    else:
        tables.refuse_options(out=out, resume=resume)
        report = _replay_log(Path(paths[0]), policies, against, alias, facts, key_file, locked)
    for problem in report.problems:
        unreadable(problem, as_json=as_json)
    if as_json:
        for row in report.table.rows.values():
            print_json(row.to_dict())
    else:
        _show(report)
    _summarize(report)
    raise typer.Exit(report.status)


def _replay_log(
    path: Path,
    policies: Path,
    against: Path | None,
    alias: list[str] | None,
    facts: str | None,
    key_file: Path | None,
    locked: Path | None,
) -> ReplayReport:
    from guardagent.batch.replay import replay as run
    from guardagent.batch.replay.conversation import load_replay_policy
    from guardagent.cli.mcp import aliases_of
    from guardagent.log import load_key

    candidate = load_replay_policy(policies, locked)
    with _progress_bar() as progress:
        return run(
            path,
            candidate,
            None if against is None else load_replay_policy(against),
            aliases=aliases_of(alias or []),
            facts=None if facts is None else read_facts(facts),
            key=load_key(key_file),
            progress=progress,
        )


def _refuse_log_options(**options: object) -> None:
    for name, value in options.items():
        if value is not None:
            raise InputError(
                f"'--{name.replace('_', '-')}' is for audit logs; expected none of it for tables of traces"
            )


def _replay_tables(tables: TableRun, policies: Path, against: Path | None, locked: Path | None) -> ReplayReport:
    """Compares two policies on the traces of tables."""
    if against is None:
        raise InputError("tables of traces hold no decisions to compare with; expected '--against FILE'")
    require_arrow()
    from guardagent.batch.arrow.judging import ReplayWork
    from guardagent.batch.arrow.traces import PolicyBundle
    from guardagent.batch.replay import ReplayReport
    from guardagent.batch.replay.comparison import DifferenceTable
    from guardagent.batch.replay.conversation import NoModel

    candidate = PolicyBundle.of([policies], locked=locked, model=NoModel())
    other = PolicyBundle.of([against], model=NoModel())
    with tables.run(ReplayWork(candidate, other)) as (summary, folder):
        rows = folder.rows(["trace", "error", "source"]) if summary.unreadable else ()
        problems = [error_of(row) for row in rows if row["error"] is not None]
    if not summary.traces:
        raise InputError(f"{', '.join(tables.paths)}: no traces; expected rows with a 'trace'")
    table = DifferenceTable([*candidate.policies().ids, *other.policies().ids])
    table.add(summary.table)
    return ReplayReport(table, summary.traces - summary.unreadable, problems=problems)


@contextmanager
def _progress_bar() -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

    columns = ("entries", BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen(stderr=True), redirect_stdout=False) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _show(report: ReplayReport) -> None:
    from guardagent._terminal import printable

    console = screen()
    for row in report.table.rows.values():
        if row.differs or row.undecidable:
            for line in _lines(row):
                console.print(printable(line), markup=False, highlight=False)


def _lines(row: RuleDifferences) -> list[str]:
    counts = [f"{number:,} x {change}" for change, number in row.changes.items()]
    counts += [f"{row.undecidable:,} undecidable"] if row.undecidable else []
    lines = [f"{row.rule}: {', '.join(counts)}"]
    if row.example is not None:
        lines += [f"    {line}" for line in _example_lines(row.example)]
    if row.why_undecidable:
        lines.append(f"    undecidable: {row.why_undecidable}")
    return lines


def _example_lines(example: dict[str, Any]) -> list[str]:
    import json

    number = example.get("entry", example.get("event"))
    what = "event" if "event" in example else "entry"
    where = f"{example['conversation']}, {'at the end' if number is None else f'{what} {number}'}"
    args = json.dumps(example.get("args", {}), ensure_ascii=False, default=str)
    call = f"{example['tool']}({args[:200]})" if example.get("tool") else "the end of the conversation"
    reason = [f"reason: {example['reason']}"] if example["reason"] else []
    return [f"for example {call} in {where}: {example['before']} -> {example['after']}", *reason]


def _summarize(report: ReplayReport) -> None:
    table = report.table
    for one in report.notes:
        note(one)
    apart = f"; {table.unruled:,} denied by the guard itself are not compared" if table.unruled else ""
    note(
        f"{table.calls:,} decisions in {report.conversations:,} conversations: {table.same:,} same, "
        f"{table.differs:,} differ, {table.undecidable:,} undecidable{apart}"
    )
