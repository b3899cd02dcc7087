"""The satisfiability question of one tool's permit."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from guardagent.policy.solver.constraints import Constraints
from guardagent.policy.solver.evaluator import Evaluator, compile_evaluator, undecided
from guardagent.policy.solver.forall import solve_for_all
from guardagent.policy.solver.literals import MAX_TEXT, fits, moderate
from guardagent.policy.solver.reduction import ConstraintGroup, reduce_terms
from guardagent.policy.solver.remedy import remedy
from guardagent.policy.solver.result import UNKNOWN, SolverResult
from guardagent.policy.solver.sorts import Sort
from guardagent.policy.solver.traversal import SymbolCache, TooLargeError, postorder
from guardagent.policy.solver.unsat_core import minimal_core
from guardagent.policy.solver.z3_solver import Deadline, Z3Solver
from guardagent.policy.solver.z3_text import solver_module

_NONE: Mapping[str, Sequence[Any]] = MappingProxyType({})
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
    """

    def __init__(
        self, terms: Sequence[Any], constants: Mapping[str, Any], variables: Mapping[str, Sort], lock: threading.Lock
    ) -> None:
        self.variables = variables
        self._lock, context = lock, terms[-1].ctx
        self.terms = tuple(terms)
        self._constraints = Constraints(terms, Z3Solver(terms, context), constants, variables)
        self._longest = _LONGEST if _replaces(terms) else MAX_TEXT
        self.evaluate: Evaluator = _evaluator(terms, context, variables)

    def solve(
        self,
        known: Mapping[str, Any],
        universal: Sequence[str] = (),
        domains: Mapping[str, Sequence[Any]] = _NONE,
        timeout: float = 1.0,
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
        self, known: Mapping[str, Any], universal: Sequence[str], domains: Mapping[str, Sequence[Any]], timeout: float
    ) -> SolverResult:
        deadline = Deadline(timeout)
        if universal:
            answer = solve_for_all(self._constraints, known, universal, domains, deadline)
        else:
            answer = SolverResult(self._constraints.check(known, deadline))
        if answer.status != "unsat":
            return answer
        values = {**known, **(answer.counterexample or {})}
        return SolverResult("unsat", minimal_core(self._constraints, values, Deadline(timeout)), answer.counterexample)

    def remedy(
        self,
        known: Mapping[str, Any],
        changeable: Sequence[str],
        domains: Mapping[str, Sequence[Any]] = _NONE,
        timeout: float = 1.0,
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
