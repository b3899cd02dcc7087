"""The values that go into a tool and come out of it, as rules read them: plain JSON values.

An argument is shown by its own values, never by a serializer, which may show something else than the tool gets:

| argument | as rules read it |
|---|---|
| text, number, truth value, None, Decimal | itself |
| list, tuple | a list |
| set | a list, in order |
| mapping | an object; a key that is no text as its text |
| Pydantic model, dataclass | an object of all its fields, also of those that its own JSON leaves out |
| Enum | its value |
| date, time, duration, UUID, path, URL, IP address | its text |
| bytes | their text, where they are UTF-8 |

Anything else is refused: a secret, for one, which is made not to be shown.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import ipaddress
import json
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

from guardagent.enforcement import Outcome
from guardagent.errors import InputError

_ATOMS = frozenset({str, int, float, bool, type(None), Decimal})
_WITH_TEXT = (
    *(dt.date, dt.time, dt.timedelta, UUID, PurePath, bytes),
    *(ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network, ipaddress.IPv6Network),
    *(ipaddress.IPv4Interface, ipaddress.IPv6Interface),
)
_DEEPEST = 100
UNSHOWN = (
    "which neither a rule nor a person can be shown as the tool gets it; declare a plain type, or have the host fill "
    "it in (InjectedToolArg)"
)


def plain(value: Any, place: str = "a value", depth: int = 0) -> Any:
    """A value as rules read it, without loss.

    Args:
        value: an argument, or a part of one.
        place: its name, for messages.
        depth: how deep it is nested.

    Raises:
        InputError: it cannot be shown without loss.
    """
    if type(value) in _ATOMS:
        return value
    if depth > _DEEPEST:
        raise InputError(f"{place[:80]} is nested too deep, or holds itself")
    if isinstance(value, Enum):
        return plain(value.value, place, depth + 1)
    if isinstance(value, list | tuple):
        return [plain(item, f"{place}[{at}]", depth + 1) for at, item in enumerate(value)]
    if isinstance(value, set | frozenset):
        return sorted((plain(item, place, depth + 1) for item in value), key=_written)
    if (fields := _fields(value)) is not None:
        return {name: plain(item, f"{place}.{name}", depth + 1) for name, item in _named(fields, place).items()}
    return _text_of(value, place)


def plain_arguments(args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call as rules read them.

    Raises:
        InputError: one cannot be shown without loss.
    """
    return {name: plain(value, name) for name, value in args.items()}


def _fields(value: Any) -> Iterable[tuple[Any, Any]] | None:
    """What a value is made of, by name; None where it has no fields."""
    from pydantic import BaseModel

    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, BaseModel):
        names = (*type(value).model_fields, *(value.model_extra or ()))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        own = (one.name for one in dataclasses.fields(value))
        names = tuple(dict.fromkeys([*own, *getattr(value, "__dict__", ())]))  # pydantic's keep what is not declared
    else:
        return None
    return [(name, getattr(value, name)) for name in names]


def _named(fields: Iterable[tuple[Any, Any]], place: str) -> dict[str, Any]:
    pairs = [(key if type(key) is str else str(plain(key, f"a key of {place}")), item) for key, item in fields]
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InputError(f"two keys of {place} have the same text")
    return found


def _text_of(value: Any, place: str) -> Any:
    from pydantic import AnyUrl
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    for kind in (str, int, float, Decimal):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, AnyUrl):
        return str(value)
    if isinstance(value, _WITH_TEXT):
        try:
            return to_jsonable_python(value)
        except (PydanticSerializationError, ValueError):
            raise InputError(f"{place} are bytes that are no UTF-8, {UNSHOWN}") from None
    raise InputError(f"{place} is a {type(value).__name__}, {UNSHOWN}")


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def is_plain(value: Any) -> bool:
    """Whether a value is made of what JSON has, so that a copy of it will do in its place."""
    if type(value) is dict:
        return all(type(name) is str and is_plain(item) for name, item in value.items())
    return all(map(is_plain, value)) if type(value) is list else type(value) in _ATOMS


def _output(value: Any) -> Any:
    """As `plain`, of what a tool gives back: what cannot be shown stays what it is."""
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return plain(value)
    except InputError:
        try:
            return to_jsonable_python(value)
        except (PydanticSerializationError, ValueError):
            return value


def outcome_of(response: Any, call_id: str, *, with_artifact: bool = False) -> Outcome:
    """What came of a call, from what the tool's function gave back.

    Args:
        response: a value, a ToolMessage, a Command, or a list of these.
        call_id: which message of a Command answers the call.
        with_artifact: the tool gives back a pair of content and artifact.
    """
    artifact = None
    if with_artifact and isinstance(response, tuple) and len(response) == 2:
        response, artifact = response
    message = answering(response, call_id)
    if message is not None:
        parts = (message.content, _structured(message.artifact))
        return Outcome(_text(message.content), failed=message.status == "error", beside=parts)
    update = getattr(response, "update", None)
    said = response if update is None or isinstance(response, Mapping) else update
    return Outcome(_output(_text(said)), beside=(_output(said), _structured(artifact)))


def _structured(artifact: Any) -> Any:
    """What a tool of MCP gave back beside its content."""
    return artifact.get("structured_content") if isinstance(artifact, Mapping) else None


def answering(response: Any, call_id: str) -> Any:
    """The ToolMessage that answers a call, alone, in a list or in a Command; None where there is none."""
    from langchain_core.messages import ToolMessage
    from langgraph.types import Command

    if isinstance(response, ToolMessage):
        return response
    if isinstance(response, Command):
        update = response.update
        parts = update.values() if isinstance(update, Mapping) else [update]
        found = [answering(part, call_id) for part in parts if isinstance(part, list)]
        return next((one for one in found if one is not None and one.tool_call_id == call_id), None)
    if isinstance(response, list):
        found = [answering(one, call_id) for one in response if isinstance(one, ToolMessage | Command)]
        return next((one for one in found if one is not None and one.tool_call_id == call_id), None)
    return None


def _text(content: Any) -> Any:
    """Blocks of text, as tools of MCP give them back, are one text."""
    if isinstance(content, list) and content and all(_is_text(block) for block in content):
        return "\n".join(block["text"] for block in content)
    return content


def _is_text(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "text" and isinstance(block.get("text"), str)


class Chat(Sequence[Mapping[str, Any]]):
    """The host's messages as rules read them; each is made when it is asked for."""

    def __init__(self, messages: Sequence[Any]) -> None:
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, at: Any) -> Any:
        found = self._messages[at]
        return [_chat(one) for one in found] if isinstance(at, slice) else _chat(found)


_ROLES = {"human": "user", "ai": "assistant"}


def _chat(message: Any) -> dict[str, Any]:
    kind = getattr(message, "type", "")
    return {"role": _ROLES.get(kind, kind), "content": _text(getattr(message, "content", ""))}
