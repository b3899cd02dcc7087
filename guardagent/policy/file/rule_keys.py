"""Reads `policies:` in a policy file. Rules stay uncompiled strings with their lines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from guardagent.policy.file.inclusion_keys import DECISIONS
from guardagent.policy.file.policy_keys import (
    Key,
    Schema,
    check_keys,
    choice,
    file,
    items,
    keys,
    mapping,
    name,
    one_or_more,
    plain_text,
    reads,
    text,
)
from guardagent.policy.file.solver_keys import SOLVER, SolverSource
from guardagent.policy.file.source_text import SourceText
from guardagent.policy.file.source_tree import SourceNode, shortened
from guardagent.policy.scope import Scope
from guardagent.types import Decision

RuleKind = Literal["temporal", "solver", "request"]


RULE_KINDS: tuple[RuleKind, ...] = ("temporal", "solver", "request")


@dataclass(frozen=True, slots=True)
class RuleSource:
    """One policy as written in its file.

    Attributes:
        statements: the formulas, all of which must hold, or the request; empty for a solver rule.
        solver: the value of `solver:`.
        program: the guard program of a request.
        path, line: the file, and the first line of the policy.
        scopes: the prefixes of the names that the policy can use without a prefix.
        location: its file and line, or its path of keys.
        applies_to: the calls that it judges; None for all.
    """

    id: str
    kind: RuleKind
    statements: tuple[SourceText, ...]
    solver: SolverSource | None
    program: Path | None
    message: str | None
    on_violation: Decision
    remedy: str | None
    line: int
    location: str
    applies_to: Scope | None
    path: Path
    scopes: tuple[str, ...] = ("",)

    def under(self, prefix: str) -> RuleSource:
        """This policy in an included file with a prefix."""
        return replace(self, id=prefix + self.id, scopes=tuple(prefix + scope for scope in self.scopes))


def _rule_schema(key: Key) -> Schema:
    kinds = {"oneOf": [{"required": [kind]} for kind in RULE_KINDS]}
    return mapping.schema(key) | kinds | {"dependentRequired": {"program": ["request"]}}


@reads(_rule_schema)
def _rule(node: SourceNode, key: Key) -> RuleSource:
    check_keys(node, key)
    kind = _kind(node)
    values = mapping(node, key)
    texts = values[kind]
    return RuleSource(
        id=values["id"],
        kind=kind,
        statements=() if kind == "solver" else texts if kind == "temporal" else (texts,),
        solver=values.get("solver"),
        program=values.get("program"),
        message=values.get("message"),
        on_violation=DECISIONS[values.get("on_violation", "block")],
        remedy=values.get("remedy"),
        line=node.line,
        location=node.location,
        applies_to=values.get("applies_to"),
        path=node.path,
    )


def _kind(node: SourceNode) -> RuleKind:
    kinds = [kind for kind in RULE_KINDS if kind in node.fields]
    if not kinds:
        raise node.error("the policy has no rule; expected one of 'temporal', 'solver' and 'request'")
    kind, *others = sorted(kinds, key=lambda kind: node.fields[kind].key_line)
    if others:
        raise node.fields[others[0]].error(f"{others[0]!r} next to {kind!r}; expected one rule in each policy")
    if "program" in node.fields and kind != "request":
        raise node.fields["program"].error(f"'program' next to {kind!r}; expected it only next to 'request'")
    return kind


@reads(items.schema)
def _rules(node: SourceNode, key: Key) -> tuple[RuleSource, ...]:
    rules: tuple[RuleSource, ...] = items(node, key)
    first: dict[str, SourceNode] = {}
    for rule, place in zip(rules, node.items, strict=True):
        at = place.fields["id"]
        if rule.id in first:
            there = f"in line {first[rule.id].line}" if at.line else f"at {str(first[rule.id].path)!r}"
            raise at.error(f"policy id {shortened(rule.id)!r} is already used {there}; expected a unique id")
        first[rule.id] = at
    return rules


def _scope_schema(key: Key) -> Schema:
    return mapping.schema(key) | {"minProperties": 1}


@reads(_scope_schema)
def _scope(node: SourceNode, key: Key) -> Scope:
    values = mapping(node, key)
    if not values:
        raise node.error(f"{key.name!r} is empty; expected {key.expected}")
    sets = {name: frozenset(values[name]) for name in ("roles", "tenants", "agents") if name in values}
    return Scope(**sets, excluded=values.get("not"))


def _scope_keys() -> tuple[Key, ...]:
    about = {
        "roles": "The principal has one of these roles.",
        "tenants": "The principal is of one of these tenants.",
        "agents": "One of these agents proposes the call.",
    }
    item = Key("name", name, "a string")
    return tuple(Key(one, items, "a list of strings", text, item=item) for one, text in about.items())


_RULE = Key(
    "policy",
    _rule,
    "a mapping with 'id' and one of 'temporal', 'solver' and 'request'",
    keys=keys(
        Key("id", name, "a string", "The policy's name in verdicts.", required=True),
        Key(
            "temporal",
            one_or_more,
            "a formula, or a list of them",
            "A formula, or a list of formulas that must all hold.",
            item=Key("temporal", text, "a formula"),
        ),
        SOLVER,
        Key("request", text, "a string that describes what is forbidden", "What is forbidden, in natural language."),
        Key("program", file, "a Python file", "The guard program of a request.", choices=(".py",)),
        Key("message", plain_text, "a message for people", "The message that people read when the policy is violated."),
        Key(
            "on_violation",
            choice,
            "warn, block, escalate or halt",
            "The response to a violating call; the default is block.",
            choices=tuple(DECISIONS),
        ),
        Key(
            "applies_to",
            _scope,
            "a mapping with 'roles', 'tenants', 'agents' or 'not'",
            "The calls that the policy judges, by their principal and agent; without it, all.",
            keys=keys(
                *_scope_keys(),
                Key(
                    "not",
                    _scope,
                    "a mapping with 'roles', 'tenants' or 'agents'",
                    "The calls that it does not judge.",
                    keys=keys(*_scope_keys()),
                ),
            ),
        ),
        Key("remedy", plain_text, "a string that describes an allowed alternative", "How to make the call compliant."),
    ),
)
POLICIES = Key("policies", _rules, "a list of policies", "The rules.", item=_RULE)
