"""Line coverage of a program, by instrumentation: each statement records its line before it runs.

The instrumented program runs in the same sandbox. The added names are random, so that a program cannot use them.
"""

from __future__ import annotations

import ast
import secrets
from collections.abc import Iterator
from typing import Any

from guardagent._support import syntax

_BLOCKS = ("body", "orelse", "finalbody")
_SILENT = (ast.Global, ast.Nonlocal)


class InstrumentedProgram:
    """A program that reports the lines it executed.

    Attributes:
        source: the instrumented source.
        report_function: the name of the function that it calls with the lines at its end.
    """

    def __init__(self, program: str) -> None:
        mark = f"v{secrets.token_hex(8)}"
        self.report_function = f"{mark}_ran"
        tree = syntax.parse(program)
        _Marker(f"{mark}_seen").visit(tree)
        _rename(tree, "check", f"{mark}_check")
        at = _after_opening(tree)
        tree.body[at:at] = syntax.parse(f"{mark}_seen = {{}}").body
        wrapper = (
            "def check(agent_input, agent_output, facts):\n    try:\n"
            f"        return {mark}_check(agent_input, agent_output, facts)\n"
            f"    finally:\n        {self.report_function}(list({mark}_seen))\n"
        )
        tree.body += syntax.parse(wrapper).body
        self.source = ast.unparse(ast.fix_missing_locations(tree))


def statement_lines(program: str) -> dict[int, int]:
    """Returns first line -> last line of each statement inside a function."""
    found: dict[int, int] = {}
    for node in _statements(syntax.parse(program)):
        found[node.lineno] = _header_end(node)
    return found


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.stmt) and node is not function and not _is_silent(node):
                    yield node


def _header_end(node: ast.stmt) -> int:
    """Returns the last line of a statement without its blocks."""
    blocks = [inner for name in (*_BLOCKS, "handlers", "cases") for inner in getattr(node, name, [])]
    if not blocks:
        return node.end_lineno or node.lineno
    first = min(getattr(inner, "lineno", getattr(getattr(inner, "pattern", None), "lineno", 0)) for inner in blocks)
    return max(node.lineno, first - 1)


def _is_silent(node: ast.stmt) -> bool:
    """Whether a statement has no effect: `global`, `nonlocal`, docstrings."""
    return isinstance(node, _SILENT) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


class _Marker(ast.NodeTransformer):
    """Inserts a record of the line before each statement inside a function."""

    def __init__(self, seen: str) -> None:
        self._seen = seen
        self._inside = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        self._inside += 1
        self.generic_visit(node)
        self._inside -= 1
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in _BLOCKS:
            block = getattr(node, name, None)
            if self._inside and isinstance(block, list) and not isinstance(node, ast.ClassDef):
                setattr(node, name, [part for statement in block for part in self._noted(statement)])
        return node

    def _noted(self, statement: Any) -> list[Any]:
        if not isinstance(statement, ast.stmt) or _is_silent(statement) or not hasattr(statement, "lineno"):
            return [statement]
        return [*syntax.parse(f"{self._seen}[{statement.lineno}] = 1").body, statement]


def _rename(tree: ast.AST, old: str, new: str) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == old:
            node.name = new
        if isinstance(node, ast.Name) and node.id == old:
            node.id = new


def _after_opening(tree: ast.Module) -> int:
    """Returns the index after the docstring and the `__future__` imports."""
    at = 0
    for node in tree.body:
        opening = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not opening and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
        at += 1
    return at
