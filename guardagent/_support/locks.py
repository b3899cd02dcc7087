"""File locks: one writer at a time among threads and processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from guardagent.errors import InputError

_NAME = ".lock"


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Holds a folder's lock. The system releases it when the holder ends, however it ends.

    Raises:
        InputError: the folder cannot be written.
    """
    import fcntl

    try:
        handle = os.open(folder / _NAME, os.O_WRONLY | os.O_CREAT, 0o600)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from None
    with os.fdopen(handle, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def shared_folder_lock(folder: Path) -> Iterator[None]:
    """As `folder_lock`, but leaves no file behind, and other users of the machine can hold it too.

    Raises:
        InputError: the folder cannot be read.
    """
    import fcntl

    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def replace_file(path: Path, text: str) -> None:
    """Writes a temporary file and renames it: a crash, even of the machine, leaves the old or the new file."""
    temporary = path.with_suffix(".new")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Flushes a folder to disk, so that its renames survive a crash of the machine."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
