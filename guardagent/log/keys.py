"""The key of a log: it makes hashes that nobody else can make. It is never shown."""

from __future__ import annotations

import os
from pathlib import Path

from guardagent.errors import InputError

MIN_KEY = 16  # bytes
VARIABLE = "GUARDAGENT_LOG_KEY"
_MAX_BYTES = 4096


def load_key(path: Path | str | None = None) -> bytes | None:
    """The key in a file, else that in the environment variable GUARDAGENT_LOG_KEY; None where neither is given.

    A line break at the end is no part of it.

    Raises:
        InputError: the file cannot be read, or the key is too short.
    """
    if path is None:
        value = os.environ.get(VARIABLE)
        return checked_key(os.fsencode(value).rstrip(b"\r\n"), f"${VARIABLE}") if value is not None else None
    try:
        with Path(path).open("rb") as file:
            key = file.read(_MAX_BYTES)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; expected a file with the key of a log") from None
    return checked_key(key.rstrip(b"\r\n"), str(path))


def checked_key(key: bytes, name: str) -> bytes:
    """A key that is long enough.

    Raises:
        InputError: it is not.
    """
    if not isinstance(key, bytes) or len(key) < MIN_KEY:
        raise InputError(f"{name}: is no key of a log; expected at least {MIN_KEY} random bytes")
    return key
