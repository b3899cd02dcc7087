"""Finds faulty rules: contradictory, vacuous, redundant and under-constrained ones.

    target       the policy file under check, of which nothing is run; findings, and the decorator of checks
    steps        the order of steps: search in products of automata
    data         data rules, with Z3
    solver       solver rules, with Z3
    checks       the checks, except
    redundant    those for rules that change nothing
    names        names that only their spelling shows to be wrong

Every finding is proved and has an example. Questions that could not be decided are reported separately.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from guardagent.policy.lint import checks, redundant  # noqa: F401 - they register the checks
from guardagent.policy.lint.data import analysis_of
from guardagent.policy.lint.names import notes_on_names
from guardagent.policy.lint.steps import SearchLimitError
from guardagent.policy.lint.target import CHECKS, LintFinding, subject_of
from guardagent.policy.logic.sessions import NOTHING_KNOWN, KnownCalls
from guardagent.policy.policies import Policies

__all__ = ["LintFinding", "LintReport", "lint", "lint_report"]

SECONDS = 15.0
_MOST_NAMED = 10  # tools or rules of undecided questions


@dataclass(frozen=True, slots=True)
class LintReport:
    """The results of all checks on a policy file.

    Attributes:
        findings: the findings, in the order of the rules.
        undecided: questions that could not be decided, in natural language.
        rules: the number of policies.
        notes: what no check can prove, such as names that are spelled almost alike.
    """

    findings: tuple[LintFinding, ...]
    undecided: tuple[str, ...]
    rules: int
    notes: tuple[str, ...] = ()


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
        seconds: the CPU seconds; questions that come later are not decided.
        known: what judged calls have shown of these policies: it needs no proof.

    Raises:
        InputError: the file, or a check of another package, cannot be loaded; or the policies come from no file.
    """
    end = time.thread_time() + seconds
    target = subject_of(source)
    target.end, target.known = end, known
    lint_findings: list[LintFinding] = []
    for name, check in CHECKS.load_all():
        if kinds is not None and name in CHECKS.shipped() and name.partition("_")[0] not in kinds:
            continue
        try:
            lint_findings += check(target)
        except SearchLimitError:
            target.add_undecided(name.replace("_", " "), "the rules have too many states")
    if (analysis := analysis_of(target)) is not None:
        for question, names in analysis.undecided.items():
            target.late.setdefault(question, {}).update(names)
    for question, names in target.late.items():
        more = f", and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        about = f" ({', '.join(islice(names, _MOST_NAMED))}{more})" if names else ""
        why = f"{seconds:g} seconds of CPU were not enough, or the rules are too large"
        target.add_undecided(f"{question}{about}", why)
    order = {name: at for at, name in enumerate(target.ids)}
    lint_findings.sort(key=lambda lint_finding: order.get(lint_finding.policy or "", len(order)))
    findings, undecided = tuple(dict.fromkeys(lint_findings)), tuple(dict.fromkeys(target.undecided))
    return LintReport(findings, undecided, len(target.ids), tuple(notes_on_names(target)))


def lint(path: Path | str) -> list[LintFinding]:
    """Returns the findings for a policy file.

    Raises:
        InputError: the file cannot be loaded.
    """
    return list(lint_report(path).findings)
