"""The figures and lists of a report."""

from __future__ import annotations

import json
import math
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
from guardagent.policy.review.record import Confirmation, ModelCost, NeededFact, RecordedAnswer, Review, ReviewFinding
from guardagent.translation.report import (
    DocumentChanges,
    RuleStanding,
    Settlement,
    outcome,
    summarize,
)
from guardagent.translation.report_formats import FORMATS, render
from tests.translation.report.reviews import ANSWERED, changes, made, question, reviews, rule, sentence


def test_coverage_counts_sentences_with_settled_single_and_open_rules() -> None:
    """A heading without a rule is counted apart, unless it is undecided; the worst rule of a sentence counts."""
    review = made(
        sentence(1, "definition", kind="heading"),
        sentence(2, "rule", ("agreed",), kind="heading"),
        sentence(3, "rule", ("agreed", "one"), reason="except at night"),
        sentence(4, "rule", ("one", "two")),
        sentence(5, "open", kind="heading"),
        sentence(6, "not_enforceable"),
        sentence(7, "rule"),
        rules=(rule("agreed", "edited", 2, 3), rule("one", "single", 3, 4), rule("two", "open", 4)),
    )
    coverage = summarize(review)["coverage"]
    assert (coverage["sentences"], coverage["headings"], coverage["enforceable"]) == (6, 1, 5)
    assert coverage["fates"] == {"rule": 4, "definition": 0, "fact": 0, "implied": 0, "not_enforceable": 1, "open": 1}
    assert coverage["covered"] == {"count": 3, "of_sentences": 3 / 6, "of_enforceable": 3 / 5}
    figures = ("settled", "single", "open", "undecided", "partial")
    assert [coverage[figure]["count"] for figure in figures] == [1, 1, 2, 1, 1]


def test_a_rule_has_its_grounds() -> None:
    """Its sentences by number, with the quoted words; a sentence that appears twice has two numbers."""
    review = made(
        sentence(1, "rule", ("r",)), sentence(2, "rule", ("r",), hash="h1"), sentence(3, "rule", ("r",)),
        rules=(rule("r", "agree", 1, 9), rule("own", "edited")),
    )  # fmt: skip
    first, second = summarize(review)["rules"]
    grounds = [(ground["sentence"], ground["quote"]) for ground in first["grounds"]]
    assert grounds == [(1, "words of 1"), (2, "words of 1"), ("h9", "words of 9"), (3, "")]
    assert second["grounds"] == []


def test_what_is_open_or_blocks_comes_first() -> None:
    """Then the findings by kind; an answered question names its choice and person."""
    findings = (ReviewFinding("b", ""), ReviewFinding("a", "", blocking=False), ReviewFinding("a", "x"))
    questions = (question(sentences=("h1",)), question(id="other"))
    summary = summarize(made(sentence(1), questions=questions, answers=(ANSWERED,), findings=findings))
    assert [(finding["kind"], finding["blocking"]) for finding in summary["findings"]] == [
        ("a", True),
        ("b", True),
        ("a", False),
    ]
    assert [(question["id"], question["answer"], question["by"]) for question in summary["questions"]] == [
        ("other", None, None),
        ("q", 0, "Ada"),
    ]
    assert summary["questions"][1]["sentences"] == [1]


def confirmation(sentence: str, fate: Any, rules: dict[str, str], by: str) -> Confirmation:
    return Confirmation(sentence, fate, rules, by, "2026-01-31T09:00:00+01:00")


def test_a_confirmation_counts_for_exactly_what_was_confirmed() -> None:
    """Another fate, another rule or another hash is to be confirmed again."""
    review = made(
        sentence(1, "rule", ("r",)), sentence(2, "rule", ("r",)), sentence(3, "implied"), sentence(4, "implied"),
        rules=(rule("r"), rule("own"), rule("new")),
        confirmations=(
            confirmation("h1", "rule", {"r": "hash of r"}, "Ada"),
            confirmation("h1", "rule", {"r": "hash of r"}, "Bob"),
            confirmation("h2", "rule", {"r": "old hash"}, "Ada"), confirmation("h3", "implied", {}, "Ada"),
            confirmation("h4", "definition", {}, "Eve"), confirmation("", "rule", {"own": "hash of own"}, "Bob"),
        ),
    )  # fmt: skip
    expected = {"confirmed": 3, "sentences": [2, 4], "rules": ["new"], "by": {"Ada": 2, "Bob": 2}, "void": 2}
    assert summarize(review)["signatures"] == expected


@pytest.mark.parametrize(
    ("cost", "dollars"), [(None, None), (0.0, 0.0), (1.5, 1.5), (math.nan, None), (math.inf, None), (10**400, None)]
)
def test_cost_is_unknown_or_a_number(cost: float | None, dollars: float | None) -> None:
    """Calls are also divided by the enforceable sentences."""
    review = made(sentence(1), sentence(2, "open"), sentence(3, "implied"), cost=ModelCost(5, 6, 7, cost))
    assert list(summarize(review)["cost"].values()) == [5, 6, 7, dollars, 2.5]


def test_the_changes_have_the_command_for_recorded_calls() -> None:
    """Paths are quoted for a shell."""
    changes = DocumentChanges((), (), (), ("a",), (), "new.yaml", "old's.yaml")
    expected = """guardagent replay LOG --policies new.yaml --against 'old'"'"'s.yaml'"""
    assert summarize(made(), changes)["changes"]["replay"] == expected
    assert DocumentChanges((), (), (), (), (), "new.yaml").replay == "guardagent replay LOG --policies new.yaml"


@given(reviews())
def test_the_figures_add_up(review: Review) -> None:
    """Also for a review that contradicts itself."""
    summary = summarize(review)
    coverage = summary["coverage"]
    assert coverage["sentences"] + coverage["headings"] == len(review.sentences)
    assert sum(coverage["fates"].values()) == coverage["sentences"]
    parts = [coverage[name] for name in ("settled", "single", "open", "undecided", "covered")]
    assert sum(part["count"] for part in parts[:4]) == coverage["enforceable"]
    shares = [share for part in parts for share in (part["of_sentences"], part["of_enforceable"])]
    assert all(share is None or 0 <= share <= 1 for share in shares)
    free = {rule.id for rule in review.rules} - {name for sentence in review.sentences for name in sentence.rules}
    signed = summary["signatures"]
    counted = signed["confirmed"] + len(signed["sentences"]) + len(signed["rules"])
    settled = sum(sentence.hash in review.settled_headings for sentence in review.sentences)
    everything = len(review.sentences) + len(free)
    assert everything - settled <= counted <= everything
    assert (summary["outcome"] == 3) == (coverage["undecided"]["count"] > 0)
    open_items = coverage["open"]["count"] + len(review.open_questions)
    assert summary["outcome"] or not (open_items or any(finding.blocking for finding in review.findings))


# --- the standing of rules and sentences, and the exit status


TWO = (sentence(1, "rule", ("a",)), sentence(2, "rule", ("a", "b")))
RULES = (rule("a", "agree", 1, 2), rule("b", "single", 2))


@pytest.mark.parametrize(
    ("review", "rules", "sentences"),
    [
        pytest.param(made(*TWO, rules=RULES), "settled single", "settled single", id="readings"),
        pytest.param(
            made(*TWO, rules=RULES, questions=(question(sentences=("h2",), rules=("b",)),)),
            "settled open", "settled open", id="a question about a rule",
        ),
        pytest.param(
            made(*TWO, rules=RULES, questions=(question(sentences=("h1",)),)),
            "open single", "open open", id="a question about a sentence is about all its rules",
        ),
        pytest.param(
            made(*TWO, rules=RULES, questions=(question(sentences=("h1",)),), answers=(ANSWERED,)),
            "settled single", "settled single", id="an answered question",
        ),
        pytest.param(
            made(*TWO, rules=RULES, findings=(ReviewFinding("case", "", (), ("a",)),)),
            "open single", "open open", id="a blocking finding",
        ),
        pytest.param(
            made(*TWO, rules=RULES, findings=(ReviewFinding("case", "", (), ("a",), blocking=False),)),
            "settled single", "settled single", id="another finding",
        ),
        pytest.param(made(*TWO, rules=RULES[:1]), "settled", "settled open", id="a missing rule"),
    ],
)  # fmt: skip
def test_the_standing_is_that_of_the_readings_questions_and_findings(
    review: Review, rules: str, sentences: str
) -> None:
    """Of each rule, and of each sentence with rules."""
    settlement = Settlement(review)
    standings: list[RuleStanding] = [*settlement.rules.values()]
    assert " ".join(standings) == rules
    assert " ".join(settlement.of_sentence(sentence) for sentence in review.sentences) == sentences


@pytest.mark.parametrize(
    ("review", "status"),
    [
        pytest.param(made(), 0, id="empty"),
        pytest.param(made(*TWO, rules=RULES), 0, id="settled or single"),
        pytest.param(made(sentence(1, "implied"), questions=(question(),)), 1, id="an open question"),
        pytest.param(made(questions=(question(),), answers=(ANSWERED,)), 0, id="an answered question"),
        pytest.param(made(findings=(ReviewFinding("hidden", ""),)), 1, id="a blocking finding"),
        pytest.param(made(findings=(ReviewFinding("hidden", "", blocking=False),)), 0, id="another finding"),
        pytest.param(made(sentence(1, "rule", ("a",)), rules=(rule("a", "open"),)), 1, id="open readings"),
        pytest.param(made(sentence(1, "rule")), 1, id="a sentence without its rule"),
        pytest.param(made(sentence(1, "open"), questions=(question(),)), 3, id="an undecided sentence"),
        pytest.param(made(sentence(1, "open", kind="heading")), 3, id="an undecided heading"),
    ],
)
def test_the_exit_status_says_whether_a_person_or_a_model_has_to_go_on(review: Review, status: int) -> None:
    """3 comes before 1."""
    assert outcome(review) == status


# --- the formats of the report: nothing is dropped, and no string of others breaks out


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
    text = "".join(page.text)  # each word is an element
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
    assert re.fullmatch(expected[summary["outcome"]], first)


def test_an_answer_in_own_words_is_shown() -> None:
    about = question()
    own = RecordedAnswer(about.id, None, "Ann", "2026-05-01T10:00:00+00:00", words="Only on Mondays.")
    summary = summarize(made(sentence(1), questions=(about,), answers=(own,)))
    assert "Answer: in own words: `Only on Mondays.`, by `Ann`" in render(summary, "markdown")


def test_arguments_that_no_rule_reads_have_a_section() -> None:
    """They are no part of the other findings, but of the JSON."""
    unread = ReviewFinding("unread_argument", "no rule reads `ids` of `swap`", blocking=False)
    summary = summarize(made(sentence(1), findings=(unread,)))
    page = render(summary, "markdown")
    assert page.count("swap") == 1
    assert "swap" in page.partition("Arguments that no rule reads")[2]
    assert '"unread_argument"' in render(summary, "json")
