"""Translates data rules to constraints over the variables of a solver rule for the same tool.

Only comparisons of such variables with literals or each other are translated; the rest of a condition is left open.
The translation is weaker than the rules: if it is unsatisfiable, so are the rules.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from guardagent.policy.language import ast
from guardagent.policy.language.printer import text_of
from guardagent.policy.lint.solver import SolverCase
from guardagent.policy.monitors.rule import Rule
from guardagent.policy.solver.literals import fits, term_of
from guardagent.policy.solver.sources import ARGS
from guardagent.policy.solver.z3_text import solver_module

SourceNames = Mapping[str, str]  # a variable of a rule -> its source expression
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SWAPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def data_constraints(rule: Rule, case: SolverCase) -> list[Any]:
    """Returns the constraints of a data rule on every call of the case's tool."""
    reader = _ConditionTranslator(case)
    parts = [one for read in rule.rules for one in (read.parts if isinstance(read, ast.AllOf) else (read,))]
    mine = [one for one in parts if isinstance(one, ast.Forall) and case.tool in one.pattern.tools]
    return [found for one in mine if (found := reader.required(one)) is not None]


class _ConditionTranslator:
    def __init__(self, case: SolverCase) -> None:
        self._context = case.context
        written = {name: text_of(source) for name, source in case.sources.items()}
        self._variable_terms = {written[name]: term for name, term in case.variable_terms.items() if name in written}
        self._sorts = {written[name]: one.sort for name, one in case.variables.items() if name in written}

    def required(self, rule: ast.Forall) -> Any | None:
        """Translates the condition, or returns None if the pattern does not match every call of the tool."""
        arguments = rule.pattern.arguments
        names = {one.value.name: f"{ARGS}.{one.name}" for one in arguments if isinstance(one.value, ast.Variable)}
        others = [one for one in arguments if not isinstance(one.value, ast.Variable | ast.AnyValue)]
        if others or len(names) < sum(isinstance(one.value, ast.Variable) for one in arguments):
            return None
        return self._translate(rule.condition, names, wanted=True)

    def _translate(self, term: ast.Term, names: SourceNames, *, wanted: bool) -> Any:
        """Translates a condition, or its negation, to a formula that it implies."""
        z3 = solver_module()
        match term:
            case ast.Negation(body):
                return self._translate(body, names, wanted=not wanted)
            case ast.Implies(first, second):
                return self._translate(ast.Or((ast.Negation(first), second)), names, wanted=wanted)
            case ast.And(parts) | ast.Or(parts):
                both = isinstance(term, ast.And) is wanted
                found = [
                    z3.BoolVal(both, self._context),
                    *(self._translate(one, names, wanted=wanted) for one in parts),
                ]
                return z3.And(found) if both else z3.Or(found)
            case ast.Compare(left, "in", ast.ListOf(items)):
                equal = tuple(ast.Compare(left, "==", one) for one in items)
                return self._translate(ast.Or(equal), names, wanted=wanted)
            case ast.Compare():
                compared = self._compared(term, names)
                if compared is not None:
                    return compared if wanted else z3.Not(compared)
        return z3.BoolVal(True, self._context)  # noqa: FBT003 - left open

    def _compared(self, term: ast.Compare, names: SourceNames) -> Any | None:
        left, right = _text(term.left, names), _text(term.right, names)
        if left in self._variable_terms:
            return self._of_variable(left, term.operator, right, term.right)
        if right in self._variable_terms and term.operator in _SWAPPED:
            return self._of_variable(right, _SWAPPED[term.operator], left, term.left)
        return None

    def _of_variable(self, name: str, compare: str, other: str, node: ast.Term) -> Any | None:
        variable = self._variable_terms[name]
        value = self._variable_terms.get(other)
        if value is None and isinstance(node, ast.Constant) and fits(node.value, self._sorts[name]):
            value = term_of(node.value, variable)
        ordered = compare not in ("==", "!=")
        if value is None or compare not in _COMPARISONS or variable.sort() != value.sort():
            return None
        return None if ordered and not solver_module().is_arith(variable) else _COMPARISONS[compare](variable, value)


def _text(term: ast.Term, names: SourceNames) -> str:
    """Returns the source expression of a term over the call's arguments."""
    return names.get(term.name, term.name) if isinstance(term, ast.Variable) else text_of(term)
