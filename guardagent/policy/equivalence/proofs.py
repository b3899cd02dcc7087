"""Compares drafts on one call in any session: Z3 proves that they agree, or gives a call on which they may not."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import permutations
from typing import Any

from guardagent.policy.equivalence.draft import ComparedDraft, Group, Part
from guardagent.policy.equivalence.moments import NOON
from guardagent.policy.equivalence.phrases import OTHER
from guardagent.policy.equivalence.solver_terms import judge_by_solver
from guardagent.policy.equivalence.tools import ToolDescription
from guardagent.policy.equivalence.witness import Witness
from guardagent.policy.language import ast
from guardagent.policy.logic.expression_solver import MISSING, Z3Model, thread_solver
from guardagent.policy.logic.expressions import Expression, conj, disj, neg
from guardagent.policy.logic.open_arguments import open_value
from guardagent.policy.logic.operations import Operations
from guardagent.policy.logic.rule_tree import RuleTree, judge_call
from guardagent.policy.logic.semantics import Semantics, SymbolicCall
from guardagent.policy.logic.symbolic_session import EarlierCall, SymbolicSession
from guardagent.policy.logic.symbols import Symbols
from guardagent.policy.logic.values import (
    TRUE,
    SymbolicMapping,
    Value,
    known_truth,
    of_leaf,
    when_false,
    when_true,
)
from guardagent.policy.solver.unsupported_error import UnsupportedError
from guardagent.types import Event

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
        self._first, self._second = parts
        self._descriptions, self._until = tools, until

    def disagreeing(self) -> tuple[list[str], list[str]] | None:
        """The tools on whose calls the drafts are not proved to agree; None if their obligations may differ.

        Returns:
            The tools of calls that only one draft may allow, and of those that one may deny without knowing why.
        """
        groups = self._groups
        if any(self._ends(self._first, group) != self._ends(self._second, group) for group in groups):
            return None
        found: tuple[list[str], list[str]] = [], []
        for tool in self._judged_tools:
            answers = [self._compared(tool, group) for group in groups]
            for at in (0, 1):
                if not all(one[at] for one in answers):
                    found[at].append(tool)
        return found

    @property
    def _groups(self) -> list[Group]:
        return list(dict.fromkeys(one.group for one in (*self._first, *self._second)))

    def _satisfied(self, scene: _ArbitraryCall, group: Group) -> list[Expression]:
        """The conditions under which the rules of each draft with a response are satisfied."""
        return [scene.outcome([one for one in parts if one.group == group])[0] for parts in self._sides]

    @property
    def _judged_tools(self) -> list[str]:
        return sorted({*self._tools, OTHER})

    def _ends(self, parts: Parts, group: Group) -> Counter[str]:
        return Counter({one.text for one in parts if one.group == group and _is_eventual(one.rule)})

    def _compared(self, tool: str, group: Group) -> tuple[bool, bool]:
        """Whether it is proved that the same calls are satisfied, and that the same ones are violated."""
        scene = self._call(tool, only_required=True)
        try:
            sides = [scene.outcome([one for one in parts if one.group == group]) for parts in self._sides]
        except UnsupportedError:
            return False, False
        same = (scene.check(differ(*one), self._until) == "unsat" for one in zip(*sides, strict=True))
        satisfied = next(same)
        return satisfied, satisfied and next(same)

    def _call(self, tool: str, *, only_required: bool) -> _ArbitraryCall:
        one = self._descriptions.get(tool, ToolDescription(tool))
        schemas = one.arguments or {}
        known = {name: schema for name, schema in schemas.items() if name in one.required or not only_required}
        return _ArbitraryCall(self._policies, tool, self._tools, known, one.required)

    @property
    def _sides(self) -> tuple[Parts, Parts]:
        return self._first, self._second

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


def differ(one: Expression, other: Expression) -> Expression:
    return disj(conj(one, neg(other)), conj(other, neg(one)))


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
        concern = policies.for_anyone(tool)
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
        values = [self._part(one.rule) for one in parts]
        return conj(*map(when_true, values)), disj(*map(when_false, values))

    def _part(self, rule: ast.Rule) -> Value:
        if isinstance(rule, ast.SolverRule):
            return judge_by_solver(rule.monitor, self._call, self._semantics)  # type: ignore[arg-type]
        tree = RuleTree([rule])
        values = [
            known_truth(self.operations.symbols.truth(("part", repr(one))))
            if one.is_propositional
            else judge_call(one, self._call, self._semantics)
            for one in tree.atomic_rules
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
        known = [one for one in self._context.calls if model.of(one.exists) is True]
        reads_time = "now" in self.operations.symbols.descriptions
        now = model.value(self._context.now()) if reads_time else MISSING
        known.sort(key=lambda one: _number(model.value(one.call.time)))
        facts, principal, state = (self._mapping(model, name) for name in ("facts", "principal", "state"))
        args = model.value(self._call.args)
        moment = None if now is MISSING else _moment(now)
        for order in [known, *permutations(known)][:MAX_ORDERS]:
            history = tuple(_event(model, one, now, moment) for one in order)
            found = Witness(history, Event(str(self._call.tool), args), facts, state, principal or None, moment)
            if _is_json(found):
                yield found

    def _mapping(self, model: Z3Model, name: str) -> Mapping[str, Any]:
        found = model.value(of_leaf(SymbolicMapping(name)))
        return found if isinstance(found, dict) else {}


def _or_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of an argument that may be left out."""
    types = schema.get("type", _TYPES)
    found = {**schema, "type": [*([types] if isinstance(types, str) else types), "null"]}
    return {**found, "enum": [*schema["enum"], None]} if "enum" in schema else found


def _moment(now: Any) -> dt.datetime:
    """The time of the call in a model; noon if no clock shows it."""
    try:
        return dt.datetime.fromtimestamp(float(now), dt.UTC)
    except (ValueError, OverflowError):
        return NOON


def _event(model: Z3Model, one: EarlierCall, now: Any, moment: dt.datetime | None) -> Event:
    call = one.call
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
