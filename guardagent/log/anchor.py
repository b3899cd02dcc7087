"""Anchors: entries that say that all entries up to a number are removed on purpose, so that the rest is still a log.

    {"kind":"anchor","removed":5000,"hash":"sha256:…"}

An anchor is part of the chain. Without one, a log whose beginning is missing was tampered with.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

from guardagent.errors import InputError, LogError
from guardagent.log.chain import Chain, DamagedLogError, Entry
from guardagent.log.stores import LogReader

_KIND = "anchor"


def anchor_record(log: LogReader, chain: Chain, removed: int) -> dict[str, Any]:
    """Returns the record that allows the removal of all entries of a log up to a number.

    Raises:
        InputError: the log has no entry of this number, or cannot be read.
        LogError: that entry was changed.
    """
    try:
        found = next((one for one in log.backwards() if one.seq == removed), None)
    except DamagedLogError as damaged:
        raise LogError(f"{log.name}: {damaged}; run 'guardagent log verify'") from None
    if found is None:
        raise InputError(f"{log.name}: has no entry {removed!r}; expected the number of the last one to be removed")
    if problem := chain.entry_problem(found):
        raise LogError(f"{log.name}: entry {removed:,} {problem}; run 'guardagent log verify'")
    return {"kind": _KIND, "removed": found.seq, "hash": found.hash}


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
