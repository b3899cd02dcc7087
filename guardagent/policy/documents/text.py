"""Reads plain text and Markdown, and numbers the sentences of documents of any format.

Plain text has paragraphs between blank lines, list items by their bullets, and headings by their form. Markdown is
CommonMark with tables, footnotes and front matter, by way of HTML, which it may contain. Each sentence gets its
headings and its context.

Bytes are decoded, and their format is recognized. Characters that nobody sees are reported: they can turn the order of
words, or carry text for machines alone.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from guardagent.errors import ContentError, InputError, UnknownNameError
from guardagent.policy.documents.html import walk
from guardagent.policy.documents.sentences import Block, Blocks, DocumentFinding, Sentence, collapsed, identity, split

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


# --- plain text

_SIGNS = "-*+•‣◦▪●○·–—"  # noqa: RUF001 - bullets
_BULLET = re.compile(
    rf"(\s*)(?:[{_SIGNS}]\s+(?=\S)|(?=[(\[]?(?:\d{{1,3}}(?:\.\d{{1,3}})*|[A-Za-z]|[ivx]{{1,5}})[.)\]]+\s+\S))"
)
_UNDERLINE = re.compile(r"\s*([=\-~^])\1{2,}\s*")
_NUMBERED = re.compile(r"\s*(\d{1,3}(?:\.\d{1,3})*)\.?\s+\S")
_LONGEST_HEADING = 80
_NARROW = 60  # characters: the width of a text of short lines
_SMALL_WORDS = frozenset("a an and as at by for from in into of on or the to vs with".split())


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a document; `level` is that of a heading that the format marks, else 0."""

    text: str
    place: str
    level: int = 0


def read_plain_text(text: str) -> Blocks:
    """Reads a text."""
    lines = [Line(line, f"line {number}") for number, line in enumerate(text.split("\n"), start=1)]
    return Blocks(list(blocks_of(lines)))


def blocks_of(lines: Iterable[Line]) -> Iterator[Block]:
    """Yields the blocks of lines."""
    reader = _LineReading()
    for part in _parts(lines):
        yield from reader.read(part)


def _parts(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Yields lines without a blank one in between; a line that the format marks as a heading stands alone."""
    part: list[Line] = []
    for line in lines:
        apart = line.level or (part and part[-1].level)
        if part and (apart or not line.text.strip()):
            yield part
            part = []
        if line.text.strip():
            part.append(line)
    if part:
        yield part


class _LineReading:
    """Holds the indentations of the list that goes on."""

    def __init__(self) -> None:
        self._indents: list[int] = []

    def read(self, part: list[Line]) -> Iterator[Block]:
        underlined = _UNDERLINE.fullmatch(part[1].text) if len(part) > 1 else None
        if underlined:
            self._indents = []
            yield _heading(part[0], 1 if underlined[1] == "=" else 2)
            part = part[2:]
        elif len(part) == 1 and (level := part[0].level or _heading_level(part[0].text)):
            self._indents = []
            yield _heading(part[0], level)
            return
        for group in _groups(part):
            yield self._block(group)

    def _block(self, lines: list[Line]) -> Block:
        bullet = _BULLET.match(lines[0].text)
        indent = len(lines[0].text) - len(lines[0].text.lstrip())
        if bullet:
            self._indents = [*(level for level in self._indents if level < indent), indent]
        else:
            self._indents = [level for level in self._indents if level < indent]
        texts = [line.text.strip() for line in lines]
        texts[0] = lines[0].text[bullet.end() :].strip() if bullet else texts[0]
        depth = len(self._indents)
        return Block(collapsed(_joined(texts)), "item" if depth else "sentence", lines[0].place, depth)


def _groups(part: list[Line]) -> Iterator[list[Line]]:
    """Yields the items and paragraphs of lines; a line without a bullet goes on with the one before."""
    group: list[Line] = []
    for line in part:
        starts_item = _BULLET.match(line.text) and not (group and _goes_on(group[-1].text, line.text))
        if group and (starts_item or _leaves_list(group[0].text, line.text)):
            yield group
            group = []
        group.append(line)
    if group:
        yield group


def _goes_on(before: str, line: str) -> bool:
    """Whether a line only seems to begin with a number: 'within' and, on the next line, '24. It'."""
    begins_with_bullet = line.lstrip()[:1] in _SIGNS
    return not begins_with_bullet and not _BULLET.match(before) and before.rstrip()[-1:] not in ".:;,!?"


def _leaves_list(item: str, line: str) -> bool:
    """Whether a line begins a new sentence to the left of the text of an item."""
    bullet = _BULLET.match(item)
    text = line.lstrip()
    return bullet is not None and len(line) - len(text) <= len(bullet[1]) and text[:1].isupper()


def _joined(texts: list[str]) -> str:
    """Joins lines: after one that is shorter than the others, the author broke the line."""
    width = max(_NARROW, *map(len, texts))
    parts = [text + ("\n" if len(text) < 0.6 * width else " ") for text in texts]
    return "".join(parts)


def _heading(line: Line, level: int) -> Block:
    return Block(collapsed(line.text), "heading", line.place, level=level)


def _heading_level(text: str) -> int:
    """The level of a line that stands alone, if it looks like a heading, else 0."""
    text = text.strip()
    words = re.findall(r"[^\W\d_][\w-]*", text)
    if len(text) > _LONGEST_HEADING or text[-1:] in ".!?:;," or not words or re.match(r"[-*+•(]", text):
        return 0
    if text.isupper():
        return 1
    if not all(word[0].isupper() or word.lower() in _SMALL_WORDS for word in words):
        return 0
    numbered = _NUMBERED.match(text)
    return 1 + len(numbered[1].split(".")) if numbered else 2


# --- Markdown

_NO_LIMIT = 100_000  # of nesting: beyond its limit the parser drops text


def read_markdown(text: str) -> Blocks:
    """Reads a Markdown document.

    Raises:
        InputError: its blocks are nested too deep.
    """
    parser, env = _parser(has_front_matter=text.startswith("---")), dict[str, Any]()
    try:
        tokens = parser.parse(text, env)
    except RecursionError:
        raise InputError("links, lists or quotes are nested too deep; expected a plain document") from None
    for token in tokens:
        _mark(token)
    read = walk(parser.renderer.render(tokens, parser.options, env), lambda _: "line 1")
    read.findings += _definitions(env)
    return read


def _parser(*, has_front_matter: bool) -> MarkdownIt:
    from markdown_it import MarkdownIt
    from mdit_py_plugins.footnote import footnote_plugin
    from mdit_py_plugins.front_matter import front_matter_plugin

    parser = MarkdownIt("commonmark", {"maxNesting": _NO_LIMIT}).enable(["table", "strikethrough"])
    footnote_plugin(parser, inline=False, move_to_end=False)
    if has_front_matter:  # the plugin also takes a list item such as '- a--' for it
        front_matter_plugin(parser)
    return parser


def _mark(token: Token) -> None:
    """Keeps the line of a block, and what the renderer would leave out."""
    if token.map and token.type != "html_block":
        token.attrSet("data-line", str(token.map[0] + 1))
    if token.type == "front_matter":
        token.type = "code_block"
    elif token.type in ("footnote_reference_open", "footnote_reference_close"):
        token.tag = "aside"
        if token.nesting == 1:
            token.attrSet("data-footnote", str(token.meta["label"]))
    for child in token.children or ():
        if child.type == "footnote_ref":
            child.type, child.content = "text", f"[{child.meta['label']}]"


def _definitions(env: dict[str, Any]) -> list[DocumentFinding]:
    """Reports the titles of link definitions, which some authors use for comments."""
    definitions = [*env.get("references", {}).values(), *env.get("duplicate_refs", ())]
    return [
        DocumentFinding(
            "hidden", "the title of a link definition is not shown", f"line {definition['map'][0] + 1}", title
        )
        for definition in definitions
        if (title := definition["title"])
    ]


# --- numbered sentences

_SPLIT = ("sentence", "item", "footnote")  # kinds of running text
_INTRODUCES = re.compile(r"(?:[:,;\w)\]–—-]|\b(?:following|below)\b.*)$")  # noqa: RUF001 - dashes
_LABEL = re.compile(r"[^.:;!?\n]{1,60}:(?=\s)")
_REFERS_BACK = re.compile(
    r"(?:otherwise|however|therefore|then|this|these|those|it|they|such|both|neither|the same|except|if (?:so|not)|"
    r"in (?:that|this|these|those|such|both|either|all other|the other) cases?|else|the latter|the former|also)\b",
    re.IGNORECASE,
)
_NOTE = re.compile("[⁰¹²³⁴-⁹]+")
_LONGEST = 2000


def number(blocks: Sequence[Block]) -> tuple[Sentence, ...]:
    """Returns the sentences of blocks, in order."""
    outline = _Outline(_title_level(blocks))
    for block in blocks:
        outline.add(block)
    return tuple(outline.sentences)


def long_sentences(sentences: Iterable[Sentence]) -> list[DocumentFinding]:
    """Reports sentences that are probably several."""
    return [
        DocumentFinding(
            "long",
            f"sentence {sentence.number} has {len(sentence.text):,} characters; "
            "expected sentences that end with a full stop",
            sentence.place,
        )
        for sentence in sentences
        if len(sentence.text) > _LONGEST and sentence.kind not in ("code", "quote")
    ]


def _title_level(blocks: Sequence[Block]) -> int:
    """The level of the document's title: the one heading of its level, before all other text. 0 if there is none."""
    first = next(iter(blocks), None)
    if first is None or first.kind != "heading" or sum(block.level == first.level for block in blocks) > 1:
        return 0
    return first.level


class _Outline:
    def __init__(self, title_level: int) -> None:
        self.sentences: list[Sentence] = []
        self._title_level = title_level
        self._headings: list[tuple[int, str]] = []
        self._last: dict[int, str] = {}  # depth -> the last sentence there
        self._previous: Block | None = None
        self._is_over_list = False

    def add(self, block: Block) -> None:
        self._close_list(block)
        if block.kind == "heading":
            self._headings = [heading for heading in self._headings if heading[0] < block.level]
            self._last = {}
        around = self._introductions(block) + self._block_context(block)
        texts = split(block.text) if block.kind in _SPLIT else [block.text]
        label = _LABEL.match(block.text) if len(texts) > 1 else None
        for place, text in enumerate(texts):
            labels = (label[0],) if label and place and not _LABEL.match(text) else ()
            self._append(block, text, around + labels + self._reference(text))
        if block.kind == "heading":
            self._headings.append((block.level, block.text))
        elif texts:
            self._last = {depth: text for depth, text in self._last.items() if depth < block.depth}
            self._last[block.depth] = texts[-1]
        self._previous = block

    def _close_list(self, block: Block) -> None:
        """Ends a heading such as 'Before a refill:' with the list that follows on it."""
        if self._previous is not None and self._previous.kind == "heading":
            self._is_over_list = block.depth > 0 and self._previous.text.endswith(":")
        elif self._is_over_list and not block.depth:
            self._is_over_list = False
            self._headings.pop()

    def _append(self, block: Block, text: str, context: tuple[str, ...]) -> None:
        path = tuple(text for _, text in self._headings)
        known = tuple(text for level, text in self._headings if level != self._title_level)
        name = identity(text, block.kind, known, context)
        self.sentences.append(Sentence(len(self.sentences) + 1, text, block.kind, path, context, block.place, name))

    def _introductions(self, block: Block) -> tuple[str, ...]:
        if self._is_apart(block):
            return ()
        introductions = [(depth, text) for depth, text in self._last.items() if depth < block.depth]
        return tuple(text for depth, text in introductions if depth or _INTRODUCES.search(text))

    def _reference(self, text: str) -> tuple[str, ...]:
        """The sentence with the raised mark of a note, or the one before, if this one means nothing without it."""
        if mark := _NOTE.match(text):
            marked = re.compile(rf"(?:[^\W\d]{{3}}|[^\w\s]){mark[0]}(?!{_NOTE.pattern})").search  # no unit, no power
            return tuple(sentence.text for sentence in self.sentences if marked(sentence.text))[:1]
        before = self.sentences[-1] if self.sentences else None
        return (before.text,) if before and before.kind in _SPLIT and _REFERS_BACK.match(text) else ()

    def _is_apart(self, block: Block) -> bool:
        """Whether code, a quote or a table follows on something else than the text that would introduce it."""
        if block.kind not in ("code", "quote", "header", "row") or self._previous is None:
            return False
        return self._previous.depth >= block.depth and self._previous.kind not in ("header", "row")

    def _block_context(self, block: Block) -> tuple[str, ...]:
        if block.kind != "footnote" or not block.context:
            return block.context
        mark = block.context[0]
        return (next((sentence.text for sentence in self.sentences if mark in sentence.text), mark),)


# --- bytes and formats

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
        ContentError: it is empty, or binary, or its bytes are not text in the encoding that it names, else of UTF-8.
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
    match = _CHARSET.search(data[:2048])
    if match is None:
        return "utf-8"
    try:
        name = codecs.lookup(match[1].decode()).name
    except LookupError:
        return "utf-8"
    return "cp1252" if name in ("iso8859-1", "ascii") else name if name in _CHARSETS else "utf-8"


# --- invisible characters

_KINDS = {
    "characters that change the direction of the text, so that it reads differently than it is": (
        "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    ),
    "characters without width": (
        "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200d\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0"
    ),
    "characters that carry hidden text": "\ufe00-\ufe0e\U000e0000-\U000e0fff",
    "control characters": "\x00-\x08\x0b-\x1f\x7f-\x9f",
}
_NAMED = 5


def invisible_characters(sentences: Iterable[Sentence]) -> list[DocumentFinding]:
    """Reports the invisible characters of sentences, one finding for each kind. They remain in the text."""
    known = list(sentences)
    findings = [_finding(kind, f"[{signs}]", known) for kind, signs in _KINDS.items()]
    return [finding for finding in findings if finding is not None]


def _finding(kind: str, pattern: str, sentences: list[Sentence]) -> DocumentFinding | None:
    search = re.compile(pattern).search
    having = [sentence for sentence in sentences if search(sentence.text)]
    if not having:
        return None
    numbers = ", ".join(str(sentence.number) for sentence in having[:_NAMED]) + (", …" if len(having) > _NAMED else "")
    names = sorted({_name(sign) for sentence in having for sign in re.findall(pattern, sentence.text)})
    listed = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    message = f"{kind}: {listed}, in sentence {numbers}"
    return DocumentFinding("characters", message, having[0].place, having[0].text)


def _name(sign: str) -> str:
    return f"U+{ord(sign):04X} {unicodedata.name(sign, '')}".strip()
