"""The sessions of people who are signed in to the console. Every server with the same state knows them.

A cookie has a random secret. The state has the secret's hash, and the token of the person, encrypted with a key that
comes from the secret: who reads the state can neither sign in nor use the token.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from guardagent.errors import InputError
from guardagent.server.settings.console_settings import ConsoleSettings
from guardagent.server.state import StateStore, StoredItem

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

_KIND, _TENANT = "console", ""
_SECRET = re.compile(r"[0-9a-f]{64}")
_TOUCH = 60.0  # seconds after which a use is written down
_SWEEP = 200  # sessions that each sign-in looks through for expired ones


@dataclass(frozen=True, slots=True)
class ConsoleSession:
    """A person who is signed in.

    Attributes:
        secret: the content of the cookie.
        token: the bearer token with which the person signed in; it is verified on each request.
    """

    secret: str
    token: str

    @property
    def csrf(self) -> str:
        """The value that a form has to send back: another site cannot know it."""
        return hmac.new(self.secret.encode(), b"form", hashlib.sha256).hexdigest()

    def require_form(self, value: str) -> None:
        """Requires that a form comes from a page of this session.

        Raises:
            InputError: it does not.
        """
        if not hmac.compare_digest(value.encode(), self.csrf.encode()):
            raise InputError("the form does not come from this session; open the page again, and send it from there")


class ConsoleSessions:
    """The sessions of the console.

    Args:
        state: stores them.
        settings: how long they last.
        clock: returns the seconds since the epoch.
    """

    def __init__(self, state: StateStore, settings: ConsoleSettings, clock: Callable[[], float] = time.time) -> None:
        self._state, self._settings, self._clock = state, settings, clock

    def begin(self, token: str) -> ConsoleSession:
        """Begins a session of a person whose token was verified."""
        self._sweep()
        secret, now = secrets.token_hex(32), self._clock()
        sealed = _cipher(secret).encrypt(token.encode()).decode()
        self._state.add(_KIND, _TENANT, _name(secret), {"token": sealed, "begun": now, "used": now})
        return ConsoleSession(secret, token)

    def find(self, secret: str, *, is_used: bool = True) -> ConsoleSession | None:
        """Returns the session of a cookie; None if there is none or it has expired.

        Args:
            secret: the content of the cookie.
            is_used: whether a person uses it, so that it lasts; a page that refreshes itself does not count.
        """
        if not _SECRET.fullmatch(secret):
            return None
        item = self._state.get(_KIND, _TENANT, _name(secret))
        if item is None or self._has_expired(item):
            return None
        if is_used and self._clock() - item.value["used"] > _TOUCH:
            self._state.replace(_KIND, _TENANT, item.name, item.version, {**item.value, "used": self._clock()})
        return ConsoleSession(secret, _cipher(secret).decrypt(item.value["token"].encode()).decode())

    def end(self, secret: str) -> None:
        """Ends a session on all servers."""
        self._state.delete(_KIND, _TENANT, _name(secret))

    def _has_expired(self, item: StoredItem) -> bool:
        now = self._clock()
        ends = item.value["used"] + self._settings.idle_seconds, item.value["begun"] + self._settings.longest_seconds
        return bool(now >= min(ends))

    def _sweep(self) -> None:
        for item in self._state.page(_KIND, _TENANT, None, _SWEEP):
            if self._has_expired(item):
                self._state.delete(_KIND, _TENANT, item.name)


def _name(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _cipher(secret: str) -> Fernet:
    from cryptography.fernet import Fernet

    key = hmac.new(bytes.fromhex(secret), b"guardagent console token", hashlib.sha256).digest()
    return Fernet(base64.urlsafe_b64encode(key))
