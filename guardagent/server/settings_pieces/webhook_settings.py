"""The settings of webhooks."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from guardagent._support.files import read_text
from guardagent._support.http import is_loopback
from guardagent.errors import InputError, name_hint

WebhookEvent = Literal["approval.requested", "approval.answered", "approval.expired"]
EVENTS: tuple[WebhookEvent, ...] = ("approval.requested", "approval.answered", "approval.expired")
_WEBHOOK_KEYS = ("url", "secret_file", "events", "tenants", "include_arguments")
_PREFIX = "whsec_"
_SHORTEST, _LONGEST = 24, 64  # bytes, as the standard has it


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """An address that is told about approvals.

    Attributes:
        url: the address: https, or http on this machine.
        secret_file: a secret in each line; messages are signed with all of them, so that they can be exchanged.
        events: the events that are sent.
        tenants: the tenants whose events are sent; None for all.
        include_arguments: whether messages have the arguments of calls.
    """

    url: str
    secret_file: Path
    events: tuple[WebhookEvent, ...] = EVENTS
    tenants: frozenset[str] | None = None
    include_arguments: bool = False

    def secrets(self) -> list[bytes]:
        """Reads the secrets.

        Raises:
            InputError: the file is missing, or a line is no secret.
        """
        lines = [line.strip() for line in read_text(self.secret_file).splitlines() if line.strip()]
        if not lines:
            raise InputError(f"{self.secret_file}: is empty; expected a line 'whsec_' and base64")
        return [_secret(line, self.secret_file) for line in lines]


def read_webhook(value: Any, place: str, folder: Path) -> WebhookSettings:
    """Reads a webhook of a settings file, and its secrets once.

    Raises:
        InputError: it is invalid.
    """
    if not isinstance(value, dict):
        raise InputError(f"{place} is {type(value).__name__}; expected a mapping with {', '.join(_WEBHOOK_KEYS)}")
    for name in value:
        if name not in _WEBHOOK_KEYS:
            raise InputError(f"{place} has the unknown key {name!r}{name_hint(str(name), _WEBHOOK_KEYS)}")
    for name in ("url", "secret_file"):
        if not isinstance(value.get(name), str):
            raise InputError(f"{place} lacks {name!r}; expected a string")
    events, tenants = value.get("events", list(EVENTS)), value.get("tenants")
    if not (isinstance(events, list) and events and all(one in EVENTS for one in events)):
        raise InputError(f"'events' of {place} is {events!r}; expected a list of these: {', '.join(EVENTS)}")
    if not (tenants is None or (isinstance(tenants, list) and all(isinstance(one, str) for one in tenants))):
        raise InputError(f"'tenants' of {place} is {tenants!r}; expected a list of names")
    if type(value.get("include_arguments", False)) is not bool:
        raise InputError(f"'include_arguments' of {place} is {value['include_arguments']!r}; expected true or false")
    found = WebhookSettings(
        _url(value["url"], place),
        folder / value["secret_file"],
        tuple(events),
        None if tenants is None else frozenset(tenants),
        value.get("include_arguments", False),
    )
    found.secrets()
    return found


def _url(text: str, place: str) -> str:
    try:
        parts = urlsplit(text)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))
        is_safe = is_safe and bool(parts.hostname) and parts.username is None and text.isprintable()
    except ValueError:
        is_safe = False
    if not is_safe:
        raise InputError(f"'url' of {place} is {text!r}; expected 'https://…' without a user, or http on this machine")
    return text


def _secret(line: str, path: Path) -> bytes:
    try:
        found = base64.b64decode(line.removeprefix(_PREFIX), validate=True) if line.startswith(_PREFIX) else b""
    except binascii.Error:
        found = b""
    if not _SHORTEST <= len(found) <= _LONGEST:
        raise InputError(
            f"{path}: a line is no secret; expected 'whsec_' and {_SHORTEST} to {_LONGEST} bytes in base64"
        )
    return found
