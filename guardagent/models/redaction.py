"""Redaction: patterns in strings for a model, and the secrets of the environment in everything that is written.

A value that matches a pattern becomes a placeholder such as `[patient 1 3f9c2d10]`, the same one wherever the value
occurs in the run. The model and the code that it writes see the redacted run; the verdict has the original values.

Keys, tokens and passwords of the environment stay out of files, output, errors and logs.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from guardagent._support.syntax import PatternError, compile_pattern
from guardagent.errors import InputError
from guardagent.types import thaw

_UNREDACTED_FACTS = ("now",)  # the clock of a check is not data of the run


class Redactor:
    """The operator's redaction patterns.

    Args:
        patterns: regular expressions (RE2 syntax: linear time), or name -> regular expression.

    Raises:
        InputError: a pattern is invalid.
    """

    def __init__(self, patterns: Mapping[str, str] | Sequence[str] | str = ()) -> None:
        if isinstance(patterns, str):
            patterns = (patterns,)
        named = (
            patterns if isinstance(patterns, Mapping) else {"redacted": "|".join(f"(?:{text})" for text in patterns)}
        )
        for text in patterns.values() if isinstance(patterns, Mapping) else patterns:
            _compiled(text)
        self._patterns = [(name, _compiled(text)) for name, text in named.items()] if patterns else []

    def redaction(self) -> Redaction:
        """Returns a redaction for one run, with its own placeholders."""
        return Redaction(self._patterns)


class Redaction:
    """The replaced values of one run."""

    def __init__(self, patterns: Sequence[tuple[str, Any]]) -> None:
        self._patterns = patterns
        self._nonce = secrets.token_hex(4)
        self._placeholders: dict[str, str] = {}
        self._values: dict[str, str] = {}

    @property
    def nonce(self) -> str:
        """The string that all placeholders of this run contain; empty if nothing is redacted."""
        return self._nonce if self._patterns else ""

    def redact(self, value: Any) -> Any:
        """Returns a JSON value with placeholders in its strings."""
        if not self._patterns:
            return value
        if isinstance(value, str):
            return self._redact_text(value)
        if isinstance(value, Mapping):
            return {key: item if key in _UNREDACTED_FACTS else self.redact(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.redact(item) for item in value]
        return value

    def restore(self, value: Any) -> Any:
        """Returns a JSON value with the original values for their placeholders, also in keys."""
        if not self._values:
            return value
        if isinstance(value, str):
            for placeholder, text in self._values.items():
                value = value.replace(placeholder, text)
            return value
        if isinstance(value, Mapping):
            return {self.restore(key): self.restore(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.restore(item) for item in thaw(value)]
        return value

    def _redact_text(self, text: str) -> str:
        spans = sorted(
            (match.start(), -match.end(), name)
            for name, pattern in self._patterns
            for match in pattern.finditer(text)
            if match.end() > match.start()
        )
        parts, at = [], 0
        for start, minus_end, name in spans:
            if start >= at:  # else it lies within a replaced one
                parts += [text[at:start], self._placeholder(name, text[start:-minus_end])]
                at = -minus_end
        return "".join([*parts, text[at:]])

    def _placeholder(self, name: str, value: str) -> str:
        if value not in self._placeholders:
            placeholder = f"[{name} {len(self._placeholders) + 1} {self._nonce}]"
            self._placeholders[value], self._values[placeholder] = placeholder, value
        return self._placeholders[value]


def _compiled(pattern: object) -> Any:
    try:
        return compile_pattern(pattern)
    except PatternError as error:
        raise InputError(f"redaction pattern {pattern!r} is not a regular expression (RE2 syntax): {error}") from None


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
