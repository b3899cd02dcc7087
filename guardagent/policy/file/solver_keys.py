"""Reads the value of `solver:` in a policy file: SMT-LIB 2 text, and the predicate that permits each tool's calls.

The SMT-LIB text and the expressions stay strings with their lines; `solver/` compiles them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from guardagent.policy.file.policy_keys import (
    Key,
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
    reads,
    text,
    value,
)
from guardagent.policy.file.source_text import SourceText
from guardagent.policy.file.source_tree import SourceNode, SourceScalar


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
        found = "both" if "smt" in node.fields else "neither"
        raise node.error(f"'solver' has {found} of 'smt' and 'smt_file'; expected one of them")
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
