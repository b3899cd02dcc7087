"""Readers of sources: the labels of a policy file, the strings and numbers of a value, and the host's messages.

A label is a set of sources, which name tools, fields, messages and facts:

    get_webpage             the output of a tool
    read_inbox[*].body      a field of it; `[*]` stands for all items of a list, as does a field of a list
    @readers.text           the same of each tool of a tag
    tool:request            a tool whose name is a word of this list
    request                 the messages of the user
    messages.system         the messages of another role
    fact.contacts           a fact of the host

A source in outputs may have a condition on the fields of each item: those of the last list on its path, or the output.

A string that holds a JSON object or list stands for its content.

A host may show a window of its messages, summarise old ones, or let a user edit one. A message that was read stays
read. Only messages after the last one that was read are new; any other unknown one may be forged, so its labels are
uncertain.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, time
from decimal import Decimal
from enum import Enum
from functools import cached_property
from hashlib import blake2b
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from uuid import UUID

from guardagent.policy.language.values import StringSet, Truth, Unknown, as_read, kind_of, not_boolean, parsed
from guardagent.policy.provenance.amounts import number_key

if TYPE_CHECKING:
    from guardagent.policy.file.source_tree import SourceText

# --- labels

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
class LabelCondition:
    """The condition under which an item of an output has a label.

    Attributes:
        text: the condition as written.
        scopes: the prefixes of the names that it can use without a prefix.
        labels: the labels that it reads, once compiled.
        test: decides on an item, with the context of the session; None in policies for inspection.
    """

    text: SourceText
    scopes: tuple[str, ...] = ("",)
    labels: frozenset[str] = frozenset()
    test: Callable[[Any, Any], Any] | None = field(default=None, compare=False)

    def holds(self, context: Any, item: Any) -> Truth:
        """Whether an item has the label. Unknown if a field is missing, or the condition raises an error."""
        if self.test is None:
            return Unknown("the condition is not compiled")
        try:
            truth = self.test(context, item)
        except Exception as error:  # noqa: BLE001 - a function of the operator may raise anything
            return Unknown(f"the condition raised {type(error).__name__}")
        return truth if type(truth) is bool else not_boolean(truth)


@dataclass(frozen=True, slots=True)
class LabelSource:
    """A source of a label.

    Attributes:
        kind: what it names.
        name: the text of a tool with its path, a role, or a fact.
        when: the condition on each item, if it has one.
        tag: the tag that has the tool, if the source is written with one.
    """

    kind: Kind
    name: str
    when: LabelCondition | None = None
    tag: str | None = field(default=None, compare=False)

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


LabelledPath = tuple[Path, int, LabelCondition | None]


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
    _paths: dict[str, tuple[LabelledPath, ...]] = field(default_factory=dict, compare=False, repr=False)
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
        return frozenset(tool for sources in self.sources.values() for source in sources for tool in source.tools)

    def with_conditions(self, change: Callable[[LabelCondition], LabelCondition]) -> DeclaredLabels:
        """These labels with changed conditions."""
        changed = {
            label: tuple(
                source if source.when is None else replace(source, when=change(source.when)) for source in sources
            )
            for label, sources in self.sources.items()
        }
        return DeclaredLabels(changed, self.propagating, self.ids)

    def with_tags(self, tags: Mapping[str, Iterable[str]], changed: Mapping[str, Iterable[str]]) -> DeclaredLabels:
        """These labels with other tools in some tags, in all sources that are written with one of them."""
        sources: dict[str, list[LabelSource]] = {}
        for label, of in self.sources.items():
            own = sources.setdefault(label, [])
            for source in of:
                if source.tag is None or source.tag not in changed:
                    own.append(source)
                    continue
                old = max((tool for tool in tags[source.tag] if source.path_of(tool) is not None), key=len)
                rest = source.name[len(old) :]
                other = [replace(source, name=tool + rest) for tool in changed[source.tag]]
                own += [source for source in other if source not in own]
        return replace(self, sources=sources, _paths={}, _sets={})

    def under(self, prefix: str) -> DeclaredLabels:
        """The labels of an included file with a prefix; they keep their names."""
        changed = self.with_conditions(lambda when: replace(when, scopes=tuple(prefix + name for name in when.scopes)))
        sources = {
            label: tuple(source if source.tag is None else replace(source, tag=prefix + source.tag) for source in of)
            for label, of in changed.sources.items()
        }
        return replace(changed, sources=sources)

    def bits(self, labels: Iterable[str]) -> int:
        return sum(self.bit_of[label] for label in set(labels))

    @cached_property
    def bit_of(self) -> Mapping[str, int]:
        """The bit of each label."""
        return {label: 1 << at for at, label in enumerate(self.names)}

    def set_of(self, bits: int) -> StringSet:
        string_set = self._sets.get(bits)
        if string_set is None:
            string_set = StringSet(name for at, name in enumerate(self.names) if bits >> at & 1)
            self._sets[bits] = string_set
        return string_set

    def paths_of(self, tool: str) -> tuple[LabelledPath, ...]:
        """(path, labels, condition) for each source in the outputs of a tool."""
        paths = self._paths.get(tool)
        if paths is None:
            of_tool = ((source.path_of(tool), self.bits([label]), source.when) for label, source in self._all())
            paths = tuple((path, bits, when) for path, bits, when in of_tool if path is not None)
            if len(self._paths) < 10_000:
                self._paths[tool] = paths
        return paths

    def _all(self) -> list[tuple[str, LabelSource]]:
        return [(label, source) for label, sources in self.sources.items() for source in sources]

    def of_tool(self, tool: str) -> int:
        """All labels that an output of a tool can have."""
        length = 0
        for _, bits, _ in self.paths_of(tool):
            length |= bits
        return length

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
        places: dict[str, int] = {}
        for label, source in self._all():
            if source.kind == kind:
                places[source.name] = places.get(source.name, 0) | self.bits([label])
        return places


NO_LABELS = DeclaredLabels()


# --- the strings and numbers of a value

DEPTH = 100
_SCALARS = frozenset({bool, type(None)})
_TRANSPARENT = (Enum, bytes, bytearray, set, frozenset, date, time, UUID, PurePath)  # arguments that a rule can read
_NUMBERS = frozenset({int, float, Decimal})
_MAPPINGS, _LISTS = frozenset({dict, MappingProxyType}), frozenset({list, tuple})
_OPENING = frozenset({"{", "[", " ", "\t", "\r", "\n"})  # the first character of a JSON object or list


class ItemLabels(NamedTuple):
    """The labels of a source with a condition.

    Attributes:
        of: returns the labels of an item.
        item: the last item of a list on the path so far, or the whole output.
    """

    of: Callable[[Any], int]
    item: Any


PartLabels = int | ItemLabels
Paths = tuple[tuple[int, Path, PartLabels], ...]  # (the number of a source, the rest of its path, its labels)


def is_one_string(value: Any) -> bool:
    """Whether a value is a string that stands for no other value."""
    return type(value) is str and value[:1] not in _OPENING


class Leaves:
    """The leaves of a value, or of the part of it that has some labels.

    Attributes:
        strings: the strings.
        names: the keys of its mappings: only their tokens count.
        numbers: the keys of its numbers.
    """

    __slots__ = ("names", "numbers", "strings")

    def __init__(self) -> None:
        self.strings: list[str] = []
        self.names: set[str] = set()
        self.numbers: set[str] = set()

    @property
    def size(self) -> int:
        """The number of characters."""
        return sum(map(len, self.strings)) + sum(map(len, self.names)) + sum(map(len, self.numbers))


class LeafReader:
    """Collects the leaves of a value by their labels.

    Attributes:
        by_labels: the leaves with each set of labels.
        found_labels: the number of each source whose path leads to a value, or to an empty list -> the labels there.
        complete: whether the whole value could be read.
        opaque: whether it contains an object that is read by its attributes and its string.
    """

    def __init__(self) -> None:
        self.by_labels: dict[int, Leaves] = {}
        self.found_labels: dict[int, int] = {}
        self.complete, self.opaque = True, False
        self._has_conditions = False

    def read(
        self, value: Any, labels: int = 0, sources: Sequence[tuple[Path, int | Callable[[Any], int]]] = ()
    ) -> None:
        """Collects the leaves of a value.

        Args:
            value: the value.
            labels: the labels of all of it.
            sources: (path, labels) of labelled parts; a function returns the labels of an item.
        """
        self._has_conditions = any(callable(bits) for _, bits in sources)
        parts = ((path, ItemLabels(bits, value) if callable(bits) else bits) for path, bits in sources)
        self._read(value, labels, tuple((at, path, part) for at, (path, part) in enumerate(parts)), 0)
        for leaves in self.by_labels.values():
            leaves.names = set(map(str, leaves.names))

    def _read(self, value: Any, labels: int, paths: Paths, depth: int) -> None:
        if paths:
            if self._has_conditions:
                paths = tuple((at, _to_items(path, part, value), part) for at, path, part in paths)
            for at, path, part in paths:
                if not path:
                    bits = part if isinstance(part, int) else part.of(part.item)
                    self.found_labels[at] = self.found_labels.get(at, 0) | bits
                    labels |= bits
            paths = tuple(path for path in paths if path[1])
        if not paths:
            self._collect(value, labels, depth)
        elif type(value) is str:
            self._read_text(value, labels, paths, depth)
        elif type(value) not in _SCALARS:
            self._read_other(value, labels, paths, depth)

    def _collect(self, value: Any, labels: int, depth: int) -> None:
        """Reads a value in which nothing has labels of its own."""
        leaves = self._of(labels)
        left: list[Iterable[Any]] = [(value,)]
        while left:
            for part in left.pop():
                kind = type(part)
                if kind is str:
                    if part[:1] in _OPENING:
                        self._read_text(part, labels, (), depth)
                    else:
                        leaves.strings.append(part)
                elif kind in _NUMBERS:
                    leaves.numbers.add(number_key(part))
                elif kind in _MAPPINGS:
                    leaves.names.update(part)
                    left.append(part.values())
                elif kind in _LISTS:
                    left.append(part)
                elif kind not in _SCALARS:
                    self._read_other(part, labels, (), depth + 1)

    def _read_text(self, text: str, labels: int, paths: Paths, depth: int) -> None:
        if depth < DEPTH and text.lstrip()[:1] in ("{", "["):
            content = parsed(text)
            if type(content) is not Unknown:
                if paths:
                    self._read_other(content, labels, paths, depth + 1)
                else:
                    self._collect(content, labels, depth + 1)
                return
        self._of(labels).strings.append(text)

    def _of(self, labels: int) -> Leaves:
        leaves = self.by_labels.get(labels)
        if leaves is None:
            leaves = self.by_labels[labels] = Leaves()
        return leaves

    def _read_other(self, value: Any, labels: int, paths: Paths, depth: int) -> None:
        kind = kind_of(value)
        if depth > DEPTH:
            self.complete = False
        elif kind == "mapping":
            self._of(labels).names.update(map(str, value))
            for name, item in value.items():
                inner = tuple((at, path[1:], bits) for at, path, bits in paths if path[0] == name) if paths else ()
                self._read(item, labels, inner, depth + 1)
        elif kind in ("list", "set"):
            self._read_items(value, labels, paths, depth)
        elif kind == "number":
            self._of(labels).numbers.add(number_key(value))
        elif kind == "text":
            self._read_text(str(value), labels, paths, depth)
        elif kind is None and value is not None:
            self._read_object(value, labels, paths, depth)

    def _read_items(self, items: Iterable[Any], labels: int, paths: Paths, depth: int) -> None:
        values = list(items)
        if not paths:
            for item in values:
                self._read(item, labels, (), depth + 1)
            return
        named = tuple(path for path in paths if type(path[1][0]) is str)  # a field of a list is that of all its items
        if not values:
            self.found_labels |= {
                at: part if isinstance(part, int) else 0 for at, path, part in paths if type(path[0]) is not int
            }
        for place, item in enumerate(values):
            here = (ALL_ITEMS, place, place - len(values))
            inner = tuple((at, path[1:], bits) for at, path, bits in paths if path[0] in here) + named
            if self._has_conditions:
                inner = tuple((at, path, _of_item(part, item)) for at, path, part in inner)
            self._read(item, labels, inner, depth + 1)

    def _read_object(self, value: Any, labels: int, paths: Paths, depth: int) -> None:
        """Reads a model, a dataclass or another object of the host by its content."""
        self.opaque = self.opaque or not isinstance(value, _TRANSPARENT)
        try:
            content = _content(value)
        except Exception:  # noqa: BLE001 - a host's object may raise anything
            self.complete = False
            return
        self._read(content, labels, paths, depth + 1)


def _of_item(part: PartLabels, item: Any) -> PartLabels:
    return part if isinstance(part, int) else part._replace(item=item)


def _to_items(path: Path, part: PartLabels, value: Any) -> Path:
    """A path that ends at a list and has a condition goes on to the items of the list."""
    if path or isinstance(part, int):
        return path
    read = parsed(value) if type(value) is str and value.lstrip()[:1] == "[" else as_read(value)
    return (ALL_ITEMS,) if kind_of(read) in ("list", "set") else path


def _content(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    fields = getattr(type(value), "model_fields", None)
    if isinstance(fields, dict):  # a serializer of a model may leave out what the agent sees
        if fields.keys() == {"root"}:
            return value.root
        return {name: getattr(value, name) for name in fields} | (getattr(value, "model_extra", None) or {})
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, set | frozenset):
        return list(value)
    if hasattr(value, "__dict__"):
        return vars(value) if str(value) == object.__repr__(value) else [str(value), vars(value)]
    return str(value)


# --- messages

HOST_ROLES = frozenset({"user", "system", "developer"})
"""The roles whose messages no model wrote and no tool."""


class HostMessage(NamedTuple):
    """A message.

    Attributes:
        role: its role.
        text: its text.
        certain: whether it followed the last message that was read.
    """

    role: str
    text: str
    certain: bool = True


class MessageReader:
    """Reads the messages of a host as they come.

    Args:
        roles: the roles of the messages that count.
    """

    def __init__(self, roles: frozenset[str]) -> None:
        self._roles = roles
        self._last: tuple[int, str] | None = None  # the number of messages, and the digest of the last one
        self._last_message: tuple[str, str] | None = None
        self._known: set[str] = set()
        self._object: Any = None  # the last message itself, its number, its content and its role
        self._number, self._content, self._role = 0, "", ""

    def copied(self) -> MessageReader:
        copy = MessageReader(self._roles)
        copy._last, copy._last_message, copy._known = self._last, self._last_message, set(self._known)
        return copy

    def is_current(self, messages: Sequence[Any]) -> bool:
        """Whether nothing is new, as far as identity shows: the common case."""
        last = messages[-1]
        return (
            last is self._object
            and len(messages) == self._number
            and type(last) is dict
            and last.get("content") is self._content
            and last.get("role") == self._role
        )

    def news(self, messages: Sequence[Any]) -> list[HostMessage]:
        """The messages that were not read before; there is at least one message."""
        number = len(messages)
        last = messages[number - 1]
        if self._last is not None and number == self._last[0] and self._last_message == _parts(last):
            return []
        start = self._start(messages)
        readers = [self._read(message) for message in messages[start or 0 :]]
        self._last, self._last_message = (number, _digest(*_parts(last))), _parts(last)
        if type(last) is dict and type(last.get("content")) is str:
            self._object, self._number, self._content, self._role = last, number, last["content"], last["role"]
        certain = start is not None
        new = [HostMessage(role, text, certain) for role, text in filter(None, readers)]
        self._known.update(_digest(message.role, message.text) for message in new)
        return new

    def _start(self, messages: Sequence[Any]) -> int | None:
        """The place after the last message that was read; None if it is not there any more."""
        if self._last is None:
            return 0
        number, digest = self._last
        places: tuple[int, ...] = (number, *range(len(messages), 0, -1))
        for place in places:
            if 0 < place <= len(messages) and _digest(*_parts(messages[place - 1])) == digest:
                return place
        return None

    def _read(self, message: Any) -> tuple[str, str] | None:
        role, text = _parts(message)
        return (role, text) if role in self._roles and text and _digest(role, text) not in self._known else None

    def dumped(self) -> Any:
        """The place in the messages, as JSON."""
        return None if self._last is None else list(self._last)

    def loaded(self, place: Any, messages: Sequence[HostMessage]) -> None:
        """Restores the place, after which these messages count as read."""
        self._last = None if place is None else (place[0], place[1])
        self._last_message = None
        self._known.update(_digest(message.role, message.text) for message in messages)


def _parts(message: Any) -> tuple[str, str]:
    """(role, text) of a message.

    Raises:
        ValueError: it is not a chat message.
    """
    role = message.get("role") if isinstance(message, Mapping) else getattr(message, "role", None)
    content = message.get("content") if isinstance(message, Mapping) else getattr(message, "content", None)
    if not isinstance(role, str):
        raise ValueError("a message without a role; expected a mapping with 'role' and 'content'")  # noqa: TRY004 - one kind
    if isinstance(content, list | tuple):
        parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
        return role, "\n".join(part for part in parts if isinstance(part, str))
    return role, content if isinstance(content, str) else ""


def _digest(role: str, text: str) -> str:
    return blake2b(f"{role}\x00{text}".encode("utf-8", "replace"), digest_size=16).hexdigest()
