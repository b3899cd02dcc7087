"""The precedence of two rules that a call violates both."""

from __future__ import annotations

from guardagent.types import Decision


def covers(second: Decision, first: Decision) -> bool:
    """Whether a violation with the second severity makes one with the first severity irrelevant.

    A blocking rule is relevant next to an escalating one, since an approval lifts the escalation only. So beside a
    blocking rule, an escalation is irrelevant.
    """
    if {first, second} == {Decision.DENY, Decision.ESCALATE}:
        return second == Decision.DENY
    return second >= first


def allows_continuing(second: Decision) -> bool:
    """Whether a call may run although it violates a rule of this severity."""
    return second in (Decision.WARN, Decision.ESCALATE)
