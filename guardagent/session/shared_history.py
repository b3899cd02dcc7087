"""A session's history outside of its process: others may go on with the session, at once or after a restart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from guardagent.errors import GuardError

HistoryEntry = Mapping[str, Any]
"""What has happened, as JSON: `placed` (a call), `settled` (the place of one), or `halted`."""


class HistoryChangedError(GuardError):
    """Others have added to the history meanwhile: what was decided was decided without that."""


class SessionEndedError(GuardError):
    """The conversation was ended elsewhere: there may be a new one of the same name."""


class Journal(Protocol):
    """The history of one session, for one of those who go on with it."""

    def news(self) -> Sequence[HistoryEntry]:
        """What others have added since the last entry that is known here.

        Raises:
            OverError: and ended it then.
            InputError: they follow another policy.
        """

    def append(self, entry: HistoryEntry) -> None:
        """Adds what is to happen, before it does.

        Raises:
            MovedError: there is news.
            InputError: it is no JSON.
        """
