"""Compares the document of a review with the file as it is now."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from guardagent.errors import InputError
from guardagent.policy.documents.comparison import DocumentComparison, compare
from guardagent.policy.documents.encoding import format_of
from guardagent.policy.documents.reader import MAX_PDF, parse_document
from guardagent.policy.documents.sentences import Kind, Sentence
from guardagent.policy.file.source_tree import shortened
from guardagent.policy.review.record import Review, ReviewedSentence

_AGAIN = "run 'guardagent translate' again"


def document_problems(review: Review, folder: Path) -> tuple[str, ...]:
    """Returns the differences of a document from the one that was translated; empty if its bytes are the same.

    Args:
        review: the review.
        folder: the base of the document's path.
    """
    path = folder / review.document
    try:
        data = _bytes(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return (f"the document {str(path)!r} cannot be read: {reason}; expected the one that was translated",)
    if hashlib.sha256(data).hexdigest() == review.document_hash:
        return ()
    try:
        sentences = parse_document(data, str(path), format_of(str(path), data)).sentences
    except InputError:
        return (f"the document {str(path)!r} changed since it was translated; {_AGAIN}",)
    changes = tuple(_changes(compare(reviewed_sentences(review), sentences)))
    return changes or (f"the document {str(path)!r} changed, but none of its sentences; {_AGAIN}",)


def _bytes(path: Path) -> bytes:
    """The bytes of a regular file: a pipe or a device may never end."""
    if path.exists() and not path.is_file():
        raise ValueError("it is not a regular file")
    with path.open("rb") as file:
        data = file.read(MAX_PDF + 1)
    if len(data) > MAX_PDF:
        raise ValueError(f"it has more than {MAX_PDF:,} bytes")
    return data


def reviewed_sentences(review: Review) -> list[Sentence]:
    """The sentences of the document that was translated."""
    return [
        Sentence(one.number, one.text, cast("Kind", one.kind), one.path, one.context, one.place, one.hash)
        for one in review.sentences
    ]


def _changes(found: DocumentComparison) -> Iterator[str]:
    for change in found.changed:
        yield f"{sentence_name(change.old)} changed in the document: now {quoted(change.new.text)}"
    for one in found.removed:
        yield f"{sentence_name(one)} is no longer in the document"
    for one in found.added:
        yield f"{sentence_name(one)} of the document is new"


def sentence_name(one: Sentence | ReviewedSentence) -> str:
    """The number, the place and the first words of a sentence."""
    return f"sentence {one.number} ({one.place}: {quoted(one.text)})"


def quoted(text: str) -> str:
    """The first words of a text in quotes, with escapes for characters that do not print."""
    return repr(shortened(text))
