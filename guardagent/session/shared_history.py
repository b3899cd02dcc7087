"""The shared history of a session, through which other processes continue it, concurrently or after a restart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from guardagent.errors import GuardError

HistoryEntry = Mapping[str, Any]
"""A change as JSON: `placed` (a call), `settled` (the place of a call), `barred` (a call's id) or `halted`."""


class HistoryChangedError(GuardError):
    """Another process extended the history, so the decision was made on an outdated one."""


class SessionEndedError(GuardError):
    """Another process ended the conversation; a new one may have the same name."""


class Journal(Protocol):
    """The history of one session, as seen by one of the processes that share it."""

    def news(self) -> Sequence[HistoryEntry]:
        """Returns the entries that other processes added since the last call.

        Raises:
            SessionEndedError: another process ended the conversation.
            InputError: the other processes use another policy.
        """

    def append(self, entry: HistoryEntry) -> None:
        """Appends an entry before the change takes effect.

        Raises:
            HistoryChangedError: there are new entries of other processes.
            InputError: the entry cannot be written as JSON.
        """
