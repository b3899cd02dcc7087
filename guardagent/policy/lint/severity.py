"""Which of two rules decides where a call breaks both."""

from __future__ import annotations

from guardagent.types import Decision


def covers(second: Decision, first: Decision) -> bool:
    """Whether a rule of the one severity leaves nothing to decide to a rule of the other that is broken with it.

    An approval lifts what escalated, and nothing else: a rule that blocks decides beside one that escalates.
    """
    return second >= first and not (second == Decision.ESCALATE and first == Decision.DENY)


def allows_continuing(second: Decision) -> bool:
    """Whether a call may run although it breaks a rule of this severity."""
    return second in (Decision.WARN, Decision.ESCALATE)
