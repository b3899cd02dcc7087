"""RestrictedPython's transformation, extended to the syntax of guard programs, each addition with its guard.

The program has passed the gate; `worker/guards.py` has the guards that the rewritten code calls.
"""

from __future__ import annotations

import ast
import marshal
import warnings
from functools import lru_cache
from typing import Any

from RestrictedPython.transformer import IOPERATOR_TO_STR, RestrictingNodeTransformer

from guardagent.errors import ProgramError
from guardagent.sandbox.gate import METHODS, admit, parse
from guardagent.sandbox.worker import PROGRAM


@lru_cache(maxsize=256)
def program_code(program: str, functions: frozenset[str]) -> bytes:
    """Returns the code of a program for the worker, marshalled.

    Raises:
        ProgramError: the gate or the transformation rejects it.
    """
    policy = Transformer()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            admit(program, functions)
            tree = policy.visit(parse(program))  # a separate tree, which the transformation changes
            if policy.errors:
                raise ProgramError(_first_error(policy.errors))
            return marshal.dumps(compile(tree, PROGRAM, "exec", dont_inherit=True, optimize=0))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ProgramError(f"line {getattr(error, 'lineno', None) or 1}: not Python: {error}") from None


def _first_error(errors: list[str]) -> str:
    line, _, message = errors[0].partition(": ")
    return f"{line[:1].lower()}{line[1:]}: {message}"


class Transformer(RestrictingNodeTransformer):
    def __init__(self) -> None:
        super().__init__([], [], {})

    def check_name(self, node: Any, name: str | None, allow_magic_methods: bool = False) -> None:  # noqa: FBT001, FBT002
        """Allows names with one leading underscore, a mere convention; the gate has rejected reserved names."""
        if name is not None and name not in METHODS and name.startswith("__") and name != "__name__":
            super().check_name(node, name, allow_magic_methods)

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id in ("print", "__name__"):  # a guarded function has that name, and collects nothing
            return self.node_contents_visit(node)
        return super().visit_Name(node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if node.attr == "__name__" and isinstance(node.value, ast.Attribute) and node.value.attr == "__class__":
            node.value = self._call(node, "type", node.value.value)
        if isinstance(node.ctx, ast.Load):  # also names with an underscore: `_getattr_` checks their owner
            return self._call(
                node, "_getattr_", self.visit(node.value), ast.copy_location(ast.Constant(node.attr), node)
            )
        node.value = self._call(node, "_write_", self.visit(node.value))
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        return self.node_contents_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        if isinstance(node.target, ast.Name):
            return super().visit_AugAssign(node)
        operation = ast.copy_location(ast.Constant(IOPERATOR_TO_STR[type(node.op)]), node)
        target, value = node.target, self.visit(node.value)
        if isinstance(target, ast.Subscript):
            call = self._call(
                node, "_inplaceitem_", operation, self.visit(target.value), self.visit(target.slice), value
            )
        else:
            name = ast.copy_location(ast.Constant(target.attr), node)
            call = self._call(node, "_inplaceattr_", operation, self.visit(target.value), name, value)
        return ast.copy_location(ast.Expr(call), node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> Any:
        return self.node_contents_visit(node)

    # The gate has checked the attributes and names of patterns; a value pattern must remain a dotted name.
    def visit_Match(self, node: Any) -> Any:
        return self.node_contents_visit(node)

    visit_match_case = visit_MatchSingleton = visit_MatchSequence = visit_MatchOr = visit_Match
    visit_MatchAs = visit_MatchStar = visit_Match

    def visit_MatchValue(self, node: ast.MatchValue) -> Any:
        return node

    def visit_MatchMapping(self, node: ast.MatchMapping) -> Any:
        node.patterns = [self.visit(pattern) for pattern in node.patterns]
        return node

    def visit_MatchClass(self, node: ast.MatchClass) -> Any:
        node.patterns = [self.visit(pattern) for pattern in node.patterns]
        node.kwd_patterns = [self.visit(pattern) for pattern in node.kwd_patterns]
        return node

    def _call(self, place: ast.AST, guard: str, *arguments: ast.expr) -> ast.Call:
        name = ast.copy_location(ast.Name(guard, ast.Load()), place)
        return ast.copy_location(ast.Call(name, list(arguments), []), place)
