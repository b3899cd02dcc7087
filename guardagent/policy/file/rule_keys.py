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
from guardagent.policy.cedar import CedarSource
from guardagent.policy.evaluation.counters import counted_number
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
    tool_name,
    value,
)
from guardagent.policy.file.source_tree import SourceNode, SourceScalar, SourceText, shortened, start_of
from guardagent.policy.language.values import DURATION, Unknown, duration_of
from guardagent.policy.scope import SUM, ApprovalScope, EscalationStage, Scope
from guardagent.types import Decision

HALT_TOOL = "halt_tool"
"""The value of `on_violation:` that also stops the tool."""

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
        start_of(node),
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


# --- policies in Cedar

_NAMESPACE = re.compile(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)*")


@reads(mapping.schema)
def _cedar(node: SourceNode, key: Key) -> CedarSource:
    return CedarSource(**mapping(node, key))


@reads(lambda _: {"type": "string", "pattern": f"^{_NAMESPACE.pattern}$"})
def _namespace(node: SourceNode, key: Key) -> str:
    if not _NAMESPACE.fullmatch(written := plain_text(node, key)):
        raise node.error(f"{shortened(written)!r} is not a namespace of Cedar; expected {key.expected}")
    return written


_ON_ERROR = "Whether a policy that errs denies the call, or is skipped as Cedar does; the default is deny."
CEDAR = Key(
    "cedar",
    _cedar,
    "a mapping with 'policies'",
    "Policies in Cedar, which its own engine judges.",
    keys=keys(
        Key("policies", file, "a Cedar file", "The file with the policies.", required=True, choices=(".cedar",)),
        Key("schema", file, "a Cedar schema", "Their schema.", choices=(".cedarschema", ".json")),
        Key("namespace", _namespace, "names joined by '::', such as Bank", "The namespace of the actions."),
        Key("target", name, "the target of a gateway", "The target before the tool in the id of an action."),
        Key("on_error", choice, "deny or skip", _ON_ERROR, choices=("deny", "skip")),
    ),
)


# --- approvals

_MAX_SECONDS = 100 * 366 * 86400
_MAX_QUORUM, _MAX_DEADLINE = 100, 30 * 86400  # as of a server's settings


@reads(lambda _: {"type": "string", "pattern": f"^{DURATION.pattern}$"})
def _duration(node: SourceNode, key: Key) -> float:
    node_text = text(node, key)
    seconds = duration_of(node_text.text.strip()) or 0
    if not 0 < seconds <= (_MAX_DEADLINE if key.name == "deadline" else _MAX_SECONDS):
        raise node_text.error(f"{key.name!r} is {node.description}; expected {key.expected}")
    return float(seconds)


TIMEOUTS = Key(
    "timeouts",
    by_name,
    "a mapping of tools, or tags such as @web, to durations",
    "How long calls of a tool may run.",
    item=Key("timeout", _duration, "a duration such as 30s"),
)
_WHOLE: Mapping[str, Schema] = {"calls": {"minimum": 1}, "quorum": {"minimum": 1, "maximum": _MAX_QUORUM}}


@reads(lambda key: {"type": "integer", **_WHOLE[key.name]} if key.name in _WHOLE else {"type": "number", "minimum": 0})
def _bound(node: SourceNode, key: Key) -> int | float:
    bound: int | float = value(node, key)
    if isinstance(counted_number(bound), Unknown) or (key.name in _WHOLE and (type(bound) is not int or not bound)):
        raise key.mismatch(node)
    if bound > _WHOLE.get(key.name, {}).get("maximum", bound):
        raise key.mismatch(node)
    return bound


@reads(mapping.schema)
def _approval_scope(node: SourceNode, key: Key) -> ApprovalScope:
    content = {"same": (), "up_to": {}, "any": (), **mapping(node, key)}
    if SUM in content["up_to"] and len(content["up_to"]) != 2:
        raise node.fields["up_to"].error("'sum' bounds the total of one argument; expected one other bound in 'up_to'")
    if twice := {*content["any"]} & {*content["same"], *content["up_to"]}:
        raise node.fields["any"].error(f"{min(twice)!r} is in 'any', and in 'same' or 'up_to'; expected one of them")
    return ApprovalScope.of({**content, "tool": content["tool"].text})


def _approvals() -> Key:
    of, bound = Key("argument", name, "the name of an argument"), Key("bound", _bound, "a number from 0")
    free, same = "The arguments that may have any value.", "The arguments that keep their values in the approved call."
    most = "The most for each numeric argument of a call; 'sum' is the most for the total."
    inner = keys(
        Key("tool", tool_name, "the name of a tool", "The tool of the calls.", required=True),
        Key("same", items, "a list of arguments", same, item=of),
        Key("up_to", by_name, "a mapping of arguments to numbers from 0", most, item=bound),
        Key("any", items, "a list of arguments", free, item=of),
        Key("calls", _bound, "a whole number from 1", "The number of calls.", required=True),
        Key("for", _duration, "a duration such as 1h", "The length of a grant.", required=True),
    )
    expected = "a mapping with 'tool', 'calls', 'for', and optionally 'same', 'up_to' and 'any'"
    scope = Key("scope", _approval_scope, expected, "The calls that one answer may allow.", required=True, keys=inner)
    about = "What a reviewer may approve at once; without it, one call."
    return Key("approvals", mapping, "a mapping with 'scope'", about, keys=keys(scope))


# --- rules

RuleKind = Literal["temporal", "solver", "request", "cedar"]

RULE_KINDS: tuple[RuleKind, ...] = ("temporal", "solver", "request", "cedar")


@dataclass(frozen=True, slots=True)
class RuleSource:
    """One policy as written in its file.

    Attributes:
        statements: the formulas, all of which must hold, or the request; empty for the other kinds.
        solver: the value of `solver:`.
        cedar: the value of `cedar:`.
        program: the guard program of a request.
        path, line: the file, and the first line of the policy.
        scopes: the prefixes of the names that the policy can use without a prefix.
        location: its file and line, or its path of keys.
        applies_to: the calls that it judges; None for all.
        approval_scope: what a reviewer may grant; None for one call.
        on_trial: whether it only warns, also where it cannot be checked.
        halts_tool: whether a violation also stops the tool, for all sessions, until a person lifts the stop.
        escalate_to: who may approve a violating call, one stage after the other; empty for the server's settings.
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
    halts_tool: bool = False
    approval_scope: ApprovalScope | None = None
    escalate_to: tuple[EscalationStage, ...] = ()
    cedar: CedarSource | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that it names, except its policy file."""
        named = (self.program, self.solver.smt_file if self.solver else None)
        return (*(path for path in named if path is not None), *(self.cedar.files if self.cedar else ()))

    @property
    def in_pack(self) -> bool:
        """Whether it is a rule of a shipped pack."""
        return is_in_pack(self.path)

    def under(self, prefix: str) -> RuleSource:
        """This policy in an included file with a prefix."""
        return replace(self, id=prefix + self.id, scopes=tuple(prefix + scope for scope in self.scopes))


def _rule_schema(key: Key) -> Schema:
    kinds = {"oneOf": [{"required": [kind]} for kind in RULE_KINDS]}
    escalating = {"required": ["on_violation"], "properties": {"on_violation": {"const": "escalate"}}}
    dependent = {"dependentRequired": {"program": ["request"]}, "dependentSchemas": {"escalate_to": escalating}}
    return mapping.schema(key) | kinds | dependent


@reads(_rule_schema)
def _rule(node: SourceNode, key: Key) -> RuleSource:
    check_keys(node, key)
    kind = _kind(node)
    values = mapping(node, key)
    texts = values[kind]
    for key_name in ("approvals", "escalate_to"):
        if key_name in values and values.get("on_violation") != "escalate":
            raise node.fields[key_name].error(f"{key_name!r} without 'on_violation: escalate'; expected both")
    return RuleSource(
        id=values["id"],
        kind=kind,
        statements=texts if kind == "temporal" else (texts,) if kind == "request" else (),
        solver=values.get("solver"),
        cedar=values.get("cedar"),
        program=values.get("program"),
        message=values.get("message"),
        on_violation=DECISIONS.get(values.get("on_violation", "block"), Decision.DENY),
        halts_tool=values.get("on_violation") == HALT_TOOL,
        remedy=values.get("remedy"),
        line=node.line,
        location=node.location,
        applies_to=values.get("applies_to"),
        path=node.path,
        approval_scope=values.get("approvals", {}).get("scope"),
        escalate_to=tuple(EscalationStage(**stage) for stage in values.get("escalate_to", ())),
    )


def _kind(node: SourceNode) -> RuleKind:
    kinds = [kind for kind in RULE_KINDS if kind in node.fields]
    if not kinds:
        raise node.error("the policy has no rule; expected one of 'temporal', 'solver', 'request' and 'cedar'")
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


_GROUP = Key("role", name, "a string")
_STAGE = Key(
    "escalate_to",
    mapping,
    "a mapping with 'roles', 'quorum' or 'deadline'",
    keys=keys(
        Key("roles", items, "a list of groups", "The groups of approvers who answer; without it, all.", item=_GROUP),
        Key("quorum", _bound, f"a number from 1 to {_MAX_QUORUM}", "How many of them have to agree."),
        Key("deadline", _duration, "a duration such as 10m, up to 30d", "How long they have to answer."),
    ),
)
_RULE = Key(
    "policy",
    _rule,
    "a mapping with 'id' and one of 'temporal', 'solver', 'request' and 'cedar'",
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
        CEDAR,
        Key("program", file, "a Python file", "The guard program of a request.", choices=(".py",)),
        Key("message", plain_text, "a message for people", "The message that people read when the policy is violated."),
        Key(
            "on_violation",
            choice,
            "warn, block, escalate, halt or halt_tool",
            "The response to a violating call; the default is block.",
            choices=(*DECISIONS, HALT_TOOL),
        ),
        _approvals(),
        Key(
            "escalate_to",
            one_or_more,
            "a mapping with 'roles', 'quorum' or 'deadline', or a list of them",
            "Who may approve a violating call; in a list, the next takes over when a deadline passes.",
            item=_STAGE,
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
