"""Safe parsing: RE2 regular expressions, which match in linear time, and Python in several threads at once.

Some releases of Python (such as 3.11.7) share one nesting count among all threads that build syntax trees, and may
raise SystemError when two do so at once (python/cpython#106905). So one thread parses at a time and retries, since
others may call `ast.parse` themselves.
"""

from __future__ import annotations

import ast
import threading
import warnings
from typing import Any, Literal, overload


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


_TRIES = 5
_parse_lock = threading.Lock()


@overload
def parse(source: str, filename: str = ...) -> ast.Module: ...
@overload
def parse(source: str, filename: str = ..., *, mode: Literal["eval"]) -> ast.Expression: ...
def parse(source: str, filename: str = "<unknown>", *, mode: Literal["exec", "eval"] = "exec") -> ast.AST:
    """Returns the syntax tree of a string, without warnings about its content.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: it is not Python, or nested too deep.
    """
    for attempt in range(_TRIES):
        try:
            with _parse_lock, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(source, filename, mode)
        except SystemError:
            if attempt == _TRIES - 1:
                raise
    raise AssertionError
