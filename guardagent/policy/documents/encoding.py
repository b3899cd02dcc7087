"""Decodes the bytes of a text file, and recognizes formats."""

from __future__ import annotations

import codecs
import re
from pathlib import PurePath

from guardagent.errors import ContentError, UnknownNameError

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
          (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip
_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset\s*=\s*["']?([\w-]{1,30})""", re.IGNORECASE)
_CHARSETS = frozenset(["utf-8", "iso8859-1", "cp1252", "iso8859-15", "ascii"])

FORMATS = {
    **dict.fromkeys((".md", ".markdown", ".mdown", ".mkd"), "markdown"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    **dict.fromkeys((".txt", ".text", ""), "text"),
    ".pdf": "pdf",
}
_CONTAINERS = ((b"PK\x03\x04", "a ZIP archive or an office document"), (b"\xd0\xcf\x11\xe0", "an office document"))


def format_of(path: str, data: bytes) -> str:
    """Returns the format of a document: 'markdown', 'html', 'text' or 'pdf'.

    Raises:
        ContentError: it is an office document.
        UnknownNameError: its suffix is unknown.
    """
    for magic, description in _CONTAINERS:
        if data.startswith(magic):
            raise ContentError(f"is {description}; expected Markdown, text, HTML or PDF: export it", path)
    head = data[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if head.startswith(b"%pdf-"):
        return "pdf"
    if head.startswith((b"<!doctype html", b"<html")):
        return "html"
    if path == "-":
        return "markdown"
    suffix = PurePath(path).suffix.lower()
    if suffix not in FORMATS:
        raise UnknownNameError("suffix of a document", suffix, filter(None, FORMATS), path)
    return FORMATS[suffix]


def decode(data: bytes, path: str) -> str:
    """Returns the text of a file, with line feeds alone.

    Raises:
        ContentError: it is empty, or binary, or its bytes are no text of the encoding that it names, else of UTF-8.
    """
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "") or _declared_charset(data)
    try:
        text = data.decode(encoding.replace("utf-8", "utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ContentError(f"byte {error.start} is not {encoding.upper()}; expected UTF-8 text", path, line) from None
    if "\0" in text:
        raise ContentError("contains zero bytes; expected text, not binary data", path)
    if not text.strip():
        raise ContentError("is empty; expected text", path)
    return re.sub(r"\r\n?|[\v\f\x85\u2028\u2029]", "\n", text)


def _declared_charset(data: bytes) -> str:
    """The encoding that a page names, if it is a common one."""
    found = _CHARSET.search(data[:2048])
    if found is None:
        return "utf-8"
    try:
        name = codecs.lookup(found[1].decode()).name
    except LookupError:
        return "utf-8"
    return "cp1252" if name in ("iso8859-1", "ascii") else name if name in _CHARSETS else "utf-8"
