"""Answers and confirmations of several people in one review file."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from guardagent._support.files import shared_folder_lock
from guardagent.errors import InputError
from guardagent.policy.review import review_path, write_review
from guardagent.policy.review.record import (
    Confirmation,
    RecordedAnswer,
    Review,
    ReviewedRule,
    ReviewQuestion,
)
from guardagent.translation.review.dossier import ReviewDossier, is_about, read_dossier
from guardagent.translation.review.entry import ReviewEntry


class ReviewConflictError(InputError):
    """The policy or its review has changed since it was shown, so nothing was saved."""


@dataclass(frozen=True, slots=True)
class ReviewStore:
    """The review of one policy file. Each change reads the files again, and is saved at once.

    Attributes:
        policies: the policy file.
        by: the reviewer's name.
    """

    policies: Path
    by: str

    def answer(self, shown: ReviewEntry, question: ReviewQuestion, answer: int | str) -> None:
        """Records an answer; it replaces the one that was shown.

        Args:
            shown: the entry as shown.
            question: one of its questions.
            answer: the position of a choice, or the reviewer's own words.

        Raises:
            ReviewConflictError: the entry, or the answer, is no longer as shown.
            InputError: a file is invalid or cannot be written.
        """

        def change(review: Review) -> Review:
            kept = [one for one in review.answers if one.question != question.id]
            choice, words = (None, answer) if isinstance(answer, str) else (answer, "")
            new = RecordedAnswer(question.id, choice, self.by, _now(), words=words)
            return replace(review, answers=(*kept, new))

        self._change(shown, change)

    def confirm(self, shown: ReviewEntry) -> None:
        """Records that the reviewer confirms an entry as shown. Rules that a person changed become `edited`.

        For a rule that rests on no sentence and is no longer in the policy, this ends its confirmation.

        Raises:
            ReviewConflictError: the entry is no longer as shown.
            InputError: nobody can confirm the entry now, or as for `answer`.
        """
        if shown.obstacle:
            raise InputError(f"{shown.name}: cannot be confirmed: {shown.obstacle}")

        def change(review: Review) -> Review:
            kept = tuple(one for one in review.confirmations if not is_about(one, shown))
            if not shown.sentence and not shown.rules[0].hash:
                return replace(review, confirmations=kept)
            name = shown.sentence.hash if shown.sentence else ""
            own = Confirmation(name, shown.fate, shown.rule_hashes, self.by, _now())
            return replace(review, rules=_with_edits(review.rules, shown), confirmations=(*kept, own))

        self._change(shown, change)

    def _change(self, shown: ReviewEntry, change: Callable[[Review], Review]) -> None:
        with shared_folder_lock(self.policies.parent):
            current = read_dossier(self.policies)
            if shown not in current.entries:
                raise ReviewConflictError(_difference(shown, current))
            write_review(review_path(self.policies), change(current.review))


def _now() -> str:
    """The time, with its zone."""
    return dt.datetime.now().astimezone().isoformat(timespec="seconds")


def _with_edits(rules: Iterable[ReviewedRule], entry: ReviewEntry) -> tuple[ReviewedRule, ...]:
    known = {one.id: one for one in rules}
    for one in entry.rules:
        if one.recorded is None:
            known[one.id] = ReviewedRule(one.id, one.hash, {}, one.words, readings="edited")
        elif one.recorded.hash != one.hash:
            known[one.id] = replace(one.recorded, hash=one.hash, words=one.words, readings="edited")
    return tuple(known.values())


def _difference(shown: ReviewEntry, current: ReviewDossier) -> str:
    """Says who was quicker, or that the content is another."""
    same = next((one for one in current.entries if one.sentence == shown.sentence and one.rules == shown.rules), None)
    quicker = [] if same is None else [one.answer for one in same.questions if one.answer]
    if same and same.confirmation and same.confirmation != shown.confirmation:
        return f"{shown.name}: {same.confirmation.by} has confirmed it meanwhile; nothing was saved"
    if new := [one for one in quicker if one not in [old.answer for old in shown.questions]]:
        return f"{shown.name}: {new[0].by} has answered meanwhile; nothing was saved"
    return f"{shown.name}: it has changed since it was shown; nothing was saved"
