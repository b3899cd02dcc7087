"""Control flow in the bodies of node functions: `interrupt`, and the targets of `Command` and `Send`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property

from guardagent.workflow.python_source.bodies import FrameworkNames, FunctionSummary, KnownStrings, flat, summarize
from guardagent.workflow.python_source.types import AnnotatedType
from guardagent.workflow.python_source.values import (
    UNKNOWN,
    Arguments,
    CallResult,
    ImportedName,
    Instance,
    Sequence,
    Table,
    Values,
    exactly,
    is_member_of,
    plain_string,
)

_INTERRUPTS = ("interrupt", "NodeInterrupt", "GraphInterrupt")
_PARENT = "__parent__"
_LISTS = frozenset({"list", "List", "tuple", "Tuple", "set", "Set", "Sequence", "Iterable", "Collection"})
_CHOICES = {"next", "goto", "route", "decision"}

WORDS = FrameworkNames(
    asks=frozenset(("langgraph", name) for name in _INTERRUPTS),
    opens=frozenset({"ToolNode", "create_agent", "create_react_agent"}),
)


ANYWHERE = CallResult(ImportedName("langgraph.types.Command"), Arguments(keywords={"goto": UNKNOWN}))
"""A command with an unknown target."""


def node_body(function: object) -> NodeBody:
    """Analyses a function that LangGraph runs."""
    body = summarize(function, WORDS)
    return NodeBody(**{field.name: getattr(body, field.name) for field in fields(body)})


@dataclass(frozen=True)
class NodeBody(FunctionSummary):
    """A function that LangGraph runs, with the targets of its return values and commands."""

    @cached_property
    def _targets(self) -> _CommandTargets:
        targets = _CommandTargets()
        for value in (
            *self.constructed,
            *(returned for returned in flat(self.return_values) if _is(returned, "Command")),
        ):
            targets.add_command(value)
        targets.add_sends(flat(self.return_values))
        if any(
            _is(item, "Command")
            for value in self.return_values.known
            for part in _several(value)
            for item in flat(part)
        ):
            targets.together |= targets.goto
            targets.open_lists |= "goto" in targets.open
        for value in self.named:
            targets.open |= {"goto", "parent_goto"} if is_member_of(value, "langgraph", "Command") else set()
            targets.open |= {"sends"} if is_member_of(value, "langgraph", "Send") else set()
        if self.cut_short:
            targets.add_unread(self.calls)
        return targets

    @property
    def goto(self) -> frozenset[str] | None:
        """The targets of its commands; None if they are not all known."""
        return None if "goto" in self._targets.open else self.known_goto

    @property
    def known_goto(self) -> frozenset[str]:
        """The known targets of its commands; there may be others."""
        return frozenset(self._targets.goto)

    @property
    def parent_goto(self) -> frozenset[str] | None:
        """The targets of its commands to the parent graph; None if they are not all known."""
        return None if "parent_goto" in self._targets.open else frozenset(self._targets.parent_goto)

    @property
    def sends(self) -> frozenset[str]:
        """The nodes that it sends to by `Send`; there can be others if `sends_to_unknown`."""
        return frozenset(self._targets.sends)

    @property
    def sends_to_unknown(self) -> bool:
        return "sends" in self._targets.open

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons why not all targets are known."""
        return (*self.unknown, *self._targets.reasons)

    @property
    def returned_together(self) -> frozenset[str] | None:
        """The strings in lists that it can return, which name nodes that all run; None if they are not all known.

        A result that the source does not determine counts as one string if an annotation or another result is one.
        """
        listed = _listed(self.return_values)
        names = [part for part in self.return_types if _is_name(part)]
        is_one = bool(names) or any(map(_is_string, self.return_values.known))
        unread = not self.strings.complete and (not is_one or any(map(_is_list, names)))
        return None if unread or not listed.complete else listed.known

    @property
    def goto_together(self) -> frozenset[str] | None:
        """The targets of its commands in lists, which all run; None if they are not all known.

        A target that the source does not determine counts as one string if another target is one.
        """
        return None if self._targets.open_lists else frozenset(self._targets.together)

    @property
    def returns(self) -> frozenset[str] | None:
        """The strings that it can return; None if they are not all known."""
        return self.strings.known if self.strings.complete else None

    @property
    def declared_strings(self) -> frozenset[str]:
        """The strings in its return annotation, by `Literal` or an enumeration."""
        return _literal_strings(return_type for return_type in self.return_types if "Command" not in return_type.within)

    @property
    def declared_goto(self) -> frozenset[str]:
        """The strings in its annotation `Command[Literal[...]]`."""
        return _literal_strings(return_type for return_type in self.return_types if "Command" in return_type.within)

    @property
    def commands_only(self) -> bool:
        """Whether it returns nothing but commands."""
        flat_ones = list(flat(self.return_values))
        commands = [
            "Command" in part.within or is_member_of(part.type, "langgraph", "Command") for part in self.return_types
        ]
        return (bool(commands) and all(commands)) or (
            bool(flat_ones) and all(_is(value, "Command") for value in flat_ones)
        )

    @property
    def updates_choice_only(self) -> bool:
        """Whether its commands record at most the choice itself in the state, as in `update={"next": goto}`."""
        commands = [
            value for value in flat(self.return_values) if _is(value, "Command") and isinstance(value, CallResult)
        ]
        updates = [
            command.arguments.get("update") for command in (*commands, *self.constructed) if _is(command, "Command")
        ]
        return all(map(_is_choice, updates))

    @property
    def gated_goto(self) -> frozenset[str]:
        """The targets of the commands that it returns only after asking a person."""
        after_approval, without_approval = set[str](), set[str]()
        for values, approved in self.ends:
            targets = _CommandTargets()
            flat_ones = list(flat(values))
            for command in (value for value in flat_ones if _is(value, "Command")):
                targets.add_command(command, any_graph=True)
            targets.add_sends(flat_ones)
            if targets.open or targets.sends or not KnownStrings.of(values).complete:
                return frozenset()
            (after_approval if approved else without_approval).update(targets.goto)
        return frozenset(after_approval - without_approval)


@dataclass
class _CommandTargets:
    """The targets of commands and sends; `open` names the fields that may have others.

    `together` are those in lists, so that several run.
    """

    goto: set[str] = field(default_factory=set)
    parent_goto: set[str] = field(default_factory=set)
    sends: set[str] = field(default_factory=set)
    together: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    open_lists: bool = False
    reasons: list[str] = field(default_factory=list)

    def add_unread(self, calls: Iterable[str]) -> None:
        """Allows for any targets of the commands and sends that some calls construct, by their names."""
        made = {call.rpartition(".")[2] for call in calls}
        self.open |= {"goto", "parent_goto"} if "Command" in made else set()
        self.open |= {"sends"} if "Send" in made else set()
        if made & {"Command", "Send"}:
            self.reasons.append("its code is too long to be read to its end")

    def add_command(self, command: object, *, any_graph: bool = False) -> None:
        """Records a `Command` or a `Send`."""
        line = getattr(command, "line", 0)
        if _is(command, "Send"):
            self.add_sends([command])
        goto, graph = _goto_and_graph(command) if _is(command, "Command") else (None, exactly(None))
        if goto is None:
            return
        if any_graph or _may_be_own(graph):
            self._add_targets("goto", self.goto, goto, line)
            self.add_sends(flat(goto), line)
        if not any_graph and _may_be_parent(graph):
            self._add_targets("parent_goto", self.parent_goto, goto, line)
            for send in (command for command in flat(goto) if _is(command, "Send")):
                self.parent_goto |= _strings(_send_target(send))
                self.together |= _strings(_send_target(send))

    def _add_targets(self, field_name: str, known: set[str], goto: Values, line: int) -> None:
        names = KnownStrings.of(goto)
        known |= names.known
        listed = _listed(goto)
        self.together |= listed.known
        is_one = goto.complete or any(map(_is_string, goto.known))
        self.open_lists |= not (listed.complete and is_one)
        if not names.complete:
            self.open.add(field_name)
        if line and not names.complete:
            self.reasons.append(f"line {line}: the target of a command")

    def add_sends(self, values: Iterable[object], line: int | None = None) -> None:
        """Records the `Send` objects among some values, at the line of their command or their own."""
        for value in values:
            target = _send_target(value) if _is(value, "Send") else exactly()
            self.sends |= _strings(target)
            if target.strings is None:
                self.open.add("sends")
                place = getattr(value, "line", 0) if line is None else line
                self.reasons.append(f"line {place}: the target of a Send")


def _is(value: object, name: str) -> bool:
    """Whether a value is a `Command` or `Send` of the given name, live or created by the code."""
    return is_member_of(value.callee if isinstance(value, CallResult) else type(value), "langgraph", name)


def _send_target(send: object) -> Values:
    if isinstance(send, CallResult):
        return send.arguments.get("node", 0) or Values(complete=False)
    return exactly(getattr(send, "node", None))


def _is_choice(update: Values | None) -> bool:
    """Whether an update of the state has no other keys than such as `next` and `goto`."""
    if update is None or update.known == (None,):
        return True
    keys = [KnownStrings.of(key) for value in update.known if isinstance(value, Table) for key, _ in value.items]
    names = {name for key in keys for name in key.known}
    return update.complete and bool(names) and all(set(name.split("_")) & _CHOICES for name in names)


def _goto_and_graph(command: object) -> tuple[Values | None, Values]:
    """The target of a command, and the graph it addresses."""
    if isinstance(command, CallResult):
        return command.arguments.get("goto"), command.arguments.get("graph") or exactly(None)
    return exactly(getattr(command, "goto", ())), exactly(getattr(command, "graph", None))


def _may_be_own(graph: Values) -> bool:
    return not graph.complete or any(value is None or value != _PARENT for value in graph.known)


def _may_be_parent(graph: Values) -> bool:
    return not graph.complete or any(isinstance(value, str) and value == _PARENT for value in graph.known)


def _strings(values: Values) -> frozenset[str]:
    return frozenset(plain_string(value) for value in values.known if isinstance(value, str))


def _listed(values: Values) -> KnownStrings:
    """The strings in lists that can name several nodes."""
    parts = [KnownStrings.of(part) for value in values.known for part in _several(value)]
    return KnownStrings(frozenset[str]().union(*(part.known for part in parts)), all(part.complete for part in parts))


def _several(value: object) -> tuple[Values, ...]:
    """The items of a list; none if it has at most one."""
    if isinstance(value, Sequence):
        return () if value.ordered and len(value.items) < 2 else value.items
    items = value if isinstance(value, list | tuple | set | frozenset) else ()
    return tuple(map(exactly, items)) if len(items) > 1 else ()


def _is_name(part: AnnotatedType) -> bool:
    """Whether an annotation allows for names of nodes, single or in a list."""
    return (part.type is str or part.values is not None) and "Command" not in part.within


def _is_list(part: AnnotatedType) -> bool:
    return not _LISTS.isdisjoint(part.within)


def _is_string(value: object) -> bool:
    """Whether a result is a string, known or not."""
    return isinstance(value, str) or (isinstance(value, Instance) and value.of is str)


def _literal_strings(parts: Iterator[AnnotatedType]) -> frozenset[str]:
    return frozenset[str]().union(*(_strings(part.values) for part in parts if part.values is not None))
