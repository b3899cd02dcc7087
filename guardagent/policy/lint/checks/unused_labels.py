"""Vacuous: a label of `labels:` that no rule reads."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.policy.language import ast
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.target import LintTarget


def check(target: LintTarget) -> Iterator[LintFinding]:
    """Skips labels in the expressions of solver rules."""
    read = set(_labels(target))
    expressions = " ".join(str(source.solver) for source in target.file.rules if source.solver is not None)
    for label, sources in target.file.labels.sources.items():
        if label not in read and label not in expressions:
            message = (
                f"no rule reads the label '{label}'; read it with 'sources(x)', 'seen({label})' or 'flow', or remove it"
            )
            example = f"a value from '{sources[0].name}': judged like any other"
            yield LintFinding("vacuous", None, None, message, example)


def _labels(target: LintTarget) -> Iterator[str]:
    for rule in target.rules:
        nodes = [one for read in rule.rules for one in ast.walk(read)]
        if any(isinstance(one, ast.Sources) for one in nodes):
            yield from (one.value for one in nodes if isinstance(one, ast.Constant) and isinstance(one.value, str))
        yield from (label for one in nodes if isinstance(one, ast.Seen) for label in one.labels)
