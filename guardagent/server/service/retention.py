"""Deletes what a server no longer needs, and ends sessions that their hosts abandoned."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

from guardagent.errors import GuardError, error_text
from guardagent.server.approval_record import FINAL, ApprovalRecord
from guardagent.server.approvals import APPROVAL
from guardagent.server.service.host_sessions import SESSION, HostSession
from guardagent.server.service.repeated_requests import ANSWER
from guardagent.server.settings_pieces.retention_settings import RetentionSettings
from guardagent.server.state import StateStore, StoredItem

PAUSE_SECONDS = 300.0
_PAGE = 500
_HOUR, _DAY = 3600.0, 86_400.0
_log = logging.getLogger("guardagent")


class Retention:
    """Keeps the state small. All servers that share it may do this at the same time.

    The ledger remembers the names of ended sessions, so that none begins anew without its history.

    Args:
        state: has the items.
        settings: how long they are kept.
        finish: ends a session, as its host would.
        clock: returns the seconds since the epoch.
    """

    def __init__(
        self,
        state: StateStore,
        settings: RetentionSettings,
        finish: Callable[[HostSession], object],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._state, self._settings, self._finish, self._clock = state, settings, finish, clock

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Deletes meanwhile, every few minutes."""
        stopped = threading.Event()
        thread = threading.Thread(target=self._run, args=(stopped,), name="retention", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join(10.0)

    def _run(self, stopped: threading.Event) -> None:
        while not stopped.wait(PAUSE_SECONDS):
            try:
                self.sweep(stopped.is_set)
            except Exception as error:  # noqa: BLE001 - the next round tries again
                _log.error("the state cannot be cleaned up at present: %s", error_text(error))

    def sweep(self, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Deletes everything that is due.

        Raises:
            StateError: the store fails.
        """
        now, keep = self._clock(), self._settings
        if keep.abandoned_days is not None:
            for tenant, items in self._older(SESSION, "created", now - keep.abandoned_days * _DAY):
                for one in items:
                    if is_stopped():
                        return
                    self._end(HostSession(one.name, tenant, number=one.number, **one.value))
        for kind, field, seconds, is_due in (
            (ANSWER, "since", keep.answer_hours * _HOUR, _is_always),
            (APPROVAL, "created", keep.approval_days * _DAY, partial(_is_decided, now)),
            (SESSION, "created", keep.session_days * _DAY, _has_ended),
        ):
            for tenant, items in self._older(kind, field, now - seconds):
                if is_stopped():
                    return
                self._state.delete(kind, tenant, *(one.name for one in items if is_due(one)))

    def _older(self, kind: str, field: str, before: float) -> Iterator[tuple[str, list[StoredItem]]]:
        """Yields tenants with items from before a time, some at once."""
        for tenant in self._state.tenants(kind):
            after = 0
            while page := self._state.oldest(kind, tenant, after, _PAGE):
                older = [one for one in page if one.value[field] < before]
                if not older:
                    break
                yield tenant, older
                after = page[-1].number

    def _end(self, session: HostSession) -> None:
        if session.status != "open":
            return
        try:
            self._finish(session)
        except GuardError as error:  # such as a version of the policy that this server lacks
            _log.warning("the abandoned session %r cannot be ended: %s", session.conversation, error)


def _is_always(_item: StoredItem) -> bool:
    return True


def _is_decided(now: float, item: StoredItem) -> bool:
    return ApprovalRecord.of(item.value).at(now).status in FINAL


def _has_ended(item: StoredItem) -> bool:
    return bool(item.value["status"] == "ended")
