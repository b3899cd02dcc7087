"""The question that one tool's permit puts to a policy."""

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
_SECONDS = 0.2  # for what does not depend on any call, once
_LONGEST = 200  # characters of a text, where parts of it are replaced: Z3 takes minutes, and no limit stops it there
_REPLACE_OPERATIONS = {"str.replace_all", "str.replace_re_all", "str.replace_re"}
_FAILED = (ValueError, TypeError, OverflowError, RecursionError, MemoryError)


class Question:
    """May this call be? Threads may share it: each waits for the others' turn with the solver.

    Args:
        terms: the assertions, and last the permit.
        constants: the terms of the constants whose values are given, in order.
        variables: the sorts of these.
        lock: held by whoever uses Z3's context.
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
        """Asks Z3.

        Args:
            known: the values of variables.
            universal: variables for each of whose values the constraints must be satisfiable.
            domains: the values that variables may have, where not all of their sort.
            timeout: seconds for the whole question; what takes longer is "unknown".
        """
        if not self._is_valid(known, universal):
            return UNKNOWN
        with self._lock:
            try:
                return self._solve(known, tuple(dict.fromkeys(universal)), domains, timeout)
            except (solver_module().Z3Exception, *_FAILED):
                return UNKNOWN

    def _is_valid(self, known: Mapping[str, Any], universal: Sequence[str]) -> bool:
        """Whether all values are of their sorts, and no variable is both known and not."""
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
        """The fewest values to change so that the call may be, and what to; None where none is found.

        Args:
            known: the values of variables.
            changeable: those that may be changed.
            domains: the values that variables may have, where not all of their sort.
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
    """Whether texts may become as long as the product of two."""
    try:
        return any(
            term.decl().name() in _REPLACE_OPERATIONS for term in postorder(terms) if solver_module().is_app(term)
        )
    except TooLargeError:
        return True


def _evaluator(terms: Sequence[Any], context: Any, variables: Mapping[str, Sort]) -> Evaluator:
    """The question as a function of all the variables' values."""
    try:
        reduction = reduce_terms(terms, variables)
        reduction.groups = [group for group in reduction.groups if not _always_satisfiable(group, context)]
    except (TooLargeError, solver_module().Z3Exception, *_FAILED):
        return undecided
    return compile_evaluator(reduction, variables)


def _always_satisfiable(group: ConstraintGroup, context: Any) -> bool:
    """Whether what no variable has a part in can be satisfied: the bounds of another tool's variables can."""
    parts = SymbolCache()
    known = {symbol for formula in group.formulas for symbol in parts.of(formula)} - group.constants.keys()
    return not known and Z3Solver(group.formulas, context).model([], {}, Deadline(_SECONDS))[0] == "sat"
