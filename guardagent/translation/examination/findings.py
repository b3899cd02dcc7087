"""The findings of lint as problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from guardagent.policy.lint import lint_report
from guardagent.policy.logic.known_calls import NOTHING_KNOWN, KnownCalls
from guardagent.policy.policies import Policies
from guardagent.translation.drafting.draft import Problem

SECONDS = 2.0  # of CPU for questions about the data of a draft
_FATAL = ("contradictory", "vacuous")


def lint_problems(
    policies: Policies,
    sentences: Mapping[str, tuple[int, ...]],
    *,
    only_fatal: bool = False,
    seconds: float = SECONDS,
    known: KnownCalls = NOTHING_KNOWN,
) -> Iterator[Problem]:
    """Yields the findings about loaded policies, and the questions that lint could not decide.

    Args:
        policies: the policies.
        sentences: the sentences that each rule rests on, as far as they are known.
        only_fatal: whether checks that find nothing fatal are left out.
        seconds: the CPU seconds for questions about data.
        known: what judged cases have shown of the policies.
    """
    report = lint_report(policies, _FATAL if only_fatal else None, seconds=seconds, known=known)
    for one in report.findings:
        rule = one.policy or ""
        about = {number for name in (rule, *one.others) for number in sentences.get(name, ())}
        is_fatal = one.kind in _FATAL and bool(rule or one.tool)  # an unused label is harmless
        yield Problem(one.kind, one.message, rule, tuple(sorted(about)), one.example, is_fatal, one.others)
    yield from (Problem("undecided", f"not proved: {one}") for one in report.undecided)
