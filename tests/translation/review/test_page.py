"""The review as an HTML page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

from guardagent.policy.review import read_review, review_path
from guardagent.translation.review.dossier import read_dossier, segments
from guardagent.translation.review.page import review_page
from tests.conftest import Cli, CommandResult
from tests.translation.review.sample import DOCUMENT, apply_answers, edit, hold, translated

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


def test_the_first_open_question_stands_before_all_sentences(tmp_path: Path) -> None:
    """With the command that answers it."""
    policies = translated(tmp_path)
    question = read_dossier(policies).review.open_questions[0]
    page = PageParser(review_page(read_dossier(policies)))
    top = page.text.partition("Contents")[0]
    assert question.text in top
    assert f"guardagent review {policies} --answer 1 'allowed'" in top


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


# --- the command `review`


def test_status_is_0_only_if_everything_is_confirmed(tmp_path: Path, cli: Cli) -> None:
    policies = translated(tmp_path)
    before = cli("review", policies, "--status")
    assert before.status == 1
    assert "question 'q1' is open: '500 euros exactly. Allowed?'" in before.out
    assert "0 of 6 confirmed; 1 question open" in before.out
    hold(policies, "y", "a", "y", "y", "y", "y")
    assert "1 answer not applied" in cli("review", policies, "--status").out
    apply_answers(policies)
    hold(policies, "y")
    assert cli("review", policies, "--status") == CommandResult(0, "6 of 6 confirmed\n", "")


def test_json_is_one_object(tmp_path: Path, cli: Cli) -> None:
    policies = translated(tmp_path)
    status = json.loads(cli("review", policies, "--status", "--json", "--only", "open").out)
    assert (status["complete"], status["sentences"], status["open_questions"]) == (False, 5, 1)
    assert [entry["sentence"]["text"] for entry in status["entries"]] == ["Refunds are at most 500 euros."]


def test_page_writes_a_file(tmp_path: Path, cli: Cli) -> None:
    page = tmp_path / "review.html"
    assert cli("review", translated(tmp_path), "--page", page).status == 0
    assert page.read_text().startswith("<!doctype html>")


def test_invalid_requests_say_what_to_do(tmp_path: Path, cli: Cli) -> None:
    policies = translated(tmp_path)
    for arguments, expected in (
        ((policies,), "needs a terminal"),
        ((policies, "--json"), "'--json' without '--status'"),
        ((policies, "--status", "--only", "opne"), "did you mean 'open'"),
        ((tmp_path / "other.yaml", "--status"), "no such file"),
    ):
        result = cli("review", *arguments)
        assert result.status == 2
        assert expected in result.err


def test_a_heading_needs_no_confirmation(tmp_path: Path) -> None:
    """One with a finding does."""
    path = translated(tmp_path)
    review = read_review(review_path(path))
    sentence = review.sentences[2]
    heading = replace(sentence, kind="heading")
    edit(path, sentences=tuple(heading if reviewed == sentence else reviewed for reviewed in review.sentences))
    entries = {entry.name: entry for entry in read_dossier(path).entries}
    assert (entries["sentence 3"].standing, entries["sentence 3"].confirmation) == ("confirmed", None)
    assert "✔ needs no confirmation" in review_page(read_dossier(path))
    edit(path, findings=(replace(review.findings[0], sentences=(sentence.hash,)),))
    assert {entry.name: entry.standing for entry in read_dossier(path).entries}["sentence 3"] == "unconfirmed"
