"""Reads HTML as a browser does (lexbor), into blocks. Text that a browser does not show is reported."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from guardagent.errors import InputError
from guardagent.policy.documents.sentences import RAISED, Block, Blocks, DocumentFinding, Kind, collapsed

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_DEEPEST = 150  # elements in elements; a browser stops at 512
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_INLINE = frozenset(
    "a abbr acronym b bdi bdo big button cite code data del dfn em font i img input ins kbd label mark meter nobr "
    "output progress q rp rt ruby s samp small span strike strong sub sup time tt u var wbr".split()
)
"""All other elements are blocks: an unknown one ends a paragraph."""

_MARKS = re.compile(r"\d+(?:[,;–-]\d+)*")  # noqa: RUF001 - typographic
_TO_RAISED = str.maketrans("0123456789", RAISED)
_BLOCKS_IN_CELLS = "table, ul, ol, h1, h2, h3, h4, h5, h6, blockquote, pre, p + p"
_UNSHOWN = {
    "script": "a script",
    "style": "a style sheet",
    "template": "a template",
    "noscript": "text for readers without scripts",
    "title": "the title of the page",
}
_UNREAD = frozenset(["iframe", "object", "embed", "video", "audio", "canvas"])
_HIDING = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0(?:\.0*)?\s*(?:[;!}]|$)"
    r"|font-size\s*:\s*0(?![.\d]*[1-9])|(?:text-indent|left|top)\s*:\s*-\d{3,}",
    re.IGNORECASE,
)


def read_html(text: str) -> Blocks:
    """Reads a page.

    Raises:
        InputError: its elements are nested too deep.
    """
    return walk(text, _LineFinder(text))


def walk(text: str, locate: Callable[[str], str]) -> Blocks:
    """Reads a page; `locate` returns the place of a text, which it gets in the order of the page.

    An attribute `data-line` of an element overrides it.
    """
    from selectolax.lexbor import LexborHTMLParser

    root = LexborHTMLParser(text).root
    walker = _Walker(locate)
    if root is not None:
        walker.block(root, "sentence", 0)
    return Blocks(walker.blocks, walker.findings)


class _Walker:
    def __init__(self, locate: Callable[[str], str]) -> None:
        self.blocks: list[Block] = []
        self.findings: list[DocumentFinding] = []
        self._locate = locate
        self._line = self._start = ""
        self._ordinal = ""
        self._buffer: list[str] = []
        self._preformatted = False
        self._nesting = 0

    def block(self, node: LexborNode, kind: Kind, depth: int) -> None:
        """Reads the content of an element that is a block, apart from the text before and after it."""
        self._flush(kind, depth)
        self._content(node, kind, depth)
        self._flush(kind, depth)

    def _content(self, node: LexborNode, kind: Kind, depth: int) -> None:
        self._nesting += 1
        if self._nesting > _DEEPEST:
            raise InputError(f"elements are nested more than {_DEEPEST} deep; expected a plain document")
        for child in self._visible(node):
            if child.is_text_node:
                self._text(child.text_content or "")
            else:
                self._element(child, kind, depth)
        self._nesting -= 1

    def _element(self, node: LexborNode, kind: Kind, depth: int) -> None:
        tag = node.tag or ""
        outside, self._line = self._line, _attribute(node, "data-line") or self._line
        if tag == "br":
            self._buffer.append("\n")
        elif tag in ("img", "input"):
            self._text(_attribute(node, "alt" if tag == "img" else "value"))
        elif tag in _INLINE:
            at = len(self._buffer)
            self._content(node, kind, depth)
            if tag == "sup" and _MARKS.fullmatch(marks := "".join("".join(self._buffer[at:]).split())):
                self._buffer[at:] = [marks.translate(_TO_RAISED)]  # of footnotes, or a power: no digits of the text
        elif (special := getattr(self, f"_{_READERS.get(tag, '')}", None)) is not None:
            self._flush(kind, depth)
            special(node, kind, depth)
        else:
            self.block(node, kind, depth)
        self._line = outside

    def _heading(self, node: LexborNode, _: Kind, depth: int) -> None:  # noqa: ARG002 - one signature for all
        self._emit(" ".join(self._texts(node)), "heading", 0, level=_HEADINGS[node.tag or "h6"])

    def _list(self, node: LexborNode, _: Kind, depth: int) -> None:
        first = _attribute(node, "start")
        ordinal = int(first) if first.isdecimal() else 1
        outside = self._ordinal
        for child in self._visible(node):
            if child.tag == "li":
                self._ordinal = f", item {ordinal}" if node.tag == "ol" else ""
                ordinal += 1
            if child.is_text_node:
                self._text(child.text_content or "")
            else:
                self._element(child, "item", depth + 1)
        self._flush("item", depth + 1)
        self._ordinal = outside

    def _definition(self, node: LexborNode, _: Kind, depth: int) -> None:
        self.block(node, "item", depth + 1)

    def _quote(self, node: LexborNode, _: Kind, depth: int) -> None:
        self._emit("\n".join(self._texts(node)), "quote", depth + 1)

    def _code(self, node: LexborNode, _: Kind, depth: int) -> None:
        outside, self._preformatted = self._preformatted, True
        text = "\n".join(self._texts(node))
        self._preformatted = outside
        self._emit(text, "code", depth + 1)

    def _aside(self, node: LexborNode, kind: Kind, depth: int) -> None:
        label = _attribute(node, "data-footnote")
        if not label:
            self.block(node, kind, depth)
            return
        mark = f"[{label}]"
        self._emit(" ".join([mark, *self._texts(node)]), "footnote", 0, context=(mark,))

    def _table(self, node: LexborNode, kind: Kind, depth: int) -> None:
        if not node.css("th") and node.css(_BLOCKS_IN_CELLS.replace("table,", "table table,")):
            self.block(node, kind, depth)  # it only arranges a page
            return
        header: tuple[str, ...] = ()
        spanning: list[tuple[int, str]] = []
        for row in self._rows(node):
            if row.tag != "tr":
                self._element(row, kind, depth)
                continue
            outside, self._line = self._line, _attribute(row, "data-line") or self._line
            cells = [(cell, " ".join(self._texts(cell))) for cell in self._visible(row) if not cell.is_text_node]
            is_header = not header and all(cell.tag == "th" for cell, _ in cells)
            text = " | ".join(text for _, text in cells)
            context = header + tuple(text for _, text in spanning)
            if text.strip(" |"):
                self._emit(text, "header" if is_header else "row", depth + 1, context=() if is_header else context)
                header = (text,) if is_header else header
            spanning = [(left - 1, text) for left, text in spanning + _spans(cells) if left > 1]
            self._line = outside

    def _rows(self, node: LexborNode) -> Iterator[LexborNode]:
        for child in self._visible(node):
            if child.tag in ("thead", "tbody", "tfoot"):
                yield from self._rows(child)
            elif not child.is_text_node:
                yield child

    def _texts(self, node: LexborNode) -> list[str]:
        """Returns the texts of the blocks in an element."""
        outside, self.blocks = self.blocks, []
        self.block(node, "sentence", 0)
        inside, self.blocks = self.blocks, outside
        return [block.text for block in inside]

    def _visible(self, node: LexborNode) -> Iterator[LexborNode]:
        """Yields the children that are shown, and reports the others."""
        child = node.child
        while child is not None:
            if child.is_comment_node:
                self._report("hidden", "a comment is not shown", child.comment_content or "")
            elif child.is_text_node or (child.is_element_node and self._is_shown(child)):
                yield child
            child = child.next

    def _is_shown(self, node: LexborNode) -> bool:
        tag, attributes = node.tag or "", node.attributes
        if tag in _UNREAD:
            self._report("unread", f"the content of an element {tag!r} is not read", _attribute(node, "src"))
        elif tag in _UNSHOWN:
            self._report_unshown(tag, node)
        elif tag == "dialog" and "open" not in attributes:
            self._report("hidden", "a closed dialog is not shown", node.text())
        elif "hidden" in attributes or _HIDING.search(_attribute(node, "style")) or _is_hidden_input(node):
            self._report("hidden", "a hidden element is not shown", node.text() or _attribute(node, "value"))
        else:
            self._report_attributes(tag, node)
            return True
        return False

    def _report_unshown(self, tag: str, node: LexborNode) -> None:
        content = node.text() or re.sub(r"<[^>]*>", "", node.html or "")  # a template has no children
        if tag != "style":
            self._report("hidden", f"{_UNSHOWN[tag]} is not shown", content)
        elif _HIDING.search(content):
            self._report(
                "hidden", "a style sheet hides elements; whether all of this text is shown is unknown", content
            )

    def _report_attributes(self, tag: str, node: LexborNode) -> None:
        if title := _attribute(node, "title"):
            self._report("hidden", "a tooltip is not part of the text", title)
        if tag in ("del", "s", "strike"):
            self._report("struck", "text is struck out, and is read as the rest", node.text())
        target = _attribute(node, "href") if tag == "a" else ""
        if target and not target.startswith(("#", "mailto:", "tel:")):
            self._report("reference", f"the text refers to {target[:200]!r}, which is not read", node.text())

    def _report(self, kind: Any, message: str, text: str) -> None:
        if text.strip():
            self.findings.append(DocumentFinding(kind, message, self._place(text), text.strip()))

    def _text(self, text: str) -> None:
        if not text:
            return
        if not self._buffer:
            self._start = self._place(text)
        self._buffer.append(text if self._preformatted else re.sub(r"\s+", " ", text))

    def _flush(self, kind: Kind, depth: int) -> None:
        text = "".join(self._buffer)
        self._buffer = []
        self._emit(text if self._preformatted else collapsed(text), kind, depth)

    def _emit(self, text: str, kind: Kind, depth: int, *, level: int = 0, context: tuple[str, ...] = ()) -> None:
        if text.strip():
            self.blocks.append(Block(text.strip("\n"), kind, self._start, depth, level, context))

    def _place(self, text: str) -> str:
        return (f"line {self._line}" if self._line else self._locate(text)) + self._ordinal


_READERS = {
    **dict.fromkeys(_HEADINGS, "heading"),
    **dict.fromkeys(("ul", "ol", "menu"), "list"),
    "dd": "definition",
    "blockquote": "quote",
    "pre": "code",
    "aside": "aside",
    "table": "table",
}


def _attribute(node: LexborNode, name: str) -> str:
    return node.attributes.get(name) or ""


def _is_hidden_input(node: LexborNode) -> bool:
    return node.tag == "input" and _attribute(node, "type").lower() in ("hidden", "password")


def _spans(cells: list[tuple[LexborNode, str]]) -> list[tuple[int, str]]:
    spans = [(_attribute(cell, "rowspan"), text) for cell, text in cells]
    return [(int(span), text) for span, text in spans if span.isdecimal() and len(span) < 6]


class _LineFinder:
    """The lines of texts in a source, in order: the parser has no positions."""

    _WINDOW = 100_000

    def __init__(self, source: str) -> None:
        self._source, self._at, self._number = source, 0, 1

    def __call__(self, text: str) -> str:
        wanted = text.strip()[:40].partition("\n")[0]
        place = self._source.find(wanted, self._at, self._at + self._WINDOW) if wanted else -1
        if place >= 0:
            self._number += self._source.count("\n", self._at, place)
            self._at = place
        return f"line {self._number}"
