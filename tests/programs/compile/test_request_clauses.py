"""The sentences of a request, with the headings, numbers and column names that they stand under."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent.programs.compile.request import clauses_of
from guardagent.programs.memory.agents import Memory

REQUEST = """\
First sentence, over
two lines. Second one? (Third.)

- an item
  that goes on
1. Numbered. With two.

| a | b |
|---|---|
| x | y is z |
"""
HEADINGS = """\
# Roles
## Role: physician
- may read lab

Role: nurse
-----------
- as physician, without diagnosis

**Cooks**
- nothing

Everybody else is denied.
"""
LISTS = """\
3. Deny a refund where
   - it is late:
     a) after 30 days
     b) twice
   - it is large. Always.
4) Else allow it.

A cook may read:

| table |
|-------|
| menu  |
"""


def texts(request: str) -> list[str]:
    return [clause.text for clause in clauses_of(request)]


def test_sentences_items_and_rows() -> None:
    """No titles, no rules of tables; a row carries the names of its columns, an item its own number."""
    assert texts(REQUEST) == [
        "First sentence, over two lines.",
        "Second one?",
        "(Third.)",
        "an item that goes on",
        "[1.] Numbered.",
        "[1.] With two.",
        "a: x | b: y is z",
    ]


def test_a_sentence_carries_the_headings_above_it() -> None:
    """In any of the three forms; a line in bold is the title of one list, and not of what follows that."""
    assert texts(HEADINGS) == [
        "[Roles > Role: physician] may read lab",
        "[Roles > Role: nurse] as physician, without diagnosis",
        "[Roles > Role: nurse > Cooks] nothing",
        "[Roles > Role: nurse] Everybody else is denied.",
    ]


def test_an_item_carries_what_introduces_it() -> None:
    """A line that only introduces a list or a table is no sentence of its own: each of its items says it."""
    assert texts(LISTS) == [
        "[3. Deny a refund where > it is late > a)] after 30 days",
        "[3. Deny a refund where > it is late > b)] twice",
        "[3. Deny a refund where] it is large.",
        "[3. Deny a refund where] Always.",
        "[4)] Else allow it.",
        "[A cook may read] table: menu",
    ]


@pytest.mark.parametrize("agent", ["ehragent", "seeact", "csqa"])
def test_no_word_of_a_shipped_request_is_lost(agent: str) -> None:
    """Each stands in a sentence, or in brackets before one."""
    request = Memory().agent(agent).request
    words = set(" ".join(texts(request)).replace("[", " ").replace("]", " ").replace("|", " ").split())
    wanted = {word.strip("*:|-").strip() for word in request.split()} - {""}
    assert not {word for word in wanted if not any(word in known for known in words)}


@given(st.text(alphabet="ab1.)-*#|: \n", max_size=80))
def test_any_text_has_numbered_sentences(request: str) -> None:
    """Counted from 1, and none of them empty."""
    clauses = clauses_of(request)
    assert [clause.number for clause in clauses] == list(range(1, len(clauses) + 1))
    assert all(clause.text.strip() for clause in clauses)
