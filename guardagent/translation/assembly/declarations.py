"""Merges the declarations of several drafts. A name with two meanings gets another name in the later draft."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from guardagent.policy.file.constants import RESERVED
from guardagent.translation.assembly.parts import AssemblyPart, Declaration, DeclaredName, bound_names
from guardagent.translation.drafts import Problem


class NameTable:
    """The names of the drafts so far.

    Args:
        declared: declarations that are there before the first draft.
    """

    def __init__(self, declared: Mapping[DeclaredName, Declaration]) -> None:
        self.declared = dict(declared)
        self.problems: list[Problem] = []
        self._bound = bound_names(declared.values())

    def add(self, part: AssemblyPart, sentences: Sequence[int]) -> AssemblyPart:
        """Adds the names of a draft, and returns the draft with names of one meaning.

        A name that cannot be replaced becomes a problem of the draft.
        """
        while (key := self._clash(part)) is not None:
            if not _is_replaceable(part, key):
                self.problems.append(_problem(key, part, sentences))
                break
            part = part.renamed(key, self._free(part, key))
        self.declared |= {key: one for key, one in part.declared.items() if key not in self.declared}
        self._bound |= part.bound
        return part

    def _clash(self, part: AssemblyPart) -> DeclaredName | None:
        """A name of a draft that has another meaning so far."""
        for key, one in part.declared.items():
            if self.declared.get(key, one).meaning != one.meaning or (key[0] == "value" and key[1] in self._bound):
                return key
        bound = sorted(part.bound)
        return next((("value", one) for one in bound if ("value", one) in self.declared), None)

    def _free(self, part: AssemblyPart, key: DeclaredName) -> str:
        space, name = key
        taken = part.names | self._bound | RESERVED
        meaning = part.declared[key].meaning if key in part.declared else None
        for found in (f"{name}_{at}" for at in count(2)):
            there = self.declared.get((space, found))
            if found not in taken and (there is None or there.meaning == meaning):
                return found
        raise AssertionError(name)


def _is_replaceable(part: AssemblyPart, key: DeclaredName) -> bool:
    """Whether all places of a name are names in the syntax tree: labels, and tags of labels, are in strings too."""
    space, name = key
    labels = [one for one in part.declared.values() if one.section == "labels"]
    return space != "label" and not (space == "tag" and any(name in one.tags() for one in labels))


def _problem(key: DeclaredName, part: AssemblyPart, sentences: Sequence[int]) -> Problem:
    section, name = part.declared[key].section, key[1]
    message = f"{name!r} in '{section}:' has another meaning in the rules of other sentences; choose another name"
    return Problem("name", message, sentences=tuple(sentences), fatal=True)
