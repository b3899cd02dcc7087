"""The formats of the report: nothing is dropped, and no string of others breaks out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from guardagent._support.sections import Quoted
from guardagent.policy.review.record import NeededFact, RecordedAnswer, Review, ReviewFinding
from guardagent.translation.report import DocumentChanges, summarize
from guardagent.translation.report_formats import FORMATS, render
from tests.translation.report.reviews import changes, made, question, reviews, rule, sentence

PAGE = Path(__file__).parents[3] / "docs" / "translation_report.md"


class Page(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def strings(review: Review, change: DocumentChanges | None) -> Iterator[str]:
    """Yields every string of the report's content that others wrote."""
    yield from (review.document, review.document_hash)
    for row in review.sentences:
        yield from (row.text, row.place, row.reason, *row.rules)
    for policy in review.rules:
        yield from (policy.id, *policy.quotes.values())
    for fact in review.facts:
        yield from (fact.name, fact.description)
    for item in review.questions:
        yield from (item.id, item.text, *item.rules)
        yield from (text for choice in item.choices for text in (choice.answer, choice.words))
    for finding in review.findings:
        yield from (finding.kind, finding.message, finding.example, *finding.rules)
    if change:
        yield from (*change.fallen, *change.kept, change.replay)
        yield from (sentence.text for sentence in (*change.added, *change.removed))
        yield from (text for pair in change.changed for text in (pair.old.text, pair.new.text))


def values(content: Any) -> Iterator[str]:
    """Yields the strings of a JSON value."""
    if isinstance(content, dict):
        content = [*content, *content.values()]
    if isinstance(content, list):
        for part in content:
            yield from values(part)
    else:
        yield str(content)


@given(reviews(), st.none() | changes())
def test_nothing_is_dropped_and_nothing_breaks_out(review: Review, change: DocumentChanges | None) -> None:
    """In each format; Markdown is read by another implementation of GitHub's dialect."""
    summary = summarize(review, change)
    content = json.loads(render(summary, "json").encode("ascii"), parse_constant=pytest.fail)
    assert set(strings(review, change)) <= set(values(content))

    shown = [Quoted(text) for text in strings(review, change)]
    blocks = MarkdownIt("commonmark").enable("table").parse(render(summary, "markdown"))
    tokens = [token for block in blocks for token in (block, *(block.children or ()))]
    spans = [token.content for token in tokens if token.type == "code_inline"]
    assert {token.type for token in tokens} & {"html_block", "html_inline", "link_open", "image", "fence"} == set()
    assert [text for text in shown if not any(text in span for span in spans) and text] == []

    page = Page(render(summary, "html").encode().decode())
    assert page.tags.isdisjoint({"script", "img", "a", "iframe"})
    text = "\0".join(page.text)
    assert [string for string in shown if string not in text] == []


@pytest.mark.parametrize("name", list(FORMATS))
def test_an_empty_document_has_no_shares(name: str) -> None:
    """A share of nothing is unknown, neither 0 nor 1."""
    text = render(summarize(made()), name)
    assert "nan" not in text.lower()
    assert "0.0%" not in text
    assert "price unknown" in text or '"dollars": null' in text


def test_the_keys_of_json_are_documented() -> None:
    """In the order of the report."""
    review = made(
        sentence(1),
        rules=(rule("r", "agree", 1),),
        facts=(NeededFact("f"),),
        questions=(question(),),
        findings=(ReviewFinding("", ""),),
    )
    content = json.loads(render(summarize(review, DocumentChanges((), (), (), (), (), "new.yaml")), "json"))
    rows = dict(re.findall(r"^\| (`.*?`) \| (.*) \|$", PAGE.read_text().partition("## JSON")[2], re.MULTILINE))
    documented = [name for names in rows for name in re.findall(r"`(\w+)`", names)]
    assert documented == list(content)
    for names, text in rows.items():
        part = content[re.findall(r"`(\w+)`", names)[0]]
        first = part[0] if isinstance(part, list) and part else part
        missing = [name for name in first if f"`{name}`" not in text] if isinstance(first, dict) else []
        assert missing == [], names


@given(reviews())
def test_missing_decisions_come_first(review: Review) -> None:
    """With their numbers; a settled translation has no warning."""
    summary = summarize(review)
    first = render(summary, "markdown").split("\n")[2]
    expected = {0: "## Overview", 1: r"> \*\*NOT SETTLED: \d+ .*", 3: r"> \*\*INCOMPLETE: \d+ undecided .*"}
    assert re.fullmatch(expected[summary.outcome], first)


def test_an_answer_in_own_words_is_shown() -> None:
    about = question()
    own = RecordedAnswer(about.id, None, "Ann", "2026-05-01T10:00:00+00:00", words="Only on Mondays.")
    summary = summarize(made(sentence(1), questions=(about,), answers=(own,)))
    assert summary.open_questions == ()
    assert "Answer: in own words: `Only on Mondays.`, by `Ann`" in render(summary, "markdown")


def test_arguments_that_no_rule_reads_have_a_section() -> None:
    """They are no part of the other findings, but of the JSON."""
    unread = ReviewFinding("unread_argument", "no rule reads `ids` of `swap`", blocking=False)
    summary = summarize(made(sentence(1), findings=(unread,)))
    page = render(summary, "markdown")
    assert page.count("swap") == 1
    assert "swap" in page.partition("Arguments that no rule reads")[2]
    assert '"unread_argument"' in render(summary, "json")
