"""The finding of a lint check."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LintFinding:
    """A fault of a policy.

    Attributes:
        kind: the kind of fault: contradictory, vacuous, duplicate, shadowed, underconstrained, unreachable,
            uncovered or unlisted, or a kind of another package's check.
        policy: the id of the rule, or of the last of several rules; None for the whole file.
        tool: the tool, or None if there are several or none.
        message: the fault, and a fix.
        example: a call or calls that show the fault.
        others: the ids of the other rules that are part of it.
    """

    kind: str
    policy: str | None
    tool: str | None
    message: str
    example: str
    others: tuple[str, ...] = ()
