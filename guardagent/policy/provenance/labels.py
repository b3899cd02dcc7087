"""The labels of a policy file: which tools, fields, messages and facts each of them names.

    get_webpage             the output of a tool
    read_inbox[*].body      a field of it; `[*]` stands for all items of a list, as does a field of a list
    @readers.text           the same of each tool of a tag
    tool:request            a tool whose name is a word of this list
    request                 the messages of the user
    messages.system         the messages of another role
    fact.contacts           a fact of the host

A label is a set of such sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from guardagent.policy.language.values import StringSet

MODEL = "model"
"""The label of tokens that occur in nothing that the session recorded."""

ALL_ITEMS = None  # the step `[*]` of a path
Step = str | int | None
Path = tuple[Step, ...]
Kind = Literal["tool", "messages", "fact"]

_STEPS = re.compile(r"(?:\.[^.\[\]\s*@]+|\[(?:\*|-?[0-9]{1,9})\])*")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\*|-?[0-9]+)\]")
_ROLE, _FACT = re.compile(r"[\w-]+"), re.compile(r"\w+(?:\.\w+)*")


class InvalidSourceError(ValueError):
    """A source of a label is not written as one; the message says how."""


@dataclass(frozen=True, slots=True)
class LabelSource:
    """A source of a label.

    Attributes:
        kind: what it names.
        name: the text of a tool with its path, a role, or a fact.
    """

    kind: Kind
    name: str

    @classmethod
    def read(cls, text: str) -> LabelSource:
        """Reads a source.

        Raises:
            InvalidSourceError: it is not written as one.
        """
        if text == "request":
            return cls("messages", "user")
        head, _, rest = text.partition(".")
        if head == "messages" and _ROLE.fullmatch(rest):
            return cls("messages", rest)
        if head == "fact" and _FACT.fullmatch(rest):
            return cls("fact", rest)
        tool = text.removeprefix("tool:")
        if head in ("messages", "fact") or not re.fullmatch(r"[^\s.\[\]*][^\s\[\]*]*", tool.partition("[")[0]):
            raise InvalidSourceError
        if not _STEPS.fullmatch(tool[len(tool.partition("[")[0]) :]):
            raise InvalidSourceError
        return cls("tool", tool)

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that it can name, the most likely first: `a.b` is the tool `a.b`, or the field `b` of `a`."""
        if self.kind != "tool":
            return ()
        parts = self.name.partition("[")[0].split(".")
        return tuple(".".join(parts[:number]) for number in range(1, len(parts) + 1))

    def path_of(self, tool: str) -> Path | None:
        """The path in the outputs of a tool; None if it does not name the tool."""
        if self.kind != "tool" or not self.name.startswith(tool):
            return None
        rest = self.name[len(tool) :]
        return _path(rest) if _STEPS.fullmatch(rest) else None


def _path(text: str) -> Path:
    steps = [(match[1], match[2]) for match in _STEP.finditer(text)]
    return tuple(name or (ALL_ITEMS if item == "*" else int(item)) for name, item in steps)


@dataclass(frozen=True)
class DeclaredLabels:
    """The labels of a policy file. A set of labels is a number, with a bit for each label.

    Attributes:
        sources: the sources of each label.
        propagating: the labels that pass from a tool's arguments to its output.
        ids: the expressions for the policy's ids.
    """

    sources: Mapping[str, Sequence[LabelSource]] = field(default_factory=dict)
    propagating: frozenset[str] = frozenset()
    ids: tuple[str, ...] = ()
    _paths: dict[str, tuple[tuple[Path, int], ...]] = field(default_factory=dict, compare=False, repr=False)
    _sets: dict[int, StringSet] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return (MODEL, *self.sources)

    @property
    def declared(self) -> frozenset[str]:
        return frozenset(self.sources)

    @property
    def tools(self) -> frozenset[str]:
        """The tools that the labels can name."""
        return frozenset(tool for sources in self.sources.values() for one in sources for tool in one.tools)

    def bits(self, labels: Iterable[str]) -> int:
        return sum(self.bit_of[label] for label in set(labels))

    @cached_property
    def bit_of(self) -> Mapping[str, int]:
        """The bit of each label."""
        return {label: 1 << at for at, label in enumerate(self.names)}

    def set_of(self, bits: int) -> StringSet:
        found = self._sets.get(bits)
        if found is None:
            found = StringSet(name for at, name in enumerate(self.names) if bits >> at & 1)
            self._sets[bits] = found
        return found

    def paths_of(self, tool: str) -> tuple[tuple[Path, int], ...]:
        """(path, labels) for each source in the outputs of a tool."""
        found = self._paths.get(tool)
        if found is None:
            of_tool = ((one.path_of(tool), self.bits([label])) for label, one in self._all())
            found = tuple((path, bits) for path, bits in of_tool if path is not None)
            if len(self._paths) < 10_000:
                self._paths[tool] = found
        return found

    def _all(self) -> list[tuple[str, LabelSource]]:
        return [(label, one) for label, sources in self.sources.items() for one in sources]

    def of_tool(self, tool: str) -> int:
        """All labels that an output of a tool can have."""
        found = 0
        for _, bits in self.paths_of(tool):
            found |= bits
        return found

    @cached_property
    def roles(self) -> Mapping[str, int]:
        """The labels of the messages of each role."""
        return self._by_name("messages")

    @cached_property
    def facts(self) -> Mapping[tuple[str, ...], int]:
        """The labels of each fact."""
        return {tuple(name.split(".")): bits for name, bits in self._by_name("fact").items()}

    @cached_property
    def passing(self) -> int:
        """The propagating labels."""
        return self.bits(self.propagating)

    def _by_name(self, kind: Kind) -> dict[str, int]:
        found: dict[str, int] = {}
        for label, one in self._all():
            if one.kind == kind:
                found[one.name] = found.get(one.name, 0) | self.bits([label])
        return found


NO_LABELS = DeclaredLabels()
