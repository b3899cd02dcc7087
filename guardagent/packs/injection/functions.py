"""The values in the arguments of a call, apart from those that may repeat what the agent has read."""

from __future__ import annotations

from typing import Any

from guardagent.packs import leaves, letters


def placed(arguments: dict[str, Any], destinations: list[str], free: list[str]) -> list[dict[str, Any]]:
    """The texts and numbers at any depth, each with whether its name is that of a destination.

    Raises:
        ValueError: the arguments are nested too deep.
    """
    strict, ignored = set(map(letters, destinations)), set(map(letters, free))
    placed = []
    for name, value in leaves(arguments):
        if isinstance(value, dict | list) and value:
            raise ValueError("the arguments are nested too deep")
        if name in ignored or value is None or isinstance(value, bool | dict | list) or value == "":
            continue
        kind = "text" if isinstance(value, str) else "number"
        placed.append({kind: value, "strict": name in strict})
    return placed


def titles(item: object) -> list[str]:
    """The subject and the title of a mail, a page or a document; none of a text."""
    fields = item.items() if isinstance(item, dict) else ()
    return [value for name, value in fields if letters(name) in ("subject", "title") and isinstance(value, str)]
