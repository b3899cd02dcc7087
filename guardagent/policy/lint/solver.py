"""The constraints of a solver rule for one tool, as Z3 terms for lint's questions.

variables        the known values of a call
open symbols     every other declared symbol that the permit may depend on
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from guardagent.policy.language import ast
from guardagent.policy.lint.target import LintTarget
from guardagent.policy.monitors.rule import Rule
from guardagent.policy.solver.explanations import describe_value
from guardagent.policy.solver.literals import term_of, values_of
from guardagent.policy.solver.monitor import PermitCheck, SolverMonitor, SolverVariable
from guardagent.policy.solver.sorts import INT, REAL, Enumeration
from guardagent.policy.solver.sources import ExpressionSource
from guardagent.policy.solver.traversal import TooLargeError, postorder, symbol_of
from guardagent.policy.solver.z3_text import solver_module

MILLISECONDS = 2000  # time limit of one question
LARGEST = 1000  # numbers in examples, if possible
_COUNTS = (ast.CountCalls, ast.Length)

Values = Mapping[str, Any]


@dataclass(eq=False)
class SolverCase:
    """The constraints of a solver rule for one tool.

    Attributes:
        sources: the source expressions of variables, by variable.
    """

    rule: Rule
    tool: str
    permit_check: PermitCheck
    sources: Mapping[str, ast.Term]
    permit_text: str

    @cached_property
    def _terms(self) -> Sequence[Any]:
        return self.permit_check.question.terms

    @property
    def assertions(self) -> list[Any]:
        """The assertions, without the permit."""
        return list(self._terms[:-1])

    @property
    def permit(self) -> Any:
        return self._terms[-1]

    @property
    def context(self) -> Any:
        return self.permit.ctx

    @property
    def variables(self) -> Mapping[str, SolverVariable]:
        return {one.name: one for one in self.permit_check.variables}

    @cached_property
    def symbols(self) -> Mapping[str, Any]:
        """The uninterpreted constants and functions, by name, as declarations."""
        return {part.decl().name(): part.decl() for part in postorder(self._terms) if symbol_of(part) is not None}

    @cached_property
    def variable_terms(self) -> Mapping[str, Any]:
        """The variables that occur in the constraints, as terms."""
        return {name: self.symbols[name]() for name in self.variables if name in self.symbols}

    @cached_property
    def open(self) -> Mapping[str, Any]:
        """The open symbols, as declarations."""
        return {name: one for name, one in self.symbols.items() if name not in self.variables}

    @cached_property
    def domain(self) -> list[Any]:
        """Constraints that hold for every call: enumerations and non-negative counts."""
        z3 = solver_module()
        found = []
        for name, constant in self.variable_terms.items():
            enum = self.variables[name].enum
            if enum is not None and not isinstance(self.variables[name].sort, Enumeration):
                found.append(z3.Or([constant == term_of(value, constant) for value in enum]))
            if self.variables[name].sort in (INT, REAL) and _counts(self.sources.get(name)):
                found.append(constant >= 0)
        return found

    @property
    def has_literal_permit(self) -> bool:
        """Whether the permit is literally `true` or `false`, on purpose."""
        return self.permit_text.strip() in ("true", "false")

    # --- questions

    def check(self, terms: Sequence[Any]) -> tuple[str, Any]:
        """Checks terms within the domain; returns ("sat", "unsat" or "unknown"; a model)."""
        return check_terms(self.context, [*self.domain, *terms])

    def example(self, terms: Sequence[Any]) -> Values | None:
        """Returns values that satisfy terms, with small numbers if possible, or None."""
        z3 = solver_module()
        numbers = [one for one in self.variable_terms.values() if z3.is_arith(one)]
        small = [z3.And(one >= 0, one <= LARGEST) for one in numbers]
        for more in (small, []):
            status, model = self.check([*terms, *more])
            if status == "sat":
                return values_of(model, self.variable_terms)
        return None

    def is_permitted(self, values: Values) -> bool | None:
        """Returns whether a session permits a call, or None if unknown."""
        status = self.permit_check.question.solve(values).status
        return None if status == "unknown" else status == "sat"

    def permit_varies(self, kept: Sequence[str] = ()) -> tuple[str, list[Any]]:
        """Checks whether the permit of one call can both hold and fail, depending on open symbols that are not kept."""
        z3 = solver_module()
        terms = [*self.assertions, self.permit, *self.with_fresh_symbols([*self.assertions, z3.Not(self.permit)], kept)]
        return self.check(terms)[0], terms

    @cached_property
    def is_determined(self) -> bool:
        """Whether the variables alone determine the permit."""
        return not self.open or self.permit_varies()[0] != "sat"

    def equalities(self, values: Values) -> list[Any]:
        """Returns equations of variables and values."""
        return [
            self.variable_terms[name] == term_of(value, self.variable_terms[name]) for name, value in values.items()
        ]

    def with_fresh_symbols(self, terms: Sequence[Any], kept: Sequence[str] = ()) -> list[Any]:
        """Returns the terms with fresh open symbols, except those that are kept."""
        z3 = solver_module()
        changed = {name: one for name, one in self.open.items() if name not in kept}
        constants = [
            (one(), z3.Const(f"{name} again", one.range())) for name, one in changed.items() if not one.arity()
        ]
        functions = [(one, _renamed(one)) for one in changed.values() if one.arity()]
        found = [z3.substitute(one, *constants) if constants else one for one in terms]
        return [z3.substitute_funs(one, *_bodies(functions)) if functions else one for one in found]

    def describe(self, values: Values) -> str:
        """Describes a call with its known values."""
        comments = self.permit_check.encoding.comments
        facts = "; ".join(describe_value(name, value, comments.get(name, "")) for name, value in values.items())
        return f"{self.tool}(), where {facts}" if facts else f"{self.tool}(), with any values"


def _renamed(function: Any) -> Any:
    z3 = solver_module()
    sorts = [function.domain(at) for at in range(function.arity())]
    return z3.Function(f"{function.name()} again", *sorts, function.range())


def _bodies(functions: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Returns each function with the body that applies its replacement."""
    z3 = solver_module()
    return [(one, other(*[z3.Var(at, one.domain(at)) for at in range(one.arity())])) for one, other in functions]


def _counts(tree: ast.Term | None) -> bool:
    """Whether an expression is a count or a length."""
    return isinstance(tree, _COUNTS) or (isinstance(tree, ast.OverItems) and tree.which == "count")


def check_terms(context: Any, terms: Sequence[Any]) -> tuple[str, Any]:
    """Checks terms; returns ("sat", "unsat" or "unknown"; a model)."""
    z3 = solver_module()
    solver = z3.Solver(ctx=context)
    solver.set("timeout", MILLISECONDS)
    try:
        solver.add(*terms)
        status = str(solver.check())
        return status, solver.model() if status == "sat" else None
    except z3.Z3Exception:
        return "unknown", None


@lru_cache(4)
def cases_of(target: LintTarget) -> tuple[SolverCase, ...]:
    """Returns a case for every tool of every solver rule, except those that are too large."""
    return tuple(_cases_of(target))


def _cases_of(target: LintTarget) -> Iterator[SolverCase]:
    for rule in target.rules:
        source = target.sources[rule.id].solver
        for part in rule.monitors if source is not None else ():
            assert isinstance(part, SolverMonitor)
            assert source is not None
            for tool, permit_check in part.checks.items():
                tool_source = source.tools[tool]
                sources = {
                    one.name: one.source.tree
                    for one in permit_check.variables
                    if isinstance(one.source, ExpressionSource)
                }
                case = SolverCase(rule, tool, permit_check, sources, tool_source.permit.text)
                if _is_small_enough(case):
                    yield case
                else:
                    target.add_undecided(f"solver rule '{rule.id}' for tool '{tool}'", "its constraints are too large")


def _is_small_enough(case: SolverCase) -> bool:
    try:
        return case.symbols is not None
    except TooLargeError:
        return False
