"""Judges a witness by a real session of a draft."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from guardagent.errors import InputError
from guardagent.policy.equivalence.results import Different, Outcome, outcome_of
from guardagent.policy.equivalence.witness import NO_FACTS, Witness
from guardagent.policy.evaluation.state_functions import StateFunctionError
from guardagent.policy.policies import Policies
from guardagent.types import Decision, Event, Verdict

_STOPS = (Decision.DENY, Decision.HALT)


class WitnessSession:
    """A session of a draft that plays the history of a witness.

    Args:
        policies: the draft.
        witness: the conversation.
    """

    def __init__(self, policies: Policies, witness: Witness) -> None:
        self._witness, self._now = witness, witness.now
        self._session = policies.session(
            witness.state,
            {**NO_FACTS, **witness.facts},
            clock=self._clock,
            principal=witness.principal,
            on_difference=False,
        )

    def _clock(self) -> dt.datetime | None:
        return self._now

    def verdict(self) -> Verdict:
        """The verdict on the proposed call, or at the end."""
        for event in self._witness.history:
            self._session.observe(event, judge=False)
        return self._final()

    def _final(self) -> Verdict:
        self._now = self._witness.now
        proposed = self._witness.proposed
        return self._session.finish() if proposed is None else self._check(proposed)

    def _check(self, event: Event) -> Verdict:
        return self._session.check(
            event.tool,
            event.args,
            action=event.action,
            decision=event.decision,
            tags=event.tags,
            reserve=False,
        )

    def earlier(self) -> Iterator[Verdict]:
        """The verdicts on the calls of the history, when each of them was proposed."""
        for event in self._witness.history:
            self._now = event.time if isinstance(event.time, dt.datetime) else None
            yield self._check(event)
            self._session.observe(event, judge=False)


def verdict_of(policies: Policies, witness: Witness) -> Verdict:
    """The verdict of a draft on a witness."""
    return WitnessSession(policies, witness).verdict()


def may_happen(policies: Policies, witness: Witness) -> bool:
    """Whether no call of the history was denied: a warning lets it run, and so does an approval."""
    return all(one.decision not in _STOPS for one in WitnessSession(policies, witness).earlier())


def difference_of(first: Policies, second: Policies, witness: Witness) -> Different | None:
    """The difference of two drafts on a witness whose history may happen under both; None if there is none."""
    try:
        one, other = verdict_of(first, witness), verdict_of(second, witness)
        outcomes = outcome_of(first, one), outcome_of(second, other)
        if outcomes[0] == outcomes[1] or not (may_happen(first, witness) and may_happen(second, witness)):
            return None
        return Different(witness, one, other, outcomes)
    except (InputError, StateFunctionError):  # for example a principal that no session accepts
        return None


_LETS: tuple[Outcome, ...] = ("allowed", "warned")


def rank_of(difference: Different) -> int:
    """Ranks how clear a difference is to a person.

    Returns:
        0 if one draft lets the call run and the other denies it, 2 if both of them deny; one more if a draft denies
        only because a value is unknown.
    """
    both_deny, unknown = all(one not in _LETS for one in difference.outcomes), "unchecked" in difference.outcomes
    return 2 * both_deny + unknown
