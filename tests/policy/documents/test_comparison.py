"""Versions of a document: only changed sentences count as changed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from guardagent.policy.documents import DocumentComparison, compare, parse_document
from guardagent.policy.documents.sentences import Sentence


def read(text: str) -> tuple[Sentence, ...]:
    return parse_document(text.encode(), "policy.md", "markdown").sentences


OLD = """\
# Policy 2025

## Refunds

Refund within 24 hours. Ask for the order id. Never pay twice.

Collect:

1. a name
2. a date
"""


def difference(new: str) -> DocumentComparison:
    return compare(read(OLD), read(new))


def test_a_version_with_another_layout_is_unchanged() -> None:
    """Order, numbers of items, line breaks, quotation marks and the title of the document do not matter."""
    new = (
        "# Policy 2026\n\n## Refunds\n\nNever pay\ntwice. Ask for the order id. Refund within 24 hours.\n\n"
        "Collect:\n\n2) a date\n3) a name\n"
    )
    comparison = difference(new)
    assert [(pair.old.text, pair.new.text) for pair in comparison.changed] == [("Policy 2025", "Policy 2026")]
    assert (comparison.added, comparison.removed) == ((), ())


def test_changed_sentences_are_paired_with_the_most_similar() -> None:
    """Other ones are added or removed."""
    comparison = difference(
        OLD.replace("24 hours", "48 hours").replace("Never pay twice.", "Every customer must smile.")
    )
    assert [(pair.old.text, pair.new.text) for pair in comparison.changed] == [
        ("Refund within 24 hours.", "Refund within 48 hours.")
    ]
    assert 0.9 < comparison.changed[0].similarity < 1
    assert [sentence.text for sentence in comparison.added] == ["Every customer must smile."]
    assert [sentence.text for sentence in comparison.removed] == ["Never pay twice."]


def test_a_sentence_in_another_context_is_changed() -> None:
    """The words are the same; the heading or the introduction is not."""
    comparison = difference(OLD.replace("Collect:", "Never collect:").replace("## Refunds", "## Exchanges"))
    assert {pair.new.text for pair in comparison.changed if pair.similarity == 1} >= {
        "a name",
        "a date",
        "Never pay twice.",
    }


LISTS = st.lists(st.sampled_from(["Ask.", "Ask now.", "Pay 5.", "Pay 6.", "Never."]), max_size=8)


@given(LISTS, LISTS)
def test_each_sentence_is_in_one_part(old: list[str], new: list[str]) -> None:
    """Of each version."""
    before, after = (read("x\n\n" + "\n\n".join(sentences)) for sentences in (old, new))
    before_compare = compare(before, after)
    pairs = [*before_compare.unchanged, *((pair.old, pair.new) for pair in before_compare.changed)]
    assert sorted(sentence.number for sentence in (*(old for old, _ in pairs), *before_compare.removed)) == [
        s.number for s in before
    ]
    assert sorted(sentence.number for sentence in (*(new for _, new in pairs), *before_compare.added)) == [
        s.number for s in after
    ]
