"""The report on a translation: a short document for the person who signs it.

    review file -> `summarize` -> JSON values -> a format of `report_formats`

It has the figures and lists of a review, with sentences by number, and the standing of rules and sentences: settled, or
what a person still has to decide. `docs/translation_report.md` has its keys.
"""

from __future__ import annotations

import shlex
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from guardagent._support.json_values import plain
from guardagent.policy.documents import Sentence, SentenceChange
from guardagent.policy.review.record import (
    FATES,
    ModelCost,
    RecordedAnswer,
    Review,
    ReviewedRule,
    ReviewedSentence,
    ReviewFinding,
    ReviewQuestion,
)


@dataclass(frozen=True, slots=True)
class DocumentChanges:
    """The changed sentences, the answers, the rules that fell with them, and those that stay.

    Attributes:
        changed, added, removed: the sentences, as `guardagent.policy.documents.compare` finds them.
        fallen: the ids of the rules that a changed or removed sentence or an answer concerns. They are gone or
            translated again.
        kept: the ids of the other rules of the last version.
        policies: the path of the new policy file.
        against: the path of the last one; empty if it is not kept.
        answers: the ids of the questions whose answers this run applied.
    """

    changed: tuple[SentenceChange, ...]
    added: tuple[Sentence, ...]
    removed: tuple[Sentence, ...]
    fallen: tuple[str, ...]
    kept: tuple[str, ...]
    policies: str
    against: str = ""
    answers: tuple[str, ...] = ()

    @property
    def replay(self) -> str:
        """The command that shows what recorded calls would now get; `LOG` stands for the log or the traces."""
        against = ["--against", self.against] if self.against else []
        return shlex.join(["guardagent", "replay", "LOG", "--policies", self.policies, *against])


Places = Callable[[Iterable[str]], list[int | str]]
"""The numbers of sentences by their hashes, or the hashes."""
RuleStanding = Literal["settled", "single", "open"]
"""Its cases were confirmed, or a person decided; nobody read them; a question or a blocking finding is open."""


class Settlement:
    """The standing of each rule and sentence of a review.

    Attributes:
        resting: the hashes of the sentences that a rule rests on, by its id.
        rules: the standing of each rule by its id.
    """

    def __init__(self, review: Review) -> None:
        open_items: list[ReviewQuestion | ReviewFinding] = [*review.open_questions]
        open_items += [finding for finding in review.findings if finding.blocking]
        self._about = {rule for open_item in open_items for rule in open_item.rules}
        self._sentences = {sentence for open_item in open_items for sentence in open_item.sentences}
        # An item that names no rule is about all rules of its sentences.
        self._whole = {sentence for open_item in open_items if not open_item.rules for sentence in open_item.sentences}
        self.resting = {rule.id: dict.fromkeys(rule.quotes) for rule in review.rules}
        for sentence in review.sentences:
            for name in sentence.rules:
                self.resting.setdefault(name, {})[sentence.hash] = None
        self.rules = {rule.id: self._of_rule(rule) for rule in review.rules}

    def of_sentence(self, sentence: ReviewedSentence) -> RuleStanding:
        """Returns the standing of a sentence with rules: the worst of theirs. A missing rule is open."""
        states = [self.rules.get(name, "open") for name in sentence.rules]
        if sentence.fate == "open" or sentence.hash in self._sentences or "open" in (states or ["open"]):
            return "open"
        return "single" if "single" in states else "settled"

    def _of_rule(self, rule: ReviewedRule) -> RuleStanding:
        if rule.readings == "open" or rule.id in self._about or self.resting[rule.id].keys() & self._whole:
            return "open"
        return "single" if rule.readings == "single" else "settled"


def outcome(review: Review) -> Literal[0, 1, 3]:
    """Returns the exit status of a translation.

    Returns:
        3 if the fate of a sentence is open, as the model gave nothing usable; 1 if a question, a blocking finding or
        the readings of a rule are open, or a sentence lacks the rule that it should have; otherwise 0. Of a rule with
        a single reading, its finding decides.
    """
    if any(sentence.fate == "open" for sentence in review.sentences):
        return 3
    settlement = Settlement(review)
    standings = {*settlement.rules.values()}
    standings |= {settlement.of_sentence(sentence) for sentence in review.sentences if sentence.fate == "rule"}
    blocking = any(finding.blocking for finding in review.findings)
    return 1 if blocking or review.open_questions or "open" in standings else 0


def summarize(review: Review, changes: DocumentChanges | None = None) -> dict[str, Any]:
    """Returns the content of the report on a translation, as JSON values.

    A sentence is referred to by its number, or by its hash if the review has no such sentence. Shares are from 0 to 1.

    Args:
        review: the content of the review file.
        changes: those since the last version of the document.
    """
    settlement, numbers = Settlement(review), defaultdict[str, list[int | str]](list)
    for sentence in review.sentences:
        numbers[sentence.hash].append(sentence.number)

    def places(hashes: Iterable[str]) -> list[int | str]:
        return [at for digest in hashes for at in numbers.get(digest) or [digest]]

    answers = {answer.question: answer for answer in review.answers}
    sentences = [_sentence(sentence, settlement) for sentence in review.sentences]
    coverage = _coverage(sentences)
    questions = [_question(question, places, answers.get(question.id)) for question in review.questions]
    findings = sorted(review.findings, key=lambda finding: (not finding.blocking, finding.kind))
    return {
        "document": review.document,
        "document_hash": review.document_hash,
        "outcome": outcome(review),
        "coverage": coverage,
        "sentences": sentences,
        "rules": [_rule(rule, settlement, places) for rule in review.rules],
        "facts": plain(review.facts),
        "questions": sorted(questions, key=lambda question: question["by"] is not None),
        "findings": [
            {
                "kind": finding.kind,
                "blocking": finding.blocking,
                "message": finding.message,
                "sentences": places(finding.sentences),
                "rules": list(finding.rules),
                "example": finding.example,
            }
            for finding in findings
        ],
        "signatures": _signatures(review),
        "cost": _cost(review.cost, coverage["enforceable"]),
        "changes": changes and {**plain(changes), "replay": changes.replay},
    }


def _sentence(sentence: ReviewedSentence, settlement: Settlement) -> dict[str, Any]:
    return {
        **{key: getattr(sentence, key) for key in ("number", "kind", "place", "text", "fate", "reason")},
        "rules": list(sentence.rules),
        "heading": sentence.is_bare_heading,
        "standing": settlement.of_sentence(sentence) if sentence.fate == "rule" else None,
    }


def _rule(rule: ReviewedRule, settlement: Settlement, places: Places) -> dict[str, Any]:
    grounds = [
        {"sentence": at, "quote": rule.quotes.get(digest, "")}
        for digest in settlement.resting[rule.id]
        for at in places([digest])
    ]
    return {"id": rule.id, "standing": settlement.rules[rule.id], "readings": rule.readings, "grounds": grounds}


def _question(question: ReviewQuestion, places: Places, answer: RecordedAnswer | None) -> dict[str, Any]:
    return {
        "id": question.id,
        "text": question.text,
        "sentences": places(question.sentences),
        "rules": list(question.rules),
        "choices": [
            {"answer": choice.answer, "allowed": choice.allowed, "reading": choice.words} for choice in question.choices
        ],
        "answer": answer.choice if answer else None,
        "words": (answer.words or None) if answer else None,
        "by": answer.by if answer else None,
        "at": answer.at if answer else None,
    }


def _signatures(review: Review) -> dict[str, Any]:
    """A confirmation counts for exactly the fate and the rules that stand now. Settled headings need none."""
    settled = review.settled_headings
    hashes = {rule.id: rule.hash for rule in review.rules}
    resting = {rule for sentence in review.sentences for rule in sentence.rules}
    contents: dict[int | str, object] = {
        sentence.number: _content(sentence.hash, sentence.fate, {rule: hashes.get(rule, "") for rule in sentence.rules})
        for sentence in review.sentences
    }
    contents |= {name: _content("", "rule", {name: hash_}) for name, hash_ in hashes.items() if name not in resting}
    signers: defaultdict[object, set[str]] = defaultdict(set)
    for confirmation in review.confirmations:
        signers[_content(confirmation.sentence, confirmation.fate, confirmation.rules)].add(confirmation.by)
    needless = {sentence.number for sentence in review.sentences if sentence.hash in settled}
    left = [name for name, content in contents.items() if content not in signers and name not in needless]
    signed = [content for content in contents.values() if content in signers]
    return {
        "confirmed": len(signed),
        "sentences": [name for name in left if isinstance(name, int)],
        "rules": [name for name in left if isinstance(name, str)],
        "by": dict(Counter(name for content in signed for name in sorted(signers[content]))),
        "void": len(signers.keys() - {*contents.values()}),
    }


def _content(sentence: str, fate: str, rules: Mapping[str, str]) -> object:
    return sentence, fate, frozenset(rules.items())


def _coverage(sentences: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    counted = [sentence for sentence in sentences if not sentence["heading"]]
    fates = Counter(sentence["fate"] for sentence in counted)
    standings = Counter(sentence["standing"] for sentence in counted)
    enforceable = fates["rule"] + fates["open"]
    of_rules = [sentence for sentence in counted if sentence["fate"] == "rule"]
    figures = {
        "covered": sum(bool(sentence["rules"]) for sentence in of_rules),
        **{standing: standings[standing] for standing in get_args(RuleStanding)},
        "undecided": fates["open"],
        "partial": sum(bool(sentence["reason"]) for sentence in of_rules),
    }
    return {
        "sentences": len(counted),
        "headings": sum(sentence["heading"] for sentence in sentences),
        "fates": {fate: fates[fate] for fate in FATES},
        "enforceable": enforceable,
        **{
            name: {
                "count": count,
                "of_sentences": _share(count, len(counted)),
                "of_enforceable": _share(count, enforceable),
            }
            for name, count in figures.items()
        },
    }


def _cost(cost: ModelCost, enforceable: int) -> dict[str, Any]:
    dollars = cost.cost if cost.cost is not None and 0 <= cost.cost <= sys.float_info.max else None
    return {
        "calls": cost.calls,
        "prompt_tokens": cost.prompt_tokens,
        "completion_tokens": cost.completion_tokens,
        "dollars": dollars,
        "calls_per_sentence": _share(cost.calls, enforceable),
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole and part <= sys.float_info.max else None
