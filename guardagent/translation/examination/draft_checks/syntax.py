"""Syntax: every rule and declaration that does not load, not only the first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from guardagent.translation.drafting.draft import Problem, RuleDraft
from guardagent.translation.examination.examined import ExaminedDraft, problem_of


def check(examined: ExaminedDraft) -> Iterator[Problem]:
    """All of them are fatal."""
    loaded, everywhere = examined.loaded, examined.draft.sentences
    if loaded.frame_problem:
        text = f"no rule can load, since the rest of the policy file is wrong: {loaded.frame_problem}"
        yield Problem("syntax", text, sentences=everywhere, fatal=True)
        return
    for problem in loaded.declarations.values():
        yield Problem("syntax", f"a declaration does not load: {problem}", sentences=everywhere, fatal=True)
    wrong = [(rule, problem) for rule, (_, problem) in zip(examined.draft.rules, loaded.rules, strict=True) if problem]
    for rule, problem in wrong:
        if not _uses(rule, loaded.declarations):
            yield problem_of(rule, "syntax", f"the rule does not load: {problem}", fatal=True)
    if loaded.problem and not _are_repeated(examined.draft.rules):
        text = f"each rule loads, but not all of them together: {loaded.problem}"
        yield Problem("syntax", text, sentences=everywhere, fatal=True)


def _uses(rule: RuleDraft, declarations: Mapping[str, str]) -> bool:
    """Whether a rule names a declaration that does not load, so that its own error says nothing."""
    names = [re.split(r"\W", key.partition(".")[2], maxsplit=1)[0] for key in declarations]
    text = str(rule.rule)
    return any(re.search(rf"\b{name}\b", text) for name in names if name)


def _are_repeated(rules: Iterable[RuleDraft]) -> bool:
    """Whether two rules have the same id, which `sentences` reports."""
    return any(count > 1 for count in Counter(one.id for one in rules).values())
