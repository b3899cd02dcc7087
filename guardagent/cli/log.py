"""The commands `log show`, `log verify` and `log export`. None of them changes a log."""

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
    from guardagent.log.selection import ParsedEntry


class ExportFormat(StrEnum):
    JSONL = "jsonl"
    CSV = "csv"


LogFile = Annotated[Path, typer.Argument(metavar="LOG", help="The log: a .db, .sqlite or .jsonl file.")]
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
Out = Annotated[Path | None, typer.Option("-o", "--out", help="The file to write instead of standard output.")]
FormName = Annotated[
    ExportFormat, typer.Option("--format", help="jsonl (itself a valid log), or csv for spreadsheets.")
]

_STATUS = {"whole": 0, "tampered": 1, "unchecked": 3}


def show(
    path: LogFile,
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
    from guardagent.log.selection import Selection, decision_name, parse_time

    chosen = Selection(
        conversation,
        tool,
        decision_name(decision),
        parse_time(since, "--since"),
        parse_time(until, "--until"),
        last,
    )
    for one in chosen.entries(path):
        sys.stdout.write(f"{one.entry.line if as_json else _entry_line(one)}\n")


def verify(path: LogFile, *, key_file: KeyFile = None, head: HeadFile = None, as_json: Json = False) -> None:
    """Verify that a log is complete and unchanged.

    Exits with 1 if it is not, and with 3 if the key is missing.
    """
    from guardagent.log import Head, load_key, verify_log

    report = verify_log(path, key=load_key(key_file), head=Head.load(head) if head is not None else None)
    print_json(report.to_dict()) if as_json else print_line(report.to_text())
    raise typer.Exit(_STATUS[report.status])


def export(
    path: LogFile,
    *,
    out: Out = None,
    form: FormName = ExportFormat.JSONL,
    as_json: JsonLines = False,
) -> None:
    """Export all entries as JSON Lines or CSV."""
    from guardagent.log.export import export_entries
    from guardagent.log.selection import Selection

    if as_json and form is ExportFormat.CSV:
        raise InputError("'--json' and '--format csv' exclude each other; expected one of them")
    with _output_file(out, path) as to:
        count = export_entries(form.value, Selection().entries(path), to)
    note(f"{count:,} entries")


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
def _output_file(out: Path | None, log: Path) -> Iterator[TextIO]:
    """Standard output, or a file that is replaced only when it is complete."""
    if out is None:
        yield sys.stdout
        return
    if out.exists() and log.exists() and out.samefile(log):
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
