"""One process per user that decides on the events of all hooks. The client starts it, and it ends when it is idle.

python -I -m guardagent.hooks.hook_daemon FOLDER
"""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from guardagent._support import json_values
from guardagent._support.log_lines import log_as_text
from guardagent.errors import GuardError, InputError, error_text
from guardagent.hooks.client import BEFORE, MAX_EVENT, SOCKET, STALE, frame, unframe
from guardagent.hooks.hook_event import HOSTS, HookHost, HookKind, HookOutput, denied
from guardagent.hooks.hook_judge import HookJudge, conversation_of
from guardagent.hooks.hook_state import HookLock, SessionRetention, delete_old_sessions, read_lock
from guardagent.server.state import open_state

IDLE_SECONDS = 1800.0
QUIET_SECONDS = 60.0
"""Longer than any check: after this time without an event no session is in use."""
RETENTION_SECONDS = 86400.0
READ_SECONDS = 10.0
_log = logging.getLogger("guardagent")


class HookDaemon:
    """Decides.

    Args:
        folder: the state folder, which only this user can use.
        idle_seconds: after this time without an event it ends.
        clock: returns the seconds since the epoch, for the age of sessions.
    """

    def __init__(
        self, folder: Path, idle_seconds: float = IDLE_SECONDS, clock: Callable[[], float] = time.time
    ) -> None:
        self._folder, self._idle, self._clock = folder, idle_seconds, clock
        self._judges: dict[str, tuple[int, HookHost, HookLock, dict[str, HookJudge]]] = {}
        self._retention: SessionRetention | None = None
        self._lock = threading.Lock()
        self._code, self._cleaned = _code_version(), 0.0

    def output(self, host: str, event: str, lock: str, text: bytes) -> HookOutput:
        """Returns the answer to an event. Never raises."""
        try:
            return self._output(host, lock, text)
        except Exception as error:  # noqa: BLE001 - every error is an answer
            reason = str(error) if isinstance(error, GuardError) else error_text(error)
            _log.error("%s of %s: %s", event, host, reason)
            reason = f"GuardAgent cannot judge this, so it is denied: {reason}"
            return denied(reason) if event in BEFORE else HookOutput(stderr=reason, status=1)

    def _output(self, name: str, lock: str, text: bytes) -> HookOutput:
        host, hook_lock, judges = self._installed(name, lock)
        event = host.read(_payload(text))
        if event.kind is HookKind.OTHER:
            raise InputError(f"the event {event.name!r} of {host.title} is unknown")
        with self._lock:
            began = self._sessions().note_use(conversation_of(hook_lock, event), event.cwd)
            workspace = hook_lock.project or began
            if (judge := judges.get(workspace)) is None:
                judge = judges[workspace] = HookJudge(hook_lock, host, self._folder, workspace)
        return host.write(event, judge.answer(event))

    def _sessions(self) -> SessionRetention:
        if self._retention is None:
            self._retention = SessionRetention(open_state(f"sqlite:{self._folder / 'asks.db'}"))
        return self._retention

    def _installed(self, name: str, lock: str) -> tuple[HookHost, HookLock, dict[str, HookJudge]]:
        """Returns a hook, and its judges by their workspaces; none yet if the lock was written anew."""
        path = Path(lock)
        if path.parent.resolve() != self._folder.resolve():
            raise InputError(f"the lock {lock!r} is not in the state folder")
        changed = path.stat().st_mtime_ns
        with self._lock:
            known = self._judges.get(lock)
            if known is None or known[0] != changed:
                hook_lock, host = read_lock(path), HOSTS.load(name).Host()
                if hook_lock.host != name:
                    raise InputError(f"the lock is for {hook_lock.host!r}, not for {name!r}")
                known = self._judges[lock] = (changed, host, hook_lock, {})
        return known[1:]

    # --- the socket

    def serve(self) -> None:
        """Serves until it is idle, or the program on disk is another one. A second daemon ends at once."""
        os.chdir(self._folder)
        with open("daemon.lock", "w", encoding="utf-8") as single:  # noqa: PTH123 - relative to the folder
            try:
                fcntl.flock(single, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return
            Path(SOCKET).unlink(missing_ok=True)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(SOCKET)
                os.chmod(SOCKET, 0o600)  # noqa: PTH101
                listener.listen(128)
                listener.settimeout(min(self._idle, QUIET_SECONDS))
                self._delete_old_sessions()
                self._accept(listener)

    def _accept(self, listener: socket.socket) -> None:
        last = time.monotonic()
        while True:
            try:
                connection, _ = listener.accept()
                last = time.monotonic()
            except TimeoutError:
                if time.monotonic() - last < self._idle:
                    if time.monotonic() - self._cleaned > RETENTION_SECONDS:
                        self._delete_old_sessions()
                    continue
                Path(SOCKET).unlink(missing_ok=True)
                return
            if _code_version() != self._code:
                with connection:
                    connection.sendall(frame([str(STALE).encode(), b"", b""]))
                Path(SOCKET).unlink(missing_ok=True)
                return
            threading.Thread(target=self._handle, args=(connection,)).start()  # the process ends after its answer

    def _delete_old_sessions(self) -> None:
        """Deletes old sessions, while none is in use. If this fails they stay; the next daemon tries again."""
        self._cleaned = time.monotonic()
        try:
            deleted = delete_old_sessions(self._folder, self._clock)
            for *_, judges in self._judges.values():
                for judge in judges.values():
                    judge.forget(deleted)
        except Exception as error:  # noqa: BLE001 - no hook waits for this
            _log.error("old sessions cannot be deleted: %s", error_text(error))

    def _handle(self, connection: socket.socket) -> None:
        with connection:
            try:
                if _user_of(connection) != os.getuid():
                    return
                parts = _received(connection)
                if len(parts) == 4:
                    host, event, lock = (part.decode("utf-8", "surrogateescape") for part in parts[:3])
                    output = self.output(host, event, lock, parts[3])
                    connection.sendall(
                        frame([str(output.status).encode(), output.stdout.encode(), f"{output.stderr}\n".encode()])
                    )
            except OSError as error:
                _log.warning("a hook went away: %s", error)


def _received(connection: socket.socket) -> list[bytes]:
    """Returns the parts of a message; none if it does not arrive in time."""
    connection.settimeout(READ_SECONDS)
    message, end = b"", time.monotonic() + READ_SECONDS
    while len(message) <= 2 * MAX_EVENT and time.monotonic() < end:
        chunk = connection.recv(1 << 20)
        message += chunk
        if (parts := unframe(message)) or not chunk:
            return parts
    return []


def _payload(text: bytes) -> dict[str, object]:
    try:
        payload = json_values.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"the event is not JSON: {error}") from None
    if not isinstance(payload, dict):
        raise InputError(f"the event is a {type(payload).__name__}; expected an object")
    return payload


def _user_of(connection: socket.socket) -> int:
    if not hasattr(socket, "SO_PEERCRED"):
        return os.getuid()  # the folder is for this user alone
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(user)


def _code_version() -> Sequence[int]:
    """The times of this program's files: after an upgrade, the daemon makes way for the new one."""
    package = Path(__file__).parents[1]
    return [path.stat().st_mtime_ns if path.exists() else 0 for path in (package / "_version.py", Path(__file__))]


def main() -> None:
    """Runs the daemon."""
    os.umask(0o077)
    log_as_text("guardagent hooks: ")
    HookDaemon(Path(sys.argv[1])).serve()


if __name__ == "__main__":
    main()
