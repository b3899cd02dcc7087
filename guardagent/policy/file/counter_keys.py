"""Reads the entries of `counters:` in a policy file. Patterns and expressions stay strings with their lines."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from guardagent.policy.file.policy_keys import Key, check_keys, keys, mapping, one_or_more, reads, text
from guardagent.policy.file.source_text import SourceText
from guardagent.policy.file.source_tree import SourceNode, SourceScalar, shortened
from guardagent.policy.language.durations import DURATION, duration_of

_MAX_SECONDS = 100 * 366 * 86400


@dataclass(frozen=True, slots=True)
class CounterSource:
    """A counter as written in its file.

    Attributes:
        on: the pattern of the calls that it counts.
        keys: the expressions of its keys; each combination of their values has a count of its own.
        sum: the expression of the amount; None counts the calls.
        window: the length of the window in seconds; None counts for ever.
        scopes: the prefixes of the names that its expressions can use without a prefix.
    """

    on: SourceText
    keys: tuple[SourceText, ...]
    sum: SourceText | None
    window: float | None
    scopes: tuple[str, ...] = ("",)

    @property
    def meaning(self) -> object:
        total = self.sum and self.sum.text
        return self.on.text, tuple(key.text for key in self.keys), total, self.window, self.scopes

    def under(self, prefix: str) -> CounterSource:
        """This counter in an included file with a prefix."""
        return replace(self, scopes=tuple(prefix + scope for scope in self.scopes))


@reads(lambda _: {"type": "string", "pattern": f"^{DURATION.pattern}$"})
def _duration(node: SourceNode, key: Key) -> float:
    found = text(node, key)
    seconds = duration_of(found.text.strip()) or 0
    if not 0 < seconds <= _MAX_SECONDS:
        raise found.error(f"{key.name!r} is {node.description}; expected {key.expected}")
    return float(seconds)


@reads(mapping.schema)
def _counter(node: SourceNode, key: Key) -> CounterSource:
    node = _rejoined(node)
    check_keys(node, key)
    values = mapping(node, key)
    return CounterSource(values["on"], values.get("key", ()), values.get("sum"), values.get("window"))


def _rejoined(node: SourceNode) -> SourceNode:
    """Joins a pattern that YAML split at its commas, in a mapping between braces."""
    left = dict(node.fields)
    pattern = left.get("on")
    if pattern is None or not isinstance(pattern.value, SourceText):
        return node
    joined = pattern.value.text
    for key, item in node.fields.items():
        if not _is_open(joined):
            break
        if key != "on" and isinstance(item.value, SourceScalar) and item.value.source == "":
            joined = f"{joined}, {key}"
            del left[key]
    if len(left) == len(node.fields):
        return node
    whole = SourceText(joined, pattern.path, pattern.line)
    left["on"] = SourceNode(whole, pattern.path, pattern.line, pattern.key_line, pattern.folder)
    return SourceNode(left, node.path, node.line, node.key_line, node.folder)


def _is_open(pattern: str) -> bool:
    return pattern.count("(") > pattern.count(")")


def counter_problem(name: str) -> str:
    """The problem of the name of a counter; empty if rules can refer to it."""
    if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and name not in ("AND", "OR", "NOT", "true", "false", "in"):
        return ""
    return f"{shortened(name)!r} is not a valid name of a counter; expected letters, digits and '_'"


COUNTER = Key(
    "counter",
    _counter,
    "a mapping with 'on', and optionally 'key', 'sum' and 'window'",
    keys=keys(
        Key(
            "on",
            text,
            "a call pattern such as refund(customer=c, amount=a)",
            "The pattern of the calls that are counted.",
            required=True,
        ),
        Key(
            "key",
            one_or_more,
            "an expression, or a list of them",
            "What has a count of its own: an expression over the variables of the pattern, or a list of them.",
            item=Key("key", text, "an expression"),
        ),
        Key("sum", text, "an expression", "The amount of a call; without it, calls are counted."),
        Key(
            "window", _duration, "a duration such as 24h", "The time for which a call counts; the default is for ever."
        ),
    ),
)
