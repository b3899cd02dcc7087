"""Unites the rules of several drafts: ids become unique, and the same rule stands once."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from guardagent.policy.file.policy_keys import MAX_NAME
from guardagent.translation.drafts import RuleDraft

_KEYS = ("id", "temporal", "solver", "request", "program", "message", "remedy", "on_violation", "applies_to")


@dataclass(slots=True)
class RuleTable:
    """The rules of the drafts so far.

    Args:
        reserved: all ids of the drafts; a new id is none of them.
        fixed: the policies of an earlier file by their ids: equal ones stay as they are.
    """

    reserved: Collection[str]
    fixed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rules: dict[str, RuleDraft] = field(default_factory=dict)
    _same: dict[str, str] = field(default_factory=dict)

    def add(self, rules: Sequence[RuleDraft]) -> dict[str, str]:
        """Adds the rules of a draft, and returns the new ids of those that got one."""
        ids = {one.id: self._id(one) for one in rules}
        renamed = {old: new for old, new in ids.items() if old != new}
        for one in rules:
            self._put(replace(one, id=ids[one.id], cases=tuple(_case(case, one.id, renamed) for case in one.cases)))
        return renamed

    def ordered(self) -> tuple[RuleDraft, ...]:
        """The rules in the order of their first sentences; those without a sentence come last."""
        return tuple(sorted(self.rules.values(), key=lambda one: (not one.quotes, min(one.quotes, default=0))))

    def _id(self, rule: RuleDraft) -> str:
        substance = _substance(rule.rule)
        if rule.id in self.rules and _substance(self.rules[rule.id].rule) == substance:
            return rule.id
        if self.fixed.get(rule.id) != rule.source and substance in self._same:
            return self._same[substance]
        found = rule.id if rule.id not in self.rules else self._free(rule.id)
        self.rules[found] = replace(rule, id=found, quotes={}, cases=())
        self._same.setdefault(substance, found)
        return found

    def _put(self, rule: RuleDraft) -> None:
        first = self.rules[rule.id]
        cases = (*first.cases, *(one for one in rule.cases if one not in first.cases))
        self.rules[rule.id] = replace(first, quotes={**rule.quotes, **first.quotes}, cases=cases)

    def _free(self, name: str) -> str:
        names = (f"{name[: MAX_NAME - len(end)].rstrip()}{end}" for end in (f"_{at}" for at in count(2)))
        return next(one for one in names if one not in self.rules and one not in self.reserved)


def source_of(rule: RuleDraft) -> dict[str, Any]:
    """Returns a rule as in a policy file, with its keys in the usual order."""
    source = rule.source
    return {key: source[key] for key in (*_KEYS, *(key for key in source if key not in _KEYS)) if key in source}


def _substance(rule: Mapping[str, Any]) -> str:
    """A text that is the same for rules that differ in their message and remedy only."""
    decisive = {key: one for key, one in rule.items() if key not in ("message", "remedy")}
    if isinstance(decisive.get("temporal"), str):
        decisive["temporal"] = [decisive["temporal"].strip()]
    return json.dumps({"on_violation": "block", **decisive}, sort_keys=True)


def _case(case: Mapping[str, Any], rule: str, renamed: Mapping[str, str]) -> Mapping[str, Any]:
    """A case with new ids, and without the old id of its rule in its own."""
    found = dict(case)
    if isinstance(case.get("rules"), list | tuple):
        found["rules"] = [renamed.get(one, one) for one in case["rules"]]
    if rule in renamed:
        found["id"] = str(case.get("id", "")).removeprefix(f"{rule}/")
    return found
