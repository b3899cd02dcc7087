"""Citations of examples: string literals of a program that occur in one example only, a sign of memorization."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.suite import Suite


def citations_in(tree: ast.Module, suite: Suite, length: int) -> Iterator[tuple[ast.Constant, str, Example]]:
    """Yields (node, string, example) for literals of at least `length` characters.

    Literals that also occur in the request or the specification do not count.
    """
    known = f"{suite.target.request}\n{suite.target.whole_specification}"
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(node, ast.Constant) and isinstance(text, str) and len(text) >= length and text not in known:
            holders = [one for one in suite.examples if text in one.agent_input or text in one.agent_output]
            if len(holders) == 1 < len(suite.examples):
                yield node, text, holders[0]
