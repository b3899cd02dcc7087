"""A policy that judges recorded calls. It calls no model, whatever the policy says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NoReturn

from guardagent.errors import ModelError
from guardagent.models import Message
from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.language import ast
from guardagent.policy.load import load_policies
from guardagent.policy.monitors.rule import Rule
from guardagent.policy.policies import Policies


@dataclass(frozen=True, slots=True)
class NoModel:
    """Stands for the model of a policy that is only replayed."""

    def complete(self, messages: Sequence[Message]) -> NoReturn:  # noqa: ARG002 - as of a model
        """Refuses to answer.

        Raises:
            ModelError: always.
        """
        raise ModelError("a replay calls no model")


def load_replay_policy(path: Path | str, locked: Path | None = None) -> ReplayPolicy:
    """Loads a policy file for a replay.

    Raises:
        InputError: as `load_policies`.
    """
    return ReplayPolicy(load_policies(path, model=NoModel(), locked=locked))


@dataclass(frozen=True)
class ReplayPolicy:
    """A policy with which calls are replayed."""

    policies: Policies

    @cached_property
    def ids(self) -> frozenset[str]:
        return frozenset(self.policies.ids)

    @cached_property
    def rules(self) -> dict[str, Rule]:
        """The rules by id, without the `request:` policies."""
        return {rule.id: rule for rule in self.policies.rules}

    def rules_of(self, call: SessionCall) -> Iterator[Rule]:
        """Yields the rules that judge a call."""
        numbers = (number for number, _ in self.policies.applicability(call).monitors)
        yield from dict.fromkeys(self.policies.rule_of[number] for number in numbers)

    def model_rules(self, call: SessionCall) -> Iterator[str]:
        """Yields the rules that need a model to read the conversation."""
        for number, monitor in self.policies.applicability(call).monitors:
            asks = getattr(monitor, "asks", None)
            if asks is not None and asks(call.tool):
                yield self.policies.rule_of[number].id

    def counter_rules(self, call: SessionCall) -> Iterator[str]:
        """Yields the rules about a call that read counters across conversations."""
        yield from (rule.id for rule in self.rules_of(call) if rule.id in self._reading_counters)

    def zone_rules(self, call: SessionCall) -> Iterator[str]:
        """Yields the rules about a call that read the time zone of the clock."""
        yield from (rule.id for rule in self.rules_of(call) if rule.id in self._reading_zone)

    @cached_property
    def _reading_counters(self) -> frozenset[str]:
        return self._reading(ast.CounterValue)

    @cached_property
    def _reading_zone(self) -> frozenset[str]:
        return self._reading(ast.Zone)

    def _reading(self, kind: type) -> frozenset[str]:
        """The rules with a node of a type."""
        return frozenset(
            rule.id
            for rule in self.policies.rules
            if any(isinstance(node, kind) for read in rule.rules for node in ast.walk(read))
        )

    def scoped_rules(self) -> Iterator[str]:
        """Yields the rules with a scope."""
        yield from (rule.id for rule in self.policies.rules if rule.source.applies_to is not None)
        yield from (source.id for source, _ in self.policies.requests if source.applies_to is not None)

    def history_rules(self, call: SessionCall) -> Iterator[str]:
        """Yields the rules whose result for a call depends on earlier calls."""
        for number, monitor in self.policies.applicability(call).monitors:
            rule = self.policies.rule_of[number]
            if not rule.simple or monitor.looks_back(call):
                yield rule.id
