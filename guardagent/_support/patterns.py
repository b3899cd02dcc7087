"""RE2 regular expressions, which match in linear time."""

from __future__ import annotations

from typing import Any


class PatternError(ValueError):
    """A pattern is not an RE2 regular expression; the message is RE2's."""


def compile_pattern(pattern: object) -> Any:
    """Compiles a regular expression.

    Raises:
        PatternError: it is not an RE2 regular expression.
    """
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        message = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        raise PatternError(message) from None
    except (TypeError, UnicodeError):
        raise PatternError("expected a string") from None
