"""Verifies that every entry of a log is present and unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from guardagent.log.anchor import has_anchor
from guardagent.log.chain import Chain, DamagedLogError, Entry
from guardagent.log.head import Head
from guardagent.log.stores import LogSource, open_reader

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


def verify_log(source: LogSource, *, key: bytes | None = None, head: Head | None = None) -> LogReport:
    """Reads a log in constant memory, and changes nothing. Others may append to it meanwhile.

    Args:
        source: the log: a file with those that it continues, several files in order, or the address of a stream.
        key: the log's key.
        head: an earlier head of this log, however old: the entries it covers must still be there.

    Raises:
        InputError: the log is missing, cannot be read, or is not a log.
    """
    return _Verification(source, Chain(key), head).report()


class _Verification:
    """One reading of a log."""

    def __init__(self, source: LogSource, chain: Chain, head: Head | None) -> None:
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
                if problem := self._differs_from_head(entry):
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
