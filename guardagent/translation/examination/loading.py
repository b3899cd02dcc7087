"""Loads a draft as a whole, and each rule alone; finds every rule and declaration that does not load."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from guardagent.errors import InputError, error_text, name_hint
from guardagent.policy.policies import Policies
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafting.draft import DECLARATIONS, Draft, RuleDraft

_MOST_DECLARATIONS = 40  # that are tried one by one
_LONGEST = 600
_LONGEST_FORMULA, _LONGEST_RULE = 2000, 20_000  # characters; nobody confirms a longer rule, and proofs take too long
_RULE = ("temporal", "solver", "message", "remedy", "on_violation", "applies_to")
_NO_RULE = {"id": "rule", "temporal": "G true"}
_PLACE = re.compile(r"\Adata(?:\.policies\[0\])?(?:\.|: )")


@dataclass(frozen=True, slots=True)
class LoadedDraft:
    """The result of loading a draft.

    Attributes:
        whole: the policies; None if the draft does not load.
        problem: why it does not load as a whole although each part does.
        frame_problem: why not even the keys that no draft decides load, such as `failed_output`.
        declarations: the declarations that do not load, with the reason.
        rules: each rule alone, with the reason if it does not load.
    """

    whole: Policies | None
    problem: str = ""
    frame_problem: str = ""
    declarations: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[tuple[Policies | None, str], ...] = ()


def load_draft(draft: Draft, context: TranslationContext) -> LoadedDraft:
    """Loads a draft. No file that it names is read."""
    frame = dict(context.frame)
    if frame_problem := _load({**frame, "policies": [_NO_RULE]}, context)[1]:
        return LoadedDraft(None, frame_problem=frame_problem)
    wrong = _load_declarations(draft, frame, context)
    rules = tuple(_load_rule(one, frame, context) for one in draft.rules)
    if not rules or wrong or any(problem for _, problem in rules):
        return LoadedDraft(None, "", "", wrong, rules)
    return LoadedDraft(*_load(draft.content(context), context), rules=rules)


def _load_rule(rule: RuleDraft, frame: Mapping[str, Any], context: TranslationContext) -> tuple[Policies | None, str]:
    """Loads a rule alone."""
    if problem := _refused(rule):
        return None, problem
    return _load({**frame, "policies": [rule.source]}, context)


def _load(content: Mapping[str, Any], context: TranslationContext) -> tuple[Policies | None, str]:
    try:
        return context.load(content), ""
    except InputError as error:
        return None, _PLACE.sub("", str(error))[:_LONGEST]
    except Exception as error:  # noqa: BLE001 - such as a rule that is nested too deeply
        return None, f"cannot be read: {error_text(error)}"[:_LONGEST]


def _refused(rule: RuleDraft) -> str:
    """The reason not even to load a rule: it names files, is too long, or needs a model; empty if there is none."""
    if not isinstance(rule.rule, Mapping):
        return (
            f"the rule is a {type(rule.rule).__name__}; expected an object with 'temporal' or 'solver', and 'message'"
        )
    if other := next((key for key in rule.rule if key not in _RULE), None):
        return f"{str(other)[:80]!r} is not a key of a drafted rule{name_hint(str(other)[:80], _RULE)}"
    solver = rule.rule.get("solver")
    if isinstance(solver, Mapping) and "smt_file" in solver:
        return "'smt_file' reads a file; expected the text under 'smt'"
    formula, whole = len(str(rule.rule.get("temporal"))), len(str(rule.rule))
    if formula > _LONGEST_FORMULA or whole > _LONGEST_RULE:
        return (
            f"the formula has {formula:,} characters, and the rule {whole:,}; expected at most {_LONGEST_FORMULA:,} "
            f"and {_LONGEST_RULE:,}: split it, or declare constants and definitions"
        )
    return ""


def _load_declarations(draft: Draft, frame: dict[str, Any], context: TranslationContext) -> Mapping[str, str]:
    """Adds the declarations that load to a frame, and returns the others. One may need others that come later."""
    wrong: dict[str, str] = {}
    waiting = list(_declarations(draft, wrong))
    everything = {**frame, "policies": [_NO_RULE]}
    for key, name, value in waiting:
        everything[key] = {**everything.get(key, {}), name: value}
    problem = _load(everything, context)[1]
    if not problem or len(waiting) > _MOST_DECLARATIONS:
        frame |= {key: one for key, one in everything.items() if key != "policies"}
        return wrong | ({"declarations": problem} if problem else {})
    while waiting:
        left = []
        for key, name, value in waiting:
            changed = {**frame, key: {**frame.get(key, {}), name: value}}
            if problem := _load({**changed, "policies": [_NO_RULE]}, context)[1]:
                left.append((key, name, value))
                wrong[f"{key}.{name}"] = problem
            else:
                frame[key] = changed[key]
                wrong.pop(f"{key}.{name}", None)
        if len(left) == len(waiting):
            break
        waiting = left
    return wrong


def _declarations(draft: Draft, wrong: dict[str, str]) -> Iterator[tuple[str, str, Any]]:
    for key, names in draft.declarations.items():
        if key not in DECLARATIONS:
            wrong[str(key)] = f"{str(key)[:80]!r} is no declaration of a draft{name_hint(str(key)[:80], DECLARATIONS)}"
        elif not isinstance(names, Mapping):
            wrong[key] = f"{key!r} is a {type(names).__name__}; expected an object of names"
        else:
            yield from ((key, name, value) for name, value in names.items())
