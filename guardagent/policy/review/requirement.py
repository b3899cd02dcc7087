"""Holds a policy to its review: the reasons why a policy is not what people confirmed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from guardagent.errors import InputError
from guardagent.policy.file.policy_file import PolicyFile
from guardagent.policy.policies import Policies
from guardagent.policy.review.document_changes import document_problems, quoted, sentence_name
from guardagent.policy.review.record import Confirmation, Review, ReviewedSentence
from guardagent.policy.review.review_file import instant, read_review, review_path
from guardagent.policy.review.rule_hashes import rule_hashes

SHOWN = 10  # problems in a message
_UNKNOWN = dt.datetime.min.replace(tzinfo=dt.UTC)

SentenceStatus = Literal["confirmed", "changed", "unconfirmed"]
"""Confirmed as it stands, or a heading that needs no confirmation; confirmed with another fate or other rules; never
confirmed, or nothing to confirm yet."""


def require_review(policies: Policies | PolicyFile, path: Path | str) -> None:
    """Requires that people confirmed every sentence and rule of a policy as they stand.

    Args:
        policies: the policy.
        path: its review file.

    Raises:
        InputError: the review file is missing, invalid, or does not confirm everything; the message lists the problems.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no such file; expected the review of the policy, beside it: 'guardagent translate'")
    if problems := review_problems(policies, read_review(path), path.parent):
        more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
        shown = "".join(f"\n- {one}" for one in [*problems[:SHOWN], *more])
        raise InputError(
            f"{path}: the review does not hold; expected every sentence and rule confirmed as it stands:{shown}"
        )


def required_review(policies: object, review: object) -> Path:
    """Returns the review file that an option means: True for the one beside the policy file, or a path.

    Raises:
        InputError: there are several policy files, or the option is something else.
    """
    paths = [policies] if isinstance(policies, str | Path) else list(policies) if isinstance(policies, Sequence) else []
    if len(paths) != 1:
        raise InputError(f"{len(paths)} policy files have no common review; expected one that includes the others")
    if review is True:
        return review_path(paths[0])
    if isinstance(review, str | Path) and str(review):
        return Path(review)
    raise InputError(f"'require_review=' is {review!r}; expected True, False or the path of a review file")


def review_problems(policies: Policies | PolicyFile, review: Review, folder: Path | str) -> tuple[str, ...]:
    """Returns the reasons why a policy is not what people confirmed; empty if it is.

    Args:
        policies: the policy.
        review: its review.
        folder: the base of the path of the document.

    Raises:
        InputError: a file that the policy refers to cannot be read.
    """
    confirmed = _Confirmed(review, rule_hashes(policies))
    return (
        *document_problems(review, Path(folder)),
        *_open_problems(review),
        *confirmed.frame_problems(),
        *confirmed.sentence_problems(),
        *confirmed.rule_problems(),
    )


def sentence_status(policies: Policies | PolicyFile, review: Review) -> tuple[SentenceStatus, ...]:
    """Returns the status of each sentence of a review, in its order.

    Raises:
        InputError: a file that the policy refers to cannot be read.
    """
    confirmed = _Confirmed(review, rule_hashes(policies))
    return tuple(map(confirmed.status, review.sentences))


def rule_problems(policies: Policies | PolicyFile, review: Review) -> tuple[str, ...]:
    """Returns the problems of the rules that rest on no sentence: not confirmed, changed or removed since.

    Raises:
        InputError: a file that the policy refers to cannot be read.
    """
    return tuple(_Confirmed(review, rule_hashes(policies)).rule_problems())


def _open_problems(review: Review) -> Iterator[str]:
    """Questions without an applied answer, and findings that no confirmation can cover."""
    for question in review.open_questions:
        yield f"question {question.id!r} is open: {quoted(question.text)}"
    for answer in review.answers:
        if not answer.applied:
            yield f"the answer to question {answer.question!r} is not applied; run 'guardagent translate' again"
    for finding in review.findings:
        if finding.blocking and not finding.sentences and not finding.rules:
            yield f"finding {finding.kind!r} concerns the whole document: {quoted(finding.message)}"


class _Confirmed:
    """The last confirmations, compared with the rules now: an earlier one that fits again is not what people said last.

    Args:
        review: the review.
        hashes: the hashes of the rules now.
    """

    def __init__(self, review: Review, hashes: Mapping[str, str]) -> None:
        in_time = sorted(review.confirmations, key=lambda one: instant(one.at) or _UNKNOWN)
        self._sentences, self._hashes, self._settled = review.sentences, hashes, review.settled_headings
        self._of_sentences = {one.sentence: one for one in in_time if one.sentence}
        self._of_rules = {rule: then for one in in_time if not one.sentence for rule, then in one.rules.items()}
        self._resting = {rule for sentence in review.sentences for rule in sentence.rules}

    def status(self, sentence: ReviewedSentence) -> SentenceStatus:
        if sentence.hash in self._settled:
            return "confirmed"
        found = self._of_sentences.get(sentence.hash)
        if found is None or not _is_decided(sentence):
            return "unconfirmed"
        present = {rule: self._hashes.get(rule) for rule in sentence.rules}
        return "confirmed" if (found.fate, dict(found.rules)) == (sentence.fate, present) else "changed"

    def sentence_problems(self) -> Iterator[str]:
        for sentence in self._sentences:
            match self.status(sentence):
                case "changed":
                    differences = "; ".join(self._differences(sentence, self._of_sentences[sentence.hash]))
                    yield f"{sentence_name(sentence)} changed since it was confirmed: {differences}"
                case "unconfirmed":
                    undecided = "not confirmed" if _is_decided(sentence) else "not decided"
                    yield f"{sentence_name(sentence)} is {undecided}{self._missing(sentence)}"

    def rule_problems(self) -> Iterator[str]:
        for rule in dict.fromkeys((*self._hashes, *self._of_rules)):
            now, then = self._hashes.get(rule), self._of_rules.get(rule)
            if rule in self._resting or now == then:
                continue
            if then is None:
                yield f"rule {rule!r} rests on no sentence and is not confirmed"
            elif now is None:
                yield f"rule {rule!r} was confirmed and is no longer in the policy"
            else:
                yield f"rule {rule!r} changed since it was confirmed"

    def frame_problems(self) -> Iterator[str]:
        """Explains a change of all rules at once."""
        of_sentences = [rule for one in self._of_sentences.values() for rule in one.rules.items()]
        both = [rule for rule in (*of_sentences, *self._of_rules.items()) if rule[0] in self._hashes]
        if len(both) > 1 and not any(self._hashes[rule] == then for rule, then in both):
            yield (
                "every confirmed rule changed, perhaps with a key that concerns all of them: 'tools', 'unlisted', "
                "'failed_output', 'shadow', or a tag, counter or toolbox that no rule uses"
            )

    def _differences(self, sentence: ReviewedSentence, then: Confirmation) -> Iterator[str]:
        if then.fate != sentence.fate:
            yield f"it was confirmed as {then.fate!r} and is now {sentence.fate!r}"
        for rule in dict.fromkeys((*sentence.rules, *then.rules)):
            if rule not in self._hashes:
                yield f"rule {rule!r} is no longer in the policy"
            elif rule not in then.rules:
                yield f"rule {rule!r} was not confirmed with it"
            elif rule not in sentence.rules:
                yield f"rule {rule!r} does not rest on it any more"
            elif self._hashes[rule] != then.rules[rule]:
                yield f"rule {rule!r} changed"

    def _missing(self, sentence: ReviewedSentence) -> str:
        missing = [repr(rule) for rule in sentence.rules if rule not in self._hashes]
        return f", and the policy has no rule {', '.join(missing)}" if missing else ""


def _is_decided(sentence: ReviewedSentence) -> bool:
    return sentence.fate != "open" and not (sentence.fate == "rule" and not sentence.rules)
