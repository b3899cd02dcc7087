"""The marks around a model's thinking."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


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


_KNOWN = (
    ThinkingMarks("<think>", "</think>", "<think>"),  # Qwen, DeepSeek, GLM, Kimi, MiniMax
    ThinkingMarks("[THINK]", "[/THINK]", "[THINK]"),  # Magistral
    ThinkingMarks("<|START_THINKING|>", "<|END_THINKING|>", "<|START_THINKING|>"),  # Command A
    ThinkingMarks("<|channel|>analysis<|message|>", "<|end|>", "<|channel|>"),  # gpt-oss
)


def thinking_marks(template: str, tokens: Collection[str]) -> tuple[ThinkingMarks, ...]:
    """Finds the marks that a chat template or a vocabulary has."""
    return tuple(marks for marks in _KNOWN if marks.token in template or marks.token in tokens)
