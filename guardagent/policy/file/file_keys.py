"""The keys at the top of a policy file, and the JSON Schema that is generated from them.

Three sections of a file have their own readers here: `labels:`, the names of sources, `ids:`, the expressions for ids,
and `views:`, the views of calls. Editors use the copy of the schema next to this file. After a change of a key, run:

    python -m guardagent.policy.file.file_keys > guardagent/policy/file/policy.schema.json

`effects:`, what calls of a tool do, and `require:`, what calls with an effect need, become what a file could also
write: a tag for each effect, and a rule for each requirement.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from types import MappingProxyType
from typing import Any

from guardagent._support.syntax import PatternError, compile_pattern
from guardagent.errors import InputError, name_hint
from guardagent.policy.dispatch import Dispatch
from guardagent.policy.file.constants import CONSTANTS, DEFINE
from guardagent.policy.file.inclusion_keys import INCLUDE
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
    mapping,
    name,
    one_or_more,
    plain_text,
    reads,
    regular_expression,
    text,
    tool_name,
)
from guardagent.policy.file.rule_keys import COUNTER, POLICIES, TIMEOUTS, CounterSource, RuleSource, counter_problem
from guardagent.policy.file.source_tree import SourceNode, SourceScalar, SourceText, shortened
from guardagent.policy.provenance.readers import MODEL, DeclaredLabels, InvalidSourceError, LabelCondition, LabelSource
from guardagent.policy.views import CallView
from guardagent.types import Decision

# --- effects

LEVELS = ("read", "reversible", "irreversible")
"""The effects, the worst one last."""

_NEEDS = {"approval": (Decision.ESCALATE, "needs approval"), "deny": (Decision.DENY, "is not allowed")}

EFFECTS = Key(
    "effects",
    by_tool,
    "a mapping of tools to read, reversible or irreversible",
    "What calls of a tool do. Rules write the tools with an effect as @read, @reversible and @irreversible.",
    item=Key("effect", choice, "read, reversible or irreversible", choices=LEVELS),
)
REQUIRE = Key(
    "require",
    mapping,
    "a mapping of effects to approval or deny",
    "What calls with an effect need. It holds for a worse one without a requirement, too. Every tool needs an effect.",
    keys=keys(*(Key(level, choice, "approval or deny", f"For {level} calls.", choices=(*_NEEDS,)) for level in LEVELS)),
)


def worst_effect(effects: Mapping[str, str], tools: Iterable[str]) -> str | None:
    """Returns the worst effect of some tools; None without tools, or without effects of any tool.

    A tool without an effect counts as irreversible.
    """
    if not effects:
        return None
    return max((effects.get(tool, LEVELS[-1]) for tool in tools), key=LEVELS.index, default=None)


def worst_of(both: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Returns the effects of several files: of each tool the worst one."""
    worst: dict[str, str] = {}
    for effects in both:
        for tool, effect in effects.items():
            worst[tool] = max(effect, worst.get(tool, effect), key=LEVELS.index)
    return worst


def expanded(node: SourceNode, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of a file with the tags and rules that `effects` and `require` stand for.

    Raises:
        ContentError: a tag has the name of an effect, or `require` is there and a declared tool has no effect.
    """
    effects, required = values.get("effects", {}), values.get("require", {})
    if not effects and not required:
        return dict(values)
    if not effects:
        raise node.fields["require"].error("'require' without 'effects'; expected the effect of each tool")
    tags = dict(values.get("tags", {}))
    for level in LEVELS:
        if level in tags:
            raise (
                node.fields["tags"].fields[level].error(f"the tag {level!r} comes from 'effects'; give it another name")
            )
        if names := tuple(_name(node, tool) for tool, effect in effects.items() if effect == level):
            tags[level] = names
    tools = values.get("tools")
    if required and tools is None:
        tools = dict.fromkeys(effects)
    for tool in tools or () if required else ():
        if tool not in effects:
            problem = f"the tool {shortened(tool)!r} has no effect; expected one in 'effects'{name_hint(tool, effects)}"
            raise node.fields["require"].error(problem)
    rules = (*values.get("policies", ()), *_rules(node, required, tags))
    return {**values, "tags": tags, "policies": rules, **({} if tools is None else {"tools": tools})}


def _name(node: SourceNode, tool: str) -> SourceText:
    place = node.fields["effects"].fields[tool]
    return SourceText(tool, place.path, place.line)


def _rules(node: SourceNode, required: Mapping[str, str], tags: Mapping[str, Any]) -> Iterable[RuleSource]:
    for level, need in required.items():
        place, (decision, what) = node.fields["require"].fields[level], _NEEDS[need]
        others = takewhile(lambda worse: worse not in required, LEVELS[LEVELS.index(level) + 1 :])
        covered = [f"@{covers}" for covers in (level, *others) if covers in tags]
        if not covered:
            continue
        yield RuleSource(
            id=f"require_{level}",
            kind="temporal",
            statements=tuple(SourceText(f"G(NOT {tag})", place.path, place.line) for tag in covered),
            solver=None,
            program=None,
            message=f"a call that is {level} or worse {what}" if len(covered) > 1 else f"a call that is {level} {what}",
            on_violation=decision,
            remedy=None,
            line=place.line,
            location=place.location,
            applies_to=None,
            path=node.path,
        )


_LABEL = r"(?!(?:AND|OR|NOT|in|matches|true|false|True|False|model)$)[A-Za-z_]\w*"
_EXPECTED = "a tool, 'TOOL.field', 'TOOL[*].field', '@tag', 'request', 'messages.ROLE' or 'fact.NAME'"


# --- labels and ids


@dataclass(frozen=True, slots=True)
class WrittenLabel:
    """A label as written: its sources with their places, whether it propagates, and the condition on each item."""

    sources: tuple[tuple[LabelSource, SourceText], ...]
    propagate: bool = False
    when: SourceText | None = None


@reads(text.schema)
def _source(node: SourceNode, key: Key) -> tuple[LabelSource, SourceText]:
    written = text(node, key)
    try:
        return LabelSource.read(written.text), written
    except InvalidSourceError:
        raise written.error(f"{shortened(written.text)!r} is not a source; expected {_EXPECTED}") from None


_SOURCES = Key(
    "label",
    one_or_more,
    "a source, a list of sources, or a mapping with 'from'",
    item=Key("source", _source, _EXPECTED),
)
_FULL_FORM = Key(
    "label",
    mapping,
    "a mapping with 'from'",
    keys=keys(
        Key("from", one_or_more, "a source, or a list of them", "The sources.", required=True, item=_SOURCES.item),
        Key("propagate", flag, "true or false", "Whether a tool passes the label from its arguments to its output."),
        Key(
            "when",
            text,
            "a condition over the fields of the output, such as 'sender in state.contacts'",
            "Which outputs, or items of their lists, have the label. If it is unknown, the label is uncertain.",
        ),
    ),
)


@reads(lambda _: {"oneOf": [*_SOURCES.schema["oneOf"], _FULL_FORM.schema]})
def _label(node: SourceNode, _: Key) -> WrittenLabel:
    if isinstance(node.value, dict):
        values = mapping(node, _FULL_FORM)
        label = WrittenLabel(values["from"], values.get("propagate", False), values.get("when"))
        for source, place in label.sources if label.when is not None else ():
            if source.kind != "tool":
                raise place.error(f"{shortened(place.text)!r} has no fields for 'when'; expected outputs of a tool")
        return label
    return WrittenLabel(one_or_more(node, _SOURCES))


@reads(lambda key: by_name.schema(key) | {"propertyNames": {"pattern": f"^{_LABEL}$"}})
def _labels(node: SourceNode, key: Key) -> dict[str, WrittenLabel]:
    written_labels: dict[str, WrittenLabel] = by_name(node, key)
    for label, place in node.fields.items():
        if label == MODEL:
            raise place.error(
                f"the label {MODEL!r} is built in: it marks what nothing else has seen; choose another name"
            )
        if not re.fullmatch(_LABEL, label):
            raise place.error(f"{shortened(label)!r} is not a valid label; expected letters, digits and '_'")
    return written_labels


@reads(text.schema)
def _id(node: SourceNode, key: Key) -> str:
    written = text(node, key)
    try:
        empty = compile_pattern(written.text).fullmatch("") is not None
    except PatternError as error:
        problem = f"is not a valid regular expression: {shortened(str(error))}; expected RE2 syntax"
        raise written.error(f"{shortened(written.text)!r} {problem}") from None
    if empty:
        raise written.error(f"{shortened(written.text)!r} matches an empty string; expected the form of an id")
    return written.text


LABELS = Key(
    "labels",
    _labels,
    "a mapping of labels to their sources",
    "Labels for the sources of values, which rules read with sources(x), seen(label) and flow(label -> ...).",
    item=Key("label", _label, _SOURCES.expected),
)
IDS = Key(
    "ids",
    one_or_more,
    "a regular expression, or a list of them",
    "Regular expressions (RE2) for ids, which sources(x) finds inside longer strings.",
    item=Key("id", _id, "a regular expression"),
)


def declared_labels(values: Mapping[str, Any]) -> DeclaredLabels:
    """The labels of a policy file, with the tools of each tag.

    Raises:
        ContentError: a source names a tool or a tag that does not exist.
    """
    written: Mapping[str, WrittenLabel] = values.get("labels", {})
    sources = {
        label: tuple(
            replace(label_source, when=None if of.when is None else LabelCondition(of.when))
            for source, place in of.sources
            for label_source in _expanded(source, place, values)
        )
        for label, of in written.items()
    }
    propagating = frozenset(label for label, of in written.items() if of.propagate)
    return DeclaredLabels(sources, propagating, values.get("ids", ()))


def _expanded(source: LabelSource, place: SourceText, values: Mapping[str, Any]) -> Iterator[LabelSource]:
    tools, tags = values.get("tools"), values.get("tags", {})
    if source.name.startswith("@") and source.kind == "tool":
        tag = next((prefix for prefix in reversed(_prefixes(source.name[1:])) if prefix in tags), None)
        if tag is None:
            name = _prefixes(source.name[1:])[0]
            raise place.error(f"unknown tag {shortened(name)!r}{name_hint(name, tags)}")
        yield from (replace(source, name=f"{tool.text}{source.name[1 + len(tag) :]}", tag=tag) for tool in tags[tag])
        return
    if source.kind == "tool" and tools is not None and not any(tool in tools for tool in source.tools):
        name = source.tools[0]
        raise place.error(f"unknown tool {shortened(name)!r}: not declared in 'tools:'{name_hint(name, tools)}")
    yield source


def _prefixes(name: str) -> tuple[str, ...]:
    return LabelSource("tool", name).tools


# --- views of calls


_PATH: Schema = {"type": "string", "pattern": r"^(args|facts|outputs\.)"}
_PATHS: Schema = {"type": "array", "items": _PATH, "minItems": 2, "maxItems": 2}
_DRAWN: Schema = {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": False}


@reads(lambda key: {"oneOf": [text.schema(key), _DRAWN | {"properties": {"diff": _PATHS, "table": _PATH}}]})
def _view(node: SourceNode, _: Key) -> CallView:
    try:
        return CallView.read(node.plain)
    except InputError as error:
        raise node.error(str(error)) from None


VIEWS = Key(
    "views",
    by_tool,
    "a mapping of tools to views",
    "Views of calls for reviewers, shown after the arguments: a text with placeholders, a diff, or a table.",
    item=Key("view", _view, "a view"),
)

# --- tools that call other tools

_DISPATCH_KEYS = keys(
    Key("tool", name, "the name of an argument", "The argument with the name of the inner tool.", required=True),
    Key(
        "arguments",
        name,
        "the name of an argument",
        "The argument with its arguments: a mapping, or JSON text. Without it they are the other arguments.",
    ),
    Key("nested", flag, "true or false", "Whether the inner tool may be one of these tools itself, once."),
)


@reads(mapping.schema)
def _dispatch(node: SourceNode, key: Key) -> Dispatch:
    return Dispatch(**mapping(node, key))


DISPATCH = Key(
    "dispatch",
    by_tool,
    "a mapping of tools to the arguments that name the inner call",
    "Tools that call other tools, such as a gateway. Rules see the inner call instead.",
    item=Key("dispatch", _dispatch, "a mapping with 'tool' and 'arguments'", keys=_DISPATCH_KEYS),
)

# --- the file

_CONTENT: tuple[str, ...] = ("policies", "include", "define", "constants", "require")  # a file has one of them


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
            Key("check", name, "the name of a check, such as dead-end", "The check, such as dead-end.", required=True),
            Key(
                "node",
                name,
                "the id of a node",
                "The id of the node; leave it out for a finding about the whole graph.",
            ),
            Key("reason", plain_text, "the reason as a string", "The reason for accepting the finding.", required=True),
        ),
    ),
)


@reads(lambda key: mapping.schema(key) | {"anyOf": [{"required": [content_key]} for content_key in _CONTENT]})
def _file(node: SourceNode, key: Key) -> dict[str, Any]:
    check_keys(node, key)
    if not any(content_key in node.fields for content_key in _CONTENT):
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
        DISPATCH,
        EFFECTS,
        REQUIRE,
        TIMEOUTS,
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
        VIEWS,
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


def policy_schema() -> Schema:
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "GuardAgent policy file"}
    return head | POLICY_FILE.schema


if __name__ == "__main__":
    sys.stdout.write(json.dumps(policy_schema(), indent=2) + "\n")
