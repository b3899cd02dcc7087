"""Answers whether a call can comply with a session's policy, which remedy it has, and the result of each rule.

Every completion or remedy it returns is one that the session allows.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import combinations
from typing import Any

from guardagent._support.arguments import call_problem
from guardagent.policy.language.values import kind_of
from guardagent.policy.logic import search
from guardagent.policy.logic.expressions import ExpressionNode
from guardagent.policy.logic.lowering import SECONDS, thread_solver
from guardagent.policy.logic.operations import Operations
from guardagent.policy.logic.search import (
    OPEN,
    CallEvaluation,
    CompletionResult,
    CompletionSearch,
    Open,
    reject_nested_open,
)
from guardagent.policy.logic.sessions import ReasonerSession
from guardagent.policy.logic.values import Symbols, Value, when_false, when_true
from guardagent.types import EMPTY, Functions

__all__ = ["OPEN", "Open", "Reasoner"]

CHANGES = 3  # changed arguments in a remedy, at most
TRIES = 4  # the time limit of a remedy, in questions
_JSON_TYPE = {"text": "string", "number": "number", "truth value": "boolean", "list": "array", "mapping": "object"}


class Reasoner:
    """Answers questions about the next call of a session.

    Args:
        session: the session; each question uses its current state.
        functions: the state functions; the result of any other function is unknown.
        seconds: the time limit of one question.
    """

    def __init__(
        self, session: ReasonerSession, functions: Functions | None = None, *, seconds: float = SECONDS
    ) -> None:
        self._session = session
        self._functions = getattr(session.policies, "functions", EMPTY) if functions is None else functions
        self._seconds = seconds

    # --- the questions

    def can_comply(
        self, tool: str, args: Mapping[str, Any], *, more: bool = False, facts: Mapping[str, Any] | None = None
    ) -> bool | None:
        """Returns whether the session allows some completion of a call, or None if unknown.

        Args:
            tool: the tool of the call.
            args: its arguments; `Open` for those whose values are not known yet.
            more: whether other arguments may be added.
            facts: the host's facts for this call.

        Raises:
            InputError: an argument contains `Open` inside a list or mapping.
        """
        return self._search(tool, args, more=more, facts=facts).possible

    def witness(
        self, tool: str, args: Mapping[str, Any], *, more: bool = False, facts: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any] | None:
        """Returns arguments with which the session allows the call, or None if none are found."""
        return self._search(tool, args, more=more, facts=facts).args

    def remedy(
        self, tool: str, args: Mapping[str, Any], *, facts: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any] | None:
        """Returns the fewest changed arguments that make a call allowed: empty if it is, None if none are found."""
        if call_problem(tool, args, facts):
            return None
        mentioned = search.mentioned_arguments(self._session.policies, tool)
        names = [*(name for name in args if name in mentioned), *sorted(mentioned - args.keys())]
        until = time.monotonic() + TRIES * self._seconds
        for changed in (some for count in range(CHANGES + 1) for some in combinations(names, count)):
            opened = {name: Open(_same_kind_schema(args.get(name))) for name in changed}
            remedy = self._search(tool, {**args, **opened}, more=False, facts=facts)
            if remedy.args is not None:
                return {name: remedy.args[name] for name in changed}
            if time.monotonic() > until:
                break
        return None

    def judge(
        self, tool: str, args: Mapping[str, Any], *, facts: Mapping[str, Any] | None = None
    ) -> Mapping[str, bool | None]:
        """Returns for each rule whether a call satisfies it, or None if unknown. Z3 computes the result."""
        if call_problem(tool, args, facts):
            return dict.fromkeys((rule.id for rule in self._session.policies.rules), None)
        operations = Operations(Symbols(), lambda expression: thread_solver().evaluate(expression))
        with self._session._lock:  # noqa: SLF001 - the session must not change meanwhile
            question = CallEvaluation(
                self._session, operations, tool, operations.constant(args), facts, self._functions
            )
            judging = set(self._session.policies.rules_for(self._session._principal))  # noqa: SLF001 - as above
            return {
                rule.id: self._truth(question.rule(rule), operations.symbols) if rule in judging else True
                for rule in self._session.policies.rules
            }

    def _truth(self, value: Value, symbols: Symbols) -> bool | None:
        for answer, expression in ((True, when_true(value)), (False, when_false(value))):
            closed = isinstance(expression, ExpressionNode) and not expression.is_open
            holds = thread_solver(self._seconds).evaluate(expression) if closed else expression
            if holds is True or (
                isinstance(holds, ExpressionNode) and thread_solver(self._seconds).holds(holds, symbols)
            ):
                return answer
        return None

    # --- completions

    def _search(
        self, tool: str, args: Mapping[str, Any], *, more: bool, facts: Mapping[str, Any] | None
    ) -> CompletionResult:
        if call_problem(tool, args, facts):
            return CompletionResult(possible=False)
        reject_nested_open(args)
        with self._session._lock:  # noqa: SLF001 - the session must not change meanwhile
            return CompletionSearch(
                self._session, self._functions, tool, args, facts, more=more, seconds=self._seconds
            ).run()


def _same_kind_schema(value: Any) -> Mapping[str, Any]:
    """Returns a schema of values of the same kind, except null."""
    kind = kind_of(value)
    if kind is None:
        return {"type": list(_JSON_TYPE.values())}
    whole = kind == "number" and type(value) is int
    return {"type": "integer" if whole else _JSON_TYPE[kind]}
