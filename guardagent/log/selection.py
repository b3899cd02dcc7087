"""Selects entries of a log by conversation, tool, decision and time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

from guardagent.errors import ContentError, InputError, UnknownNameError
from guardagent.log.chain import DamagedLogError, Entry
from guardagent.log.record_encoder import timestamp
from guardagent.log.stores import LogReader, LogSource, open_reader
from guardagent.log.values import canonical_json
from guardagent.types import Decision


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
        raise UnknownNameError("decision", name, [str(one) for one in Decision])
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
