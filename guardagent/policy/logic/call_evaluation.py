"""Evaluates the rules of a session on a proposed call whose arguments may be open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.language.values import Truth
from guardagent.policy.logic.expressions import Expression, conj, disj
from guardagent.policy.logic.operations import Operations
from guardagent.policy.logic.rule_tree import AtomicRule, RuleTree, judge_call, uses_known
from guardagent.policy.logic.semantics import Semantics, SymbolicCall
from guardagent.policy.logic.session_protocol import ReasonerSession
from guardagent.policy.logic.sessions import (
    CurrentSession,
    Outcomes,
    outcome_combinations,
    reading_of,
    tries_every_ending,
)
from guardagent.policy.logic.values import FALSE, TRUE, UNKNOWN, Value, conjunction, truth, when_false, when_true
from guardagent.policy.monitors.rule import Rule
from guardagent.types import Decision


def of_truth(value: Truth) -> Value:
    return TRUE if value is True else FALSE if value is False else UNKNOWN


class CallEvaluation:
    """The symbolic evaluation of a session's rules on one call.

    Args:
        session: the session.
        operations: the operations on values.
        tool: the tool of the call.
        args: its arguments, a mapping.
        facts: the host's facts for this call.
        functions: the state functions.
    """

    def __init__(
        self,
        session: ReasonerSession,
        operations: Operations,
        tool: str,
        args: Value,
        facts: Mapping[str, Any],
        functions: Mapping[str, Callable[..., Any]],
    ) -> None:
        self._conversation = conversation = session._conversation  # noqa: SLF001 - the reasoner belongs to the session
        self._operations, self._symbolic_call = operations, SymbolicCall(tool, args)
        self._call = SessionCall(tool, {}, len(conversation.calls) + 1)
        self._tags = session.policies.tags
        trace, calls = conversation.context, conversation.calls
        self.contexts: list[CurrentSession] = []
        reading = reading_of(trace)

        def context(outcomes: Outcomes) -> Semantics:
            self.contexts.append(CurrentSession(operations, trace, calls, facts, functions, outcomes, reading))
            return Semantics(operations, self.contexts[-1], self._tags, functions)

        self._current = context({})
        in_flight = trace.in_flight
        self._exhaustive = tries_every_ending(in_flight)
        self._outcomes = (
            [context(outcomes) for outcomes in outcome_combinations(in_flight)] if in_flight else [self._current]
        )
        concern = session.policies.applicability(self._call)
        skipped = conversation.skipped if tool in conversation.graph_tools else frozenset[int]()
        self._applicable = {number for number, _ in concern.monitors} - skipped

    @classmethod
    def for_session(
        cls,
        session: ReasonerSession,
        operations: Operations,
        tool: str,
        args: Value,
        facts: Mapping[str, Any] | None,
        functions: Mapping[str, Callable[..., Any]],
    ) -> CallEvaluation:
        """Returns the evaluation with `facts` added to the session's facts."""
        known = {**session._facts, **(facts or {})}  # noqa: SLF001 - as above
        return cls(session, operations, tool, args, known, functions)

    def rule(self, rule: Rule) -> Value:
        """Returns whether the call satisfies a rule for every outcome of the calls in flight."""
        tree = RuleTree(rule.rules)
        if len(tree.atomic_rules) != len(rule.monitors):  # not a temporal rule
            return self._operations.symbols.any_truth(("rule", rule.id))
        every = conjunction(self._rule_in(semantics, rule, tree) for semantics in self._outcomes)
        if self._exhaustive:
            return every
        now = FALSE if any(map(uses_known, tree.atomic_rules)) else self._rule_in(self._current, rule, tree)
        return truth(when_true(now), when_false(every))

    def _rule_in(self, semantics: Semantics, rule: Rule, tree: RuleTree) -> Value:
        """Returns whether the call satisfies a rule for one combination of outcomes."""
        values = [self._part(semantics, rule, at, part) for at, part in enumerate(tree.atomic_rules)]
        return tree.combine(values, lambda at: self._so_far(rule, at))

    def _so_far(self, rule: Rule, at: int) -> Value:
        memory = self._conversation._memory[rule.first_monitor + at]  # noqa: SLF001 - as above
        return of_truth(rule.monitors[at].satisfiable(memory))

    def _part(self, semantics: Semantics, rule: Rule, at: int, part: AtomicRule) -> Value:
        number = rule.first_monitor + at
        if number not in self._applicable:
            return TRUE
        if not part.is_propositional:
            return judge_call(part, self._symbolic_call, semantics)
        memory = self._conversation._memory[number]  # noqa: SLF001 - as above
        finding = rule.monitors[at].judge(self._conversation.context, self._call, memory)
        return TRUE if finding is None else of_truth(finding.value)

    def allowed(self, rules: tuple[Rule, ...]) -> Expression:
        """Returns the condition under which no rule denies the call."""
        return conj(*self._permissions(rules))

    def _permissions(self, rules: tuple[Rule, ...]) -> Iterator[Expression]:
        for rule in rules:
            value = self.rule(rule)
            warns = rule.source.on_violation <= Decision.WARN
            yield disj(when_true(value), when_false(value)) if warns else when_true(value)
