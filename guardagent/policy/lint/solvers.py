"""What a solver rule says of one tool, as terms of Z3 that lint asks its own questions about.

given      the variables: what is known of a call
open       everything else that the text declares and the permit may depend on
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from guardagent.policy.language import ast
from guardagent.policy.language.parse import read_term
from guardagent.policy.lint.subject import Subject
from guardagent.policy.monitors.rule import Rule
from guardagent.policy.solver.literals import term_of, values_of
from guardagent.policy.solver.part import Governed, Solved, Variable
from guardagent.policy.solver.sorts import INT, REAL, Enumeration
from guardagent.policy.solver.sources import ARGS, Computed
from guardagent.policy.solver.walk import TooLargeError, postorder, symbol_of
from guardagent.policy.solver.words import said
from guardagent.policy.solver.z3_text import solver_module

MILLISECONDS = 2000  # for one question
LARGEST = 1000  # of the numbers of an example, where one of such numbers can be found
_COUNTS = (ast.CountCalls, ast.Length)

Values = Mapping[str, Any]


@dataclass(eq=False)
class Case:
    """What a solver rule says of one tool.

    Attributes:
        sources: the expressions that give the variables, as the file has them.
    """

    rule: Rule
    tool: str
    governed: Governed
    sources: Mapping[str, str]
    permit_text: str

    @cached_property
    def _terms(self) -> Sequence[Any]:
        return self.governed.question.terms

    @property
    def asserted(self) -> list[Any]:
        """The assertions, without the permit."""
        return list(self._terms[:-1])

    @property
    def permit(self) -> Any:
        return self._terms[-1]

    @property
    def context(self) -> Any:
        return self.permit.ctx

    @property
    def variables(self) -> Mapping[str, Variable]:
        return {one.name: one for one in self.governed.variables}

    @cached_property
    def symbols(self) -> Mapping[str, Any]:
        """The constants and functions that the text leaves open, by name, as declarations; and the given ones."""
        return {part.decl().name(): part.decl() for part in postorder(self._terms) if symbol_of(part) is not None}

    @cached_property
    def given(self) -> Mapping[str, Any]:
        """The variables that the text speaks of, as terms."""
        return {name: self.symbols[name]() for name in self.variables if name in self.symbols}

    @cached_property
    def open(self) -> Mapping[str, Any]:
        """What is neither defined nor given, as declarations."""
        return {name: one for name, one in self.symbols.items() if name not in self.variables}

    @cached_property
    def domain(self) -> list[Any]:
        """What is so of every variable, whatever the call: it is one of its `enum:`, and no count is below 0."""
        z3 = solver_module()
        found = []
        for name, constant in self.given.items():
            enum = self.variables[name].enum
            if enum is not None and not isinstance(self.variables[name].sort, Enumeration):
                found.append(z3.Or([constant == term_of(value, constant) for value in enum]))
            if self.variables[name].sort in (INT, REAL) and _counts(self.sources.get(name, "")):
                found.append(constant >= 0)
        return found

    @property
    def said_outright(self) -> bool:
        """Whether the permit is `true` or `false`, which its author means."""
        return self.permit_text.strip() in ("true", "false")

    # --- questions

    def ask(self, terms: Sequence[Any]) -> tuple[str, Any]:
        """(sat, unsat or unknown; a model), with what is so of every variable."""
        return asked(self.context, [*self.domain, *terms])

    def example(self, terms: Sequence[Any]) -> Values | None:
        """Values of the variables with which some terms hold, of small numbers where there are such."""
        z3 = solver_module()
        numbers = [one for one in self.given.values() if z3.is_arith(one)]
        small = [z3.And(one >= 0, one <= LARGEST) for one in numbers]
        for more in (small, []):
            status, model = self.ask([*terms, *more])
            if status == "sat":
                return values_of(model, self.given)
        return None

    def is_permitted(self, values: Values) -> bool | None:
        """Whether a call is, as a session would judge it; None where it is not known."""
        status = self.governed.question.solve(values).status
        return None if status == "unknown" else status == "sat"

    def either(self, kept: Sequence[str] = ()) -> tuple[str, list[Any]]:
        """Whether the permit of one call can hold and fail, by what is open and not kept the same; and how that is."""
        z3 = solver_module()
        terms = [*self.asserted, self.permit, *self.another([*self.asserted, z3.Not(self.permit)], kept)]
        return self.ask(terms)[0], terms

    @cached_property
    def is_determined(self) -> bool:
        """Whether what is given decides the permit."""
        return not self.open or self.either()[0] != "sat"

    def pinned(self, values: Values) -> list[Any]:
        """That the variables have these values."""
        return [self.given[name] == term_of(value, self.given[name]) for name, value in values.items()]

    def another(self, terms: Sequence[Any], kept: Sequence[str] = ()) -> list[Any]:
        """The same terms, of other open constants and functions than these; some are kept."""
        z3 = solver_module()
        changed = {name: one for name, one in self.open.items() if name not in kept}
        constants = [
            (one(), z3.Const(f"{name} again", one.range())) for name, one in changed.items() if not one.arity()
        ]
        functions = [(one, _renamed(one)) for one in changed.values() if one.arity()]
        found = [z3.substitute(one, *constants) if constants else one for one in terms]
        return [z3.substitute_funs(one, *_bodies(functions)) if functions else one for one in found]

    def words(self, values: Values) -> str:
        """A call, with what is known of it."""
        comments = self.governed.encoding.comments
        facts = "; ".join(said(name, value, comments.get(name, "")) for name, value in values.items())
        return f"{self.tool}(), where {facts}" if facts else f"{self.tool}(), whatever is known"


def _renamed(function: Any) -> Any:
    z3 = solver_module()
    sorts = [function.domain(at) for at in range(function.arity())]
    return z3.Function(f"{function.name()} again", *sorts, function.range())


def _bodies(functions: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """For each function, the other one applied to its arguments."""
    z3 = solver_module()
    return [(one, other(*[z3.Var(at, one.domain(at)) for at in range(one.arity())])) for one, other in functions]


def _counts(source: str) -> bool:
    """Whether an expression is a number of things."""
    if not source:
        return False
    tree = read_term(source, {ARGS})
    return isinstance(tree, _COUNTS) or (isinstance(tree, ast.OverItems) and tree.which == "count")


def asked(context: Any, terms: Sequence[Any]) -> tuple[str, Any]:
    """(sat, unsat or unknown; a model)."""
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
def cases_of(subject: Subject) -> tuple[Case, ...]:
    """Every tool that a solver rule governs; those that are too large are left open."""
    return tuple(_cases_of(subject))


def _cases_of(subject: Subject) -> Iterator[Case]:
    for rule in subject.rules:
        source = subject.sources[rule.id].solver
        for part in rule.parts if source is not None else ():
            assert isinstance(part, Solved)
            assert source is not None
            for tool, governed in part.governed.items():
                said_of = source.tools[tool]
                computed = {one.name for one in governed.variables if isinstance(one.source, Computed)}
                sources = {
                    name: one.source.text.strip()
                    for name, one in said_of.variables.items()
                    if one.source is not None and name in computed
                }
                case = Case(rule, tool, governed, sources, said_of.permit.text)
                if _readable(case):
                    yield case
                else:
                    subject.leave_open(f"what {rule.id} says of {tool}", "it is too large")


def _readable(case: Case) -> bool:
    try:
        return case.symbols is not None
    except TooLargeError:
        return False
