"""The domains of SMT-LIB's operations, and constraints that are unknown outside of them.

SMT-LIB makes every function total by convention: a solver may choose `(/ x 0)`, and `(str.to_int "a")` is -1. A rule
that relies on such a result permits a call by accident. So a formula is read in Kleene's logic, where an operation
outside of its domain is unknown, and `(or (= n 0) (< (/ x n) 9))` still holds for 0. Each constraint gets a strong
form, satisfied only if the constraint is true, and a weak one, satisfied unless it is false. A declared function or
array is in its domain where the assertions fix it: at literal arguments, for all of them under `forall`, or as stored
over a constant array.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from guardagent.policy.solver.script import SmtError
from guardagent.policy.solver.z3_text import MAX_CHARACTER, PartialPlace, conjuncts, postorder, solver_module, symbol_of

MAX_NODES = 1_000_000  # of the terms of a rule
_LONGEST = 120  # characters of a place
_HEAD, _SHARED = re.compile(r"\(([^\s()]+)"), re.compile(r"a!\d+")  # of an operation, of a part that Z3 names
_TOTAL = frozenset(
    "_ let and or not => = distinct xor ite + - * < <= > >= to_real to_int is_int abs str.++ str.len str.prefixof "
    "str.suffixof str.contains str.in_re str.replace str.replace_all str.< str.<= str.is_digit str.to_re re.* re.+ "
    "re.opt re.++ re.union re.inter re.comp re.range re.diff".split()
)


@dataclass(frozen=True, slots=True)
class DefinedTerms:
    """The strong and weak forms of constraints, whether each is true or false, and the partial operations in them."""

    strong: list[Any]
    weak: list[Any]
    decided: list[Any]
    places: list[PartialPlace]


def defined_terms(terms: Sequence[Any]) -> DefinedTerms:
    """Returns the forms of constraints; the terms themselves if every operation is in its domain.

    Raises:
        SmtError: a quantifier binds an operand of a partial operation.
    """
    domains = _Domains(terms)
    forms = [] if _are_total(terms) else [domains.form(term) for term in terms]
    if not any(forms):
        return DefinedTerms(list(terms), list(terms), [], [])
    z3 = solver_module()
    return DefinedTerms(
        [term if form is None else form.true for term, form in zip(terms, forms, strict=True)],
        [term if form is None else z3.Not(form.false) for term, form in zip(terms, forms, strict=True)],
        [form.defined for form in forms if form is not None],
        [place for number, term in enumerate(terms) for place in domains.places(number, term)],
    )


def _are_total(terms: Iterable[Any]) -> bool:
    """Whether all operations are total by their names, which is quick to find out for a large rule."""
    heads = {head for term in terms for head in _HEAD.findall(term.sexpr())}
    return all(head in _TOTAL or _SHARED.fullmatch(head) for head in heads)


@dataclass(frozen=True, slots=True)
class _Form:
    """The conditions for a term to have a value, and for one of sort Bool to be true or false."""

    defined: Any
    true: Any = None
    false: Any = None


class _Domains:
    def __init__(self, terms: Sequence[Any]) -> None:
        self._context = terms[-1].ctx
        self._forms: dict[int, _Form | None] = {}
        self._domains: dict[int, Any] = {}
        self._asserted, self._kept = len(terms) - 1, list(terms)  # Z3 reuses the id of a released term

    @cached_property
    def _points(self) -> _FixedPoints:
        return _FixedPoints(self._kept[: self._asserted])  # the permit fixes nothing

    def form(self, term: Any) -> _Form | None:
        """Returns the form of a term; None if it always has a value."""
        for part in postorder([term], MAX_NODES):
            if part.get_id() not in self._forms:
                self._kept.append(part)
                self._forms[part.get_id()] = self._new_form(part)
        return self._forms[term.get_id()]

    def places(self, number: int, term: Any) -> list[PartialPlace]:
        parts = [part for part in postorder([term], MAX_NODES) if part.get_id() in self._domains]
        return [PartialPlace(number, _text(part), self._domains[part.get_id()]) for part in parts]

    def _new_form(self, part: Any) -> _Form | None:
        z3 = solver_module()
        pairs = [(child, self._forms[child.get_id()]) for child in part.children()]
        domain = self._domain(part) if z3.is_app(part) else None
        if domain is None and not any(form for _, form in pairs):
            return None
        if z3.is_quantifier(part):
            problem = "a quantifier contains an operation that is not defined everywhere, such as a division"
            raise SmtError(f"{problem}: {_text(part)}; move the operation out of the quantifier")
        forms = [_whole(*pair) for pair in pairs]
        if domain is not None:
            self._domains[part.get_id()] = domain
            return _atom(conjunction([domain, *(form.defined for form in forms)], self._context), part)
        return self._connective(part, forms)

    def _connective(self, part: Any, forms: Sequence[_Form]) -> _Form:
        z3 = solver_module()
        kind = part.decl().kind()
        true, false = [form.true for form in forms], [form.false for form in forms]
        if kind == z3.Z3_OP_IMPLIES:
            kind, true, false = z3.Z3_OP_OR, [*false[:-1], true[-1]], [*true[:-1], false[-1]]
        if kind == z3.Z3_OP_AND:
            return _decided(z3.And(true), z3.Or(false))
        if kind == z3.Z3_OP_OR:
            return _decided(z3.Or(true), z3.And(false))
        if kind == z3.Z3_OP_NOT:
            return _decided(false[0], true[0])
        if kind == z3.Z3_OP_ITE:
            ways = [z3.And(true[0], forms[1].defined), z3.And(false[0], forms[2].defined)]
            return _atom(z3.Or(ways), part)
        return _atom(conjunction([form.defined for form in forms], self._context), part)

    def _domain(self, part: Any) -> Any:
        """Returns the domain of an operation; None if that is every value."""
        z3 = solver_module()
        kind, operands = part.decl().kind(), part.children()
        if kind == z3.Z3_OP_SELECT or (kind == z3.Z3_OP_UNINTERPRETED and operands):
            return self._points.domain(part, self._context)
        rule = _rules().get(kind)
        domain = None if rule is None else z3.simplify(rule(part, *operands))
        return None if domain is None or z3.is_true(domain) else domain


def _text(part: Any) -> str:
    text = " ".join(part.sexpr().split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _whole(term: Any, form: _Form | None) -> _Form:
    """Returns the form of a term that may have none of its own."""
    z3 = solver_module()
    if form is not None:
        return form
    return _Form(z3.BoolVal(True, term.ctx), term, z3.Not(term) if z3.is_bool(term) else None)  # noqa: FBT003 - a value


def _atom(defined: Any, term: Any) -> _Form:
    """Returns the form of a term that is known where it is defined."""
    z3 = solver_module()
    both = (z3.And(defined, term), z3.And(defined, z3.Not(term))) if z3.is_bool(term) else ()
    return _Form(defined, *both)


def _decided(true: Any, false: Any) -> _Form:
    return _Form(solver_module().Or(true, false), true, false)


def conjunction(conditions: Iterable[Any], context: Any) -> Any:
    """Returns the conjunction of conditions, or of none."""
    z3 = solver_module()
    return z3.And([z3.BoolVal(True, context), *conditions])  # noqa: FBT003 - a value


@lru_cache(1)
def _rules() -> Mapping[int, Callable[..., Any]]:
    """Returns the domains of operations by kind, from the operation and its operands."""
    z3 = solver_module()
    divisions = "DIV IDIV MOD REM BUDIV BSDIV BUREM BSREM BSMOD".split()
    return {
        **{getattr(z3, f"Z3_OP_{name}"): lambda _, _first, second: second != 0 for name in divisions},
        z3.Z3_OP_POWER: lambda _, base, power: z3.And(power > 0, z3.Or(base >= 0, z3.IsInt(z3.ToReal(power)))),
        z3.Z3_OP_STR_TO_INT: lambda number, _: number >= 0,
        z3.Z3_OP_INT_TO_STR: lambda _, number: number >= 0,
        z3.Z3_OP_STR_TO_CODE: lambda _, text: z3.Length(text) == 1,
        z3.Z3_OP_STR_FROM_CODE: lambda _, code: z3.And(code >= 0, code <= MAX_CHARACTER),
        z3.Z3_OP_SEQ_AT: lambda _, text, at: z3.And(at >= 0, at < z3.Length(text)),
        z3.Z3_OP_SEQ_NTH: lambda _, text, at: z3.And(at >= 0, at < z3.Length(text)),
        z3.Z3_OP_SEQ_EXTRACT: lambda _, text, at, count: z3.And(at >= 0, at <= z3.Length(text), count >= 0),
        z3.Z3_OP_SEQ_INDEX: lambda _, text, _part, at=0: z3.And(at >= 0, at <= z3.Length(text)),
        z3.Z3_OP_DT_ACCESSOR: _accessor_domain,
    }


def _accessor_domain(accessor: Any, value: Any) -> Any:
    """The value has the constructor with that field."""
    sort = value.sort()
    names = [sort.constructor(number).name() for number in range(sort.num_constructors())]
    return sort.recognizer(names.index(accessor.decl().params()[1]))(value)


class _FixedPoints:
    """The arguments at which the constraints fix declared functions and arrays, by their names."""

    def __init__(self, terms: Iterable[Any]) -> None:
        self._points: dict[str, list[list[Any]]] = {}
        self._total: set[str] = set()
        z3 = solver_module()
        for term in conjuncts(terms):  # such as `(= (limit "EUR") 500)`
            parts = postorder([term], MAX_NODES)
            symbols = {symbol[0] for part in parts if (symbol := symbol_of(part))}
            atom = term.body() if z3.is_quantifier(term) else term
            atom = atom.arg(0) if z3.is_not(atom) else atom
            for side in (atom.children() if z3.is_eq(atom) else [atom]) if len(symbols) == 1 else ():
                base, points = _stored(side)
                points += [base.children()[z3.is_select(base) :]] if z3.is_select(base) or symbol_of(base) else []
                if z3.is_const_array(base) or any(point and all(map(z3.is_var, point)) for point in points):
                    self._total |= symbols
                self._points.setdefault(min(symbols), []).extend(filter(_is_fixed, points))

    def domain(self, part: Any, context: Any) -> Any:
        """Returns the domain of a select or of a declared function's application; None if that is every value."""
        z3 = solver_module()
        operands = part.children()[z3.is_select(part) :]
        base, points = _stored(part.arg(0) if z3.is_select(part) else part)
        name = (symbol_of(base) or ("",))[0]
        points += self._points.get(name, [])
        if z3.is_const_array(base) or name in self._total or any(map(z3.is_var, postorder([part], MAX_NODES))):
            return None  # a bound variable stands in an axiom about the function
        equal = [conjunction(map(operator.eq, operands, point), context) for point in points]
        domain = z3.simplify(z3.Or([z3.BoolVal(False, context), *equal]))  # noqa: FBT003 - a value
        return None if z3.is_true(domain) else domain


def _is_fixed(point: list[Any]) -> bool:
    return bool(point) and not any(map(solver_module().is_var, point))


def _stored(array: Any) -> tuple[Any, list[list[Any]]]:
    """(the array, or other term, to which the values are added, the indexes of these values)."""
    points = []
    while solver_module().is_store(array):
        points.append(array.children()[1:-1])
        array = array.arg(0)
    return array, points
