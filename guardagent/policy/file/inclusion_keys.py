"""Reads `include:` in a policy file: other policy files and shipped packs, with their parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from guardagent._support.files import shipped_pack
from guardagent.errors import InputError
from guardagent.policy.file.constants import SETTINGS, DeclaredConstant
from guardagent.policy.file.policy_keys import (
    Key,
    Schema,
    any_file,
    by_name,
    check_keys,
    choice,
    items,
    keys,
    line,
    mapping,
    name,
    reads,
    text,
    tool_name,
)
from guardagent.policy.file.source_tree import SourceNode, SourceText, shortened, start_of
from guardagent.types import Decision

DECISIONS = {"warn": Decision.WARN, "block": Decision.DENY, "escalate": Decision.ESCALATE, "halt": Decision.HALT}
"""The values of `on_violation:` and their decisions."""
PACK = "guardagent:"
_ONE_SOURCE: list[Schema] = [{"required": ["file"]}, {"required": ["pack"]}]
_PREFIX = re.compile(r"[A-Za-z_][\w-]*")


@dataclass(frozen=True, slots=True)
class Inclusion:
    """An entry of `include:`.

    Attributes:
        prefix: what ids and names of the included file begin with, such as `email.`.
        constants: the values that replace those of the included file.
        tags: the sets of tools that replace those of the included file.
        on_violation: the decision of all rules of the included file; None leaves theirs.
        place: the entry in the including file.
    """

    path: Path
    prefix: str
    constants: Mapping[str, DeclaredConstant]
    tags: Mapping[str, tuple[SourceText, ...]]
    on_violation: Decision | None
    place: SourceText


@reads(lambda key: {"anyOf": [{"type": "string"}, mapping.schema(key) | {"anyOf": _ONE_SOURCE}]})
def _inclusion(node: SourceNode, key: Key) -> Inclusion:
    if isinstance(node.value, dict):
        return _with_parameters(node, key)
    written = line(node, key)
    path = _pack(written) if written.text.startswith(PACK) else any_file.read(node, _FILE)
    return Inclusion(path, _prefix(path, node), {}, {}, None, start_of(node))


def _with_parameters(node: SourceNode, key: Key) -> Inclusion:
    check_keys(node, key)
    sources = [source for source in ("file", "pack") if source in node.fields]
    if len(sources) != 1:
        raise node.error(f"the entry has {'both' if sources else 'neither'} of 'file' and 'pack'; expected one of them")
    values = mapping(node, key)
    path = values["file"] if "file" in values else _pack(values["pack"])
    decision = values.get("on_violation")
    return Inclusion(
        path,
        _prefix(path, node, values.get("as")),
        values.get("constants", {}),
        values.get("tools", {}),
        None if decision is None else DECISIONS[decision],
        start_of(node),
    )


def _pack(written: SourceText) -> Path:
    try:
        return shipped_pack(written.text.removeprefix(PACK)) / "policy.yaml"
    except InputError as error:
        raise written.error(str(error)) from None


def _prefix(path: Path, node: SourceNode, named: str | None = None) -> str:
    """The prefix of an included file: its name, or that of the pack's folder."""
    name = named or (path.parent.name if path.name == "policy.yaml" else path.stem)
    if not _PREFIX.fullmatch(name):
        raise node.error(f"{shortened(name)!r} cannot begin the ids of rules; expected 'as: NAME' with a plain name")
    return f"{name}."


_FILE = Key("file", any_file, "a policy file")
_ENTRY = Key(
    "entry",
    _inclusion,
    "the path of a policy file, 'guardagent:NAME', or a mapping with 'file' or 'pack'",
    keys=keys(
        Key("file", any_file, "a policy file", "A policy file, relative to this file."),
        Key("pack", text, "the name of a shipped pack", "A shipped pack, such as guardagent:shell."),
        Key("as", name, "a name", "The prefix of its rule ids and names; the default is the name of the file."),
        SETTINGS,
        Key(
            "tools",
            by_name,
            "a mapping of its tags to lists of tools",
            "The tools that its tags stand for here.",
            item=Key("tag", items, "a list of tools", item=Key("tool", tool_name, "the name of a tool")),
        ),
        Key(
            "on_violation",
            choice,
            "warn, block, escalate or halt",
            "The response to a call that violates any of its rules.",
            choices=tuple(DECISIONS),
        ),
    ),
)


@reads(lambda key: {"oneOf": [key.item.schema, items.schema(key)]} if key.item else {})
def _inclusions(node: SourceNode, key: Key) -> tuple[Inclusion, ...]:
    inclusions = items(node, key) if isinstance(node.value, list) else (_inclusion(node, _ENTRY),)
    for at, inclusion in enumerate(inclusions):
        if first := next((other for other in inclusions[:at] if other.prefix == inclusion.prefix), None):
            raise inclusion.place.error(
                f"the prefix {inclusion.prefix[:-1]!r} is already used in line {first.place.line}; expected 'as: NAME'"
            )
    return inclusions


INCLUDE = Key(
    "include",
    _inclusions,
    "a policy file or pack, or a list of them",
    "Policy files and packs whose rules also hold here.",
    item=_ENTRY,
)
