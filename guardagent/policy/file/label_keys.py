"""Reads `labels:` and `ids:`: the names of sources, and the expressions for ids."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from guardagent._support.syntax import PatternError, compile_pattern
from guardagent.errors import name_hint
from guardagent.policy.file.policy_keys import Key, by_name, flag, keys, mapping, one_or_more, reads, text
from guardagent.policy.file.source_text import SourceText
from guardagent.policy.file.source_tree import SourceNode, shortened
from guardagent.policy.provenance.labels import MODEL, DeclaredLabels, InvalidSourceError, LabelSource

_LABEL = r"(?!(?:AND|OR|NOT|in|matches|true|false|True|False|model)$)[A-Za-z_]\w*"
_EXPECTED = "a tool, 'TOOL.field', 'TOOL[*].field', '@tag', 'request', 'messages.ROLE' or 'fact.NAME'"


@dataclass(frozen=True, slots=True)
class WrittenLabel:
    """A label as written: its sources with their places, and whether it propagates."""

    sources: tuple[tuple[LabelSource, SourceText], ...]
    propagate: bool = False


@reads(text.schema)
def _source(node: SourceNode, key: Key) -> tuple[LabelSource, SourceText]:
    written = text(node, key)
    try:
        return LabelSource.read(written.text), written
    except InvalidSourceError:
        raise written.error(f"{shortened(written.text)!r} is not a source; expected {_EXPECTED}") from None


_SOURCES = Key(
    "label",
    one_or_more,
    "a source, a list of sources, or a mapping with 'from'",
    item=Key("source", _source, _EXPECTED),
)
_FULL_FORM = Key(
    "label",
    mapping,
    "a mapping with 'from'",
    keys=keys(
        Key("from", one_or_more, "a source, or a list of them", "The sources.", required=True, item=_SOURCES.item),
        Key("propagate", flag, "true or false", "Whether a tool passes the label from its arguments to its output."),
    ),
)


@reads(lambda _: {"oneOf": [*_SOURCES.schema["oneOf"], _FULL_FORM.schema]})
def _label(node: SourceNode, _: Key) -> WrittenLabel:
    if isinstance(node.value, dict):
        values = mapping(node, _FULL_FORM)
        return WrittenLabel(values["from"], values.get("propagate", False))
    return WrittenLabel(one_or_more(node, _SOURCES))


@reads(lambda key: by_name.schema(key) | {"propertyNames": {"pattern": f"^{_LABEL}$"}})
def _labels(node: SourceNode, key: Key) -> dict[str, WrittenLabel]:
    found: dict[str, WrittenLabel] = by_name(node, key)
    for label, place in node.fields.items():
        if label == MODEL:
            raise place.error(
                f"the label {MODEL!r} is built in: it marks what nothing else has seen; choose another name"
            )
        if not re.fullmatch(_LABEL, label):
            raise place.error(f"{shortened(label)!r} is not a valid label; expected letters, digits and '_'")
    return found


@reads(text.schema)
def _id(node: SourceNode, key: Key) -> str:
    written = text(node, key)
    try:
        empty = compile_pattern(written.text).fullmatch("") is not None
    except PatternError as error:
        problem = f"is not a valid regular expression: {shortened(str(error))}; expected RE2 syntax"
        raise written.error(f"{shortened(written.text)!r} {problem}") from None
    if empty:
        raise written.error(f"{shortened(written.text)!r} matches an empty string; expected the form of an id")
    return written.text


LABELS = Key(
    "labels",
    _labels,
    "a mapping of labels to their sources",
    "Labels for the sources of values, which rules read with sources(x), seen(label) and flow(label -> ...).",
    item=Key("label", _label, _SOURCES.expected),
)
IDS = Key(
    "ids",
    one_or_more,
    "a regular expression, or a list of them",
    "Regular expressions (RE2) for ids, which sources(x) finds inside longer strings.",
    item=Key("id", _id, "a regular expression"),
)


def declared_labels(values: Mapping[str, Any]) -> DeclaredLabels:
    """The labels of a policy file, with the tools of each tag.

    Raises:
        ContentError: a source names a tool or a tag that does not exist.
    """
    written: Mapping[str, WrittenLabel] = values.get("labels", {})
    sources = {
        label: tuple(one for source, place in of.sources for one in _expanded(source, place, values))
        for label, of in written.items()
    }
    propagating = frozenset(label for label, of in written.items() if of.propagate)
    return DeclaredLabels(sources, propagating, values.get("ids", ()))


def _expanded(source: LabelSource, place: SourceText, values: Mapping[str, Any]) -> Iterator[LabelSource]:
    tools, tags = values.get("tools"), values.get("tags", {})
    if source.name.startswith("@") and source.kind == "tool":
        tag = next((one for one in reversed(_prefixes(source.name[1:])) if one in tags), None)
        if tag is None:
            name = _prefixes(source.name[1:])[0]
            raise place.error(f"unknown tag {shortened(name)!r}{name_hint(name, tags)}")
        yield from (replace(source, name=f"{tool.text}{source.name[1 + len(tag) :]}") for tool in tags[tag])
        return
    if source.kind == "tool" and tools is not None and not any(tool in tools for tool in source.tools):
        name = source.tools[0]
        raise place.error(f"unknown tool {shortened(name)!r}: not declared in 'tools:'{name_hint(name, tools)}")
    yield source


def _prefixes(name: str) -> tuple[str, ...]:
    return LabelSource("tool", name).tools
