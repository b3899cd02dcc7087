"""Numbers the sentences of blocks, and gives each its headings and its context."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from guardagent.policy.documents.sentences import Block, DocumentFinding, Sentence, identity
from guardagent.policy.documents.splitting import split

_SPLIT = ("sentence", "item", "footnote")  # kinds of running text
_INTRODUCES = re.compile(r"(?:[:,;\w)\]–—-]|\b(?:following|below)\b.*)$")  # noqa: RUF001 - dashes
_LABEL = re.compile(r"[^.:;!?\n]{1,60}:(?=\s)")
_REFERS_BACK = re.compile(
    r"(?:otherwise|however|therefore|then|this|these|those|it|they|such|both|neither|the same|except|if (?:so|not)|"
    r"in (?:that|this|these|those|such|both|either|all other|the other) cases?|else|the latter|the former|also)\b",
    re.IGNORECASE,
)
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
            f"sentence {one.number} has {len(one.text):,} characters; expected sentences that end with a full stop",
            one.place,
        )
        for one in sentences
        if len(one.text) > _LONGEST and one.kind not in ("code", "quote")
    ]


def _title_level(blocks: Sequence[Block]) -> int:
    """The level of the document's title: the one heading of its level, before all other text. 0 if there is none."""
    first = next(iter(blocks), None)
    if first is None or first.kind != "heading" or sum(one.level == first.level for one in blocks) > 1:
        return 0
    return first.level


class _Outline:
    def __init__(self, title_level: int) -> None:
        self.sentences: list[Sentence] = []
        self._title_level = title_level
        self._headings: list[tuple[int, str]] = []
        self._last: dict[int, str] = {}  # depth -> the last sentence there
        self._previous: Block | None = None

    def add(self, block: Block) -> None:
        if block.kind == "heading":
            self._headings = [one for one in self._headings if one[0] < block.level]
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

    def _append(self, block: Block, text: str, context: tuple[str, ...]) -> None:
        path = tuple(text for _, text in self._headings)
        known = tuple(text for level, text in self._headings if level != self._title_level)
        name = identity(text, block.kind, known, context)
        self.sentences.append(Sentence(len(self.sentences) + 1, text, block.kind, path, context, block.place, name))

    def _introductions(self, block: Block) -> tuple[str, ...]:
        if self._is_apart(block):
            return ()
        found = [(depth, text) for depth, text in self._last.items() if depth < block.depth]
        return tuple(text for depth, text in found if depth or _INTRODUCES.search(text))

    def _reference(self, text: str) -> tuple[str, ...]:
        """The sentence before, if this one means nothing without it."""
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
        return (next((one.text for one in self.sentences if mark in one.text), mark),)
