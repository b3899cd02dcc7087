"""The versions of one policy file that a process holds: the current one for new sessions, and earlier ones.

A version never changes. All versions of a file share one `PolicyVersions`, so a host may keep the policies it loaded
first: `policies.session()` opens a session of the current version, and a running session keeps its own.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from guardagent.errors import InputError

KEPT = 16  # earlier versions that are kept for snapshots; one with a running session is kept in any case
MAX_LOADS = 5  # attempts to read files that change meanwhile

Condition = Callable[[Any], None]
"""Raises an InputError for a version that its host cannot use."""


class PolicyVersion(Protocol):
    """The parts of a policy that its versions use."""

    digest: str
    path: Path | None
    versions: Any


V = TypeVar("V", bound=PolicyVersion)


class PolicyVersions(Generic[V]):
    """The versions of one policy file.

    Args:
        first: the first version.
        load: loads the files again.
        digest: returns the digest of the files as they are now.

    Attributes:
        current: the version of new sessions.
    """

    def __init__(self, first: V, load: Callable[[], V], digest: Callable[[], str]) -> None:
        self.current = first
        self._load, self._digest = load, digest
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, V] = OrderedDict({first.digest: first})
        self._alive: weakref.WeakValueDictionary[str, V] = weakref.WeakValueDictionary({first.digest: first})
        self._conditions: list[weakref.WeakMethod[Condition]] = []

    def reload(self) -> V:
        """Loads the files again, as a whole or not at all. Returns the current version, a new one if they changed.

        Raises:
            InputError: the new files are invalid, not locked, keep changing, or fail a condition; the current version
                stays in force.
        """
        with self._lock:
            loaded = self._loaded()
            if loaded.digest == self.current.digest:
                return self.current
            for condition in self._live_conditions():
                condition(loaded)
            loaded.versions = self
            self._kept[loaded.digest] = self._alive[loaded.digest] = loaded
            self._kept.move_to_end(loaded.digest)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            self.current = loaded
            return loaded

    @property
    def is_current(self) -> bool:
        """Whether the files are now those of the current version."""
        try:
            return self._digest() == self.current.digest
        except InputError:
            return False

    def require(self, condition: Condition) -> None:
        """Adds a condition on new versions, for as long as the object of this method lives."""
        with self._lock:
            self._conditions.append(weakref.WeakMethod(condition))

    def find(self, digest: str) -> V | None:
        """Returns the version with this digest, if it is held."""
        return self._alive.get(digest)

    def held(self) -> tuple[V, ...]:
        """Returns all versions that are held."""
        return tuple(self._alive.values())

    def _loaded(self) -> V:
        """Loads the files until they have not changed in between, so that no version mixes two states."""
        for _ in range(MAX_LOADS):
            loaded = self._load()
            if self._digest() == loaded.digest:
                return loaded
        raise InputError(f"{self.current.path}: keeps changing while it is read; the current version stays in force")

    def _live_conditions(self) -> list[Condition]:
        found = [(reference, reference()) for reference in self._conditions]
        self._conditions = [reference for reference, condition in found if condition is not None]
        return [condition for _, condition in found if condition is not None]
