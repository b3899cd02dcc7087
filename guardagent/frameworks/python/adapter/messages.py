"""Messages of the chat completions API, as the objects of a client library or as plain dicts."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from guardagent.enforcement.schema import read_object
from guardagent.errors import InputError

if TYPE_CHECKING:
    from guardagent.enforcement import EnforcementPoint


def get_field(of: Any, name: str) -> Any:
    """Returns a field of a message or of a part of one; None if it is missing."""
    return of.get(name) if isinstance(of, Mapping) else getattr(of, name, None)


def as_dict(message: Any) -> dict[str, Any]:
    """Returns a message as a plain dict.

    Raises:
        InputError: it is no message.
    """
    if isinstance(message, Mapping):
        return dict(message)
    dump = getattr(message, "model_dump", None)
    if not callable(dump):
        raise InputError(f"a message is a {type(message).__name__}; expected a dict, or a message of a client library")
    return dict(dump(exclude_none=True))


class Transcript:
    """The messages of one conversation. Each turn shows all of them, and only the new ones are read.

    Attributes:
        messages: as plain dicts.
        seen: the ids of the calls whose results they show; a new list if the messages are replaced.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._source: list[Any] = []
        self.messages: list[Mapping[str, Any]] = []
        self.seen: list[str] = []

    @classmethod
    def of(cls, guard: EnforcementPoint, conversation: str) -> Transcript:
        """Returns the transcript that the guard keeps for a conversation."""
        try:
            return guard.notes(conversation).setdefault("transcript", cls())  # type: ignore[no-any-return]
        except InputError:  # then its calls are denied, too
            return cls()

    def read(self, messages: Sequence[Any]) -> None:
        """Reads the new messages.

        Raises:
            InputError: one is no message.
        """
        with self._lock:
            self._read(messages)

    def _read(self, messages: Sequence[Any]) -> None:
        if list(islice(messages, len(self._source))) != self._source:
            self._source, self.messages, self.seen = [], [], []
        for message in islice(messages, len(self._source), None):
            plain = message if type(message) is dict else as_dict(message)
            call_id = plain.get("tool_call_id")
            if plain.get("role") == "tool" and isinstance(call_id, str) and call_id:
                self.seen.append(call_id)
            self.messages.append(plain)
            self._source.append(message)


def call_name(call: Any) -> str:
    """Returns the tool name of a call; "" if it has none."""
    name = get_field(get_field(call, "function"), "name")
    return name if isinstance(name, str) else ""


def call_arguments(call: Any) -> dict[str, Any]:
    """Reads the arguments of a tool call strictly: a duplicate name is refused.

    Raises:
        InputError: the call is not a function call, or its arguments are not a JSON object.
    """
    function = get_field(call, "function")
    if get_field(call, "type") not in (None, "function") or function is None:
        raise InputError(f"a call is of type {get_field(call, 'type')!r}; expected a call of a function")
    text, name = get_field(function, "arguments"), call_name(call)
    if isinstance(text, Mapping):  # some servers read it themselves
        return dict(text)
    if text is not None and not isinstance(text, str):
        raise InputError(f"the arguments of {name!r} are a {type(text).__name__}; expected a JSON object")
    return read_object(text or "", name)


def tool_message(call_id: Any, content: str) -> dict[str, Any]:
    """Builds the message that answers a tool call."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def output_text(output: Any) -> str:
    """Returns a tool's output as text for the model."""
    if isinstance(output, str):
        return output
    try:
        return json.dumps(output, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return str(type(output))
