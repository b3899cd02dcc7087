"""A state file that another program maintains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from guardagent._support.files import parse_json, read_text
from guardagent.errors import InputError


class FileState:
    """Returns the JSON object in a file; the file is read again when it has changed.

    Raises:
        InputError: the file has no JSON object. During a check this denies.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._state: dict[str, Any] = {}
        self("")

    def __call__(self, _conversation: str) -> dict[str, Any]:
        """Returns the state, which is the same for every conversation."""
        try:
            found = self._path.stat()
        except OSError as error:
            raise InputError(f"{self._path}: cannot be read: {error.strerror}; expected a JSON object") from None
        seen = (found.st_mtime_ns, found.st_size, found.st_ino)
        if seen != self._seen:
            self._state, self._seen = read_object(self._path), seen
        return self._state


def read_object(path: Path) -> dict[str, Any]:
    """Returns the JSON object in a file.

    Raises:
        InputError: the file has no JSON object.
    """
    value = parse_json(read_text(path), path)
    if not isinstance(value, dict):
        raise InputError(f"{path}: holds a {type(value).__name__}; expected a JSON object")
    return value
