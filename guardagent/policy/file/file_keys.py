"""The keys at the top of a policy file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from guardagent.policy.file.constants import CONSTANTS
from guardagent.policy.file.counter_keys import COUNTER, CounterSource, counter_problem
from guardagent.policy.file.definition_keys import DEFINE
from guardagent.policy.file.inclusion_keys import INCLUDE
from guardagent.policy.file.label_keys import IDS, LABELS
from guardagent.policy.file.policy_keys import (
    Key,
    by_name,
    by_tool,
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
    regular_expression,
    tool_name,
)
from guardagent.policy.file.rule_keys import POLICIES
from guardagent.policy.file.source_text import SourceText
from guardagent.policy.file.source_tree import SourceNode, SourceScalar, shortened

_CONTENT: tuple[str, ...] = ("policies", "include", "define", "constants")  # a file has one of them


# The names that rules may write after @: operators of the language are reserved.
_TAG = r"(?!(?:AND|OR|NOT|[UWRSGFXOHY]|true|false)$)[A-Za-z_]\w*(?:[.-]\w+)*"


@dataclass(frozen=True, slots=True)
class IgnoredFinding:
    """A finding of `verify` that the author of the policy accepts.

    Attributes:
        check: the check that reports it.
        node: the node id; None for a finding about the whole graph.
        place: its entry in the policy file.
    """

    check: str
    node: str | None
    reason: str
    place: str


@reads(lambda _: {"const": 1})
def _version(node: SourceNode, key: Key) -> int:
    # True == 1, and so is 1.0.
    if isinstance(node.value, SourceScalar) and type(node.value.value) is int and node.value.value == 1:
        return 1
    quoted = "; write it without quotes" if isinstance(node.value, SourceText) and node.value.text == "1" else ""
    raise key.mismatch(node, quoted)


@reads(lambda key: by_name.schema(key) | {"propertyNames": {"pattern": f"^{_TAG}$"}})
def _tags(node: SourceNode, key: Key) -> dict[str, tuple[SourceText, ...]]:
    groups = by_name(node, key)
    for group, tools in node.fields.items():
        if not re.fullmatch(_TAG, group):
            expected = "letters, digits, '_', '.' and '-', without '@'; operators of the language are reserved"
            raise tools.error(f"{shortened(group)!r} is not a valid tag; expected {expected}")
    return groups


@reads(lambda key: by_name.schema(key) | {"propertyNames": {"pattern": r"^[A-Za-z_]\w*$"}})
def _counters(node: SourceNode, key: Key) -> dict[str, CounterSource]:
    for counter, place in node.fields.items():
        if problem := counter_problem(counter):
            raise place.error(problem)
    return by_name(node, key)


@reads(lambda key: {"oneOf": [items.schema(key), by_tool.schema(replace(key, item=_ARGUMENTS))]})
def _tools(node: SourceNode, key: Key) -> Mapping[str, tuple[str, ...] | None]:
    if node.items:
        return MappingProxyType({tool.text: None for tool in items(node, key)})
    return MappingProxyType(by_tool(node, replace(key, item=_ARGUMENTS)))


@reads(lambda key: items.schema(key) | {"type": ["array", "null"], "minItems": 0})
def _arguments(node: SourceNode, key: Key) -> tuple[str, ...] | None:
    if isinstance(node.value, SourceScalar) and node.value.value is None:
        return None
    return items(node, key) if node.value else ()


@reads(mapping.schema)
def _ignored(node: SourceNode, key: Key) -> IgnoredFinding:
    values = mapping(node, key)
    return IgnoredFinding(values["check"], values.get("node"), values["reason"], node.location)


_TOOL = Key("tool", tool_name, "the name of a tool")


_ARGUMENTS: Key = Key(
    "arguments",
    _arguments,
    "a list of argument names, or nothing to allow any arguments",
    item=Key("argument", name, "the name of an argument"),
)


_IGNORE = Key(
    "ignore",
    items,
    "a list of accepted findings of verify",
    "Accepted findings of verify.",
    item=Key(
        "finding",
        _ignored,
        "a mapping with 'check', 'reason' and, for a finding about one node, 'node'",
        keys=keys(
            Key(
                "check",
                name,
                "the name of a check, such as dead-end",
                "The check, such as dead-end.",
                required=True,
            ),
            Key(
                "node",
                name,
                "the id of a node",
                "The id of the node; leave it out for a finding about the whole graph.",
            ),
            Key(
                "reason",
                plain_text,
                "the reason as a string",
                "The reason for accepting the finding.",
                required=True,
            ),
        ),
    ),
)


@reads(lambda key: mapping.schema(key) | {"anyOf": [{"required": [one]} for one in _CONTENT]})
def _file(node: SourceNode, key: Key) -> dict[str, Any]:
    check_keys(node, key)
    if not any(one in node.fields for one in _CONTENT):
        raise node.error("key 'policies' is missing in the file; expected a list of policies")
    return mapping(node, key)


POLICY_FILE = Key(
    "the file",
    _file,
    "a mapping with 'version: 1' and 'policies:'",
    "The rules for an agent. Loading the file also checks for duplicate ids and compiles each rule.",
    keys=keys(
        Key("version", _version, "the number 1", "The version of this format.", required=True),
        Key(
            "toolbox",
            one_or_more,
            "a Python file, or a list of them",
            "Python files whose functions rules may call, relative to this file.",
            item=Key("toolbox", file, "a Python file", choices=(".py",)),
        ),
        Key(
            "tags",
            _tags,
            "a mapping of names to lists of tools",
            "Names for sets of tools; rules write them as @name.",
            item=Key("tag", items, "a list of tools", item=_TOOL),
        ),
        Key(
            "tools",
            _tools,
            "a list of tools, or a mapping of tools to lists of their arguments",
            "The tools that exist. A mapping also declares their argument names, which are then checked.",
            item=_TOOL,
        ),
        LABELS,
        IDS,
        Key(
            "counters",
            _counters,
            "a mapping of names to counters",
            "Counts and sums of calls across conversations; rules write them as counter(NAME, KEY).",
            item=COUNTER,
        ),
        Key(
            "failed_output",
            regular_expression,
            "a regular expression",
            "A regular expression (RE2): in logs, a call failed if its output matches.",
        ),
        Key(
            "unlisted",
            choice,
            "allow or deny",
            "The decision on calls that no rule covers; the default is allow.",
            choices=("allow", "deny"),
        ),
        _IGNORE,
        Key(
            "shadow",
            file,
            "a policy file",
            "A candidate, relative to this file, that judges live calls too. Differences are logged, without effect.",
            choices=(".yaml", ".yml"),
        ),
        INCLUDE,
        CONSTANTS,
        DEFINE,
        POLICIES,
    ),
)
