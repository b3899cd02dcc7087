"""Lint of the draft alone: contradictory and vacuous rules are fatal.

Sentences can contradict each other. Then each rule is right, and only the owner of the document can say what holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from guardagent.translation.drafting.draft import Problem
from guardagent.translation.examination.examined import ExaminedDraft
from guardagent.translation.examination.findings import lint_problems

_OF_WHOLE_POLICIES = ("uncovered", "unlisted")  # a draft is only a part
_HINT = (
    "if the sentences contradict each other, leave each rule as its sentence says, and put the contradiction under "
    "'ambiguous'"
)


def check(examined: ExaminedDraft) -> Iterator[Problem]:
    """Nothing if the draft does not load as a whole."""
    if examined.policies is not None:
        sentences = {one.id: one.sentences for one in examined.draft.rules}
        found = lint_problems(examined.policies, sentences, only_fatal=examined.only_fatal, known=examined.known_calls)
        yield from (_of_document(one, sentences) for one in found if one.kind not in _OF_WHOLE_POLICIES)


def _of_document(one: Problem, sentences: Mapping[str, tuple[int, ...]]) -> Problem:
    """A problem of rules that rest on different sentences, which may be one of the document."""
    if not one.fatal or len({sentences.get(rule) for rule in (one.rule, *one.others)}) == 1:
        return one
    return replace(one, message=f"{one.message}; {_HINT}", fatal=False)
