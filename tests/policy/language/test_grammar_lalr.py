"""Texts are read by tables as Lark reads them by the grammar: the same trees at the same places, or none."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lark.exceptions import UnexpectedInput

from guardagent.policy.language.grammar import NotParsedError, Parser, lark_parser
from guardagent.policy.language.lalr_tables import PATH, tables

ROOT = Path(__file__).parents[3]
PAGES = "".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("*.md")))
RULES = sorted({rule.strip() for rule in re.findall(r"(?:temporal: |`)([^`\n]{3,200}?)(?:`|$)", PAGES, re.MULTILINE)})
WORDS = sorted(set(re.findall(r"[\w.]+|[^\w\s]{1,2}|\s+", " ".join(RULES))))
PARSER = Parser()


def seen(node: Any) -> Any:
    """A tree of either, with the types of its words, and where everything stands."""
    if node is None:
        return None
    place = getattr(node, "meta", node)
    at = (getattr(place, "line", 1), getattr(place, "column", 1))
    if isinstance(node, str):
        return node.type, str(node), at  # type: ignore[attr-defined]
    return str(node.data), at, [seen(child) for child in node.children]


def by_lark(text: str, start: str) -> Any:
    try:
        tree = lark_parser().parse(text, start=start)
    except UnexpectedInput:
        return "not parsed"
    return seen(tree)


def by_tables(text: str, start: str) -> Any:
    try:
        return seen(PARSER.parse(text, start))
    except NotParsedError:
        return "not parsed"


def test_the_tables_are_those_of_the_grammar() -> None:
    """To update them, run `python -m guardagent.policy.language.lalr_tables`."""
    assert PATH.read_text(encoding="utf-8") == tables()


@pytest.mark.parametrize("start", ["start", "condition"])
def test_every_rule_of_the_pages_is_read_alike(start: str) -> None:
    """Those that parse, and what stands beside them in the text."""
    read = [by_lark(rule, start) for rule in RULES]
    assert [by_tables(rule, start) for rule in RULES] == read
    assert sum(tree != "not parsed" for tree in read) > 40


@given(
    st.one_of(
        st.lists(st.sampled_from(WORDS), max_size=25).map("".join),
        st.tuples(st.sampled_from(RULES), st.integers(0, 80), st.sampled_from(WORDS)).map(
            lambda cut: cut[0][: cut[1]] + cut[2] + cut[0][cut[1] :]
        ),
    ),
    st.sampled_from(["start", "condition"]),
)
@example("(tool:a\n  # a remark\n) && !(G(tool:b))", "start")
@example("", "start")
@example("inside == 1", "condition")
def test_any_text_is_read_alike(text: str, start: str) -> None:
    """Texts of the language's words, and rules with a word more."""
    assert by_tables(text, start) == by_lark(text, start)
