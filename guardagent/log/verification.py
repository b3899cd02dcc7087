"""The reading of a log: anchors, the verification of its entries, their selection, and their export.

A verified log has every entry present and unchanged. An anchor says that all entries up to a number are removed on
purpose, so that the rest is still a log:

    {"kind":"anchor","removed":5000,"hash":"sha256:…"}

It is part of the chain. Without one, a log whose beginning is missing was tampered with. Entries are selected by
conversation, tool, decision and time, and exported as JSON Lines, which can be verified like the log, or as a table.
"""

from __future__ import annotations

import contextlib
import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal, NamedTuple, TextIO

from guardagent.errors import ContentError, InputError, LogError, UnknownNameError
from guardagent.log.chain import Chain, DamagedLogError, Entry, Head
from guardagent.log.records import canonical_json, timestamp
from guardagent.log.signatures import KIND as SIGNATURE
from guardagent.log.signatures import PublicKeys
from guardagent.log.stores import LogReader, LogSource, open_reader
from guardagent.types import Decision

_KIND = "anchor"


def anchor_record(log: LogReader, chain: Chain, removed: int) -> dict[str, Any]:
    """Returns the record that allows the removal of all entries of a log up to a number.

    Raises:
        InputError: the log has no entry of this number, or cannot be read.
        LogError: that entry was changed.
    """
    try:
        removed_entry = next((entry for entry in log.backwards() if entry.seq == removed), None)
    except DamagedLogError as damaged:
        raise LogError(f"{log.name}: {damaged}; run 'guardagent log verify'") from None
    if removed_entry is None:
        raise InputError(f"{log.name}: has no entry {removed!r}; expected the number of the last one to be removed")
    if problem := chain.entry_problem(removed_entry):
        raise LogError(f"{log.name}: entry {removed:,} {problem}; run 'guardagent log verify'")
    return {"kind": _KIND, "removed": removed_entry.seq, "hash": removed_entry.hash}


def has_anchor(log: LogReader, chain: Chain, first: Entry) -> bool:
    """Returns whether a log says that the entries before its first one were removed."""
    with contextlib.suppress(DamagedLogError):
        return any(_covers(entry, first) for entry in log.backwards() if chain.entry_problem(entry) is None)
    return False


def _covers(entry: Entry, first: Entry) -> bool:
    if f'"kind":"{_KIND}"' not in entry.text:
        return False
    with contextlib.suppress(ValueError, RecursionError):
        fields = json.loads(entry.text)
        removed = fields.get("removed") if fields.get("kind") == _KIND else None
        if type(removed) is int and removed >= first.seq - 1:
            return removed >= first.seq or fields.get("hash") == first.prev
    return False


LogStatus = Literal["whole", "end_unchecked", "tampered", "unchecked"]


@dataclass(frozen=True, slots=True)
class LogReport:
    """The result of a verification.

    Attributes:
        status: `whole`; `end_unchecked` if all that was read is intact, and without a head nobody knows whether
            entries are missing at the end; `tampered`, from entry `first_bad` on; `unchecked` if a key is needed.
        entries: the number of intact entries that were read.
        head: the log's head, unless it is damaged or unchecked.
        first_bad: the sequence number of the first entry that is changed or missing.
        problem: the problem with it.
        notes: remarks that are not damage.
        first: the number of the first entry: above 1 if an anchor says that those before were removed.
    """

    path: str
    status: LogStatus
    entries: int
    head: Head | None = None
    first_bad: int | None = None
    problem: str | None = None
    notes: tuple[str, ...] = ()
    first: int = 1

    def to_dict(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "status": self.status,
            "first": self.first,
            "entries": self.entries,
            "first_bad": self.first_bad,
            "problem": self.problem,
            "head": self.head.to_dict() if self.head is not None else None,
            "notes": list(self.notes),
        }

    def to_text(self) -> str:
        return "\n".join([f"{self.path}: {self._summary()}", *(f"note: {note}" for note in self.notes)])

    def _summary(self) -> str:
        if self.head is not None:
            intact = "whole" if self.status == "whole" else "end not checked (no head)"
            since = f" from entry {self.first:,} on" if self.first > 1 else ""
            return f"{intact}, {self.entries:,} entries{since}; the last has the hash {self.head.digest}"
        entry = f"entry {self.first_bad:,} " if self.first_bad is not None else ""
        return f"{self.status}: {entry}{self.problem}"


def verify_log(
    source: LogSource, *, key: bytes | None = None, head: Head | None = None, public_keys: PublicKeys | None = None
) -> LogReport:
    """Reads a log in constant memory, and changes nothing. Others may append to it meanwhile.

    Args:
        source: the log: a file with those that it continues, several files in order, or the address of a stream.
        key: the log's key.
        head: an earlier head of this log, however old: the entries it covers must still be there.
        public_keys: the keys of its signatures, all of which must be valid. Without any signature it is `unchecked`.

    Raises:
        InputError: the log is missing, cannot be read, or is not a log.
    """
    return _Verification(source, Chain(key), head, public_keys).report()


class _Verification:
    """One reading of a log."""

    def __init__(self, source: LogSource, chain: Chain, head: Head | None, keys: PublicKeys | None) -> None:
        self._keys, self._signed = keys, 0
        self._source = source
        self._chain = chain
        self._head = head
        self._reading = open_reader(source)
        self._last: Entry | None = None
        self._first = 1
        self._meets_head = False
        self._keyless = False

    def report(self) -> LogReport:
        if self._head is not None and self._head.mac is not None and not self._chain.keyed:
            return self._report("unchecked", problem="the head was written with a key; expected that key")
        if self._head is not None and (forged := self._head.mac_problem(self._chain)):
            return self._report("tampered", problem=forged)
        problem = self._first_problem()
        if self._keyless:
            return self._report("unchecked", problem="it was written with a key; expected that key")
        if problem is not None:
            return self._report("tampered", max(self._count + 1, self._first), problem)
        if self._keys is not None:
            if self._head is not None and self._head.signature is not None:
                about = self._head.count, self._head.digest, self._head.signature
                if problem := self._keys.head_problem(*about):
                    return self._report("tampered", problem=f"the head {problem}")
                self._signed = max(self._signed, self._head.count)
            if not self._signed:
                return self._report("unchecked", problem="no entry or head is signed by one of the public keys")
            self._reading.notes.append(f"signed up to entry {self._signed:,} of {self._count:,}")
        return self._report("whole" if self._meets_head else "end_unchecked")

    @property
    def _count(self) -> int:
        return self._last.seq if self._last is not None else 0

    def _first_problem(self) -> str | None:
        try:
            for entry in self._reading:
                if self._last is None:
                    if entry.keyed and not self._chain.keyed:
                        self._keyless = True
                        return None
                    if beginning := self._beginning_problem(entry):
                        return beginning
                elif problem := self._chain.link_problem(entry, self._last):
                    return problem
                if problem := self._differs_from_head(entry) or self._signature_problem(entry):
                    return problem
                self._last = entry
        except DamagedLogError as damaged:
            return str(damaged)
        return self._end_problem()

    def _beginning_problem(self, entry: Entry) -> str | None:
        """Returns the problem with the first entry, which need not be number 1 if an anchor covers those before it."""
        follows = type(entry.seq) is int and entry.seq > 1
        if not follows or not has_anchor(open_reader(self._source), self._chain, entry):
            return self._chain.link_problem(entry, None)
        self._first = entry.seq
        return self._chain.entry_problem(entry)

    def _differs_from_head(self, entry: Entry) -> str | None:
        if self._head is None or entry.seq != self._head.count:
            return None
        self._meets_head = True
        return None if entry.hash == self._head.digest else "differs from the one in the head: this is another log"

    def _signature_problem(self, entry: Entry) -> str | None:
        if self._keys is None or '"signature"' not in entry.text:
            return None
        fields = json.loads(entry.text)
        problem = self._keys.entry_problem(fields, entry.seq, entry.prev)
        if problem is None and fields.get("kind") == SIGNATURE:
            self._signed = entry.seq - 1
        return problem

    def _end_problem(self) -> str | None:
        """A head of entries that were all removed, or of an empty log, says nothing about later ones."""
        if self._head is None:
            return None
        if self._head.count >= self._first and not self._meets_head:
            return f"is missing: the log was cut off, since its head records {self._head.count:,} entries"
        self._meets_head |= self._count == self._head.count
        if self._count > self._head.count:
            covers = f"entry {self._head.count:,}" if self._meets_head else "entries that were removed"
            self._reading.notes.append(f"the head ends with {covers}; missing later entries do not show")
        return None

    def _report(self, status: LogStatus, first_bad: int | None = None, problem: str | None = None) -> LogReport:
        intact = status in ("whole", "end_unchecked")
        head = Head.after(self._last, self._chain) if intact else None
        notes = tuple(self._reading.notes)
        entries = self._count - self._first + 1 if self._last is not None else 0
        return LogReport(self._reading.name, status, entries, head, first_bad, problem, notes, self._first)


class ParsedEntry(NamedTuple):
    """An entry and its fields."""

    entry: Entry
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Selection:
    """The criteria for entries; None matches any.

    Attributes:
        since: the earliest time, in the format of entries.
        until: the latest time.
        last: the maximum number, from the end.
    """

    conversation: str | None = None
    tool: str | None = None
    decision: str | None = None
    since: str | None = None
    until: str | None = None
    last: int | None = None

    def entries(self, source: LogSource) -> Iterator[ParsedEntry]:
        """Iterates over the matching entries, in order and not verified.

        Raises:
            InputError: the log cannot be read, is not a log, or is damaged.
        """
        log = open_reader(source)
        if self.last is None:
            return self._matching(log)
        return iter([*islice(self._matching(log, backwards=True), self.last)][::-1])

    def _matching(self, log: LogReader, *, backwards: bool = False) -> Iterator[ParsedEntry]:
        criteria, entry = self._criteria(), None
        parts = [f'"{name}":{canonical_json(value)}' for name, value in criteria.items()]  # each occurs in every match
        try:
            for entry in log.backwards() if backwards else log:
                if all(part in entry.text for part in parts):
                    fields = _fields(entry, log.name)
                    if self._matches(fields, criteria):
                        yield ParsedEntry(entry, fields)
        except DamagedLogError as damaged:
            near = f"{'before' if backwards else 'after'} entry {entry.seq}" if entry else "at the beginning"
            raise ContentError(
                f"the log cannot be read further, {near}: {damaged}; run 'guardagent log verify'", log.name
            ) from None

    def _criteria(self) -> dict[str, str]:
        named = {"conversation": self.conversation, "tool": self.tool, "decision": self.decision}
        return {name: value for name, value in named.items() if value is not None}

    def _matches(self, fields: dict[str, Any], criteria: dict[str, str]) -> bool:
        return (
            all(fields.get(name) == value for name, value in criteria.items())
            and (self.since is None or str(fields["time"]) >= self.since)
            and (self.until is None or str(fields["time"]) <= self.until)
        )


def decision_name(name: str | None) -> str | None:
    """Returns the name of a decision.

    Raises:
        UnknownNameError: there is no such decision.
    """
    if name is not None and name not in set(Decision):
        raise UnknownNameError("decision", name, [str(decision) for decision in Decision])
    return name


def parse_time(text: str | None, option: str) -> str | None:
    """Converts a time to the format of entries; the default zone is UTC.

    Raises:
        InputError: it is not a time.
    """
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
        return timestamp((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        raise InputError(f"{option!r}: {text!r} is not a time; expected one such as '2026-11-02T10:30:00Z'") from None


def _fields(entry: Entry, name: str) -> dict[str, Any]:
    try:
        fields = {"time": "", **json.loads(entry.text)}
    except (ValueError, TypeError, RecursionError) as error:
        raise ContentError(
            f"entry {entry.seq} is not a JSON object: {error}; run 'guardagent log verify'", name
        ) from None
    return fields


COLUMNS = (
    "seq time kind conversation agent tool call_id decision label rules reasons errors status args args_hash facts "
    "facts_hash output output_hash violations checked_by policy permit elapsed_ms other prev hash"
).split()
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def export_entries(form: Literal["jsonl", "csv"], entries: Iterable[ParsedEntry], to: TextIO) -> int:
    """Writes entries and returns their number."""
    return _write_table(entries, to) if form == "csv" else _write_lines(entries, to)


def _write_lines(entries: Iterable[ParsedEntry], to: TextIO) -> int:
    return sum(to.write(f"{entry.line}\n") > 0 for entry, _ in entries)


def _write_table(entries: Iterable[ParsedEntry], to: TextIO) -> int:
    """Writes a row for each entry; fields without a column go into `other`."""
    writer = csv.writer(to, lineterminator="\n")
    writer.writerow(COLUMNS)
    return sum(writer.writerow(_row(entry)) > 0 for entry in entries)


def _row(parsed_entry: ParsedEntry) -> list[Any]:
    other = {name: value for name, value in parsed_entry.fields.items() if name not in COLUMNS}
    chained = {"seq": parsed_entry.entry.seq, "prev": parsed_entry.entry.prev, "hash": parsed_entry.entry.hash}
    row = {**parsed_entry.fields, **chained, "other": other or None}
    return [csv_cell(row.get(name)) for name in COLUMNS]


def csv_cell(value: Any) -> Any:
    """Quotes strings that a spreadsheet would treat as a formula."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
