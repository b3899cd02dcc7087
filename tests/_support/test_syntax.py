"""Parsing works in many threads at once."""

import ast
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from guardagent._support import syntax

DEEP = "x = " + "[" * 40 + "]" * 40 + "\n"
SOURCE = Path(ast.__file__).read_text() + DEEP


@pytest.mark.slow
def test_threads_do_not_disturb_each_other() -> None:
    """Another thread may call `ast.parse` itself, as a user's function might."""
    with ThreadPoolExecutor(8) as pool:
        trees = [pool.submit(syntax.parse, SOURCE) for _ in range(24)]
        others = [pool.submit(ast.parse, DEEP) for _ in range(200)]
        assert len({len(tree.result().body) for tree in trees}) == 1
        for other in others:
            other.exception()  # what they raise is theirs


def test_invalid_python_is_a_syntax_error_without_warnings() -> None:
    """The warning filters do not change."""
    before = list(warnings.filters)
    syntax.parse(r"x = '\d'")
    assert syntax.parse("1 + 1", mode="eval").body
    with pytest.raises(SyntaxError):
        syntax.parse("x =")
    assert warnings.filters == before
