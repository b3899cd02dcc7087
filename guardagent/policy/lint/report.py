"""Runs every lint check on a policy file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from guardagent.policy.lint.checks import CHECKS
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.steps import SearchLimitError
from guardagent.policy.lint.target import subject_of


@dataclass(frozen=True, slots=True)
class LintReport:
    """The results of all checks on a policy file.

    Attributes:
        findings: the findings, in the order of the rules.
        undecided: questions that could not be decided, in natural language.
        rules: the number of policies.
    """

    findings: tuple[LintFinding, ...]
    undecided: tuple[str, ...]
    rules: int


def lint_report(path: Path | str) -> LintReport:
    """Runs every check on a policy file, without running its toolbox or programs.

    Raises:
        InputError: the file, or a check of another package, cannot be loaded.
    """
    target = subject_of(path)
    found: list[LintFinding] = []
    for name, module in CHECKS.load_all():
        try:
            found += module.check(target)
        except SearchLimitError:
            target.add_undecided(name.replace("_", " "), "the rules have too many states")
    order = {name: at for at, name in enumerate(target.ids)}
    found.sort(key=lambda one: order.get(one.policy or "", len(order)))
    return LintReport(tuple(dict.fromkeys(found)), tuple(dict.fromkeys(target.undecided)), len(target.ids))


def lint(path: Path | str) -> list[LintFinding]:
    """Returns the findings for a policy file.

    Raises:
        InputError: the file cannot be loaded.
    """
    return list(lint_report(path).findings)
