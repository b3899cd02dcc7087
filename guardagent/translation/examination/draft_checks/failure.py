"""Failure: rules that need a successful call while nothing says which calls fail, so that they allow nothing."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.translation.drafting.draft import Problem
from guardagent.translation.examination.examined import ExaminedDraft
from guardagent.translation.samples.traces import ToolSamples

NEVER_FATAL = True


def check(examined: ExaminedDraft) -> Iterator[Problem]:
    """One problem for the draft: the beginnings of outputs that look like failures, or that none is known."""
    context = examined.context
    if context.failed_output or context.samples is None:
        return
    sought = {rule.draft.id: rule.places.sought for rule in examined.rules if rule.places.sought}
    tools = {tool for one in sought.values() for tool in one}
    samples = [one for one in context.samples.tools if one.tool in tools and _is_unclear(one)]
    rules = [name for name, one in sought.items() if any(sample.tool in one for sample in samples)]
    if not rules:
        return
    prefixes = dict.fromkeys(failure.prefix for one in samples for failure in one.failures)
    shown = f"outputs begin with {', '.join(map(repr, prefixes))}" if prefixes else "no sample says which call failed"
    text = (
        f"the rules {', '.join(map(repr, rules))} need a successful call of {', '.join(one.tool for one in samples)}, "
        f"but 'failed_output' is unknown: {shown}; give the pattern of the outputs of failed calls"
    )
    numbers = {number for rule in examined.rules if rule.draft.id in rules for number in rule.draft.sentences}
    yield Problem("failure", text, sentences=tuple(sorted(numbers)))


def _is_unclear(samples: ToolSamples) -> bool:
    """Whether outputs look like failures, or no call is recorded as failed or not."""
    return bool(samples.failures) or all(one.failed is None for one in samples.examples)
