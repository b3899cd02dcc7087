"""The results of a comparison of two drafts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from guardagent.policy.equivalence.witness import Witness
from guardagent.policy.policies import Policies
from guardagent.types import Decision, Verdict

Outcome = Literal["allowed", "warned", "escalated", "denied", "ended", "unchecked"]
"""Allowed, perhaps with a warning; denied until a person approves, denied, denied with the end of the conversation; or
denied since a value is unknown."""


@dataclass(frozen=True, slots=True)
class Same:
    """The drafts are proved to give the same outcome in every conversation in which only permitted calls ran.

    Attributes:
        by: how it is proved: `identical`, `automata` or `solver`.
        other_differences: differences of messages, in natural language.
        labels_only: whether it is proved only that the same calls may run: one draft may deny a call because a value is
            unknown, and the other because it violates a rule. A search found no such call.
    """

    by: str
    other_differences: tuple[str, ...] = ()
    labels_only: bool = False


@dataclass(frozen=True, slots=True)
class Different:
    """The drafts differ: both verdicts on the witness are those of real sessions.

    Attributes:
        witness: a smallest conversation on which they differ, as far as it was found.
        first, second: the verdicts of the first and the second draft.
        outcomes: what they do.
        other_differences: as for `Same`.
        labels_only: whether it is proved that the same calls may run: both drafts deny the call, one of them because a
            value is unknown.
    """

    witness: Witness
    first: Verdict
    second: Verdict
    outcomes: tuple[Outcome, Outcome]
    other_differences: tuple[str, ...] = ()
    labels_only: bool = False


@dataclass(frozen=True, slots=True)
class Undecided:
    """No difference was found, and equality is not proved.

    Attributes:
        why: what could not be decided, and how far the search went.
        other_differences: as for `Same`.
    """

    why: str
    other_differences: tuple[str, ...] = ()


Comparison = Same | Different | Undecided


def outcome_of(policies: Policies, verdict: Verdict) -> Outcome:
    """The outcome of a verdict of policies; a denial without a violation is unchecked: a value is unknown."""
    if not verdict.label:
        return "warned" if verdict.rules else "allowed"
    if verdict.errors and not verdict.rules:
        return "unchecked"
    if verdict.decision is Decision.HALT:
        return "ended"
    return "escalated" if policies.can_be_approved(verdict) else "denied"
