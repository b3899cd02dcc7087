"""Searches for a conversation on which two drafts differ, and makes it smaller.

The search tries values next to the constants of both drafts. A smaller witness has fewer calls, fewer values and
plainer values. Real sessions of both drafts judge every step.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from random import Random
from typing import Any

from guardagent.errors import InputError
from guardagent.policy.equivalence.draft import (
    ABSENT,
    NO_FACTS,
    ComparedDraft,
    Different,
    Limit,
    Outcome,
    Path,
    Scenario,
    Witness,
    changed,
    outcome_of,
    paths_of,
    scenario_of,
    value_at,
    witness_of,
)
from guardagent.policy.equivalence.phrases import words_of
from guardagent.policy.equivalence.places import Place, near
from guardagent.policy.equivalence.variations import Variations
from guardagent.policy.evaluation.operands import StateFunctionError
from guardagent.policy.policies import Policies
from guardagent.types import Decision, Event, Verdict

# --- judging

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
            messages=witness.messages,
            on_difference=False,
        )

    def _clock(self) -> dt.datetime | None:
        return self._now

    def verdict(self) -> Verdict:
        """The verdict on the proposed call, or at the end."""
        for event in self._witness.history:
            self._session.observe(event, judge=False)
        proposed = self._witness.proposed
        return self._session.finish() if proposed is None else self._check(proposed)

    def _check(self, event: Event) -> Verdict:
        return self._session.check(
            event.tool, event.args, action=event.action, decision=event.decision, tags=event.tags, reserve=False
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
    return all(verdict.decision not in _STOPS for verdict in WitnessSession(policies, witness).earlier())


def difference_of(first: Policies, second: Policies, witness: Witness, *, strict: bool = True) -> Different | None:
    """The difference of two drafts on a witness whose history may happen under both, if strict; None without one."""
    try:
        verdict, other = verdict_of(first, witness), verdict_of(second, witness)
        outcomes = outcome_of(first, verdict), outcome_of(second, other)
        if outcomes[0] == outcomes[1] or (strict and not (may_happen(first, witness) and may_happen(second, witness))):
            return None
        return Different(witness, verdict, other, outcomes)
    except (InputError, StateFunctionError):  # for example a principal that no session accepts
        return None


_LETS: tuple[Outcome, ...] = ("allowed", "warned")


def rank_of(difference: Different) -> int:
    """Ranks how clear a difference is to a person.

    Returns:
        0 if one draft lets the call run and the other denies it, 2 if both of them deny; one more if a draft denies
        only because a value is unknown.
    """
    both_deny, unknown = (
        all(outcome not in _LETS for outcome in difference.outcomes),
        "unchecked" in difference.outcomes,
    )
    return 2 * both_deny + unknown


# --- the search

MORE = 400  # conversations that are judged after the first difference, for a clearer one


class Search:
    """A search that goes on where it stopped.

    Args:
        first, second: the drafts.
        variations: the values of their places.

    Attributes:
        judged: the number of conversations that both drafts judged.
        best: the clearest difference.
    """

    def __init__(self, first: ComparedDraft, second: ComparedDraft, variations: Variations) -> None:
        self._drafts, self._variations = (first.policies, second.policies), variations
        self._scenarios = self._all(variations)
        self.judged = 0
        self.best: Different | None = None

    @staticmethod
    def _all(variations: Variations) -> Iterator[Scenario]:
        random = Random(0)  # noqa: S311 - a reproducible search
        while True:
            scenario = variations.scenario(random)
            yield scenario
            yield from variations.neighbours(scenario)

    def run(self, count: int, until: float) -> Different | None:
        """Judges more conversations, and returns the clearest difference so far.

        Args:
            count: the number of conversations.
            until: the time of `time.monotonic` at which the search ends.
        """
        end = self.judged + count
        while self.judged < end and time.monotonic() < until and not self._is_clear:
            scenario = next(self._scenarios)
            if self._take(witness_of(scenario)):  # a clearer one is often near
                self._scenarios = chain(self._variations.neighbours(scenario), self._scenarios)
                end = min(end, self.judged + MORE)
        return self.best

    def take(self, witnesses: Iterable[Witness]) -> Different | None:
        """Judges given conversations, and returns the clearest difference so far."""
        for witness in witnesses:
            if self._is_clear:
                break
            self._take(witness)
        return self.best

    @property
    def _is_clear(self) -> bool:
        return self.best is not None and rank_of(self.best) == 0

    def _take(self, witness: Witness) -> bool:
        """Judges a conversation; returns whether it is the clearest one."""
        self.judged += 1
        difference = difference_of(*self._drafts, witness)
        if difference is None or (self.best is not None and rank_of(difference) >= rank_of(self.best)):
            return False
        self.best = difference
        return True


# --- a smaller witness

MAX_TRIES = 2_000


class Minimization:
    """Makes the witness of a difference smaller; the outcomes of both drafts stay.

    Args:
        first, second: the drafts.
        variations: the values of their places.
    """

    def __init__(self, first: ComparedDraft, second: ComparedDraft, variations: Variations) -> None:
        self._drafts = first.policies, second.policies
        self._variations = variations

    def run(self, difference: Different) -> Different:
        """The smaller difference, with the limits near its values."""
        best, scenario = difference, scenario_of(difference.witness)
        seen = {repr(scenario)}
        while (smaller := self._smaller(best, scenario, seen)) is not None:
            best, scenario = smaller
        return replace(best, witness=self._annotated(best, scenario))

    def _smaller(self, best: Different, scenario: Scenario, seen: set[str]) -> tuple[Different, Scenario] | None:
        """The first simplification that keeps the outcomes; None if there is none, or after too many tries."""
        for simplification in self._simplifications(scenario):
            if repr(simplification) not in seen and len(seen) < MAX_TRIES:
                seen.add(repr(simplification))
                difference = difference_of(*self._drafts, witness_of(simplification))
                if difference is not None and difference.outcomes == best.outcomes:
                    return difference, simplification
        return None

    def _simplifications(self, scenario: Scenario) -> Iterator[Scenario]:
        calls = scenario["history"]
        for at in range(len(calls)):
            yield {**scenario, "history": [*calls[:at], *calls[at + 1 :]]}
        for name, empty in (("facts", {}), ("state", {}), ("principal", {}), ("now", None)):
            if scenario[name]:
                yield {**scenario, name: empty}
        yield from self._plainer_calls(scenario)
        yield from self._fewer_values(scenario)
        yield from self._plainer_values(scenario)

    def _plainer_calls(self, scenario: Scenario) -> Iterator[Scenario]:
        for at, call in enumerate(scenario["history"]):
            if call["output"] not in (None, {}):
                yield changed(scenario, ("history", at, "output"), {} if isinstance(call["output"], dict) else None)
            statuses = ("ok", "failed", "unknown")
            for status in statuses[: statuses.index(call["status"])]:
                yield changed(scenario, ("history", at, "status"), status)
            if call["age"] is not None:
                yield changed(scenario, ("history", at, "age"), None)
                yield from self._plainer(scenario, ("history", at, "age"), self._variations.ages)

    def _fewer_values(self, scenario: Scenario) -> Iterator[Scenario]:
        for path in list(paths_of(scenario)):
            place = _place(scenario, path)
            if place[0] != "args" or len(place) != 3 or not self._variations.needs(place):
                yield changed(scenario, path, ABSENT)

    def _plainer_values(self, scenario: Scenario) -> Iterator[Scenario]:
        for path, values in list(self._variations.slots(scenario)):
            if path[-1] not in ("status", "age"):
                yield from self._plainer(scenario, path, values)
            if "args" in path and value_at(scenario, path) is ABSENT and self._variations.needs(_place(scenario, path)):
                yield from (changed(scenario, path, value) for value in values if value is not ABSENT)

    @staticmethod
    def _plainer(scenario: Scenario, path: Path, values: Sequence[Any]) -> Iterator[Scenario]:
        """Yields the scenarios with a value that comes earlier."""
        now = value_at(scenario, path)
        if now is ABSENT or now is None:
            return
        known = [repr(value) for value in values]
        place = known.index(repr(now)) if repr(now) in known else len(known)
        for value in values[:place]:
            if value is not ABSENT and value is not None:
                yield changed(scenario, path, value)

    def _annotated(self, best: Different, scenario: Scenario) -> Witness:
        """Adds what a question about the witness mentions: limits, and what did not happen or is unknown."""
        places = self._variations.places
        limits = [limit for path in paths_of(scenario) for limit in self._limits(scenario, path)]
        called = {call["tool"] for call in (*scenario["history"], scenario["proposed"]) if call is not None}
        return replace(
            best.witness,
            limits=tuple(limits),
            windows=tuple(float(window) for window in sorted(places.seconds)),
            missing=tuple(tool for tool in places.sought if tool not in called) if scenario["proposed"] else (),
            unknown=tuple(self._unknown(scenario)) if "unchecked" in best.outcomes else (),
        )

    def _unknown(self, scenario: Scenario) -> Iterator[str]:
        proposed = scenario["proposed"]
        for place, use in self._variations.places.uses.items():
            name = words_of(" ".join(place[1:]))
            if place[0] == "fact" and value_at(scenario["facts"], place[1:]) is ABSENT:
                yield f'it is unknown whether "{name}"' if use.is_truth else f"it is unknown what the {name} is"
            elif place[0] == "principal" and place[1] not in scenario["principal"]:
                yield "it is unknown who the user is" if name == "id" else f"the {name} of the user are unknown"
            elif proposed is not None and place[:2] == ("args", proposed["tool"]):
                yield from (
                    f"the call has no {words_of(argument)}"
                    for argument in place[2:3]
                    if argument not in proposed["args"]
                )

    def _limits(self, scenario: Scenario, path: Path) -> Iterator[Limit]:
        use = self._variations.places.uses.get(_place(scenario, path))
        value = value_at(scenario, path)
        for constant in use.constants.values() if use is not None else ():
            if value in near(constant):
                yield Limit(path, near(constant)[0])


def _place(scenario: Scenario, path: Path) -> Place:
    """The place of a path: it names the tool instead of the call."""
    keys = tuple(str(key) for key in path if not isinstance(key, int))
    if keys[0] in ("history", "proposed"):
        call = scenario["proposed"] if keys[0] == "proposed" else scenario["history"][path[1]]
        return (keys[1], call["tool"], *keys[2:])
    return ("fact" if keys[0] == "facts" else keys[0], *keys[1:])
