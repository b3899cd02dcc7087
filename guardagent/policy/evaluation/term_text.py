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
from guardagent.types.formatting import format_value

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

    __slots__ = ("_arguments", "_hidden", "_names", "_node", "_own", "_pieces")

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
        self._pieces: list[str | tuple[int, str]] | None = None

    def render(self, env: Env | Mapping[int, Any]) -> str:
        """The text with the values of an environment."""
        pieces = self._pieces or self.pieces()
        if len(pieces) == 1 and type(pieces[0]) is str:
            return pieces[0]
        return "".join([one if type(one) is str else _value_or_name(env[one[0]], one[1]) for one in pieces])  # type: ignore[index]

    def pieces(self) -> list[str | tuple[int, str]]:
        """The pieces of the text: strings, and (slot, name) for values."""
        if self._pieces is None:
            text = Printer(self._named, self._own).text(self._node)
            parts = text.split("\0")  # text alternates with names
            self._pieces = [self._place(part) if at % 2 else part for at, part in enumerate(parts)]
        return self._pieces

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
        if type(value) is str:  # the common case
            return f"{text} ({format_value(value)})"
        value_text = _value_or_name(value, "") or (_short(value) if kind_of(value) == "list" else "")
        return f"{text} ({value_text})" if value_text else text


class Cause:
    """The cause of an unknown term. Rendered lazily, since most causes are never read."""

    __slots__ = ("_problem", "_term", "_values")

    def __init__(self, term: TermText, env: Env, problem: str) -> None:
        self._term, self._problem = term, problem
        self._values = {one[0]: env[one[0]] for one in term.pieces() if type(one) is tuple}

    def __str__(self) -> str:
        return f"{self._term.render(self._values)} {self._problem}"


def _value_or_name(value: Any, name: str) -> str:
    """The text of a scalar value or call; otherwise the name."""
    if type(value) is str:  # the common case
        return format_value(value)
    if kind_of(value) in _SCALARS:
        return shown(value)
    return value.tool if type(value) is SessionCall else name


def _short(value: Any) -> str:
    text = shown(value, _SHORT)
    return text if len(text) <= _SHORT else ""
