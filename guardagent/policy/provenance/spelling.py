"""One spelling for the many of a text: full-width, invisible, hidden and encoded characters."""

from __future__ import annotations

import html
import re
import unicodedata
from urllib.parse import unquote

ROUNDS = 3  # of nested encodings
_PERCENT = re.compile("%[0-9A-Fa-f]{2}")
_ENTITY = re.compile("&(?:#[0-9A-Za-z]{1,8}|[A-Za-z]{2,31});")
_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})")
_SPELLED = re.compile(r" {0,2}[\[({] {0,2}(at|dot|[@.]) {0,2}[\])}] {0,2}", re.IGNORECASE)
_SPELLED_SIGN = re.compile(r"[\[({] {0,2}(?:[aA][tT]|[dD][oO][tT]|[@.]) {0,2}[\])}]")
_SPACED = re.compile(r"(?<=[^\s,;:]) {1,2}@ {0,2}(?=[\w-]{1,63}\.\w)|@ {1,2}(?=[\w-]{1,63}\.\w)")
_SPACED_SIGN = re.compile(
    r"@(?: {1,2}|(?<=[^\s,;:] @)|(?<=[^\s,;:]  @))(?=[\w-]{1,63}\.\w)"
)  # quick: begins with a sign
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
_OF_TAGS = {code: chr(code - 0xE0000) for code in range(0xE0020, 0xE007F)}
_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")
_IDEOGRAPHIC_DOT = re.compile("(?<=[a-z0-9])\u3002(?=[a-z0-9])", re.IGNORECASE)
_TAGS, _TAG_BYTES = re.compile("[\U000e0020-\U000e007e]+"), b"\xf3\xa0"  # all begin with them
_PUNYCODE = re.compile(r"(?<![\w-])xn--([a-z0-9-]{1,59})", re.IGNORECASE)


def normalized(text: str) -> str:
    """Returns a text in NFKC, without invisible characters, and with its encoded characters decoded."""
    text = visible(text)
    for _ in range(ROUNDS):
        decoded = _decoded(text)
        if decoded == text:
            break
        text = visible(decoded)
    return text


def visible(text: str) -> str:
    """Returns a text in NFKC, without invisible characters, and with ASCII digits."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", text)
    signs = "".join(set(text))  # much shorter than a long text
    if _INVISIBLE.search(signs):
        text = _INVISIBLE.sub("", text)
    if "\u3002" in signs:
        text = _IDEOGRAPHIC_DOT.sub(".", text)
    if _FOREIGN_DIGIT.search(signs):
        text = _FOREIGN_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0], digit[0])), text)
    return text


def appearance(text: str) -> str:
    """Returns a text as it looks: visible, case-folded, and without spaces, blanks and control characters."""
    shown = "".join(sign for sign in visible(text) if sign.isprintable() and sign not in " \u2800")
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKD", shown).casefold())


def with_hidden(text: str) -> str:
    """The text, and what its tag characters say: within the text, and alone. A reader sees none of them."""
    if text.isascii() or _TAG_BYTES not in text.encode("utf-8", "replace") or not _TAGS.search(text):
        return text
    spelled = [run.translate(_OF_TAGS) for run in _TAGS.findall(text)]
    return "\x00".join((text, text.translate(_OF_TAGS), " ".join(spelled), "".join(spelled)))


def _decoded(text: str) -> str:
    if "%" in text and _PERCENT.search(text):
        text = unquote(text, errors="replace")
    if "&" in text and _ENTITY.search(text):
        text = html.unescape(text)
    if "\\" in text:
        text = _ESCAPE.sub(_character, text)
    if "n--" in text or "N--" in text:
        text = _PUNYCODE.sub(_of_punycode, text)
    if "@" in text and _SPACED_SIGN.search(text):
        text = _SPACED.sub("@", text)
    if ("[" in text or "(" in text or "{" in text) and _SPELLED_SIGN.search(text):
        text = _SPELLED.sub(lambda word: "@" if word[1].lower() in ("at", "@") else ".", text)
    return text


def _character(escape: re.Match[str]) -> str:
    code = int(escape[1], 16)
    return escape[0] if 0xD800 <= code < 0xE000 else chr(code)


def _of_punycode(label: re.Match[str]) -> str:
    try:
        unicode = unicodedata.normalize("NFKC", label[1].encode().decode("punycode"))
    except UnicodeError:
        return label[0]
    is_label = not unicode.isascii() and all(sign in "-_" or unicodedata.category(sign)[0] in "LMN" for sign in unicode)
    return unicode if is_label else label[0]  # no host has this name, or it would read as several
