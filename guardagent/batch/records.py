"""Reads a case or a trace from a line of JSON. Every mistake is located, and says what was expected.

Keys that the formats do not name are ignored, and no rule ever sees them. A key that stands in for one of theirs
(`arguments` for `args`) is a mistake all the same: what it holds would be missed, and missing could read as allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from guardagent._support.files import parse_json
from guardagent.errors import ContentError
from guardagent.policy.evaluation.failures import is_failure
from guardagent.types import Event

_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}


class _Kind(NamedTuple):
    """What stands under a key, where it is not null, which is as if the key were not there."""

    type: type
    expected: str


_TOOL, _ARGS = _Kind(str, "the name of a tool"), _Kind(dict, "an object of arguments")
_OBJECT, _FACTS = _Kind(dict, "an object"), _Kind(dict, "an object of facts")
_TRUTH, _TEXT, _TEXTS = _Kind(bool, "true, false or null"), _Kind(str, "a text"), _Kind(list, "a list of texts")
_OBJECTS = _Kind(list, "a list of objects")

_PROPOSED = {"tool": _TOOL, "args": _ARGS}
_CALL = {**_PROPOSED, "failed": _TRUTH}
_STEP = {**_CALL, "action": _TEXT, "decision": _TEXT, "tags": _TEXTS, "facts": _FACTS, "state": _OBJECT}
_CASE = {
    "history": _OBJECTS,
    "proposed": _OBJECT,
    "state": _OBJECT,
    "context": _FACTS,
    "user_confirmed": _TRUTH,
    "label": _Kind(int, "0 or 1"),
    "rules": _Kind(list, "a list of the ids of policies"),
}
_TRACE = {"events": _OBJECTS, "state": _OBJECT, "facts": _FACTS}
_MEANT = {
    **dict.fromkeys(("arguments", "arg", "kwargs", "parameters", "params"), "args"),
    "actions": "action",
    "decisions": "decision",
    "tag": "tags",
}


@dataclass(frozen=True, slots=True)
class Case:
    """A call that an agent proposes, after what happened before it.

    Attributes:
        id: what the verdict is called by.
        history: what happened before, in its order.
        proposed: the call to judge.
        state: None where none is given, so that nothing is known of it.
        facts: `user_confirmed` and `context`.
        label, rules: what the verdict should be; None where the case does not say. No rule sees them.
    """

    id: str | int
    history: tuple[Event, ...]
    proposed: Event
    state: Mapping[str, Any] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    label: int | None = None
    rules: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """An event of a trace, with the state from then on and the facts that were new; None where they stay."""

    event: Event
    state: Mapping[str, Any] | None = None
    facts: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """All that happened in one conversation, from its beginning to its end."""

    id: str | int
    steps: tuple[Step, ...]
    state: Mapping[str, Any] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


def read_case(text: str, path: Path | str, line: int, failed_output: Any = None) -> Case:
    """The case in a line of a file.

    Args:
        text: the line.
        path: the file, for messages.
        line: its number, for messages.
        failed_output: the compiled pattern of the output of a failed call; None where nothing tells.

    Raises:
        ContentError: it is no case; says where and what was expected.
    """
    record = _Part.of_line(text, path, line, _CASE)
    label = record.values.get("label")
    if label not in (None, 0, 1):
        raise record.wrong("label", label, "0 or 1")
    return Case(
        record.id(),
        tuple(_call(part, failed_output) for part in record.parts("history", _CALL)),
        _proposal(record.part("proposed", _PROPOSED)),
        record.values.get("state"),
        {"user_confirmed": record.values.get("user_confirmed"), "context": record.values.get("context") or {}},
        label,
        record.texts("rules"),
    )


def read_trace(text: str, path: Path | str, line: int, failed_output: Any = None) -> Trace:
    """The trace in a line of a file; the arguments and errors are those of `read_case`."""
    record = _Part.of_line(text, path, line, _TRACE)
    steps = tuple(_step(part, failed_output) for part in record.parts("events", _STEP))
    return Trace(record.id(), steps, record.values.get("state"), record.values.get("facts") or {})


def _proposal(part: _Part) -> Event:
    return Event(part.tool(), part.values.get("args") or {})


def _call(part: _Part, failed_output: Any) -> Event:
    get = part.values.get
    return Event(part.tool(), get("args") or {}, get("output"), _status(part, failed_output))


def _step(part: _Part, failed_output: Any) -> Step:
    get = part.values.get
    event = Event(
        "" if get("tool") is None else part.tool(),
        get("args") or {},
        get("output"),
        _status(part, failed_output),
        get("action"),
        get("decision"),
        frozenset(part.texts("tags") or ()),
    )
    if not (event.tool or event.action or event.decision or event.tags):
        raise part.error("", "names nothing that happened; expected a tool, an action, a decision or tags")
    return Step(event, get("state"), get("facts"))


def _status(part: _Part, failed_output: Any) -> Literal["ok", "failed", "unknown"]:
    """How a call ended. A step that is no call has just happened; of an output that is not there nothing is known."""
    failed = part.values.get("failed")
    if failed is not None:
        return "failed" if failed else "ok"
    if not part.values.get("tool"):
        return "ok"
    if failed_output is None or "output" not in part.values:
        return "unknown"
    return "failed" if is_failure(failed_output, part.values["output"]) else "ok"


@dataclass(frozen=True, slots=True)
class _Part:
    """A JSON object of a record and where it stands: `events[3]`, or nothing for the record itself."""

    values: dict[str, Any]
    error_at: Callable[[str], ContentError]
    place: str = ""

    @classmethod
    def of_line(cls, text: str, path: Path | str, line: int, kinds: Mapping[str, _Kind]) -> _Part:
        def error_at(message: str) -> ContentError:
            return ContentError(message, path, line)

        value = parse_json(text, path, line)
        if type(value) is not dict:
            raise error_at(f"{_NAMES[type(value)]}; expected a JSON object")
        return cls(value, error_at).checked(kinds)

    def checked(self, kinds: Mapping[str, _Kind]) -> _Part:
        """Itself, with everything under the keys that are known of the kind that is expected there."""
        for key, value in self.values.items():
            kind = kinds.get(key)
            if kind is not None and value is not None and type(value) is not kind.type:  # exact: a boolean is no number
                raise self.wrong(key, value, kind.expected)
            if kind is None and (meant := _MEANT.get(key, "")) in kinds and self.values.get(meant) is None:
                raise self.error(key, f"is no key of this format; did you mean {meant!r}?")
        return self

    def id(self) -> str | int:
        value = self._required("id", "a text")
        if type(value) is not str and type(value) is not int:
            raise self.wrong("id", value, "a text")
        return value

    def tool(self) -> str:
        value = self._required("tool", _TOOL.expected)
        if not value:
            raise self.wrong("tool", value, _TOOL.expected)
        return str(value)

    def texts(self, key: str) -> tuple[str, ...] | None:
        value = self.values.get(key)
        if value is None:
            return None
        for index, item in enumerate(value):
            if type(item) is not str:
                raise self.wrong(f"{key}[{index}]", item, "a text")
        return tuple(value)

    def part(self, key: str, kinds: Mapping[str, _Kind]) -> _Part:
        return self._part(key, self._required(key, _OBJECT.expected), kinds)

    def parts(self, key: str, kinds: Mapping[str, _Kind]) -> Iterator[_Part]:
        value = self._required(key, _OBJECTS.expected)
        if value is None:
            raise self.wrong(key, value, _OBJECTS.expected)
        return (self._part(f"{key}[{index}]", item, kinds) for index, item in enumerate(value))

    def error(self, key: str, message: str) -> ContentError:
        place = f"{self.place}.{key}" if self.place and key else self.place or key
        return self.error_at(f"{place}: {message}")

    def wrong(self, key: str, value: Any, expected: str) -> ContentError:
        got = repr(value)[:60] if isinstance(value, bool | int) else _NAMES[type(value)] if value != "" else "empty"
        return self.error(key, f"is {got}; expected {expected}")

    def _part(self, key: str, value: Any, kinds: Mapping[str, _Kind]) -> _Part:
        if type(value) is not dict:
            raise self.wrong(key, value, _OBJECT.expected)
        return _Part(value, self.error_at, f"{self.place}.{key}" if self.place else key).checked(kinds)

    def _required(self, key: str, expected: str) -> Any:
        if key not in self.values:
            given = ", ".join(map(repr, self.values)) or "nothing"
            raise self.error(key, f"missing; expected {expected}; it has {given:.200}")
        return self.values[key]
