"""Explains a denial in natural language, from a minimal unsatisfiable core."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from guardagent.policy.language.values import shown
from guardagent.policy.solver.encoding import Encoding

_ASSERTION, _VARIABLE = "assertion:", "variable:"
_VERBS = ("is", "has", "was", "can", "are", "have", "does", "were")
_PARTICIPLES = ("ed", "en", "ing", "able", "ible")


NOT_SHOWN = "(not shown)"


def describe_facts(core: Iterable[str], encoding: Encoding, values: Mapping[str, Any], hidden: Container[str]) -> str:
    """Describes the facts of a core; hidden facts appear without their values."""
    return "; ".join(
        _describe_hidden(name, encoding)
        if name in hidden
        else describe_value(name, values[name], encoding.comments.get(name, ""))
        for name in facts_of(core)
        if name in values
    )


def facts_of(core: Iterable[str]) -> list[str]:
    """Returns the variables of a core."""
    return [name.removeprefix(_VARIABLE) for name in core if name.startswith(_VARIABLE)]


def _describe_hidden(name: str, encoding: Encoding) -> str:
    comment = encoding.comments.get(name, "")
    return comment.replace("{}", NOT_SHOWN) if "{}" in comment else f"{_plain(name)} {NOT_SHOWN}"


def _plain(name: str) -> str:
    return name.replace("_", " ").replace("-", " ").strip()


def rules_of(core: Iterable[str], encoding: Encoding) -> list[str]:
    """Returns each assertion of a core by its comment, else its name, else its text."""
    numbers = [int(name.removeprefix(_ASSERTION)) for name in core if name.startswith(_ASSERTION)]
    found = [encoding.assertions[number] for number in sorted(numbers)]
    return [one.comment or one.name or " ".join(one.text.split()) for one in found]


def describe_value(name: str, value: Any, comment: str = "") -> str:
    """Describes a value, with the declaration's comment if that has a placeholder, as in `booked {} hours ago`."""
    if "{}" in comment:
        return comment.replace("{}", value if isinstance(value, str) else shown(value))
    words = _plain(name)
    if isinstance(value, bool):
        return words if value else _denied(words)
    if isinstance(value, str):
        return f"{words} is {value.replace('_', ' ') if value.isidentifier() else shown(value)}"
    return f"{words} is {shown(value)}"


def _denied(words: str) -> str:
    verb, _, rest = words.partition(" ")
    if rest and verb in _VERBS:
        return f"{verb} no {rest}" if verb in ("has", "have") else f"{verb} not {rest}"
    return f"not {words}" if verb.endswith(_PARTICIPLES) else f"no {words}"
