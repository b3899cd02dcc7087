"""Assembles the drafts of all sentences to one policy file with its cases."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from guardagent.errors import ContentError, InputError, name_hint
from guardagent.policy.file.policy_file import read_policy_data
from guardagent.policy.file.yaml_reader import nodes_of, parse
from guardagent.policy.load import load_policies
from guardagent.policy.policies import Policies
from guardagent.translation.assembly.cases import case_files
from guardagent.translation.assembly.declarations import NameTable
from guardagent.translation.assembly.frame import frame_of, frame_problems
from guardagent.translation.assembly.layout import policy_text, same_value
from guardagent.translation.assembly.parts import (
    AssemblyPart,
    Declaration,
    DeclaredName,
    declarations_of,
    names_of,
    used_declarations,
)
from guardagent.translation.assembly.policy_lines import PolicyLines
from guardagent.translation.assembly.rules import RuleTable, source_of
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafts import DECLARATIONS, Draft, Problem, RuleDraft


@dataclass(frozen=True, slots=True)
class PolicyAssembly:
    """A policy file and its cases. With a fatal problem, the file is empty.

    Attributes:
        content: the file as a mapping, for `load_policies(data=…)`.
        text: the same as YAML.
        cases: JSON Lines for `guardagent test`; label and rules are those of the whole policy.
        traces: JSON Lines for `guardagent audit`: cases that judge the end of a conversation.
        rules: the rules as they stand in the file, in its order, with their cases and the quotes of all drafts.
        renamed: for each draft, the new ids of its rules by the old ones, if they differ.
        problems: what has to be resolved.
        policies: the loaded rules, without guard requests, which a model judges; None if there are none.
    """

    content: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    cases: str = ""
    traces: str = ""
    rules: tuple[RuleDraft, ...] = ()
    renamed: tuple[Mapping[str, str], ...] = ()
    problems: tuple[Problem, ...] = ()
    policies: Policies | None = None


def assemble(
    parts: Sequence[Draft],
    context: TranslationContext,
    *,
    unlisted: Literal["allow", "deny"] | None = None,
    title: str = "",
    previous: PolicyLines | None = None,
) -> PolicyAssembly:
    """Assembles drafts to one policy file. Of two rules or declarations with one name, the later is renamed.

    Args:
        parts: the drafts, each with the rules of one group of sentences; those that are kept come first.
        context: the inputs of the translation.
        unlisted: the decision on calls that no rule concerns; without it, the earlier file decides, or the default.
        title: the first line of the file, as a comment.
        previous: the file that this one replaces. Rules of it that `parts` have unchanged, keys that no translation
            writes, and comments stay as they are.

    Raises:
        ContentError: the earlier file cannot be changed without a loss.
    """
    if not any(part.rules for part in parts):
        return _failed(Problem("empty", "no sentence has a rule; expected at least one rule", fatal=True))
    if problems := [found for part in parts if (found := _shape_problem(part, context))]:
        return _failed(*problems)
    try:
        united, names, renamed = _united(parts, previous)
        content = _content(united, names.declared.values(), frame_of(context, unlisted, previous), context)
    except InputError as error:
        return _failed(Problem("syntax", str(error), fatal=True))
    if names.problems:
        return _failed(*names.problems)
    policies = _policies(content, united, context)
    if isinstance(policies, Problem):
        return _failed(policies)
    files = case_files(united, policies)
    text = _written(content, united, title, previous)
    problems = [*frame_problems(context, previous), *files.problems]
    return PolicyAssembly(content, text, files.cases, files.traces, united, renamed, tuple(problems), policies)


def _failed(*problems: Problem) -> PolicyAssembly:
    return PolicyAssembly(problems=problems)


def _shape_problem(part: Draft, context: TranslationContext) -> Problem | None:
    """The problem of a draft that no policy file can hold. Its names are checked with the whole policy."""
    declared = {key: one for key, one in part.declarations.items() if one}
    problem = Problem("syntax", "", sentences=part.sentences, fatal=True)
    if unknown := sorted(declared.keys() - {*DECLARATIONS}):
        message = f"unknown key {unknown[0]!r} in the declarations{name_hint(unknown[0], DECLARATIONS)}"
        return replace(problem, message=message)
    content = {"version": 1, **declared, "policies": [one.source for one in part.rules]}
    try:
        if part.rules:
            read_policy_data(content, context.folder)
    except InputError as error:
        return replace(problem, message=str(error))
    return None


def _united(
    parts: Sequence[Draft], previous: PolicyLines | None
) -> tuple[tuple[RuleDraft, ...], NameTable, tuple[Mapping[str, str], ...]]:
    names = NameTable({} if previous is None else _standing(previous))
    rules = RuleTable({rule.id for part in parts for rule in part.rules}, previous.rules if previous else {})
    renamed = tuple(rules.add(names.add(AssemblyPart.of(part), part.sentences).rules) for part in parts)
    return rules.ordered(), names, renamed


def _standing(previous: PolicyLines) -> dict[DeclaredName, Declaration]:
    """The declarations of the earlier file that a person wrote: those that no rule uses, and labels and counters."""
    declared = declarations_of(previous.content)
    used = used_declarations(declared, names_of(previous.drafts))
    return used_declarations(declared, [key for key in declared if key not in used or key[0] in ("label", "counter")])


def _content(
    rules: Sequence[RuleDraft], declared: Iterable[Declaration], frame: Mapping[str, Any], context: TranslationContext
) -> dict[str, Any]:
    sections: dict[str, dict[str, Any]] = {section: {} for section in DECLARATIONS}
    for one in declared:
        sections[one.section][one.key] = one.value
    found = {key: one for key, one in sections.items() if one}
    whole = {**frame, **found, "policies": [source_of(one) for one in rules]}
    plain: dict[str, Any] = nodes_of(whole, context.folder).plain
    return plain


def _policies(
    content: Mapping[str, Any], rules: Sequence[RuleDraft], context: TranslationContext
) -> Policies | Problem | None:
    checked = [one for one in content["policies"] if "request" not in one]
    if not checked:
        return None
    try:
        return load_policies(data={**content, "policies": checked}, folder=context.folder)
    except InputError as error:
        found = re.search(r"data\.policies\[(\d+)\]", str(error))
        rule = next((one for one in rules if found and one.id == checked[int(found[1])]["id"]), None)
        problem = Problem("syntax", str(error), fatal=True)
        return replace(problem, rule=rule.id, sentences=rule.sentences) if rule else problem


def _written(content: Mapping[str, Any], rules: Sequence[RuleDraft], title: str, previous: PolicyLines | None) -> str:
    """The text of the policy file, which is read again to be sure that it says the same."""
    text = policy_text(content, rules, title, previous)
    path = Path("policies.yaml") if previous is None else previous.path
    try:
        node = parse(text.encode(), path, None)
    except ContentError:
        node = None
    if node is None or not same_value(node.plain, content):
        raise ContentError("cannot be changed without a change of meaning; expected keys and policies in lines", path)
    return text
