"""The alphabet of a formula's automaton: the sets of atoms that an event can satisfy.

An event has one tool, one action, one decision and any number of tags. Tools that satisfy the same atoms form a class,
and so do actions and decisions. The letters are the product of these classes and the subsets of the tags, once for
steps that succeeded and once for all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Protocol

from guardagent.errors import InputError

MAX_LETTERS = 4096


class LabelledEvent(Protocol):
    """The parts of an event that a propositional rule reads."""

    @property
    def tool(self) -> str: ...
    @property
    def action(self) -> str | None: ...
    @property
    def decision(self) -> str | None: ...
    @property
    def tags(self) -> frozenset[str]: ...


@dataclass(frozen=True, slots=True)
class Letter:
    """The atoms that hold for a successful step, and those that hold for any step that ran."""

    ok: frozenset[str]
    ran: frozenset[str]


class Alphabet:
    """The alphabet for a list of atoms.

    Args:
        atoms: `tool:NAME`, `action:NAME`, `decision:NAME`, `@NAME` for a set of tools, or a tag.
        sets: the sets of tools by name.

    Raises:
        InputError: the atoms need too many letters.
    """

    def __init__(self, atoms: Iterable[str], sets: Mapping[str, frozenset[str]] | None = None) -> None:
        atoms = list(atoms)
        known = {name: (sets or {})[name[1:]] for name in atoms if name.startswith("@")}
        explicit = _named(atoms, "tool:")
        tools = {tool for members in known.values() for tool in members} | set(explicit.values())
        members = {
            tool: frozenset([name for name, named in explicit.items() if named == tool])
            | {name for name, group in known.items() if tool in group}
            for tool in tools
        }
        tool_numbers, tool_classes = _classes(members)
        action_numbers, action_classes = _classes(_each(_named(atoms, "action:")))
        decision_numbers, decision_classes = _classes(_each(_named(atoms, "decision:")))
        tags = [name for name in atoms if not name.startswith(("tool:", "action:", "decision:", "@"))]
        parts = [
            tool_classes,
            action_classes,
            decision_classes,
            *([frozenset(), frozenset([tag])] for tag in tags),
        ]
        size = 2
        for part in parts:
            size *= len(part)
        if size > MAX_LETTERS:
            raise InputError(
                f"the rule distinguishes {size:,} kinds of steps; expected at most {MAX_LETTERS:,}: split the rule"
            )
        strides = _strides([len(part) for part in parts])
        self._tools = _times(tool_numbers, strides[0])
        self._actions = _times(action_numbers, strides[1])
        self._decisions = _times(decision_numbers, strides[2])
        self._tags: dict[str | None, int] = dict(zip(tags, strides[3:], strict=True))
        self._tools_only = not (self._actions or self._decisions or self._tags)
        self.letters: list[Letter] = []
        for choice in product(*parts):
            held = frozenset().union(*choice)
            self.letters += [Letter(frozenset(), held), Letter(held, held)]

    def index(self, event: LabelledEvent, *, ok: bool) -> int:
        """The number of the letter for an event: the sum of the offsets of its fields. `ok`: the event succeeded."""
        at = self._tools.get(event.tool, 0)
        if self._tools_only:  # the common case
            return at + ok
        if self._actions:
            at += self._actions.get(event.action, 0)
        if self._decisions:
            at += self._decisions.get(event.decision, 0)
        for tag, stride in self._tags.items():
            if tag in event.tags:
                at += stride
        return at + ok


def _named(atoms: Iterable[str], prefix: str) -> dict[str, str]:
    return {name: name.removeprefix(prefix) for name in atoms if name.startswith(prefix)}


def _each(named: Mapping[str, str]) -> dict[str, frozenset[str]]:
    return {value: frozenset([name]) for name, value in named.items()}


def _classes(members: Mapping[str, frozenset[str]]) -> tuple[dict[str, int], list[frozenset[str]]]:
    """(name -> its class, the atoms of each class). Class 0 stands for all other names."""
    classes: list[frozenset[str]] = [frozenset()]
    numbers: dict[str, int] = {}
    for name in sorted(members):
        if members[name] not in classes:
            classes.append(members[name])
        numbers[name] = classes.index(members[name])
    return numbers, classes


def _times(numbers: Mapping[str, int], stride: int) -> dict[str | None, int]:
    return {name: number * stride for name, number in numbers.items()}


def _strides(sizes: Sequence[int]) -> list[int]:
    """The stride of each part. Every letter exists twice: for steps that succeeded and for all others."""
    strides, stride = [], 2
    for size in reversed(sizes):
        strides.append(stride)
        stride *= size
    return strides[::-1]
