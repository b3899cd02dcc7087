"""Keeps the keys, tokens and passwords of the environment out of files, output, errors and logs."""

from __future__ import annotations

import logging
import os
import re

_NAMES = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_extra_variables: set[str] = set()  # variables with other names that contain a key
_SHORTEST = 6
_CLIENTS = re.compile(r"(openai|httpx2?|httpcore2?|litellm)\b", re.IGNORECASE)


def register_secret(variable: str) -> None:
    """Treats an environment variable as a secret, whatever its name."""
    _extra_variables.add(variable)


def scrub(text: str) -> str:
    """Returns a string without the values of secret environment variables."""
    values = [value for name, value in os.environ.items() if name in _extra_variables or _NAMES.search(name)]
    parts = {part for value in values for part in (value, value.strip()) if len(part) >= _SHORTEST}
    for part in sorted(parts, key=len, reverse=True):  # one may be a prefix of another
        text = text.replace(part, "[secret]")
    return text


def hide_secrets_in_logs() -> None:
    """Removes secrets from the logs of client libraries, which at DEBUG hold all requests and responses.

    Their loggers are created over time, so this runs before each request.
    """
    for name in filter(_CLIENTS.match, list(logging.root.manager.loggerDict)):
        logger = logging.getLogger(name)
        if _scrub_record not in logger.filters:
            logger.addFilter(_scrub_record)


def _scrub_record(record: logging.LogRecord) -> bool:
    record.msg, record.args = scrub(record.getMessage()), None
    if record.exc_info:
        record.exc_text, record.exc_info = scrub(logging.Formatter().formatException(record.exc_info)), None
    return True
