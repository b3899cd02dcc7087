"""Counts the violations of rules in the newest verdicts of a log."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from guardagent.policy.logic.semantics import needs_earlier_step
from guardagent.policy.policies import Policies


@dataclass(slots=True)
class RuleHits:
    """The verdicts in which a rule was violated.

    Attributes:
        decisions: their number by decision.
        near_misses: those in which every violated rule asks for an earlier step: the call itself violated no other.
        last: the time of the last one; empty without any.
    """

    decisions: dict[str, int]
    near_misses: int = 0
    last: str = ""

    @property
    def total(self) -> int:
        """The number of all."""
        return sum(self.decisions.values())


def rule_hits(
    policies: Policies, digests: Collection[str], verdicts: Iterable[Mapping[str, Any]]
) -> dict[str, RuleHits]:
    """Returns the hits of each rule, by its id.

    Args:
        policies: the current version.
        digests: the versions that count.
        verdicts: entries of the log, in order.
    """
    found = {name: RuleHits({}) for name in policies.ids}
    order = {rule.id for rule in policies.rules if needs_earlier_step(rule)}
    for entry in verdicts:
        if entry.get("policy") not in digests:
            continue
        violated = list(dict.fromkeys(entry.get("rules") or ()))
        for name in violated:
            if name in found:
                hits = found[name]
                hits.decisions[entry["decision"]] = hits.decisions.get(entry["decision"], 0) + 1
                hits.near_misses += all(one in order for one in violated)
                hits.last = entry["time"]
    return found
