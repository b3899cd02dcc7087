"""The review as an HTML page."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

from guardagent.policy.review import read_review, review_path
from guardagent.translation.review.dossier import read_dossier, segments
from guardagent.translation.review.page import review_page
from tests.translation.review.sample import DOCUMENT, edit, hold, translated

VOID = {"meta", "link", "br"}


class PageParser(HTMLParser):
    """The elements of a page: those still open, the ids, the links inside of the page, and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.ids: list[str] = []
        self.links: set[str] = set()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.stack += [] if tag in VOID else [tag]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links |= {(value or "")[1:] for name, value in attrs if name == "href" and (value or "").startswith("#")}

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_every_sentence_rule_question_and_finding_is_on_the_page(tmp_path: Path) -> None:
    policies = translated(tmp_path)
    hold(policies, "y", by="Ann & Bo")
    page = PageParser(review_page(read_dossier(policies)))
    for text in (
        *re.findall(r"[^.]+\.", DOCUMENT.replace("\n", " ")),
        *("lookup", "limit", "once", "extra", "There must never be a call of export."),
        *("500 euros exactly. Allowed?", "allowed: Up to 500.", "not allowed: Less than 500."),
        *("no case notices 499", "refund(500)", "refund(amount=501)", "parcel_back", 'temporal: "G !tool:export"'),
        "confirmed by Ann & Bo",
    ):
        assert text.strip() in page.text
    assert page.stack == []
    assert len(set(page.ids)) == len(page.ids)
    assert page.links <= set(page.ids)
    assert "script" not in page.tags


def test_quotes_are_marked(tmp_path: Path) -> None:
    page = review_page(read_dossier(translated(tmp_path)))
    assert "<mark>Look up the customer</mark> before a refund." in page


def test_hostile_text_is_escaped(tmp_path: Path) -> None:
    hostile = "</blockquote><script>alert(1)</script>\u202e{{ 7 * 7 }}"
    policies = translated(tmp_path, DOCUMENT.replace("Be", f"Be {hostile}"))
    review = read_review(review_path(policies))
    finding = replace(review.findings[0], kind=hostile, message=f"`{hostile}", example=hostile, rules=())
    case = {"proposed": {"tool": hostile, "args": {hostile: hostile}}, "history": [hostile, 1], "label": hostile}
    question = replace(review.questions[0], text=hostile)
    rules = tuple(replace(rule, words=hostile, cases=(case, {"events": 3})) for rule in review.rules)
    edit(policies, findings=(finding,), questions=(question,), rules=rules)
    html = review_page(read_dossier(policies))
    assert PageParser(html).stack == []
    assert "<script" not in html
    assert "\u202e" not in html
    assert "{{ 7 * 7 }}" in unescape(html)


def test_quotes_with_gaps_and_other_punctuation_are_marked() -> None:
    text = "Refunds, if late, are at most 1,500 euros."
    assert [part for part, is_quoted in segments(text, ["REFUNDS … at most 1,500 euros"]) if is_quoted] == [
        "Refunds",
        "at most 1,500 euros",
    ]
    assert segments(text, ["at most 1,500 dollars", ""]) == [(text, False)]
