"""Reads a policy file key by key, and the files that it includes. Rules stay uncompiled strings with their lines.

Reading is all or nothing: an unknown key, a wrong type or a missing file is an error with its line. Included files are
merged into the including one, and a lock file pins the files that were read.

Each included file keeps its own names: ids, tags, constants, definitions and functions get the prefix of its entry, and
its rules find their names under that prefix only. So a rule means the same alone and included.
"""

from __future__ import annotations

import hashlib
import json
from collections import ChainMap
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from guardagent.errors import ContentError, InputError, name_hint
from guardagent.policy.dispatch import Dispatch
from guardagent.policy.file.constants import DeclaredConstant, set_constants
from guardagent.policy.file.file_keys import POLICY_FILE, IgnoredFinding, declared_labels, expanded, worst_of
from guardagent.policy.file.inclusion_keys import Inclusion
from guardagent.policy.file.rule_keys import CounterSource, RuleSource
from guardagent.policy.file.source_tree import SourceNode, shortened
from guardagent.policy.functions import rule_functions
from guardagent.policy.language import ANSWER, ANSWER_TEXT, RENAME_ANSWER
from guardagent.policy.language.declarations import Definition
from guardagent.policy.provenance.readers import DeclaredLabels, LabelSource
from guardagent.policy.views import CallView
from guardagent.types import EMPTY

if TYPE_CHECKING:
    from guardagent.programs.lock import Content

# --- one file

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
    return complete(read_single_file(path, is_shadow=is_shadow))


def read_single_file(path: Path | str, *, is_shadow: bool = False) -> PolicyFile:
    """Reads a policy file without the files that it includes.

    Raises:
        InputError: as `read_policy_file`.
    """
    path = Path(path)
    return _parse(_bytes(path, MAX_BYTES), path, path.parent, is_shadow=is_shadow, files=(path,))


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
    return complete(_parse(_check_size(data, MAX_BYTES, Path("text")), Path("text"), _folder(folder)))


def read_policy_data(data: Mapping[str, Any], folder: Path | str | None = None) -> PolicyFile:
    """Reads a mapping with the keys of a policy file. The digest is that of its canonical JSON.

    Raises:
        InputError: as `read_policy_file`; messages begin with the path of keys.
    """
    from guardagent.policy.file.yaml_reader import nodes_of

    node = nodes_of(data, _folder(folder))
    return complete(_policy_file(node, json.dumps(node.plain, sort_keys=True).encode(), Path("data")))


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


# --- included files

Scoped = TypeVar("Scoped", RuleSource, Definition)
MAX_DEPTH = 10
MAX_FILES = 100


def complete(file: PolicyFile) -> PolicyFile:
    """A policy file with the rules of all included ones.

    Raises:
        ContentError: an included file is invalid, or clashes with another; with the place.
    """
    if file.rules and not (file.inclusions or file.constants or file.timeouts):
        return file  # as most files
    return _checked(_with_included(file, (file.path.resolve(),), [])) if file.inclusions else _checked(file)


def together(files: Sequence[PolicyFile]) -> PolicyFile:
    """Several policy files as one. Ids and names stay as they are.

    Raises:
        ContentError: two files differ in the meaning of a name.
    """
    return files[0] if len(files) == 1 else _checked(_merged(files))


def added(file: PolicyFile, extra: PolicyFile, prefix: str) -> PolicyFile:
    """A policy file with further rules under a prefix, which can use the names of the policy without one."""
    prefixed = _under(extra, prefix)
    rules = tuple(_also_outside(rule, prefix) for rule in prefixed.rules)
    definitions = {name: _also_outside(definition, prefix) for name, definition in prefixed.definitions.items()}
    return _checked(_merged([file, replace(prefixed, rules=rules, definitions=definitions)]))


def _also_outside(scoped_item: Scoped, prefix: str) -> Scoped:
    """An item of the outermost file also finds names without the prefix; those of included files do not."""
    return replace(scoped_item, scopes=(prefix, "")) if scoped_item.scopes == (prefix,) else scoped_item


def _with_included(file: PolicyFile, chain: tuple[Path, ...], files: list[Path]) -> PolicyFile:
    parts = [_included(entry, chain, files) for entry in file.inclusions]
    return _merged([file, *parts]) if parts else file


def _included(entry: Inclusion, chain: tuple[Path, ...], files: list[Path]) -> PolicyFile:
    path = entry.path.resolve()
    if path in chain:
        cycle = " -> ".join(included_file.name for included_file in (*chain[chain.index(path) :], path))
        raise entry.place.error(f"the files include each other: {cycle}; expected no cycle")
    if len(chain) > MAX_DEPTH:
        raise entry.place.error(f"the included files are nested deeper than {MAX_DEPTH}; expected fewer levels")
    files.append(path)
    if len(files) > MAX_FILES:
        raise entry.place.error(f"more than {MAX_FILES} files are included; expected fewer")
    own = _with_parameters(read_single_file(entry.path), entry)
    return _under(_with_included(own, (*chain, path), files), entry.prefix)


def _with_parameters(file: PolicyFile, entry: Inclusion) -> PolicyFile:
    constants = set_constants(dict(file.constants), dict(entry.constants))
    for name, constant in constants.items():
        if constant.value is None:
            raise entry.place.error(f"constant {name!r} of {file.path.name!r} has no value; set it in 'constants:'")
    for tag, tools in entry.tags.items():
        if tag not in file.tags:
            raise tools[0].error(f"unknown tag {shortened(tag)!r} of {file.path.name!r}{name_hint(tag, file.tags)}")
        for tool in tools:
            if file.tools is not None and tool.text not in file.tools:
                raise tool.error(f"unknown tool {tool.text!r} of {file.path.name!r}{name_hint(tool.text, file.tools)}")
    tags = {tag: frozenset(tool.text for tool in tools) for tag, tools in entry.tags.items()}
    decision = entry.on_violation
    rules = (
        file.rules
        if decision is None
        else tuple(replace(rule, on_violation=decision, halts_tool=False) for rule in file.rules)
    )
    labels = file.labels.with_tags(file.tags, tags)
    return replace(file, constants=constants, tags={**file.tags, **tags}, labels=labels, rules=rules)


# --- merging: each field of a policy file has a way to be prefixed, and a way to be merged


def _under(file: PolicyFile, prefix: str) -> PolicyFile:
    """An included file with a prefix before its ids and names."""
    prefixed = {field.name: MERGING[field.name].under(getattr(file, field.name), prefix) for field in fields(file)}
    return PolicyFile(**prefixed)


def _merged(files: Sequence[PolicyFile]) -> PolicyFile:
    """Several files as one; the first one includes the others."""
    return PolicyFile(**{field.name: MERGING[field.name].merge(files, field.name) for field in fields(files[0])})


@dataclass(frozen=True, slots=True)
class Merging:
    """The merging of a field: `under` puts its value under a prefix, `merge` merges the values of several files."""

    merge: Callable[[Sequence[PolicyFile], str], Any]
    under: Callable[[Any, str], Any] = lambda value, _: value


def _values(files: Iterable[PolicyFile], field: str) -> Iterator[Any]:
    return (getattr(file, field) for file in files)


def _first(files: Sequence[PolicyFile], field: str) -> Any:
    return next(_values(files, field))


def _joined(files: Sequence[PolicyFile], field: str) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(item for items in _values(files, field) for item in items))


def _rules(files: Sequence[PolicyFile], field: str) -> tuple[RuleSource, ...]:
    first: dict[str, RuleSource] = {}
    for rule in (rule for rules in _values(files, field) for rule in rules):
        if other := first.get(rule.id):
            there = f"{other.path}:{other.line}" if other.line else f"{other.path}"
            problem = f"policy id {shortened(rule.id)!r} is already used in {there}; expected a unique id"
            raise ContentError(problem, rule.path, rule.line)
        first[rule.id] = rule
    return tuple(first.values())


def _views(files: Sequence[PolicyFile], field: str) -> Mapping[str, Any]:
    """The entries of all files by tool; for one tool, that of the including file."""
    return MappingProxyType(dict(ChainMap(*map(dict, _values(files, field)))))


def _effects(files: Sequence[PolicyFile], field: str) -> Mapping[str, str]:
    return MappingProxyType(worst_of(_values(files, field)))


def _timeouts(files: Sequence[PolicyFile], field: str) -> Mapping[str, float]:
    """The timeouts of all files; the shortest one of each tool or tag."""
    shortest: dict[str, float] = {}
    for name, seconds in (timeout for timeouts in _values(files, field) for timeout in timeouts.items()):
        shortest[name] = min(seconds, shortest.get(name, seconds))
    return MappingProxyType(shortest)


def _tags_under(values: Mapping[str, Any], prefix: str) -> Mapping[str, Any]:
    return {f"@{prefix}{name[1:]}" if name.startswith("@") else name: value for name, value in values.items()}


def _toolboxes(files: Sequence[PolicyFile], field: str) -> Mapping[str, tuple[Path, ...]]:
    folders: dict[str, tuple[Path, ...]] = {}
    for prefix, paths in (item for boxes in _values(files, field) for item in boxes.items()):
        folders[prefix] = tuple(dict.fromkeys((*folders.get(prefix, ()), *paths)))
    return MappingProxyType(folders)


def _named(files: Sequence[PolicyFile], field: str) -> Mapping[str, Any]:
    named_values: dict[str, tuple[Any, PolicyFile]] = {}
    for file in files:
        for name, value in getattr(file, field).items():
            known, other = named_values.setdefault(name, (value, file))
            if getattr(known, "meaning", known) != getattr(value, "meaning", value):
                key = "define" if field == "definitions" else field
                place, there = file.place_of(key, name), other.place_of(key, name)
                problem = f"{shortened(name)!r} has another meaning in {there}; expected one meaning for each name"
                raise ContentError(problem, place)
    return MappingProxyType({name: value for name, (value, _) in named_values.items()})


def _tools(files: Sequence[PolicyFile], field: str) -> Mapping[str, Any] | None:
    declared = [file for file in files if file.tools is not None]
    return _named(declared, field) if declared else None


def _same(files: Sequence[PolicyFile], field: str) -> Any:
    values = [(value, file) for file in files if (value := getattr(file, field)) is not None]
    for value, file in values[1:]:
        if value != values[0][0]:
            raise ContentError(f"{field!r} differs from that of {values[0][1].path}; expected one value", file.path)
    return values[0][0] if values else None


def _labels(files: Sequence[PolicyFile], field: str) -> DeclaredLabels:
    """The labels of all files: they are shared, so that an included rule can speak of the sources of another file."""
    sources: dict[str, list[LabelSource]] = {}
    for labels in _values(files, field):
        for name, own in labels.sources.items():
            sources.setdefault(name, []).extend(source for source in own if source not in sources[name])
    propagating = frozenset(name for labels in _values(files, field) for name in labels.propagating)
    return DeclaredLabels(
        sources, propagating, tuple(dict.fromkeys(i for value in _values(files, field) for i in value.ids))
    )


def _own(files: Sequence[PolicyFile], field: str) -> Any:
    """A field that only the including file may have."""
    for file in files[1:]:
        if getattr(file, field) is not None:
            raise ContentError(
                f"{field!r} in an included file; expected it in the file that includes the others", file.path
            )
    return getattr(files[0], field)


def _strictest(files: Sequence[PolicyFile], field: str) -> str:
    return "deny" if "deny" in _values(files, field) else "allow"


def _merged_digest(files: Sequence[PolicyFile], field: str) -> str:
    return hashlib.sha256("\n".join(_values(files, field)).encode()).hexdigest()


def _prefixed(values: Mapping[str, Any], prefix: str) -> Mapping[str, Any]:
    """Names under a prefix. Values that use names of their file have a method `under`."""
    return {prefix + name: value.under(prefix) if hasattr(value, "under") else value for name, value in values.items()}


def _merged_places(files: Sequence[PolicyFile], field: str) -> Mapping[tuple[str, str], str]:
    return {at: place for places in _values(files, field) for at, place in places.items()}


def _places_under(places: Mapping[tuple[str, str], str], prefix: str) -> Mapping[tuple[str, str], str]:
    return {(key, name if key == "tools" else prefix + name): place for (key, name), place in places.items()}


def _each_under(values: Iterable[Any], prefix: str) -> tuple[Any, ...]:
    return tuple(value.under(prefix) for value in values)


_NAMES = Merging(_named, _prefixed)
MERGING: Mapping[str, Merging] = {
    "path": Merging(_first),
    "files": Merging(_joined),
    "toolboxes": Merging(_toolboxes, _prefixed),
    "tags": _NAMES,
    "constants": _NAMES,
    "definitions": _NAMES,
    "places": Merging(_merged_places, _places_under),
    "labels": Merging(_labels, lambda labels, prefix: labels.under(prefix)),
    "counters": _NAMES,
    "shadow": Merging(_own),
    "tools": Merging(_tools),
    "failed_output": Merging(_same),
    "unlisted": Merging(_strictest),
    "rules": Merging(_rules, _each_under),
    "ignored": Merging(_joined),
    "inclusions": Merging(lambda _files, _field: ()),
    "views": Merging(_views),
    "dispatch": Merging(_views),
    "effects": Merging(_effects),
    "timeouts": Merging(_timeouts, _tags_under),
    "digest": Merging(_merged_digest),
}
"""The merging of each field of `PolicyFile`."""


def _checked(file: PolicyFile) -> PolicyFile:
    """Requires rules, values for all constants, and declared tools."""
    if not file.rules:
        raise ContentError("contains no policies; expected a rule in 'policies:' or in an included file", file.path)
    for name, constant in file.constants.items():
        if constant.value is None:
            raise constant.place.error(f"constant {name!r} has no value; expected one here, or in an including file")
    for name in file.timeouts:
        if file.tools is None and name in file.tags:
            raise ContentError(f"'timeouts' has {name!r}, a tag; expected '@{name}'", file.place_of("timeouts", name))
        known = file.tags if name.startswith("@") else file.tools
        if known is not None and (plain := name.removeprefix("@")) not in known:
            what = "tag" if name.startswith("@") else "tool"
            problem = f"'timeouts' has the unknown {what} {shortened(name)!r}{name_hint(plain, known)}"
            raise ContentError(problem, file.place_of("timeouts", name))
    return file if file.tools is None else replace(file, tags=MappingProxyType(dict(_declared_tags(file, file.tools))))


def _declared_tags(file: PolicyFile, known: Mapping[str, Any]) -> Iterator[tuple[str, frozenset[str]]]:
    """The tags without undeclared tools, which are denied anyway; the file itself may name declared ones only."""
    for rule in file.rules:
        for tool, governed in rule.solver.tools.items() if rule.solver else ():
            if tool not in known:
                raise governed.permit.error(f"unknown tool {tool!r}: not declared in 'tools:'{name_hint(tool, known)}")
    for tag, tools in file.tags.items():
        kept = tools & known.keys()
        if not kept or (kept != tools and "." not in tag):
            tool = min(tools - kept)
            problem = f"unknown tool {tool!r} of tag {tag!r}: not declared in 'tools:'{name_hint(tool, known)}"
            raise ContentError(problem, file.place_of("tags", tag))
        yield tag, kept


# --- the contents of the files


def policy_contents(*files: Path) -> Iterator[Content]:
    """Yields policy files, their reviews, and every file that they refer to."""
    for path in files:
        read = read_policy_file(path)
        yield from contents_of(read)
        yield from reviews_of(read)


def contents_of(read: PolicyFile) -> Iterator[Content]:
    """Yields the files of policies that have been read."""
    from guardagent.programs.lock import Content, programs, toolboxes  # with the readers of programs
    from guardagent.sandbox.toolbox import Toolbox

    for file in read.files:
        yield Content("policy", file.name, file)
    for paths in read.toolboxes.values():
        yield from toolboxes(Toolbox(list(paths)))
    for rule in read.rules:
        yield from programs(*filter(None, [rule.program]))
        yield from (Content("policy", path.name, path) for path in rule.files if path != rule.program)
    if read.shadow is not None:
        yield from contents_of(read.shadow)


def review_path(policies: Path | str) -> Path:
    """Returns the review file of a policy file: `policies.review.json` beside `policies.yaml`."""
    path = Path(policies)
    return path.with_name(path.stem + ".review.json")


def reviews_of(read: PolicyFile, other: Path | None = None, *, pinned: Container[str] = ()) -> Iterator[Content]:
    """Yields the review files beside policy files that have been read, and `other`.

    A review with a pinned name is expected even if it is missing: otherwise nothing would notice that it was deleted.
    """
    from guardagent.programs.lock import Content

    for path in [*map(review_path, read.files), *filter(None, [other])]:
        if path == other or path.exists() or path.name in pinned:
            yield Content("review", path.name, path)
