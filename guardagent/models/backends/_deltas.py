"""Assembles streamed answers. Nothing is passed on before an answer is complete."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from guardagent.models.chat import ChatCandidate, WrittenCall, checked_candidate


@dataclass
class _PartialCall:
    id: str = ""
    problem: str = ""
    name: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)

    def add(self, delta: Any) -> int:
        call_id = getattr(delta, "id", None)
        if self.id and call_id and call_id != self.id:
            self.problem = "its fragments have the ids of two calls"
        self.id = self.id or (call_id if isinstance(call_id, str) else "")
        if getattr(delta, "type", "function") not in ("function", None):
            self.problem = "it is not a function call"
        return self.add_function(getattr(delta, "function", None))

    def add_function(self, function: Any) -> int:
        """Adds a fragment and returns its number of characters."""
        name, arguments = getattr(function, "name", None), getattr(function, "arguments", None)
        if not isinstance(name, str | None) or not isinstance(arguments, str | None):
            self.problem = "its name or its arguments are not strings"
            return 0
        self.name.append(name or "")
        self.arguments.append(arguments or "")
        return len(name or "") + len(arguments or "")

    def assemble(self) -> WrittenCall:
        return WrittenCall("".join(self.name), "".join(self.arguments), self.id, self.problem)


@dataclass
class _PartialChoice:
    strings: list[str] = field(default_factory=list)
    calls: dict[int, _PartialCall] = field(default_factory=dict)
    legacy_call: _PartialCall | None = None  # the format before `tool_calls`
    finish_reason: str | None = None

    def add(self, choice: Any) -> int:
        self.finish_reason = getattr(choice, "finish_reason", None) or self.finish_reason
        delta = getattr(choice, "delta", None)
        text = getattr(delta, "content", None) or getattr(delta, "refusal", None)
        self.strings += [text] if isinstance(text, str) else []
        size = len(self.strings[-1]) if isinstance(text, str) else 0
        for one in getattr(delta, "tool_calls", None) or ():
            size += self.calls.setdefault(_index(one), _PartialCall()).add(one)
        if function := getattr(delta, "function_call", None):
            self.legacy_call = self.legacy_call or _PartialCall()
            size += self.legacy_call.add_function(function)
        return size

    def assemble(self, longest: int) -> ChatCandidate:
        calls = [call.assemble() for _, call in sorted(self.calls.items())]
        calls += [self.legacy_call.assemble()] if self.legacy_call else []
        return checked_candidate("".join(self.strings), calls, self.finish_reason, longest)


class Deltas:
    """The answers so far.

    Attributes:
        size: the number of characters received.
    """

    def __init__(self) -> None:
        self.size = 0
        self._choices: dict[int, _PartialChoice] = {}

    def add(self, chunk: Any) -> None:
        """Adds one chunk of the stream."""
        for choice in getattr(chunk, "choices", None) or ():
            self.size += self._choices.setdefault(_index(choice), _PartialChoice()).add(choice)

    @property
    def ended(self) -> bool:
        """Whether every answer has a finish reason."""
        return bool(self._choices) and all(choice.finish_reason for choice in self._choices.values())

    def assemble(self, longest: int) -> tuple[ChatCandidate, ...]:
        return tuple(choice.assemble(longest) for _, choice in sorted(self._choices.items()))


def _index(part: Any) -> int:
    """Returns the index of the answer or call. Fragments of several without an index merge, and make no valid call."""
    index = getattr(part, "index", 0)
    return index if isinstance(index, int) else 0
