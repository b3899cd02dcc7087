"""A local file for records that the log cannot take now. The log catches up, in order, before its next record.

A line holds an entry in its final form, already redacted; a line without a line break was never acknowledged. A file
beside the spool records after every entry how far the log has caught up. If that file is not current, the log itself is
searched: an entry that it contains is not written again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from guardagent._support.files import sync_folder
from guardagent.errors import InputError, LogError
from guardagent.log.audit_log import AuditLog
from guardagent.log.records import canonical_json, json_value

_log = logging.getLogger("guardagent")


class RecordSink(Protocol):
    """Anything that records can be appended to."""

    def append(self, record: Mapping[str, Any]) -> Any: ...


class Spool:
    """Appends to a log, or to a file from which the log catches up later.

    Args:
        log: the destination of records.
        path: the file; by default beside the log's own.

    Raises:
        InputError: no file is named, and the log has none; or it cannot be written.
    """

    def __init__(self, log: RecordSink, path: Path | str | None = None) -> None:
        beside = getattr(log, "path", None)
        if path is None and not isinstance(beside, Path):
            raise InputError("the log is not a file, so its spool has no default path; expected 'log_spool=FILE'")
        self.path = Path(path) if path is not None else Path(f"{beside}.spool")
        self._position_file = Path(f"{self.path}.at")
        self._target = _AuditLogTarget(log) if isinstance(log, AuditLog) else _RecordTarget(log)
        try:
            with self._locked_file() as handle:
                self._catch_up(handle)
        except (OSError, LogError) as error:
            raise InputError(f"{self.path}: cannot be used as a spool: {error}") from None

    def append(self, record: Mapping[str, Any]) -> None:
        """Appends a record to the log or to the file.

        Raises:
            LogError: it is in neither, or it is unknown whether it is.
        """
        entry, last_seq = self._target.prepare(record), self._target.last_seq
        try:
            empty = self._is_empty()
            if empty and self._append_to_log(entry):  # the common case
                return
            with self._locked_file() as handle:
                if empty or not self._catch_up(handle) or not self._append_to_log(entry):
                    self._write(handle, [last_seq, entry])
        except OSError as error:
            raise LogError(f"neither the log nor its spool '{self.path}' can be written: {error}") from None

    def _append_to_log(self, entry: Any) -> bool:
        try:
            self._target.append(entry)
        except Exception as error:  # noqa: BLE001 - a log may raise anything
            _log.error("the audit log cannot be written, so the record went to '%s': %s", self.path, error)
            return False
        return True

    def _is_empty(self) -> bool:
        try:
            return not os.path.getsize(self.path)  # noqa: PTH202 - faster
        except FileNotFoundError:
            return True

    @contextlib.contextmanager
    def _locked_file(self) -> Iterator[int]:
        """Gives the file, locked against others."""
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield handle
        finally:
            os.close(handle)

    def _write(self, handle: int, line: list[Any]) -> None:
        lines = self._lines(handle)
        complete_bytes = sum(len(line) + 1 for line in lines)
        os.ftruncate(handle, complete_bytes)  # an unfinished line of a killed writer
        begin = [] if lines else [{"spool": secrets.token_hex(8)}]
        data = b"".join(json.dumps(record).encode() + b"\n" for record in [*begin, line])
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(handle, left) :]
            os.fsync(handle)
            if begin:
                sync_folder(self.path.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(handle, complete_bytes)
            raise

    def _catch_up(self, handle: int) -> bool:
        """Writes the waiting entries to the log in order, and returns whether all are there."""
        lines = self._lines(handle)
        if not lines:
            return True
        try:
            name = json.loads(lines[0])["spool"]
            position = self._position(name)
            waiting = [(seen, entry) for seen, entry in map(json.loads, lines[1:][position:])]
        except (ValueError, TypeError, KeyError) as error:
            raise LogError(f"{self.path}: is not a spool, or was changed: {error}") from None
        try:
            logged = self._target.since(min(seen for seen, _ in waiting)) if waiting else []
            for done, (_, entry) in enumerate(waiting, position + 1):
                if entry in logged:
                    logged.remove(entry)
                else:
                    self._target.append(entry)
                self._keep_position(name, done)
        except Exception as error:  # noqa: BLE001 - a log may raise anything
            _log.error("the audit log cannot catch up with '%s': %s", self.path, error)
            return False
        os.ftruncate(handle, 0)
        os.fsync(handle)
        return True

    @staticmethod
    def _lines(handle: int) -> list[bytes]:
        data = os.pread(handle, os.fstat(handle).st_size, 0)
        return data.split(b"\n")[:-1]

    def _position(self, name: str) -> int:
        """Returns how many entries of the spool of this name are in the log."""
        with contextlib.suppress(OSError, ValueError):
            of, at = self._position_file.read_text(encoding="ascii").split()
            return int(at) if of == name else 0
        return 0

    def _keep_position(self, name: str, at: int) -> None:
        handle = os.open(self._position_file, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(handle, f"{name} {at:012}\n".encode(), 0)
            os.fsync(handle)
        finally:
            os.close(handle)


class _AuditLogTarget:
    """An audit log: its entries are strings, which it can find again."""

    def __init__(self, log: AuditLog) -> None:
        self._log = log
        self.append, self.prepare, self.since = log.append_prepared, log.prepare, log.since

    @property
    def last_seq(self) -> int:
        return self._log.last_seq


class _RecordTarget:
    """Any other log: its entries are records."""

    last_seq = 0

    def __init__(self, log: RecordSink) -> None:
        self.append = log.append

    def prepare(self, record: Mapping[str, Any]) -> Any:
        return json.loads(canonical_json(json_value(record)))

    def since(self, _seq: int) -> list[Any]:
        return []
