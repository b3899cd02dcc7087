"""The checks of the assembled policy: lint, all cases again, and recorded calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from guardagent.errors import InputError, error_text
from guardagent.policy.load import load_policies
from guardagent.policy.logic.known_calls import KnownCalls
from guardagent.policy.policies import Policies
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafting.draft import Problem
from guardagent.translation.examination.draft_checks import CHECKS
from guardagent.translation.examination.examined_policy import ExaminedPolicy
from guardagent.translation.examination.executions import execution_problems
from guardagent.translation.examination.findings import lint_problems
from guardagent.translation.examination.records import JudgedCase, expects_violation, is_first, judged_cases

JudgedCases = Mapping[str, Sequence[JudgedCase]]

SECONDS = 60.0  # of CPU for questions about data: nobody else sees that sentences contradict each other


def examine_policy(
    policy: Path | str,
    context: TranslationContext,
    cases: Mapping[str, Iterable[Any]],
    traces: Path | str | None = None,
) -> tuple[Problem, ...]:
    """Checks the policy that drafts were assembled to.

    Args:
        policy: the path of the policy file, or its text as a string.
        context: the inputs of the translation.
        cases: the boundary cases of each rule, by its id.
        traces: a JSON Lines file of recorded conversations.

    Returns:
        The problems, the fatal ones first. `too_tight`: executed calls that a rule denies. `unknown_in_traces`:
        executed calls that are denied only because something is unknown.

    Raises:
        InputError: the traces cannot be read.
    """
    try:
        loaded = load_policies(policy) if isinstance(policy, Path) else _of_text(policy, context)
    except InputError as error:
        return (Problem("syntax", f"the policy does not load: {error}", fatal=True),)
    judged = {rule: judged_cases(loaded, rule, some) for rule, some in cases.items() if rule in loaded.ids}
    found = [*lint_problems(loaded, {}, seconds=SECONDS, known=_known(judged)), *_case_problems(cases, judged)]
    found += execution_problems(loaded, traces) if traces is not None else []
    found += _policy_problems(ExaminedPolicy(loaded, context))
    return tuple(sorted(dict.fromkeys(found), key=lambda one: not one.fatal))


def _policy_problems(examined: ExaminedPolicy) -> Iterator[Problem]:
    """The problems that the checks of whole policies find. One that fails is a problem: it is no pass."""
    for name, module in CHECKS.load_all():
        if getattr(module, "WHOLE_POLICY", False):
            try:
                yield from module.check(examined)
            except Exception as error:  # noqa: BLE001 - a policy can hold anything
                yield Problem("unexamined", f"the check {name!r} did not end: {error_text(error):.300}")


def _of_text(text: str, context: TranslationContext) -> Policies:
    return load_policies(text=text, folder=context.folder)


def _known(judged: JudgedCases) -> KnownCalls:
    verdicts = [(one.case, one.verdict) for some in judged.values() for one in some if one.verdict is not None]
    allowed = (case.proposed.tool for case, verdict in verdicts if is_first(case) and verdict.label == 0)
    return KnownCalls.of(allowed, (rule for _, verdict in verdicts for rule in verdict.rules))


def _case_problems(cases: Iterable[str], judged: JudgedCases) -> Iterator[Problem]:
    """Cases that their own rule no longer decides as expected. A denial by another rule is no problem."""
    for rule in cases:
        if rule not in judged:
            yield Problem("case", "there are cases for the rule, but the policy does not have it", rule, fatal=True)
        for one in judged.get(rule, ()):
            if problem := one.problem or _change(rule, one):
                yield Problem("case", problem, rule, example=one.text, fatal=True)


def _change(rule: str, one: JudgedCase) -> str:
    if one.case is None or one.verdict is None:
        return ""
    is_expected, is_violated = expects_violation(one.case, rule), rule in one.verdict.rules
    if is_expected is not is_violated:
        words = ("does not violate", "violates")
        alone = words[is_expected]
        return f"case {one.case.id!r:.100} {words[is_violated]} the rule in the whole policy; alone it {alone}"
    if one.case.label == 1 and one.verdict.label == 0:
        return f"case {one.case.id!r:.100} is allowed by the whole policy, but denied by the rule alone"
    return ""
