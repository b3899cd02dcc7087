"""Texts in a program that stand in a single example, and neither in the request nor in the specification."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.world import World


def quoted_by(tree: ast.Module, world: World, length: int) -> Iterator[tuple[ast.Constant, str, Example]]:
    """(where, the text, the one example that holds it) for texts of at least this many characters."""
    known = f"{world.subject.request}\n{world.subject.whole_specification}"
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(node, ast.Constant) and isinstance(text, str) and len(text) >= length and text not in known:
            holders = [one for one in world.examples if text in one.agent_input or text in one.agent_output]
            if len(holders) == 1 < len(world.examples):
                yield node, text, holders[0]
