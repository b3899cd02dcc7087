"""Keeps the keys, tokens and passwords of the environment out of what is kept, shown, raised or logged."""

from __future__ import annotations

import logging
import os
import re

_NAMES = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_SHORTEST = 6
_CLIENTS = re.compile(r"(openai|httpx2?|httpcore2?|litellm)\b", re.IGNORECASE)


def scrub(text: str) -> str:
    """A text without the values of those variables."""
    for name, value in os.environ.items():
        if _NAMES.search(name):
            for part in {value, value.strip()}:
                if len(part) >= _SHORTEST:
                    text = text.replace(part, "[secret]")
    return text


def hide_secrets_in_logs() -> None:
    """Cuts them out of what the client libraries log, which at the level DEBUG is all that they send and receive."""
    for name in list(logging.root.manager.loggerDict):
        logger = logging.getLogger(name)
        if _CLIENTS.match(name) and _scrub_record not in logger.filters:
            logger.addFilter(_scrub_record)


def _scrub_record(record: logging.LogRecord) -> bool:
    record.msg, record.args = scrub(record.getMessage()), None
    if record.exc_info:
        record.exc_text, record.exc_info = scrub(logging.Formatter().formatException(record.exc_info)), None
    return True
