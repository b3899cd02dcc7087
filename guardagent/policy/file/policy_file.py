"""Reads a policy file key by key. Rules stay uncompiled strings with their lines.

Reading is all or nothing: an unknown key, a wrong type or a missing file is an error with its line.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from guardagent._support.patterns import PatternError, compile_pattern
from guardagent.errors import ContentError, InputError, name_hint
from guardagent.policy.file.counter_keys import COUNTER, CounterSource, counter_problem
from guardagent.policy.file.declaration_keys import CONSTANTS, DEFINE, DeclaredConstant
from guardagent.policy.file.inclusion_keys import DECISIONS, INCLUDE, Inclusion
from guardagent.policy.file.label_keys import IDS, LABELS, declared_labels
from guardagent.policy.file.policy_keys import (
    Key,
    Schema,
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
    text,
    tool_name,
)
from guardagent.policy.file.solver_keys import SOLVER, SolverSource
from guardagent.policy.file.source_text import SourceText
from guardagent.policy.file.source_tree import SourceNode, SourceScalar, shortened
from guardagent.policy.functions import FUNCTIONS
from guardagent.policy.language.answer_step import ANSWER
from guardagent.policy.language.declarations import Definition
from guardagent.policy.provenance.labels import DeclaredLabels
from guardagent.policy.scope import Scope
from guardagent.types import Decision

MAX_BYTES = 1_000_000
MAX_PROGRAM_BYTES = 10_000_000

RuleKind = Literal["temporal", "solver", "request"]
RULE_KINDS: tuple[RuleKind, ...] = ("temporal", "solver", "request")
_CONTENT: tuple[str, ...] = ("policies", "include", "define", "constants")  # a file has one of them

# The names that rules may write after @: operators of the language are reserved.
_TAG = r"(?!(?:AND|OR|NOT|[UWRSGFXOHY]|true|false)$)[A-Za-z_]\w*(?:[.-]\w+)*"


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


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A policy file, with its included files merged into it. `inclusions.MERGING` says how each field is merged.

    Attributes:
        files: the policy files that were read.
        toolboxes: the toolbox files, by the prefix of their functions.
        tags: the sets of tools that rules write as `@name`.
        labels: the labels of sources.
        tools: the declared tools, each with its argument names, or None for any arguments. None declares no tools.
        counters: the counters across conversations, by name.
        unlisted: the decision on calls that no rule covers; None if the file does not say, which allows them.
        inclusions: the included files that are not merged yet.
        places: the places of names, by key and name.
        path: the file; `text` or `data` without a file.
        digest: a hash of the file and of every file that it refers to.
        shadow: the candidate that judges live calls too.
    """

    path: Path
    files: tuple[Path, ...]
    toolboxes: Mapping[str, tuple[Path, ...]]
    tags: Mapping[str, frozenset[str]]
    constants: Mapping[str, DeclaredConstant]
    definitions: Mapping[str, Definition]
    tools: Mapping[str, tuple[str, ...] | None] | None
    failed_output: str | None
    unlisted: Literal["allow", "deny"] | None
    rules: tuple[RuleSource, ...]
    ignored: tuple[IgnoredFinding, ...]
    inclusions: tuple[Inclusion, ...]
    places: Mapping[tuple[str, str], str]
    digest: str
    labels: DeclaredLabels
    counters: Mapping[str, CounterSource]
    shadow: PolicyFile | None = None

    @property
    def toolbox(self) -> tuple[Path, ...]:
        """All toolbox files."""
        return tuple(dict.fromkeys(path for paths in self.toolboxes.values() for path in paths))

    def place_of(self, key: str, name: str) -> str:
        """The place of a name, for messages."""
        return self.places.get((key, name), str(self.path))


def read_policy_file(path: Path | str, *, is_shadow: bool = False) -> PolicyFile:
    """Reads a policy file and the files that it includes.

    Args:
        path: the file.
        is_shadow: whether it is the candidate of another file, so that it may not have one itself.

    Raises:
        InputError: the file is missing or unreadable.
        ContentError: the content is invalid; with the line and the expected content.
    """
    return _complete(read_single_file(path, is_shadow=is_shadow))


def read_single_file(path: Path | str, *, is_shadow: bool = False) -> PolicyFile:
    """Reads a policy file without the files that it includes.

    Raises:
        InputError: as `read_policy_file`.
    """
    path = Path(path)
    return _parse(_bytes(path, MAX_BYTES), path, path.parent, is_shadow=is_shadow, files=(path,))


def _complete(file: PolicyFile) -> PolicyFile:
    if file.rules and not file.inclusions and not file.constants:
        return file  # as most files; the module below is not loaded for them
    from guardagent.policy.file.inclusions import complete

    return complete(file)


def read_policy_text(text: str, folder: Path | str | None = None) -> PolicyFile:
    """Reads the content of a policy file from a string.

    Raises:
        InputError: as `read_policy_file`; messages begin with `text:line:`.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise ContentError(
            "contains half of a surrogate pair; expected complete characters",
            "text",
            text.count("\n", 0, error.start) + 1,
        ) from None
    return _complete(_parse(_check_size(data, MAX_BYTES, Path("text")), Path("text"), _folder(folder)))


def read_policy_data(data: Mapping[str, Any], folder: Path | str | None = None) -> PolicyFile:
    """Reads a mapping with the keys of a policy file. The digest is that of its canonical JSON.

    Raises:
        InputError: as `read_policy_file`; messages begin with the path of keys.
    """
    from guardagent.policy.file.mapping_reader import nodes_of

    node = nodes_of(data, _folder(folder))
    return _complete(_policy_file(node, json.dumps(node.plain, sort_keys=True).encode(), Path("data")))


def _folder(folder: Path | str | None) -> Path | None:
    return None if folder is None else Path(folder)


def _parse(
    data: bytes, path: Path, folder: Path | None, *, is_shadow: bool = False, files: tuple[Path, ...] = ()
) -> PolicyFile:
    from guardagent.policy.file.yaml_reader import parse

    node = parse(data, path, folder)
    if node is None or node.plain is None:
        raise ContentError("contains no policies; expected 'version: 1' and 'policies:'", path, 1)
    if is_shadow and "shadow" in node.fields:
        raise node.fields["shadow"].error("'shadow' in the candidate of another policy; expected it only in that one")
    return _policy_file(node, data, path, files)


def _policy_file(node: SourceNode, data: bytes, path: Path, files: tuple[Path, ...] = ()) -> PolicyFile:
    values = _file(node, POLICY_FILE)
    _check_tools(node, values)
    _check_names(node, values)
    groups = values.get("tags", {})
    shadow = _shadow(node, values.get("shadow"))
    return PolicyFile(
        path=path,
        files=files,
        toolboxes=MappingProxyType({"": values["toolbox"]} if "toolbox" in values else {}),
        tags=MappingProxyType({group: frozenset(tool.text for tool in tools) for group, tools in groups.items()}),
        constants=MappingProxyType(values.get("constants", {})),
        definitions=MappingProxyType(values.get("define", {})),
        tools=values.get("tools"),
        failed_output=values.get("failed_output"),
        unlisted=values.get("unlisted"),
        rules=values.get("policies", ()),
        ignored=values.get("ignore", ()),
        inclusions=values.get("include", ()),
        places=MappingProxyType(dict(_places(node))),
        digest=_digest(data, values, b"" if shadow is None else shadow.digest.encode()),
        shadow=shadow,
        labels=declared_labels(values),
        counters=MappingProxyType(values.get("counters", {})),
    )


def _shadow(node: SourceNode, path: Path | None) -> PolicyFile | None:
    """Reads the candidate of `shadow:`, which may not have one itself."""
    if path is None:
        return None
    if path.resolve() == node.path.resolve():
        raise node.fields["shadow"].error("'shadow' is this file itself; expected another policy file")
    candidate = read_policy_file(path, is_shadow=True)
    models = [rule for rule in candidate.rules if rule.kind == "request" and rule.program is None]
    if models:
        raise ContentError("a shadow calls no model; expected 'program:' beside 'request'", path, models[0].line)
    return candidate


def _bytes(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as stream:
            data = stream.read(limit + 1)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; expected a policy file, or a file that it refers to") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}; expected a readable file") from None
    return _check_size(data, limit, path)


def _check_size(data: bytes, limit: int, path: Path) -> bytes:
    if len(data) > limit:
        raise ContentError(f"has more than {limit:,} bytes; split the file", path, 1)
    return data


def _digest(data: bytes, values: Mapping[str, Any], shadow: bytes) -> str:
    """Hashes each file after its length, so that no content can move from one file into the next."""
    digest = hashlib.sha256()
    parts = (data, *(_bytes(path, MAX_PROGRAM_BYTES) for path in _referenced_files(values)), *filter(None, [shadow]))
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def _referenced_files(values: Mapping[str, Any]) -> Iterator[Path]:
    yield from values.get("toolbox", ())
    for rule in values.get("policies", ()):
        yield from filter(None, (rule.program, rule.solver and rule.solver.smt_file))


def _check_tools(node: SourceNode, values: Mapping[str, Any]) -> None:
    """Requires tags and solver rules to use declared tools. Temporal rules are checked when they are compiled."""
    known = values.get("tools")
    if known is None:
        return
    for tools in values.get("tags", {}).values():
        for tool in tools:
            if tool.text not in known and tool.text != ANSWER:
                raise tool.error(_unknown_tool(tool.text, known))
    for tool, place in _solver_tools(node):
        if tool not in known and tool != ANSWER:
            raise place.error(_unknown_tool(tool, known))


def _unknown_tool(tool: str, known: Mapping[str, Any]) -> str:
    return f"unknown tool {shortened(tool)!r}: not declared in 'tools:'{name_hint(tool, known)}"


def _solver_tools(node: SourceNode) -> Iterator[tuple[str, SourceNode]]:
    rules = node.fields.get("policies")
    for rule in rules.items if rules else ():
        if solver := rule.fields.get("solver"):
            yield from solver.fields["tools"].fields.items()


def _places(node: SourceNode) -> Iterator[tuple[tuple[str, str], str]]:
    """The place of each name that the file declares."""
    for key, names in node.fields.items():
        for one, value in names.fields.items():
            yield (key, one.partition("(")[0].strip()), _place_of(value)


def _place_of(node: SourceNode) -> str:
    return f"{node.path}:{node.key_line}" if node.key_line else str(node.path)


def _check_names(node: SourceNode, values: Mapping[str, Any]) -> None:
    """Requires constants, definitions and their parameters to have different names."""
    constants, definitions = values.get("constants", {}), values.get("define", {})
    for definition in definitions.values():
        for one in (definition.name, *definition.parameters):
            if one in constants or (one != definition.name and one in definitions):
                place = _places_of_definitions(node)[definition.name]
                raise place.error(f"{one!r} is already a {'constant' if one in constants else 'definition'}")
        if definition.name in FUNCTIONS.shipped():
            place = _places_of_definitions(node)[definition.name]
            raise place.error(f"{definition.name!r} is a function of the language; choose another name")


def _places_of_definitions(node: SourceNode) -> Mapping[str, SourceNode]:
    return {name.partition("(")[0].strip(): one for name, one in node.fields["define"].fields.items()}


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


@reads(lambda key: {"oneOf": [items.schema(key), by_tool.schema(replace(key, item=ARGUMENTS))]})
def _tools(node: SourceNode, key: Key) -> Mapping[str, tuple[str, ...] | None]:
    if node.items:
        return MappingProxyType({tool.text: None for tool in items(node, key)})
    return MappingProxyType(by_tool(node, replace(key, item=ARGUMENTS)))


@reads(lambda key: items.schema(key) | {"type": ["array", "null"], "minItems": 0})
def _arguments(node: SourceNode, key: Key) -> tuple[str, ...] | None:
    if isinstance(node.value, SourceScalar) and node.value.value is None:
        return None
    return items(node, key) if node.value else ()


@reads(text.schema)
def _regular_expression(node: SourceNode, key: Key) -> str:
    found = text(node, key)
    try:
        compile_pattern(found.text)
    except PatternError as error:
        raise found.error(
            f"{key.name!r} is not a valid regular expression: {shortened(str(error))}; expected RE2 syntax"
        ) from None
    return found.text


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
        location=_location(node),
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


@reads(mapping.schema)
def _ignored(node: SourceNode, key: Key) -> IgnoredFinding:
    values = mapping(node, key)
    return IgnoredFinding(
        values["check"],
        values.get("node"),
        values["reason"],
        _location(node),
    )


def _location(node: SourceNode) -> str:
    return f"{node.path}:{node.line}" if node.line else str(node.path)


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


TOOL = Key("tool", tool_name, "the name of a tool")
ARGUMENTS: Key = Key(
    "arguments",
    _arguments,
    "a list of argument names, or nothing to allow any arguments",
    item=Key("argument", name, "the name of an argument"),
)
RULE = Key(
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
            item=Key("tag", items, "a list of tools", item=TOOL),
        ),
        Key(
            "tools",
            _tools,
            "a list of tools, or a mapping of tools to lists of their arguments",
            "The tools that exist. A mapping also declares their argument names, which are then checked.",
            item=TOOL,
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
            _regular_expression,
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
        Key(
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
        ),
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
        Key("policies", _rules, "a list of policies", "The rules.", item=RULE),
    ),
)
"""The keys of a policy file at every level. `policy_schema` generates the JSON Schema for editors from them."""
