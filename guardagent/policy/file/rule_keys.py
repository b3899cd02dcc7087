"""Reads the rules of a policy file, `policies:` with their `solver:`, and the entries of `counters:`.

Rules, SMT-LIB text, patterns and expressions stay strings with their lines: they are compiled later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from guardagent._support.files import is_in_pack
from guardagent.policy.file.inclusion_keys import DECISIONS
from guardagent.policy.file.policy_keys import (
    Key,
    Schema,
    by_name,
    by_tool,
    check_keys,
    choice,
    file,
    flag,
    items,
    keys,
    line,
    mapping,
    name,
    one_or_more,
    plain_text,
    reads,
    text,
    value,
)
from guardagent.policy.file.source_tree import SourceNode, SourceScalar, SourceText, shortened
from guardagent.policy.language.values import DURATION, duration_of
from guardagent.policy.scope import Scope
from guardagent.types import Decision

# --- solver rules


@dataclass(frozen=True, slots=True)
class VariableSource:
    """A variable of a tool's schema.

    Attributes:
        sort: the name of its sort; None if the SMT-LIB text declares it.
        enum: the allowed values; None allows every value of the sort.
        source: the expression for its value.
        required: whether an unknown value denies the call.
        free: whether the solver may choose an unknown value that permits the call.
    """

    sort: SourceText | None
    enum: tuple[str | int | float | bool, ...] | None
    source: SourceText | None
    required: bool
    free: bool
    place: SourceText


@dataclass(frozen=True, slots=True)
class GovernedTool:
    """The predicate that permits calls of a tool, and its variables."""

    permit: SourceText
    variables: Mapping[str, VariableSource]


@dataclass(frozen=True, slots=True)
class SolverSource:
    """A solver rule as written in its file: `smt` or `smt_file`, and the governed tools."""

    smt: SourceText | None
    smt_file: Path | None
    tools: Mapping[str, GovernedTool]


def _start_of(node: SourceNode) -> SourceText:
    """An empty string at the start of a mapping, to locate its errors."""
    return SourceText("", node.path, node.key_line or node.line)


@reads(lambda key: {"anyOf": [text.schema(key), flag.schema(key)]})
def _predicate(node: SourceNode, key: Key) -> SourceText:
    """Reads a predicate. YAML reads `true` and `false` as booleans."""
    if isinstance(node.value, SourceScalar) and isinstance(node.value.value, bool):
        return SourceText("true" if node.value.value else "false", node.path, node.line)
    return text(node, key)


@reads(lambda key: mapping.schema(key) | {"anyOf": [{"required": [name]} for name in ("from", "free")]})
def _variable(node: SourceNode, key: Key) -> VariableSource:
    values = mapping(node, key)
    free = "free" in values
    if free and values.get("required") is True:
        raise node.error("'free: any' contradicts 'required: true'; expected one of them")
    if "from" not in values and not free:
        raise node.error(
            "the variable has no 'from', so its value is never known; expected an expression such as 'args.amount', "
            "'fact(user_confirmed)', 'state(hours_since_booking(args.id))' or 'conversation(user)'"
        )
    return VariableSource(
        values.get("sort"),
        values.get("enum"),
        values.get("from"),
        values.get("required", not free),
        free,
        _start_of(node),
    )


@reads(mapping.schema)
def _governed(node: SourceNode, key: Key) -> GovernedTool:
    values = mapping(node, key)
    return GovernedTool(values["permit"], MappingProxyType(values["variables"]))


@reads(lambda key: mapping.schema(key) | {"oneOf": [{"required": [name]} for name in ("smt", "smt_file")]})
def _solver(node: SourceNode, key: Key) -> SolverSource:
    check_keys(node, key)
    if ("smt" in node.fields) == ("smt_file" in node.fields):
        mode = "both" if "smt" in node.fields else "neither"
        raise node.error(f"'solver' has {mode} of 'smt' and 'smt_file'; expected one of them")
    values = mapping(node, key)
    return SolverSource(values.get("smt"), values.get("smt_file"), MappingProxyType(values["tools"]))


VARIABLE = Key(
    "variable",
    _variable,
    "a mapping with 'from', and optionally 'sort', 'enum', 'required' and 'free'",
    keys=keys(
        Key("sort", line, "the name of a sort", "Its SMT-LIB sort."),
        Key(
            "enum",
            items,
            "a list of the allowed values",
            "The allowed values.",
            item=Key("value", value, "a string, a number or a boolean"),
        ),
        Key("from", text, "an expression", "The expression for its value."),
        Key("required", flag, "true or false", "Whether an unknown value denies the call; the default is true."),
        Key(
            "free",
            choice,
            "any",
            "The paper's reading: the solver may choose a value that permits the call.",
            choices=("any",),
        ),
    ),
)
GOVERNED = Key(
    "tool",
    _governed,
    "a mapping with 'permit' and 'variables'",
    keys=keys(
        Key(
            "permit",
            _predicate,
            "the predicate that permits the call",
            "The predicate that permits the call.",
            required=True,
        ),
        Key(
            "variables",
            by_name,
            "a mapping of variables by name; {} for a predicate without variables",
            "The variables of the predicate by name; {} for a predicate without variables.",
            required=True,
            item=VARIABLE,
        ),
    ),
)
SOLVER = Key(
    "solver",
    _solver,
    "a mapping with 'smt' or 'smt_file', and 'tools'",
    "SMT-LIB constraints and the tools that they govern.",
    keys=keys(
        Key("smt", text, "SMT-LIB 2 text", "SMT-LIB 2 text."),
        Key("smt_file", file, "a file with SMT-LIB 2 text", "A file with SMT-LIB 2 text, relative to this file."),
        Key("tools", by_tool, "a mapping of the governed tools", "The governed tools.", required=True, item=GOVERNED),
    ),
)


# --- rules

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
        on_trial: whether it only warns, also where it cannot be checked.
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
    on_trial: bool = False

    @property
    def in_pack(self) -> bool:
        """Whether it is a rule of a shipped pack."""
        return is_in_pack(self.path)

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
    return tuple(Key(name, items, "a list of strings", text, item=item) for name, text in about.items())


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


# --- counters

_MAX_SECONDS = 100 * 366 * 86400


@dataclass(frozen=True, slots=True)
class CounterSource:
    """A counter as written in its file.

    Attributes:
        on: the pattern of the calls that it counts.
        keys: the expressions of its keys; each combination of their values has a count of its own.
        sum: the expression of the amount; None counts the calls.
        window: the length of the window in seconds; None counts for ever.
        scopes: the prefixes of the names that its expressions can use without a prefix.
    """

    on: SourceText
    keys: tuple[SourceText, ...]
    sum: SourceText | None
    window: float | None
    scopes: tuple[str, ...] = ("",)

    @property
    def meaning(self) -> object:
        total = self.sum and self.sum.text
        return self.on.text, tuple(key.text for key in self.keys), total, self.window, self.scopes

    def under(self, prefix: str) -> CounterSource:
        """This counter in an included file with a prefix."""
        return replace(self, scopes=tuple(prefix + scope for scope in self.scopes))


@reads(lambda _: {"type": "string", "pattern": f"^{DURATION.pattern}$"})
def _duration(node: SourceNode, key: Key) -> float:
    node_text = text(node, key)
    seconds = duration_of(node_text.text.strip()) or 0
    if not 0 < seconds <= _MAX_SECONDS:
        raise node_text.error(f"{key.name!r} is {node.description}; expected {key.expected}")
    return float(seconds)


@reads(mapping.schema)
def _counter(node: SourceNode, key: Key) -> CounterSource:
    node = _rejoined(node)
    check_keys(node, key)
    values = mapping(node, key)
    return CounterSource(values["on"], values.get("key", ()), values.get("sum"), values.get("window"))


def _rejoined(node: SourceNode) -> SourceNode:
    """Joins a pattern that YAML split at its commas, in a mapping between braces."""
    left = dict(node.fields)
    pattern = left.get("on")
    if pattern is None or not isinstance(pattern.value, SourceText):
        return node
    joined = pattern.value.text
    for key, item in node.fields.items():
        if not _is_open(joined):
            break
        if key != "on" and isinstance(item.value, SourceScalar) and item.value.source == "":
            joined = f"{joined}, {key}"
            del left[key]
    if len(left) == len(node.fields):
        return node
    whole = SourceText(joined, pattern.path, pattern.line)
    left["on"] = SourceNode(whole, pattern.path, pattern.line, pattern.key_line, pattern.folder)
    return SourceNode(left, node.path, node.line, node.key_line, node.folder)


def _is_open(pattern: str) -> bool:
    return pattern.count("(") > pattern.count(")")


def counter_problem(name: str) -> str:
    """The problem of the name of a counter; empty if rules can refer to it."""
    if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and name not in ("AND", "OR", "NOT", "true", "false", "in"):
        return ""
    return f"{shortened(name)!r} is not a valid name of a counter; expected letters, digits and '_'"


COUNTER = Key(
    "counter",
    _counter,
    "a mapping with 'on', and optionally 'key', 'sum' and 'window'",
    keys=keys(
        Key(
            "on",
            text,
            "a call pattern such as refund(customer=c, amount=a)",
            "The pattern of the calls that are counted.",
            required=True,
        ),
        Key(
            "key",
            one_or_more,
            "an expression, or a list of them",
            "What has a count of its own: an expression over the variables of the pattern, or a list of them.",
            item=Key("key", text, "an expression"),
        ),
        Key("sum", text, "an expression", "The amount of a call; without it, calls are counted."),
        Key(
            "window", _duration, "a duration such as 24h", "The time for which a call counts; the default is for ever."
        ),
    ),
)
