"""The letters that a formula's automaton reads: what an event can mean for its atoms, and nothing else of it.

An event has one tool, one action and one decision, and any tags. So the letters are one class of tools for each way in
which a tool satisfies the atoms, times the same for actions and decisions, times the subsets of the tags; and each of
these for a step that went well and for one that did not, or whose end is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from guardagent.errors import InputError
from guardagent.types import Event

MAX_LETTERS = 4096


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
        self._tools, tool_classes = _classes(members)
        self._actions, action_classes = _classes(_each(_named(atoms, "action:")))
        self._decisions, decision_classes = _classes(_each(_named(atoms, "decision:")))
        self._tags = [name for name in atoms if ":" not in name and not name.startswith("@")]
        parts = [
            tool_classes,
            action_classes,
            decision_classes,
            *([frozenset(), frozenset([tag])] for tag in self._tags),
        ]
        size = 2
        for part in parts:
            size *= len(part)
        if size > MAX_LETTERS:
            raise InputError(
                f"the rule tells {size:,} kinds of steps apart; expected at most {MAX_LETTERS:,}: divide it"
            )
        self._strides = _strides([len(part) for part in parts])
        self.letters: list[Letter] = []
        for choice in product(*parts):
            held = frozenset().union(*choice)
            self.letters += [Letter(frozenset(), held), Letter(held, held)]

    def index(self, event: Event, *, ok: bool) -> int:
        """The letter that an event is, if it went well or not."""
        strides = self._strides
        at = self._tools.get(event.tool, 0) * strides[0]
        if event.action is not None:
            at += self._actions.get(event.action, 0) * strides[1]
        if event.decision is not None:
            at += self._decisions.get(event.decision, 0) * strides[2]
        for tag, stride in zip(self._tags, strides[3:], strict=True):
            if tag in event.tags:
                at += stride
        return at * 2 + ok


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


def _strides(sizes: Sequence[int]) -> list[int]:
    strides, stride = [], 1
    for size in reversed(sizes):
        strides.append(stride)
        stride *= size
    return strides[::-1]
