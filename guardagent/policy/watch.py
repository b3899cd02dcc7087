"""Watches the files of a policy, and reloads it after they have changed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from guardagent.errors import GuardError, error_text
from guardagent.policy.policies import Policies

INTERVAL = 1.0  # seconds between two looks at the files
_log = logging.getLogger("guardagent")

Stamp = tuple[tuple[str, int, int, int] | None, ...]


class PolicyWatch:
    """Reloads a policy when its files change, in a thread of its own. Use it as a context manager.

    A change counts once two looks in a row see the same files, so a file that is being written is not loaded. Every
    result goes to the logger `guardagent`.

    Args:
        policies: the policy, loaded from a file.
        interval: seconds between two looks.
        extra: further files that a change of the policy depends on, such as its lock file.
    """

    def __init__(self, policies: Policies, interval: float = INTERVAL, extra: Iterable[Path] = ()) -> None:
        self._policies, self._interval = policies, interval
        self._extra = tuple(extra)
        self._files: tuple[Path, ...] = ()
        self._seen: Stamp = ()
        self._loaded: Stamp | None = None
        self._note_files()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="guardagent-watch")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()

    def look(self) -> None:
        """Reloads the files if they changed and have been stable since the last poll."""
        stamp = self._stamp()
        is_stable, self._seen = stamp == self._seen, stamp
        if is_stable and stamp != self._loaded:
            self._loaded = stamp
            self._reload()

    def _reload(self) -> None:
        before = self._policies.current
        try:
            after = self._policies.reload()
        except GuardError as error:
            _log.error("the policy is not reloaded, and the current version stays in force: %s", error)
            return
        except BaseException as error:  # noqa: BLE001 - code of the toolbox runs, and the watch has to go on
            _log.error("the policy is not reloaded, and the current version stays in force: %s", error_text(error))
            return
        if after is not before:
            _log.warning("the policy was reloaded: new conversations get version %s", after.digest[:12])
        self._note_files()

    def _note_files(self) -> None:
        """Notes the files of the current version, unless they have changed again."""
        self._files = self._referenced()
        self._seen = self._stamp()
        versions = self._policies.versions
        self._loaded = self._seen if versions is not None and versions.is_current else None

    def _referenced(self) -> tuple[Path, ...]:
        """The files of the policy. If they cannot be listed now, the ones known before and the policy file itself."""
        from guardagent.policy.file.inclusions import policy_contents

        path = self._policies.path
        assert path is not None
        try:
            return tuple(
                dict.fromkeys([path, *(policy_content.path for policy_content in policy_contents(path)), *self._extra])
            )
        except GuardError:
            return self._files or (path, *self._extra)

    def _stamp(self) -> Stamp:
        return tuple(map(_stamp_of, self._files))

    def _run(self) -> None:
        while not self._stopped.wait(self._interval):
            self.look()


def _stamp_of(path: Path) -> tuple[str, int, int, int] | None:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return str(path), status.st_mtime_ns, status.st_size, status.st_ino
