"""Uncovered: tools of the policy's `tools:` that no rule mentions."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.target import LintTarget

_MEANS = {"allow": "is allowed, whatever its arguments", "deny": "is denied by 'unlisted: deny'"}

_AS_ANY = "is judged like any other step, whatever its arguments"  # by a rule about the next step


def check(target: LintTarget) -> Iterator[LintFinding]:
    """Reports nothing if there are guard requests or rules about labels only, which may concern every call.

    A prerequisite of another call counts as mentioned, except with `unlisted: deny`, which denies it.
    """
    if target.policies.requests or any(rule.labels and not rule.tools for rule in target.rules):
        return
    named = target.named_tools if target.file.unlisted == "deny" else target.mentioned_tools
    for tool in target.file.tools or ():
        concern = target.policies.for_anyone(tool)
        if tool not in named and not (concern.indexes and concern.listed):
            message = f"no rule mentions '{tool}'; add a rule, or remove it from 'tools:'"
            means = _AS_ANY if concern.monitors and concern.listed else _MEANS[target.policies.unlisted]
            yield LintFinding("uncovered", None, tool, message, f"{tool}() {means}")
