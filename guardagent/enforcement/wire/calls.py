"""A `HostCall` as JSON. The conversation is not part of it: the address of a request names it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.wire.fields import Fields, WireError, shown
from guardagent.enforcement.wire.values import complete, read_value, write_value
from guardagent.types import EMPTY

_OPTIONAL = ("agent", "step", "action")


def write_call(call: HostCall, where: str = "call") -> dict[str, Any]:
    """Returns a call as JSON; fields without a value are left out.

    Raises:
        WireError: a part of it has no JSON form.
    """
    written: dict[str, Any] = {
        "id": _string(call.id, f"{where}.id"),
        "tool": _string(call.tool, f"{where}.tool"),
        "args": _mapping(call.args, f"{where}.args"),
    }
    for name in _OPTIONAL:
        if (value := getattr(call, name)) is not None:
            written[name] = _string(value, f"{where}.{name}")
    if call.tags:
        written["tags"] = sorted(_strings(call.tags, f"{where}.tags"))
    if call.facts != EMPTY:
        written["facts"] = _mapping(call.facts, f"{where}.facts")
    if call.seen is not None:
        written["seen"] = _strings(call.seen, f"{where}.seen")
    if call.messages is not None:
        written["messages"] = write_value(list(call.messages), f"{where}.messages")
    if call.principal is not None:
        written["principal"] = _mapping(call.principal, f"{where}.principal")
    return written


def read_call(value: Any, conversation: str, where: str = "call") -> HostCall:
    """Returns the call of a JSON value, in a conversation.

    Raises:
        WireError: it is not of this form.
    """
    fields = Fields(value, where)
    call = HostCall(
        fields.string("tool"),
        _read_mapping(fields, "args"),
        conversation,
        fields.string("id"),
        tags=frozenset(fields.strings("tags", ())),
        facts=_read_mapping(fields, "facts", EMPTY),
        seen=fields.strings("seen", None),
        messages=fields.items("messages", read_mapping, None),
        principal=_read_mapping(fields, "principal", None),
        **{name: fields.string(name, None) for name in _OPTIONAL},
    )
    fields.end()
    return call


def read_mapping(value: Any, where: str) -> dict[str, Any]:
    """Returns the mapping of a JSON object.

    Raises:
        WireError: it is not the form of a mapping.
    """
    found = read_value(value, where)
    if not isinstance(found, dict):
        raise WireError(where, f"is {shown(found)}; expected an object")
    return found


def _read_mapping(fields: Fields, name: str, *default: Any) -> Any:
    found = fields.value(name, *default)
    return found if default and found is default[0] else read_mapping(found, fields.place(name))


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise WireError(where, f"is {shown(value)}; expected a mapping of names to values")
    written: dict[str, Any] = write_value(value, where)
    return written


def _string(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise WireError(where, f"is {shown(value)}; expected a string")
    return complete(str.__str__(value), where)


def _strings(values: Iterable[Any], where: str) -> list[str]:
    return [_string(value, f"{where}[{at}]") for at, value in enumerate(values)]
