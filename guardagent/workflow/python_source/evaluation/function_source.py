"""Finds the syntax tree of a live function: of its own code, not of a function that it wraps."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType

from guardagent.workflow.python_source.values import FunctionTree


@lru_cache(maxsize=64)
def _functions(source: str) -> dict[int, list[FunctionTree]]:
    """Returns the functions of a source, by their first lines."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[int, list[FunctionTree]] = {}
    for node in ast.walk(tree):
        if isinstance(node, FunctionTree):
            found.setdefault(_first_line(node), []).append(node)
    return found


def _first_line(node: FunctionTree) -> int:
    """Returns the first line of a function as the compiler counts it: the line of its first decorator."""
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min(node.lineno, *(one.lineno for one in decorators), node.lineno)


def find_tree(code: CodeType) -> FunctionTree | None:
    """Returns the syntax tree of a code object; None if its source is not available."""
    lines = linecache.getlines(code.co_filename)
    if not lines:
        return None
    candidates = [node for node in _functions("".join(lines)).get(code.co_firstlineno, ()) if _fits(node, code)]
    if len(candidates) > 1:
        candidates = [node for node in candidates if _covers(node, code)]
    return candidates[0] if len(candidates) == 1 else None


def _fits(node: FunctionTree, code: CodeType) -> bool:
    """Whether name and parameters are equal: the file may have changed since it was loaded."""
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    return name == code.co_name and _parameters(node.args) == _parameter_names(code)


def _parameters(arguments: ast.arguments) -> list[str]:
    return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _parameter_names(code: CodeType) -> list[str]:
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def _covers(node: FunctionTree, code: CodeType) -> bool:
    """Whether the positions of the code are those of the node: distinguishes two lambdas on one line."""
    if not isinstance(node, ast.Lambda):
        return True
    body = node.body
    inside = ((body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0))
    places = list(_places(code))
    return bool(places) and min(places)[0] == inside[0] and max(end for _, end in places) == inside[1]


def _places(code: CodeType) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    for line, end_line, column, end_column in code.co_positions():
        if line and end_line and column is not None and end_column is not None and (column, end_column) != (0, 0):
            yield (line, column), (end_line, end_column)
