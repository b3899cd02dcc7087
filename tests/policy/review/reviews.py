"""A small shop: its policy document, its policy, and a review in which everything is confirmed."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from guardagent.policy.documents import read_document
from guardagent.policy.load import read_policies
from guardagent.policy.review import review_path, rule_hashes, write_review
from guardagent.policy.review.record import Confirmation, Review, ReviewedRule, ReviewedSentence

DOCUMENT = """# Refunds

A refund is at most 100 euros. Staff are polite.

- Only a manager closes an account.
"""
POLICY = """\
version: 1
constants: {limit: 100}
define:
  small(a): a <= limit
tags:
  closing: [close_account]
policies:
- {id: refunds, temporal: "forall(refund(amount=a), small(a))"}
- {id: managers, temporal: "forall(@closing(), fact(role) == \\"manager\\")"}
- {id: own, temporal: "G !tool:shout"}
"""
FATES: dict[int, tuple[Any, ...]] = {2: ("rule", "refunds"), 4: ("rule", "managers")}
AT = "2026-01-31T09:00:00+01:00"


def shop(folder: Path, policy: str = POLICY) -> Path:
    """Writes the document, the policy and the review; returns the policy."""
    (folder / "shop.md").write_text(DOCUMENT)
    (folder / "policies.yaml").write_text(policy)
    return confirmed(folder / "policies.yaml")


def confirmed(path: Path, fates: dict[int, tuple[Any, ...]] = FATES) -> Path:
    """Confirms a policy as it stands, with the document beside it."""
    write_review(review_path(path), review_of(path, fates))
    return path


def review_of(path: Path, fates: dict[int, tuple[Any, ...]] = FATES) -> Review:
    document, hashes = path.with_name("shop.md"), rule_hashes(read_policies(path))
    sentences = [
        ReviewedSentence(
            sentence.number,
            sentence.text,
            sentence.kind,
            sentence.path,
            sentence.context,
            sentence.place,
            sentence.hash,
            fate,
            rules=rules,
        )
        for sentence in read_document(document).sentences
        for fate, *names in [fates.get(sentence.number, ("not_enforceable",))]
        for rules in [tuple(names)]
    ]
    rest = hashes.keys() - {rule for sentence in sentences for rule in sentence.rules}
    confirmations = [
        Confirmation(sentence.hash, sentence.fate, {rule: hashes[rule] for rule in sentence.rules}, "Ada", AT)
        for sentence in sentences
    ]
    return Review(
        "shop.md",
        hashlib.sha256(document.read_bytes()).hexdigest(),
        tuple(sentences),
        tuple(ReviewedRule(rule, hashes[rule], {}, "") for rule in hashes),
        confirmations=(
            *confirmations,
            *(Confirmation("", "rule", {rule_id: hashes[rule_id]}, "Ada", AT) for rule_id in rest),
        ),
    )


def later(confirmation: Confirmation, **changes: Any) -> Confirmation:
    """The same confirmation on another day, with changes."""
    return replace(confirmation, at="2026-02-01T09:00:00+01:00", **changes)
