"""Z3 and its terms: SMT-LIB text in, Python values and results out.

- Text is parsed with Z3, whose errors are mapped to positions in the author's text.
- SMT-LIB operations on Python values give exactly Z3's results. They raise ArithmeticError where SMT-LIB leaves a
  result open, as for a division by zero: only a solver can decide then.
- An incremental solver adds its constraints once; each check pushes its facts and pops them. Z3's count of its work
  bounds the time, so that a result does not depend on the machine's load, and so does the clock.
- Terms are traversed without recursion, since they may be deep and share subterms.
- The constraints of one question are checked for given values.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from guardagent._support.requirements import install_hint
from guardagent.errors import InputError, name_hint
from guardagent.policy.solver.script import LineIndex, SExprReader, SmtError, UnsupportedError

# --- sorts


@dataclass(frozen=True, slots=True)
class Sort:
    """A sort.

    Attributes:
        name: its name in SMT-LIB.
        values: the constructors of an enumeration; None of another sort.
    """

    name: str
    values: tuple[str, ...] | None = None


BOOL, INT, REAL, STRING = Sort("Bool"), Sort("Int"), Sort("Real"), Sort("String")


@dataclass(frozen=True, slots=True)
class VariableDeclaration:
    """A variable's declaration in a policy file.

    Attributes:
        sort: the name of its sort, or None if the SMT-LIB text declares it.
        enum: its allowed values; if no sort has that name, the constructors of a new one.
    """

    sort: str | None
    enum: Sequence[Any] | None = None


Domains = Mapping[str, Sequence[Any]]
"""The possible values of variables, by their names."""

# --- SMT-LIB text

_STRANGE = re.compile(r"[^\t\n\r -~]")
_ODD_TOKEN = re.compile(r'"[^"]*+(?:""[^"]*+)*+"|;[^\n]*|\|[^|]*\|')
_PLACE = re.compile(r'\(error "line (\d+) column (\d+): (.*)"\)', re.DOTALL)
_UNKNOWN = re.compile(r"unknown (?:constant|function/constant|sort|function) '?([^\s']+)'?")


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of a range of a text."""

    start: int
    end: int
    text: str


def solver_module() -> Any:
    """Returns Z3's Python module.

    Raises:
        InputError: Z3 is not installed.
    """
    try:
        import z3
    except ImportError:
        raise InputError(f"solver rules need Z3; {install_hint('solver')}") from None
    return z3


def new_context() -> Any:
    """Returns a Z3 context for use by one thread at a time. Any thread may release its terms."""
    z3 = solver_module()
    context = z3.Context()
    z3.Z3_enable_concurrent_dec_ref(context.ref())
    return context


def character_edits(text: str) -> list[Edit]:
    """Escapes non-ASCII characters in strings and blanks them in comments, since Z3 reads bytes up to a NUL."""
    if not _STRANGE.search(text):
        return []
    character_edits = []
    for token in _ODD_TOKEN.finditer(text):
        if not token[0].startswith("|"):
            replace = _escaped if token[0].startswith('"') else _blank
            at = token.start()
            character_edits += [
                Edit(at + match.start(), at + match.end(), replace(match[0])) for match in _STRANGE.finditer(token[0])
            ]
    return character_edits


def _escaped(sign: str) -> str:
    return f"\\u{{{ord(sign):x}}}" if ord(sign) <= 0x2FFFF else sign


def _blank(_: str) -> str:
    return " "


def blanked(text: str, start: int, end: int) -> Edit:
    """Replaces a range with spaces and keeps its line breaks."""
    return Edit(start, end, "".join(sign if sign == "\n" else " " for sign in text[start:end]))


class Z3Text:
    """A text in the form that Z3 gets.

    Args:
        text: the author's text.
        edits: replacements in it, which do not overlap.
    """

    def __init__(self, text: str, edits: Iterable[Edit]) -> None:
        pieces, length, position = [], 0, 0
        self._z3_offsets, self._author_offsets = [0], [0]
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
            pieces += [text[position : edit.start], edit.text]
            length += edit.start - position + len(edit.text)
            position = edit.end
            self._z3_offsets.append(length)
            self._author_offsets.append(position)
        self.text = "".join([*pieces, text[position:]])
        self._author_lines, self._z3_lines = LineIndex(text), LineIndex(self.text)
        self._end = len(text)

    def origin(self, line: int, column: int) -> tuple[int, int]:
        """Returns the author's line and column of a position in Z3's text."""
        offset = self._z3_lines.offset(line, column)
        at = bisect_right(self._z3_offsets, offset) - 1
        until = self._author_offsets[at + 1] if at + 1 < len(self._author_offsets) else self._end
        return self._author_lines.position(min(self._author_offsets[at] + offset - self._z3_offsets[at], until))

    def lines(self) -> int:
        return self.text.count("\n") + 1


def parsed(written: Z3Text, context: Any, known: Iterable[str] = (), permit: Z3Text | None = None) -> list[Any]:
    """Returns the assertions as Z3 terms; the last is the permit, if there is one.

    Raises:
        SmtError: Z3 rejects the text.
    """
    z3 = solver_module()
    text = written.text if permit is None else f"{written.text}\n(assert\n{permit.text}\n)"
    try:
        return list(z3.parse_smt2_string(text, ctx=context))
    except z3.Z3Exception as error:
        raise _located(_message(error), written, known, permit) from None


def _message(error: Exception) -> str:
    value = getattr(error, "value", None) or str(error)
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _located(message: str, written: Z3Text, known: Iterable[str], permit: Z3Text | None) -> SmtError:
    first = next(iter(message.split("\n(error ")), message).strip()
    match = _PLACE.search(first)
    if match is None:
        return SmtError(f"Z3 rejects the text: {first}")
    line, column, problem = int(match[1]), int(match[2]), _problem_text(match[3].strip(), known)
    column += line > 1  # Z3 counts the columns of the first line from 1, those of the others from 0
    own = written.lines() + 1  # the line of `(assert`, just before the permit's first line
    if permit is None or line < own:
        return SmtError(problem, *written.origin(line, column))
    return SmtError(problem, *permit.origin(line - own, column), of_permit=True)


def _problem_text(problem: str, known: Iterable[str]) -> str:
    problem = " ".join(problem.split())
    unknown = _UNKNOWN.match(problem)
    if unknown:
        return f"{problem}{name_hint(unknown[1], known)}"
    if "term is not Boolean" in problem:
        return f"{problem}; expected a term of sort Bool"
    return problem


def check_term(text: str) -> None:
    """Checks that a permit is exactly one term.

    Raises:
        SmtError: the text has no term, or more than one.
    """
    try:
        reader = SExprReader(text)
    except SmtError as error:
        raise SmtError(error.problem, error.line, error.column, of_permit=True) from None
    starts = sorted([form.start for form in reader.forms] + [sexpr.start for sexpr in reader.stray])
    if len(starts) != 1:
        line, column = reader.line_index.position(starts[1] if starts else 0)
        count = "more than one term" if starts else "no term"
        problem = f"the permit has {count}; expected one predicate such as '(and a b)'"
        raise SmtError(problem, line, column, of_permit=True)


def sort_of(z3_sort: Any) -> Sort:
    """Converts a Z3 sort; a sort without Python values keeps only its name."""
    z3 = solver_module()
    kind = z3_sort.kind()
    plain = {z3.Z3_BOOL_SORT: BOOL, z3.Z3_INT_SORT: INT, z3.Z3_REAL_SORT: REAL}.get(kind)
    if plain is not None:
        return plain
    if kind == z3.Z3_SEQ_SORT and z3_sort.is_string():
        return STRING
    if kind == z3.Z3_DATATYPE_SORT:
        constructors = [z3_sort.constructor(number) for number in range(z3_sort.num_constructors())]
        if all(constructor.arity() == 0 for constructor in constructors):
            return Sort(z3_sort.name(), tuple(constructor.name() for constructor in constructors))
    return Sort(z3_sort.sexpr())


# --- operations on Python values

MAX_CHARACTER = 0x2FFFF  # of an SMT-LIB string
MAX_PRODUCT = 20_000_000  # characters of the result of a replacement
Number = int | Fraction


def replace_all(text: str, old: str, new: str) -> str:
    """`str.replace_all`: an empty pattern matches nowhere."""
    if not old:
        return text
    if len(text) * (len(new) + 1) > MAX_PRODUCT:
        raise OverflowError
    return text.replace(old, new)


def to_int(text: str) -> int:
    """`str.to_int`."""
    return int(text) if text.isascii() and text.isdigit() else -1


def is_digit(text: str) -> bool:
    """`str.is_digit`."""
    return len(text) == 1 and "0" <= text <= "9"


def is_text(text: str) -> bool:
    """Whether all characters exist in SMT-LIB."""
    return text.isascii() or all(
        ord(character) <= MAX_CHARACTER and not 0xD800 <= ord(character) <= 0xDFFF for character in text
    )


# --- values of terms

MAX_TEXT = 20_000  # characters of a string that the solver gets
MAX_BITS = 10_000  # of a number


def fits(value: Any, sort: Sort) -> bool:
    """Whether a value belongs to the sort without conversion."""
    kind = type(value)
    if sort.values is not None:
        return kind is str and value in sort.values
    if sort == REAL:
        return kind in (int, Fraction)
    if sort == STRING:
        return kind is str and is_text(value)
    return (kind is bool and sort == BOOL) or (kind is int and sort == INT)


def moderate(value: Any, longest: int = MAX_TEXT) -> bool:
    """Whether a value is small enough for the solver."""
    if isinstance(value, str):
        return len(value) <= longest
    return bool(max(value.numerator.bit_length(), value.denominator.bit_length()) <= MAX_BITS)


def term_of(value: Any, constant: Any) -> Any:
    """Returns a value, which fits the constant's sort, as a term of that sort."""
    z3 = solver_module()
    sort, context = constant.sort(), constant.ctx
    if isinstance(value, bool):
        return z3.BoolVal(value, context)
    if isinstance(value, str):
        return _text_term(value, sort, context)
    if z3.is_real(constant):
        return z3.RealVal(f"{value.numerator}/{value.denominator}", context)
    return z3.IntVal(str(value), context)


def _text_term(value: str, sort: Any, context: Any) -> Any:
    z3 = solver_module()
    if sort.kind() == z3.Z3_DATATYPE_SORT:
        constructors = (sort.constructor(number) for number in range(sort.num_constructors()))
        return next(constructor() for constructor in constructors if constructor.name() == value)
    codes = (z3.ctypes.c_uint * len(value))(*map(ord, value))
    return z3.SeqRef(z3.Z3_mk_u32string(context.ref(), len(value), codes), context)


def value_of(term: Any) -> Any:
    """Returns the value of a literal.

    Raises:
        UnsupportedError: the term is not a literal, or has no Python value.
    """
    z3 = solver_module()
    if z3.is_true(term) or z3.is_false(term):
        return z3.is_true(term)
    if z3.is_int_value(term) or z3.is_rational_value(term):
        return _number(term)
    if z3.is_string_value(term):
        return text_value(term)
    if z3.is_app(term) and term.decl().kind() == z3.Z3_OP_DT_CONSTRUCTOR and not term.num_args():
        return term.decl().name()
    raise UnsupportedError


def _number(term: Any) -> int | Fraction:
    z3 = solver_module()
    try:
        number = Fraction(term.as_long()) if z3.is_int_value(term) else term.as_fraction()
    except ValueError:  # too many digits
        raise UnsupportedError from None
    return number.numerator if number.denominator == 1 else Fraction(number)


def text_value(term: Any) -> str:
    """Returns the string of a literal, code point by code point.

    Raises:
        UnsupportedError: the term is not a string literal.
    """
    z3 = solver_module()
    if not z3.is_string_value(term):
        raise UnsupportedError
    length = z3.Z3_get_string_length(term.ctx_ref(), term.as_ast())
    codes = (z3.ctypes.c_uint * length)()
    z3.Z3_get_string_contents(term.ctx_ref(), term.as_ast(), length, codes)
    if any(code > 0x10FFFF for code in codes):
        raise UnsupportedError
    return "".join(map(chr, codes))


def values_of(model: Any, constants: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns a model's values of constants, or None if one has no Python value."""
    try:
        return {name: value_of(model.eval(constant, model_completion=True)) for name, constant in constants.items()}
    except UnsupportedError:
        return None


# --- the solver

Status = Literal["sat", "unsat", "unknown", "undefined"]


@dataclass(frozen=True, slots=True)
class PartialPlace:
    """An operation that has no value outside of its domain.

    Attributes:
        term: the number of the constraint that contains it; the last is the permit.
        text: the operation as SMT-LIB text.
        domain: the condition for its operands.
    """

    term: int
    text: str
    domain: Any


@dataclass(frozen=True, slots=True)
class SolverResult:
    """The result of a satisfiability check.

    Attributes:
        status: "sat", "unsat", "unknown" if the solver could not decide within its time limit, or "undefined" if the
            constraints hold only by the result of an operation outside of its domain.
        core: a minimal unsatisfiable core, if "unsat".
        counterexample: values of the universally quantified variables for which the constraints are unsatisfiable.
        undefined: the operations outside of their domains, if "undefined".
    """

    status: Status
    core: tuple[str, ...] = ()
    counterexample: Mapping[str, Any] | None = None
    undefined: tuple[PartialPlace, ...] = ()


UNKNOWN = SolverResult("unknown")

WORK = 500_000  # Z3's resource units per second of the time limit
MEMORY = 1_000  # megabytes for a check
_STEP = 250  # megabytes by which the limit is raised


class Deadline:
    """The time limit of all checks of one call."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def passed(self) -> bool:
        return time.monotonic() > self._end


class Z3Solver:
    """A Z3 solver with fixed constraints.

    Args:
        terms: the constraints.
        context: their Z3 context.
    """

    def __init__(self, terms: Iterable[Any], context: Any) -> None:
        z3 = solver_module()
        self.context = context
        self._solver = z3.SimpleSolver(ctx=context)
        self._solver.set(ctrl_c=False)  # the host handles interrupts
        self._limits = (0.0, 0)
        self._solver.add(*terms)

    def _limit(self, deadline: Deadline, share: float = 1.0) -> None:
        seconds = deadline.seconds * share
        # Z3 compares its limit with what all contexts of the process take, and ends a check that is above it at once.
        memory = solver_module().Z3_get_estimated_alloc_size() // (_STEP * 1_000_000) * _STEP + _STEP + MEMORY
        if (seconds, memory) != self._limits:
            self._limits = (seconds, memory)
            self._solver.set(timeout=max(int(seconds * 1000), 1), rlimit=max(int(seconds * WORK), 1), max_memory=memory)

    def model(
        self, facts: Sequence[Any], constants: Mapping[str, Any], deadline: Deadline, share: float = 1.0
    ) -> tuple[Status, dict[str, Any] | None]:
        """Checks whether the facts are consistent with the constraints, and returns the values of constants.

        Args:
            facts: terms of sort Bool.
            constants: the constants whose values are wanted; None is returned if one has no Python value.
            deadline: the time limit of all checks.
            share: the part of the time limit for this check.
        """
        if deadline.passed():
            return "unknown", None
        self._limit(deadline, share)
        self._solver.push()
        try:
            self._solver.add(*facts)
            status = _status(self._solver.check())
            model = values_of(self._solver.model(), constants) if status == "sat" and constants else None
        finally:
            self._solver.pop()
        return status, model

    def core(self, assumptions: Sequence[Any], deadline: Deadline, share: float = 1.0) -> tuple[Status, list[int]]:
        """Checks whether the assumptions are consistent, and returns the indexes of a contradictory subset."""
        if deadline.passed():
            return "unknown", []
        self._limit(deadline, share)
        status = _status(self._solver.check(*assumptions))
        if status != "unsat":
            return status, []
        core = {core_term.get_id() for core_term in self._solver.unsat_core()}
        return status, [number for number, assumption in enumerate(assumptions) if assumption.get_id() in core]


def _status(result: Any) -> Status:
    z3 = solver_module()
    if result == z3.sat:
        return "sat"
    return "unsat" if result == z3.unsat else "unknown"


# --- traversal of terms

MAX_NODES = 20_000  # of terms that are traversed
Symbol = tuple[str, int]  # an uninterpreted constant or function: its name and arity


class TooLargeError(Exception):
    """The terms have too many nodes."""


def postorder(roots: Iterable[Any], limit: int = MAX_NODES) -> list[Any]:
    """Returns every subterm once, after its own subterms.

    Raises:
        TooLargeError: there are too many subterms.
    """
    terms: list[Any] = []
    done: set[int] = set()
    stack = [(root, False) for root in reversed(list(roots))]
    while stack:
        term, entered = stack.pop()
        if term.get_id() in done:
            continue
        if entered:
            done.add(term.get_id())
            terms.append(term)
            continue
        if len(terms) + len(stack) > limit:
            raise TooLargeError
        stack.append((term, True))
        stack += [(child, False) for child in reversed(term.children())]
    return terms


def symbol_of(term: Any) -> Symbol | None:
    """Returns the symbol of an uninterpreted constant or function, else None."""
    z3 = solver_module()
    if not z3.is_app(term) or term.decl().kind() != z3.Z3_OP_UNINTERPRETED:
        return None
    return term.decl().name(), term.num_args()


class SymbolCache:
    """Caches the symbols that occur in terms."""

    def __init__(self) -> None:
        self._found: dict[int, frozenset[Symbol]] = {}
        self._kept: list[Any] = []  # Z3 reuses the id of a released term

    def of(self, term: Any) -> frozenset[Symbol]:
        known = self._found.get(term.get_id())
        if known is None:
            symbols = {symbol_of(part) for part in postorder([term])}
            known = frozenset(symbol for symbol in symbols if symbol is not None)
            self._found[term.get_id()] = known
            self._kept.append(term)
        return known


def replaced(term: Any, values: Mapping[Symbol, Any]) -> Any:
    """Replaces constants in a term and folds connectives whose value is then decided."""
    z3 = solver_module()
    new: dict[int, Any] = {}
    for part in postorder([term]):
        if not z3.is_app(part):
            new[part.get_id()] = z3.substitute(part, *_pairs(part, values)) if values else part
            continue
        symbol = symbol_of(part)
        if symbol is not None and symbol in values:
            new[part.get_id()] = values[symbol]
            continue
        children = part.children()
        mended = [new[child.get_id()] for child in children]
        same = all(child.eq(other) for child, other in zip(children, mended, strict=True))
        new[part.get_id()] = folded(part if same else part.update(*mended))
    return new[term.get_id()]


def _pairs(part: Any, values: Mapping[Symbol, Any]) -> list[tuple[Any, Any]]:
    constants = [subterm for subterm in postorder([part]) if symbol_of(subterm) in values]
    return [(constant, values[symbol_of(constant)]) for constant in constants]  # type: ignore[index]


def folded(term: Any) -> Any:
    """Simplifies a connective that has a truth value among its operands."""
    z3 = solver_module()
    kind, parts = term.decl().kind(), term.children()
    if kind == z3.Z3_OP_ITE and (z3.is_true(parts[0]) or z3.is_false(parts[0])):
        return parts[1 if z3.is_true(parts[0]) else 2]
    if not any(z3.is_true(part) or z3.is_false(part) for part in parts):
        return term
    if kind == z3.Z3_OP_NOT:
        return z3.BoolVal(not z3.is_true(parts[0]), term.ctx)
    if kind in (z3.Z3_OP_AND, z3.Z3_OP_OR):
        return _junction(term, parts, conjunction=kind == z3.Z3_OP_AND)
    if kind == z3.Z3_OP_IMPLIES:
        return _junction(term, [negated(parts[0]), parts[1]], conjunction=False)
    return _equality(term, parts) if kind == z3.Z3_OP_EQ else term


def negated(term: Any) -> Any:
    z3 = solver_module()
    if z3.is_true(term) or z3.is_false(term):
        return z3.BoolVal(z3.is_false(term), term.ctx)
    return term.arg(0) if z3.is_not(term) else z3.Not(term)


def _junction(term: Any, parts: list[Any], *, conjunction: bool) -> Any:
    z3 = solver_module()
    decides, idle = (z3.is_false, z3.is_true) if conjunction else (z3.is_true, z3.is_false)
    if any(decides(part) for part in parts):
        return z3.BoolVal(not conjunction, term.ctx)
    left = [part for part in parts if not idle(part)]
    if len(left) < 2:
        return left[0] if left else z3.BoolVal(conjunction, term.ctx)
    return z3.And(left) if conjunction else z3.Or(left)


def _equality(term: Any, parts: list[Any]) -> Any:
    z3 = solver_module()
    first, second = parts
    if z3.is_true(first) or z3.is_false(first):
        first, second = second, first
    if z3.is_true(first) or z3.is_false(first):
        return z3.BoolVal(first.eq(second), term.ctx)
    return first if z3.is_true(second) else negated(first)


def conjuncts(terms: Iterable[Any]) -> list[Any]:
    """Splits terms into the conjuncts that must all hold."""
    z3 = solver_module()
    conjuncts, stack = [], list(terms)[::-1]
    while stack:
        term = stack.pop()
        if z3.is_and(term):
            stack += term.children()[::-1]
        elif z3.is_not(term) and z3.is_or(term.arg(0)):
            stack += [negated(child) for child in term.arg(0).children()[::-1]]
        elif z3.is_not(term) and z3.is_implies(term.arg(0)):
            stack += [negated(term.arg(0).arg(1)), term.arg(0).arg(0)]
        elif z3.is_not(term) and z3.is_not(term.arg(0)):
            stack.append(term.arg(0).arg(0))
        elif not z3.is_true(term):
            conjuncts.append(term)
    return conjuncts


# --- the constraints of a question

FIRST_SHARE = 0.1  # of the time limit, before the question is simplified first
MAX_CACHED = 32  # derived questions

Evaluator = Callable[[Sequence[object]], bool | None]


def undecided(_: Sequence[object]) -> bool | None:
    """Leaves the decision to the solver."""
    return None


@dataclass(frozen=True, slots=True)
class Constraints:
    """The constraints of one question.

    Attributes:
        terms: the constraints.
        solver: a solver that holds them.
        constants: the variables, as terms.
        sorts: the variables' sorts.
        evaluate: the terms as a function of the values of all variables, in order.
        cache: derived questions about the same variables.
    """

    terms: Sequence[Any]
    solver: Z3Solver
    constants: Mapping[str, Any]
    sorts: Mapping[str, Sort]
    evaluate: Evaluator = undecided
    cache: dict[Hashable, Constraints] = field(default_factory=dict)

    def pairs(self, values: Mapping[str, Any]) -> list[tuple[Any, Any]]:
        """Returns variables and their values as terms."""
        return [(self.constants[name], term_of(value, self.constants[name])) for name, value in values.items()]

    def facts(self, values: Mapping[str, Any]) -> list[Any]:
        return [constant == term for constant, term in self.pairs(values)]

    def evaluated(self, values: Mapping[str, Any]) -> bool | None:
        """Whether the values of all variables satisfy the constraints; None if only the solver can tell."""
        return self.evaluate([values[name] for name in self.sorts]) if self.sorts.keys() <= values.keys() else None

    def check(self, values: Mapping[str, Any], deadline: Deadline) -> Status:
        """Checks whether the constraints are satisfiable with these values."""
        return self.model(values, [], (), deadline)[0]

    def model(
        self, values: Mapping[str, Any], further: Sequence[Any], wanted: Sequence[str], deadline: Deadline
    ) -> tuple[Status, dict[str, Any] | None]:
        """Checks with further constraints, and returns the values of the wanted variables."""
        constants = {name: self.constants[name] for name in wanted}
        model = self.solver.model([*self.facts(values), *further], constants, deadline, FIRST_SHARE)
        if model[0] != "unknown":
            return model
        simple = simplified([*self.terms, *further], self.pairs(values))
        return Z3Solver([simple], self.solver.context).model([], constants, deadline)

    def derived(self, key: Hashable, terms: Callable[[], Sequence[Any]]) -> Constraints:
        """Returns a cached question with other terms about the same variables."""
        constraints = self.cache.get(key)
        if constraints is None:
            if len(self.cache) >= MAX_CACHED:
                self.cache.clear()
            whole = terms()
            constraints = self.cache[key] = Constraints(
                whole, Z3Solver(whole, self.solver.context), self.constants, self.sorts
            )
        return constraints


def simplified(terms: Sequence[Any], pairs: Sequence[tuple[Any, Any]]) -> Any:
    """Simplifies the terms with values substituted; this alone decides most string constraints."""
    z3 = solver_module()
    return z3.simplify(z3.substitute(z3.And(list(terms)), *pairs))
