"""Text in pictures: safe characters, widths and line breaks."""

from __future__ import annotations

import re
import unicodedata
from html import escape

from guardagent._terminal import printable

# Widths of the widest common sans-serif font (DejaVu Sans), in tenths of the font size, so that text fits its box.
_WIDTHS = {
    **dict.fromkeys("ijl'|", 2.9),
    **dict.fromkeys(" .,:;!()[]{}/\\-`", 3.7),
    **dict.fromkeys('frtI"*', 4.2),
    **dict.fromkeys("_", 5.0),
    **dict.fromkeys("mwMW@%—→", 9.6),
}
_LOWER, _OTHER, _UPPER, _WIDE = 6.2, 6.6, 7.6, 10.2
_BREAKS = re.compile(r"(?<=[\s_./:,;|-])|(?<=[a-z0-9])(?=[A-Z])")


def single_line(text: object) -> str:
    """Returns a string on one line, without control characters, direction marks and characters that XML forbids."""
    return " ".join(printable(str(text)).split())


def width_of(text: str, size: float) -> float:
    """Returns the maximum width of a string, in pixels."""
    return sum(map(_width, text)) * size / 10


def _width(char: str) -> float:
    if known := _WIDTHS.get(char):
        return known
    if unicodedata.east_asian_width(char) in "WF":
        return _WIDE
    if unicodedata.combining(char):
        return 0.0
    return _LOWER if char.islower() else _UPPER if char.isupper() else _OTHER


def wrapped(text: str, size: float, width: float, lines: int) -> list[str]:
    """Wraps a string between the words of names, to at most `lines` lines; ends a truncated string with `…`."""
    done: list[str] = []
    rest = text
    while rest and len(done) < lines:
        line, rest = _first_line(rest, size, width)
        done.append(line.strip())
    if rest:
        done[-1] = _cut(done[-1], size, width)
    return done


def _first_line(text: str, size: float, width: float) -> tuple[str, str]:
    if width_of(text, size) <= width:
        return text, ""
    ends = [found.end() for found in _BREAKS.finditer(text)]
    fitting = [end for end in ends if 0 < end < len(text) and width_of(text[:end].rstrip(), size) <= width]
    if not fitting:
        end = next((end for end in range(2, len(text)) if width_of(text[:end], size) > width), len(text)) - 1
        return text[:end], text[end:]
    return text[: fitting[-1]], text[fitting[-1] :]


def _cut(line: str, size: float, width: float) -> str:
    while line and width_of(f"{line}…", size) > width:
        line = line[:-1]
    return f"{line}…"


def escaped(text: object) -> str:
    """Returns a string as the content of an XML element."""
    return escape(single_line(text), quote=False)


def element(tag: str, content: str = "", /, **attributes: object) -> str:
    """Returns an XML element with XML `content`; escapes attributes, reads `_` in names as `-`, and skips None."""
    known = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items() if value is not None}
    head = " ".join([tag, *(f'{name}="{escape(_plain(value))}"' for name, value in known.items())])
    return f"<{head}>{content}</{tag}>" if content else f"<{head}/>"


def _plain(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
