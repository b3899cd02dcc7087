"""Conditions of Cedar in the policy language.

Cedar skips a policy that errs, such as on a missing attribute, and reads from left to right until the result is known.
Unknown conditions deny here. So a permit must never become true where Cedar errs: `a || b` with an `a` that can err is
`a || !a && b`, which is unknown with `a`. A `forbid` that errs denies here, unless it is to be skipped as by Cedar.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from guardagent.translation.imports.cedar_syntax import entity_parts, like_pattern, unquoted

INPUT, CALLED = "input", "called"
"""The parameters of a definition: the arguments of the call, and its tool."""
_RESERVED = frozenset("AND OR NOT true false True False in matches within state".split())
_PLAIN = re.compile(r"[A-Za-z_]\w*")
_COMPARISONS = {"lessThan": "<", "lessThanOrEqual": "<=", "greaterThan": ">", "greaterThanOrEqual": ">="}
_NUMBERS = frozenset(("number", "minus", "arithmetic", "call", "count", "total"))
_RECORDS = (INPUT, "fact(context)", "fact(principal).attrs", "fact(resource).attrs")
_ERRS = frozenset(("field", "method", "call", "arithmetic", "minus", "like"))


@dataclass(frozen=True, slots=True)
class ActionNames:
    """The tools of actions.

    Attributes:
        groups: the actions in each group.
        target: the target of a gateway whose tools the agent calls by their short names.
    """

    groups: Mapping[str, Collection[str]]
    target: str

    def tools_of(self, names: Sequence[str], operator: str, *, is_list: bool) -> tuple[str, ...] | None:
        """Returns the tools of actions, or of the groups that `in` names; None if those are unknown."""
        if operator == "in" and not is_list and names[0] not in self.groups:
            return None
        inner = [name for group in names if operator == "in" for name in sorted(self.groups.get(group, ()))]
        prefix = f"{self.target}___" if self.target else ""
        return tuple(dict.fromkeys(name.removeprefix(prefix) for name in (*names, *inner)))


Polarity = bool | None
"""Whether a condition is under an even number of negations; None for both."""
EventWriter = Callable[["ConditionWriter", Any], str]
"""Writes a condition on earlier calls; an empty string for any other node."""


class UntranslatableError(Exception):
    """The policy language has no form for a part of a condition."""


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def member(base: str, name: str) -> str:
    """The text of a field of a value."""
    return f"{base}.{name}" if _PLAIN.fullmatch(name) and name not in _RESERVED else f"{base}[{quoted(name)}]"


def joined(parts: Sequence[str], operator: str) -> str:
    return parts[0] if len(parts) == 1 else f"({f' {operator} '.join(parts)})"


def opposite(text: str) -> str:
    return f"!{text}" if text.startswith("(") or _simple(text) else f"!({text})"


def kind_of(tree: Any) -> str:
    return str(getattr(tree, "data", ""))


@dataclass(slots=True)
class ConditionWriter:
    """Writes the conditions of one policy, on the parameters `INPUT` and `CALLED`.

    Attributes:
        exact: whether a condition must be unknown wherever Cedar errs.
        tools_of: the tools of actions, as `ActionNames.tools_of`.
        event: writes a condition on earlier calls.
        tools: the tools of the policy; None for all.
        names: the texts of variables.
        labels: the numbers of the labels of earlier calls.
    """

    exact: bool
    tools_of: Callable[..., tuple[str, ...] | None]
    event: EventWriter | None = None
    tools: tuple[str, ...] | None = None
    names: dict[str, str] = field(default_factory=dict)
    labels: Iterator[int] = field(default_factory=lambda: count(1))

    # --- conditions

    def condition(self, tree: Any, positive: Polarity) -> str:
        """Returns the text of a condition.

        Raises:
            UntranslatableError: the language cannot say it.
        """
        write = getattr(self, f"_c_{kind_of(tree)}", None)
        return write(tree, positive) if write else self.value(tree)

    def _c_any_of(self, tree: Any, positive: Polarity) -> str:
        return self._chain(tree.children, "||", positive, guarded=positive is not False)

    def _c_all_of(self, tree: Any, positive: Polarity) -> str:
        return self._chain(tree.children, "&&", positive, guarded=positive is not True)

    def _chain(self, items: Sequence[Any], operator: str, positive: Polarity, *, guarded: bool) -> str:
        parts, before = list[str](), list[str]()
        inner, guard = ("&&", "||")[operator == "&&"], self.exact and guarded
        for item in items:
            text = self.condition(item, positive)
            parts.append(joined([*before, text], inner) if before else text)
            if guard and can_err(item):
                before.append(opposite(text))
        return joined(parts, operator)

    def _c_negation(self, tree: Any, positive: Polarity) -> str:
        text = self.condition(tree.children[0], None if positive is None else not positive)
        return opposite(text)

    def _c_conditional(self, tree: Any, positive: Polarity) -> str:
        first, second = self.condition(tree.children[1], positive), self.condition(tree.children[2], positive)
        test = self.condition(tree.children[0], None)
        other = f" || {opposite(test)} && ({test})" if self.exact and positive is not True else ""  # unknown with it
        return f"({test} && {first} || {opposite(test)} && {second}{other})"

    def _c_compared(self, tree: Any, _: Polarity) -> str:
        left, operator, right = tree.children
        if operator == "==":
            return self._equal(left, right)
        return opposite(self._equal(left, right)) if operator == "!=" else self._ordered(left, operator, right)

    def _ordered(self, left: Any, operator: str, right: Any) -> str:
        """A comparison of numbers: that of two strings is an error in Cedar, and unknown by the added zero."""
        zero = "" if {kind_of(left), kind_of(right)} & _NUMBERS else " + 0"
        return f"{self.value(left)}{zero} {operator} {self.value(right)}"

    def _same_entity(self, left: Any, right: Any) -> str:
        for side, other in ((left, right), (right, left)):
            if is_action(side):
                return self._called(other, "==")
        first, second = self._reference(left), self._reference(right)
        return f"({first[0]} == {second[0]} && {first[1]} == {second[1]})"

    def _called(self, actions: Any, operator: str) -> str:
        names = names_of(actions)
        tools = self.tools_of(names, operator, is_list=kind_of(actions) == "listed")
        if tools is None:
            raise UntranslatableError(f"the group of actions {names[0]!r}, unknown without a schema,")
        return f"({CALLED} in [{', '.join(map(quoted, tools))}])"

    def _reference(self, tree: Any) -> tuple[str, str]:
        """The texts of the type and the id of an entity."""
        if kind_of(tree) == "entity":
            kind, name, _ = entity_parts(tree.children[0])
            return quoted(kind), quoted(name)
        base = f"{self._variable(tree)}.uid" if kind_of(tree) == "variable" else self.value(tree)
        return f"{base}.type", f"{base}.id"

    def _variable(self, tree: Any) -> str:
        name = str(tree.children[0])
        if name not in ("principal", "resource"):
            raise UntranslatableError(f"'{name}' as an entity")
        return f"fact({name})"

    def _c_member_of(self, tree: Any, _: Polarity) -> str:
        left, right = tree.children
        if is_action(left):
            return self._called(right, "in")
        if kind_of(right) == "listed":
            return joined([self._within(left, item) for item in items_of(right)], "||")
        return self._within(left, right)

    def _within(self, left: Any, right: Any) -> str:
        kind, name = self._reference(right)
        same = self._same_entity(left, right)
        if kind_of(left) == "entity":
            raise UntranslatableError("the groups of an entity other than the principal and the resource")
        if kind_of(left) != "variable":
            raise UntranslatableError("the groups of an attribute")
        return f"({same} || any(p in {self._variable(left)}.parents, p.type == {kind} && p.id == {name}))"

    def _c_is_type(self, tree: Any, _: Polarity) -> str:
        value, name, group = tree.children
        text = f"{self._reference(value)[0]} == {quoted(''.join(name.split()))}"
        return f"({text} && {self._within(value, group)})" if group is not None else text

    def _c_has(self, tree: Any, _: Polarity) -> str:
        value, path = tree.children
        names = [unquoted(path)] if kind_of(path) != "path" else [str(name) for name in path.children]
        base, tests = self._base(value), []
        for name in names:
            if base == "fact(context)" and name == "input":
                base = INPUT
                continue
            # Cedar errs on what is not a record; `keys` is unknown then, `has` is not.
            tests.append(f"has({base}, {quoted(name)})" if base in _RECORDS else f"{quoted(name)} in keys({base})")
            base = member(base, name)
        return joined(tests, "&&")

    def _base(self, tree: Any) -> str:
        """The text of a record, or of the attributes of an entity."""
        if kind_of(tree) != "variable":
            return self.value(tree)
        return "fact(context)" if tree.children[0] == "context" else f"{self._variable(tree)}.attrs"

    def _c_like(self, tree: Any, _: Polarity) -> str:
        return f"{self.value(tree.children[0])} matches /(?s:{like_pattern(tree.children[1])})/"

    def _c_method(self, tree: Any, _: Polarity) -> str:
        value, name, item, is_one = _method_parts(tree)
        if name == "isEmpty":
            return f"!any(i in {self.value(value)}, true)"
        if name in _COMPARISONS and is_one:
            return self._ordered(value, _COMPARISONS[name], item)
        if name == "contains" and is_one:
            return self._in(item, value)
        if name == "containsAll" and is_one:
            return self._all_in(item, value)
        if name == "containsAny" and kind_of(item) == "listed":
            return joined([self._in(inner, value) for inner in items_of(item)], "||")
        if name == "containsAny" and is_one:
            return f"any(j in {self.value(item)}, any(i in {self.value(value)}, i == j))"
        if name == "hasTag" and kind_of(item) == "text":
            return f"has({self._variable(value)}.tags, {self.value(item)})"
        if name == "getTag" and kind_of(item) == "text":
            return member(f"{self._variable(value)}.tags", unquoted(item.children[0]))
        raise UntranslatableError(f"'.{name}()'")

    def _in(self, item: Any, collection: Any) -> str:
        if kind_of(collection) == "listed":
            return joined([self._equal(item, other) for other in items_of(collection)], "||")
        if kind_of(item) in ("entity", "variable"):
            kind, name = self._reference(item)
            return f"any(i in {self.value(collection)}, i.type == {kind} && i.id == {name})"
        return f"any(i in {self.value(collection)}, i == {self.value(item)})"

    def _equal(self, left: Any, right: Any) -> str:
        kinds = {kind_of(left), kind_of(right)}
        if kinds & {"variable", "entity"}:
            return self._same_entity(left, right)
        if "listed" in kinds:
            return f"({self._all_in(left, right)} && {self._all_in(right, left)})"
        return f"{self.value(left)} == {self.value(right)}"

    def _all_in(self, left: Any, right: Any) -> str:
        if kind_of(left) == "listed":
            return joined([self._in(item, right) for item in items_of(left)], "&&")
        if kind_of(right) == "listed":
            tests = joined([f"j == {self.value(item)}" for item in items_of(right)], "||")
            return f"all(j in {self.value(left)}, {tests})"
        return f"all(j in {self.value(left)}, any(i in {self.value(right)}, i == j))"

    # --- values

    def value(self, tree: Any) -> str:
        """Returns the text of a value.

        Raises:
            UntranslatableError: the language cannot say it.
        """
        if kind_of(tree) in ("true", "false"):
            return kind_of(tree)
        if (write := getattr(self, f"_v_{kind_of(tree)}", None)) is not None:
            return str(write(tree))
        if self.event is not None and (text := self.event(self, tree)):
            return text
        if hasattr(self, f"_c_{kind_of(tree)}"):
            return f"({self.condition(tree, None)})"
        raise UntranslatableError(f"a {kind_of(tree)}")

    def _v_text(self, tree: Any) -> str:
        return quoted(unquoted(tree.children[0]))

    def _v_number(self, tree: Any) -> str:
        return str(tree.children[0])

    def _v_minus(self, tree: Any) -> str:
        return f"(-{self.value(tree.children[0])})"

    def _v_arithmetic(self, tree: Any) -> str:
        left, operator, right = tree.children
        first, second = self.value(left), self.value(right)
        zero = "" if operator != "+" or {kind_of(left), kind_of(right)} & _NUMBERS else " + 0"  # joins no strings
        return f"({first}{zero} {operator} {second})"

    def _v_listed(self, tree: Any) -> str:
        return f"[{', '.join(self.value(item) for item in items_of(tree))}]"

    def _v_name(self, tree: Any) -> str:
        if tree.children[0] not in self.names:
            raise UntranslatableError(f"the name {str(tree.children[0])!r}")
        return self.names[tree.children[0]]

    def _v_field(self, tree: Any) -> str:
        path, base = list[str](), tree
        while kind_of(base) == "field":
            name = str(base.children[1])
            path.insert(0, unquoted(name) if name.startswith('"') else name)
            base = base.children[0]
        if kind_of(base) == "variable" and base.children[0] == "context":
            if path[0] == "input":
                return _fields(INPUT, path[1:])
            if path == ["system", "now"]:
                return "now"
        return _fields(self._base(base), path)

    def _v_call(self, tree: Any) -> str:
        name, arguments = tree.children
        items = items_of(arguments)
        text = unquoted(items[0].children[0]) if len(items) == 1 and kind_of(items[0]) == "text" else ""
        if name == "decimal" and re.fullmatch(r"-?\d+\.\d{1,4}", text):
            return f"(-{text[1:]})" if text.startswith("-") else text
        if name == "datetime" and text:
            return f'time("{_instant(text)}")'
        raise UntranslatableError(f"'{name}()'")


def _method_parts(tree: Any) -> tuple[Any, str, Any, bool]:
    """The value and the name of a method, its first argument, and whether it has no other."""
    value, name, arguments = tree.children
    items = items_of(arguments)
    return value, str(name), items[0] if items else None, len(items) == 1


def _instant(text: str) -> str:
    try:
        instant = dt.datetime.fromisoformat(text)
    except ValueError:
        raise UntranslatableError(f"the instant {text!r}") from None
    return (instant if instant.tzinfo else instant.replace(tzinfo=dt.UTC)).isoformat()


def _fields(base: str, path: Sequence[str]) -> str:
    for name in path:
        base = member(base, name)
    return base


def _simple(text: str) -> bool:
    return re.fullmatch(r"[\w.]+(?:\([\w.]*\)[\w.]*)?", text) is not None


def items_of(tree: Any) -> list[Any]:
    """The items of a list, or the arguments of a call."""
    arguments = tree.children[0] if kind_of(tree) == "listed" else tree
    if arguments is None and kind_of(tree) == "listed":
        raise UntranslatableError("an empty set")
    return [] if arguments is None else list(arguments.children)


def names_of(actions: Any) -> list[str]:
    """The ids of the actions in a list, or of one.

    Raises:
        UntranslatableError: it is something else.
    """
    entities = items_of(actions) if kind_of(actions) == "listed" else [actions]
    if {kind_of(entity) for entity in entities} != {"entity"}:
        raise UntranslatableError("a comparison of 'action' with something else than actions")
    return [entity_parts(entity.children[0])[1] for entity in entities]


def is_action(tree: Any) -> bool:
    return kind_of(tree) == "variable" and tree.children[0] == "action"


def is_plain_name(tree: Any, name: str) -> bool:
    return kind_of(tree) == "name" and tree.children[0] == name


def can_err(tree: Any) -> bool:
    """Whether Cedar can err on a part of a condition."""
    if kind_of(tree) == "has":
        return kind_of(tree.children[0]) != "variable" or len(getattr(tree.children[1], "children", ())) > 1
    if kind_of(tree) == "compared" and tree.children[1] not in ("==", "!="):
        return True
    return kind_of(tree) in _ERRS or any(map(can_err, getattr(tree, "children", ())))
