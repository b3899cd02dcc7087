"""Generates a Python function that evaluates Z3 terms, with their values as constants of the function.

No text of the policy gets into the code: names are numbered, and literals are constants of the function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from guardagent.policy.solver import operations
from guardagent.policy.solver.literals import value_of
from guardagent.policy.solver.regexes import matcher
from guardagent.policy.solver.traversal import postorder, symbol_of
from guardagent.policy.solver.unsupported_error import UnsupportedError
from guardagent.policy.solver.z3_text import solver_module

_NESTED = 12  # levels of an expression, before part of it gets a variable
_SMALL = 1_000_000  # numbers up to this are written into the code
_INFIX = {
    "and": " and ",
    "or": " or ",
    "+": " + ",
    "*": " * ",
    "<": " < ",
    "<=": " <= ",
    ">": " > ",
    ">=": " >= ",
    "=": " == ",
    "xor": " is not ",
    "str.<": " < ",
    "str.<=": " <= ",
    "str.++": " + ",
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "/": operations.divide,
    "div": operations.quotient,
    "mod": operations.modulo,
    "rem": operations.remainder,
    "to_int": operations.floor,
    "is_int": operations.whole,
    "str.at": operations.character,
    "str.substr": operations.substring,
    "str.indexof": operations.index,
    "str.replace": operations.replace,
    "str.replace_all": operations.replace_all,
    "str.from_int": operations.from_int,
    "str.to_int": operations.to_int,
    "str.is_digit": operations.is_digit,
    "str.to_code": operations.to_code,
    "str.from_code": operations.from_code,
}
_TEMPLATES = {
    ("not", 1): "(not {})",
    ("=>", 2): "(not {} or {})",
    ("if", 3): "({1} if {0} else {2})",
    ("-", 1): "(-{})",
    ("-", 2): "({} - {})",
    ("abs", 1): "abs({})",
    ("to_real", 1): "{}",
    ("str.len", 1): "len({})",
    ("str.prefixof", 2): "{1}.startswith({0})",
    ("str.suffixof", 2): "{1}.endswith({0})",
    ("str.contains", 2): "({1} in {0})",
}


class FunctionBuilder:
    """Builds the code of a function.

    Attributes:
        lines: its statements, indented.
        constants: the values that they refer to.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {"abs": abs, "len": len}
        self._scopes: list[dict[int, tuple[str, int]]] = [{}]
        self._names: dict[str, str] = {}
        self._kept: list[Any] = []
        self._temporaries = 0

    def add(self, line: str) -> None:
        self.lines.append("    " * len(self._scopes) + line)

    def enter(self) -> None:
        """Indents the following lines."""
        self._scopes.append({})

    def leave(self) -> None:
        self._scopes.pop()

    def constant(self, value: Any) -> str:
        """Adds a constant and returns its name in the code."""
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def bind(self, name: str, written: str) -> None:
        """Maps a constant of the terms to a name in the code."""
        self._names[name] = written

    def expressions(self, terms: Sequence[Any]) -> list[str]:
        """Returns terms as Python expressions; shared subterms are computed once.

        Raises:
            UnsupportedError: only the solver can evaluate a term.
        """
        parts = [part for part in postorder(terms) if self._written(part) is None]
        self._kept += terms  # Z3 does not reuse the id of a live term
        uses = Counter(child.get_id() for part in parts for child in part.children())
        for part in parts:
            self._write(part, shared=uses[part.get_id()] > 1)
        return [self._known(term)[0] for term in terms]

    def _written(self, part: Any) -> tuple[str, int] | None:
        key = part.get_id()
        return next((scope[key] for scope in self._scopes if key in scope), None)

    def _known(self, part: Any) -> tuple[str, int]:
        found = self._written(part)
        assert found is not None
        return found

    def _write(self, part: Any, *, shared: bool) -> None:
        z3 = solver_module()
        if not z3.is_app(part):
            raise UnsupportedError
        if z3.is_re(part):
            self._scopes[-1][part.get_id()] = "", 0
            return
        arguments = [self._known(child) for child in part.children()]
        text = self._text(part, [one for one, _ in arguments])
        depth = 1 + max(level for _, level in arguments) if arguments else 0
        if arguments and (shared or depth > _NESTED):
            self._temporaries += 1
            self.add(f"t{self._temporaries} = {text}")
            text, depth = f"t{self._temporaries}", 0
        self._scopes[-1][part.get_id()] = text, depth

    def _text(self, part: Any, arguments: list[str]) -> str:
        z3 = solver_module()
        kind, name = part.decl().kind(), part.decl().name()
        if not arguments:
            return self._leaf(part)
        if kind in (z3.Z3_OP_DT_RECOGNISER, z3.Z3_OP_DT_IS):
            return f"({arguments[0]} == {self.constant(part.decl().params()[0].name())})"
        if kind in (z3.Z3_OP_UNINTERPRETED, z3.Z3_OP_RECURSIVE, z3.Z3_OP_DT_CONSTRUCTOR, z3.Z3_OP_DT_ACCESSOR):
            raise UnsupportedError
        if name == "str.in_re":
            return f"{self.constant(matcher(part.arg(1)))}({arguments[0]})"
        if name == "distinct":
            return self._distinct(arguments)
        return self._operation(name, arguments)

    def _operation(self, name: str, arguments: list[str]) -> str:
        form = _TEMPLATES.get((name, len(arguments)))
        if form is not None:
            return form.format(*arguments)
        if name in _INFIX and (len(arguments) == 2 or name in ("and", "or", "+", "*", "str.++")):
            return f"({_INFIX[name].join(arguments)})"
        if name in _FUNCTIONS:
            return f"{self._function(name)}({', '.join(arguments)})"
        raise UnsupportedError

    def _function(self, name: str) -> str:
        written = f"f{list(_FUNCTIONS).index(name)}"
        self.constants[written] = _FUNCTIONS[name]
        return written

    def _distinct(self, arguments: list[str]) -> str:
        if len(arguments) == 2:
            return f"({arguments[0]} != {arguments[1]})"
        return f"(len({{{', '.join(arguments)}}}) == {len(arguments)})"

    def _leaf(self, part: Any) -> str:
        symbol = symbol_of(part)
        if symbol is not None:
            if symbol[0] not in self._names:
                raise UnsupportedError
            return self._names[symbol[0]]
        value = value_of(part)
        if isinstance(value, bool) or (isinstance(value, int) and 0 <= value <= _SMALL):
            return str(value)
        return self.constant(value)


def compile_function(lines: Iterable[str], constants: dict[str, Any]) -> Callable[[Sequence[object]], bool | None]:
    """Compiles the lines to a function of the variables' values."""
    source = "\n".join(["def evaluated(values):", *lines])
    space: dict[str, Any] = {"__builtins__": {}, **constants}
    exec(compile(source, "<solver rule>", "exec"), space)  # noqa: S102 - generated code, without any text of a policy
    found: Callable[[Sequence[object]], bool | None] = space["evaluated"]
    return found
