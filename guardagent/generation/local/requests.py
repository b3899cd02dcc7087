"""A tokenizer's tokens as bytes, and matchers of grammars over them."""

from __future__ import annotations

import json
import re
import weakref
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from guardagent.errors import InputError
from guardagent.generation.local.formats import Format
from guardagent.generation.local.formats.models import find_format
from guardagent.generation.local.thinking import ThinkingMarks, thinking_marks
from guardagent.generation.local.tool_schemas import ClosedSchema

_MARK = re.compile(r"(<[|\uff5c][^<>]*[|\uff5c]>)")
_MAX_GRAMMARS = 64  # compiled grammars in the cache
_CACHE: weakref.WeakKeyDictionary[Any, dict[tuple[Any, ...], Vocabulary]] = weakref.WeakKeyDictionary()


class Vocabulary:
    """The tokens of one tokenizer.

    Args:
        tokenizer: a fast tokenizer of transformers.
        ends: the tokens that end a turn.
    """

    _ENDS = frozenset(b'",}])>')

    def __init__(self, tokenizer: Any, ends: Sequence[int]) -> None:
        self._template = _template(tokenizer)  # keeps no reference to the tokenizer, which is the weak key of the cache
        self._guide = _guide(tokenizer, ends)
        self._bytes: dict[int, bytes] = {}
        self._matchers: dict[tuple[Any, ...], Any] = {}
        self.tokens: dict[str, int] = tokenizer.get_vocab()
        self.added: dict[str, int] = tokenizer.get_added_vocab()  # those that no merge of others gives
        self.special = frozenset(tokenizer.all_special_ids)
        self.size = len(tokenizer)

    def bytes_of(self, token: int) -> bytes:
        """The bytes that a token adds to the text; for a special token, its name."""
        found = self._bytes.get(token)
        if found is None:
            found = self._guide.decode_bytes([token]) if token < self.size else b""
            self._bytes[token] = found
        return found

    @cached_property
    def is_ending(self) -> Any:
        """For each token, whether it can complete a name, a value or a call."""
        return np.array([not self._ENDS.isdisjoint(self.bytes_of(token)) for token in range(self.size)], dtype=bool)

    def format(self, name: str) -> Format:
        """Finds a format by name; `auto` detects it from the tokenizer's chat template."""
        return find_format(name, self._template, self.tokens)

    @cached_property
    def thinking(self) -> tuple[ThinkingMarks, ...]:
        """The marks of thinking blocks, from the chat template and the tokens."""
        return thinking_marks(self._template, self.tokens)

    def literal(self, text: str) -> str:
        """A string as a literal of a grammar: as bytes, or as the special token of that name if there is one."""
        token = self.tokens.get(text)
        special = f" | <[{token}]>" if token is not None and self._guide.is_special_token(token) else ""
        return f"({json.dumps(text, ensure_ascii=False)}{special})"

    def literals(self, text: str) -> str:
        """As `literal`, for a string with several marks."""
        return " ".join(self.literal(piece) for piece in _MARK.split(text) if piece)

    def matcher(self, tool_format: Format, tools: Sequence[ClosedSchema], before: bytes | str) -> Any:
        """A matcher that constrains tokens to a block of calls.

        Args:
            tool_format: the format of calls.
            tools: the tools that may be called.
            before: the text before the block: the required opening (a string), or the bytes of the token in which the
                block opens (a matcher consumes whole tokens).

        Raises:
            InputError: the grammar library does not support one of the schemas.
        """
        key = (tool_format, before, *((tool.name, tool.schema_text) for tool in tools))
        if (found := self._matchers.get(key)) is None:
            while len(self._matchers) >= _MAX_GRAMMARS:
                del self._matchers[next(iter(self._matchers))]
            head = self.literals(before) if isinstance(before, str) and before else _literal_bytes(before)
            text = f"start: {head} block\n{tool_format.grammar(tools, self.tokens, self.literal)}"
            found = self._matchers[key] = self._compiled(text)
        return found.deep_copy()

    def _compiled(self, text: str) -> Any:
        from llguidance import LLMatcher

        if problem := LLMatcher.validate_grammar(text, self._guide):
            raise InputError(f"no grammar can be built from the tools' schemas: {problem}")
        return LLMatcher(self._guide, text, log_level=0)


def vocabulary_of(tokenizer: Any, ends: Sequence[int]) -> Vocabulary:
    """The vocabulary of a tokenizer; cached."""
    read = _CACHE.setdefault(tokenizer, {})
    key = (len(tokenizer), *ends)
    if key not in read:
        read[key] = Vocabulary(tokenizer, ends)
    return read[key]


def _guide(tokenizer: Any, ends: Sequence[int]) -> Any:
    from llguidance.hf import from_tokenizer

    return from_tokenizer(tokenizer, eos_token=list(ends))


def _template(tokenizer: Any) -> str:
    template = getattr(tokenizer, "chat_template", None)
    return template if isinstance(template, str) else json.dumps(template)


def _literal_bytes(before: bytes | str) -> str:
    text = before if isinstance(before, str) else before.decode()
    return json.dumps(text, ensure_ascii=False) if text else ""
