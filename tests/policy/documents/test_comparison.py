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
    found = difference(new)
    assert [(one.old.text, one.new.text) for one in found.changed] == [("Policy 2025", "Policy 2026")]
    assert (found.added, found.removed) == ((), ())


def test_changed_sentences_are_paired_with_the_most_similar() -> None:
    """Other ones are added or removed."""
    found = difference(OLD.replace("24 hours", "48 hours").replace("Never pay twice.", "Every customer must smile."))
    assert [(one.old.text, one.new.text) for one in found.changed] == [
        ("Refund within 24 hours.", "Refund within 48 hours.")
    ]
    assert 0.9 < found.changed[0].similarity < 1
    assert [one.text for one in found.added] == ["Every customer must smile."]
    assert [one.text for one in found.removed] == ["Never pay twice."]


def test_a_sentence_in_another_context_is_changed() -> None:
    """The words are the same; the heading or the introduction is not."""
    found = difference(OLD.replace("Collect:", "Never collect:").replace("## Refunds", "## Exchanges"))
    assert {one.new.text for one in found.changed if one.similarity == 1} >= {"a name", "a date", "Never pay twice."}


LISTS = st.lists(st.sampled_from(["Ask.", "Ask now.", "Pay 5.", "Pay 6.", "Never."]), max_size=8)


@given(LISTS, LISTS)
def test_each_sentence_is_in_one_part(old: list[str], new: list[str]) -> None:
    """Of each version."""
    before, after = (read("x\n\n" + "\n\n".join(one)) for one in (old, new))
    found = compare(before, after)
    pairs = [*found.unchanged, *((one.old, one.new) for one in found.changed)]
    assert sorted(one.number for one in (*(old for old, _ in pairs), *found.removed)) == [s.number for s in before]
    assert sorted(one.number for one in (*(new for _, new in pairs), *found.added)) == [s.number for s in after]
