"""Cedar: a call needs a permit, and no rule that forbids may apply.

The action is the tool, `context.input` its arguments. The host gives the rest as facts: `principal` and `resource` as
the entities of Cedar's JSON (`uid`, `attrs`, `tags`, and all `parents`), and `context`. A reference to an entity in an
attribute is `{"type": …, "id": …}`. Each policy becomes a definition, which the rules of its tools use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

from guardagent.policy.file.constants import RESERVED
from guardagent.policy.functions import rule_functions
from guardagent.translation.imports import cedar_conditions as conditions
from guardagent.translation.imports.cedar_syntax import CedarPolicy, read_policies
from guardagent.translation.imports.report import (
    Difference,
    ImportedRule,
    ImportOptions,
    ImportReport,
    RuleFormat,
    differences,
)

_CALL = "c"
_NAME = re.compile(r"(?!(?:AND|OR|NOT|U|W|R|S|G|F|X|O|H|Y|true|false)(?![\w.-]))[A-Za-z_]\w*(?:[.-]\w+)*")
_ACTIONS = re.compile(r"action\s+([^;{]*?)\s+in\s+(\[[^\]]*\]|[^\s;]+)")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"|(\w+)(?!\w*\s*::)')
MAX_CONDITION = 15_000
EVERYWHERE = differences(
    stricter=(
        "a condition on a fact that the host does not give is unknown, and denies",
        "values of different types are unequal in Cedar; here their comparison is unknown, and denies",
    ),
    wider=(
        "Cedar rejects a call with a null, or a number with decimals or over 64 bits; here it counts where it is read",
        "an argument that is JSON text is read where a rule reads a field in it; Cedar errs there",
        "an action in a list is a tool, without its namespace; groups of actions need the schema",
        "two sets of arguments are compared as lists: their order counts",
    ),
)


def _read(text: str, name: str, options: ImportOptions) -> ImportReport:
    return assemble(("Cedar", "Cedar 4.12, the language reference"), text, name, options)


def assemble(
    language: tuple[str, str],
    text: str,
    name: str,
    options: ImportOptions,
    event: conditions.EventWriter | None = None,
    everywhere: Sequence[Difference] = (),
) -> ImportReport:
    """Translates policies of Cedar, or of a language around it.

    Args:
        language: the language, and the documentation of its semantics.
        text: the policies.
        name: the file, for messages.
        options: the options of the import.
        event: writes conditions on earlier calls.
        everywhere: further differences that concern all rules.

    Raises:
        ContentError: the text is not in the language, with its line.
    """
    assembly = _RuleAssembly(options, event, list(read_policies(text, name)))
    content = assembly.content()
    return ImportReport(*language, name, content, tuple(assembly.rows()), (*EVERYWHERE, *everywhere))


@dataclass(slots=True)
class _CedarRule:
    """A policy of the source.

    Attributes:
        policy: the policy.
        name: the name of its condition and of its rule.
        tools: the tools that it concerns; None for all.
        condition: its translation; empty if it has none, as it holds always or cannot be translated.
        differences: how the translation differs.
        rules: the ids of the rules that it is a part of.
    """

    policy: CedarPolicy
    name: str
    tools: tuple[str, ...] | None = None
    condition: str = ""
    differences: dict[Difference, None] = field(default_factory=dict)
    rules: list[str] = field(default_factory=list)

    @property
    def is_translated(self) -> bool:
        return all(status != "not translated" for status, _ in self.differences)

    @property
    def parameters(self) -> list[str]:
        words = set(re.findall(r"\w+", self.condition))
        return [name for name in (conditions.INPUT, conditions.CALLED) if name in words]

    @property
    def test(self) -> str:
        """The condition on a call: its definition with the parameters that it uses."""
        terms = {conditions.INPUT: f"args({_CALL})", conditions.CALLED: f"tool({_CALL})"}
        return f"{self.name}({', '.join(terms[name] for name in self.parameters)})" if self.condition else "true"


class _RuleAssembly:
    """The rules of a file: one for each policy that forbids, and one for each tool with all its permits."""

    def __init__(
        self, options: ImportOptions, event: conditions.EventWriter | None, policies: Sequence[CedarPolicy]
    ) -> None:
        self._options, self._event = options, event
        self._actions = conditions.ActionNames(_groups(options.schema), options.target)
        self._taken = {conditions.INPUT, conditions.CALLED, *RESERVED, *rule_functions()}
        self._sources = [self._source(policy, number) for number, policy in enumerate(policies, 1)]

    def content(self) -> dict[str, Any]:
        """The content of the policy file."""
        definitions = {
            f"{rule.name}({', '.join(rule.parameters)})": rule.condition for rule in self._sources if rule.condition
        }
        # A rule for all tools lists none of them.
        unlisted = (
            "allow" if any(source.policy.permits and source.tools is None for source in self._sources) else "deny"
        )
        defined = {"define": definitions} if definitions else {}
        return {"version": 1, "unlisted": unlisted, **defined, "policies": [*self._forbids(), *self._permits()]}

    def rows(self) -> Iterator[ImportedRule]:
        for source in self._sources:
            text = source.condition or ("true" if source.is_translated else "")
            policy = source.policy
            yield ImportedRule(policy.line, policy.source, tuple(source.rules), text, tuple(source.differences))

    def _forbids(self) -> Iterator[dict[str, Any]]:
        for source in self._sources:
            if not source.policy.permits:
                skips = self._options.on_error == "skip" and source.condition
                condition = f"!known({source.test}) || !{source.test}" if skips else f"!{source.test}"
                source.rules.append(source.name)
                yield _rule(source.name, source.tools, condition, f"The policy {source.name} forbids this call.")

    def _permits(self) -> Iterator[dict[str, Any]]:
        tools = dict.fromkeys(chain.from_iterable(source.tools or () for source in self._sources))
        for tool in tools:
            name = self._free(f"permit_{re.sub(r'[^a-zA-Z0-9_]', '_', tool)}")
            yield _rule(name, (tool,), self._permit(name, tool), f"No policy permits this call of {tool}.")
        if not tools or any(source.policy.permits and source.tools is None for source in self._sources):
            name = self._free("permit_others")
            listed = f"tool({_CALL}) in [{', '.join(map(conditions.quoted, tools))}] || " if tools else ""
            yield _rule(name, None, f"{listed}{self._permit(name)}", "No policy permits this call.")

    def _permit(self, name: str, tool: str | None = None) -> str:
        tests = []
        for source in self._sources:
            if source.policy.permits and (source.tools is None or tool in source.tools):
                source.rules.append(name)
                tests += [source.test] if source.is_translated else []
        return " || ".join(tests) or "false"

    # --- a policy of the source

    def _source(self, policy: CedarPolicy, number: int) -> _CedarRule:
        name = re.sub(r"\W|^(?=\d)", "_", policy.annotations.get("id", ""), flags=re.ASCII) or f"policy_{number}"
        source = _CedarRule(policy, self._free(name))
        try:
            source.tools = self._tools(source)
            source.condition = self._condition(source)
        except conditions.UntranslatableError as error:
            outcome = "what it alone permits is denied" if policy.permits else "it forbids every call of its tools"
            source.differences["not translated", f"{error} cannot be translated: {outcome}"] = None
        return source

    def _condition(self, source: _CedarRule) -> str:
        policy, skips = source.policy, self._options.on_error == "skip"
        writer = conditions.ConditionWriter(policy.permits or skips, self._actions.tools_of, self._event, source.tools)
        positive = True if policy.permits else None
        parts = [writer.condition(part, positive) for part in policy.scope if not (_is_open(part) or _is_action(part))]
        for is_unless, mark, clause in policy.clauses:
            if mark == "guardrails":
                raise conditions.UntranslatableError("an information provider")
            text = writer.condition(clause, None if positive is None else not is_unless)
            parts.append(conditions.opposite(text) if is_unless else text)
        if not policy.permits and not skips and any(conditions.can_err(clause) for _, _, clause in policy.clauses):
            reason = "Cedar skips this rule where it errs, such as without an argument; here it denies"
            source.differences["stricter", reason] = None
        condition = conditions.joined(parts, "&&") if parts else ""
        if len(condition) > MAX_CONDITION:
            raise conditions.UntranslatableError("a condition that is this long")
        return condition

    def _tools(self, source: _CedarRule) -> tuple[str, ...] | None:
        actions = next((part for part in source.policy.scope if _is_action(part) and not _is_open(part)), None)
        if actions is None:
            return None
        listed = actions.children[-1]
        names, operator = conditions.names_of(listed), "in" if conditions.kind_of(actions) == "member_of" else "=="
        tools = self._actions.tools_of(names, operator, is_list=conditions.kind_of(listed) == "listed")
        if tools is None:
            outcome = "it permits none of them" if source.policy.permits else "it concerns every tool"
            reason = f"the actions of the group {names[0]!r} are unknown without a schema, so {outcome}"
            source.differences["stricter", reason] = None
        return () if tools is None and source.policy.permits else tools

    def _free(self, name: str) -> str:
        """A name that no other definition or rule has."""
        free = next(free for free in chain([name], (f"{name}_{at}" for at in count(2))) if free not in self._taken)
        self._taken.add(free)
        return free


def _groups(schema: str) -> dict[str, set[str]]:
    """The actions in each group of a schema."""
    groups: dict[str, set[str]] = {}
    for names, parents in _ACTIONS.findall(schema):
        members = {quoted_name or name for quoted_name, name in _STRING.findall(names)}
        for quoted_name, name in _STRING.findall(parents):
            groups.setdefault(quoted_name or name, set()).update(members)
    for _ in groups:  # a group in a group has its actions, too
        for members in groups.values():
            members.update(*(groups[member] for member in members & groups.keys()))
    return groups


def _rule(name: str, tools: Sequence[str] | None, condition: str, message: str) -> dict[str, Any]:
    return {"id": name, "temporal": f"forall({_CALL}:{pattern(tools)}(), {condition})", "message": message}


def pattern(tools: Sequence[str] | None) -> str:
    """The tools of a call pattern."""
    return (
        "*" if tools is None else "|".join(tool if _NAME.fullmatch(tool) else conditions.quoted(tool) for tool in tools)
    )


def _is_open(part: Any) -> bool:
    return conditions.kind_of(part) == "variable"


def _is_action(part: Any) -> bool:
    return conditions.is_action(part if _is_open(part) else part.children[0])


FORMAT = RuleFormat("Cedar", ("*.cedar",), _read)
