"""The results of tools, as rules read them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from guardagent.enforcement import Outcome
from guardagent.enforcement.calls import plain_value
from guardagent.errors import InputError


def outcome_of(result: Any) -> Outcome:
    """Returns a call's outcome from what its tool has returned.

    A result of MCP says itself whether it failed. Any other result with an `error`, which is the host's form of errors,
    has an unknown status: the tool may have done its work.
    """
    plain = _plain(result)
    if not isinstance(plain, Mapping):
        return Outcome(plain)
    failed = plain.get("isError", plain.get("is_error"))
    if isinstance(plain.get("content"), list) and isinstance(failed, bool):
        parts = [one["text"] for one in plain["content"] if isinstance(one, Mapping) and "text" in one]
        structured = plain.get("structuredContent", plain.get("structured_content"))
        return Outcome("\n".join(map(str, parts)), failed=failed, other_outputs=(parts, structured))
    return Outcome(plain, failed=None if plain.get("error") else False)


def require_finished(name: str, output: Any) -> Any:
    """Returns a tool's output if its work is done, or if it is a stream.

    Raises:
        InputError: the work has not begun, as that of a generator.
    """
    if not (inspect.isawaitable(output) or inspect.isgenerator(output)):
        return output
    if close := getattr(output, "close", None):
        close()
    raise InputError(f"{name} returned a {type(output).__name__}, whose work is not done yet")


def _plain(value: Any) -> Any:
    try:
        return plain_value(value)
    except InputError:
        return str(value)
