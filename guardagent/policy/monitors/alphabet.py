"""The letters that a formula's automaton reads: what an event can mean for its atoms, and nothing else of it.

An event has one tool, one action and one decision, and any tags. So the letters are one class of tools for each way in
which a tool satisfies the atoms, times the same for actions and decisions, times the subsets of the tags; and each of
these for a step that went well and for one that did not, or whose end is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Protocol

from guardagent.errors import InputError

MAX_LETTERS = 4096


class LabelledEvent(Protocol):
    """What a rule reads of an event."""

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
    """The atoms that hold in a step that went well, and those of a step that ran at all."""

    ok: frozenset[str]
    ran: frozenset[str]


class Alphabet:
    """The letters for some atoms.

    Args:
        atoms: `tool:NAME`, `action:NAME`, `decision:NAME`, `@NAME` for a set of tools, or a bare tag.
        sets: the sets of tools by name.

    Raises:
        InputError: there would be too many letters; a rule with so many tags needs to be divided.
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
                f"the rule tells {size:,} kinds of steps apart; expected at most {MAX_LETTERS:,}: divide it"
            )
        strides = _strides([len(part) for part in parts])
        self._tools = _times(tool_numbers, strides[0])
        self._actions = _times(action_numbers, strides[1])
        self._decisions = _times(decision_numbers, strides[2])
        self._tags: dict[str | None, int] = dict(zip(tags, strides[3:], strict=True))
        self.letters: list[Letter] = []
        for choice in product(*parts):
            held = frozenset().union(*choice)
            self.letters += [Letter(frozenset(), held), Letter(held, held)]

    def index(self, event: LabelledEvent, *, ok: bool) -> int:
        """The letter that an event is, if it went well or not: the sum of what its fields add."""
        at = self._tools.get(event.tool, 0)
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
    """(name -> its class, the atoms that hold in each class); class 0 is every other name."""
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
    """How far apart neighbours of each part are; each letter is there twice, for a step that went well and one not."""
    strides, stride = [], 2
    for size in reversed(sizes):
        strides.append(stride)
        stride *= size
    return strides[::-1]
