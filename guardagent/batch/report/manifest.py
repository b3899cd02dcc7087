"""The manifest of an audit, `_audit.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from guardagent._support.files import parse_json
from guardagent.errors import ContentError

FILE = "_audit.json"
VERSION = 1
MAX_PARTITIONS = 65_536  # the partition of a trace comes from four hexadecimal digits
_ABOUT = ("version", "policies", "engine", "sources", "started", "ended")


@dataclass(frozen=True, slots=True)
class ManifestRule:
    """A rule of the audit. `order`: it asks for an earlier step."""

    id: str
    message: str
    order: bool


@dataclass(frozen=True, slots=True)
class Manifest:
    """The facts about an audit that its parts lack. `about` has the keys that are only shown."""

    partitions: int
    rules: tuple[ManifestRule, ...]
    about: Mapping[str, Any]


def parse_manifest(text: str, path: str) -> Manifest:
    """Returns the manifest of a JSON string.

    Raises:
        InputError: it is not JSON, or no manifest of this version.
    """
    values = parse_json(text, path)
    if not isinstance(values, dict) or "guardagent_audit" not in values:
        raise ContentError("is no manifest; expected the file that 'guardagent audit --out' writes", path)
    if values["guardagent_audit"] != VERSION:
        raise ContentError(
            f"has version {values['guardagent_audit']!r}; expected {VERSION}: use the same release as the audit", path
        )
    partitions, rules = values.get("partitions"), values.get("rules")
    if type(partitions) is not int or not 1 <= partitions <= MAX_PARTITIONS:
        raise ContentError(f"'partitions' is {partitions!r}; expected 1 to {MAX_PARTITIONS}", path)
    if not isinstance(rules, list):
        raise ContentError("lacks the list 'rules'; expected an object for each rule", path)
    return Manifest(
        partitions, tuple(_rule(one, path) for one in rules), {key: values[key] for key in _ABOUT if key in values}
    )


def _rule(value: Any, path: str) -> ManifestRule:
    match value:
        case {"id": str(rule), "order": bool(order)}:
            return ManifestRule(rule, str(value.get("message") or ""), order)
    raise ContentError(f"the rule {value!r} lacks 'id' or 'order'; expected a string and true or false", path)
