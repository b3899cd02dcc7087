"""The satisfiability question of one tool's permit, with its remedies and its minimal unsatisfiable cores.

A remedy changes the fewest values so that the constraints become satisfiable, to the nearest new values. A core is
contradictory, and all of its constraints are needed.

An SMT-LIB 2 policy is parsed once for all questions about it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import floor
from typing import Any

from guardagent.errors import name_hint
from guardagent.policy.language.values import exact
from guardagent.policy.solver.definedness import conjunction, defined_terms
from guardagent.policy.solver.evaluator import compile_evaluator
from guardagent.policy.solver.reduction import ConstraintGroup, reduce_terms, solve_for_all
from guardagent.policy.solver.script import Assertion, Script, SExprReader, SmtError
from guardagent.policy.solver.sources import SolverContext, context_of
from guardagent.policy.solver.z3_text import (
    FIRST_SHARE,
    INT,
    MAX_TEXT,
    REAL,
    STRING,
    UNKNOWN,
    Constraints,
    Deadline,
    Domains,
    Edit,
    Evaluator,
    PartialPlace,
    SolverResult,
    Sort,
    SymbolCache,
    TooLargeError,
    VariableDeclaration,
    Z3Solver,
    Z3Text,
    blanked,
    character_edits,
    check_term,
    fits,
    moderate,
    parsed,
    postorder,
    simplified,
    solver_module,
    sort_of,
    term_of,
    undecided,
)
from guardagent.types import EMPTY

# --- the policy

__all__ = ["Assertion", "Encoding", "Question", "SmtError", "SolverResult", "VariableDeclaration"]


_BUILT_IN = frozenset({"Bool", "Int", "Real", "String", "RegLan"})
_SYMBOL = re.compile(r"[A-Za-z~!@$%^&*_+=<>.?/-][A-Za-z0-9~!@$%^&*_+=<>.?/-]*")


class Encoding:
    """The declarations and assertions of a policy. It is immutable, and threads may share it.

    Attributes:
        constants: the constants declared by the text or the policy file, with their sorts.
        enumerations: the values of enumeration sorts, by name.
        assertions: the assertions, in the order of the text.
        comments: the comments of declarations, by name.
        meanings: those of `Script`, with the enumerations of the policy file.
    """

    def __init__(self, script: Script, written: Z3Text, names: Mapping[str, str], sorts: Hashable) -> None:
        self._written, self._names = written, list(names)
        self._known = sorted({*script.symbols, *names})
        self._recursive = script.recursive  # Z3 cannot define a recursive function twice in one context
        self._context = SolverContext() if script.recursive else context_of(sorts)
        self.assertions = tuple(script.assertions)
        self.comments: Mapping[str, str] = script.comments
        with self._context.lock:
            constants = self._parsed(self._context.z3)[1]
            self.constants: Mapping[str, Sort] = {name: sort_of(term.sort()) for name, term in constants.items()}
        enumerations = {sort.name: sort.values for sort in self.constants.values() if sort.values is not None}
        self.enumerations: Mapping[str, tuple[str, ...]] = {**script.enumerations, **enumerations}
        self.meanings: Mapping[str, Hashable] = {**script.meanings, **enumerations}

    @classmethod
    def read(cls, text: str, declared: Mapping[str, VariableDeclaration]) -> Encoding:
        """Reads a policy.

        Args:
            text: SMT-LIB 2 commands.
            declared: variables of the policy file; their sorts must agree with those of the text.

        Raises:
            SmtError: the text or a declaration is invalid.
            InputError: Z3 is not installed.
        """
        script = Script(text)
        silent = [blanked(text, form.start, form.end) for form in script.ignored]
        edits = character_edits(text)
        inside = [edit for edit in edits if not any(form.start <= edit.start < form.end for form in silent)]
        names = {name: constant.written for name, constant in script.constants.items()}
        names.update({name: _quote_symbol(name) for name in declared})
        equalities = Edit(len(text), len(text), "".join(f"\n(assert (= {name} {name}))" for name in names.values()))
        written = Z3Text(text, [*_declarations(script, declared), *silent, *inside, equalities])
        new_sorts = {repr((constant.sort, constant.enum)) for constant in declared.values() if constant.enum}
        encoding = cls(script, written, names, frozenset({*script.sort_declarations, *new_sorts}))
        for name, variable_declaration in declared.items():
            encoding._check_agreement(name, variable_declaration, script)
        return encoding

    def _parsed(self, context: Any, permit: Z3Text | None = None) -> tuple[list[Any], dict[str, Any]]:
        """Returns the assertions and the permit as Z3 terms, and the constants, taken from added `(= c c)`."""
        terms = parsed(self._written, context, self._known, permit)
        count, wanted = len(terms) - len(self._names), len(self.assertions) + (permit is not None)
        if count != wanted:
            raise SmtError(f"Z3 reads {count} assertions, but the text has {wanted}")
        equalities = terms[len(self.assertions) : len(self.assertions) + len(self._names)]
        constants = {name: term.arg(0) for name, term in zip(self._names, equalities, strict=True)}
        return terms[: len(self.assertions)] + terms[len(self.assertions) + len(self._names) :], constants

    def _check_agreement(self, name: str, declared: VariableDeclaration, script: Script) -> None:
        constant = script.constants.get(name)
        if constant is None or declared.sort is None or declared.sort == self.constants[name].name:
            return
        symbol = self.constants[name].name
        problem = f"{name!r} has the sort '{symbol}'; expected '{declared.sort}', as the policy file declares"
        raise script.reader.error(problem, constant.start)

    def question(self, permit: str, variables: Sequence[str], domains: Domains = EMPTY) -> Question:
        """Returns the question whether a predicate permits a call.

        Args:
            permit: the predicate: a term of sort Bool.
            variables: the constants whose values are known at a call, in this order.
            domains: the allowed values of variables that the solver may choose, if restricted.

        Raises:
            SmtError: the permit is invalid, or a variable is not declared.
        """
        check_term(permit)
        for name in variables:
            if name not in self.constants:
                raise SmtError(f"unknown variable {name!r}{name_hint(name, self.constants)}")
        rewritten = Z3Text(permit, character_edits(permit))
        sorts = {name: self.constants[name] for name in variables}
        context = SolverContext() if self._recursive else self._context
        with context.lock:
            terms, constants = self._parsed(context.z3, rewritten)
            terms[-1] = _restrict_domains(terms[-1], constants, domains)
            return Question(terms, {name: constants[name] for name in sorts}, sorts, context.lock)


def _restrict_domains(permit: Any, constants: Mapping[str, Any], domains: Domains) -> Any:
    """Restricts variables of the permit to their domains."""
    z3 = solver_module()
    for name, values in domains.items():
        permit = z3.And(permit, z3.Or([constants[name] == term_of(value, constants[name]) for value in values]))
    return permit


def _declarations(script: Script, declared: Mapping[str, VariableDeclaration]) -> list[Edit]:
    """Declares the variables that only the policy file declares, right after their sorts."""
    edits: list[Edit] = []
    new_sorts: dict[str, tuple[Any, ...]] = {}
    for name, variable_declaration in declared.items():
        if name in script.constants:
            continue
        if variable_declaration.sort is None:
            raise SmtError(f"{name!r} is not declared{name_hint(name, script.constants)}, or add its 'sort:'")
        if name in script.symbols:
            raise SmtError(f"{name!r} is already a name in the SMT-LIB text; choose another name")
        edits += _new_sort(script, variable_declaration, new_sorts)
        place = script.sorts.get(variable_declaration.sort, script.logic_end)
        known = variable_declaration.sort in new_sorts or variable_declaration.sort in script.sorts
        sort = _quote_symbol(variable_declaration.sort) if known else _sort_text(variable_declaration.sort, name)
        edits.append(Edit(place, place, f"(declare-const {_quote_symbol(name)} {sort})"))
    return edits


def _new_sort(script: Script, declared: VariableDeclaration, new_sorts: dict[str, tuple[Any, ...]]) -> list[Edit]:
    """Declares the enumeration that a variable's `enum:` defines, unless its sort exists."""
    name, values = declared.sort, declared.enum
    assert name is not None
    if values is None or name in script.sorts or name in _BUILT_IN or name.startswith("("):
        return []
    if name in new_sorts:
        if new_sorts[name] != tuple(values):
            raise SmtError(f"sort '{name}' is declared with different values; expected the same values everywhere")
        return []
    new_sorts[name] = tuple(values)
    constructors = " ".join(f"({_constructor(value, script)})" for value in _distinct(values))
    place = script.logic_end
    return [Edit(place, place, f"(declare-datatypes (({_quote_symbol(name)} 0)) (({constructors})))")]


def _distinct(values: Iterable[Any]) -> list[Any]:
    distinct_values = list(values)
    if len({repr(value) for value in distinct_values}) < len(distinct_values) or not distinct_values:
        raise SmtError("'enum' is empty or has duplicate values; expected distinct values")
    return distinct_values


def _constructor(value: Any, script: Script) -> str:
    if not isinstance(value, str):
        raise SmtError(f"{value!r} is not a string; expected strings as the values of an enumeration")
    if value in script.symbols:
        raise SmtError(f"{value!r} is already a name in the SMT-LIB text; choose another name")
    return _quote_symbol(value)


def _sort_text(sort: str, name: str) -> str:
    reader = SExprReader(sort)
    if len(reader.forms) + len(reader.stray) != 1 or reader.comments:
        expected = "expected 'Bool', 'Int', 'Real', 'String' or a sort of the SMT-LIB text"
        raise SmtError(f"{name!r} has the sort {sort!r}; {expected}")
    return sort


def _quote_symbol(name: str) -> str:
    """Quotes a symbol if necessary."""
    if "|" in name or "\\" in name or "\0" in name:
        raise SmtError(f"{name!r} is not an SMT-LIB name; expected one without '|', '\\' and NUL")
    return name if _SYMBOL.fullmatch(name) else f"|{name}|"


# --- remedies

MAX_CHANGED = 2
_HALVINGS = 48  # steps of the binary search for the nearest number


def remedy(
    constraints: Constraints, known: Mapping[str, Any], changeable: Sequence[str], domains: Domains, deadline: Deadline
) -> dict[str, Any] | None:
    """Returns new values of as few variables as possible; empty if satisfiable already, None if none are found."""
    if constraints.evaluated(known) is not False and constraints.check(known, deadline) == "sat":
        return {}
    for size in range(1, MAX_CHANGED + 1):
        for names in combinations(changeable, size):
            match = _ValueSearch(constraints, known, names, domains, deadline).search()
            if match is not None:
                return match
    return None


class _ValueSearch:
    """A search for new values of exactly these variables."""

    def __init__(
        self,
        constraints: Constraints,
        known: Mapping[str, Any],
        names: Sequence[str],
        domains: Domains,
        deadline: Deadline,
    ) -> None:
        self._constraints, self._known, self._names, self._deadline = constraints, known, names, deadline
        self._kept = {name: value for name, value in known.items() if name not in names}
        self._domains = {name: domains[name] for name in names if name in domains}
        self._further: list[Any] = []

    def search(self) -> dict[str, Any] | None:
        self._further = [self._within(name, domain) for name, domain in self._domains.items()]
        changed = {name: self._known[name] for name in self._names}
        self._further += [constant != term for constant, term in self._constraints.pairs(changed)]
        status, values = self._solve([])
        for name in self._names if status == "sat" else ():  # minimizes each change, with the earlier ones fixed
            values = self._nearest(name, values)
            if values is None:
                return None
            self._further += self._constraints.facts({name: values[name]})
        return values if values is not None and self._sound(values) else None

    def _solve(self, wishes: Sequence[Any]) -> tuple[str, dict[str, Any] | None]:
        return self._constraints.model(self._kept, [*self._further, *wishes], self._names, self._deadline)

    def _within(self, name: str, domain: Sequence[Any]) -> Any:
        z3 = solver_module()
        usable = [value for value in domain if fits(value, self._constraints.sorts[name]) and moderate(value)]
        facts = [self._constraints.facts({name: value})[0] for value in usable]
        return z3.Or([z3.BoolVal(False, self._constraints.solver.context), *facts])  # noqa: FBT003 - a value

    def _sound(self, values: Mapping[str, Any]) -> bool:
        if not all(fits(value, self._constraints.sorts[name]) and moderate(value) for name, value in values.items()):
            return False
        return self._constraints.check({**self._known, **values}, self._deadline) == "sat"

    def _nearest(self, name: str, values: dict[str, Any] | None) -> dict[str, Any] | None:
        """Returns values in which one variable is simple and as near as possible to its current value."""
        for wish in self._preferences(name):
            status, model = self._solve([wish])
            if status == "sat" and model is not None:
                values = model
                break
        if values is None or self._constraints.sorts[name] not in (INT, REAL):
            return values
        return self._nearer(name, values)

    def _preferences(self, name: str) -> list[Any]:
        """Returns constraints for simple values, the simplest first."""
        z3 = solver_module()
        constant, sort = self._constraints.constants[name], self._constraints.sorts[name]
        if sort == REAL:
            return [z3.IsInt(constant), z3.IsInt(constant * 100)]
        return [z3.Length(constant) <= limit for limit in (0, 1, 8)] if sort == STRING else []

    def _nearer(self, name: str, values: dict[str, Any]) -> dict[str, Any]:
        """Finds the nearest number by binary search."""
        now = self._known[name]
        grain = 100 if Fraction(values[name]).denominator > 1 else 1
        beyond = 0  # no solution within this distance, in units of 1 / grain
        for _ in range(_HALVINGS):
            nearer = self._walked(name, values, grain)
            reached = int(abs(Fraction(nearer[name]) - now) * grain)
            if reached - beyond < 2:
                return nearer
            # where the walk ends, the next number is no solution on this side, and often there is none on the other
            middle = reached - 1 if nearer[name] != values[name] else (beyond + reached) // 2
            model = self._solve(self._interval(name, now, Fraction(middle, grain), grain))[1]
            values, beyond = (nearer, middle) if model is None else (model, beyond)
        return values

    def _walked(self, name: str, values: dict[str, Any], grain: int) -> dict[str, Any]:
        """Walks towards the current number by binary search, with the compiled constraints in place of the solver."""
        now, start = self._known[name] * grain, Fraction(values[name]) * grain
        side = 1 if start > now else -1
        origin = side * floor(side * now)
        if name in self._domains or start.denominator > 1:
            return values
        near, reached = 0, abs(int(start) - origin)
        while reached - near > 1:
            middle = (near + reached) // 2
            candidate = {**values, name: exact(Fraction(origin + side * middle, grain))}
            if self._constraints.evaluated({**self._known, **candidate}) is True:
                values, reached = candidate, middle
            else:
                near = middle
        return values

    def _interval(self, name: str, now: Any, distance: Fraction, grain: int) -> list[Any]:
        z3 = solver_module()
        constant = self._constraints.constants[name]
        near = [constant >= term_of(now - distance, constant), constant <= term_of(now + distance, constant)]
        return [*near, z3.IsInt(constant * grain)] if self._constraints.sorts[name] == REAL else near


# --- cores

PERMIT = "permit"
MAX_TERMS = 1_000  # a larger set cannot be minimized in time


def minimal_core(constraints: Constraints, values: Mapping[str, Any], deadline: Deadline) -> tuple[str, ...]:
    """Returns the core as names: `variable:x`, `assertion:0`, `permit`. It is not minimal if time runs out."""
    if len(constraints.terms) > MAX_TERMS:
        return (*(f"variable:{name}" for name in values), PERMIT)
    return _CoreSearch(constraints, values, deadline).minimal()


class _CoreSearch:
    def __init__(self, constraints: Constraints, values: Mapping[str, Any], deadline: Deadline) -> None:
        z3 = solver_module()
        self._deadline, self._context = deadline, constraints.solver.context
        self._pairs = {f"variable:{name}": constraints.pairs({name: value})[0] for name, value in values.items()}
        names = [f"assertion:{number}" for number in range(len(constraints.terms) - 1)]
        self._terms = dict(zip([*names, PERMIT], constraints.terms, strict=True))
        facts = {name: constant == term for name, (constant, term) in self._pairs.items()}
        self._marks = {name: z3.Bool(f"core!{name}", self._context) for name in (*facts, *self._terms)}
        terms = {**facts, **self._terms}
        implied = [z3.Implies(mark, terms[name]) for name, mark in self._marks.items()]
        self._solver = Z3Solver(implied, self._context)

    def minimal(self) -> tuple[str, ...]:
        kept = self._contradiction(list(self._marks)) or list(self._marks)
        for name in list(kept):
            if name in kept:
                fewer = self._contradiction([other for other in kept if other != name])
                kept = kept if fewer is None else fewer
        return tuple(kept)

    def _contradiction(self, names: Sequence[str]) -> list[str] | None:
        """Returns a contradictory subset of these, or None if none is known."""
        if self._deadline.passed():
            return None
        status, numbers = self._solver.core([self._marks[name] for name in names], self._deadline, FIRST_SHARE)
        if status == "unsat":
            return [names[number] for number in numbers]
        return list(names) if status == "unknown" and self._simply(names) else None

    def _simply(self, names: Sequence[str]) -> bool:
        """Whether they are contradictory, checked with the values substituted."""
        terms = [self._terms[name] for name in names if name in self._terms]
        pairs = [self._pairs[name] for name in names if name in self._pairs]
        simple = simplified([solver_module().BoolVal(True, self._context), *terms], pairs)  # noqa: FBT003 - a value
        return Z3Solver([simple], self._context).model([], {}, self._deadline)[0] == "unsat"


# --- questions


_SECONDS = 0.2  # for constraints that do not depend on a call
_LONGEST = 200  # characters of a string in a replacement: longer ones take Z3 minutes, despite its limits
_REPLACE_OPERATIONS = {"str.replace_all", "str.replace_re_all", "str.replace_re"}
_FAILED = (ValueError, TypeError, OverflowError, RecursionError, MemoryError)


class Question:
    """Asks whether a policy permits a call. Threads may share it; a lock serializes the solver.

    Args:
        terms: the assertions, and last the permit.
        constants: the terms of the variables, in order.
        variables: the sorts of the variables.
        lock: guards the Z3 context.

    Attributes:
        places: the operations that are not defined everywhere.
        doubt: terms that are satisfied where such an operation leaves the result open.
    """

    def __init__(
        self, terms: Sequence[Any], constants: Mapping[str, Any], variables: Mapping[str, Sort], lock: threading.Lock
    ) -> None:
        self.variables = variables
        self._lock, context = lock, terms[-1].ctx
        defined = defined_terms(terms)
        self.terms, self.places = tuple(defined.strong), tuple(defined.places)
        self.evaluate: Evaluator = _evaluator(self.terms, context, variables)
        solver = Z3Solver(self.terms, context)
        self._constraints = Constraints(self.terms, solver, constants, variables, self.evaluate)
        self._weak = self._constraints
        if self.places:
            self._weak = Constraints(defined.weak, Z3Solver(defined.weak, context), constants, variables)
        self.doubt = [*defined.weak, solver_module().Not(conjunction(defined.decided, context))]
        self._longest = _LONGEST if _replaces(terms) else MAX_TEXT

    def solve(
        self, known: Mapping[str, Any], universal: Sequence[str] = (), domains: Domains = EMPTY, timeout: float = 1.0
    ) -> SolverResult:
        """Checks the constraints with Z3.

        Args:
            known: the values of variables.
            universal: variables for all of whose values the constraints must be satisfiable.
            domains: the allowed values of variables with a restricted domain.
            timeout: seconds for the whole question; the result is "unknown" after that.
        """
        if not self._is_valid(known, universal):
            return UNKNOWN
        with self._lock:
            try:
                return self._solve(known, tuple(dict.fromkeys(universal)), domains, timeout)
            except (solver_module().Z3Exception, *_FAILED):
                return UNKNOWN

    def _is_valid(self, known: Mapping[str, Any], universal: Sequence[str]) -> bool:
        """Whether all values fit their sorts, and no variable is both known and universal."""
        if any(name not in self.variables or name in known for name in universal):
            return False
        return all(
            name in self.variables and fits(value, self.variables[name]) and moderate(value, self._longest)
            for name, value in known.items()
        )

    def _solve(
        self, known: Mapping[str, Any], universal: Sequence[str], domains: Domains, timeout: float
    ) -> SolverResult:
        deadline = Deadline(timeout)
        if universal:
            answer = solve_for_all(self._constraints, known, universal, domains, deadline)
        else:
            answer = SolverResult(self._constraints.check(known, deadline))
        if answer.status != "unsat":
            return answer
        values = {**known, **(answer.counterexample or {})}
        status = self._weak.check(values, Deadline(timeout)) if self.places else "unsat"
        if status == "unsat":
            return SolverResult("unsat", minimal_core(self._weak, values, Deadline(timeout)), answer.counterexample)
        outside = self._outside(values)
        return SolverResult("undefined", counterexample=answer.counterexample, undefined=outside)

    def _outside(self, values: Mapping[str, Any]) -> tuple[PartialPlace, ...]:
        """Returns the operations that are outside of their domains; all of them if the solver would have to tell."""
        z3, pairs = solver_module(), self._constraints.pairs(values)
        outside = [place for place in self.places if z3.is_false(z3.simplify(z3.substitute(place.domain, *pairs)))]
        return tuple(outside) or self.places

    def remedy(
        self, known: Mapping[str, Any], changeable: Sequence[str], domains: Domains = EMPTY, timeout: float = 1.0
    ) -> Mapping[str, Any] | None:
        """Returns the fewest changed values that permit the call, or None if none are found.

        Args:
            known: the values of variables.
            changeable: the variables that may change.
            domains: the allowed values of variables with a restricted domain.
            timeout: seconds for the whole question.
        """
        names = [name for name in dict.fromkeys(changeable) if name in known]
        if not self._is_valid(known, ()):
            return None
        with self._lock:
            try:
                return remedy(self._constraints, known, names, domains, Deadline(timeout))
            except (solver_module().Z3Exception, *_FAILED):
                return None


def _replaces(terms: Sequence[Any]) -> bool:
    """Whether strings may grow to the product of two lengths."""
    try:
        return any(
            term.decl().name() in _REPLACE_OPERATIONS for term in postorder(terms) if solver_module().is_app(term)
        )
    except TooLargeError:
        return True


def _evaluator(terms: Sequence[Any], context: Any, variables: Mapping[str, Sort]) -> Evaluator:
    """Compiles the question to a function of all variables' values."""
    try:
        reduction = reduce_terms(terms, variables)
        reduction.groups = [group for group in reduction.groups if not _always_satisfiable(group, context)]
    except (TooLargeError, solver_module().Z3Exception, *_FAILED):
        return undecided
    return compile_evaluator(reduction, variables)


def _always_satisfiable(group: ConstraintGroup, context: Any) -> bool:
    """Whether a group is independent of the variables and satisfiable, such as bounds of another tool's variables."""
    parts = SymbolCache()
    known = {symbol for formula in group.formulas for symbol in parts.of(formula)} - group.constants.keys()
    return not known and Z3Solver(group.formulas, context).model([], {}, Deadline(_SECONDS))[0] == "sat"
