"""Proves that a trace keeps all rules without a session, which is needed for everything else.

The product of the propositional rules follows the trace. The other rules hold if no event of the trace can begin a
violation of them, and if they hold for a conversation without calls.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from guardagent.batch.records import Trace
from guardagent.policy.evaluation.history_index import OnDemand
from guardagent.policy.evaluation.monitor_interface import Monitor, RuleContext, SessionCall
from guardagent.policy.language.answer_step import ANSWER
from guardagent.policy.monitors.automaton import Key, Parts, ProductLetter
from guardagent.policy.monitors.propositional import PropositionalMonitor
from guardagent.policy.policies import Policies
from guardagent.types import ATOMS, EMPTY, freeze

MAX_KINDS = 50_000  # kinds of events that are kept; names and tags are unbounded


class QuickProof:
    """Proves that traces keep all rules of a policy."""

    def __init__(self, policies: Policies) -> None:
        others = [one for one in policies.monitors if not isinstance(one, PropositionalMonitor)]
        self._product = policies.product
        self._letters = _Letters(policies)
        self._is_possible = (
            not policies.is_scoped and policies.sources is None and all(map(_holds_without_calls, others))
        )

    def complies(self, trace: Trace) -> bool:
        """Whether the trace certainly keeps all rules, so that its verdict is a plain allowance."""
        if not self._is_possible:
            return False
        state, letters = self._product.start, self._letters
        for event, _, _, _ in trace.steps:
            letter = letters[event.tool, event.action, event.decision, event.tags, event.status == "ok"]
            if letter is None or (type(event.output) not in ATOMS and _is_too_deep(event.output)):
                return False
            state, violated = state[letter]
            if violated or event.principal is not None:
                return False
        return self._may_end(state.parts) and not _is_too_deep(trace.facts)

    def _may_end(self, states: Parts) -> bool:
        return all(
            automaton.accepting[state] for (_, automaton), state in zip(self._product.rules, states, strict=True)
        )


@lru_cache(8)
def quick_proof(policies: Policies) -> QuickProof:
    """The proof for a policy, with what it has learned about kinds of events."""
    return QuickProof(policies)


class _Letters(dict[Key, ProductLetter | None]):
    """The letter of each kind of event; None if such an event needs a session."""

    def __init__(self, policies: Policies) -> None:
        super().__init__()
        self._policies = policies

    def __missing__(self, key: Key) -> ProductLetter | None:
        tool, action, decision, tags, _ = key
        call = SessionCall(tool, EMPTY).labelled(action, decision, tags)
        letter = None if _needs_session(self._policies, call) else self._policies.product.letters[key]
        if len(self) < MAX_KINDS:
            self[key] = letter
        return letter


def _needs_session(policies: Policies, call: SessionCall) -> bool:
    """Whether such a call can begin a violation of another rule, or not all rules concern it: a final answer."""
    applicability = policies.applicability(call)
    return (
        call.tool == ANSWER
        or applicability.needs_more_checks
        or any(_begins_violation(monitor, call) for _, monitor in applicability.monitors)
    )


def _begins_violation(monitor: Monitor, call: SessionCall) -> bool:
    return not isinstance(monitor, PropositionalMonitor) and monitor.reports(call)


def _holds_without_calls(monitor: Monitor) -> bool:
    """Whether a rule other than a propositional one holds at the end of a conversation without calls."""
    return monitor.ended(RuleContext(EMPTY, None, OnDemand(())), monitor.start()) is None


def _is_too_deep(value: Any) -> bool:
    """Whether a value is nested too deeply for a session."""
    try:
        freeze(value)
    except RecursionError:
        return True
    return False
