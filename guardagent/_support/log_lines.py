"""Log messages as text or as JSON, a line each.

A message may contain what an agent, a client or a policy chose. It begins no line of its own, and controls no terminal.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime


class TextLines(logging.Formatter):
    """Formats messages as text; a line break and other characters that cannot be printed are escaped.

    Args:
        start: what each message begins with.
    """

    def __init__(self, start: str = "") -> None:
        super().__init__()
        self._start = start

    def format(self, record: logging.LogRecord) -> str:
        text = self._start + _one_line(record.getMessage())
        if record.exc_info:
            error = self.formatException(record.exc_info).splitlines()
            text = "\n".join([text, *(f"  {_one_line(line)}" for line in error)])
        return text


class JsonLines(logging.Formatter):
    """Formats messages as JSON; a traceback is a field."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=True)


def log_as_text(start: str = "") -> None:
    """Writes all log messages of this process to standard error as text; see `TextLines`."""
    _log_by(TextLines(start))


def log_as_json() -> None:
    """Writes all log messages of this process to standard error as JSON."""
    _log_by(JsonLines())


def _log_by(formatter: logging.Formatter) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def _one_line(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
