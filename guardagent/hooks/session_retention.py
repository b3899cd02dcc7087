"""Deletes the sessions of hosts that were not used for long: their histories, and what was asked about their calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from guardagent.enforcement import SqliteLedger
from guardagent.hooks.hook_lock import KEEP_DAYS, read_locks
from guardagent.hooks.hook_state import PendingAsks
from guardagent.server.state import StateStore, StoredItem, open_state

_SESSION, _SESSION_TENANT = "session", ""
_NOTE_SECONDS = 3600.0  # a use is written at most once in this time
_DAY = 86400.0
_PAGE = 200


def delete_old_sessions(folder: Path, clock: Callable[[], float] = time.time) -> list[str]:
    """Deletes the old sessions of a state folder, by the hooks that are installed. Returns their names.

    Raises:
        GuardError: a lock cannot be read, or the state cannot be written.
    """
    locks = read_locks(folder)

    def keep_days(host: str) -> int:
        return max((one.keep_days for one in locks if one.host == host), default=KEEP_DAYS)

    state = open_state(f"sqlite:{folder / 'asks.db'}")
    with closing(state), closing(SqliteLedger(folder / "ledger.db")) as ledger:
        return SessionRetention(state, clock).delete_old(ledger, keep_days)


class SessionRetention:
    """Notes when each session was last used, and deletes old ones. The audit log keeps what was decided in them.

    Args:
        state: stores the times.
        clock: returns the seconds since the epoch.
    """

    def __init__(self, state: StateStore, clock: Callable[[], float] = time.time) -> None:
        self._state, self._clock = state, clock
        self._noted: dict[str, float] = {}

    def note_use(self, conversation: str) -> None:
        """Notes that a session is used now, before its history changes.

        Raises:
            StateError: this cannot be written.
        """
        now = self._clock()
        if now - self._noted.get(conversation, 0.0) < _NOTE_SECONDS:
            return
        value = {"used": now}
        while not self._state.add(_SESSION, _SESSION_TENANT, conversation, value):
            found = self._state.get(_SESSION, _SESSION_TENANT, conversation)
            if found and self._state.replace(_SESSION, _SESSION_TENANT, conversation, found.version, value):
                break
        self._noted[conversation] = now

    def delete_old(self, ledger: SqliteLedger, keep_days: Callable[[str], int]) -> list[str]:
        """Deletes the sessions that were not used for long; no session may be in use meanwhile. Returns their names.

        Args:
            ledger: has their histories.
            keep_days: the days for which the sessions of a host are kept.
        """
        asks, deleted = PendingAsks(self._state, self._clock), []
        for item in self._items():
            host = item.name.partition("/")[0]
            if self._clock() - float(item.value["used"]) > keep_days(host) * _DAY:
                ledger.end(item.name)
                self._state.delete(_SESSION, _SESSION_TENANT, item.name)
                deleted.append(item.name)
        asks.delete_old(lambda ask: keep_days(ask.host) * _DAY)
        return deleted

    def _items(self) -> list[StoredItem]:
        found: list[StoredItem] = []
        while page := self._state.oldest(_SESSION, _SESSION_TENANT, found[-1].number if found else 0, _PAGE):
            found.extend(page)
        return found
