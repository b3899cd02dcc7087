"""The commands `log show`, `log verify`, `log export` and `log anchor`. Only the last one writes to a log."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from guardagent.cli.options import Json, JsonLines
from guardagent.cli.output import note, print_json, print_line
from guardagent.errors import InputError

if TYPE_CHECKING:
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
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", help="The log's key (default: the variable GUARDAGENT_LOG_KEY).")
]
HeadFile = Annotated[Path | None, typer.Option("--head", help="A head of the log that was stored elsewhere.")]
ExportOut = Annotated[Path | None, typer.Option("-o", "--out", help="The file to write instead of standard output.")]
FormName = Annotated[
    ExportFormat, typer.Option("--format", help="jsonl (itself a valid log), or csv for spreadsheets.")
]

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
    as_json: JsonLines = False,
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
    for one in chosen.entries(log):
        sys.stdout.write(f"{one.entry.line if as_json else _entry_line(one)}\n")


def verify(log: LogFiles, *, key_file: KeyFile = None, head: HeadFile = None, as_json: Json = False) -> None:
    """Verify that a log is complete and unchanged.

    Exits with 1 if it is not, and with 3 if that cannot be known: without '--head' nobody can tell whether entries are
    missing at the end, and some logs need their key.
    """
    from guardagent.log import Head, load_key, verify_log

    report = verify_log(log, key=load_key(key_file), head=Head.load(head) if head is not None else None)
    print_json(report.to_dict()) if as_json else print_line(report.to_text())
    raise typer.Exit(_STATUS[report.status])


def export(
    log: LogFiles,
    *,
    out: ExportOut = None,
    form: FormName = ExportFormat.JSONL,
    as_json: JsonLines = False,
) -> None:
    """Export all entries as JSON Lines or CSV."""
    from guardagent.log.verification import Selection, export_entries

    if as_json and form is ExportFormat.CSV:
        raise InputError("'--json' and '--format csv' exclude each other; expected one of them")
    with _output_file(out, log) as to:
        count = export_entries(form.value, Selection().entries(log), to)
    note(f"{count:,} entries")


def anchor(log: LogAddress, *, removed: Removed, key_file: KeyFile = None) -> None:
    """Allow the removal of a log's oldest entries: without this entry in it, the rest would not be whole.

    Removes nothing itself. Verify and export the log first.
    """
    from guardagent.log import AuditLog, load_key
    from guardagent.log.verification import Selection

    Selection(last=1).entries(log)  # a log that is missing is not created
    with AuditLog(log, key=load_key(key_file)) as opened:
        number = opened.anchor(removed)
        note(f"entry {number:,} allows the removal of the entries 1 to {removed:,}")


def _entry_line(one: ParsedEntry) -> str:
    """Number, time, kind, decision, tool, conversation and reasons, without control characters."""
    from guardagent._terminal import printable

    fields = one.fields
    decided = fields.get("decision") or fields.get("status") or ""
    reasons = fields.get("reasons") or []
    why = "; ".join(map(_text, reasons if isinstance(reasons, list) else [reasons]))
    named = [fields.get("tool"), fields.get("conversation")]
    parts = [one.entry.seq, fields["time"], fields.get("kind"), decided, *map(_text, filter(None, named)), why]
    return "  ".join(printable(" ".join(str(part).split())) for part in parts if part not in (None, ""))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@contextmanager
def _output_file(out: Path | None, log: list[str]) -> Iterator[TextIO]:
    """Standard output, or a file that is replaced only when it is complete."""
    if out is None:
        yield sys.stdout
        return
    if out.exists() and any(_holds(Path(one), out) for one in log):
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
    from guardagent.log.rotation import current_path

    places = (file, current_path(file), file.parent)
    return log.exists() and any(one.exists() and one.samefile(log) for one in places)
