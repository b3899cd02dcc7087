"""Renders terms as text, with values in place of names.

Only values that the conversation or the caller has seen are shown: arguments, recorded calls and facts. A term over the
state or a counter appears as source text, never with its value. So the text reveals no other user's records to a model,
whatever arguments it chooses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from guardagent.policy.evaluation.history_index import Env
from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.language import ast
from guardagent.policy.language.printer import Printer
from guardagent.policy.language.values import kind_of, shown
from guardagent.types.verdicts import format_value

_SCALARS = ("text", "number", "truth value")
_SHORT = 60  # maximum length of a shown list


def is_shown(node: object) -> bool:
    """Whether the value of a term may be shown: no part of it reads the state or other conversations."""
    return not any(isinstance(one, ast.State | ast.StateOf | ast.CounterValue) for one in ast.walk(node))


class TermText:
    """A term that can be rendered with the values of an environment.

    Args:
        node: the term or pattern.
        names: the names in scope, with their slots in the environment.
        arguments: slot of a variable -> the argument that binds it.
        hidden: slots of variables bound to items of a list, which can come from the state.
        own: the label of the rendered call.
    """

    __slots__ = ("_arguments", "_hidden", "_names", "_node", "_own", "_parts", "_slots")

    def __init__(
        self,
        node: Any,
        names: Mapping[str, int],
        arguments: Mapping[int, str],
        hidden: Iterable[int] = (),
        own: str | None = None,
    ) -> None:
        self._node, self._names, self._own = node, dict(names), own
        self._arguments, self._hidden = arguments, frozenset(hidden)
        self._parts: list[str] | None = None  # texts, alternating with names in whose places values go
        self._slots: list[tuple[int, int, str]] = []  # (place among the parts, slot, name) of each value

    def render(self, env: Env | Mapping[int, Any]) -> str:
        """The text with the values of an environment."""
        parts = self._parts or self._read_parts()
        if not self._slots:
            return parts[0]
        parts = parts.copy()
        for at, slot, name in self._slots:
            value = env[slot]
            parts[at] = format_value(value) if type(value) is str else _value_or_name(value, name)
        return "".join(parts)

    def slots(self) -> list[int]:
        """The slots whose values the text shows."""
        self._parts = self._parts or self._read_parts()
        return [slot for _, slot, _ in self._slots]

    def _read_parts(self) -> list[str]:
        parts = Printer(self._named, self._own).text(self._node).split("\0")
        self._slots = [(at, *self._place(parts[at])) for at in range(1, len(parts), 2)]
        self._parts = parts
        return parts

    def _named(self, name: str) -> str:
        return f"\0{name}\0" if self._names.get(name, None) not in (None, *self._hidden) else name

    def _place(self, name: str) -> tuple[int, str]:
        slot = self._names[name]
        return slot, self._arguments.get(slot, name)


class OperandText(TermText):
    """A side of a comparison: its text, followed by its value if that may be shown."""

    __slots__ = ("_name", "_with_value", "is_shown")

    def __init__(
        self, node: Any, names: Mapping[str, int], arguments: Mapping[int, str], hidden: Iterable[int]
    ) -> None:
        super().__init__(node, names, arguments, hidden)
        self.is_shown = is_shown(node)
        self._with_value = self.is_shown and not isinstance(node, ast.Constant | ast.ListOf)
        self._name = arguments.get(names[node.name], node.name) if isinstance(node, ast.Variable) else None

    def with_value(self, env: Env, value: Any) -> str:
        text = self._name or self.render(env)
        if not self._with_value:
            return text
        if type(value) is str:
            return f"{text} ({format_value(value)})"
        value_text = _value_or_name(value, "") or (_short(value) if kind_of(value) == "list" else "")
        return f"{text} ({value_text})" if value_text else text


class Cause:
    """The cause of an unknown term. Rendered lazily, since most causes are never read."""

    __slots__ = ("_problem", "_term", "_values")

    def __init__(self, term: TermText, env: Env, problem: str) -> None:
        self._term, self._problem = term, problem
        self._values = {slot: env[slot] for slot in term.slots()}

    def __str__(self) -> str:
        return f"{self._term.render(self._values)} {self._problem}"


def _value_or_name(value: Any, name: str) -> str:
    """The text of a scalar value or call; otherwise the name."""
    if kind_of(value) in _SCALARS:
        return shown(value)
    return value.tool if type(value) is SessionCall else name


def _short(value: Any) -> str:
    text = shown(value, _SHORT)
    return text if len(text) <= _SHORT else ""
