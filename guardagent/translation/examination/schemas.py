"""Schemas of the places that rules read: arguments and outputs of tools, as JSON schemas and samples show them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from guardagent.enforcement.schema import declared_arguments
from guardagent.policy.equivalence.places import ITEMS, Place
from guardagent.translation.samples.shapes import ShapePath
from guardagent.translation.samples.traces import TraceSamples
from guardagent.translation.tools.schema import ToolSchema

Schema = Mapping[str, Any]
_JOINED = ("anyOf", "oneOf", "allOf")
_DEEPEST = 12
_WHOLE = "(whole)"
_OPEN = frozenset(["list", "object", "null"])  # types of which a sample may just be empty


class ToolShapes:
    """The arguments and outputs of tools."""

    def __init__(self, tools: Iterable[ToolSchema], samples: TraceSamples | None) -> None:
        self._tools = {one.name: one for one in tools}
        self._samples = {one.tool: one for one in samples.tools} if samples is not None else {}

    def arguments(self, tool: str) -> frozenset[str] | None:
        """The names of the arguments of a tool; None if it may have any."""
        one = self._tools.get(tool)
        names = None if one is None else declared_arguments(one.parameters)
        if one is None or names is None or not (names or one.parameters.get("additionalProperties") is False):
            return None
        shown = self._samples[tool].arguments if tool in self._samples else ()
        return names.union(*(segments(path.path)[:1] for path in shown))

    def schemas(self, place: Place) -> Sequence[Schema]:
        """The schemas of a value, any of which it may satisfy; empty if nothing is known."""
        kind, tool, *keys = place
        one = self._tools.get(tool)
        whole = None if one is None else one.parameters if kind == "args" else one.output_schema
        found = list(_within(whole, whole, keys)) if whole is not None else []
        return found or [_schema_of(path) for path in self._shown(kind, tool) if segments(path.path) == tuple(keys)]

    def missing(self, place: Place) -> Sequence[str] | None:
        """The known fields where a rule reads another field of an output; None if it is known, or nothing is."""
        kind, tool, *keys = place
        one = self._tools.get(tool)
        declared = one.output_schema if one is not None else None
        if kind != "output" or not keys or (declared is not None and any(_within(declared, declared, keys))):
            return None
        shown = {segments(path.path): path for path in self._shown("output", tool)}
        return missing(shown, tuple(keys)) if shown else _declared_fields(declared, keys[:-1])

    def _shown(self, kind: str, tool: str) -> Sequence[ShapePath]:
        one = self._samples.get(tool)
        return () if one is None else one.arguments if kind == "args" else one.outputs


def segments(path: str) -> tuple[str, ...]:
    """The keys of a path such as `flights[].price`."""
    return () if path == _WHOLE else tuple(re.findall(r"\[\]|[^.\[\]]+", path))


def missing(shown: Mapping[tuple[str, ...], ShapePath], keys: tuple[str, ...]) -> Sequence[str] | None:
    """The known fields beside a place that samples do not show; None if they show it, or nothing around it."""
    keys = tuple(part for key in keys for part in segments(key))
    if len(keys) >= _DEEPEST or _is_shown(shown, keys):
        return None
    parent = keys[:-1]
    if parent and not _is_shown(shown, parent):
        return None  # the place around it is the finding
    beside = sorted({one[-1] for one in shown if len(one) == len(keys) and _matches(one[:-1], parent)})
    types = {name for one, path in shown.items() if _matches(one, parent) for name in path.types}
    return None if not beside and (not types or types <= _OPEN) else beside


def _is_shown(shown: Iterable[tuple[str, ...]], keys: tuple[str, ...]) -> bool:
    return any(_matches(one, keys) for one in shown)


def _matches(shown: tuple[str, ...], keys: tuple[str, ...]) -> bool:
    """Whether a shown path stands for a place; `*` stands for keys that are data."""
    return len(shown) == len(keys) and all(one in (key, "*") for one, key in zip(shown, keys, strict=True))


def _schema_of(path: ShapePath) -> Schema:
    return {"type": ["array" if one == "list" else one for one in path.types]}


def _declared_fields(schema: Schema | None, keys: Sequence[str]) -> Sequence[str] | None:
    """The fields that an output schema declares at a place; None if it declares none or allows others."""
    found = list(_within(schema, schema, keys)) if schema is not None else []
    fields = {str(name) for one in found for name in _mapping(one.get("properties"))}
    is_open = any(one.get("additionalProperties") not in (None, False) for one in found)
    return None if is_open or not fields else sorted(fields)


def _within(schema: Any, root: Schema, keys: Sequence[str], depth: int = 0) -> Iterator[Schema]:
    """Yields the schemas of a place within the values of a schema: the alternatives."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return
    if isinstance(reference := schema.get("$ref"), str):
        yield from _within(_referenced(root, reference), root, keys, depth + 1)
    for one in (part for name in _JOINED for part in _list(schema.get(name))):
        yield from _within(one, root, keys, depth + 1)
    if not keys:
        if schema.keys() & {"type", "enum", "const", "properties", "items"} or not schema.keys() & {"$ref", *_JOINED}:
            yield schema
    elif keys[0] == ITEMS:
        yield from _within(schema.get("items"), root, keys[1:], depth + 1)
    elif keys[0] in _mapping(schema.get("properties")):
        yield from _within(schema["properties"][keys[0]], root, keys[1:], depth + 1)
    elif isinstance(schema.get("additionalProperties"), Mapping):
        yield from _within(schema["additionalProperties"], root, keys[1:], depth + 1)


def _referenced(root: Schema, reference: str) -> Any:
    found: Any = root
    for key in reference.removeprefix("#").strip("/").split("/") if reference.startswith("#/") else [""]:
        found = _mapping(found).get(key.replace("~1", "/").replace("~0", "~"))
    return found


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()
