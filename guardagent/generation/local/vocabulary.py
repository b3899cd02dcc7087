"""A tokenizer's side of a request: tokens as bytes, grammars over them, the prompt, and the marks around thinking."""

from __future__ import annotations

import json
import re
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from guardagent.errors import InputError
from guardagent.generation.local.formats import Format
from guardagent.generation.local.formats.models import find_format
from guardagent.generation.local.tool_schemas import ClosedSchema, definitions

_PROMPT_END = 32
_EXPECTED = "expected chat messages, a string, or a list of tokens"
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
        byte = self._bytes.get(token)
        if byte is None:
            byte = self._guide.decode_bytes([token]) if token < self.size else b""
            self._bytes[token] = byte
        return byte

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
        """A string with several marks as literals of a grammar, one after another."""
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
        if (matcher := self._matchers.get(key)) is None:
            while len(self._matchers) >= _MAX_GRAMMARS:
                del self._matchers[next(iter(self._matchers))]
            head = self.literals(before) if isinstance(before, str) and before else _literal_bytes(before)
            text = f"start: {head} block\n{tool_format.grammar(tools, self.tokens, self.literal)}"
            matcher = self._matchers[key] = self._compiled(text)
        return matcher.deep_copy()

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


# --- the prompt


def prompt_tokens(tokenizer: Any, messages: Any, tools: Iterable[Any]) -> list[int]:
    """The tokens of a prompt: chat messages, a string, or a list of tokens.

    Raises:
        InputError: the prompt is none of these, the tokenizer is not a fast tokenizer, or it has no chat template.
    """
    _check_tokenizer(tokenizer)
    if isinstance(messages, str):
        return list(tokenizer(messages)["input_ids"])
    if not isinstance(messages, Sequence):
        raise InputError(f"'messages' is a {type(messages).__name__}; {_EXPECTED}")
    if all(type(message) is int for message in messages):
        return list(messages)
    if not all(isinstance(message, Mapping) for message in messages):
        raise InputError(f"'messages' contains an item that is not a message; {_EXPECTED}")
    return _of_chat(tokenizer, messages, tools)


def _of_chat(tokenizer: Any, messages: Sequence[Any], tools: Iterable[Any]) -> list[int]:
    if not getattr(tokenizer, "chat_template", None):
        raise InputError("the tokenizer has no chat template; expected the prompt as a string or a list of tokens")
    text = tokenizer.apply_chat_template(
        list(messages), tools=definitions(tools) or None, add_generation_prompt=True, tokenize=False
    )
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def prompt_end(tokenizer: Any, prompt: Sequence[int]) -> str:
    """The last characters of a prompt, which may be the opening mark of thinking."""
    return str(tokenizer.decode(prompt[-_PROMPT_END:], skip_special_tokens=False))


def end_tokens(tokenizer: Any, defaults: Any) -> list[int]:
    """The tokens that end a turn, from the model's configuration or else the tokenizer.

    Raises:
        InputError: neither defines one, or the tokenizer is not a fast tokenizer.
    """
    _check_tokenizer(tokenizer)
    for token in (getattr(defaults, "eos_token_id", None), tokenizer.eos_token_id):
        if token is not None:
            return [int(token_id) for token_id in token] if isinstance(token, Iterable) else [int(token)]
    raise InputError("no token ends a turn; expected an 'eos_token_id' in the model's configuration or the tokenizer")


def _check_tokenizer(tokenizer: Any) -> None:
    from transformers import PreTrainedTokenizerFast

    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise InputError(f"'tokenizer' is a {type(tokenizer).__name__}; expected a fast tokenizer of transformers")


# --- thinking


@dataclass(frozen=True, slots=True)
class ThinkingMarks:
    """The marks of thinking blocks.

    Attributes:
        opening: the mark before the thinking.
        closing: the mark after it.
        token: the beginning of the opening that is a token of its own where the tokenizer has it.
    """

    opening: str
    closing: str
    token: str

    def is_open_after(self, prompt: str) -> bool:
        """Whether a prompt ends with the opening."""
        return prompt.rstrip().endswith(self.opening)


_THINKING_MARKS = (
    ThinkingMarks("<think>", "</think>", "<think>"),  # Qwen, DeepSeek, GLM, Kimi, MiniMax
    ThinkingMarks("[THINK]", "[/THINK]", "[THINK]"),  # Magistral
    ThinkingMarks("<|START_THINKING|>", "<|END_THINKING|>", "<|START_THINKING|>"),  # Command A
    ThinkingMarks("<|channel|>analysis<|message|>", "<|end|>", "<|channel|>"),  # gpt-oss
)


def thinking_marks(template: str, tokens: Collection[str]) -> tuple[ThinkingMarks, ...]:
    """Finds the marks that a chat template or a vocabulary has."""
    return tuple(marks for marks in _THINKING_MARKS if marks.token in template or marks.token in tokens)
