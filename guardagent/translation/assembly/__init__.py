"""Assembles the drafts of all sentences to one policy file with its cases.

Rule ids become unique, and the same rule stands once. The cases of each rule expect the verdict of the whole policy.
`parts` has a draft with its declarations and the names in them; `layout` writes the file, and keeps unchanged lines of
an earlier one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

from guardagent._support.execution import timed_verdict
from guardagent.batch.audit import judge_trace
from guardagent.batch.cases import judge_case
from guardagent.batch.records import read_case, read_trace
from guardagent.errors import ContentError, InputError
from guardagent.policy.file.policy_keys import MAX_NAME
from guardagent.policy.file.yaml_reader import nodes_of, parse
from guardagent.policy.load import load_policies
from guardagent.policy.policies import Policies
from guardagent.translation.assembly.completion import completed
from guardagent.translation.assembly.layout import PolicyLines, policy_text, read_policy_lines, same_value
from guardagent.translation.assembly.parts import (
    AssemblyPart,
    Declaration,
    DeclaredName,
    NameTable,
    declarations_of,
    names_of,
    used_declarations,
)
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafts import DECLARATIONS, Draft, Problem, RuleDraft
from guardagent.types import Verdict

__all__ = ["NO_LINES", "PolicyAssembly", "PolicyLines", "assemble", "read_policy_lines"]

# --- cases

_MOST_SHOWN = 2_000


def case_files(rules: Sequence[RuleDraft], policies: Policies | None) -> tuple[str, str, list[Problem]]:
    """Judges the cases of rules.

    Args:
        rules: the rules; their cases have the expectation of the rule alone.
        policies: the whole policy; without it, there are no cases.

    Returns:
        The records with a proposed call and those with events, as JSON Lines, with what other rules need for an allowed
        call; and a problem for each case that the whole policy does not judge as its rule does.
    """
    lines: dict[bool, list[str]] = {True: [], False: []}
    problems = []
    for rule, record in _named(rules) if policies else ():
        assert policies is not None
        try:
            verdict = _verdict(policies, record)
            is_denied = verdict.label and record.get("label") == 0 and "proposed" in record
            if is_denied and (more := completed(record, policies, rules, [rule.id])):
                record, verdict = more, _verdict(policies, more)  # noqa: PLW2901 - its allowed side stays allowed
            line = _line({**record, "label": verdict.label, "rules": list(verdict.rules)})
        except (InputError, TypeError, ValueError, RecursionError) as error:
            problems.append(_problem(rule, f"the case {record['id']!r} cannot be read: {error}"))
            continue
        lines["events" in record].append(f"{line}\n")
        problems += [_problem(rule, difference, line) for difference in _differences(rule, record, verdict)]
    return "".join(lines[False]), "".join(lines[True]), problems


def _named(rules: Sequence[RuleDraft]) -> Iterator[tuple[RuleDraft, dict[str, Any]]]:
    """Yields the cases with unique ids."""
    ids: set[str] = set()
    for rule in rules:
        for record in rule.cases:
            name = f"{rule.id}/{str(record.get('id') or 'case').removeprefix(f'{rule.id}/')}"
            unique_id = next(
                candidate for at in count(1) if (candidate := name if at == 1 else f"{name} ({at})") not in ids
            )
            ids.add(unique_id)
            yield rule, {**record, "id": unique_id}


def _verdict(policies: Policies, record: Mapping[str, Any]) -> Verdict:
    read: Any = read_trace if "events" in record else read_case
    judge: Any = judge_trace if "events" in record else judge_case
    case = read(_line(record), "cases", 1, policies.failed_output)
    return timed_verdict(partial(judge, policies, case))


def _line(record: Mapping[str, Any]) -> str:
    text = json.dumps(record, ensure_ascii=False, allow_nan=False)
    text.encode()  # half of a surrogate pair raises here
    return text


def _differences(rule: RuleDraft, record: Mapping[str, Any], verdict: Verdict) -> Iterator[str]:
    """Yields how the verdict contradicts the expectation of the rule alone. Other rules may also deny."""
    label, expected = record.get("label"), record.get("rules")
    expected = expected if isinstance(expected, list | tuple) else ()
    difference = (
        f"the whole policy finds label {verdict.label} and violations of {', '.join(verdict.rules) or 'no rule'}"
    )
    if rule.id in expected and rule.id not in verdict.rules:
        yield f"the case {record['id']!r} expects a violation of the rule, but {difference}"
    elif rule.id in verdict.rules and rule.id not in expected and (label == 0 or "rules" in record):
        yield f"the case {record['id']!r} expects no violation of the rule, but {difference}"
    elif label == 1 and verdict.label == 0:
        yield f"the case {record['id']!r} expects that the call is denied, but {difference}"


def _problem(rule: RuleDraft, message: str, example: str = "") -> Problem:
    return Problem("case", message, rule.id, rule.sentences, example[:_MOST_SHOWN], fatal=True)


# --- keys that no draft has


def frame_of(context: TranslationContext, previous: PolicyLines) -> dict[str, Any]:
    """Returns the keys: those of the context, and those of the earlier file that a person may have written."""
    keys = dict(context.frame)
    for key, value in previous.content.items():
        if key == "tools":
            keys[key] = _tools(keys[key], value)
        elif key == "toolbox":
            keys[key] = _with_new_files(value, keys.get(key, []))
        elif key not in (*DECLARATIONS, "policies"):
            keys[key] = value
    return keys


def frame_problems(context: TranslationContext, previous: PolicyLines) -> Iterator[Problem]:
    """Yields where the earlier file contradicts the context. The file stands."""
    old = previous.content.get("failed_output", "")
    if old and context.failed_output and old != context.failed_output:
        message = f"the policy file has 'failed_output: {old}', and this translation expects {context.failed_output!r}"
        yield Problem("failed_output", f"{message}; the file stands: correct it, or keep the option out")


def _tools(tools: list[str], old: Any) -> Any:
    """The tools of the context; with the arguments that the earlier file declares, and in its order if they agree."""
    if set(old) == set(tools):
        return old
    return {tool: old.get(tool) for tool in tools} if isinstance(old, Mapping) else tools


def _with_new_files(old: Any, new: list[str]) -> Any:
    files = [old] if isinstance(old, str) else old
    more = [file for file in new if file not in files]
    return [*files, *more] if more else old


# --- rules

_KEYS = ("id", "temporal", "solver", "request", "program", "message", "remedy", "on_violation", "applies_to")


@dataclass(slots=True)
class RuleTable:
    """The rules of the drafts so far.

    Args:
        reserved: all ids of the drafts; a new id is none of them.
        fixed: the policies of an earlier file by their ids: equal ones stay as they are.
    """

    reserved: Collection[str]
    fixed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rules: dict[str, RuleDraft] = field(default_factory=dict)
    _same: dict[str, str] = field(default_factory=dict)

    def add(self, rules: Sequence[RuleDraft]) -> dict[str, str]:
        """Adds the rules of a draft, and returns the new ids of those that got one."""
        ids = {rule.id: self._id(rule) for rule in rules}
        renamed = {old: new for old, new in ids.items() if old != new}
        for rule_draft in rules:
            self._put(
                replace(
                    rule_draft,
                    id=ids[rule_draft.id],
                    cases=tuple(_case(case, rule_draft.id, renamed) for case in rule_draft.cases),
                )
            )
        return renamed

    def ordered(self) -> tuple[RuleDraft, ...]:
        """The rules in the order of their first sentences; those without a sentence come last."""
        return tuple(sorted(self.rules.values(), key=lambda rule: (not rule.quotes, min(rule.quotes, default=0))))

    def _id(self, rule: RuleDraft) -> str:
        substance = _substance(rule.rule)
        if rule.id in self.rules and _substance(self.rules[rule.id].rule) == substance:
            return rule.id
        if self.fixed.get(rule.id) != rule.source and substance in self._same:
            return self._same[substance]
        free_id = rule.id if rule.id not in self.rules else self._free(rule.id)
        self.rules[free_id] = replace(rule, id=free_id, quotes={}, cases=())
        self._same.setdefault(substance, free_id)
        return free_id

    def _put(self, rule: RuleDraft) -> None:
        first = self.rules[rule.id]
        cases = (*first.cases, *(case for case in rule.cases if case not in first.cases))
        self.rules[rule.id] = replace(first, quotes={**rule.quotes, **first.quotes}, cases=cases)

    def _free(self, name: str) -> str:
        names = (f"{name[: MAX_NAME - len(end)].rstrip()}{end}" for end in (f"_{at}" for at in count(2)))
        return next(name for name in names if name not in self.rules and name not in self.reserved)


def source_of(rule: RuleDraft) -> dict[str, Any]:
    """Returns a rule as in a policy file, with its keys in the usual order."""
    source = rule.source
    return {key: source[key] for key in (*_KEYS, *(key for key in source if key not in _KEYS)) if key in source}


def _substance(rule: Mapping[str, Any]) -> str:
    """A text that is the same for rules that differ in their message and remedy only."""
    decisive = {key: value for key, value in rule.items() if key not in ("message", "remedy")}
    if isinstance(decisive.get("temporal"), str):
        decisive["temporal"] = [decisive["temporal"].strip()]
    return json.dumps({"on_violation": "block", **decisive}, sort_keys=True)


def _case(case: Mapping[str, Any], rule: str, renamed: Mapping[str, str]) -> Mapping[str, Any]:
    """A case with new ids, and without the old id of its rule in its own."""
    renamed_case = dict(case)
    if isinstance(case.get("rules"), list | tuple):
        renamed_case["rules"] = [renamed.get(rule, rule) for rule in case["rules"]]
    if rule in renamed:
        renamed_case["id"] = str(case.get("id", "")).removeprefix(f"{rule}/")
    return renamed_case


# --- the policy file

NO_LINES = PolicyLines()


@dataclass(frozen=True, slots=True)
class PolicyAssembly:
    """A policy file and its cases. With a fatal problem of another kind than `case`, the file is empty.

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
    parts: Sequence[Draft], context: TranslationContext, *, title: str = "", previous: PolicyLines = NO_LINES
) -> PolicyAssembly:
    """Assembles drafts to one policy file. Of two rules or declarations with one name, the later is renamed.

    Args:
        parts: the drafts, each with the rules of one group of sentences; those that are kept come first.
        context: the inputs of the translation.
        title: the first line of the file, as a comment.
        previous: the file that this one replaces. Rules of it that `parts` have unchanged, keys that no translation
            writes, and comments stay as they are.

    Raises:
        ContentError: the earlier file cannot be changed without a loss.
    """
    if not any(part.rules for part in parts):
        return _failed(Problem("empty", "no sentence has a rule; expected at least one rule", fatal=True))
    table = RuleTable({rule.id for part in parts for rule in part.rules}, previous.rules)
    try:
        names = NameTable(_standing(previous))
        renamed = tuple(table.add(names.add(AssemblyPart.of(part), part.sentences).rules) for part in parts)
        rules = table.ordered()
        content = _content(rules, names.declared.values(), frame_of(context, previous), context)
    except InputError as error:
        return _failed(Problem("syntax", str(error), fatal=True))
    if names.problems:
        return _failed(*names.problems)
    policies = _policies(content, rules, context)
    if isinstance(policies, Problem):
        return _failed(policies)
    cases, traces, problems = case_files(rules, policies)
    text = _written(content, rules, title, previous)
    problems = [*frame_problems(context, previous), *problems]
    return PolicyAssembly(content, text, cases, traces, rules, renamed, tuple(problems), policies)


def _failed(*problems: Problem) -> PolicyAssembly:
    return PolicyAssembly(problems=problems)


def _standing(previous: PolicyLines) -> dict[DeclaredName, Declaration]:
    """The declarations of the earlier file that a person wrote: those that no rule uses, and labels and counters."""
    declared = declarations_of(previous.content)
    used = used_declarations(declared, names_of(previous.drafts))
    return used_declarations(declared, [key for key in declared if key not in used or key[0] in ("label", "counter")])


def _content(
    rules: Sequence[RuleDraft], declared: Iterable[Declaration], frame: Mapping[str, Any], context: TranslationContext
) -> dict[str, Any]:
    sections: dict[str, dict[str, Any]] = {section: {} for section in DECLARATIONS}
    for declaration in declared:
        sections[declaration.section][declaration.key] = declaration.value
    content = {key: section for key, section in sections.items() if section}
    whole = {**frame, **content, "policies": [source_of(rule) for rule in rules]}
    plain: dict[str, Any] = nodes_of(whole, context.folder).plain
    return plain


def _policies(
    content: Mapping[str, Any], rules: Sequence[RuleDraft], context: TranslationContext
) -> Policies | Problem | None:
    checked = [policy for policy in content["policies"] if "request" not in policy]
    if not checked:
        return None
    try:
        return load_policies(data={**content, "policies": checked}, folder=context.folder)
    except InputError as error:
        match = re.search(r"data\.policies\[(\d+)\]", str(error))
        rule = next((rule for rule in rules if match and rule.id == checked[int(match[1])]["id"]), None)
        problem = Problem("syntax", str(error), fatal=True)
        return replace(problem, rule=rule.id, sentences=rule.sentences) if rule else problem


def _written(content: Mapping[str, Any], rules: Sequence[RuleDraft], title: str, previous: PolicyLines) -> str:
    """The text of the policy file, which is read again to be sure that it says the same."""
    text = policy_text(content, rules, title, previous)
    try:
        node = parse(text.encode(), previous.path, None)
    except ContentError:
        node = None
    if node is None or not same_value(node.plain, content):
        problem = "cannot be changed without a change of meaning; expected keys and policies in lines"
        raise ContentError(problem, previous.path)
    return text
