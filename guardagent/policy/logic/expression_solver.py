"""A Z3 solver for expressions, with each check in its own frame."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Literal

from guardagent.policy.logic.expressions import Expression, ExpressionNode, neg, normalized
from guardagent.policy.logic.lowering import Lowering
from guardagent.policy.logic.regexes import NotTranslatable
from guardagent.policy.logic.symbols import Symbols
from guardagent.policy.logic.values import (
    NO_ORIGIN,
    Concrete,
    Leaf,
    ListValue,
    MappingValue,
    Opaque,
    Range,
    ScalarValue,
    SymbolicList,
    SymbolicMapping,
    Value,
)
from guardagent.types import thaw

MISSING = object()  # the value is unknown in the model
SECONDS = 1.0
NO_LIMIT = 0
MAX_ITEMS = 8  # items of a list in an example

_HERE = threading.local()

Answer = Literal["sat", "unsat", "unknown"]


def thread_solver(seconds: float = SECONDS, work: int = NO_LIMIT) -> ExpressionSolver:
    """Returns this thread's solver, which caches translated terms. For the limits, see `ExpressionSolver.limited`."""
    if not hasattr(_HERE, "solver"):
        _HERE.solver = ExpressionSolver()
    return _HERE.solver.limited(seconds, work)  # type: ignore[no-any-return]


class Z3Model:
    """A model: values of all variables."""

    def __init__(self, model: Any, lowering: Lowering, symbols: Symbols) -> None:
        self._model, self._lowering, self._symbols = model, lowering, symbols

    def of(self, expression: Expression) -> Any:
        """Returns the value of an expression, or None if Z3 has none."""
        if not isinstance(expression, ExpressionNode):
            return expression
        return value_of(self._model.eval(self._lowering.term(expression), model_completion=True))

    def value(self, value: Value) -> Any:
        """Returns the JSON value, or MISSING if it is unknown."""
        for guard, leaf in value.cases:
            if self.of(guard) is True:
                return MISSING if isinstance(leaf, Range) else self._leaf(leaf)
        return MISSING

    def _leaf(self, leaf: Leaf) -> Any:
        match leaf:
            case ScalarValue():
                return as_json(self.of(leaf.payload)) if leaf.origin is NO_ORIGIN else leaf.origin
            case Concrete(content=content) | Opaque(content=content):
                return thaw(content)
            case ListValue(items):
                return [_null(self.value(one)) for one in items]
            case MappingValue(items):
                return {name: _null(self.value(one)) for name, one in items}
            case SymbolicMapping(key, items):
                inside = {**dict(items), **self._symbols.contents.get(key, {})}
                found = {name: self.value(one) for name, one in inside.items() if isinstance(name, str)}
                return {name: one for name, one in found.items() if one is not MISSING}
        assert isinstance(leaf, SymbolicList)
        return self._list(leaf)

    def _list(self, leaf: SymbolicList) -> list[Any]:
        inside = self._symbols.contents.get(leaf.key, {})
        count = min(int(self.of(self._symbols.size(leaf.key)) or 0), MAX_ITEMS)
        items: list[Any] = [None] * count
        for at, value in inside.items():
            if isinstance(at, int) and -count <= at < count:
                items[at] = _null(self.value(value))
        return items


class ExpressionSolver:
    """Checks whether expressions are satisfiable together."""

    def __init__(self) -> None:
        import z3

        self._lowering = Lowering()
        self._solver = z3.Solver(ctx=self._lowering.context)
        self.model: Z3Model | None = None

    def limited(self, seconds: float, work: int = NO_LIMIT) -> ExpressionSolver:
        """Sets the limits of each check, and returns the solver.

        Args:
            seconds: the time limit.
            work: a limit of Z3's count of its work, on which the load of the machine has no influence.
        """
        self._solver.set(timeout=max(1, int(seconds * 1000)), rlimit=work)
        return self

    def check(self, expressions: Iterable[Expression], symbols: Symbols | None = None) -> Answer:
        """Checks the expressions with the symbols' axioms, and stores the model if they are satisfiable."""
        import z3

        self.model = None
        self._lowering.forget()
        self._solver.push()
        try:
            every = [*expressions, *(symbols.axioms if symbols else ())]
            self._solver.add(*[self._lowering.term(one) for one in every])
            answer: Answer = str(self._solver.check())  # type: ignore[assignment]
            if answer == "sat":
                self.model = Z3Model(self._solver.model(), self._lowering, symbols or Symbols())
        except (NotTranslatable, z3.Z3Exception):
            return "unknown"
        finally:
            self._solver.pop()
        return answer

    def holds(self, expression: Expression, symbols: Symbols | None = None) -> bool:
        """Whether an expression is proved valid."""
        return self.check([neg(expression)], symbols) == "unsat"

    def evaluate(self, expression: ExpressionNode) -> Any:
        """Returns the value of an expression without variables, or None if Z3 has none."""
        import z3

        try:
            return value_of(z3.simplify(self._lowering.term(expression)))
        except (NotTranslatable, z3.Z3Exception):
            return None


def value_of(term: Any) -> Any:
    """Returns the value of a constant term, else None."""
    import z3

    if z3.is_true(term) or z3.is_false(term):
        return z3.is_true(term)
    if z3.is_int_value(term):
        return term.as_long()
    if z3.is_rational_value(term):
        return normalized(Fraction(term.numerator_as_long(), term.denominator_as_long()))
    return _text(term) if z3.is_string_value(term) else None


def _text(term: Any) -> str:
    """Returns the characters of a string term; Z3's printed form is ambiguous about escapes."""
    import z3

    count = z3.Z3_get_string_length(term.ctx_ref(), term.as_ast())
    codes = (ctypes.c_uint * count)()
    z3.Z3_get_string_contents(term.ctx_ref(), term.as_ast(), count, codes)
    return "".join(map(chr, codes))


def as_json(value: Any) -> Any:
    """Converts a fraction to a float if that is exact."""
    if not isinstance(value, Fraction):
        return value
    decimal = float(value)
    return decimal if Fraction(repr(decimal)) == value else value


def _null(value: Any) -> Any:
    return None if value is MISSING else value
