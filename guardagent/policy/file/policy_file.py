"""Reads a policy file key by key. Rules stay uncompiled strings with their lines.

Reading is all or nothing: an unknown key, a wrong type or a missing file is an error with its line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from guardagent.errors import ContentError, InputError, name_hint
from guardagent.policy.dispatch import Dispatch
from guardagent.policy.file.constants import DeclaredConstant
from guardagent.policy.file.file_keys import POLICY_FILE, IgnoredFinding, declared_labels, expanded
from guardagent.policy.file.inclusion_keys import Inclusion
from guardagent.policy.file.rule_keys import CounterSource, RuleSource
from guardagent.policy.file.source_tree import SourceNode, shortened
from guardagent.policy.functions import rule_functions
from guardagent.policy.language import ANSWER, ANSWER_TEXT, RENAME_ANSWER
from guardagent.policy.language.declarations import Definition
from guardagent.policy.provenance.readers import DeclaredLabels
from guardagent.policy.views import CallView
from guardagent.types import EMPTY

MAX_BYTES = 1_000_000
MAX_PROGRAM_BYTES = 10_000_000


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
        views: the views of calls for reviewers, by tool.
        dispatch: the tools that call others, by name.
        effects: what calls of a tool do, by tool; see `effect_keys`.
        timeouts: how many seconds a call may run, by tool or by tag with `@`.
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
    views: Mapping[str, CallView] = field(default_factory=lambda: EMPTY)
    dispatch: Mapping[str, Dispatch] = field(default_factory=lambda: EMPTY)
    effects: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    timeouts: Mapping[str, float] = field(default_factory=lambda: EMPTY)

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
    if file.rules and not (file.inclusions or file.constants or file.timeouts):
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
    from guardagent.policy.file.yaml_reader import nodes_of

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
    values = expanded(node, POLICY_FILE.read(node, POLICY_FILE))
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
        views=MappingProxyType(values.get("views", {})),
        dispatch=MappingProxyType(values.get("dispatch", {})),
        effects=MappingProxyType(values.get("effects", {})),
        timeouts=MappingProxyType(values.get("timeouts", {})),
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
        raise ContentError(f"has more than {limit:,} bytes; expected a policy, not a log; split a larger one", path, 1)
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
        yield from rule.files


def _check_tools(node: SourceNode, values: Mapping[str, Any]) -> None:
    """Requires tags, solver rules and views to use declared tools. Compiling checks temporal rules."""
    known = values.get("tools")
    if known is None:
        return
    if known.get(ANSWER) not in (None, (ANSWER_TEXT,)):
        problem = f"{ANSWER!r} is reserved for the final answer, with the argument {ANSWER_TEXT!r}; {RENAME_ANSWER}"
        raise node.fields["tools"].error(problem)
    for tools in values.get("tags", {}).values():
        for tool in tools:
            if tool.text not in known and tool.text != ANSWER:
                raise tool.error(_unknown_tool(tool.text, known))
    for tool, place in [*_solver_tools(node), *(node.fields["views"].fields.items() if "views" in values else ())]:
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
        for name, value in names.fields.items():
            yield (key, name.partition("(")[0].strip()), value.key_location


def _check_names(node: SourceNode, values: Mapping[str, Any]) -> None:
    """Requires constants, definitions and their parameters to have different names."""
    constants, definitions = values.get("constants", {}), values.get("define", {})
    for definition in definitions.values():
        for parameter in (definition.name, *definition.parameters):
            if parameter in constants or (parameter != definition.name and parameter in definitions):
                place = _places_of_definitions(node)[definition.name]
                raise place.error(
                    f"{parameter!r} is already a {'constant' if parameter in constants else 'definition'}"
                )
        if definition.name == "pending" or definition.name in rule_functions():
            place = _places_of_definitions(node)[definition.name]
            raise place.error(f"{definition.name!r} is a function of the language; choose another name")


def _places_of_definitions(node: SourceNode) -> Mapping[str, SourceNode]:
    return {name.partition("(")[0].strip(): field for name, field in node.fields["define"].fields.items()}


"""The keys of a policy file at every level. `policy_schema` generates the JSON Schema for editors from them."""
