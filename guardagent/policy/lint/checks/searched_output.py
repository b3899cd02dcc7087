"""Underconstrained: `x in output(f)`, although nothing declares that the output is a string or a list."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.policy.language import ast
from guardagent.policy.language.printer import text_of
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.target import LintTarget


def check(target: LintTarget) -> Iterator[LintFinding]:
    """Reports each whole output that `in` searches."""
    for rule in target.rules:
        for node in (one for read in rule.rules for one in ast.walk(read)):
            match node:
                case ast.Compare(item, "in", ast.OfCall("output") as output):
                    tool = min(rule.tools) if len(rule.tools) == 1 else None
                    yield LintFinding("underconstrained", rule.id, tool, *_texts(item, output))


def _texts(item: ast.Term, output: ast.OfCall) -> tuple[str, str]:
    """The message and the example."""
    sought, whole = text_of(item), text_of(output)
    message = (
        f"'{sought} in {whole}' depends on the shape of the output, which nothing declares: of a string it finds any "
        f"part, and of a mapping or a mixed list nothing can be known; write 'mentions({whole}, {sought})' for a whole "
        f"word or id, '{sought} in keys({whole})' for a key, or name the field that is a list"
    )
    return message, f"a call after which {whole} is a mapping: whether it contains {sought} is unknown, so it is denied"
