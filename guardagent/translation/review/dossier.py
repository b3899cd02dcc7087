"""A review file, joined with the policy file as it stands now."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent

from guardagent.policy.load import load_policies
from guardagent.policy.policies import Policies
from guardagent.policy.review import read_review, review_path, review_problems, rule_hashes
from guardagent.policy.review.record import Confirmation, Review, ReviewedSentence, ReviewFinding
from guardagent.policy.review.requirement import document_problems
from guardagent.policy.words import policies_in_words
from guardagent.translation.review.entry import QuestionEntry, ReviewEntry, RuleEntry, Standing


@dataclass(frozen=True, slots=True)
class ReviewDossier:
    """A review as a person sees it.

    Attributes:
        policies: the policy file.
        loaded: the policies in it.
        entries: the sentences in the order of the document, then the rules that rest on none.
        findings: those about no sentence and no rule.
    """

    policies: Path
    loaded: Policies
    review: Review
    entries: tuple[ReviewEntry, ...]
    findings: tuple[ReviewFinding, ...]

    @property
    def counts(self) -> Counter[Standing]:
        """The number of entries of each standing."""
        return Counter(one.standing for one in self.entries)

    @property
    def problems(self) -> tuple[str, ...]:
        """The reasons why the policy cannot be loaded with `require_review`."""
        return review_problems(self.loaded, self.review, self.policies.parent)

    @property
    def document_problems(self) -> tuple[str, ...]:
        """The differences of the document from the one that was translated."""
        return document_problems(self.review, self.policies.parent)

    @property
    def is_complete(self) -> bool:
        """Whether everything is confirmed and no question is open."""
        return set(self.counts) <= {"confirmed"} and not self.problems


def read_dossier(policies: Path) -> ReviewDossier:
    """Reads a policy file and the review file beside it.

    Raises:
        InputError: one of them is missing or invalid.
    """
    review = read_review(review_path(policies))
    loaded = load_policies(policies)
    join = _Join(review, _rules_now(loaded, review))
    entries = (*map(join.of_sentence, review.sentences), *join.others())
    shown = {id(finding) for one in entries for finding in one.findings}
    general = tuple(one for one in review.findings if id(one) not in shown)
    return ReviewDossier(policies, loaded, review, entries, general)


def _rules_now(policies: Policies, review: Review) -> dict[str, RuleEntry]:
    """The rules of a policy file, and those of a review that it no longer has, by id."""
    recorded = {one.id: one for one in review.rules}
    hashes, words = rule_hashes(policies), policies_in_words(policies)
    sources = () if policies.source is None else policies.source.rules
    lines = {path: path.read_text("utf-8-sig", "replace").splitlines() for path in {one.path for one in sources}}
    found = {
        one.id: RuleEntry(
            one.id, hashes[one.id], words[one.id].text, _excerpt(lines[one.path][one.line - 1 :]), recorded.get(one.id)
        )
        for one in sources
    }
    known = {name for one in review.sentences for name in one.rules}
    known |= {name for confirmed in review.confirmations for name in confirmed.rules}
    return found | {name: RuleEntry(name, "", "", "", recorded.get(name)) for name in sorted(known - set(found))}


def _excerpt(lines: Sequence[str]) -> str:
    """The first line, and those below it that are indented more."""
    indents = [len(one) - len(one.lstrip()) if one.strip() else None for one in lines]
    ends = (at for at, indent in enumerate(indents) if at and indent is not None and indent <= (indents[0] or 0))
    return dedent("\n".join(lines[: next(ends, None)])).strip()


@dataclass(frozen=True, slots=True)
class _Join:
    review: Review
    rules: Mapping[str, RuleEntry]

    def of_sentence(self, sentence: ReviewedSentence) -> ReviewEntry:
        return self._entry(sentence, tuple(self.rules[name] for name in sentence.rules))

    def others(self) -> Iterator[ReviewEntry]:
        """The rules that rest on no sentence, also those that were confirmed and are gone."""
        resting = {name for one in self.review.sentences for name in one.rules}
        alone = {name for one in self.review.confirmations if not one.sentence for name in one.rules}
        for name, one in self.rules.items():
            if name not in resting and (one.hash or name in alone):
                yield self._entry(None, (one,))

    def _entry(self, sentence: ReviewedSentence | None, rules: tuple[RuleEntry, ...]) -> ReviewEntry:
        names, name = {one.id for one in rules}, sentence.hash if sentence else ""

        def concerns(hashes: tuple[str, ...], about: tuple[str, ...]) -> bool:
            return name in hashes or bool(names.intersection(about))

        answers = {one.question: one for one in self.review.answers}
        questions = [one for one in self.review.questions if concerns(one.sentences, one.rules)]
        entry = ReviewEntry(
            sentence,
            rules,
            tuple(one for one in self.review.findings if concerns(one.sentences, one.rules)),
            tuple(QuestionEntry(one, answers.get(one.id)) for one in questions),
        )
        return self._confirmed(entry)

    def _confirmed(self, entry: ReviewEntry) -> ReviewEntry:
        """An entry with its last confirmation: an earlier one that fits again is not what a person said last."""
        about = sorted((one for one in self.review.confirmations if is_about(one, entry)), key=_moment)
        if not about:
            return entry
        rules = about[-1].rules if entry.sentence else {entry.rules[0].id: about[-1].rules[entry.rules[0].id]}
        is_valid = (about[-1].fate, dict(rules)) == (entry.fate, entry.rule_hashes)
        return replace(entry, confirmation=about[-1]) if is_valid else replace(entry, void=about[-1])


def _moment(one: Confirmation) -> dt.datetime:
    return dt.datetime.fromisoformat(one.at)


def is_about(confirmation: Confirmation, entry: ReviewEntry) -> bool:
    """Whether a confirmation is of the sentence, or the rule, of an entry, whatever its content."""
    if entry.sentence:
        return confirmation.sentence == entry.sentence.hash
    return not confirmation.sentence and entry.rules[0].id in confirmation.rules
