"""The types of a document that was read: blocks as its format has them, and numbered sentences with their identity."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from guardagent.policy.documents.splitting import MARKER

Kind = Literal["heading", "sentence", "item", "header", "row", "code", "quote", "footnote"]
"""`header` is the first row of a table, `row` another one; code and quotes are not split."""

_TYPOGRAPHIC = str.maketrans("“”„‘’‚", "\"\"\"'''")  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class Sentence:
    """One statement of a document.

    Attributes:
        number: its position, from 1.
        path: the headings above it, the outermost first.
        context: the text that it needs to be understood: the sentence that introduces its list (for nested lists, of
            each), the header of its table, the label of its paragraph, the sentence with its footnote mark, the
            sentence before one that refers back ('Otherwise …').
        place: a line or page of the file.
        hash: its identity: text, path and context, without the title of the document and the numbers of items.
    """

    number: int
    text: str
    kind: Kind
    path: tuple[str, ...]
    context: tuple[str, ...]
    place: str
    hash: str


@dataclass(frozen=True, slots=True)
class DocumentFinding:
    """Something that a reader of the document would not see, or that was not read.

    Attributes:
        kind: `hidden` (text that is not shown), `characters` (invisible ones), `struck` (text that is shown as
            deleted), `reference` (another document), `unread` (content that is no text), `repeated` (the same line on
            many pages), `long` (a sentence that is probably several).
        text: the text concerned, if there is any.
    """

    kind: Literal["hidden", "characters", "struck", "reference", "unread", "repeated", "long"]
    message: str
    place: str
    text: str = ""


@dataclass(frozen=True)
class PolicyDocument:
    """The sentences of a document, in order, and the findings."""

    sentences: tuple[Sentence, ...]
    findings: tuple[DocumentFinding, ...] = ()

    @cached_property
    def first_numbers(self) -> Mapping[str, int]:
        """The number of the first sentence with each hash."""
        return {one.hash: one.number for one in reversed(self.sentences)}


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a document with one layout: a paragraph, a list item, a row.

    Attributes:
        text: with single spaces, and a line feed where the author broke the line; code as it stands.
        depth: the nesting of lists around it; code, quotes and rows are one deeper than the text around them.
        level: of a heading, from 1.
        context: the header of a row, or the mark of a footnote.
    """

    text: str
    kind: Kind
    place: str
    depth: int = 0
    level: int = 0
    context: tuple[str, ...] = ()


@dataclass(slots=True)
class Blocks:
    """The result of a format's reader."""

    blocks: list[Block] = field(default_factory=list)
    findings: list[DocumentFinding] = field(default_factory=list)


def identity(text: str, kind: Kind, path: tuple[str, ...], context: tuple[str, ...]) -> str:
    """Returns the hash of a sentence."""
    own = without_marker(text) if kind in ("heading", "item") else text
    parts = [normalized(own), [normalized(without_marker(one)) for one in path], [normalized(one) for one in context]]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def normalized(text: str) -> str:
    """Returns a text without differences of layout: space, composed characters, typographic quotation marks."""
    return " ".join(unicodedata.normalize("NFC", text).translate(_TYPOGRAPHIC).split())


def without_marker(text: str) -> str:
    """Returns the text of an item or heading without its number or letter."""
    marker = MARKER.match(text)
    return text[marker.end() :] if marker and marker[0][-1:].isspace() else text


def collapsed(text: str) -> str:
    """Returns a text with single spaces and line feeds."""
    return re.sub(r"[^\S\n]*\n\s*", "\n", re.sub(r"[^\S\n]+", " ", text)).strip()
