"""Outputs that look like failures, by their beginnings: candidates for `failed_output`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_OPENING = re.compile(
    r"\W*(?:error|errno|fail|exception|traceback|cannot|could not|can't|unable|invalid|unknown|not found|no such|"
    r"denied|unauthori|forbidden|time(?:d )?\s?out|refused|rejected|bad request|[45]\d\d\b|\w+(?:error|exception)\b)",
    re.IGNORECASE,
)
_FIELDS = ("error", "errors", "isError", "exception")
_LONGEST_BEGINNING = 40


@dataclass(frozen=True, slots=True)
class FailedOutput:
    """A beginning of outputs that look like failures.

    Attributes:
        prefix: the beginning, up to its first colon or for some words.
        count: how many outputs begin so.
        others: how many calls with such an output the traces record as not failed.
        example: one output.
    """

    prefix: str
    count: int
    others: int
    example: str


class FailureCounts:
    """Collects failures."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._others: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def add(self, output: Any, status: str | None) -> None:
        """Adds the output of a call, without secrets, if it looks like a failure or the call failed."""
        text = _failure_text(output)
        if text is None and status == "failed" and output is not None:
            text = output if isinstance(output, str) else str(output)
        if not text:
            return
        prefix = _prefix(text)
        self._counts[prefix] += 1
        self._others[prefix] += status == "ok"
        self._examples.setdefault(prefix, text[:200])

    def outputs(self) -> tuple[FailedOutput, ...]:
        """The failures, the most frequent first."""
        return tuple(
            FailedOutput(prefix, count, self._others[prefix], self._examples[prefix])
            for prefix, count in self._counts.most_common()
        )


def _failure_text(output: Any) -> str | None:
    if isinstance(output, Mapping):
        name = next((name for name in _FIELDS if output.get(name)), None)
        return None if name is None else f'{{"{name}": {output[name]}'
    return output if isinstance(output, str) and _OPENING.match(output) else None


def _prefix(text: str) -> str:
    head, colon, _ = text[:_LONGEST_BEGINNING].partition(":")
    return head + colon if colon else " ".join(re.sub(r"\d+", "#", text[:_LONGEST_BEGINNING]).split()[:3])
