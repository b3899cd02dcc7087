"""Redaction: values that match a pattern are replaced before a text leaves for a model.

A value becomes a placeholder such as `[patient 1 3f9c2d10]`, the same one wherever the value stands in the run. The
model, and the code that it writes, see the redacted run; in the verdict the values stand again.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from guardagent._support.patterns import PatternError, compile_pattern
from guardagent.errors import InputError
from guardagent.types import thaw

_UNREDACTED_FACTS = ("now",)  # the clock of a check is no value of the run


class Redactor:
    """The patterns of an operator.

    Args:
        patterns: regular expressions (RE2 syntax: linear time), or name -> regular expression.

    Raises:
        InputError: one of them is none.
    """

    def __init__(self, patterns: Mapping[str, str] | Sequence[str] | str = ()) -> None:
        if isinstance(patterns, str):
            patterns = (patterns,)
        named = (
            patterns if isinstance(patterns, Mapping) else {"redacted": "|".join(f"(?:{text})" for text in patterns)}
        )
        for text in patterns.values() if isinstance(patterns, Mapping) else patterns:
            _compiled(text)
        self._patterns = [(name, _compiled(text)) for name, text in named.items()] if patterns else []

    def redaction(self) -> Redaction:
        """A redaction of one run, with placeholders of its own."""
        return Redaction(self._patterns)


class Redaction:
    """What was replaced in one run."""

    def __init__(self, patterns: Sequence[tuple[str, Any]]) -> None:
        self._patterns = patterns
        self._nonce = secrets.token_hex(4)
        self._placeholders: dict[str, str] = {}
        self._values: dict[str, str] = {}

    @property
    def nonce(self) -> str:
        """What all placeholders of this run have in common; empty where nothing is redacted."""
        return self._nonce if self._patterns else ""

    def redact(self, value: Any) -> Any:
        """A JSON value with the placeholders in its texts."""
        if not self._patterns:
            return value
        if isinstance(value, str):
            return self._redact_text(value)
        if isinstance(value, Mapping):
            return {key: item if key in _UNREDACTED_FACTS else self.redact(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.redact(item) for item in value]
        return value

    def restore(self, value: Any) -> Any:
        """A JSON value with the values where their placeholders stood, also in keys."""
        if not self._values:
            return value
        if isinstance(value, str):
            for placeholder, text in self._values.items():
                value = value.replace(placeholder, text)
            return value
        if isinstance(value, Mapping):
            return {self.restore(key): self.restore(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.restore(item) for item in thaw(value)]
        return value

    def _redact_text(self, text: str) -> str:
        found = sorted(
            (match.start(), -match.end(), name)
            for name, pattern in self._patterns
            for match in pattern.finditer(text)
            if match.end() > match.start()
        )
        parts, at = [], 0
        for start, minus_end, name in found:
            if start >= at:  # else it lies in one that was replaced
                parts += [text[at:start], self._placeholder(name, text[start:-minus_end])]
                at = -minus_end
        return "".join([*parts, text[at:]])

    def _placeholder(self, name: str, value: str) -> str:
        if value not in self._placeholders:
            placeholder = f"[{name} {len(self._placeholders) + 1} {self._nonce}]"
            self._placeholders[value], self._values[placeholder] = placeholder, value
        return self._placeholders[value]


def _compiled(pattern: object) -> Any:
    try:
        return compile_pattern(pattern)
    except PatternError as error:
        raise InputError(f"redaction pattern {pattern!r} is no regular expression (RE2 syntax): {error}") from None
