"""Texts in a program that stand in a single example, and neither in the request nor in the specification."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.suite import Suite


def citations_in(tree: ast.Module, suite: Suite, length: int) -> Iterator[tuple[ast.Constant, str, Example]]:
    """(where, the text, the one example that holds it) for texts of at least this many characters."""
    known = f"{suite.target.request}\n{suite.target.whole_specification}"
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(node, ast.Constant) and isinstance(text, str) and len(text) >= length and text not in known:
            holders = [one for one in suite.examples if text in one.agent_input or text in one.agent_output]
            if len(holders) == 1 < len(suite.examples):
                yield node, text, holders[0]
