"""Regular expressions of RE2, which match in linear time."""

from __future__ import annotations

from typing import Any


class PatternError(ValueError):
    """It is no regular expression of RE2; with what RE2 says."""


def compile_pattern(pattern: object) -> Any:
    """A regular expression.

    Raises:
        PatternError: it is none.
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
        raise PatternError("expected a text") from None
