"""The facts that the host gives to a session, described in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guardagent._support.files import parse_json, parse_yaml, read_text
from guardagent.errors import ContentError, UnknownNameError

TYPES = ("string", "number", "integer", "boolean", "list", "object", "date", "datetime")
_KEYS = ("description", "type")


@dataclass(frozen=True, slots=True)
class FactDescription:
    """A fact. `type` is one of `TYPES`; empty if it is unknown."""

    name: str
    description: str = ""
    type: str = ""


def read_fact_descriptions(path: Path | str) -> tuple[FactDescription, ...]:
    """Reads a YAML or JSON file: name -> description, or name -> {description, type}.

    Raises:
        InputError: the file cannot be read, or has another form.
    """
    text = read_text(path)
    value = (parse_json if str(path).endswith(".json") else parse_yaml)(text, path)
    if not isinstance(value, Mapping) or not value:
        raise ContentError(f"is a {type(value).__name__}; expected names of facts with their descriptions", path)
    return tuple(_fact(name, one, path) for name, one in value.items())


def _fact(name: Any, value: Any, path: Path | str) -> FactDescription:
    if not isinstance(name, str) or not name.strip():
        raise ContentError(f"the name of a fact is {name!r}; expected a string", path)
    fields = {"description": value or ""} if isinstance(value, str | None) else value
    if not isinstance(fields, Mapping):
        raise ContentError(
            f"{name!r} is a {type(value).__name__}; expected a description, or 'description' and 'type'", path
        )
    for key, one in fields.items():
        if key not in _KEYS:
            raise UnknownNameError("key", str(key), _KEYS, f"{path}: {name!r}")
        if not isinstance(one, str):
            raise ContentError(f"the {key} of {name!r} is a {type(one).__name__}; expected a string", path)
    if (kind := fields.get("type", "")) and kind not in TYPES:
        raise UnknownNameError("type", kind, TYPES, f"{path}: {name!r}")
    return FactDescription(name, fields.get("description", ""), kind)
