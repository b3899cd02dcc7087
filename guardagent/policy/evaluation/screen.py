"""Screens proposed calls: finds the monitors that certainly report nothing, all at once.

A policy can have hundreds of rules about one tool. A monitor decides its rule alone, with evidence, and reads the same
arguments again. The screen of a tool is one generated function for all of its monitors. It decides nothing else: a rule
that does not certainly hold is left to its monitor, and so is every rule if the screen fails.

There are two expressions for a condition: one for where it certainly holds, one for where it certainly does not. A term
that is not translated here makes its condition undecided. A condition that stands behind such a term in an OR or an AND
is not used: the rule evaluates from left to right, and an error in the term denies the call.

No text of the policy gets into the code: names are numbered, and the names of arguments and facts, literals and regular
expressions are constants of the function. Each value has a number `n`, and these variables in the code:

    v<n>  the value; None if missing
    t<n>  its type; None for a float that is not finite
    n<n>  whether it is a number
    f<n>  a string without case and surrounding space
    r<n>  the numbers of the regular expressions that match it; empty if it is not a string

The code only looks at values of the types that JSON has, and at no subclasses: for a call with others, the screen
decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from guardagent.policy.evaluation.monitor_interface import Monitor, RuleContext, SessionCall
from guardagent.policy.evaluation.operands import folded_name
from guardagent.policy.language import ast
from guardagent.policy.language.values import exact

# --- the code of a screen

MAX_MATCHED = 1000  # characters of a string that regular expressions are matched with
EXACT = 2**53  # integers up to this are exact as floats
SCALARS = frozenset({str, int, float, bool, type(None)})
MAPPINGS = frozenset({dict, MappingProxyType})
LISTS = frozenset({list, tuple})
SIZED = MAPPINGS | LISTS | {str}
_BUILT_IN: dict[str, Any] = {
    "__builtins__": {},
    "type": type,
    "len": len,
    "str": str,
    "int": int,
    "float": float,
    "fold": folded_name,
    "scalars": SCALARS,
    "json_types": SCALARS | SIZED,
    "mappings": MAPPINGS,
    "sized": SIZED,
    "comparable": frozenset({str, int, bool, float}),
    "ordered": frozenset({str, int, float}),
    "indexed": frozenset({str, int}),
    "empty": frozenset(),
}


class ScreenCode:
    """The reads at the start of a screen, and its constants."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, Any] = dict(_BUILT_IN)
        self._reads: dict[Any, int] = {}
        self._derived: set[str] = set()
        self._regexes: dict[int, dict[str, int]] = {}

    def constant(self, value: Any) -> str:
        """Adds a constant and returns its name."""
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def argument(self, name: str, types: str = "scalars") -> int:
        """The number of an argument."""
        return self._read(("argument", name), lambda: f"get({self.constant(name)})", types)

    def fact(self, path: tuple[str, ...], types: str = "scalars") -> int:
        """The number of a fact of the host."""
        if len(path) > 1:
            return self.field(self.fact(path[:-1], "json_types"), path[-1], types)
        return self._read(("fact", *path), lambda: f"facts.get({self.constant(path[0])})", types)

    def field(self, whole: int, name: str, types: str = "scalars") -> int:
        """The number of a field of a mapping; None for other values."""
        text = f"v{whole}.get({{}}) if t{whole} in mappings else None"
        return self._read((whole, name), lambda: text.format(self.constant(name)), types)

    def _read(self, source: Any, text: Callable[[], str], types: str) -> int:
        key = source, types
        if key not in self._reads:
            at = self._reads[key] = len(self._reads)
            self.lines += [
                f"v{at} = {text()}",
                f"t{at} = type(v{at})",
                f"if t{at} not in {types}: return monitors",
                f"if t{at} is float and v{at} - v{at} != 0: t{at} = None",
            ]
        return self._reads[key]

    def _derive(self, name: str, text: str) -> str:
        if name not in self._derived:
            self._derived.add(name)
            self.lines.append(f"{name} = {text}")
        return name

    def number(self, at: int) -> str:
        return self._derive(f"n{at}", f"t{at} is int or t{at} is float")

    def folded(self, at: int) -> str:
        return self._derive(f"f{at}", f"fold(v{at}) if t{at} is str else None")

    def matched(self, at: int, regex: str) -> tuple[str, int]:
        """(the numbers of the regular expressions that match a value, the number of this one)."""
        regexes = self._regexes.setdefault(at, {})
        short = f"t{at} is str and len(v{at}) <= {MAX_MATCHED}"
        return self._derive(f"r{at}", f"m{at}(v{at}) if {short} else empty"), regexes.setdefault(regex, len(regexes))

    def function(self, checks: list[str], **names: Any) -> Callable[..., Any]:
        """Compiles the reads and some checks to a function of (context, call, memory)."""
        for at, regexes in self._regexes.items():
            self.constants[f"m{at}"] = matcher(list(regexes))
        first = ["args = call.args", "if type(args) not in mappings: return monitors", "get = args.get"]
        first += ["facts = context.facts", "indexes = context.indexes"]
        body = [*first, *self.lines, "left = []", *checks, "return left"]
        source = "\n    ".join(["def screen(context, call, memory):", *body])
        space = {**self.constants, **names}
        exec(compile(source, "<screen>", "exec"), space)  # noqa: S102 - generated code, without any text of a policy
        function: Callable[..., Any] = space["screen"]
        return function


def matcher(regexes: list[str]) -> Callable[[str], frozenset[int]]:
    """Compiles a function that returns the numbers of the expressions that match a whole string, in one pass.

    The set of expressions reports no match at all when it runs out of memory, so it ends with one that always matches.
    """
    import re2

    options = re2.Options()
    options.log_errors = False
    expressions = re2.Set.FullMatchSet(options)
    for regex in [*regexes, "(?s).*"]:
        expressions.Add(regex)
    expressions.Compile()
    always, match = len(regexes), expressions.Match

    def matched(text: str) -> frozenset[int]:
        matching = frozenset(match(text))
        if always not in matching:
            raise RuntimeError("the regular expressions ran out of memory")
        return matching

    matched("")
    return matched


def text_in(item: Any, whole: Any) -> bool | None:
    """Whether a string is in a string or a list of strings; None if the rule has to decide."""
    if type(item) is not str:
        return None
    if type(whole) is str:
        return item in whole
    if type(whole) not in LISTS:
        return None
    return item in whole if all(type(entry) is str for entry in whole) else None


def plain_number(value: Any) -> int | float | None:
    """A literal number that compares with integers and floats as the exact number does; None if there is none.

    A float stands for the decimal that it prints as. Rounding keeps the order of decimals, so a float compares with
    the rounded literal as its decimal does with the literal, if the literal is what the rounded one prints as.
    """
    if type(value) not in (int, Fraction) or abs(value) > EXACT:
        return None
    rounded = value if type(value) is int else float(value)
    return rounded if exact(Decimal(repr(rounded))) == value else None


# --- conditions as Python expressions

MAX_DEPTH = 20  # levels of a condition
MAX_CODE = 4000  # characters of the code of a condition
MAX_ARITHMETIC = 200  # characters of the code of a number
_SAFE = (
    ast.And, ast.Or, ast.Negation, ast.Implies, ast.Compare, ast.Matches, ast.Known, ast.Length, ast.Arithmetic,
    ast.Negative, ast.Constant, ast.ListOf, ast.Variable, ast.Fact, ast.Field, ast.OfCall, ast.Label,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CallScope:
    """The names of a condition on a proposed call.

    Attributes:
        label: the label of the call.
        arguments: variable -> the argument that binds it.
        queries: id() of a term `SomeCall` -> (the number of its history index, the terms of its key).
    """

    label: str | None
    arguments: Mapping[str, str]
    queries: Mapping[int, tuple[int, Sequence[ast.Term]]]


@dataclass(frozen=True, slots=True)
class _Integer:
    """An integer in the code, where a guard holds."""

    text: str
    guard: str


class CertainConditions:
    """Translates the pattern and the condition of one rule."""

    def __init__(self, code: ScreenCode, scope: CallScope) -> None:
        self._code, self._scope = code, scope
        self._depth = 0

    def kept(self, pattern: ast.Pattern, condition: ast.Term) -> str | None:
        """An expression that is true only if the call does not match, or satisfies the condition."""
        parts = [self._mismatch(argument) for argument in pattern.arguments]
        parts.append(self._certain(condition, wanted=True))
        code = " or ".join(part for part in parts if part is not None)
        return code if 0 < len(code) <= MAX_CODE else None

    def _mismatch(self, argument: ast.Argument) -> str | None:
        """The expression for a call that certainly has another argument."""
        match argument.value:
            case ast.ExactValue(str(text)):
                at = self._code.argument(argument.name)
                return f"t{at} is str and {self._code.folded(at)} != {self._code.constant(folded_name(text))}"
            case ast.ExactValue(value):
                return self._with_constant(self._code.argument(argument.name), "!=", value)
            case ast.RegexValue(regex):
                return self._match(self._code.argument(argument.name), regex, wanted=False)
            case ast.Variable(name) if self._scope.arguments.get(name, argument.name) != argument.name:
                bound = self._code.argument(self._scope.arguments[name])
                return self._with_value(self._code.argument(argument.name), "!=", bound)
        return None

    # --- conditions

    def _certain(self, node: ast.Term, *, wanted: bool) -> str | None:
        """An expression that is true only if the condition certainly has the wanted value."""
        translate = getattr(self, f"_{type(node).__name__.lower()}", None)
        if translate is None or self._depth > MAX_DEPTH:
            return None
        self._depth += 1
        code: str | None = translate(node, wanted=wanted)
        self._depth -= 1
        return code

    def _and(self, node: ast.And, *, wanted: bool) -> str | None:
        return self._every(node.parts, wanted=True) if wanted else self._some(node.parts, wanted=False)

    def _or(self, node: ast.Or, *, wanted: bool) -> str | None:
        return self._some(node.parts, wanted=True) if wanted else self._every(node.parts, wanted=False)

    def _implies(self, node: ast.Implies, *, wanted: bool) -> str | None:
        return self._or(ast.Or((ast.Negation(node.first), node.second)), wanted=wanted)

    def _negation(self, node: ast.Negation, *, wanted: bool) -> str | None:
        return self._certain(node.body, wanted=not wanted)

    def _every(self, parts: Sequence[ast.Term], *, wanted: bool) -> str | None:
        conditions = [self._certain(part, wanted=wanted) for part in parts]
        texts = [f"({text})" for text in conditions if text is not None]
        return (" and ".join(texts) or "True") if len(texts) == len(conditions) else None

    def _some(self, parts: Sequence[ast.Term], *, wanted: bool) -> str | None:
        texts: list[str] = []
        for part in parts:
            text = self._certain(part, wanted=wanted)
            texts += [] if text is None else [f"({text})"]
            if not self._is_safe(part):
                break
        return " or ".join(texts) or None

    def _is_safe(self, part: ast.Term) -> bool:
        """Whether evaluating a condition on the values that a screen reads cannot raise an error."""
        return all(
            isinstance(node, _SAFE)
            and (not isinstance(node, ast.Field) or self._argument(node) is not None)
            and (not isinstance(node, ast.ListOf) or all(isinstance(item, ast.Constant) for item in node.items))
            and (not isinstance(node, ast.OfCall) or node.call == ast.Label(self._scope.label or ""))
            for node in ast.walk(part)
        )

    def _constant(self, node: ast.Constant, *, wanted: bool) -> str | None:
        return "True" if node.value is wanted else None

    def _variable(self, node: ast.Variable, *, wanted: bool) -> str | None:
        at = self._value(node)
        return None if at is None else f"v{at} is {wanted}"

    _fact = _field = _variable

    def _known(self, node: ast.Known, *, wanted: bool) -> str | None:
        if isinstance(node.body, ast.Field) and self._argument(node.body) is None:
            return None  # a string may contain the field
        at = self._value(node.body, "json_types")
        return None if at is None else f"v{at} is {'not ' if wanted else ''}None"

    def _matches(self, node: ast.Matches, *, wanted: bool) -> str | None:
        at = self._value(node.body)
        return None if at is None else self._match(at, node.regex, wanted=wanted)

    def _match(self, at: int, regex: str, *, wanted: bool) -> str:
        matched, number = self._code.matched(at, regex)
        return f"{number} in {matched}" if wanted else f"{matched} and {number} not in {matched}"

    def _somecall(self, node: ast.SomeCall, *, wanted: bool) -> str | None:
        query = self._scope.queries.get(id(node))
        if query is None or not wanted:
            return None
        number, terms = query
        values = [self._value(term) for term in terms]
        keys = [f"v{at}" for at in values if at is not None]
        if len(keys) != len(values):
            return None
        key = keys[0] if len(keys) == 1 else f"({', '.join(keys)})"
        return " and ".join([*(f"t{at} in indexed" for at in values), f"indexes[{number}].has_certain({key})"])

    # --- comparisons

    def _compare(self, node: ast.Compare, *, wanted: bool) -> str | None:
        if node.operator == "in":
            return self._contains(node, wanted=wanted)
        operator = node.operator if wanted else ast.OPPOSITE[node.operator]
        if isinstance(node.left, ast.Constant):
            return self._compared(node.right, ast.MIRRORED[operator], node.left)
        return self._compared(node.left, operator, node.right)

    def _compared(self, left: ast.Term, operator: str, right: ast.Term) -> str | None:
        value = self._value(left)
        if isinstance(right, ast.Constant) and value is not None:
            return self._with_constant(value, operator, right.value)
        other = self._value(right)
        if value is not None and other is not None:
            return self._with_value(value, operator, other)
        integer, another = self._integer(left), self._integer(right)
        if integer is None or another is None:
            return None
        return " and ".join(filter(None, [integer.guard, another.guard, f"{integer.text} {operator} {another.text}"]))

    def _with_constant(self, at: int, operator: str, value: Any) -> str | None:
        if type(value) is bool:
            return f"v{at} is {value is (operator == '==')}" if operator in ("==", "!=") else None
        if type(value) is str:
            return f"t{at} is str and v{at} {operator} {self._code.constant(value)}"
        number = plain_number(value)
        return None if number is None else f"{self._code.number(at)} and v{at} {operator} {self._code.constant(number)}"

    @staticmethod
    def _with_value(at: int, operator: str, other: int) -> str:
        types = "comparable" if operator in ("==", "!=") else "ordered"
        return f"t{at} is t{other} and t{at} in {types} and v{at} {operator} v{other}"

    def _contains(self, node: ast.Compare, *, wanted: bool) -> str | None:
        if isinstance(node.right, ast.ListOf):
            at = self._value(node.left)
            return None if at is None else self._among(at, node.right.items, wanted=wanted)
        whole = self._value(node.right, "json_types")
        item = node.left.value if isinstance(node.left, ast.Constant) else None
        at = None if item is not None else self._value(node.left)
        if whole is None or (at is None and type(item) is not str):
            return None
        text = self._code.constant(item) if at is None else f"v{at}"
        return f"{self._code.constant(text_in)}({text}, v{whole}) is {wanted}"

    def _among(self, at: int, items: Sequence[ast.Term], *, wanted: bool) -> str | None:
        """The expression for a value that certainly is among the items of a list, or is not."""
        values = [item.value for item in items if isinstance(item, ast.Constant)]
        strings = frozenset(value for value in values if type(value) is str)
        numbers = frozenset(plain_number(value) for value in values) - {None}
        same = len(values) == len(items) and (len(strings) == 0 or all(type(value) is str for value in values))
        if len(values) != len(items) or not (strings or numbers):
            return None
        if wanted:
            tests = [(f"t{at} is str", strings), (self._code.number(at), numbers)]
            return " or ".join(
                f"{test} and v{at} in {self._code.constant(constants)}" for test, constants in tests if constants
            )
        if not same or (numbers and any(plain_number(value) is None for value in values)):
            return None
        test = f"t{at} is str" if strings else self._code.number(at)
        return f"{test} and v{at} not in {self._code.constant(strings or numbers)}"

    # --- values

    def _value(self, node: ast.Term, types: str = "scalars") -> int | None:
        """The number of a value in the code; None if the code does not read it."""
        argument = self._argument(node)
        if argument is not None:
            return self._code.argument(argument, types)
        match node:
            case ast.Fact(path):
                return self._code.fact(path, types)
            case ast.Field(body, name):
                whole = self._value(body, "json_types")
                return None if whole is None else self._code.field(whole, name, types)
        return None

    def _argument(self, node: ast.Term) -> str | None:
        """The argument of the call that a term stands for."""
        match node:
            case ast.Variable(name):
                return self._scope.arguments.get(name)
            case ast.Field(ast.OfCall("args", ast.Label(label)), name) if label == self._scope.label:
                return name
        return None

    def _integer(self, node: ast.Term) -> _Integer | None:
        """The code of an integer; None if the code does not compute it."""
        match node:
            case ast.Constant(value):
                return _Integer(self._code.constant(value), "") if type(value) is int else None
            case ast.Length(body):
                at = self._value(body, "json_types")
                return None if at is None else _Integer(f"len(v{at})", f"t{at} in sized")
            case ast.Arithmetic(left, "+" | "-" | "*" as operator, right):
                integer, other = self._integer(left), self._integer(right)
                if integer is None or other is None or len(integer.text + other.text) > MAX_ARITHMETIC:
                    return None
                guard = " and ".join(filter(None, [integer.guard, other.guard]))
                return _Integer(f"({integer.text} {operator} {other.text})", guard)
        at = self._value(node)
        return None if at is None else _Integer(f"v{at}", f"t{at} is int")


# --- screens

Numbered = Sequence[tuple[int, Monitor]]
Screening = Callable[[RuleContext, SessionCall, Mapping[int, Any]], Numbered]

WARM_UP = 32  # checks before the function is generated, which takes as long as some of them


class CallScreen:
    """The screen for one kind of call: calls of one tool, with the same labels that rules refer to.

    Args:
        monitors: the monitors that apply, with their numbers.
        kind: such a call, without arguments.

    Attributes:
        idle: whether all monitors always remain.
    """

    def __init__(self, monitors: Numbered, kind: SessionCall) -> None:
        self._monitors, self._kind = monitors, kind
        self._checks = 0
        self._function: Screening | None = None
        self.idle = not any(hasattr(monitor, "screened") for _, monitor in monitors)

    def remaining(self, context: RuleContext, call: SessionCall, memory: Mapping[int, Any]) -> Numbered:
        """The monitors that have to judge a proposed call."""
        if self._function is None:
            self._checks += 1
            if self._checks >= WARM_UP:
                self.generate()
            return self._monitors
        try:
            return self._function(context, call, memory)
        except Exception:  # noqa: BLE001 - each monitor then meets its own errors
            return self._monitors

    def generate(self) -> None:
        """Generates the function. Where that fails, or no monitor has a condition for it, all monitors remain."""
        if self.idle or self._function is not None:
            return
        try:
            self._function = _generated(self._monitors, self._kind)
        except Exception:  # noqa: BLE001 - as above
            self._function = None
        self.idle = self._function is None


def _generated(monitors: Numbered, kind: SessionCall) -> Screening | None:
    """Generates the function; None if it would leave out no monitor."""
    code = ScreenCode()
    texts = [_condition(code, number, monitor, kind) for number, monitor in monitors]
    if all(text is None for text in texts):
        return None
    checks = []
    for pair, text in zip(monitors, texts, strict=True):
        left = f"left.append({code.constant(pair)})"
        checks += [left] if text is None else [] if text == "True" else [f"if not ({text}): {left}"]
    return code.function(checks, monitors=monitors)


def _condition(code: ScreenCode, number: int, monitor: Monitor, kind: SessionCall) -> str | None:
    """An expression that is true only if the monitor reports nothing; None if there is none."""
    screened = getattr(monitor, "screened", None)
    try:
        return None if screened is None else screened(code, number, kind)
    except RecursionError:  # of a deep condition
        return None
