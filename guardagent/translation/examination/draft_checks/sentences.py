"""Sentences: each one has a rule, a reason or an ambiguity; each rule has an id of its own and a message."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from guardagent.translation.drafting.draft import Draft, Problem, RuleDraft
from guardagent.translation.examination.examined import ExaminedDraft, problem_of

_ID = re.compile(r"[a-z][a-z0-9_]*")


def check(examined: ExaminedDraft) -> Iterator[Problem]:
    """Ids that are unusable are fatal."""
    draft = examined.draft
    ids = Counter(one.id for one in draft.rules)
    for name in (name for name, count in ids.items() if count > 1):
        yield Problem("id", f"{ids[name]} rules have the id {name!r:.100}; expected each id once", name, fatal=True)
    for rule in draft.rules:
        yield from _of_rule(rule, draft)
    yield from _uncovered(draft)
    for one in draft.ambiguities:
        if len(set(one.readings)) < 2 or not one.question.strip():
            text = "the ambiguity has no question, or fewer than two readings; expected both"
            yield Problem("ambiguity", text, sentences=(one.sentence,))


def _of_rule(rule: RuleDraft, draft: Draft) -> Iterator[Problem]:
    if not _ID.fullmatch(str(rule.id)):
        text = f"the id {rule.id!r:.100} is unusable; expected small letters, digits and '_', such as 'refund_limit'"
        yield problem_of(rule, "id", text, fatal=True)
    if rule.quotes and not set(rule.quotes) & set(draft.sentences):
        numbers = ", ".join(map(str, draft.sentences))
        text = f"the rule rests on none of the sentences to translate, which are {numbers}"
        yield problem_of(rule, "sentence", text)
    if not str(rule.rule.get("message") or "").strip():
        yield problem_of(rule, "message", "the rule has no 'message'; expected what people read when it is violated")


def _uncovered(draft: Draft) -> Iterator[Problem]:
    covered = {number for rule in draft.rules for number in rule.quotes}
    covered |= {number for number, reason in draft.declined.items() if reason.strip()}
    covered |= {one.sentence for one in draft.ambiguities}
    for number in draft.sentences:
        if number not in covered:
            text = f"sentence {number} has no rule, no reason why it has none, and no ambiguity; expected one of them"
            yield Problem("sentence", text, sentences=(number,))
