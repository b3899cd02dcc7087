"""The labels of arrows: their conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from guardagent.workflow.drawing._layout import Point, Size
from guardagent.workflow.drawing._style import LABEL, PAPER
from guardagent.workflow.drawing._text import element, escaped, width_of, wrapped

_FONT, _LINE = 11.0, 14.0
_WIDEST, _MOST_CONDITIONS = 150.0, 3


@dataclass(frozen=True, slots=True)
class ArrowLabel:
    """Lines of text, their size, and the complete text as a title."""

    lines: tuple[str, ...]
    size: Size
    title: str

    def draw(self, middle: Point) -> str:
        """Returns the label as SVG elements; the text has a border in the background colour to cover lines."""
        top = middle.y - self.size.height / 2
        texts = [self._line(line, middle.x, top + _LINE * (index + 0.78)) for index, line in enumerate(self.lines)]
        return element("title", escaped(self.title)) + "".join(texts) if texts else ""

    @staticmethod
    def _line(text: str, x: float, y: float) -> str:
        return element(
            "text", escaped(text), x=x, y=y, text_anchor="middle", font_size=_FONT,
            fill=LABEL, stroke=PAPER, stroke_width=4, stroke_linejoin="round", paint_order="stroke",
        )  # fmt: skip


def label(conditions: Sequence[str]) -> ArrowLabel:
    lines = tuple(_lines(conditions))
    width = max((width_of(line, _FONT) for line in lines), default=0.0)
    return ArrowLabel(lines, Size(width, _LINE * len(lines)), " / ".join(conditions))


def _lines(conditions: Sequence[str]) -> Iterator[str]:
    room = _MOST_CONDITIONS if len(conditions) <= _MOST_CONDITIONS else _MOST_CONDITIONS - 1
    for condition in conditions[:room]:
        yield from wrapped(condition, _FONT, _WIDEST, 2 if len(conditions) == 1 else 1)
    if (rest := len(conditions) - room) > 0:
        yield f"and {rest} more"
