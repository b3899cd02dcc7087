"""Parses Python, for several threads at once.

Some releases of Python (3.11.7 is one) keep one count of the nesting for all threads that build syntax trees, and may
raise SystemError when two do so at once (python/cpython#106905). Here one does at a time; and since others may call
`ast.parse` themselves, what fails for that reason is tried again.
"""

from __future__ import annotations

import ast
import threading
import warnings
from typing import Literal, overload

_TRIES = 5
_parse_lock = threading.Lock()


@overload
def parse(source: str, filename: str = ...) -> ast.Module: ...
@overload
def parse(source: str, filename: str = ..., *, mode: Literal["eval"]) -> ast.Expression: ...
def parse(source: str, filename: str = "<unknown>", *, mode: Literal["exec", "eval"] = "exec") -> ast.AST:
    """The syntax tree of a text, without warnings about what it holds.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: it is no Python, or too deep.
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
