"""The examination of a draft, and of the assembled policy, before anybody reads them.

Every check is run on a draft. The assembled policy is linted, and recorded calls that were executed and that it denies
are counted: either it is too tight, or the agent broke a rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from guardagent.batch.audit import judge_events
from guardagent.batch.records import Case, Trace
from guardagent.batch.traces import TraceStep
from guardagent.errors import InputError, error_text
from guardagent.policy.language import ast
from guardagent.policy.load import load_policies
from guardagent.policy.logic.sessions import KnownCalls
from guardagent.policy.policies import Policies
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafts import Draft, Problem
from guardagent.translation.examination.checks import CHECKS
from guardagent.translation.examination.examined import (
    ExaminedDraft,
    ExaminedPolicy,
    JudgedCase,
    is_first,
    judged_cases,
    lint_problems,
)
from guardagent.translation.samples import conceal, read_records, short
from guardagent.types import Verdict, rule_of_error, thaw

__all__ = ["examine", "examine_policy"]


def examine(draft: Draft, context: TranslationContext) -> tuple[Problem, ...]:
    """Runs every check on a draft.

    Args:
        draft: the draft.
        context: the inputs of the translation.

    Returns:
        The problems: the fatal ones first, then in the order of the rules. A check that fails is a fatal problem.

    Raises:
        InputError: a check of another package cannot be loaded.
    """
    key = "problems", repr(draft), id(context)
    _, problems = context.once(key, lambda: (context, _problems(draft, context)))
    return problems


def _problems(draft: Draft, context: TranslationContext) -> tuple[Problem, ...]:
    problems = dict.fromkeys(_results(ExaminedDraft(draft, context)))
    order = {rule.id: at for at, rule in enumerate(draft.rules)}
    return tuple(sorted(problems, key=lambda problem: (not problem.fatal, order.get(problem.rule, len(order)))))


def _results(examined: ExaminedDraft | ExaminedPolicy) -> Iterator[Problem]:
    for name, check in CHECKS.load_all():
        if check.whole_policy is isinstance(examined, ExaminedDraft):
            continue
        try:
            yield from check.find(examined)
        except Exception as error:  # noqa: BLE001 - a draft can hold anything; a check without a result does not count as passed
            text = f"the check {name!r} did not end: {error_text(error):.300}"
            if isinstance(examined, ExaminedDraft):
                text, sentences = f"{text}; simplify the rules", examined.draft.sentences
                yield Problem("unexamined", text, sentences=sentences, fatal=True)
            else:
                yield Problem("unexamined", text)


JudgedCases = Mapping[str, Sequence[JudgedCase]]

_POLICY_LINT_SECONDS = 60.0  # of CPU for questions about data: nobody else sees that sentences contradict each other


def examine_policy(
    policy: str,
    context: TranslationContext,
    cases: Mapping[str, Iterable[Any]],
    traces: Path | str | None = None,
) -> tuple[Problem, ...]:
    """Checks the policy that drafts were assembled to.

    Args:
        policy: the text of the policy file.
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
        loaded = load_policies(text=policy, folder=context.folder)
    except InputError as error:
        return (Problem("syntax", f"the policy does not load: {error}", fatal=True),)
    judged = {rule: judged_cases(loaded, rule, some) for rule, some in cases.items() if rule in loaded.ids}
    problems = [*lint_problems(loaded, {}, seconds=_POLICY_LINT_SECONDS, known=_known(judged))]
    problems += _execution_problems(loaded, traces) if traces is not None else []
    problems += _results(ExaminedPolicy(loaded, context))
    return tuple(sorted(dict.fromkeys(problems), key=lambda problem: not problem.fatal))


def _known(judged: JudgedCases) -> KnownCalls:
    verdicts = [
        (judged_case.case, judged_case.verdict)
        for some in judged.values()
        for judged_case in some
        if judged_case.verdict is not None
    ]
    allowed = (case.proposed.tool for case, verdict in verdicts if is_first(case) and verdict.label == 0)
    return KnownCalls.of(allowed, (rule for _, verdict in verdicts for rule in verdict.rules))


_MOST_UNKNOWN = 20  # unknown values that are reported
_LONGEST_CALL = 400
_MOMENTARY = (ast.Fact, ast.State, ast.StateOf, ast.SolverRule)


def _execution_problems(policies: Policies, path: Path | str) -> Iterator[Problem]:
    """Yields a problem for each rule that denies calls of a file, and for each unknown value that does.

    Raises:
        InputError: the file cannot be read.
    """
    executions = _Executions(policies)
    for record in read_records(path, policies.failed_output):
        executions.add(record)
    yield from executions.problems()


class _Executions:
    """Counts the executed calls of traces, and those that a policy denies."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._calls: Counter[str] = Counter()
        self._denied: Counter[tuple[str, str]] = Counter()  # (rule, tool)
        self._unknown: Counter[tuple[str, str]] = Counter()  # (the error, tool)
        self._examples: dict[tuple[str, str], str] = {}

    def add(self, record: Case | Trace) -> None:
        """Judges a trace, or the history of a case by the rules that need neither its state nor its facts."""
        trace, left_out = record, frozenset[str]()
        if isinstance(trace, Case):  # nobody knows whether its proposed call, to which state and facts belong, ran
            steps = tuple(map(TraceStep, trace.history))
            trace, left_out = Trace(trace.id, steps, principal=trace.principal), self._momentary
        self._calls.update(step.event.tool for step in trace.steps if _is_executed(step))
        judge_events(self._policies, trace, partial(self._count, trace, left_out))

    @cached_property
    def _momentary(self) -> frozenset[str]:
        """The policies that read the state or a fact at the time of a call, or may do so."""
        walked = {
            source.id: [node for rule in source.rules for node in ast.walk(rule)] for source in self._policies.rules
        }
        plain = {name for name, nodes in walked.items() if not any(isinstance(node, _MOMENTARY) for node in nodes)}
        return frozenset(self._policies.ids) - plain

    def _count(self, trace: Trace, left_out: Collection[str], at: int | None, verdict: Verdict) -> None:
        if at is None or verdict.label == 0 or not _is_executed(trace.steps[at]):
            return
        tool = trace.steps[at].event.tool
        counts, rules = self._denied, {rule: rule for rule in verdict.rules}
        if not rules:
            counts, rules = self._unknown, {error: rule_of_error(error, self._policies.ids) for error in verdict.errors}
        for name in (name for name, rule in rules.items() if rule not in left_out):
            counts[name, tool] += 1
            self._examples.setdefault((name, tool), _shown_call(trace, at))

    def problems(self) -> Iterator[Problem]:
        """Yields the problems, the most frequent first."""
        for (rule, tool), count in self._denied.most_common():
            text = (
                f"{count} of {self._calls[tool]} executed calls of {tool!r} violate the rule; either the agent broke "
                "it, or it is too tight"
            )
            yield Problem("too_tight", text, rule, example=self._examples[rule, tool])
        for (error, tool), count in self._unknown.most_common(_MOST_UNKNOWN):
            text = (
                f"{count} of {self._calls[tool]} executed calls of {tool!r} are denied only because something is "
                f"unknown: {error:.300}; record it, or test it with 'known'"
            )
            rule = rule_of_error(error, self._policies.ids)
            yield Problem("unknown_in_traces", text, rule, example=self._examples[error, tool])
        if (more := len(self._unknown) - _MOST_UNKNOWN) > 0:
            yield Problem("unknown_in_traces", f"{more} more values are unknown in executed calls")


def _is_executed(step: TraceStep) -> bool:
    """Whether a call was executed, as far as it is known."""
    return bool(step.event.tool) and step.event.status != "failed"


def _shown_call(trace: Trace, at: int) -> str:
    """A call, without secrets."""
    event = trace.steps[at].event
    return f"{trace.id!r} events[{at}]: {event.tool} {short(conceal(thaw(event.args)), _LONGEST_CALL)}"
