"""Judges a witness by a real session of a draft."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from guardagent.errors import InputError
from guardagent.policy.equivalence.results import Different, Outcome
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
        found = Different(witness, verdict_of(first, witness), verdict_of(second, witness))
        one, other = found.outcomes
        return found if one != other and may_happen(first, witness) and may_happen(second, witness) else None
    except (InputError, StateFunctionError):  # for example a principal that no session accepts
        return None


_RANKS: dict[frozenset[Outcome], int] = {
    frozenset({"denied", "unchecked"}): 2,
    frozenset({"allowed", "unchecked"}): 1,
    frozenset({"warned", "unchecked"}): 1,
}


def rank_of(difference: Different) -> int:
    """Ranks how clear a difference is to a person: 0 if both drafts know their answers, 2 if both of them deny."""
    return _RANKS.get(frozenset(difference.outcomes), 0)
