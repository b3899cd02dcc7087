"""A small translated policy, and reviewers with scripted keys."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from guardagent import load_policies
from guardagent.policy.documents import read_document
from guardagent.policy.review import read_review, review_path, rule_hashes, write_review
from guardagent.policy.review.record import (
    Fate,
    NeededFact,
    Review,
    ReviewChoice,
    ReviewedRule,
    ReviewedSentence,
    ReviewFinding,
    ReviewQuestion,
)
from guardagent.policy.words import policies_in_words
from guardagent.translation.review.dialogue import ReviewDialogue
from guardagent.translation.review.dossier import ReviewStore
from guardagent.translation.review.page import Selection

DOCUMENT = """\
Look up the customer before a refund. Refunds are at most 500 euros. Be friendly.

A parcel is refunded once. Refunds wait until the parcel is back.
"""
POLICIES = """\
version: 1
policies:
  - id: lookup
    temporal: "before(refund(), true, f:get_customer(), !failed(f))"
  - id: limit
    temporal: "forall(refund(amount=a), a <= 500)"
    message: At most 500 euros.
  - id: once
    temporal: "forall(refund(parcel=p), count(f:refund(parcel=p)) == 0)"
  - id: extra
    temporal: "G !tool:export"
"""
FATES: tuple[tuple[Fate, str, tuple[str, ...]], ...] = (
    ("rule", "", ("lookup",)),
    ("rule", "", ("limit",)),
    ("not_enforceable", "A tone is not visible in calls.", ()),
    ("rule", "", ("once",)),
    ("fact", "The host knows it.", ()),
)
QUOTES = {"lookup": "Look up the customer", "limit": "at most 500 euros", "once": "refunded once"}


def translated(folder: Path, document: str = DOCUMENT) -> Path:
    """Writes a document of five sentences, its policy and the review; sentence 2 has an open question."""
    (folder / "rules.txt").write_text(document, encoding="utf-8")
    path = folder / "policies.yaml"
    path.write_text(POLICIES, encoding="utf-8")
    policies = load_policies(path)
    hashes, words = rule_hashes(policies), policies_in_words(policies)
    sentences = read_document(folder / "rules.txt").sentences
    of_rule = {rule: sentence for sentence, (_, _, rules) in zip(sentences, FATES, strict=True) for rule in rules}
    refund = {"tool": "refund", "args": {"amount": 501}}
    cases = ({"id": "c1", "history": [{"tool": "get_customer", "args": {}}], "proposed": refund, "label": 1},)
    choices = (
        ReviewChoice("allowed", allowed=True, words="Up to 500."),
        ReviewChoice("not allowed", allowed=False, words="Less than 500."),
    )
    review = Review(
        document="rules.txt",
        document_hash=hashlib.sha256((folder / "rules.txt").read_bytes()).hexdigest(),
        sentences=tuple(
            ReviewedSentence(
                sentence.number,
                sentence.text,
                sentence.kind,
                sentence.path,
                sentence.context,
                sentence.place,
                sentence.hash,
                *fate,
            )
            for sentence, fate in zip(sentences, FATES, strict=True)
        ),
        rules=tuple(
            ReviewedRule(rule, hashes[rule], {of_rule[rule].hash: quote}, words[rule].text, cases)
            for rule, quote in QUOTES.items()
        ),
        facts=(NeededFact("parcel_back", "Whether the parcel is back."),),
        questions=(ReviewQuestion("q1", (sentences[1].hash,), ("limit",), "500 euros exactly. Allowed?", choices),),
        findings=(
            ReviewFinding("unnoticed_mutant", "no case notices 499", (), ("limit",), "refund(500)", blocking=False),
        ),
    )
    write_review(review_path(path), review)
    return path


def edit(policies: Path, **changes: Any) -> None:
    """Changes fields of the review."""
    path = review_path(policies)
    write_review(path, replace(read_review(path), **changes))


def apply_answers(policies: Path) -> None:
    """Marks the answers as applied, as `translate` does."""
    answers = read_review(review_path(policies)).answers
    edit(policies, answers=tuple(replace(answer, applied=True) for answer in answers))


class Keys(io.StringIO):
    """Keys of a reviewer; a function among them runs at its turn, before the next key. At the end the input ends."""

    def __init__(self, keys: Iterable[str | Callable[[], object]]) -> None:
        super().__init__()
        self._keys = iter(keys)

    def readline(self, _: int | None = None, /) -> str:  # type: ignore[override]
        for key in self._keys:
            if isinstance(key, str):
                return key + "\n"
            key()
        return ""


def hold(policies: Path, *keys: str | Callable[[], object], by: str = "Ann", only: Selection = "unconfirmed") -> str:
    """Holds a dialogue with scripted keys, and returns the text on the terminal."""
    console = Console(file=io.StringIO(), width=120)
    ReviewDialogue(ReviewStore(policies, by), console, Keys(keys)).run(only)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
