"""Looks at a policy file with every check that there is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from guardagent.policy.lint.checks import CHECKS
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.steps import SearchLimitError
from guardagent.policy.lint.subject import subject_of


@dataclass(frozen=True, slots=True)
class LintReport:
    """What a policy file was found to be.

    Attributes:
        findings: what is wrong, in the order of the rules.
        undecided: what could not be decided, in words; nothing is found there, which says nothing.
        rules: how many policies were looked at.
    """

    findings: tuple[LintFinding, ...]
    undecided: tuple[str, ...]
    rules: int


def lint_report(path: Path | str) -> LintReport:
    """Looks at a policy file; neither its toolbox nor its programs are run.

    Raises:
        InputError: it cannot be loaded, or a check of another package cannot.
    """
    subject = subject_of(path)
    found: list[LintFinding] = []
    for name, module in CHECKS.load_all():
        try:
            found += module.check(subject)
        except SearchLimitError:
            subject.add_undecided(name.replace("_", " "), "it would take too long")
    order = {name: at for at, name in enumerate(subject.ids)}
    found.sort(key=lambda one: order.get(one.policy or "", len(order)))
    return LintReport(tuple(dict.fromkeys(found)), tuple(dict.fromkeys(subject.undecided)), len(subject.ids))


def lint(path: Path | str) -> list[LintFinding]:
    """What is wrong with the rules of a policy file.

    Raises:
        InputError: it cannot be loaded.
    """
    return list(lint_report(path).findings)
