"""Required checks: calls that the host makes itself, independent of the guard program.

A specification's front matter lists them as calls of toolbox functions on `input`, `output`, `facts` and the front
matter's own `data`:

    check_access(granted(access, field(input, "Identity", facts.get("role"))), columns_read(output))

The outermost call is a check; the inner ones compute its arguments. `facts.NAME` is a required fact;
`facts.get("NAME")` is None if the fact is missing.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guardagent._support import syntax
from guardagent.errors import ContentError, name_hint

if TYPE_CHECKING:
    from pathlib import Path

    from guardagent.sandbox.toolbox import Toolbox

_RUN_NAMES = ("input", "output", "facts")


@dataclass(frozen=True, slots=True)
class RequiredCheck:
    """One parsed call. `text` is its source in the front matter."""

    text: str
    call: ast.Call
    path: Path

    @classmethod
    def parse(cls, text: str, data: Mapping[str, Any], path: Path) -> RequiredCheck:
        """Parses a call.

        Raises:
            ContentError: it is not a call of a check, or uses an unknown name or unsupported syntax.
        """
        try:
            tree = syntax.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError) as error:
            raise ContentError(
                f"required check {text!r} is not an expression: {getattr(error, 'msg', error)}", path
            ) from None
        if not isinstance(tree, ast.Call) or not _name(tree.func).startswith("check_"):
            raise ContentError(f"required check {text!r}: expected a call of a check_… function", path)
        _validate(tree, {*_RUN_NAMES, *data}, text, path)
        return cls(text, tree, path)

    def bind(self, toolbox: Toolbox) -> None:
        """Checks that every called function exists and accepts its arguments.

        Raises:
            ContentError: a function is unknown, with the nearest name, or its arguments do not fit.
        """
        for node in ast.walk(self.call):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                self._bind(node, node.func.id, toolbox)

    def _bind(self, node: ast.Call, name: str, toolbox: Toolbox) -> None:
        if name not in toolbox:
            raise ContentError(
                f"required check {self.text!r}: unknown toolbox function {name!r}{name_hint(name, toolbox)}; "
                "to use your own functions, pass their toolbox ('--toolbox' or 'toolbox=')",
                self.path,
            )
        try:
            named = {str(keyword.arg): None for keyword in node.keywords}
            inspect.signature(toolbox.functions[name]).bind(*node.args, **named)
        except TypeError as error:
            message = f"required check {self.text!r}: {error}; expected '{toolbox[name].signature}'"
            raise ContentError(message, self.path) from None

    def run(self, call: Callable[..., Any], values: Mapping[str, Any]) -> Any:
        """Makes the calls with `call(name, *args, **kwargs)`, innermost first, and returns the result of the check."""
        return _evaluate(self.call, call, values)


def _fact(facts: Mapping[str, Any], name: str) -> Any:
    if facts.get(name) is None:
        raise ValueError(
            f"the fact {name!r} is missing{name_hint(name, facts)}; expected the host to pass it in 'facts'"
        )
    return facts[name]


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _validate(node: ast.expr, known: set[str], text: str, path: Path) -> None:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="facts"), attr="get"), args=[ast.Constant()], keywords=[]):
            return
        case ast.Call(func=ast.Name()):
            for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                _validate(argument, known, text, path)
        case ast.Name() if node.id not in known:
            message = f"required check {text!r}: unknown name {node.id!r}{name_hint(node.id, known)}"
            raise ContentError(message, path)
        case ast.Name() | ast.Constant() | ast.Attribute(value=ast.Name(id="facts")):
            return
        case _:
            raise ContentError(
                f"required check {text!r}: {ast.unparse(node)!r} is not supported; expected calls of toolbox functions,"
                " literals, 'input', 'output', 'facts', 'facts.NAME', 'facts.get(NAME)' and names of 'data'",
                path,
            )


def _evaluate(node: ast.expr, call: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return values[node.id]
        case ast.Attribute():
            return _fact(values["facts"], node.attr)
        case ast.Call(func=ast.Attribute(), args=[ast.Constant(value=name)]):
            return values["facts"].get(name)
        case ast.Call():
            args = [_evaluate(argument, call, values) for argument in node.args]
            kwargs = {str(keyword.arg): _evaluate(keyword.value, call, values) for keyword in node.keywords}
            return call(_name(node.func), *args, **kwargs)
    raise AssertionError(f"not validated: {ast.dump(node)}")
