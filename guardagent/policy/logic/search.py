"""Searches for a completion of a call that the session allows.

The search first tries a few candidate values. It then evaluates the rules symbolically, and asks Z3 if that does not
decide. Each solution of Z3 is checked with the session, and a denied one adds constraints.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.language.values import kind_of
from guardagent.policy.logic import candidates
from guardagent.policy.logic.call_evaluation import CallEvaluation
from guardagent.policy.logic.expression_solver import MISSING, Z3Model, thread_solver
from guardagent.policy.logic.expressions import Expression, conj, implies, neg
from guardagent.policy.logic.open_arguments import Open, open_value, schema_allows
from guardagent.policy.logic.operations import Operations
from guardagent.policy.logic.session_protocol import ReasonerSession
from guardagent.policy.logic.sessions import CurrentSession, same_values
from guardagent.policy.logic.symbols import Symbols
from guardagent.policy.logic.values import (
    UNKNOWN,
    Concrete,
    MappingValue,
    Opaque,
    ScalarValue,
    SymbolicMapping,
    Value,
    of_leaf,
    when_true,
)
from guardagent.policy.policies import Applicability
from guardagent.types import EMPTY

ROUNDS = 12  # solutions of Z3 that the session denies
QUICK_TRIES = 24  # candidates before the symbolic evaluation
MAX_TRIES = 300  # candidates before Z3 is used
MAX_MODEL_TRIES = 4  # candidates if each check runs a guard program or a model


@dataclass(frozen=True, slots=True)
class CompletionResult:
    """Whether a completion exists (None: unknown), and one."""

    possible: bool | None
    args: Mapping[str, Any] | None = None


_NONE, _PERHAPS = CompletionResult(possible=False), CompletionResult(None)


class CompletionSearch:
    """A search for a completion of one call.

    Args:
        session: the session.
        functions: the state functions.
        tool: the tool of the call.
        args: its arguments; open ones are `Open`.
        facts: the host's facts for this call.
        more: whether other arguments may be added.
        seconds: the approximate time limit.
    """

    def __init__(
        self,
        session: ReasonerSession,
        functions: Mapping[str, Callable[..., Any]],
        tool: str,
        args: Mapping[str, Any],
        facts: Mapping[str, Any] | None,
        *,
        more: bool,
        seconds: float,
    ) -> None:
        self._session, self._functions, self._seconds = session, functions, seconds
        self._tool, self._args, self._facts = tool, args, facts
        self._open = {name: value for name, value in args.items() if isinstance(value, Open)}
        self._fixed = {name: value for name, value in args.items() if name not in self._open}
        self._more = more
        self._added = self._addable() if more else ()
        self._values: dict[str, Value] = {}

    def run(self) -> CompletionResult:
        if self._is_denied_outright():
            return _NONE
        if not self._open and not self._more:
            return CompletionResult(possible=True, args=dict(self._args)) if self._allows(self._args) else _NONE
        return self._try_candidates(QUICK_TRIES) or self._search_symbolically()

    def _search_symbolically(self) -> CompletionResult:
        operations = Operations(Symbols())
        question = CallEvaluation.for_session(
            self._session, operations, self._tool, self._arguments(operations), self._facts, self._functions
        )
        principal = self._session._principal  # noqa: SLF001 - the reasoner belongs to the session
        allowed = question.allowed(self._session.policies.rules_for(principal))
        if allowed is False:
            return _NONE
        return self._try_candidates(MAX_TRIES) or self._solve(operations, question, allowed)

    def _addable(self) -> tuple[str, ...]:
        """Returns the arguments that may be added and that a rule mentions."""
        declared = self._concern.arguments
        names = sorted(candidates.mentioned_arguments(self._session.policies, self._tool) - self._args.keys())
        return tuple(name for name in names if declared is None or name in declared)

    @property
    def _concern(self) -> Applicability:
        call = SessionCall(self._tool, {})
        call.principal = self._session._principal  # noqa: SLF001 - as above
        return self._session.policies.applicability(call)

    def _is_denied_outright(self) -> bool:
        """Whether the call is denied before any rule is checked."""
        concern = self._concern
        undeclared = concern.arguments is not None and not self._args.keys() <= concern.arguments
        return self._session.halted or bool(concern.problem) or not concern.listed or undeclared

    def _allows(self, args: Mapping[str, Any]) -> bool:
        return self._session.check(self._tool, args, facts=self._facts, reserve=False).label == 0

    def _is_witness(self, args: Mapping[str, Any]) -> bool:
        """Whether the session allows these arguments and they fit the schemas."""
        fits = all(schema_allows(one.schema or EMPTY, args.get(name)) for name, one in self._open.items())
        return fits and self._allows(args)

    # --- candidate values

    def _try_candidates(self, limit: int) -> CompletionResult | None:
        """Tries values from the rules, the facts and the history, or all values if there are few."""
        known_values = candidates.CandidateValues(self._session, self._facts)
        domains = [known_values.values(name, one.schema) for name, one in self._open.items()]
        domains += [[MISSING, *known_values.values(name, None)] for name in self._added]
        names = (*self._open, *self._added)
        limit = min(limit, MAX_MODEL_TRIES) if self._session.policies.requests else limit
        for values in candidates.combinations(domains, limit):
            args = self._with(dict(zip(names, values, strict=True)))
            if self._is_witness(args):
                return CompletionResult(possible=True, args=args)
        schemas = [one.schema for one in self._open.values()]
        return _NONE if not self._more and candidates.is_exhaustive(schemas, limit) else None

    def _with(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {**self._fixed, **{name: one for name, one in values.items() if one is not MISSING}}

    # --- symbolic search

    def _arguments(self, operations: Operations) -> Value:
        for name, one in self._open.items():
            self._values[name] = open_value(operations, ("open", name), one.schema or EMPTY)
        fixed = {name: operations.constant(value) for name, value in self._fixed.items()}
        if not self._more:
            return of_leaf(MappingValue(tuple({**fixed, **self._values}.items())))
        certain = tuple({**fixed, **self._values}.items())
        added = {name: operations.symbols.any_value(("args", name)) for name in self._added}
        self._values.update(added)
        return of_leaf(SymbolicMapping("args", certain, self._concern.arguments))

    def _solve(self, operations: Operations, question: CallEvaluation, allowed: Expression) -> CompletionResult:
        asserted = [allowed]
        until = time.monotonic() + self._seconds
        here = thread_solver(self._seconds)
        for _ in range(ROUNDS):
            answer = here.check(asserted, operations.symbols)
            if answer == "unsat":
                return _NONE
            if here.model is None or time.monotonic() > until:
                return _PERHAPS
            args = self._with({name: here.model.value(value) for name, value in self._values.items()})
            if self._is_witness(args):
                return CompletionResult(possible=True, args=args)
            learned = [
                *self._state_facts(operations, question.contexts, here.model),
                *self._exclusion(operations, args),
            ]
            if not learned:
                return _PERHAPS
            asserted += learned
        return _PERHAPS

    def _exclusion(self, operations: Operations, args: Mapping[str, Any]) -> list[Expression]:
        """Excludes denied arguments, unless some are not scalars: others that look the same might be allowed."""
        found = []
        for name, value in self._values.items():
            refused = operations.constant(args.get(name))
            if not all(isinstance(leaf, ScalarValue) for _, leaf in refused.cases):
                return []
            found.append(when_true(operations.equal(value, refused)) if refused.cases else neg(value.known))
        fits = all(schema_allows(one.schema or EMPTY, args.get(name)) is not None for name, one in self._open.items())
        return [neg(conj(*found))] if fits else []

    @staticmethod
    def _state_facts(
        operations: Operations, sessions: Sequence[CurrentSession], model: Z3Model
    ) -> Iterator[Expression]:
        """Yields the actual results of state functions for the arguments of a Z3 model."""
        for session in sessions:
            for function, arguments, answer in session.state_queries:
                plain = [model.value(one) for one in arguments]
                if MISSING not in plain and all(kind_of(one) in ("text", "number", "truth value") for one in plain):
                    actual = session.answer(function, plain)
                    yield implies(
                        same_values(operations, arguments, plain), _equals(operations, answer, actual, depth=3)
                    )


def _equals(operations: Operations, answer: Value, actual: Value, *, depth: int) -> Expression:
    """Returns the condition that a symbolic value equals a concrete one."""
    if actual == UNKNOWN:
        return neg(answer.known)
    leaf = actual.cases[0][1]
    if not isinstance(leaf, Concrete):
        return answer.known if isinstance(leaf, Opaque) else when_true(operations.equal(answer, actual))
    of_kind = [(guard, one) for guard, one in answer.cases if one.kind == leaf.kind]
    if leaf.kind != "mapping" or not depth or not of_kind:
        return conj(*(guard for guard, _ in of_kind)) if of_kind else False
    guard, whole = of_kind[0]
    fields = operations.fields_of(leaf) or {}
    inside = [
        _equals(operations, operations.field(of_leaf(whole), name), one, depth=depth - 1)
        for name, one in fields.items()
    ]
    return conj(guard, *inside)
