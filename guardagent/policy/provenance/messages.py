"""The host's messages, each read once.

A host may show a window of its messages, summarise old ones, or let a user edit one. What was read stays read. Only
messages after the last one that was read are new; any other unknown one may be forged, so its labels are uncertain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

HOST_ROLES = frozenset({"user", "system", "developer"})
"""The roles whose messages no model wrote and no tool."""


class HostMessage(NamedTuple):
    """A message.

    Attributes:
        role: its role.
        text: its text.
        certain: whether it followed the last message that was read.
    """

    role: str
    text: str
    certain: bool = True


class MessageReader:
    """Reads the messages of a host as they come.

    Args:
        roles: the roles of the messages that count.
    """

    def __init__(self, roles: frozenset[str]) -> None:
        self._roles = roles
        self._last: tuple[int, str] | None = None  # the number of messages, and the digest of the last one
        self._last_message: tuple[str, str] | None = None
        self._known: set[str] = set()
        self._object: Any = None  # the last message itself, its number, its content and its role
        self._number, self._content, self._role = 0, "", ""

    def copied(self) -> MessageReader:
        copy = MessageReader(self._roles)
        copy._last, copy._last_message, copy._known = self._last, self._last_message, set(self._known)
        return copy

    def is_current(self, messages: Sequence[Any]) -> bool:
        """Whether nothing is new, as far as identity shows: the common case."""
        last = messages[-1]
        return (
            last is self._object
            and len(messages) == self._number
            and type(last) is dict
            and last.get("content") is self._content
            and last.get("role") == self._role
        )

    def news(self, messages: Sequence[Any]) -> list[HostMessage]:
        """The messages that were not read before; there is at least one message."""
        number = len(messages)
        last = messages[number - 1]
        if self._last is not None and number == self._last[0] and self._last_message == _parts(last):
            return []
        start = self._start(messages)
        found = [self._read(one) for one in messages[start or 0 :]]
        self._last, self._last_message = (number, _digest(*_parts(last))), _parts(last)
        if type(last) is dict and type(last.get("content")) is str:
            self._object, self._number, self._content, self._role = last, number, last["content"], last["role"]
        certain = start is not None
        new = [HostMessage(role, text, certain) for role, text in filter(None, found)]
        self._known.update(_digest(one.role, one.text) for one in new)
        return new

    def _start(self, messages: Sequence[Any]) -> int | None:
        """The place after the last message that was read; None if it is not there any more."""
        if self._last is None:
            return 0
        number, digest = self._last
        places: tuple[int, ...] = (number, *range(len(messages), 0, -1))
        for place in places:
            if 0 < place <= len(messages) and _digest(*_parts(messages[place - 1])) == digest:
                return place
        return None

    def _read(self, message: Any) -> tuple[str, str] | None:
        role, text = _parts(message)
        return (role, text) if role in self._roles and text and _digest(role, text) not in self._known else None

    def dumped(self) -> Any:
        """The place in the messages, as JSON."""
        return None if self._last is None else list(self._last)

    def loaded(self, place: Any, messages: Sequence[HostMessage]) -> None:
        """Restores the place, after which these messages count as read."""
        self._last = None if place is None else (place[0], place[1])
        self._last_message = None
        self._known.update(_digest(one.role, one.text) for one in messages)


def _parts(message: Any) -> tuple[str, str]:
    """(role, text) of a message.

    Raises:
        ValueError: it is not a chat message.
    """
    role = message.get("role") if isinstance(message, Mapping) else getattr(message, "role", None)
    content = message.get("content") if isinstance(message, Mapping) else getattr(message, "content", None)
    if not isinstance(role, str):
        raise ValueError("a message without a role; expected a mapping with 'role' and 'content'")  # noqa: TRY004 - one kind
    if isinstance(content, list | tuple):
        parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
        return role, "\n".join(part for part in parts if isinstance(part, str))
    return role, content if isinstance(content, str) else ""


def _digest(role: str, text: str) -> str:
    return blake2b(f"{role}\x00{text}".encode("utf-8", "replace"), digest_size=16).hexdigest()
