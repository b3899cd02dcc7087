"""A new version of a document: what is unchanged stands, with the edits of people; the rest is translated anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guardagent.errors import ContentError, InputError
from guardagent.policy.documents import PolicyDocument, read_document
from guardagent.policy.review.record import (
    Confirmation,
    Fate,
    NeededFact,
    Review,
    ReviewChoice,
    ReviewedRule,
    ReviewedSentence,
    ReviewFinding,
    ReviewQuestion,
)
from guardagent.translation.assembly import assemble
from guardagent.translation.change import Kept, kept, require_translation
from guardagent.translation.drafts import Draft, RuleDraft
from tests.translation.drafts import context, proposed

TEXT = """\
# Refunds

A refund is at most 500 dollars.
Staff means employees.
Only staff may pay more than 90 dollars.
Be polite.

# Files

Close each file.
Close each file.
Amounts are in dollars, as said above.
"""
REFUND, STAFF, PAY, POLITE, CLOSE, AGAIN, IMPLIED = 2, 3, 4, 5, 7, 8, 9
RULES = {
    "refund": ("forall(refund(amount=a), a <= most)", [REFUND]),
    "pay": ("forall(pay(amount=a), a <= 90 || fact(staff))", [STAFF, PAY]),
    "close": ("after(open(), true, close(), true)", [CLOSE, AGAIN]),
}
NOT_RULES: Mapping[int, Fate] = {
    1: "not_enforceable",
    6: "not_enforceable",
    POLITE: "not_enforceable",
    IMPLIED: "implied",
}


class Shop:
    """A translated document in a folder."""

    def __init__(self, folder: Path) -> None:
        self.policy, self._path = folder / "policies.yaml", folder / "shop.md"
        document = self.document(TEXT)
        self.sentences = document.sentences
        drafts = [self._draft(name, rule, on) for name, (rule, on) in RULES.items()]
        self.policy.write_text(assemble(drafts, context(document), title="Shop").text)
        hashes = {sentence.number: sentence.hash for sentence in self.sentences}
        self.review = Review(
            "shop.md",
            "",
            tuple(self._sentence(sentence) for sentence in self.sentences),
            tuple(
                ReviewedRule(name, "h", {hashes[at]: "words" for at in on}, name, drafts[number].rules[0].cases)
                for number, (name, (_, on)) in enumerate(RULES.items())
            ),
            (NeededFact("staff"), NeededFact("tier")),
            confirmations=tuple(
                Confirmation(
                    sentence.hash, "rule", dict.fromkeys(self._rules(sentence.number), "h"), "Ann", "2026-01-01"
                )
                for sentence in self.sentences
            ),
        )

    def document(self, text: str) -> PolicyDocument:
        self._path.write_text(text)
        return read_document(self._path)

    def kept(self, text: str = TEXT) -> Kept:
        return kept(self.review, self.policy, self.document(text))

    @staticmethod
    def _rules(number: int) -> tuple[str, ...]:
        return tuple(name for name, (_, on) in RULES.items() if number in on)

    @staticmethod
    def _draft(name: str, rule: str, on: list[int]) -> Draft:
        cases = (proposed("at", "refund", {"amount": 500}), proposed("over", "refund", {"amount": 501}, "refund"))
        rule_draft = RuleDraft(name, {"temporal": rule}, dict.fromkeys(on, "words"), cases if name == "refund" else ())
        return Draft(tuple(on), (rule_draft,), {"constants": {"most": 500}})

    def _sentence(self, sentence: Any) -> ReviewedSentence:
        fate = NOT_RULES.get(sentence.number, "rule")
        place = (
            sentence.number,
            sentence.text,
            sentence.kind,
            sentence.path,
            sentence.context,
            sentence.place,
            sentence.hash,
        )
        return ReviewedSentence(*place, fate, "", self._rules(sentence.number))


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def ids(kept: Kept) -> list[str]:
    return [rule.id for draft in kept.drafts for rule in draft.rules]


def test_an_unchanged_document_keeps_everything(shop: Shop) -> None:
    """The policy file is written back byte for byte."""
    kept = shop.kept()
    assert (ids(kept), kept.translate, kept.fallen) == (["refund", "pay", "close"], (), ())
    assert kept.review == shop.review
    again = assemble(kept.drafts, context(), previous=kept.lines)
    assert again.text == shop.policy.read_text()
    assert [draft.facts for draft in kept.drafts] == [(), (NeededFact("staff"),), ()]
    assert [draft.sentences for draft in kept.drafts] == [(2,), (3, 4), (7, 8)]


def test_a_changed_sentence(shop: Shop) -> None:
    """Its rule falls, and what the rule shares with others is translated anew; so is what a rule may have implied."""
    kept = shop.kept(TEXT.replace("means employees", "means employees and partners"))
    assert ids(kept) == ["refund", "close"]
    assert kept.fallen == ("pay",)
    assert kept.translate == (STAFF, PAY, IMPLIED)
    assert kept.review.facts == (NeededFact("tier"),)  # a sentence may need it
    assert {confirmation.sentence for confirmation in kept.review.confirmations} == {
        sentence.hash for sentence in shop.sentences if sentence.number not in kept.translate
    }


@pytest.mark.parametrize(
    ("text", "rules", "translate"),
    [
        (TEXT.replace("# Files", "# Documents"), ["refund", "pay"], (6, CLOSE, AGAIN, IMPLIED)),
        (TEXT.replace("Close each file.\n", "", 1), ["refund", "pay"], (7, 8)),  # one of two identical sentences
        (TEXT.replace("A refund is at most 500 dollars.\n", ""), ["pay", "close"], (8,)),
        (TEXT.replace("Be polite.", "Be kind and brief to people."), ["refund", "pay", "close"], (POLITE,)),
        ("# News\n\nNothing is as before.\n", [], (1, 2)),
    ],
)
def test_other_changes(shop: Shop, text: str, rules: list[str], translate: tuple[int, ...]) -> None:
    """A heading is part of the sentences below it; identical sentences stand together."""
    kept = shop.kept(text)
    assert (ids(kept), kept.translate) == (rules, translate)
    assert {*kept.fallen} == RULES.keys() - set(rules)
    assert len(kept.review.sentences) + len(kept.translate) == len(shop.document(text).sentences)


def test_a_moved_paragraph_has_new_numbers(shop: Shop) -> None:
    """Its rule stands, with the new numbers in the policy file too."""
    head, _, files = TEXT.partition("# Files")
    kept = shop.kept(f"# Files{files}\n{head}")
    assert (kept.translate, kept.fallen) == ((), ())
    assert kept.drafts[0].sentences == (6,)
    assert [sentence.number for sentence in kept.review.sentences] == list(range(1, 10))
    assert (
        '  #> 2: "words"\n  #> 3: "words"\n  - id: close\n'
        in assemble(kept.drafts, context(), previous=kept.lines).text
    )


def test_edits_of_people_survive(shop: Shop) -> None:
    """Also a rule that rests on no sentence; its id and the names that it uses stay with it."""
    mine = "  # by hand\n  - {id: mine, temporal: 'forall(pay(amount=a), a <= most)'}  # mine\n"
    edited = shop.policy.read_text().replace("a <= most)", "a  <  most)  # less") + mine
    shop.policy.write_text(edited)
    kept = shop.kept(TEXT.replace("each file", "every file"))
    assert ids(kept) == ["refund", "pay", "mine"]
    new = Draft(
        (7,), (RuleDraft("mine", {"temporal": "forall(close(n=x), x < most)"}, {7: "new"}),), {"constants": {"most": 1}}
    )
    policy = assemble([*kept.drafts, new], context(), previous=kept.lines)
    assert "    temporal: forall(refund(amount=a), a  <  most)  # less\n" in policy.text
    assert mine in policy.text
    assert [rule.id for rule in policy.rules] == ["refund", "pay", "mine_2", "mine"]
    assert policy.content["constants"] == {"most": 500, "most_2": 1}
    assert [problem.message.split("'")[1] for problem in policy.problems] == [
        "refund/at"
    ]  # the case contradicts the edit


def test_a_removed_rule_is_translated_again(shop: Shop) -> None:
    """A sentence does not lose its rule unnoticed."""
    text = shop.policy.read_text()
    shop.policy.write_text(text[: text.index("\n  #> 7")])
    kept = shop.kept()
    assert kept.fallen == ("close",)
    assert kept.translate == (CLOSE, AGAIN, IMPLIED)


def test_questions_stand_with_their_sentences(shop: Shop) -> None:
    """A question links its sentences; a sentence that is open without a question is translated again."""
    by_number = {sentence.number: sentence for sentence in shop.sentences}
    choices = (ReviewChoice("yes", allowed=True, words=""), ReviewChoice("no", allowed=False, words=""))
    hashes = (by_number[POLITE].hash, by_number[REFUND].hash)
    question = ReviewQuestion("q", hashes, ("refund",), "?", choices)
    finding = ReviewFinding("loose", "a", hashes[:1])
    shop.review = replace(
        shop.review,
        sentences=tuple(
            replace(sentence, fate="open") if sentence.number in (1, POLITE) else sentence
            for sentence in shop.review.sentences
        ),
        questions=(question,),
        findings=(finding, ReviewFinding("loose", "b", (), ("pay",)), ReviewFinding("general", "c")),
    )
    kept = shop.kept()
    assert (kept.review.questions, kept.translate) == ((question,), (1,))
    assert [finding.message for finding in kept.review.findings] == ["a", "b"]
    kept = shop.kept(TEXT.replace("polite", "polite to everybody you meet"))
    assert (ids(kept), kept.review.questions) == (["pay", "close"], ())
    assert [finding.message for finding in kept.review.findings] == ["b"]
    kept = shop.kept(TEXT.replace("A refund is at most 500 dollars.\n", ""))
    assert POLITE - 1 in kept.translate
    assert kept.fallen == ("refund",)


def test_a_policy_without_a_review_is_not_replaced(shop: Shop) -> None:
    """The message says what to do."""
    with pytest.raises(ContentError, match=r"no 'policies.review.json' beside it; expected the path of a new file"):
        require_translation(shop.policy)
    shop.policy.with_suffix(".review.json").write_text("{}")
    require_translation(shop.policy)
    require_translation(shop.policy.with_name("new.yaml"))
    shop.policy.unlink()
    with pytest.raises(InputError, match="no such file"):
        shop.kept()
