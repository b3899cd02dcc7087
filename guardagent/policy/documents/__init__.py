"""Reads a policy document of any format into numbered sentences.

    bytes -> blocks (one reader for each format) -> sentences with headings and context (outline) -> findings

`compare` finds the sentences that changed between two versions.
"""

from __future__ import annotations

import sys
from pathlib import Path

from guardagent._support.files import read_bytes
from guardagent._support.requirements import require
from guardagent.errors import ContentError, InputError
from guardagent.policy.documents.sentences import (
    Blocks,
    DocumentComparison,
    DocumentFinding,
    PolicyDocument,
    Sentence,
    SentenceChange,
    compare,
)
from guardagent.policy.documents.text import FORMATS, decode, format_of, invisible_characters, long_sentences, number

__all__ = [
    "DocumentComparison",
    "DocumentFinding",
    "PolicyDocument",
    "Sentence",
    "SentenceChange",
    "compare",
    "read_document",
]

MAX_TEXT = 10_000_000
MAX_PDF = 100_000_000
_DISTRIBUTIONS = {
    "markdown": {"markdown-it-py": "3", "mdit-py-plugins": "0.7", "selectolax": "1.0"},
    "html": {"selectolax": "1.0"},
    "pdf": {"pypdf": "6"},
    "text": {},
}


def read_document(path: Path | str, format: str | None = None) -> PolicyDocument:  # noqa: A002 - the word for it
    """Reads a document. All of its visible text is in its sentences; other text is in its findings.

    Args:
        path: a file, or `-` for standard input.
        format: 'markdown', 'html', 'text' or 'pdf'; without it, the content and the suffix decide.

    Raises:
        InputError: the file is missing, empty, too large, or no document of its format; or a library is missing.
    """
    path = str(path)
    data = _bytes(path)
    if format is not None and format not in FORMATS.values():
        raise InputError(f"the format is {format!r}; expected one of {', '.join(sorted(set(FORMATS.values())))}")
    return parse_document(data, path, format or format_of(path, data))


def parse_document(data: bytes, path: str, format: str) -> PolicyDocument:  # noqa: A002 - as above
    """Reads the bytes of a document; `path` is for messages. Errors as for `read_document`."""
    require(_DISTRIBUTIONS[format], "translate")
    limit = MAX_PDF if format == "pdf" else MAX_TEXT
    if len(data) > limit:
        raise ContentError(f"has more than {limit:,} bytes; expected at most that many: split the document", path)
    try:
        read = _blocks(data, path, format)
    except ContentError:
        raise
    except InputError as error:
        raise ContentError(str(error), path) from None
    sentences = number(read.blocks)
    if not sentences:
        raise ContentError("has no visible text; expected sentences", path)
    return PolicyDocument(sentences, (*read.findings, *invisible_characters(sentences), *long_sentences(sentences)))


def _blocks(data: bytes, path: str, format: str) -> Blocks:  # noqa: A002 - as above
    if format == "pdf":
        from guardagent.policy.documents.pdf import read_pdf

        return read_pdf(data)
    text = decode(data, path)
    if format == "markdown":
        from guardagent.policy.documents.text import read_markdown

        return read_markdown(text)
    if format == "html":
        from guardagent.policy.documents.html import read_html

        return read_html(text)
    from guardagent.policy.documents.text import read_plain_text

    return read_plain_text(text)


def _bytes(path: str) -> bytes:
    """The bytes of a file, or of standard input; at most one more than the limit."""
    if path == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed; expected a document")
        return sys.stdin.buffer.read(MAX_PDF + 1)
    return read_bytes(Path(path), MAX_PDF)
