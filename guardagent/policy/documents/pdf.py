"""Reads the text of a PDF. Larger type is a heading; lines that come back on most pages are reported, not read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any

from guardagent.errors import InputError
from guardagent.policy.documents.sentences import Blocks, DocumentFinding
from guardagent.policy.documents.text import Line, blocks_of

_LARGER = 1.15  # than most of the text
_MOST_PAGES = 2000


def read_pdf(data: bytes) -> Blocks:
    """Reads the pages of a file.

    Raises:
        InputError: it is not a PDF, needs a password, has no text (as a scan), or too many pages.
    """
    import logging

    from pypdf import PdfReader

    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns of what it repairs
    try:
        reader = PdfReader(BytesIO(data))
        problem = _problem(reader)
        pages = [] if problem else [_Page(number, page) for number, page in enumerate(reader.pages, start=1)]
    except Exception as error:  # noqa: BLE001 - a damaged file raises any type
        raise InputError(f"the PDF cannot be read: {error!s:.200}; expected a complete file") from None
    if problem:
        raise InputError(problem)
    if not any(page.lines for page in pages):
        raise InputError("the PDF has no text, as if it was scanned; expected text: recognize it (OCR) first")
    repeated = _repeated(pages)
    findings = [finding for page in pages for finding in page.findings(repeated)]
    return Blocks(list(blocks_of(_lines(pages, repeated))), findings)


def _problem(reader: Any) -> str:
    """The reason why a file is not read; empty if there is none."""
    if reader.is_encrypted and not reader.decrypt(""):
        return "the PDF needs a password; expected one without"
    if len(reader.pages) > _MOST_PAGES:
        return f"the PDF has {len(reader.pages):,} pages; expected at most {_MOST_PAGES:,}"
    return ""


class _Page:
    """The lines of a page with the sizes of their type."""

    def __init__(self, number: int, page: Any) -> None:
        self.place = f"page {number}"
        self.invisible = False
        self._sizes: dict[str, float] = {}
        text = page.extract_text(visitor_text=self._measure, visitor_operand_before=self._observe)
        self.lines: list[tuple[str, float]] = [(line, self._size(line)) for line in text.split("\n") if line.strip()]
        self.has_images = "/XObject" in (page.get("/Resources") or {})

    def _measure(self, text: str, _matrix: Any, text_matrix: Any, _font: Any, size: Any) -> None:
        for line in filter(None, map(str.strip, text.split("\n"))):
            self._sizes[line] = abs(float(size or 0) * float(text_matrix[3] or 1))

    def _observe(self, operator: bytes, operands: Any, _matrix: Any, _text_matrix: Any) -> None:
        self.invisible |= operator == b"Tr" and list(operands) == [3]

    def _size(self, line: str) -> float:
        return self._sizes.get(line.strip(), 0.0)

    def edges(self) -> set[str]:
        """The first and the last line, where headers and footers stand, without their numbers."""
        return {_pattern(line) for line, _ in (self.lines[:1] + self.lines[-1:])}

    def findings(self, repeated: set[str]) -> Iterator[DocumentFinding]:
        if self.invisible:
            yield DocumentFinding("hidden", "the page has invisible text, which is read as the rest", self.place)
        if not self.lines:
            yield DocumentFinding("unread", "the page has no text", self.place)
        elif self.has_images:
            yield DocumentFinding("unread", "the page has images, whose text is not read", self.place)
        for line, _ in self.lines:
            if _pattern(line) in repeated:
                yield DocumentFinding("repeated", "the line comes back on most pages and is left out", self.place, line)


def _repeated(pages: list[_Page]) -> set[str]:
    counts = Counter(line for page in pages for line in page.edges())
    return {line for line, count in counts.items() if count >= 3 and count > len(pages) / 2}


def _pattern(line: str) -> str:
    return re.sub(r"\d+", "#", " ".join(line.split()))


def _lines(pages: list[_Page], repeated: set[str]) -> Iterator[Line]:
    """Yields the lines of all pages. A sentence may go on on the next page."""
    kept = [(line, size, page.place) for page in pages for line, size in page.lines if _pattern(line) not in repeated]
    levels = _levels([(size, len(line)) for line, size, _ in kept])
    before, page = "", ""
    for line, size, place in _without_hyphens(kept):
        level = levels.get(round(size, 1), 0)
        if place != page and before.rstrip()[-1:] in ".!?:;":
            yield Line("", place)
        yield Line(line, place, level)
        before, page = line, place


def _without_hyphens(lines: Iterable[tuple[str, float, str]]) -> Iterator[tuple[str, float, str]]:
    """Joins words that were divided at the end of a line."""
    held: tuple[str, float, str] | None = None
    for line, size, place in lines:
        if held is not None:
            joined = (
                re.match(r"\s*([^\W\d_]\S*)", line) if re.search(r"[a-z]-$", held[0]) and line[:1].islower() else None
            )
            if joined:
                held = (held[0][:-1] + joined[1], *held[1:])
                line = line[joined.end() :]  # noqa: PLW2901 - the rest of it
            yield held
        held = (line, size, place) if line.strip() else None
    if held is not None:
        yield held


def _levels(sizes: list[tuple[float, int]]) -> dict[float, int]:
    """Size of type -> level of heading, for sizes larger than that of most characters."""
    characters: Counter[float] = Counter()
    for size, count in sizes:
        characters[round(size, 1)] += count
    body = characters.most_common(1)[0][0] if characters else 0.0
    larger = sorted((size for size in characters if body and size > body * _LARGER), reverse=True)
    return {size: min(level, 6) for level, size in enumerate(larger, start=1)}
