"""Verifies that every entry of a log is present and unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from guardagent.log.chain import Chain, DamagedLogError, Entry
from guardagent.log.head import Head
from guardagent.log.stores import open_reader


@dataclass(frozen=True, slots=True)
class LogReport:
    """The result of a verification.

    Attributes:
        status: `whole`; `tampered`, from entry `first_bad` on; `unchecked` if a key is needed.
        entries: the number of intact entries that were read.
        head: the log's head, if it is whole.
        first_bad: the sequence number of the first entry that is changed or missing.
        problem: the problem with it.
        notes: remarks that are not damage.
    """

    path: str
    status: Literal["whole", "tampered", "unchecked"]
    entries: int
    head: Head | None = None
    first_bad: int | None = None
    problem: str | None = None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "status": self.status,
            "entries": self.entries,
            "first_bad": self.first_bad,
            "problem": self.problem,
            "head": self.head.to_dict() if self.head is not None else None,
            "notes": list(self.notes),
        }

    def to_text(self) -> str:
        if self.status == "whole" and self.head is not None:
            summary = f"{self.path}: whole, {self.entries:,} entries; the last has the hash {self.head.digest}"
        elif self.first_bad is None:
            summary = f"{self.path}: {self.status}: {self.problem}"
        else:
            summary = f"{self.path}: {self.status}: entry {self.first_bad:,} {self.problem}"
        return "\n".join([summary, *(f"note: {note}" for note in self.notes)])


def verify_log(path: Path | str, *, key: bytes | None = None, head: Head | None = None) -> LogReport:
    """Reads a log in constant memory, and changes nothing. Others may append to it meanwhile.

    Args:
        path: the log.
        key: the log's key.
        head: an earlier head of this log, however old: the entries it covers must still be there.

    Raises:
        InputError: the file is missing, cannot be read, or is not a log.
    """
    return _Verification(Path(path), Chain(key), head).report()


class _Verification:
    """One reading of a log."""

    def __init__(self, path: Path, chain: Chain, head: Head | None) -> None:
        self._path = path
        self._chain = chain
        self._head = head
        self._reading = open_reader(path)
        self._last: Entry | None = None
        self._head_unmatched = head is not None and head.count > 0
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
            return self._report("tampered", self._count + 1, problem)
        return self._report("whole")

    @property
    def _count(self) -> int:
        return self._last.seq if self._last is not None else 0

    def _first_problem(self) -> str | None:
        try:
            for entry in self._reading:
                if entry.keyed and not self._chain.keyed and self._last is None:
                    self._keyless = True
                    return None
                if problem := self._chain.link_problem(entry, self._last) or self._differs_from_head(entry):
                    return problem
                self._last = entry
        except DamagedLogError as damaged:
            return str(damaged)
        if self._head_unmatched and self._head is not None:
            return f"is missing: the log was cut off, since its head records {self._head.count:,} entries"
        return None

    def _differs_from_head(self, entry: Entry) -> str | None:
        if self._head is None or entry.seq != self._head.count:
            return None
        self._head_unmatched = False
        return None if entry.hash == self._head.digest else "differs from the one in the head: this is another log"

    def _report(
        self,
        status: Literal["whole", "tampered", "unchecked"],
        first_bad: int | None = None,
        problem: str | None = None,
    ) -> LogReport:
        head = Head.after(self._last, self._chain) if status == "whole" else None
        notes = tuple(self._reading.notes)
        return LogReport(str(self._path), status, self._count, head, first_bad, problem, notes)
