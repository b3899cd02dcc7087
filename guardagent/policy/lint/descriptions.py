"""Describes examples in natural language."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.lint.steps import StepKind
from guardagent.policy.lint.target import LintTarget
from guardagent.policy.logic.rule_tree import RuleTree
from guardagent.policy.monitors.rule import Rule


def join_words(words: Iterable[str]) -> str:
    """Joins words as in `a`, `a and b`, `a, b and c`."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def call_of(call: SessionCall) -> str:
    """Describes a call with its action, decision and tags."""
    labels = [f"action {call.action}"] if call.action else []
    labels += [f"decision {call.decision}"] if call.decision else []
    labels += [f"tag {tag}" for tag in sorted(call.tags)]
    return f"{call.tool}(){f' ({join_words(labels)})' if labels else ''}"


def calls_of(path: Sequence[StepKind]) -> str:
    """Describes calls in order."""
    if not path:
        return "no call at all"
    return ", then ".join(f"{call_of(step.call)}{'' if step.ok else ', which fails'}" for step in path)


def rules_of(ids: Sequence[str]) -> str:
    """Lists rules by their ids."""
    return f"{'rule' if len(ids) == 1 else 'rules'} {join_words(map(repr, ids))}"


def text_of(rule: Rule, at: int, target: LintTarget) -> str:
    """Returns the text of one atomic rule, or of the whole rule if they share a text."""
    texts = target.sources[rule.id].statements
    found = texts[at].text if len(texts) == len(RuleTree(rule.rules).atomic_rules) else rule.source.text
    return " ".join(found.split())
