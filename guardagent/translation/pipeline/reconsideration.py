"""Takes rules that stand up again, because a new answer about another sentence concerns them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from guardagent.policy.review.record import Confirmation, Review, ReviewFinding
from guardagent.translation.change import FallenRule, Kept
from guardagent.translation.context import TranslationContext
from guardagent.translation.pipeline.owner_answers import OwnerAnswers
from guardagent.translation.readings import SentenceGroup, sentence_groups

_WHY = "an answer about another sentence concerns it"


def reconsidered(
    standing: Kept, previous: Review, owner: OwnerAnswers, context: TranslationContext
) -> tuple[Kept, tuple[SentenceGroup, ...]]:
    """Returns what stands without the rules that new answers concern, and these as groups of sentences.

    Both authors of a group begin with the rule as it stands, since two drafts of it agreed or a person decided. A rule
    that a person wrote or changed stands: only its writer knows why.

    Args:
        standing: what stands of the earlier translation.
        previous: its review.
        owner: the answers.
        context: the inputs.
    """
    if not owner.unapplied:
        return standing, ()
    readings = {one.id: one.readings for one in standing.rules}
    groups = [one for one in _groups(standing, owner) if _may_change(one, readings) and _is_concerned(one, owner)]
    found = tuple(_with_singles(one, readings) for one in groups)
    return _without(standing, previous, found, context), found


def _groups(standing: Kept, owner: OwnerAnswers) -> Iterable[SentenceGroup]:
    """The rules that stand, by the sentences that need them. They follow all answers that were applied."""
    enforceable = {one.number for one in standing.sentences if one.fate == "rule"}
    new = {one.key for one in owner.unapplied}
    applied = tuple(one.key for one in owner.rulings if one.key not in new)
    for draft in standing.drafts:
        numbers = tuple(one for one in draft.sentences if one in enforceable)
        known = [replace(draft, sentences=numbers, rulings=applied)]
        yield from sentence_groups(known, known, numbers)


def _may_change(group: SentenceGroup, readings: Mapping[str, str]) -> bool:
    rules = [rule.id for draft in group.drafts for rule in draft.rules]
    return bool(group.sentences) and bool(rules) and all(readings.get(one, "edited") != "edited" for one in rules)


def _is_concerned(group: SentenceGroup, owner: OwnerAnswers) -> bool:
    return any(owner.concerning(draft) for draft in group.drafts)


def _with_singles(group: SentenceGroup, readings: Mapping[str, str]) -> SentenceGroup:
    """The group; without a second draft if there was none, as nothing would confirm it."""
    single = any(readings[rule.id] == "single" for draft in group.drafts for rule in draft.rules)
    return replace(group, second=None) if single else group


def _without(standing: Kept, previous: Review, groups: Collection[SentenceGroup], context: TranslationContext) -> Kept:
    """The part that stands without some groups, and without the entries of the review about them alone."""
    numbers = {number for one in groups for number in one.sentences}
    rules = {rule.id for one in groups for draft in one.drafts for rule in draft.rules}
    hashes = {context.sentence(one).hash for one in numbers}

    def stands(sentences: Iterable[str], about: Iterable[str]) -> bool:
        return not hashes.intersection(sentences) and not rules.intersection(about)

    drafts = (
        replace(
            one,
            sentences=tuple(number for number in one.sentences if number not in numbers),
            rules=tuple(rule for rule in one.rules if rule.id not in rules),
        )
        for one in standing.drafts
    )
    kept_ids = {one.id for one in previous.questions if stands(one.sentences, one.rules)}
    return replace(
        standing,
        drafts=tuple(one for one in drafts if one.rules),
        sentences=tuple(one for one in standing.sentences if one.number not in numbers),
        rules=tuple(one for one in standing.rules if one.id not in rules),
        questions=tuple(one for one in standing.questions if one.id in kept_ids),
        answers=tuple(one for one in standing.answers if one.question in kept_ids),
        findings=tuple(one for one in standing.findings if stands(one.sentences, one.rules)),
        confirmations=tuple(one for one in standing.confirmations if stands([one.sentence], one.rules)),
        fallen=(*standing.fallen, *(FallenRule(one, _WHY) for one in sorted(rules))),
        translate=tuple(sorted({*standing.translate, *numbers})),
    )


def kept_confirmations(previous: Review, now: Review) -> Review:
    """Returns a review with the confirmations of sentences that were taken up again and came out as they were.

    A sentence did if its fate, its rules, and what a person saw with them (questions, answers, findings) are the same.
    A blocking finding that is new voids a confirmation: who confirmed has not seen it.
    """
    before, after = _Seen(previous), _Seen(now)
    known = {one.sentence for one in now.confirmations}
    same = [
        one
        for one in previous.confirmations
        if one.sentence and one.sentence not in known and after.of(one.sentence) == before.of(one.sentence) is not None
    ]
    known_findings = {_identity(one) for one in previous.findings if one.blocking}
    new = [one for one in now.findings if one.blocking and _identity(one) not in known_findings]
    standing = [one for one in now.confirmations if not any(_concerns(finding, one) for finding in new)]
    return replace(now, confirmations=(*standing, *same))


def _identity(one: ReviewFinding) -> object:
    """A finding with the same words about another rule is another one."""
    return one.kind, one.message, frozenset(one.sentences), frozenset(one.rules)


def _concerns(finding: ReviewFinding, confirmed: Confirmation) -> bool:
    return confirmed.sentence in finding.sentences or not confirmed.rules.keys().isdisjoint(finding.rules)


class _Seen:
    """The content that a person sees with a sentence before they confirm it."""

    def __init__(self, review: Review) -> None:
        self._review = review
        self._sentences = {one.hash: one for one in review.sentences}
        self._rules = {one.id: one for one in review.rules}

    def of(self, sentence: str) -> object:
        """A value that is equal if nothing differs; None if the review does not have the sentence."""
        found = self._sentences.get(sentence)
        if found is None:
            return None
        rules = {*found.rules}
        answers = {one.question: (one.choice, one.words) for one in self._review.answers}
        return (
            found.fate,
            found.reason,
            sorted((one.id, one.hash, one.words, one.readings) for name, one in self._rules.items() if name in rules),
            sorted(
                (one.id, one.text, str(answers.get(one.id)))
                for one in self._review.questions
                if sentence in one.sentences or rules & {*one.rules}
            ),
            sorted(
                (one.kind, one.message, one.blocking)
                for one in self._review.findings
                if sentence in one.sentences or rules & {*one.rules}
            ),
        )
