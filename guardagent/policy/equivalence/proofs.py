"""Proves that two drafts agree, or gives calls on which they may not.

Z3 compares data and solver rules on one call in any session; solver rules are expressions over the symbolic values of
the call, as data rules are. Drafts about the order of steps agree if the product of their automata has no state in
which they differ.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from itertools import islice, pairwise, permutations
from typing import Any

from guardagent.policy.equivalence.draft import ComparedDraft, Group, Part, Witness
from guardagent.policy.equivalence.phrases import OTHER, ToolDescription
from guardagent.policy.equivalence.variations import NOON
from guardagent.policy.language import ast
from guardagent.policy.lint.steps import RuleAutomaton, State, States, StateSearch, StepKind, step_all, steps_of
from guardagent.policy.logic.expressions import (
    Expression,
    arithmetic,
    concatenation,
    conditional,
    conj,
    disj,
    implies,
    is_substring,
    is_whole,
    less,
    neg,
    same,
    size,
    starts_with,
)
from guardagent.policy.logic.lowering import MISSING, Z3Model, thread_solver
from guardagent.policy.logic.operations import Operations
from guardagent.policy.logic.search import open_value
from guardagent.policy.logic.semantics import RuleTree, Semantics, SymbolicCall, judge_call
from guardagent.policy.logic.sessions import EarlierCall, SymbolicSession
from guardagent.policy.logic.values import (
    TRUE,
    UNKNOWN,
    ScalarValue,
    SymbolicMapping,
    Symbols,
    Value,
    known_truth,
    of_leaf,
    truth,
    when_false,
    when_true,
)
from guardagent.policy.solver.monitor import PermitCheck, SolverMonitor, SolverVariable
from guardagent.policy.solver.reduction import reduce_terms
from guardagent.policy.solver.script import UnsupportedError
from guardagent.policy.solver.sources import ARGS, ExpressionSource
from guardagent.policy.solver.z3_text import BOOL, INT, REAL, STRING, TooLargeError, solver_module, value_of
from guardagent.types import Decision, Event

# --- solver rules as expressions

_KINDS = {BOOL: "truth", INT: "number", REAL: "number", STRING: "text"}


def judge_by_solver(monitor: SolverMonitor, call: SymbolicCall, semantics: Semantics) -> Value:
    """Judges a symbolic call by a solver rule.

    Raises:
        UnsupportedError: the rule has no exact translation.
    """
    check = monitor.checks.get(str(call.tool))
    if check is None:
        return TRUE
    values: dict[str, Expression] = {}
    known = [_known(variable, call, semantics, values) for variable in check.variables]
    permitted = _permitted(check, values)
    return truth(conj(*known, permitted), conj(*known, neg(permitted)))


def _known(
    solver_variable: SolverVariable, call: SymbolicCall, semantics: Semantics, values: dict[str, Expression]
) -> Expression:
    """The condition that a variable has a value of its sort, which is added to the values."""
    if not solver_variable.required or solver_variable.free or not isinstance(solver_variable.source, ExpressionSource):
        raise UnsupportedError  # whether such a variable matters is a question of its own
    value = semantics.value(solver_variable.source.tree, {ARGS: call.args})
    kind = "text" if solver_variable.sort.values is not None else _KINDS.get(solver_variable.sort)
    cases = [(guard, leaf) for guard, leaf in value.cases if isinstance(leaf, ScalarValue) and leaf.kind == kind]
    if len(cases) != 1:
        if value == UNKNOWN or not cases:
            values[solver_variable.name] = False if kind == "truth" else 0 if kind == "number" else ""
            return False
        raise UnsupportedError
    guard, leaf = cases[0]
    values[solver_variable.name] = leaf.payload
    return conj(guard, _in_domain(solver_variable, leaf.payload))


def _in_domain(solver_variable: SolverVariable, payload: Expression) -> Expression:
    expressions: list[Expression] = [is_whole(payload)] if solver_variable.sort == INT else []
    allowed = solver_variable.sort.values or solver_variable.enum
    if allowed is not None:
        expressions.append(disj(*(same(payload, value) for value in allowed)))
    return conj(*expressions)


def _permitted(check: PermitCheck, values: dict[str, Expression]) -> Expression:
    try:
        reduced_constraints = reduce_terms(check.question.terms, values)
    except TooLargeError:
        raise UnsupportedError from None
    if reduced_constraints.groups:
        raise UnsupportedError
    for constant, term in reduced_constraints.definitions:
        values[constant.decl().name()] = expression_of(term, values)
    return conj(*(expression_of(formula, values) for formula in reduced_constraints.formulas))


def expression_of(term: Any, values: Mapping[str, Expression]) -> Expression:
    """Translates a term, given the expressions of its constants.

    Raises:
        UnsupportedError: an operation has no exact translation.
    """
    z3 = solver_module()
    if not z3.is_app(term):
        raise UnsupportedError
    parts = term.children()
    kind = term.decl().kind()
    if not parts:
        name = term.decl().name()
        return values[name] if kind == z3.Z3_OP_UNINTERPRETED and name in values else _literal(term)
    if kind == z3.Z3_OP_DIV and not z3.is_rational_value(parts[1]) and not z3.is_int_value(parts[1]):
        raise UnsupportedError  # the result of a division by zero is open
    operation = _operations().get(kind)
    if operation is None or (kind == z3.Z3_OP_ITE and z3.is_string(term)):
        raise UnsupportedError
    return operation([expression_of(part, values) for part in parts], term)


def _literal(term: Any) -> Expression:
    value = value_of(term)
    return Fraction(value) if isinstance(value, Fraction) else value


def _fold(sign: str) -> Callable[[Sequence[Expression], Any], Expression]:
    return lambda parts, _: reduce(lambda left, right: arithmetic(left, sign, right), parts)


def _chain(test: Callable[[Expression, Expression], Expression]) -> Callable[[Sequence[Expression], Any], Expression]:
    return lambda parts, _: conj(*(test(left, right) for left, right in pairwise(parts)))


def _if(parts: Sequence[Expression], term: Any) -> Expression:
    condition, then, otherwise = parts
    if solver_module().is_bool(term):
        return conj(implies(condition, then), implies(neg(condition), otherwise))
    return conditional(condition, then, otherwise)


def _equal(left: Expression, right: Expression, *, is_truth: bool) -> Expression:
    return conj(implies(left, right), implies(right, left)) if is_truth else same(left, right)


def _equality(parts: Sequence[Expression], term: Any) -> Expression:
    is_truth = solver_module().is_bool(term.arg(0))
    return conj(*(_equal(left, right, is_truth=is_truth) for left, right in pairwise(parts)))


def _distinct(parts: Sequence[Expression], term: Any) -> Expression:
    is_truth = solver_module().is_bool(term.arg(0))
    pairs = [(part, other) for at, part in enumerate(parts) for other in parts[at + 1 :]]
    return conj(*(neg(_equal(pair, other, is_truth=is_truth)) for pair, other in pairs))


def _operations() -> Mapping[int, Callable[[Sequence[Expression], Any], Expression]]:
    z3 = solver_module()
    return {
        z3.Z3_OP_AND: lambda parts, _: conj(*parts),
        z3.Z3_OP_OR: lambda parts, _: disj(*parts),
        z3.Z3_OP_NOT: lambda parts, _: neg(parts[0]),
        z3.Z3_OP_IMPLIES: lambda parts, _: implies(*parts),
        z3.Z3_OP_EQ: _equality,
        z3.Z3_OP_DISTINCT: _distinct,
        z3.Z3_OP_ITE: _if,
        z3.Z3_OP_LT: _chain(less),
        z3.Z3_OP_GT: _chain(lambda left, right: less(right, left)),
        z3.Z3_OP_LE: _chain(lambda left, right: neg(less(right, left))),
        z3.Z3_OP_GE: _chain(lambda left, right: neg(less(left, right))),
        z3.Z3_OP_ADD: _fold("+"),
        z3.Z3_OP_MUL: _fold("*"),
        z3.Z3_OP_SUB: _fold("-"),
        z3.Z3_OP_DIV: _fold("/"),
        z3.Z3_OP_UMINUS: lambda parts, _: arithmetic(0, "-", parts[0]),
        z3.Z3_OP_TO_REAL: lambda parts, _: parts[0],
        z3.Z3_OP_SEQ_LENGTH: lambda parts, _: size(parts[0]),
        z3.Z3_OP_SEQ_CONCAT: lambda parts, _: reduce(concatenation, parts),
        z3.Z3_OP_SEQ_CONTAINS: lambda parts, _: is_substring(parts[1], parts[0]),
        z3.Z3_OP_SEQ_PREFIX: lambda parts, _: starts_with(parts[1], parts[0]),
    }


# --- one call in any session

MOST_WORK = 1_000_000  # of Z3 for one question: some seconds
MAX_ORDERS = 6  # orders of the earlier calls of a model that are tried
MAX_AGE = 1e9  # seconds
_TYPES = ["string", "number", "boolean", "array", "object"]

Parts = Sequence[Part]
Tools = Mapping[str, ToolDescription]
"""The descriptions of tools, by name."""


class SymbolicComparison:
    """Compares the parts of two drafts that concern the same principals with the same severity.

    Args:
        first, second: the drafts, for their sets of tools and functions.
        parts: their parts without formulas about steps.
        tools: the descriptions of the tools. Only calls with all required arguments, of their types, are compared.
        until: the time of `time.monotonic` after which nothing more is proved.
    """

    def __init__(
        self, drafts: tuple[ComparedDraft, ComparedDraft], parts: tuple[Parts, Parts], tools: Tools, until: float
    ) -> None:
        self._policies = drafts[0].policies
        self._tools = drafts[0].tools | drafts[1].tools
        self._sides = parts
        self._descriptions, self._until = tools, until

    def disagreeing(self) -> tuple[list[str], list[str]] | None:
        """The tools on whose calls the drafts are not proved to agree; None if their obligations may differ.

        Returns:
            The tools of calls that only one draft may allow, and of those that one may deny without knowing why.
        """
        groups = self._groups
        if any(self._ends(self._sides[0], group) != self._ends(self._sides[1], group) for group in groups):
            return None
        disagreeing_tools: tuple[list[str], list[str]] = [], []
        for tool in self._judged_tools:
            answers = [self._compared(tool, group) for group in groups]
            for at in (0, 1):
                if not all(answer[at] for answer in answers):
                    disagreeing_tools[at].append(tool)
        return disagreeing_tools

    @property
    def _groups(self) -> list[Group]:
        return list(dict.fromkeys(part.group for side in self._sides for part in side))

    def _satisfied(self, scene: _ArbitraryCall, group: Group) -> list[Expression]:
        """The conditions under which the rules of each draft with a response are satisfied."""
        return [scene.outcome([part for part in parts if part.group == group])[0] for parts in self._sides]

    @property
    def _judged_tools(self) -> list[str]:
        return sorted({*self._tools, OTHER})

    def _ends(self, parts: Parts, group: Group) -> Counter[str]:
        return Counter({part.text for part in parts if part.group == group and _is_eventual(part.rule)})

    def _compared(self, tool: str, group: Group) -> tuple[bool, bool]:
        """Whether it is proved that the same calls are satisfied, and that the same ones are violated."""
        scene = self._call(tool, only_required=True)
        try:
            sides = [scene.outcome([part for part in parts if part.group == group]) for parts in self._sides]
        except UnsupportedError:
            return False, False
        same = (scene.check(differ(*pair), self._until) == "unsat" for pair in zip(*sides, strict=True))
        satisfied = next(same)
        return satisfied, satisfied and next(same)

    def _call(self, tool: str, *, only_required: bool) -> _ArbitraryCall:
        description = self._descriptions.get(tool, ToolDescription(tool))
        schemas = description.arguments or {}
        known = {name: schema for name, schema in schemas.items() if name in description.required or not only_required}
        return _ArbitraryCall(self._policies, tool, self._tools, known, description.required)

    def witnesses(self, tool: str) -> Iterator[Witness]:
        """Yields conversations in which the drafts may differ on a call of a tool; sessions have to judge them."""
        scene = self._call(tool, only_required=False)
        try:
            wanted = disj(*(differ(*self._satisfied(scene, group)) for group in self._groups))
        except UnsupportedError:
            return
        for more in (scene.operations.symbols.simplicity_constraints(), []):
            if scene.check(conj(wanted, *more), self._until) == "sat":
                model = thread_solver().model
                if model is not None:
                    yield from scene.witnesses(model)


def _is_eventual(rule: ast.Rule) -> bool:
    return not isinstance(rule, ast.Forall | ast.SolverRule)


def differ(expression: Expression, other: Expression) -> Expression:
    return disj(conj(expression, neg(other)), conj(other, neg(expression)))


class _ArbitraryCall:
    """A call of a tool in a session about which nothing is known."""

    def __init__(
        self,
        policies: Any,
        tool: str,
        earlier: frozenset[str],
        schemas: Mapping[str, Mapping[str, Any]],
        required: frozenset[str],
    ) -> None:
        self.operations = Operations(Symbols())
        self._context = SymbolicSession(self.operations, earlier)
        self._semantics = Semantics(self.operations, self._context, policies.tags, policies.functions)
        concern = policies.of_tool[tool]
        self._call = SymbolicCall(tool, of_leaf(SymbolicMapping("args", names=concern.arguments)))
        for name, schema in schemas.items():
            self._declare(name, schema if name in required else _or_null(schema))

    def _declare(self, name: str, schema: Mapping[str, Any]) -> None:
        """Gives an argument the type of its schema."""
        typed = {"type": _TYPES, **schema}
        self.operations.symbols.once(
            ("value", ("args", name)), lambda: open_value(self.operations, ("schema", name), typed)
        )

    def outcome(self, parts: Parts) -> tuple[Expression, Expression]:
        """The conditions under which parts are all satisfied, and under which one is violated."""
        values = [self._part(part.rule) for part in parts]
        return conj(*map(when_true, values)), disj(*map(when_false, values))

    def _part(self, rule: ast.Rule) -> Value:
        if isinstance(rule, ast.SolverRule):
            return judge_by_solver(rule.monitor, self._call, self._semantics)
        tree = RuleTree([rule])
        values = [
            known_truth(self.operations.symbols.truth(("part", repr(atomic_rule))))
            if atomic_rule.is_propositional
            else judge_call(atomic_rule, self._call, self._semantics)
            for atomic_rule in tree.atomic_rules
        ]
        return tree.combine(values, lambda at: self._so_far(tree.atomic_rules[at]))

    def _so_far(self, part: Any) -> Value:
        """Whether earlier calls satisfied an atomic rule; equal rules have one answer."""
        if isinstance(part.rule, ast.After) or isinstance(part.rule, ast.Exists) is not part.negated:
            return TRUE
        return self.operations.symbols.any_truth(("so far", repr(part)))

    def check(self, wanted: Expression, until: float) -> str:
        seconds = until - time.monotonic()
        if wanted is False or seconds <= 0:
            return "unsat" if wanted is False else "unknown"
        self._context.add_consistency_axioms(self._semantics)
        return thread_solver(seconds, MOST_WORK).check([wanted], self.operations.symbols)

    # --- models

    def witnesses(self, model: Z3Model) -> Iterator[Witness]:
        """Yields the conversations of a model, whose calls may have several orders."""
        known = [call for call in self._context.calls if model.of(call.exists) is True]
        reads_time = "now" in self.operations.symbols.descriptions
        now = model.value(self._context.now()) if reads_time else MISSING
        known.sort(key=lambda earlier_call: _number(model.value(earlier_call.call.time)))
        facts, principal, state = (self._mapping(model, name) for name in ("facts", "principal", "state"))
        args = model.value(self._call.args)
        moment = None if now is MISSING else _moment(now)
        for order in [known, *permutations(known)][:MAX_ORDERS]:
            history = tuple(_event(model, earlier_call, now, moment) for earlier_call in order)
            witness = Witness(history, Event(str(self._call.tool), args), facts, state, principal or None, moment)
            if _is_json(witness):
                yield witness

    def _mapping(self, model: Z3Model, name: str) -> Mapping[str, Any]:
        value = model.value(of_leaf(SymbolicMapping(name)))
        return value if isinstance(value, dict) else {}


def _or_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of an argument that may be left out."""
    types = schema.get("type", _TYPES)
    nullable = {**schema, "type": [*([types] if isinstance(types, str) else types), "null"]}
    return {**nullable, "enum": [*schema["enum"], None]} if "enum" in schema else nullable


def _moment(now: Any) -> dt.datetime:
    """The time of the call in a model; noon if no clock shows it."""
    try:
        return dt.datetime.fromtimestamp(float(now), dt.UTC)
    except (ValueError, OverflowError):
        return NOON


def _event(model: Z3Model, earlier_call: EarlierCall, now: Any, moment: dt.datetime | None) -> Event:
    call = earlier_call.call
    output, time = model.value(call.output), model.value(call.time)
    failed = model.value(call.failed)
    age = None if MISSING in (time, now) else float(_number(now) - _number(time))
    return Event(
        str(model.of(call.tool)),
        model.value(call.args),
        None if output is MISSING else output,
        "unknown" if failed is MISSING else "failed" if failed else "ok",
        time=None if age is None or moment is None or not 0 <= age < MAX_AGE else moment - dt.timedelta(seconds=age),
    )


def _number(value: Any) -> Fraction:
    return Fraction(value) if isinstance(value, int | float | Fraction) else Fraction(0)


def _is_json(witness: Witness) -> bool:
    try:
        json.dumps(witness.record(), allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


# --- the order of steps

MAX_WITNESSES = 20  # differences of the automata that sessions judge
_LIFTED = (Decision.WARN, Decision.ESCALATE)


class StepComparison:
    """A breadth-first search in the product of two drafts' automata.

    Args:
        first, second: the automata of the drafts.
        tools: the tools that exist.
    """

    def __init__(self, first: Sequence[RuleAutomaton], second: Sequence[RuleAutomaton], tools: Sequence[str]) -> None:
        self._automata = [*first, *second]
        self._first = len(first)
        self._tools = tools

    def witnesses(self) -> Iterator[Witness]:
        """Yields conversations on which the automata differ, a shortest one first; none if they are equal.

        Raises:
            SearchLimitError: there are too many states.
        """
        return islice(self._differences(), MAX_WITNESSES)

    def _differences(self) -> Iterator[Witness]:
        steps = steps_of(self._automata, self._tools, failing=True)
        search = StateSearch(tuple(automaton.start for automaton in self._automata))
        for at in search:
            path = search.path(at)
            if self._differ(
                [not automaton.accepts(state) for automaton, state in zip(self._automata, at, strict=True)]
            ):
                yield witness_of(path, ends=True)
            for step in steps:
                after = step_all(self._automata, at, step)
                broken = [not automaton.is_alive(state) for automaton, state in zip(self._automata, after, strict=True)]
                if self._differ(broken):
                    yield witness_of([*path, step], ends=not step.ok)
                elif self._may_go_on(broken):
                    search.follow(at, step, self._resumed(at, step, broken))

    def _resumed(self, at: States, step: StepKind, broken: Sequence[bool]) -> States:
        """The states after a step that ran although it violated some rules."""

        def next_state(number: int) -> State:
            automaton, letters = self._automata[number], step.letters[number]
            follow = automaton.resume if broken[number] else automaton.step
            return follow(at[number], letters)

        return tuple(map(next_state, range(len(at))))

    def _differ(self, broken: Sequence[bool]) -> bool:
        return self._answer(broken, 0, self._first) != self._answer(broken, self._first, len(broken))

    def _answer(self, broken: Sequence[bool], begin: int, end: int) -> str:
        violated = [self._automata[at].rule.source.on_violation for at in range(begin, end) if broken[at]]
        if all(decision is Decision.WARN for decision in violated):
            return "warned" if violated else "allowed"
        return "ended" if Decision.HALT in violated else "escalated" if set(violated) <= set(_LIFTED) else "denied"

    def _may_go_on(self, broken: Sequence[bool]) -> bool:
        pairs = zip(self._automata, broken, strict=True)
        return all(pair.rule.source.on_violation in _LIFTED for pair, wrong in pairs if wrong)


def witness_of(path: Sequence[StepKind], *, ends: bool) -> Witness:
    """A conversation of steps; its last call is proposed, unless the conversation `ends` after it."""
    calls = [
        Event(
            step.call.tool,
            status="ok" if step.ok else "failed",
            action=step.call.action,
            decision=step.call.decision,
            tags=step.call.tags,
        )
        for step in path
    ]
    if ends:
        return Witness(tuple(calls))
    last = calls.pop()
    proposed = Event(last.tool, action=last.action, decision=last.decision, tags=last.tags)
    return Witness(tuple(calls), proposed)
