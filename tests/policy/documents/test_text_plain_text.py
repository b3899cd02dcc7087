"""Plain text: structure from blank lines, bullets and underlines."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from guardagent.policy.documents.sentences import Sentence
from guardagent.policy.documents.text import number, read_plain_text

TEXT = """\
REFUND POLICY

Agents answer requests within
24 hours. Ask Mr. Smith
otherwise.

2.1 Cards

To pay, collect:
- the number
  of the card
- one of
    a) a name
    b) a date
Then confirm.

Limits
------
Name: one
Fee: two
"""


def read(text: str) -> tuple[Sentence, ...]:
    return number(read_plain_text(text).blocks)


def test_a_text_is_read_by_its_layout() -> None:
    """Wrapped lines go on; short ones end a sentence."""
    sentences = [(sentence.kind, sentence.text, sentence.path[1:], sentence.context) for sentence in read(TEXT)]
    assert sentences == [
        ("heading", "REFUND POLICY", (), ()),
        ("sentence", "Agents answer requests within\n24 hours.", (), ()),
        ("sentence", "Ask Mr. Smith\notherwise.", (), ()),
        ("heading", "2.1 Cards", (), ()),
        ("sentence", "To pay, collect:", ("2.1 Cards",), ()),
        ("item", "the number\nof the card", ("2.1 Cards",), ("To pay, collect:",)),
        ("item", "one of", ("2.1 Cards",), ("To pay, collect:",)),
        ("item", "a) a name", ("2.1 Cards",), ("To pay, collect:", "one of")),
        ("item", "b) a date", ("2.1 Cards",), ("To pay, collect:", "one of")),
        ("sentence", "Then confirm.", ("2.1 Cards",), ("b) a date",)),
        ("heading", "Limits", (), ()),
        ("sentence", "Name: one", ("Limits",), ()),
        ("sentence", "Fee: two", ("Limits",), ()),
    ]


@given(st.text(st.sampled_from("aB1.:;- \n\t()*=•e.g.")))
def test_every_word_is_in_one_sentence(text: str) -> None:
    """In its order."""
    assert re.findall(r"\w", "".join(sentence.text for sentence in read(text))) == re.findall(r"\w", text)
