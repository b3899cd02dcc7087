"""The tokens of one turn: free text, and blocks of calls that are constrained by a grammar."""

from __future__ import annotations

from bisect import bisect_right
from codecs import getincrementaldecoder
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, Literal

from guardagent.errors import GuardError
from guardagent.generation.local.formats import BlockReader, Format, PartialCall
from guardagent.generation.local.formats.objects import MalformedCall
from guardagent.generation.local.tool_schemas import ClosedSchema
from guardagent.generation.local.vocabulary import ThinkingMarks, Vocabulary

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


@dataclass(frozen=True, slots=True)
class Thought:
    """A block of thinking, as offsets in the text.

    Attributes:
        start: the start of the opening mark.
        inside: the end of the opening mark.
        marks: the marks.
        end: the end of the closing mark; None while the block is open.
    """

    start: int
    inside: int
    marks: ThinkingMarks
    end: int | None = None


class TurnBuffer:
    """One turn of a model.

    Thinking is left alone: a mark of calls in it opens no block. It begins at a mark that is a token of its own, if the
    tokenizer has that token, and ends at the next closing mark, however that is written. It does not nest.

    Args:
        vocabulary: the vocabulary of its tokenizer.
        tool_format: the format of its calls.
        tools: the tools that it may call.
        choice: whether it may call (`auto`), must begin with a call (`required`), or must not call (`none`). After a
            prompt that opens thinking, a required call follows the thinking.
        prompt: the prompt, or its last characters. If it ends with the opening mark of thinking, the turn begins with
            thinking.

    Attributes:
        tokens: the tokens so far.
        root: the token at which the current call begins, or the next one would begin.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        tool_format: Format,
        tools: Sequence[ClosedSchema],
        choice: ToolChoice = "auto",
        prompt: str = "",
    ) -> None:
        self.tokens: list[int] = []
        self.root = 0
        self._vocabulary, self._format, self._tools, self._choice = vocabulary, tool_format, tools, choice
        self._text = bytearray()
        self._ends: list[int] = []
        self._blocks: list[tuple[int, int]] = []  # the offsets of closed blocks in the text
        self._thoughts = [
            Thought(0, 0, thinking_marks)
            for thinking_marks in vocabulary.thinking
            if thinking_marks.is_open_after(prompt)
        ][:1]
        self._opened = 0  # the offset of the open block
        self._settled, self._settled_at = bytearray(), 0  # the settled free text, and its end in the text
        self._first: int | None = None  # the token in which the first block opens
        self.block: CallBlock | None = None
        marks = [len(thinking_marks.opening.encode()) for thinking_marks in vocabulary.thinking]
        self._longest = max([tool_format.longest, *marks])
        if choice == "required" and not self._thoughts:
            self._force_block()

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
            self._find_thoughts(before)
            return [] if self._thought is not None or self.block is not None else self._find_block(before)
        if not self.block.matcher.consume_token(token):
            raise GuardError(f"token {token} was generated although the grammar does not allow it")
        return self._push_to_block(self.block, before)

    def _close_block(self, end: int) -> None:
        self.block = None
        self._blocks.append((self._opened, end))

    def _force_block(self) -> None:
        """Opens the block of a required call, with its opening in the grammar."""
        at = self.root = len(self.tokens)
        matcher = self._vocabulary.matcher(self._format, self._tools, self._format.forced)
        self.block, self._first, self._opened = CallBlock(at, at, matcher, is_forced=True), at, len(self._text)

    # --- thinking

    @property
    def _thought(self) -> Thought | None:
        """The open block of thinking."""
        return self._thoughts[-1] if self._thoughts and self._thoughts[-1].end is None else None

    @property
    def _free(self) -> int:
        """The start of the free text in which a block may open."""
        ends = [thought.end for thought in self._thoughts[-1:] if thought.end is not None]
        return max([0, *ends, *(end for _, end in self._blocks[-1:])])

    @property
    def _begin(self) -> int | None:
        """The start of the turn's free text; None after a block, or after free text before the thinking."""
        at = 0
        for thought in self._thoughts:
            if thought.end is None or self._text[at : thought.start].strip():
                break
            at = thought.end
        return None if self._blocks else at

    def _find_thoughts(self, before: int) -> None:
        """Opens and closes the blocks of thinking whose marks the last token completes.

        Raises:
            InvalidToken: a call must follow the thinking, and the token goes on with something else.
        """
        while True:
            if (thought := self._thought) is not None:
                mark = thought.marks.closing.encode()
                at = self._text.find(mark, max(thought.inside, before - len(mark) + 1))
                if at < 0:
                    return
                self._thoughts[-1] = replace(thought, end=at + len(mark))
                if self._choice == "required" and self._first is None:
                    self._require_call(at + len(mark))
                    return
            elif (opened := self._thought_opening(before)) is None:
                return
            else:
                self._thoughts.append(opened)

    def _thought_opening(self, before: int) -> Thought | None:
        """The next opening of thinking, if no block opens before it."""
        openings = [
            opening for marks in self._vocabulary.thinking if (opening := self._opening_of(marks, before)) is not None
        ]
        first = min(openings, key=lambda opening: opening.start, default=None)
        block = self._opening(before) if first is not None else None
        return None if block is not None and first is not None and block[0] <= first.start else first

    def _opening_of(self, marks: ThinkingMarks, before: int) -> Thought | None:
        mark, token = marks.opening.encode(), self._vocabulary.added.get(marks.token)
        at = self._text.find(mark, max(self._free, before - len(mark) + 1))
        while at >= 0 and token is not None and not self._is_at(token, at):
            at = self._text.find(mark, at + 1)
        return None if at < 0 else Thought(at, at + len(mark), marks)

    def _is_at(self, token: int, offset: int) -> bool:
        """Whether a token begins at an offset of the text."""
        at = self.token_at(offset)
        return self.tokens[at] == token and (self._ends[at - 1] if at else 0) == offset

    def _require_call(self, end: int) -> None:
        """Opens the block of a required call after the thinking."""
        if self._text[end:].strip():
            self.cut(len(self.tokens) - 1)
            raise InvalidToken
        self._force_block()

    # --- blocks

    def _find_block(self, before: int) -> list[PartialCall]:
        """Looks for the opening of a block in free text."""
        opening = self._opening(before)
        if opening is None:
            return []
        begins, behind = opening
        place = len(self.tokens) - 1
        if self._choice == "none" or (block := self._open_block(begins, behind, before)) is None:
            self.cut(place)
            raise InvalidToken
        self.block, self.root, self._opened = block, block.start, begins
        self._first = block.start if self._first is None else self._first
        if behind == len(self._text):
            return []
        block.readers.append(None)
        return self._resume(block, self._format.reader(self._tools), behind)

    def _opening(self, before: int) -> tuple[int, int] | None:
        since = max(self._free, before - self._format.longest + 1)
        return self._format.opening(self._text, since, self._begin)

    def _open_block(self, begins: int, behind: int, before: int) -> CallBlock | None:
        """The block that the last token opens; None if the rest of that token does not begin a call."""
        start, last = bisect_right(self._ends, begins), len(self.tokens) - 1
        if behind == len(self._text):
            block = CallBlock(start, last + 1, self._vocabulary.matcher(self._format, self._tools, b""))
            block.readers[0] = self._format.reader(self._tools)
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
        opening = self._opening(before)  # within the opening of a required block
        if opening is None:
            return []
        self._opened = opening[0]
        return self._resume(block, self._format.reader(self._tools), opening[1])

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
        self._cut_thoughts(len(self._text))
        if block is None:
            return
        if length < block.first or (not block.is_forced and block.readers[length - block.first] is None):
            self.block, self._first = None, None if block.is_forced else self._first
        elif length < there:
            block.matcher.rollback(there - length)
            del block.readers[length - block.first + 1 :]

    def _cut_thoughts(self, end: int) -> None:
        self._thoughts = [
            thought if thought.end is None or thought.end <= end else replace(thought, end=None)
            for thought in self._thoughts
            if thought.inside <= end
        ]

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
        """The text for a user: outside of blocks and thinking, without special tokens and headers of messages."""
        return self._free_bytes(0, len(self._text))[0].decode(errors="replace")

    def settled_text(self) -> str:
        """The part of the free text that cannot change any more, by further tokens or by backtracking.

        Each result is a prefix of the later ones and of the final `free_text`. It ends before a text that may still
        become a mark of a block or of thinking.
        """
        free, self._settled_at = self._free_bytes(self._settled_at, self._settled_end())
        self._settled += free
        return getincrementaldecoder("utf-8")(errors="replace").decode(bytes(self._settled))

    def thinking_text(self) -> str:
        """The text of the blocks of thinking, without marks and special tokens, separated by line breaks."""
        kept, blocks = self._kept_bytes(0), []
        for thought in self._thoughts:
            end = len(self._text) if thought.end is None else thought.end - len(thought.marks.closing.encode())
            inside = slice(thought.inside, end)
            blocks.append(bytes(compress(self._text[inside], kept[inside])).decode(errors="replace"))
        return "\n".join(blocks)

    def _settled_end(self) -> int:
        """The end of a token before which the text cannot change."""
        if self.block is not None:
            limit = self._opened
        elif (thought := self._thought) is not None:
            limit = thought.start
        else:
            limit = max(len(self._text) - self._longest + 1, 0)
        at = bisect_right(self._ends, limit)
        return self._ends[at - 1] if at else 0

    def _kept_bytes(self, since: int) -> bytearray:
        """For each byte of the text, whether it is in no special token, from the end of a token on."""
        kept, start = bytearray(b"\1") * len(self._text), since
        for at in range(bisect_right(self._ends, since), len(self.tokens)):
            end = self._ends[at]
            if self.tokens[at] in self._vocabulary.special:
                kept[start:end] = bytes(end - start)
            start = end
        return kept

    def _free_bytes(self, since: int, end: int) -> tuple[bytes, int]:
        """The free text from one end of a token to another, and its end, which is later if a header goes beyond it."""
        if end <= since:
            return b"", since
        kept, at = self._kept_bytes(since), since
        hidden = [*self._blocks, *((thought.start, thought.end or len(self._text)) for thought in self._thoughts)]
        if self.block is not None:
            hidden.append((self._opened, len(self._text)))
        for begins, ends in sorted([*hidden, (len(self._text), len(self._text))]):
            for begin_header, end_header in self._headers(at, begins):
                kept[begin_header:end_header] = bytes(end_header - begin_header)
                end = max(end, end_header) if begin_header < end else end
            kept[begins:ends] = bytes(ends - begins)
            at = max(at, ends)
        return bytes(compress(self._text[since:end], kept[since:end])), end

    def _headers(self, start: int, end: int) -> list[tuple[int, int]]:
        headers = self._format.headers
        return (
            []
            if headers is None or end <= start
            else [match.span() for match in headers.finditer(self._text, start, end)]
        )


__all__ = ["CallBlock", "InvalidToken", "MalformedCall", "PartialCall", "ToolChoice", "TurnBuffer"]
