"""What is wrong with a rule."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LintFinding:
    """Something wrong with a policy.

    Attributes:
        kind: what is wrong, in a word: contradictory, vacuous, duplicate, shadowed, underconstrained, unreachable or
            uncovered; or what a check of another package calls it.
        policy: the id of the rule; of several that are wrong together, of the last one. None for one of the whole file.
        tool: the tool that it concerns; None where it concerns several or none.
        message: what is wrong, and what to do.
        example: a call, or calls, on which it shows.
    """

    kind: str
    policy: str | None
    tool: str | None
    message: str
    example: str
