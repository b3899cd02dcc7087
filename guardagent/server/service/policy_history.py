"""The versions of policies that servers have had in force, with their rules in words: what changed, and when."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from guardagent.policy.policies import Policies
from guardagent.policy.words import policies_in_words
from guardagent.server.state import StateStore

_KIND = "policy_version"


@dataclass(frozen=True, slots=True)
class PolicyVersionRecord:
    """A version of a policy.

    Attributes:
        digest: its digest.
        since: when a server first had it in force, or had it again; in seconds since the epoch.
        rules: the rules in words, by their ids.
    """

    digest: str
    since: float
    rules: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A rule that two versions do not share alike; the words are None where there is no such rule."""

    rule: str
    earlier: str | None
    later: str | None


class PolicyHistory:
    """The history of all policies, in the state that servers share.

    Args:
        state: stores it.
        clock: returns the seconds since the epoch.
    """

    def __init__(self, state: StateStore, clock: Callable[[], float] = time.time) -> None:
        self._state, self._clock = state, clock

    def note(self, name: str, version: Policies) -> None:
        """Notes that a version is in force. One that is there and is not the newest is so again."""
        newest = self.versions(name, 1)
        if newest and newest[0].digest == version.digest:
            return
        self._state.delete(_KIND, name, version.digest)
        rules = {rule: words.text for rule, words in policies_in_words(version).items()}
        self._state.add(_KIND, name, version.digest, {"since": self._clock(), "rules": rules})

    def versions(self, name: str, limit: int = 20) -> list[PolicyVersionRecord]:
        """Returns the versions of a policy, the newest first."""
        items = self._state.page(_KIND, name, None, limit)
        return [PolicyVersionRecord(one.name, one.value["since"], one.value["rules"]) for one in items]


def changes(earlier: PolicyVersionRecord, later: PolicyVersionRecord) -> list[RuleChange]:
    """Returns the rules that were added, removed or changed, by their ids."""
    names = sorted({*earlier.rules, *later.rules})
    found = [RuleChange(name, earlier.rules.get(name), later.rules.get(name)) for name in names]
    return [one for one in found if one.earlier != one.later]
