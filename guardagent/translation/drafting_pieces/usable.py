"""The part of a draft that can be used in spite of its problems."""

from __future__ import annotations

from dataclasses import replace

from guardagent.translation.drafting import DraftResult
from guardagent.translation.drafts import Draft


def usable_part(result: DraftResult) -> Draft | None:
    """Returns a draft without the rules that have fatal problems; None if nothing of it can be used.

    A sentence that such a rule rests on is not part of it, nor are the other rules of that sentence: a sentence is
    translated as a whole or not at all.
    """
    draft = result.draft
    fatal = [one for one in result.problems if one.fatal]
    if draft is None or any(not one.rule and not one.sentences for one in fatal):
        return None
    failed = {one.rule for one in fatal if one.rule}
    left_out = {number for one in fatal for number in one.sentences if not one.rule}
    while True:
        before = len(failed), len(left_out)
        left_out |= {number for rule in draft.rules if rule.id in failed for number in rule.sentences} & {
            *draft.sentences
        }
        failed |= {rule.id for rule in draft.rules if left_out & {*rule.sentences}}
        if before == (len(failed), len(left_out)):
            break
    rules = tuple(one for one in draft.rules if one.id not in failed)
    sentences = tuple(one for one in draft.sentences if one not in left_out)
    return replace(draft, sentences=sentences, rules=rules) if sentences else None
