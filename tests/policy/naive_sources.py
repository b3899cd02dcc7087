"""A second implementation of the sources of values, for e-mail addresses, plain numbers and whole strings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.policy.naive_values import UNKNOWN, SetRange, Truth, kind

Labels = Mapping[str, Sequence[tuple[str, tuple[str, ...]]]]  # label -> (tool, path), where "*" is any item


def sources(value: Any, earlier: Sequence[Any], labels: Labels) -> Any:
    """The labels of the places that a value came from."""
    certain, possible, gaps = _recorded(earlier, labels)
    least: set[str] = set()
    most: set[str] = set()
    alone = kind(_parsed(value)) not in ("mapping", "list")
    for leaf, _ in _leaves(value):
        for key, is_token in _keys(leaf):
            if key.startswith("#") and not (alone and kind(leaf) == "number"):
                continue  # a short number counts if a rule asks for just this number
            if key in certain or key in possible:
                least |= certain.get(key, set())
                most |= possible.get(key, set())
            elif gaps:
                most.update(*gaps, {"model"} if is_token else ())
            elif is_token:
                least.add("model")
    most |= least
    return frozenset(least) if least == most else SetRange(frozenset(least), frozenset(most))


def seen(wanted: Sequence[str], earlier: Sequence[Any], labels: Labels) -> Truth:
    truth: Truth = False
    for step in earlier:
        of_tool = {label: path for label in wanted for tool, path in labels[label] if tool == step.tool}
        if not of_tool:
            continue
        there = [path for path in of_tool.values() if _is_there(step.output, path)] if _ended(step) else []
        if there:
            return True
        truth = UNKNOWN
    return truth


def _recorded(
    earlier: Sequence[Any], labels: Labels
) -> tuple[dict[str, set[str]], dict[str, set[str]], list[set[str]]]:
    certain: dict[str, set[str]] = {}
    possible: dict[str, set[str]] = {}
    gaps: list[set[str]] = []
    for step in earlier:
        of_tool = [(label, path) for label, places in labels.items() for tool, path in places if tool == step.tool]
        every = {label for label, _ in of_tool}
        if not _ended(step):
            gaps.append(every)
            continue
        missing = {label for label, path in of_tool if path and not _is_there(step.output, path)}
        written = (
            {key for leaf, _ in _leaves(dict(step.args)) for key, _ in _keys(leaf)} - certain.keys() - possible.keys()
        )
        key_labels: list[tuple[str, set[str]]] = []
        for leaf, path in _leaves(step.output):
            own = {label for label, wanted in of_tool if _begins(path, wanted)}
            key_labels += [(key, own) for key, _ in _keys(leaf)]
        for key, own in key_labels:
            echoed = key in written and (not own or step.status != "ok")
            if not echoed:
                certain.setdefault(key, set()).update(own)
            if not echoed or own:
                certain.setdefault(key, set())
                possible.setdefault(key, set()).update(missing if not echoed else every)
    return certain, possible, gaps


def _ended(step: Any) -> bool:
    return bool(step.ended and step.status is not None)


def _begins(path: Sequence[str], wanted: Sequence[str]) -> bool:
    if not wanted:
        return True
    if path and path[0] == "*" != wanted[0]:
        return _begins(path[1:], wanted)
    return bool(path) and path[0] == wanted[0] and _begins(path[1:], wanted[1:])


def _is_there(value: Any, path: Sequence[str]) -> bool:
    """Whether a path leads to a value, or to an empty list."""
    value = _parsed(value)
    if not path:
        return True
    if kind(value) == "list":
        rest = path[1:] if path[0] == "*" else path
        return not value or any(_is_there(item, rest) for item in value)
    return kind(value) == "mapping" and path[0] in value and _is_there(value[path[0]], path[1:])


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[Any, tuple[str, ...]]]:
    value = _parsed(value)
    if kind(value) == "mapping":
        for name, item in value.items():
            yield from _leaves(item, (*path, name))
    elif kind(value) == "list":
        for item in value:
            yield from _leaves(item, (*path, "*"))
    else:
        yield value, path


def _parsed(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _keys(leaf: Any) -> Iterator[tuple[str, bool]]:
    """(key, whether it is a token) for a leaf and its tokens."""
    if kind(leaf) == "number":
        yield str(leaf) if abs(leaf) >= 1000 else f"#{leaf}", True
    elif kind(leaf) == "text":
        folded = " ".join(leaf.casefold().split())
        if len(folded) >= 4:
            yield folded, False
        yield from ((token, True) for token in re.findall(r"[a-z]+@[a-z.]+[a-z]|[0-9]{4,}", folded))
        yield from ((f"#{number}", True) for number in re.findall(r"(?<![0-9])[0-9]{1,3}(?![0-9])", folded))
