"""Uncovered: tools of the policy's `tools:` that no rule names."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.subject import LintSubject

_MEANS = {"allow": "is allowed, whatever its arguments", "deny": "is denied, as `unlisted: deny` says"}

_AS_ANY = "is judged as any step is, whatever its arguments"  # by a rule that says what has to come next, or at once


def check(subject: LintSubject) -> Iterator[LintFinding]:
    """A rule in words concerns every call, and so may one that speaks of labels only.

    What another call needs before it is named too; but with `unlisted: deny` it would be denied.
    """
    if subject.policies.requests or any(rule.labels and not rule.tools for rule in subject.rules):
        return
    named = subject.named_tools if subject.file.unlisted == "deny" else subject.mentioned_tools
    for tool in subject.file.tools or ():
        concern = subject.policies.applicability(SessionCall(tool, {}))
        if tool not in named and not (concern.indexes and concern.listed):
            message = f"no rule names {tool}: write one, or take it out of `tools:`"
            means = _AS_ANY if concern.monitors and concern.listed else _MEANS[subject.file.unlisted]
            yield LintFinding("uncovered", None, tool, message, f"{tool}() {means}")
