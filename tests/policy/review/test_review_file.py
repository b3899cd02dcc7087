"""A review file is read as it was written, or refused with the path of keys."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guardagent.errors import ContentError
from guardagent.policy.review import read_review, review_path, write_review
from guardagent.policy.review.record import (
    NeededFact,
    RecordedAnswer,
    Review,
    ReviewChoice,
    ReviewedRule,
    ReviewFinding,
    ReviewQuestion,
)
from tests.policy.review.reviews import AT, review_of, shop


@pytest.fixture
def review(tmp_path: Path) -> Review:
    """A review with an entry of every type."""
    choices = (
        ReviewChoice("allowed", allowed=True, words="Yes."),
        ReviewChoice("not allowed", allowed=False, words="No.", policy={"policies": []}),
    )
    return replace(
        review_of(shop(tmp_path)),
        rules=(ReviewedRule("refunds", "ab", {"cd": "at most"}, "…", ({"id": "1", "label": 0},), "single"),),
        facts=(NeededFact("role", "The role of the user."),),
        questions=(ReviewQuestion("q1", ("ab",), ("refunds",), "Allowed?", choices, {"x": [1, 2.5, None, "ü"]}),),
        answers=(RecordedAnswer("q1", 1, "Ada", AT, applied=True),),
        findings=(ReviewFinding("unnoticed_mutant", "…", blocking=False),),
    )


def test_a_review_is_read_as_it_was_written(review: Review, tmp_path: Path) -> None:
    path = review_path(tmp_path / "other.yaml")
    assert path.name == "other.review.json"
    write_review(path, review)
    text = path.read_text(encoding="utf-8")
    assert read_review(path) == review
    assert "ü" in text
    assert text.startswith('{\n "version": 1,\n "document": "shop.md",\n')
    write_review(path, read_review(path))
    assert path.read_text(encoding="utf-8") == text


def at(keys: str, value: Any) -> Callable[[Any], None]:
    """Sets the value at a path of keys."""

    def change(data: Any) -> None:
        *way, last = (int(key) if key.isdigit() else key for key in keys.split("."))
        for key in way:
            data = data[key]
        data[last] = value

    return change


CHANGES = [
    ("version", True, r"version: is 'True'; expected 1"),
    ("versoin", 1, r"unknown key 'versoin'"),
    ("document_hash", "0", r"document_hash: is not a SHA-256"),
    ("sentences", {}, r"sentences: is a mapping; expected a list"),
    ("sentences.1", "text", r'sentences\[1\]: is "text"; expected a mapping'),
    ("sentences.1.rule", [], r"sentences\[1\]: unknown key 'rule'; did you mean 'rules'"),
    ("sentences.1.fate", "rules", r'sentences\[1\].fate: is "rules"; expected one of \'rule\''),
    ("sentences.1.number", 1.0, r"sentences\[1\].number: is 1.0; expected a whole number"),
    ("sentences.1.number", True, r"sentences\[1\].number: is true; expected a whole number"),
    ("sentences.1.number", 3, r"sentences\[1\].number: is 3; expected 2"),
    ("sentences.1.kind", "prose", r'sentences\[1\].kind: is "prose"'),
    (
        "sentences.1.text",
        "A refund is at most 900 euros.",
        r"sentences\[1\].hash: .* sentence 2 \('A refund is at most 9",
    ),
    ("sentences.1.path", ["Other"], r"sentences\[1\].hash"),
    ("sentences.1.rules", ["refunds", "refunds"], r"sentences\[1\].rules: 'refunds' appears 2 times"),
    ("sentences.1.reason", "\ud800", r"sentences\[1\].reason: contains half of a surrogate pair"),
    ("rules.0.quotes", {"\ud800": ""}, r"rules\[0\].quotes: contains half of a surrogate pair"),
    ("rules.0.cases", [{"a": ["\ud800"]}], r"rules\[0\].cases\[0\].a: contains half of a surrogate pair"),
    ("rules.0.quotes", {"a": 1}, r"rules\[0\].quotes.a: is 1; expected a string"),
    ("questions.0.choices", [], r"questions\[0\].choices: has 0 entries"),
    ("questions.0.choices.0.allowed", 1, r"questions\[0\].choices\[0\].allowed: is 1; expected true or false"),
    ("answers.0.question", "q2", r"answers\[0\].question: there is no question 'q2'"),
    ("answers.0.choice", 2, r"answers\[0\].choice: is 2; expected a position from 0 to 1"),
    ("answers.0.choice", -1, r"answers\[0\].choice: is -1"),
    ("answers.0.at", "2026-01-31T09:00:00", r"answers\[0\].at: .* expected a time with zone"),
    ("answers.0.by", " ", r"answers\[0\].by: is empty"),
    ("confirmations.0.at", "today", r"confirmations\[0\].at"),
]


@pytest.mark.parametrize(("keys", "value", "problem"), CHANGES)
def test_an_invalid_review_is_refused_with_its_place(
    review: Review, tmp_path: Path, keys: str, value: Any, problem: str
) -> None:
    path = tmp_path / "policies.review.json"
    write_review(path, review)
    data = json.loads(path.read_text())
    at(keys, value)(data)
    path.write_text(json.dumps(data))
    with pytest.raises(ContentError, match=problem):
        read_review(path)


@pytest.mark.parametrize("key", ["rules", "questions", "answers"])
def test_ids_and_answers_are_unique(review: Review, tmp_path: Path, key: str) -> None:
    with pytest.raises(ContentError, match=f"{key}: .* appears 2 times"):
        write_review(tmp_path / "a.json", replace(review, **{key: getattr(review, key) * 2}))
    assert not (tmp_path / "a.json").exists()


def test_a_repeated_sentence_has_one_fate(review: Review, tmp_path: Path) -> None:
    last = replace(review.sentences[1], number=5)
    write_review(tmp_path / "a.json", replace(review, sentences=(*review.sentences, last)))
    with pytest.raises(ContentError, match="repeats an earlier one with another fate"):
        write_review(tmp_path / "a.json", replace(review, sentences=(*review.sentences, replace(last, fate="implied"))))


def test_an_endless_value_is_not_written(review: Review, tmp_path: Path) -> None:
    value: dict[str, Any] = {}
    for _ in range(900):
        value = {"a": value}
    with pytest.raises(ContentError, match="nested too deep"):
        write_review(tmp_path / "a.json", replace(review, questions=(replace(review.questions[0], witness=value),)))


@pytest.mark.parametrize("text", ["[]", "{}", "null", '{"version": 1}', "{", "[" * 100_000, '{"a": NaN}'])
def test_other_json_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ContentError, match=r"a\.json"):
        read_review(tmp_path / "a.json")
