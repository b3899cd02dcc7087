"""The tokens of one turn: free text, and blocks of calls that are constrained by a grammar."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Literal

from guardagent.errors import GuardError
from guardagent.generation.local.formats import BlockReader, Format, PartialCall
from guardagent.generation.local.json_scanner import MalformedCall
from guardagent.generation.local.tool_schemas import ClosedSchema
from guardagent.generation.local.vocabulary import Vocabulary

ToolChoice = Literal["auto", "required", "none"]


class InvalidToken(Exception):  # noqa: N818 - used for control flow
    """A token that is not allowed here; it was not added."""


@dataclass(slots=True)
class CallBlock:
    """A block of calls that is being generated.

    Attributes:
        start: the token in which the block opens.
        first: the first token that the grammar matches.
        matcher: the matcher of the grammar.
        is_forced: whether a call was required, so that the opening is part of the grammar.
        readers: the parser states before and after each of these tokens; None within the opening.
    """

    start: int
    first: int
    matcher: Any
    is_forced: bool = False
    readers: list[BlockReader | None] = field(default_factory=lambda: [None])

    @property
    def is_closed(self) -> bool:
        reader = self.readers[-1]
        return reader is not None and reader.is_closed


class TurnBuffer:
    """One turn of a model.

    Args:
        vocabulary: the vocabulary of its tokenizer.
        tool_format: the format of its calls.
        tools: the tools that it may call.
        choice: whether it may call (`auto`), must begin with a call (`required`), or must not call (`none`).

    Attributes:
        tokens: the tokens so far.
        root: the token at which the current call begins, or the next one would begin.
    """

    def __init__(
        self, vocabulary: Vocabulary, tool_format: Format, tools: Sequence[ClosedSchema], choice: ToolChoice = "auto"
    ) -> None:
        self.tokens: list[int] = []
        self.root = 0
        self._vocabulary, self._format, self._tools, self._choice = vocabulary, tool_format, tools, choice
        self._text = bytearray()
        self._ends: list[int] = []
        self._free = 0  # the start of the free text in which a block may open
        self._blocks: list[tuple[int, int]] = []  # the offsets of closed blocks in the text
        self._opened = 0  # the offset of the open block
        self._first: int | None = 0 if choice == "required" else None  # the token in which the first block opens
        self.block: CallBlock | None = None
        if choice == "required":
            self.block = CallBlock(0, 0, vocabulary.matcher(tool_format, tools, tool_format.forced), is_forced=True)

    # --- writing

    def push(self, token: int) -> list[PartialCall]:
        """Adds a token and returns the names, arguments and calls that it completes.

        Raises:
            InvalidToken: the token opens a block but does not continue it with a call, or calls are forbidden.
            MalformedCall: the call cannot be judged. The token was added.
        """
        if self.block is not None and self.block.is_closed:
            self._close_block(len(self._text))
        before = len(self._text)
        self.tokens.append(token)
        self._text += self._vocabulary.bytes_of(token)
        self._ends.append(len(self._text))
        if self.block is None:
            return self._find_block(before)
        if not self.block.matcher.consume_token(token):
            raise GuardError(f"token {token} was generated although the grammar does not allow it")
        return self._push_to_block(self.block, before)

    def _close_block(self, end: int) -> None:
        self.block = None
        self._blocks.append((self._opened, end))
        self._free = end

    def _find_block(self, before: int) -> list[PartialCall]:
        """Looks for the opening of a block in free text."""
        found = self._opening(before)
        if found is None:
            return []
        begins, behind = found
        place = len(self.tokens) - 1
        if self._choice == "none" or (block := self._open_block(begins, behind, before)) is None:
            self.cut(place)
            raise InvalidToken
        self.block, self.root, self._opened = block, block.start, begins
        self._first = block.start if self._first is None else self._first
        if behind == len(self._text):
            return []
        block.readers.append(None)
        return self._resume(block, self._format.reader(), behind)

    def _opening(self, before: int) -> tuple[int, int] | None:
        return self._format.opening(self._text, max(self._free, before - self._format.longest + 1))

    def _open_block(self, begins: int, behind: int, before: int) -> CallBlock | None:
        """The block that the last token opens; None if the rest of that token does not begin a call."""
        start, last = bisect_right(self._ends, begins), len(self.tokens) - 1
        if behind == len(self._text):
            block = CallBlock(start, last + 1, self._vocabulary.matcher(self._format, self._tools, b""))
            block.readers[0] = self._format.reader()
            return block
        try:
            matcher = self._vocabulary.matcher(self._format, self._tools, bytes(self._text[before:behind]))
        except UnicodeDecodeError:  # the token begins within a character
            return None
        fits = matcher.try_consume_tokens([self.tokens[last]]) == 1
        return CallBlock(start, last, matcher) if fits else None

    def _push_to_block(self, block: CallBlock, before: int) -> list[PartialCall]:
        reader = block.readers[-1]
        block.readers.append(None if reader is None else reader.copy())
        if reader is not None:
            return self._resume(block, block.readers[-1], before)
        found = self._opening(before)  # within the opening of a required block
        if found is None:
            return []
        self._opened = found[0]
        return self._resume(block, self._format.reader(), found[1])

    def _resume(self, block: CallBlock, reader: BlockReader | None, start: int) -> list[PartialCall]:
        assert reader is not None
        block.readers[-1] = reader
        return reader.read(self._text, start)

    def accept(self) -> None:
        """Marks the complete call as accepted; the next call begins with the next token."""
        self.root = len(self.tokens)

    def cut(self, length: int) -> None:
        """Truncates the turn to a number of tokens. Accepted calls cannot be removed."""
        block, there = self.block, len(self.tokens)
        del self.tokens[length:], self._ends[length:]
        del self._text[self._ends[-1] if self._ends else 0 :]
        if block is None:
            return
        if not block.is_forced and (length < block.first or block.readers[length - block.first] is None):
            self.block = None
        elif length < there:
            block.matcher.rollback(there - length)
            del block.readers[length - block.first + 1 :]

    def drop_calls(self) -> None:
        """Drops all tokens from the first block on; no token can be added afterwards."""
        if self._first is not None:
            del self.tokens[self._first :]

    # --- asking

    @property
    def is_calling(self) -> bool:
        """Whether a call has begun and is not complete."""
        return self.block is not None and not self.block.is_closed and len(self.tokens) > self.root

    def allowed(self) -> bytes | None:
        """The bitmask of tokens that the grammar allows next; None if it allows all."""
        if self.block is None or self.block.is_closed:
            return None
        return self.block.matcher.compute_bitmask()  # type: ignore[no-any-return]

    def token_at(self, place: int) -> int:
        """The token at an offset of the text."""
        return bisect_right(self._ends, place)

    def completed_by(self, token: int) -> list[PartialCall]:
        """The names, arguments and calls that a token and its forced successors would complete.

        Raises:
            MalformedCall: the call could not be judged.
        """
        block = self.block
        reader = block.readers[-1] if block is not None else None
        if block is None or reader is None or not block.matcher.consume_token(token):
            return []
        before = len(self._text)
        self._text += self._vocabulary.bytes_of(token) + block.matcher.compute_ff_bytes()
        block.matcher.rollback(1)
        try:
            return reader.copy().read(self._text, before)
        finally:
            del self._text[before:]

    def free_text(self) -> str:
        """The text outside of blocks, without special tokens."""
        kept = bytearray(b"\1") * len(self._text)
        start = 0
        for token, end in zip(self.tokens, self._ends, strict=True):
            if token in self._vocabulary.special:
                kept[start:end] = bytes(end - start)
            start = end
        for begins, end in [*self._blocks, *([(self._opened, start)] if self.block is not None else [])]:
            kept[begins:end] = bytes(end - begins)
        return bytes(compress(self._text, kept)).decode(errors="replace")


__all__ = ["CallBlock", "InvalidToken", "MalformedCall", "PartialCall", "ToolChoice", "TurnBuffer"]
