"""What stands under `solver:` in a policy file: SMT-LIB 2 text, and for each tool what permits a call of it.

Read key by key and located; the texts themselves are read in `solver/`.
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
        sort: the name of its sort; None where the SMT-LIB text declares it.
        enum: the values that it may have; None where it may have any of its sort.
        source: the expression that gives its value.
        required: whether a call is denied while its value is not known.
        free: whether a value that is not known may be whichever permits the call.
    """

    sort: SourceText | None
    enum: tuple[str | int | float | bool, ...] | None
    source: SourceText | None
    required: bool
    free: bool
    place: SourceText


@dataclass(frozen=True, slots=True)
class GovernedTool:
    """What permits a call of a tool."""

    permit: SourceText
    variables: Mapping[str, VariableSource]


@dataclass(frozen=True, slots=True)
class SolverSource:
    """A solver rule, as its file has it: `smt` or `smt_file`, and the tools it governs."""

    smt: SourceText | None
    smt_file: Path | None
    tools: Mapping[str, GovernedTool]


def _start_of(node: SourceNode) -> SourceText:
    """Where a mapping begins, to locate errors of it."""
    return SourceText("", node.path, node.key_line or node.line)


@reads(lambda key: {"anyOf": [text.schema(key), flag.schema(key)]})
def _predicate(node: SourceNode, key: Key) -> SourceText:
    """SMT-LIB's `true` and `false` are YAML's too."""
    if isinstance(node.value, SourceScalar) and isinstance(node.value.value, bool):
        return SourceText("true" if node.value.value else "false", node.path, node.line)
    return text(node, key)


@reads(lambda key: mapping.schema(key) | {"anyOf": [{"required": [name]} for name in ("from", "free")]})
def _variable(node: SourceNode, key: Key) -> VariableSource:
    values = mapping(node, key)
    free = "free" in values
    if free and values.get("required") is True:
        raise node.error("`free: any` beside `required: true`; expected one of them: what is required is never free")
    if "from" not in values and not free:
        raise node.error(
            "a variable without `from`, which would never be known; expected an expression such as args.amount, "
            "fact(user_confirmed), state(hours_since_booking(args.id)) or conversation(user)"
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
        raise node.error(f"`solver` has {found} of `smt` and `smt_file`; expected one of them")
    values = mapping(node, key)
    return SolverSource(values.get("smt"), values.get("smt_file"), MappingProxyType(values["tools"]))


VARIABLE = Key(
    "variable",
    _variable,
    "a mapping of what it is and where it comes from",
    keys=keys(
        Key("sort", line, "the name of a sort", "Its SMT-LIB sort."),
        Key(
            "enum",
            items,
            "a list of its values",
            "The values it may have.",
            item=Key("value", value, "a text, a number or a boolean"),
        ),
        Key("from", text, "an expression", "The expression that gives its value."),
        Key("required", flag, "true or false", "Whether the call is denied while it is unknown; true where not said."),
        Key("free", choice, "any", "The paper's reading: it may take whichever value permits.", choices=("any",)),
    ),
)
GOVERNED = Key(
    "tool",
    _governed,
    "a mapping with `permit` and `variables`",
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
            "a mapping of the names of variables; {} where a call is permitted whatever is known",
            "The values that the predicate is about; {} where the call is permitted whatever is known.",
            required=True,
            item=VARIABLE,
        ),
    ),
)
SOLVER = Key(
    "solver",
    _solver,
    "a mapping with `smt` or `smt_file`, and `tools`",
    "SMT-LIB constraints, and the tools they govern.",
    keys=keys(
        Key("smt", text, "SMT-LIB 2 text", "SMT-LIB 2 text."),
        Key("smt_file", file, "a file with SMT-LIB 2 text", "A file with SMT-LIB 2 text, relative to this file."),
        Key(
            "tools", by_tool, "a mapping of the tools it governs", "The tools it governs.", required=True, item=GOVERNED
        ),
    ),
)
