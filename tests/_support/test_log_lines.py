"""Log messages as JSON."""

from __future__ import annotations

import json
import logging

from guardagent._support.log_lines import JsonLines, TextLines


def test_a_message_is_one_line_of_json() -> None:
    error = (ValueError, ValueError("a\nb"), None)
    record = logging.LogRecord("guardagent", logging.ERROR, "", 1, "it %s\n", ("failed",), error)
    text = JsonLines().format(record)
    logged = json.loads(text)
    assert "\n" not in text
    assert (logged["level"], logged["message"]) == ("error", "it failed\n")
    assert "ValueError: a\nb" in logged["error"]


def test_a_text_message_is_one_line_and_controls_no_terminal() -> None:
    record = logging.LogRecord("x", logging.WARNING, "", 0, "a tool %s", ("b\nFAKE\x1b[31m\u202e\x07",), None)
    assert TextLines("guardagent: ").format(record) == "guardagent: a tool b\\nFAKE\\x1b[31m\\u202e\\x07"
