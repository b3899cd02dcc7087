"""The commands `log show`, `log verify`, `log export` and `log anchor`, and `replay`.

Only `log anchor` writes to a log. `replay` judges the calls of a log by a candidate policy.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from guardagent.cli import options
from guardagent.cli.options import note, print_json, print_result, progress_bar, screen, unreadable_lines
from guardagent.cli.policies import TableOptions, TableRun, error_of, require_arrow
from guardagent.errors import InputError

if TYPE_CHECKING:
    from guardagent.batch.replay import ReplayReport
    from guardagent.log.verification import ParsedEntry


class ExportFormat(StrEnum):
    JSONL = "jsonl"
    CSV = "csv"


_KINDS = "a .db, .sqlite or .jsonl file, or postgresql://USER@HOST/DATABASE?stream=NAME"
LogFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="LOG…", help=f"The log: {_KINDS}; or its folder, or several .jsonl files of one log, in order."
    ),
]
LogAddress = Annotated[str, typer.Argument(metavar="LOG", help=f"The log: {_KINDS}.")]
Removed = Annotated[int, typer.Option("--removed", min=1, help="The number of the last entry to be removed.")]
Conversation = Annotated[str | None, typer.Option("--conversation", help="Only entries of this conversation.")]
Tool = Annotated[str | None, typer.Option("--tool", help="Only entries of this tool.")]
DecisionName = Annotated[str | None, typer.Option("--decision", help="Only entries with this decision.")]
Since = Annotated[
    str | None, typer.Option("--since", help="Only entries from this time on (ISO 8601; default zone: UTC).")
]
Until = Annotated[str | None, typer.Option("--until", help="Only entries up to this time.")]
Last = Annotated[int | None, typer.Option("--last", min=1, help="Only the last N entries.")]
HeadFile = Annotated[Path | None, typer.Option("--head", help="A head of the log that was stored elsewhere.")]
ExportOut = Annotated[Path | None, typer.Option("-o", "--out", help="The file to write instead of standard output.")]
FormName = Annotated[
    ExportFormat, typer.Option("--format", help="jsonl (itself a valid log), or csv for spreadsheets.")
]

PublicKeyFiles = Annotated[
    list[Path] | None,
    typer.Option("--public-key", metavar="FILE", help="A public key of the log's signatures; the oldest first."),
]
SigningKeyFile = Annotated[Path, typer.Option("--signing-key", metavar="FILE", help="The private key.")]
NewKey = Annotated[Path, typer.Argument(help="The file of the private key; the public one gets '.pub'.")]

_STATUS = {"whole": 0, "tampered": 1, "end_unchecked": 3, "unchecked": 3}


def show(
    log: LogFiles,
    *,
    conversation: Conversation = None,
    tool: Tool = None,
    decision: DecisionName = None,
    since: Since = None,
    until: Until = None,
    last: Last = None,
    as_json: options.JsonLines = False,
) -> None:
    """Show the entries of a log, one per line, without verifying them.

    With '--json', each entry is printed as stored.
    """
    from guardagent.log.verification import Selection, decision_name, parse_time

    chosen = Selection(
        conversation,
        tool,
        decision_name(decision),
        parse_time(since, "--since"),
        parse_time(until, "--until"),
        last,
    )
    for entry in chosen.entries(log):
        sys.stdout.write(f"{entry.entry.line if as_json else _entry_line(entry)}\n")


def verify(
    log: LogFiles,
    *,
    key_file: options.KeyFile = None,
    head: HeadFile = None,
    public_key: PublicKeyFiles = None,
    as_json: options.Json = False,
) -> None:
    """Verify that a log is complete and unchanged.

    Exits with 1 if it is not, and with 3 if that cannot be known: without '--head' nobody can tell whether entries are
    missing at the end, and some logs need their key. With '--public-key', every signature must be valid.
    """
    from guardagent.log import Head, load_key, verify_log

    keys = None
    if public_key:
        from guardagent.log.signatures import PublicKeys

        keys = PublicKeys(public_key)
    kept = Head.load(head) if head is not None else None
    report = verify_log(log, key=load_key(key_file), head=kept, public_keys=keys)
    print_result(report.to_dict(), report.to_text(), as_json=as_json)
    raise typer.Exit(_STATUS[report.status])


def new_key(path: NewKey) -> None:
    """Create a private key that signs logs, and its public key beside it.

    The public key is for those who verify; the private one stays with the guard.
    """
    from guardagent.log import signatures

    public, name = signatures.new_key(path)
    note(f"{path}: the private key {name}; {public}: its public key")


def sign(log: LogAddress, *, signing_key: SigningKeyFile, key_file: options.KeyFile = None) -> None:
    """Sign everything that a log has, by an entry."""
    from guardagent.log import AuditLog, load_key
    from guardagent.log.verification import Selection

    Selection(last=1).entries(log)  # a log that is missing is not created
    with AuditLog(log, key=load_key(key_file), signing_key=signing_key) as opened:
        number = opened.sign()
        note("the log is empty" if number is None else f"entry {number:,} signs the entries 1 to {number - 1:,}")


def export(
    log: LogFiles,
    *,
    out: ExportOut = None,
    form: FormName = ExportFormat.JSONL,
    as_json: options.JsonLines = False,
) -> None:
    """Export all entries as JSON Lines or CSV."""
    from guardagent.log.verification import Selection, export_entries

    if as_json and form is ExportFormat.CSV:
        raise InputError("'--json' and '--format csv' exclude each other; expected one of them")
    with _output_file(out, log) as to:
        count = export_entries(form.value, Selection().entries(log), to)
    note(f"{count:,} entries")


def anchor(log: LogAddress, *, removed: Removed, key_file: options.KeyFile = None) -> None:
    """Allow the removal of a log's oldest entries: without this entry in it, the rest would not be whole.

    Removes nothing itself. Verify and export the log first.
    """
    from guardagent.log import AuditLog, load_key
    from guardagent.log.verification import Selection

    Selection(last=1).entries(log)  # a log that is missing is not created
    with AuditLog(log, key=load_key(key_file)) as opened:
        number = opened.anchor(removed)
        note(f"entry {number:,} allows the removal of the entries 1 to {removed:,}")


def _entry_line(parsed_entry: ParsedEntry) -> str:
    """Number, time, kind, decision, tool, conversation and reasons, without control characters."""
    from guardagent._terminal import printable

    fields = parsed_entry.fields
    decided = fields.get("decision") or fields.get("status") or ""
    reasons = fields.get("reasons") or []
    why = "; ".join(map(_text, reasons if isinstance(reasons, list) else [reasons]))
    named = [fields.get("tool"), fields.get("conversation")]
    parts = [parsed_entry.entry.seq, fields["time"], fields.get("kind"), decided, *map(_text, filter(None, named)), why]
    return "  ".join(printable(" ".join(str(part).split())) for part in parts if part not in (None, ""))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@contextmanager
def _output_file(out: Path | None, log: list[str]) -> Iterator[TextIO]:
    """Standard output, or a file that is replaced only when it is complete."""
    if out is None:
        yield sys.stdout
        return
    if out.exists() and any(_holds(Path(address), out) for address in log):
        raise InputError(f"{out}: is the log itself; expected another file")
    fresh = out.with_name(f".{out.name}.new")
    try:
        with fresh.open("w", encoding="utf-8", newline="") as file:
            yield file
        fresh.replace(out)
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror}; expected a file in a writable folder") from None
    finally:
        fresh.unlink(missing_ok=True)


def _holds(log: Path, file: Path) -> bool:
    """Returns whether a file is a log, one of its earlier files, or in the log's folder."""
    from guardagent.log.stores import current_path

    places = (file, current_path(file), file.parent)
    return log.exists() and any(place.exists() and place.samefile(log) for place in places)


# --- replay


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
DifferencesFolder = Annotated[
    str | None, typer.Option("--out", help="The folder for the differences in tables, or its URL.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue with the parts that are missing in '--out'.")]


def replay(
    paths: LogFile,
    *,
    policies: PolicyFile,
    against: Against = None,
    alias: options.Alias = None,
    facts: options.FactsText = None,
    key_file: options.KeyFile = None,
    tables: TableOptions,
    out: DifferencesFolder = None,
    resume: Resume = False,
    locked: options.Locked = None,
    as_json: options.JsonLines = False,
) -> None:
    """Show what a candidate policy would have decided on recorded calls.

    Lists the differences by rule, with an example each. Calls whose values the log redacts or cuts are undecidable, and
    counted apart. Exits with 1 if a decision differs, and otherwise with 3 if one is undecidable. Tables of traces are
    replayed by an engine, each trace as a whole, whichever files its events come from.
    """
    run = TableRun(paths, tables, out, resume).recognized(takes_logs=True)
    if run.are_tables:
        _refuse_log_options(alias=alias, facts=facts, key_file=key_file)
        report = _replay_tables(run, policies, against, locked)
    else:
        run.refuse_options(out=out, resume=resume)
        from guardagent.batch.replay import replay as replay_log
        from guardagent.batch.replay.conversation import load_replay_policy
        from guardagent.log import load_key

        candidate = load_replay_policy(policies, locked)
        with progress_bar("entries") as progress:
            report = replay_log(
                Path(paths[0]),
                candidate,
                None if against is None else load_replay_policy(against),
                aliases=options.aliases_of(alias),
                facts=None if facts is None else options.read_facts(facts),
                key=load_key(key_file),
                progress=progress,
            )
    with unreadable_lines(as_json=as_json) as unreadable:
        for problem in report.problems:
            unreadable(problem)
    if as_json:
        for row in report.table.rows.values():
            print_json(row.to_dict())
    else:
        _show(report)
    _summarize(report)
    raise typer.Exit(report.status)


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
    from guardagent.batch.arrow.judge import replay_work
    from guardagent.batch.arrow.policy_bundle import PolicyBundle
    from guardagent.batch.replay import DifferenceTable, ReplayReport
    from guardagent.batch.replay.conversation import NoModel

    candidate = PolicyBundle.of([policies], locked=locked, model=NoModel())
    other = PolicyBundle.of([against], model=NoModel())
    with tables.run(replay_work(candidate, other)) as (summary, folder):
        rows = folder.rows(["trace", "error", "source"]) if summary.unreadable else ()
        problems = [error_of(row) for row in rows if row["error"] is not None]
    if not summary.traces:
        raise InputError(f"{', '.join(tables.paths)}: no traces; expected rows with a 'trace'")
    table = DifferenceTable([*candidate.policies().ids, *other.policies().ids])
    table.add(summary.table)
    return ReplayReport(table, summary.traces - summary.unreadable, problems=problems)


def _show(report: ReplayReport) -> None:
    from guardagent._terminal import printable

    console = screen()
    for row in report.table.rows.values():
        if row.differs or row.undecidable:
            for line in row.lines():
                console.print(printable(line), markup=False, highlight=False)


def _summarize(report: ReplayReport) -> None:
    table = report.table
    for remark in report.notes:
        note(remark)
    apart = f"; {table.unruled:,} denied by the guard itself are not compared" if table.unruled else ""
    note(
        f"{table.calls:,} decisions in {report.conversations:,} conversations: {table.same:,} same, "
        f"{table.differs:,} differ, {table.undecidable:,} undecidable{apart}"
    )
