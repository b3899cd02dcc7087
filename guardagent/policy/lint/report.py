"""Runs every lint check on a policy file."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from guardagent.policy.lint.checks import CHECKS
from guardagent.policy.lint.data_rules import analysis_of
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.steps import SearchLimitError
from guardagent.policy.lint.target import subject_of
from guardagent.policy.logic.known_calls import NOTHING_KNOWN, KnownCalls
from guardagent.policy.policies import Policies

SECONDS = 60.0


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


def lint_report(
    source: Path | str | Policies,
    kinds: Collection[str] | None = None,
    *,
    seconds: float = SECONDS,
    known: KnownCalls = NOTHING_KNOWN,
) -> LintReport:
    """Runs every check on a policy file or on loaded policies, without running a toolbox or programs.

    Args:
        source: the file, or the policies.
        kinds: the kinds of findings that are wanted; without it, all. The name of a shipped check begins with its kind
            if that is one of 'contradictory' and 'vacuous'.
        seconds: the CPU seconds for questions about data; later ones are not decided.
        known: what judged calls have shown of these policies: it needs no proof.

    Raises:
        InputError: the file, or a check of another package, cannot be loaded; or the policies come from no file.
    """
    target = subject_of(source)
    target.seconds, target.known = seconds, known
    found: list[LintFinding] = []
    for name, module in CHECKS.load_all():
        if kinds is not None and name in CHECKS.shipped() and name.partition("_")[0] not in kinds:
            continue
        try:
            found += module.check(target)
        except SearchLimitError:
            target.add_undecided(name.replace("_", " "), "the rules have too many states")
    if (analysis := analysis_of(target)) is not None and analysis.is_exhausted:
        target.add_undecided("data rules", f"{seconds:g} seconds were not enough for all of their questions")
    order = {name: at for at, name in enumerate(target.ids)}
    found.sort(key=lambda one: order.get(one.policy or "", len(order)))
    return LintReport(tuple(dict.fromkeys(found)), tuple(dict.fromkeys(target.undecided)), len(target.ids))


def lint(path: Path | str) -> list[LintFinding]:
    """Returns the findings for a policy file.

    Raises:
        InputError: the file cannot be loaded.
    """
    return list(lint_report(path).findings)
