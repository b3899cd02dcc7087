"""Rotation of log files: when a log begins a new file, and the names of its earlier ones.

`audit.jsonl` is the current file. An earlier file has the number of its first entry in its name, as
`audit.000000005001.jsonl` does. Each file after the first begins with a record that names the one before:

    {"kind":"continued","file":"audit.000000000001.jsonl","entries":5000,"hash":"sha256:…"}
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from guardagent.errors import InputError
from guardagent.log.chain import Entry

_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Rotation:
    """The limits after which a log begins a new file, before its next entry.

    Attributes:
        max_bytes: the size of a file.
        max_age: the age of its first entry, in seconds.
        clock: returns seconds since the epoch.

    Raises:
        InputError: a limit is not a positive number.
    """

    max_bytes: int | None = None
    max_age: float | None = None
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        for name, limit in (("max_bytes", self.max_bytes), ("max_age", self.max_age)):
            if limit is not None and not (type(limit) in (int, float) and 0 < limit < math.inf):
                raise InputError(f"{name!r} is {limit!r}; expected a number above 0")

    def is_due(self, size: int, first: Entry) -> bool:
        """Returns whether a file of this size that begins with this entry is to be closed."""
        if self.max_bytes is not None and size >= self.max_bytes:
            return True
        return self.max_age is not None and self.clock() - _seconds(first) >= self.max_age


@lru_cache(maxsize=16)  # asked for at each entry
def _seconds(entry: Entry) -> float:
    """Returns the time of an entry; one without a readable time is older than any limit."""
    try:
        return datetime.fromisoformat(json.loads(entry.text)["time"]).timestamp()
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return -math.inf


def archive_path(path: Path, first: int) -> Path:
    """Returns the later name of a log file that begins with the entry of this number."""
    path = path.resolve()
    return path.with_name(f"{path.stem}.{first:0{_DIGITS}}{path.suffix}")


def archives(path: Path) -> list[tuple[int, Path]]:
    """Returns the earlier files of a log in order, with the numbers in their names.

    Raises:
        OSError: the folder cannot be read.
    """
    path = path.resolve()
    name = re.compile(rf"{re.escape(path.stem)}\.([0-9]{{{_DIGITS},18}}){re.escape(path.suffix)}")
    archives = [(name.fullmatch(path.name), path) for path in path.parent.iterdir()]
    return sorted((int(match[1]), archive) for match, archive in archives if match)


def current_path(path: Path) -> Path:
    """Returns the current file of the log to which a file belongs."""
    name, _, number = path.stem.rpartition(".")
    is_archive = name and re.fullmatch(rf"[0-9]{{{_DIGITS},18}}", number)
    return path.with_name(f"{name}{path.suffix}") if is_archive else path


def continued_record(archive: Path, last: Entry) -> dict[str, Any]:
    """Returns the first record of the file after an archive that ends with this entry."""
    return {"kind": "continued", "file": archive.name, "entries": last.seq, "hash": last.hash}
