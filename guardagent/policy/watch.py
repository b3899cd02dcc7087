"""Watches the files of a policy, and reloads it after they have changed."""

from __future__ import annotations

import errno
import logging
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from guardagent._support.files import require_regular
from guardagent.errors import GuardError, InputError, error_text
from guardagent.policy.policies import Policies

INTERVAL = 1.0  # seconds between two looks at the files
_MOST_NAMED = 5  # parts that a version lacks
_log = logging.getLogger("guardagent")

Stamp = tuple[tuple[str, int, int, int] | None, ...]


class PolicyWatch:
    """Reloads a policy when its files change, in a thread of its own. Use it as a context manager.

    A change counts once two looks in a row see the same files, and nobody has one of them open for writing. A version
    that lacks a part of the current one is only loaded if each changed file was replaced by a rename: it may be half of
    a file. Every result goes to the logger `guardagent`.

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
        if is_stable and stamp != self._loaded and not any(map(_is_being_written, self._files)):
            self._loaded = stamp
            changed = [pair for pair in zip(self._in_force, stamp, strict=True) if pair[0] != pair[1]]
            self._reload(renamed=all(before and after and before[-1] != after[-1] for before, after in changed))

    def _reload(self, *, renamed: bool) -> None:
        before, versions = self._policies.current, self._policies.versions
        assert versions is not None
        try:
            after = versions.reload(None if renamed else self._require_all_parts)
        except GuardError as error:
            _log.error("the policy is not reloaded, and the current version stays in force: %s", error)
            return
        except BaseException as error:  # noqa: BLE001 - code of the toolbox runs, and the watch has to go on
            _log.error("the policy is not reloaded, and the current version stays in force: %s", error_text(error))
            return
        if after is not before:
            _log.warning("the policy was reloaded: new conversations get version %s", after.digest[:12])
        self._note_files()

    def _require_all_parts(self, loaded: Policies) -> None:
        """Requires that a version has all that the current one has.

        Raises:
            InputError: it lacks a part.
        """
        if lost := list(_lost(self._policies.current, loaded)):
            more = f" and {len(lost) - _MOST_NAMED} more" if len(lost) > _MOST_NAMED else ""
            raise InputError(
                f"{self._policies.path}: lacks {', '.join(lost[:_MOST_NAMED])}{more}, so it may be half of a file; to "
                "load it, replace the file by a rename ('mv'), or call 'reload()'"
            )

    def _note_files(self) -> None:
        """Notes the files of the current version, unless they have changed again."""
        self._files = self._referenced()
        self._seen = self._in_force = self._stamp()
        versions = self._policies.versions
        self._loaded = self._seen if versions is not None and versions.is_current else None

    def _referenced(self) -> tuple[Path, ...]:
        """The files of the policy. If they cannot be listed now, the ones known before and the policy file itself."""
        from guardagent.policy.file.policy_file import policy_contents

        path = self._policies.path
        assert path is not None
        try:
            require_regular(path)
            return tuple(dict.fromkeys([path, *(content.path for content in policy_contents(path)), *self._extra]))
        except GuardError:
            return self._files or (path, *self._extra)

    def _stamp(self) -> Stamp:
        return tuple(map(_stamp_of, self._files))

    def _run(self) -> None:
        while not self._stopped.wait(self._interval):
            self.look()


def _lost(before: Policies, after: Policies) -> Iterator[str]:
    """Yields the parts of a version that another one lacks."""
    kept = {rule.id: rule for rule in after.rules}
    yield from (f"the rule {name!r}" for name in before.ids if name not in after.ids)
    for rule in before.rules:
        other = kept.get(rule.id, rule)
        if len(other.rules) < len(rule.rules) or rule.tools - other.tools:
            yield f"a part of the rule {rule.id!r}"
    yield from (
        f"tools of {'@' + tag!r}" for tag, tools in before.tags.items() if tools - after.tags.get(tag, frozenset())
    )
    if before.declared_tools is not None and after.declared_tools is None:
        yield "'tools'"
    if before.unlisted == "deny" != after.unlisted:
        yield "'unlisted: deny'"
    if before.source is not None and after.source is not None:
        yield from (
            f"{name!r} of {key!r}" for key, name in before.source.places if (key, name) not in after.source.places
        )


def _is_being_written(path: Path) -> bool:
    """Whether a process has a file open for writing, as far as this system tells.

    A lease for reading is only granted for a file that nobody writes. It is denied to users who do not own the file.
    """
    import fcntl

    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            fcntl.fcntl(
                file, fcntl.F_SETSIG, signal.SIGURG
            )  # a writer who comes now sends it; by default it is ignored
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    return False


def _stamp_of(path: Path) -> tuple[str, int, int, int] | None:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return str(path), status.st_mtime_ns, status.st_size, status.st_ino
