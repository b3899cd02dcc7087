"""The key of a log, without which nobody can compute its hashes. It is never shown."""

from __future__ import annotations

import os
from pathlib import Path

from guardagent.errors import InputError

MIN_KEY = 16  # bytes
VARIABLE = "GUARDAGENT_LOG_KEY"
_MAX_KEY_BYTES = 4096


def load_key(path: Path | str | None = None) -> bytes | None:
    """Returns the key in a file, else that in the environment variable GUARDAGENT_LOG_KEY, else None.

    A line break at the end is ignored.

    Raises:
        InputError: the file cannot be read, or the key is too short.
    """
    if path is None:
        value = os.environ.get(VARIABLE)
        return checked_key(os.fsencode(value).rstrip(b"\r\n"), f"${VARIABLE}") if value is not None else None
    try:
        with Path(path).open("rb") as file:
            key = file.read(_MAX_KEY_BYTES)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; expected the key file of a log") from None
    return checked_key(key.rstrip(b"\r\n"), str(path))


def checked_key(key: bytes, name: str) -> bytes:
    """Returns a key that is long enough.

    Raises:
        InputError: it is too short.
    """
    if not isinstance(key, bytes) or len(key) < MIN_KEY:
        raise InputError(f"{name}: is not a log key; expected at least {MIN_KEY} random bytes")
    return key
