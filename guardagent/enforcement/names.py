"""Names of tools in the host and in the rules, and the accepted declarations of the tools that servers list.

A lock file determines the accepted tools; without one, the first list of each server does. A tool that is added or
changed later is denied until the operator accepts it. Tools of the agent's own code are not affected. A lock file holds
complete declarations in plain ASCII, so that a review shows every change:

    {"guardagent_tools_lock": 1, "tools": [{"name": "refund", "description": "…", "inputSchema": {…}, …}]}
"""

from __future__ import annotations

import difflib
import hashlib
import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from guardagent._support.files import parse_json, read_text
from guardagent.enforcement.approval import escaped
from guardagent.enforcement.schema import declared_arguments
from guardagent.errors import ContentError, InputError, name_hint
from guardagent.policy.evaluation.history_index import AnyTool, union_of
from guardagent.policy.language import ANSWER
from guardagent.policy.language.parser import unknown_arguments
from guardagent.policy.monitors.rule import Rule
from guardagent.policy.policies import Policies
from guardagent.types import EMPTY, thaw

_log = logging.getLogger("guardagent")

EVENTS = ("handoff", "resource.read", "prompt.get", "sampling.create", "elicitation.create")
"""The rules' names of events that are judged like tool calls."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as its host declares it: name, JSON schema of its arguments, and description.

    Attributes:
        more: the server's other fields, such as a title.
        unlisted_arguments: arguments that rules see beyond those of the schema; None if there can be any.
    """

    name: str
    schema: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    description: str = ""
    more: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    unlisted_arguments: frozenset[str] | None = frozenset()

    @property
    def arguments(self) -> frozenset[str] | None:
        """The names of all its arguments; None if it may take others."""
        names = declared_arguments(self.schema)
        return None if names is None or self.unlisted_arguments is None else names | self.unlisted_arguments

    @property
    def digest(self) -> str:
        content = json.dumps([self.name, self.schema, self.description], sort_keys=True, default=repr)
        return hashlib.sha256(content.encode("utf-8", "backslashreplace")).hexdigest()


@dataclass(frozen=True, slots=True)
class Coverage:
    """The comparison of rules and tools.

    Attributes:
        rules_without_tools: rule id -> the tools that it names and this agent does not have.
        tools_without_rules: the tools that no rule names, by their host names.
        inclusions_without_tools: the included packs whose tags have no tool of this agent, by their prefix.
        undeclared: the tools that the policy's `tools:` does not list: each of their calls is denied.
        unlisted: the tools that no rule names and `unlisted: deny` denies.
        added, removed, changed: the tools that differ from those attached before.
        hints: what servers say about the effects of their tools (annotations of MCP), unless the file confirms it.
    """

    rules_without_tools: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: EMPTY)
    tools_without_rules: tuple[str, ...] = ()
    undeclared: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    inclusions_without_tools: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Returns the warnings, a line each."""
        lines = [
            f"rule {rule!r} names {_joined(tools)}, which this agent does not have"
            for rule, tools in self.rules_without_tools.items()
        ]
        lines += [
            f"no tool of this agent is in a tag of the included {prefix[:-1]!r}; map them with 'tools:' in 'include:'"
            for prefix in self.inclusions_without_tools
        ]
        for tools, why in (
            (self.unlisted, "no rule names, and 'unlisted: deny' denies every call of it:"),
            (tuple(sorted({*self.tools_without_rules} - {*self.unlisted})), "no rule restricts"),
            (self.undeclared, "the policy's 'tools' does not list, so that every call of it is denied:"),
            (self.removed, "gone since the guard was attached:"),
            (self.changed, "changed since the guard was attached:"),
        ):
            lines += [f"{why} {_joined(tools)}"] if tools else []
        return [*lines, *self.hints]


def _hints(effects: Mapping[str, str], resolve: Callable[[str], str], specs: Iterable[ToolSpec]) -> Iterator[str]:
    """Yields where annotations differ from `effects:` of a policy. They have no effect, since a server may lie."""
    for spec in specs if effects else ():
        annotations, stated = spec.more.get("annotations"), effects.get(resolve(spec.name))
        if not isinstance(annotations, Mapping) or not {"readOnlyHint", "destructiveHint"} & annotations.keys():
            continue
        is_read, destroys = annotations.get("readOnlyHint") is True, annotations.get("destructiveHint", True) is True
        hint = "read" if is_read else "irreversible" if destroys else "reversible"
        if stated is None:
            yield f"the server says that {spec.name!r} is {hint}; confirm it or not in the policy's 'effects'"
        elif stated != hint:
            yield f"the server says that {spec.name!r} is {hint}; the policy's 'effects', which holds, says {stated}"


class Aliases:
    """The rules' names of the host's tools.

    Args:
        aliases: a tool's name in the host -> its name in the rules.

    Raises:
        InputError: an alias is invalid.
    """

    def __init__(self, aliases: Mapping[str, str] = EMPTY) -> None:
        for host, name in aliases.items():
            if not (isinstance(host, str) and isinstance(name, str) and host and name):
                raise InputError(
                    f"alias {host!r}: {name!r}; expected a tool's name in the host and its name in the rules"
                )
            if name in aliases and aliases[name] != name:
                raise InputError(
                    f"alias {host!r} leads to {name!r}, which is an alias itself; expected a name that rules use"
                )
        self._aliases = dict(aliases)

    def resolve(self, host_name: str) -> str:
        """Returns the rules' name of a host's tool. An alias is resolved once, never an alias of an alias."""
        return self._aliases.get(host_name, host_name)


class Names(Aliases):
    """The host's and the rules' names of tools, compared with the rules.

    Args:
        policies: the rules.
        aliases: a tool's name in the host -> its name in the rules.
        absent: tools that rules name and this agent is known not to have.

    Raises:
        InputError: an alias is invalid.
    """

    def __init__(self, policies: Policies, aliases: Mapping[str, str] = EMPTY, absent: Collection[str] = ()) -> None:
        super().__init__(aliases)
        self._policies, self._absent = policies, frozenset(absent)
        self._digests: dict[str, str] | None = None
        self._specs: list[ToolSpec] | None = None

    def attach(self, specs: Iterable[ToolSpec]) -> Coverage:
        """Compares an agent's tools with the rules; called again when the tools change.

        Raises:
            InputError: two tools have one name; or a rule names a tool that is probably a misspelling of one here,
                uses a tool as a tag, or names an argument that its tool does not have.
        """
        specs = list(specs)
        coverage = self._coverage(getattr(self._policies, "current", self._policies), specs)
        before, self._digests = self._digests, {spec.name: spec.digest for spec in specs}
        self._specs = specs
        changes = _changes(before, self._digests)
        return replace(coverage, **changes)

    def attached_to(self, policies: Policies) -> Coverage:
        """Compares the attached tools with the rules of another version.

        Raises:
            InputError: as `attach`.
        """
        return Coverage() if self._specs is None else self._coverage(policies, self._specs)

    def _coverage(self, policies: Policies, specs: Sequence[ToolSpec]) -> Coverage:
        twice = _duplicate([spec.name for spec in specs]) or _duplicate(
            [self.resolve(spec.name) for spec in specs], "resolve to"
        )
        if twice:
            raise InputError(f"two tools {twice}; expected unique names")
        known = {self.resolve(spec.name): spec.name for spec in specs}
        if ANSWER in known:
            raise InputError(
                f"the tool {known[ANSWER]!r} has the name of the final answer in rules, {ANSWER!r}; rename the tool, "
                f"or give it another name for rules: aliases={{{known[ANSWER]!r}: 'send_answer'}}"
            )
        outer = getattr(policies, "dispatch", EMPTY).keys() & known.keys()
        missing = {} if outer else self._missing(policies, set(known))  # the tools behind them are not known
        known = {name: host for name, host in known.items() if name not in outer}
        _refuse_misspelt(policies, missing, set(known))
        self._refuse_misspelt_aliases(missing, {spec.name for spec in specs})
        self._refuse_bare_tools(known)
        self._refuse_unknown_arguments(specs)
        return Coverage(
            missing,
            _unruled(policies, known),
            _undeclared(policies, known),
            _unlisted(policies, known),
            _idle_inclusions(policies, set(known)),
            hints=tuple(_hints(getattr(policies, "effects", EMPTY), self.resolve, specs)),
        )

    def _missing(self, policies: Policies, known: set[str]) -> dict[str, tuple[str, ...]]:
        """Returns the missing tools of each rule."""
        here = known | self._absent | {*EVENTS, ANSWER} | _alternatives(policies)
        named_tools = {rule.id: tuple(sorted(rule.named_tools - here)) for rule in policies.rules}
        timed = {name for name in getattr(policies, "timeouts", EMPTY) if not name.startswith("@")}
        named_tools["timeouts:"] = tuple(sorted(timed - here))
        return {rule: tools for rule, tools in named_tools.items() if tools}

    def _refuse_misspelt_aliases(self, missing: Mapping[str, tuple[str, ...]], hosts: set[str]) -> None:
        """Refuses misspelt aliases: they leave the intended tool without its rules."""
        needed = {tool for tools in missing.values() for tool in tools}
        free = hosts - self._aliases.keys()
        for host, name in self._aliases.items():
            if name in needed and difflib.get_close_matches(host, free, n=1, cutoff=0.75):
                raise InputError(f"the alias {host!r} of {name!r} names no tool of this agent{name_hint(host, free)}")

    def _refuse_bare_tools(self, known: Mapping[str, str]) -> None:
        """Refuses tags that are tools of the agent: without `tool:`, such a rule never sees the tool's calls."""
        names = {host: name for name, host in known.items()} | {name: name for name in known}
        for rule in self._policies.rules:
            for tag in sorted(rule.labels & names.keys()):
                raise InputError(
                    f"{_at(rule)}rule {rule.id!r} uses {tag!r} as a tag, but it is a tool of this agent; "
                    f"did you mean 'tool:{names[tag]}'?"
                )

    def _refuse_unknown_arguments(self, specs: Iterable[ToolSpec]) -> None:
        """Refuses arguments that a tool with a known signature does not have."""
        signatures = {self.resolve(spec.name): spec.arguments for spec in specs}
        for rule in self._policies.rules:
            for read in rule.rules:
                for unknown_argument in unknown_arguments(read, self._policies.tags, signatures):
                    raise InputError(f"{_at(rule)}rule {rule.id!r}: {unknown_argument.problem}")


def _refuse_misspelt(policies: Policies, missing: Mapping[str, tuple[str, ...]], known: set[str]) -> None:
    """Refuses misspelt tool names: a rule about a tool that does not exist never denies anything."""
    declared = policies.declared_tools
    ruled = {tool for rule in policies.rules for tool in rule.named_tools}
    unruled = sorted(tool.lower() for tool in known - ruled)
    for rule, tools in missing.items():
        for tool in tools:
            if declared is None and difflib.get_close_matches(tool.lower(), unruled, n=1, cutoff=0.75):
                raise InputError(
                    f"rule {rule!r} names the tool {tool!r}, which this agent does not have"
                    f"{name_hint(tool, known)}; correct the rule, declare an alias, or pass absent={{{tool!r}}} "
                    "if the agent has no such tool"
                )


def _prefixes(policies: Policies) -> list[str]:
    """The prefixes of the included packs. A name in the tags of the operator's own files is not an alternative."""
    source = getattr(policies, "source", None)  # the host's own policies have none
    rules = [rule for rule in (source.rules if source else ()) if rule.in_pack]
    return sorted({scope for rule in rules for scope in rule.scopes if scope})


def _tags_of(policies: Policies, prefix: str) -> frozenset[str]:
    return union_of(tools for name, tools in policies.tags.items() if name.startswith(prefix))


def _alternatives(policies: Policies) -> frozenset[str]:
    """The tools in the tags of packs: the usual names, of which an agent has some."""
    return union_of(_tags_of(policies, prefix) for prefix in _prefixes(policies))


def _idle_inclusions(policies: Policies, known: set[str]) -> tuple[str, ...]:
    tags = {prefix: _tags_of(policies, prefix) for prefix in _prefixes(policies)}
    return tuple(prefix for prefix, tools in tags.items() if tools and tools.isdisjoint(known))


def _unruled(policies: Policies, known: Mapping[str, str]) -> tuple[str, ...]:
    if policies.requests:
        return ()  # a natural-language rule concerns every call
    ruled = {tool for rule in policies.rules for tool in rule.mentioned_tools}
    everywhere = any(not rule.tools or isinstance(rule.tools, AnyTool) for rule in policies.rules)
    return () if everywhere else tuple(sorted(host for name, host in known.items() if name not in ruled))


def _undeclared(policies: Policies, known: Mapping[str, str]) -> tuple[str, ...]:
    declared = policies.declared_tools
    return () if declared is None else tuple(sorted(host for name, host in known.items() if name not in declared))


def _unlisted(policies: Policies, known: Mapping[str, str]) -> tuple[str, ...]:
    if getattr(policies, "unlisted", "allow") == "allow":  # the host's own policies list nothing
        return ()
    return tuple(sorted(host for name, host in known.items() if not policies.of_tool[name].listed))


def _at(rule: Rule) -> str:
    return f"{rule.source.location}: " if rule.source.location else ""


def _changes(before: Mapping[str, str] | None, after: Mapping[str, str]) -> dict[str, Any]:
    if before is None:
        return {}
    return {
        "added": tuple(sorted(after.keys() - before.keys())),
        "removed": tuple(sorted(before.keys() - after.keys())),
        "changed": tuple(sorted(name for name in after.keys() & before.keys() if after[name] != before[name])),
    }


def _duplicate(names: list[str], how: str = "are named") -> str:
    again = sorted({name for name in names if names.count(name) > 1})
    return f"{how} {again[0]!r}" if again else ""


def _joined(names: Iterable[str]) -> str:
    return ", ".join(names)


# --- accepted tools

MAX_LINES, MAX_CHARACTERS = 200, 2000  # limits of a difference, and of each of its lines


@dataclass(frozen=True, slots=True)
class UnacceptedTool:
    """A tool that was not accepted.

    Attributes:
        problem: the message for the model, without text from the server.
        difference: the changes, for the operator.
    """

    problem: str
    difference: str


class AcceptedTools:
    """The accepted declaration of each tool.

    Args:
        locked: the tools of a lock file; then no list of a server is accepted automatically.
    """

    def __init__(self, locked: Iterable[ToolSpec] | None = None) -> None:
        self._locked = locked is not None
        self._known = {spec.name: spec for spec in locked or ()}
        self._servers: set[str] = set()
        self._unaccepted: dict[str, UnacceptedTool] = {}

    def update(self, server: str, tools: Iterable[ToolSpec]) -> list[ToolSpec]:
        """Compares a server's complete list with the accepted tools. Returns the tools that may be called.

        An unaccepted tool stays unaccepted even if its server restores it: the model may have seen either version.
        """
        tools = list(tools)
        if not self._locked and server not in self._servers:
            for tool in tools:
                self._known.setdefault(tool.name, tool)  # a server cannot take over the name of another server's tool
        self._servers.add(server)
        for tool in tools:
            if not self.matches(tool):
                self._mark_unaccepted(server, tool)
        return [tool for tool in tools if self.matches(tool) and tool.name not in self._unaccepted]

    def accept(self, tools: Iterable[ToolSpec]) -> None:
        """Accepts tools that the operator has reviewed."""
        for tool in tools:
            self._known[tool.name] = tool
            self._unaccepted.pop(tool.name, None)

    def matches(self, tool: ToolSpec) -> bool:
        """Whether a tool's declaration equals the accepted one."""
        known = self._known.get(tool.name)
        return known is not None and known.digest == tool.digest

    def known(self, name: str) -> ToolSpec | None:
        """Returns the declaration that a model may read; None if the tool is unknown or unaccepted."""
        return self._known.get(name) if name not in self._unaccepted else None

    def unaccepted(self, name: str) -> UnacceptedTool | None:
        return self._unaccepted.get(name)

    def _mark_unaccepted(self, server: str, tool: ToolSpec) -> None:
        known = self._known.get(tool.name)
        state = "is new" if known is None else f"has another {_changed(known, tool)} than the one that was accepted"
        changes = difference(known, tool)
        problem = f"the tool {tool.name!r} of {server} {state}; it is denied until the operator has looked at it"
        late = UnacceptedTool(problem, changes)
        if self._unaccepted.get(tool.name) != late:
            _log.warning("%s, and accepts it:\n%s", problem, changes)
        self._unaccepted[tool.name] = late


def difference(before: ToolSpec | None, after: ToolSpec | None) -> str:
    """Returns a line diff of two declarations of a tool, with invisible characters escaped."""
    old, new = _lines(before), _lines(after)
    start = _common_prefix(old, new)
    old, new = old[start:], new[start:]
    end = _common_prefix(old[::-1], new[::-1])
    lines = [f"-{line}" for line in old[: len(old) - end]] + [f"+{line}" for line in new[: len(new) - end]]
    more = len(lines) - MAX_LINES
    return "\n".join(lines[:MAX_LINES] + ([f"... and {more} more lines"] if more > 0 else []))


def _common_prefix(old: list[str], new: list[str]) -> int:
    """Counts the equal lines at the start."""
    return next(
        (at for at, (part, other) in enumerate(zip(old, new, strict=False)) if part != other), min(len(old), len(new))
    )


def _lines(tool: ToolSpec | None) -> list[str]:
    if tool is None:
        return []
    described = [f"description {escaped(line)}" for line in tool.description.split("\n")]
    schema = json.dumps(thaw(tool.schema), indent=1, sort_keys=True, default=repr).split("\n")
    return [
        _shorten(line) for line in (f"tool {escaped(tool.name)}", *described, *(f"schema {line}" for line in schema))
    ]


def _shorten(line: str) -> str:
    more = len(line) - MAX_CHARACTERS
    return f"{line[:MAX_CHARACTERS]}... and {more} more characters" if more > 0 else line


def _changed(before: ToolSpec, after: ToolSpec) -> str:
    parts = ["description"] if before.description != after.description else []
    return " and another ".join([*parts, "schema"] if thaw(before.schema) != thaw(after.schema) or not parts else parts)


# --- lock files

VERSION = 1
_MAX_BYTES = 100_000_000


def read_tools_lock(path: Path | str) -> list[ToolSpec]:
    """Reads the tools of a lock file.

    Raises:
        InputError: the file is missing or is not a lock file.
    """
    value = parse_json(read_text(path, limit=_MAX_BYTES), path)
    if not isinstance(value, dict) or value.keys() != {"guardagent_tools_lock", "tools"}:
        raise ContentError("is not a lock file of tools; expected the output of 'mcp-proxy --accept-tools'", path)
    if value["guardagent_tools_lock"] != VERSION:
        raise ContentError(f"is of version {value['guardagent_tools_lock']!r}; expected version {VERSION}", path)
    listed = value["tools"] if isinstance(value["tools"], list) else [None]
    specs = [declared(tool) for tool in listed]
    tool_specs = [spec for spec in specs if spec is not None]
    if len({spec.name for spec in tool_specs}) < len(listed):
        raise ContentError("'tools' is invalid; expected tools with unique names and an inputSchema each", path)
    return tool_specs


def tools_lock(tools: Iterable[ToolSpec]) -> str:
    """Returns the text of a lock file."""
    listed = [
        {"name": tool.name, "description": tool.description, "inputSchema": thaw(tool.schema), **thaw(tool.more)}
        for tool in sorted(tools, key=lambda tool: tool.name)
    ]
    return json.dumps({"guardagent_tools_lock": VERSION, "tools": listed}, indent=2) + "\n"


def declared(tool: Any) -> ToolSpec | None:
    """Reads a tool declaration of MCP. Returns None if it is not one; such a tool cannot be called."""
    if not isinstance(tool, Mapping) or not isinstance(tool.get("name"), str):
        return None
    if not isinstance(tool.get("inputSchema"), Mapping) or not isinstance(tool.get("description") or "", str):
        return None
    more = {name: value for name, value in tool.items() if name not in ("name", "inputSchema", "description")}
    return ToolSpec(tool["name"], tool["inputSchema"], tool.get("description") or "", more)
