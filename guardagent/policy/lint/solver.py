"""Solver rules as Z3 terms for lint's questions: a rule for one tool, several together, and beside data rules.

variables        the known values of a call
open symbols     every other declared symbol that the permit may depend on
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from guardagent.policy.language import ast
from guardagent.policy.language.printer import key_of
from guardagent.policy.lint.target import LintFinding, LintTarget, minimal_set, rules_of
from guardagent.policy.monitors.rule import Rule
from guardagent.policy.solver import z3_text
from guardagent.policy.solver.monitor import PermitCheck, SolverMonitor, SolverVariable, describe_value
from guardagent.policy.solver.sources import ARGS, ExpressionSource

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
        return {variable.name: variable for variable in self.permit_check.variables}

    @cached_property
    def symbols(self) -> Mapping[str, Any]:
        """The uninterpreted constants and functions, by name, as declarations."""
        return _symbols_of(self._terms)

    @cached_property
    def variable_terms(self) -> Mapping[str, Any]:
        """The variables that occur in the constraints, as terms."""
        return {name: self.symbols[name]() for name in self.variables if name in self.symbols}

    @cached_property
    def open(self) -> Mapping[str, Any]:
        """The open symbols, as declarations."""
        return {name: symbol for name, symbol in self.symbols.items() if name not in self.variables}

    @cached_property
    def domain(self) -> list[Any]:
        """Constraints that hold for every call: enumerations and non-negative counts."""
        z3 = z3_text.solver_module()
        domain = []
        for name, constant in self.variable_terms.items():
            enum = self.variables[name].enum
            if enum is not None and self.variables[name].sort.values is None:
                domain.append(z3.Or([constant == z3_text.term_of(value, constant) for value in enum]))
            if self.variables[name].sort in (z3_text.INT, z3_text.REAL) and _counts(self.sources.get(name)):
                domain.append(constant >= 0)
        return domain

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
        z3 = z3_text.solver_module()
        numbers = [variable_term for variable_term in self.variable_terms.values() if z3.is_arith(variable_term)]
        small = [z3.And(number >= 0, number <= LARGEST) for number in numbers]
        for more in (small, []):
            status, model = self.check([*terms, *more])
            if status == "sat":
                return z3_text.values_of(model, self.variable_terms)
        return None

    def is_permitted(self, values: Values) -> bool | None:
        """Returns whether a session permits a call, or None if unknown."""
        status = self.permit_check.question.solve(values).status
        return None if status == "unknown" else status == "sat"

    def permit_varies(self, kept: Sequence[str] = ()) -> tuple[str, list[Any]]:
        """Checks whether the permit of one call can both hold and fail, depending on open symbols that are not kept."""
        z3 = z3_text.solver_module()
        terms = [*self.assertions, self.permit, *self.with_fresh_symbols([*self.assertions, z3.Not(self.permit)], kept)]
        return self.check(terms)[0], terms

    @cached_property
    def is_determined(self) -> bool:
        """Whether the variables alone determine the permit."""
        return not self.open or self.permit_varies()[0] != "sat"

    def equalities(self, values: Values) -> list[Any]:
        """Returns equations of variables and values."""
        return [
            self.variable_terms[name] == z3_text.term_of(value, self.variable_terms[name])
            for name, value in values.items()
        ]

    def with_fresh_symbols(self, terms: Sequence[Any], kept: Sequence[str] = ()) -> list[Any]:
        """Returns the terms with fresh open symbols, except those that are kept."""
        changed = [symbol for name, symbol in self.open.items() if name not in kept]
        return _with_new_symbols(terms, {symbol: _renamed(symbol, "again") for symbol in changed})

    def describe(self, values: Values) -> str:
        """Describes a call with its known values."""
        comments = self.permit_check.encoding.comments
        facts = "; ".join(describe_value(name, value, comments.get(name, "")) for name, value in values.items())
        return f"{self.tool}(), where {facts}" if facts else f"{self.tool}(), with any values"


def _symbols_of(terms: Sequence[Any]) -> dict[str, Any]:
    return {part.decl().name(): part.decl() for part in z3_text.postorder(terms) if z3_text.symbol_of(part) is not None}


def _renamed(symbol: Any, mark: object) -> Any:
    """Returns another declaration; no name of SMT-LIB contains the separator."""
    sorts = [symbol.domain(at) for at in range(symbol.arity())]
    return z3_text.solver_module().Function(f"{symbol.name()}|{mark}", *sorts, symbol.range())


def _with_new_symbols(terms: Sequence[Any], symbols: Mapping[Any, Any]) -> list[Any]:
    """Returns the terms with other declarations of constants and functions."""
    z3 = z3_text.solver_module()
    constants = [(symbol(), other()) for symbol, other in symbols.items() if not symbol.arity()]
    functions = [
        (symbol, other(*[z3.Var(at, symbol.domain(at)) for at in range(symbol.arity())]))
        for symbol, other in symbols.items()
        if symbol.arity()
    ]
    changed = [z3.substitute(term, *constants) if constants else term for term in terms]
    return [z3.substitute_funs(term, *functions) if functions else term for term in changed]


def _counts(tree: ast.Term | None) -> bool:
    """Whether an expression is a count or a length."""
    return isinstance(tree, _COUNTS) or (isinstance(tree, ast.OverItems) and tree.which == "count")


def check_terms(context: Any, terms: Sequence[Any]) -> tuple[str, Any]:
    """Checks terms; returns ("sat", "unsat" or "unknown"; a model)."""
    z3 = z3_text.solver_module()
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


def timed_cases(target: LintTarget, question: str) -> Iterator[SolverCase]:
    """Yields the cases while there is time; the question about the others is not decided."""
    return target.while_time(cases_of(target), question, lambda case: f"{case.rule.id} for {case.tool}")


def _cases_of(target: LintTarget) -> Iterator[SolverCase]:
    for rule in target.rules:
        source = target.sources[rule.id].solver
        for part in rule.monitors if source is not None else ():
            assert isinstance(part, SolverMonitor)
            assert source is not None
            for tool, permit_check in part.checks.items():
                tool_source = source.tools[tool]
                sources = {
                    variable.name: variable.source.tree
                    for variable in permit_check.variables
                    if isinstance(variable.source, ExpressionSource)
                }
                case = SolverCase(rule, tool, permit_check, sources, tool_source.permit.text)
                if _is_small_enough(case):
                    yield case
                else:
                    target.add_undecided(f"solver rule '{rule.id}' for tool '{tool}'", "its constraints are too large")


def _is_small_enough(case: SolverCase) -> bool:
    try:
        return case.symbols is not None
    except z3_text.TooLargeError:
        return False


# --- several rules of one tool: variables with the same source expression are equal


class JointSolverRules:
    """The terms of several rules in one Z3 context, with distinct names.

    Attributes:
        context: the Z3 context.
    """

    def __init__(self, cases: Sequence[SolverCase]) -> None:
        self.context = z3_text.solver_module().Context()
        self._translated = {case: _TranslatedCase(case, number, self.context) for number, case in enumerate(cases)}
        self._cases = list(cases)

    def permit_terms(self, case: SolverCase) -> list[Any]:
        """Returns the terms under which a rule permits the call."""
        return self._translated[case].terms

    def open_constants(self, case: SolverCase) -> list[Any] | None:
        """Returns a rule's open constants, or None if a function is open."""
        return self._translated[case].open

    def shared_equalities(self, first: SolverCase, second: SolverCase) -> list[Any]:
        """Returns equations of variables with the same source expression."""
        first_terms, other = self._translated[first].by_source, self._translated[second].by_source
        return [
            first_terms[source] == other[source]
            for source in first_terms
            if source in other and _same_sort(first_terms, other, source)
        ]

    def shares_all_variables(self, first: SolverCase, second: SolverCase) -> bool:
        """Whether each variable of the first rule has the same source as one of the second."""
        first_terms, other = self._translated[first].by_source, self._translated[second].by_source
        whole = len(first_terms) == len(first.variable_terms) and not self._translated[first].free
        return whole and all(source in other and _same_sort(first_terms, other, source) for source in first_terms)

    def check(self, cases: Sequence[SolverCase]) -> str:
        """Checks whether all rules can permit a call together."""
        terms = [term for case in cases for term in self.permit_terms(case)]
        pairs = [(case, other) for at, case in enumerate(cases) for other in cases[at + 1 :]]
        return check_terms(self.context, [*terms, *(term for pair in pairs for term in self.shared_equalities(*pair))])[
            0
        ]


class _TranslatedCase:
    """A rule's terms in another context, with unique names."""

    def __init__(self, case: SolverCase, number: int, context: Any) -> None:
        terms = [assertion.translate(context) for assertion in (*case.domain, *case.assertions, case.permit)]
        symbols = _symbols_of(terms)
        new = {name: _renamed(symbol, number) for name, symbol in symbols.items()}
        self.terms = _with_new_symbols(terms, {symbol: new[name] for name, symbol in symbols.items()})
        opened = [new[name] for name in case.open]
        self.open = None if any(symbol.arity() for symbol in opened) else [symbol() for symbol in opened]
        mine = {name: new[name]() for name in case.variable_terms}
        self.by_source = {key_of(case.sources[name]): mine[name] for name in mine if name in case.sources}
        self.free = any(variable.free for variable in case.permit_check.variables)


def _same_sort(terms: Mapping[str, Any], other: Mapping[str, Any], source: str) -> bool:
    return bool(terms[source].sort() == other[source].sort())


def joint_solver_rules(cases: Sequence[SolverCase]) -> JointSolverRules | None:
    """Combines rules, or returns None for a single rule or names with several meanings that cannot be kept apart."""
    known: dict[str, Hashable] = {}
    for case in cases:
        meanings = case.permit_check.encoding.meanings
        if any(name in known and (meaning is None or meaning != known[name]) for name, meaning in meanings.items()):
            return None
        known.update(meanings)
    return JointSolverRules(cases) if len(cases) > 1 else None


# --- data rules for the same tool

SourceNames = Mapping[str, str]  # a variable of a rule -> its source expression
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def data_constraints(rule: Rule, case: SolverCase) -> list[Any]:
    """Returns the constraints of a data rule on every call of the case's tool.

    Only comparisons of the solver rule's variables with literals or each other are translated; the rest of a condition
    is left open. The translation is weaker than the rules: if it is unsatisfiable, so are the rules.
    """
    reader = _ConditionTranslator(case)
    parts = [part for read in rule.rules for part in (read.parts if isinstance(read, ast.AllOf) else (read,))]
    of_tool = [part for part in parts if isinstance(part, ast.Forall) and case.tool in part.pattern.tools]
    return [constraint for part in of_tool if (constraint := reader.required(part)) is not None]


class _ConditionTranslator:
    def __init__(self, case: SolverCase) -> None:
        self._context = case.context
        written = {name: key_of(source) for name, source in case.sources.items()}
        self._variable_terms = {written[name]: term for name, term in case.variable_terms.items() if name in written}
        self._sorts = {written[name]: variable.sort for name, variable in case.variables.items() if name in written}

    def required(self, rule: ast.Forall) -> Any | None:
        """Translates the condition, or returns None if the pattern does not match every call of the tool."""
        arguments = rule.pattern.arguments
        names = {
            argument.value.name: f"{ARGS}.{argument.name}"
            for argument in arguments
            if isinstance(argument.value, ast.Variable)
        }
        others = [argument for argument in arguments if not isinstance(argument.value, ast.Variable | ast.AnyValue)]
        if others or len(names) < sum(isinstance(argument.value, ast.Variable) for argument in arguments):
            return None
        return self._translate(rule.condition, names, wanted=True)

    def _translate(self, term: ast.Term, names: SourceNames, *, wanted: bool) -> Any:
        """Translates a condition, or its negation, to a formula that it implies."""
        z3 = z3_text.solver_module()
        match term:
            case ast.Negation(body):
                return self._translate(body, names, wanted=not wanted)
            case ast.Implies(first, second):
                return self._translate(ast.Or((ast.Negation(first), second)), names, wanted=wanted)
            case ast.And(parts) | ast.Or(parts):
                both = isinstance(term, ast.And) is wanted
                constraints = [
                    z3.BoolVal(both, self._context),
                    *(self._translate(part, names, wanted=wanted) for part in parts),
                ]
                return z3.And(constraints) if both else z3.Or(constraints)
            case ast.Compare(left, "in", ast.ListOf(items)):
                equal = tuple(ast.Compare(left, "==", item) for item in items)
                return self._translate(ast.Or(equal), names, wanted=wanted)
            case ast.Compare():
                compared = self._compared(term, names)
                if compared is not None:
                    return compared if wanted else z3.Not(compared)
        return z3.BoolVal(True, self._context)  # noqa: FBT003 - left open

    def _compared(self, term: ast.Compare, names: SourceNames) -> Any | None:
        left, right = _source_expression(term.left, names), _source_expression(term.right, names)
        if left in self._variable_terms:
            return self._of_variable(left, term.operator, right, term.right)
        if right in self._variable_terms and term.operator in ast.MIRRORED:
            return self._of_variable(right, ast.MIRRORED[term.operator], left, term.left)
        return None

    def _of_variable(self, name: str, compare: str, other: str, node: ast.Term) -> Any | None:
        variable = self._variable_terms[name]
        value = self._variable_terms.get(other)
        if value is None and isinstance(node, ast.Constant) and z3_text.fits(node.value, self._sorts[name]):
            value = z3_text.term_of(node.value, variable)
        ordered = compare not in ("==", "!=")
        if value is None or compare not in _COMPARISONS or variable.sort() != value.sort():
            return None
        return (
            None
            if ordered and not z3_text.solver_module().is_arith(variable)
            else _COMPARISONS[compare](variable, value)
        )


def _source_expression(term: ast.Term, names: SourceNames) -> str:
    """Returns the source expression of a term over the call's arguments."""
    return names.get(term.name, term.name) if isinstance(term, ast.Variable) else key_of(term)


# --- tools that solver rules never permit


def solver_contradictions(target: LintTarget) -> Iterator[LintFinding]:
    """Yields findings for one rule, or for several rules of one tool with the same source expressions."""
    blocking = set(target.blocking)
    cases = [case for case in cases_of(target) if case.rule in blocking and not case.has_literal_permit]
    tools = sorted({case.tool for case in cases} - target.forbidden_tools)
    for tool in target.while_time(tools, "whether solver rules permit tools", str):
        mine = [case for case in cases if case.tool == tool]
        alone = [case for case in mine if case.check([*case.assertions, case.permit])[0] == "unsat"]
        if alone:
            yield from map(_alone, alone)
            continue
        several = list(_jointly(tool, mine, target))
        yield from several or _with_data(mine, target)


def _alone(case: SolverCase) -> LintFinding:
    empty = case.check(case.assertions)[0] == "unsat"
    why = "the assertions contradict each other" if empty else "no values of the variables satisfy the permit"
    message = f"'{case.tool}' can never be called: {why}"
    values = case.example([] if empty else case.assertions) or case.example([])
    example = f"{case.describe(values or {})}: denied, as with any other values"
    return LintFinding("contradictory", case.rule.id, case.tool, message, example)


def _jointly(tool: str, cases: Sequence[SolverCase], target: LintTarget) -> Iterator[LintFinding]:
    joint = joint_solver_rules(cases)
    status = "sat" if joint is None else joint.check(cases)
    question = f"whether all solver rules together permit '{tool}'"
    if joint is None and len(cases) > 1:
        target.add_undecided(question, "their sorts or recursive functions have the same names")
    if status == "unknown":
        target.add_undecided(question, "Z3 reached no result")
    if joint is not None and status == "unsat":
        least = minimal_set(cases, lambda some: joint.check(some) == "unsat")
        *others, last = least
        ids = [case.rule.id for case in least]
        message = f"'{tool}' can never be called: no values of the variables satisfy {rules_of(ids)} together"
        values = others[0].example([*others[0].assertions, others[0].permit]) or {}
        denies = f"permitted by rule '{ids[0]}', but not by {rules_of(ids[1:])}"
        example = f"{others[0].describe(values)}: {denies}"
        yield LintFinding("contradictory", last.rule.id, tool, message, example, tuple(ids[:-1]))


def _with_data(cases: Sequence[SolverCase], target: LintTarget) -> Iterator[LintFinding]:
    """Yields findings for a solver rule together with data rules."""
    for case in cases:
        constraints = {rule: terms for rule in target.blocking if (terms := data_constraints(rule, case))}
        least = list(constraints)
        if not least or not _excluded(case, [constraints[rule] for rule in least]):
            continue
        for rule in constraints:
            without = [other_rule for other_rule in least if other_rule is not rule]
            if _excluded(case, [constraints[other_rule] for other_rule in without]):
                least = without
        ids = [rule.id for rule in least]
        message = f"'{case.tool}' can never be called: no call satisfies {rules_of([*ids, case.rule.id])} together"
        values = case.example([*case.assertions, case.permit]) or {}
        example = f"{case.describe(values)}: permitted by rule '{case.rule.id}', but denied by {rules_of(ids)}"
        yield LintFinding("contradictory", case.rule.id, case.tool, message, example, tuple(ids))
        return


def _excluded(case: SolverCase, more: Sequence[Sequence[Any]]) -> bool:
    return case.check([*case.assertions, case.permit, *(term for terms in more for term in terms)])[0] == "unsat"
