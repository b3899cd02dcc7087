"""Compiles constraints to a Python function that decides calls without a solver if all variables are known.

No text of the policy gets into the code: names are numbered, and the values of Z3 terms are constants of the function.
Regular expressions of SMT-LIB become functions that match in linear time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import floor, prod
from typing import Any

from guardagent._support.syntax import PatternError, compile_pattern
from guardagent.policy.solver import z3_text
from guardagent.policy.solver.reduction import ConstraintGroup, ReducedConstraints
from guardagent.policy.solver.script import UnsupportedError
from guardagent.policy.solver.z3_text import (
    BOOL,
    INT,
    REAL,
    STRING,
    Evaluator,
    Sort,
    TooLargeError,
    is_text,
    postorder,
    solver_module,
    sort_of,
    symbol_of,
    text_value,
    undecided,
    value_of,
)

# --- regular expressions

Matcher = Callable[[str], bool]
_NOTHING = r"[^\x{0}-\x{10FFFF}]"
_SUFFIXES = {"re.*": "*", "re.+": "+", "re.opt": "?"}


def matcher(regex: Any) -> Matcher:
    """Returns a function that tests whether a string is in a regular language.

    Raises:
        UnsupportedError: only the solver can evaluate the expression.
    """
    name, parts = regex.decl().name(), regex.children()
    if name == "re.comp":
        return _without(_ANY, matcher(parts[0]))
    if name == "re.diff" and len(parts) == 2:
        return _without(matcher(parts[0]), matcher(parts[1]))
    if name == "re.inter":
        return _both([matcher(part) for part in parts])
    return _matches(_pattern(regex))


def _without(first: Matcher, second: Matcher) -> Matcher:
    return lambda text: first(text) and not second(text)


def _both(matchers: list[Matcher]) -> Matcher:
    return lambda text: all(matcher(text) for matcher in matchers)


def _ANY(_: str) -> bool:  # noqa: N802 - a constant
    return True


def _matches(pattern: str) -> Matcher:
    try:
        matcher = compile_pattern(pattern).fullmatch
    except PatternError:
        raise UnsupportedError from None
    return lambda text: matcher(text) is not None


def _pattern(regex: Any) -> str:
    name, parts = regex.decl().name(), regex.children()
    if name in ("str.to_re", "re.range"):
        texts = [text_value(part) for part in parts]
        return _literal(texts[0]) if name == "str.to_re" else _range(*texts)
    inner = [f"(?:{_pattern(part)})" for part in parts]
    if name in _SUFFIXES:
        return inner[0] + _SUFFIXES[name]
    if name in ("re.loop", "re.^") and len(parts) == 1:
        return _loop(inner[0], name, regex.decl().params())
    if name in ("re.++", "re.union"):
        return ("" if name == "re.++" else "|").join(inner)
    plain = {"re.allchar": "(?s:.)", "re.all": "(?s:.*)", "re.none": _NOTHING}.get(name)
    if plain is None:
        raise UnsupportedError
    return plain


def _loop(inner: str, name: str, params: list[int]) -> str:
    if name == "re.^":
        return f"{inner}{{{params[0]}}}"
    if len(params) == 1:
        return f"{inner}{{{params[0]},}}"
    return _NOTHING if params[0] > params[1] else f"{inner}{{{params[0]},{params[1]}}}"


def _literal(text: str) -> str:
    return "".join(f"\\x{{{ord(character):X}}}" for character in text)


def _range(first: str, last: str) -> str:
    if len(first) != 1 or len(last) != 1 or first > last:
        return _NOTHING
    return f"[\\x{{{ord(first):X}}}-\\x{{{ord(last):X}}}]"


# --- terms

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
    "/": Fraction,
    "to_int": floor,
    "str.replace_all": z3_text.replace_all,
    "str.to_int": z3_text.to_int,
    "str.is_digit": z3_text.is_digit,
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
    ("str.at", 2): "{0}[{1}:{1} + 1]",  # in its domain, as the following
    ("div", 2): "({0} // {1} if {1} > 0 else -({0} // -{1}))",  # the remainder is never negative
    ("mod", 2): "({0} % abs({1}))",
    ("rem", 2): "({0} % {1} if {1} > 0 else -({0} % -{1}))",
    ("is_int", 1): "(({}).denominator == 1)",
    ("str.indexof", 2): "{0}.find({1})",
    ("str.indexof", 3): "{0}.find({1}, {2})",
    ("str.replace", 3): "{0}.replace({1}, {2}, 1)",
    ("str.from_int", 1): "str({})",
    ("str.to_code", 1): "ord({}[:1] or '-')",
    ("str.from_code", 1): "chr({} % 0x30000)",
    ("str.substr", 3): "{0}[{1}:{1} + {2}]",
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
        self.constants: dict[str, Any] = {"abs": abs, "len": len, "str": str, "ord": ord, "chr": chr}
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
        known = self._written(part)
        assert known is not None
        return known

    def _write(self, part: Any, *, shared: bool) -> None:
        z3 = solver_module()
        if not z3.is_app(part):
            raise UnsupportedError
        if z3.is_re(part):
            self._scopes[-1][part.get_id()] = "", 0
            return
        arguments = [self._known(child) for child in part.children()]
        text = self._text(part, [argument for argument, _ in arguments])
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
    function: Callable[[Sequence[object]], bool | None] = space["evaluated"]
    return function


# --- constraints

MAX_COMBINATIONS = 64  # combinations of values of undefined constants
_TYPES = {"bool": bool, "int": int, "str": str, "type": type, "Fraction": Fraction, "is_text": is_text}
_EVALUATION_ERRORS = (ArithmeticError, ValueError, TypeError, MemoryError, RecursionError)
_TESTS = {
    BOOL: "type({}) is not bool",
    INT: "type({}) is not int",
    REAL: "type({0}) is not int and type({0}) is not Fraction",
    STRING: "type({0}) is not str or not is_text({0})",
}


def compile_evaluator(reduction: ReducedConstraints, variables: Mapping[str, Sort]) -> Evaluator:
    """Compiles a function of the variables' values: whether the constraints are satisfiable, or None if undecided."""
    try:
        code = FunctionBuilder()
        open_groups = _write_body(code, reduction, variables)
        code.add(f"return {None if open_groups else True}")
        evaluated = compile_function(code.lines, code.constants)
    except (UnsupportedError, TooLargeError, RecursionError, MemoryError):
        return undecided

    def evaluate(values: Sequence[object]) -> bool | None:
        try:
            return evaluated(values)
        except _EVALUATION_ERRORS:  # for example a division by zero: the solver decides
            return None

    return evaluate


def _write_body(code: FunctionBuilder, reduction: ReducedConstraints, variables: Mapping[str, Sort]) -> bool:
    """Writes the constraints that can be evaluated; returns whether some are left for the solver."""
    code.constants.update(_TYPES)
    _entry(code, variables)
    for constant, term in reduction.definitions:
        _define(code, constant, term)
    done = [_check(code, formula) for formula in reduction.formulas]
    done += [_search(code, group) for group in reduction.groups]
    return not all(done)


def _entry(code: FunctionBuilder, variables: Mapping[str, Sort]) -> None:
    """Writes code that reads the values and returns None if one does not fit its sort."""
    names = [f"v{number}" for number in range(len(variables))]
    if not names:
        code.add("if values: return None")
        return
    code.add(f"{', '.join(names)}, = values")
    for name, (variable, sort) in zip(names, variables.items(), strict=True):
        code.bind(variable, name)
        code.add(f"if {_test(code, name, sort)}: return None")


def _test(code: FunctionBuilder, name: str, sort: Sort) -> str:
    if sort.values is not None:
        return f"type({name}) is not str or {name} not in {code.constant(frozenset(sort.values))}"
    if sort not in _TESTS:
        raise UnsupportedError
    return _TESTS[sort].format(name)


def _define(code: FunctionBuilder, constant: Any, term: Any) -> None:
    """Writes the computation of a constant; terms over one that cannot be computed are left for the solver."""
    try:
        (text,) = code.expressions([term])
    except UnsupportedError:
        return
    name = f"d{len(code.lines)}"
    code.add(f"{name} = {text}")
    code.bind(constant.decl().name(), name)


def _check(code: FunctionBuilder, formula: Any, otherwise: str = "return False") -> bool:
    """Writes a test of a formula, and what follows if it is false; returns whether it could be written."""
    try:
        (text,) = code.expressions([formula])
    except UnsupportedError:
        return False
    code.add(f"if not {text}: {otherwise}")
    return True


def _search(code: FunctionBuilder, group: ConstraintGroup) -> bool:
    """Writes a loop over the values of a group's constants; returns whether it could be written."""
    choices = [_choices(constant) for constant in group.constants.values()]
    if not 0 < prod(map(len, choices)) <= MAX_COMBINATIONS:
        return False
    names = [f"e{len(code.lines)}_{number}" for number in range(len(choices))]
    for name, (constant, _) in zip(names, group.constants, strict=True):
        code.bind(constant, name)
    kept = len(code.lines)
    code.add(f"for {', '.join(names)}, in {code.constant(list(product(*choices)))}:")
    code.enter()
    written = all(_check(code, formula, "continue") for formula in group.formulas)
    code.add("break")
    code.leave()
    code.add("else: return False")
    if not written:
        del code.lines[kept:]
    return written


def _choices(constant: Any) -> tuple[Any, ...]:
    """Returns all values of a constant, or an empty tuple if there are too many."""
    if constant.num_args():
        return ()
    sort = sort_of(constant.sort())
    return sort.values or ((False, True) if sort == BOOL else ())
