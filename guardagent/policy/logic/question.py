"""One proposed call of a session, whose arguments may be open: what each rule says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from guardagent.policy.evaluation.findings import Call
from guardagent.policy.language.values import Truth
from guardagent.policy.logic.asked import Session
from guardagent.policy.logic.combined import Part, Parts, asks_known, of_call
from guardagent.policy.logic.expressions import Expression, conj, disj
from guardagent.policy.logic.meaning import Called, Meaning
from guardagent.policy.logic.operations import Operations
from guardagent.policy.logic.present import Outcomes, Present, few, worlds
from guardagent.policy.logic.values import FALSE, TRUE, UNKNOWN, Value, conjunction, truth, when_false, when_true
from guardagent.policy.monitors.rule import Rule
from guardagent.types import Decision


def of_truth(value: Truth) -> Value:
    return TRUE if value is True else FALSE if value is False else UNKNOWN


class Question:
    """What the rules of a session say of a call.

    Args:
        session: as it is now.
        operations: what is done with values.
        tool: the tool of the call.
        args: its arguments: a mapping.
        facts: what the host knows at this call.
        functions: what `state(...)` can ask.
    """

    def __init__(
        self,
        session: Session,
        operations: Operations,
        tool: str,
        args: Value,
        facts: Mapping[str, Any],
        functions: Mapping[str, Callable[..., Any]],
    ) -> None:
        self._conversation = conversation = session._conversation  # noqa: SLF001 - this is asked of a session
        self._operations, self._called = operations, Called(tool, args)
        self._call = Call(tool, {}, len(conversation.calls) + 1)
        self._tags = session.policies.tags
        trace, calls = conversation.trace, conversation.calls
        self.moments: list[Present] = []

        def moment(outcomes: Outcomes) -> Meaning:
            self.moments.append(Present(operations, trace, calls, facts, functions, outcomes))
            return Meaning(operations, self.moments[-1], self._tags)

        self._as_it_is = moment({})
        in_flight = trace.in_flight
        self._few = few(in_flight)
        self._worlds = [moment(way) for way in worlds(in_flight)] if in_flight else [self._as_it_is]
        concern = session.policies.concern(self._call)
        skipped = conversation.skipped if tool in conversation.graph_tools else frozenset[int]()
        self._concerned = {number for number, _ in concern.parts} - skipped

    @classmethod
    def of(
        cls,
        session: Session,
        operations: Operations,
        tool: str,
        args: Value,
        facts: Mapping[str, Any] | None,
        functions: Mapping[str, Callable[..., Any]],
    ) -> Question:
        """The same; `facts` are over what the host knows of the conversation."""
        known = {**session._facts, **(facts or {})}  # noqa: SLF001 - as above
        return cls(session, operations, tool, args, known, functions)

    def rule(self, rule: Rule) -> Value:
        """Whether the call keeps a rule, in every way in which the calls in flight can end."""
        parts = Parts(rule.rules)
        if len(parts.parts) != len(rule.parts):  # of another kind
            return self._operations.symbols.any_truth(("rule", rule.id))
        every = conjunction(self._in(meaning, rule, parts) for meaning in self._worlds)
        if self._few:
            return every
        now = FALSE if any(map(asks_known, parts.parts)) else self._in(self._as_it_is, rule, parts)
        return truth(when_true(now), when_false(every))

    def _in(self, meaning: Meaning, rule: Rule, parts: Parts) -> Value:
        """Whether it does, where the calls in flight end in one way."""
        values = [self._part(meaning, rule, at, part) for at, part in enumerate(parts.parts)]
        return parts.together(values, lambda at: self._so_far(rule, at))

    def _so_far(self, rule: Rule, at: int) -> Value:
        memory = self._conversation._memory[rule.first + at]  # noqa: SLF001 - as above
        return of_truth(rule.parts[at].so_far(memory))

    def _part(self, meaning: Meaning, rule: Rule, at: int, part: Part) -> Value:
        number = rule.first + at
        if number not in self._concerned:
            return TRUE
        if not part.is_propositional:
            return of_call(part, self._called, meaning)
        memory = self._conversation._memory[number]  # noqa: SLF001 - as above
        finding = rule.parts[at].judge(self._conversation.trace, self._call, memory)
        return TRUE if finding is None else of_truth(finding.value)

    def allowed(self, rules: tuple[Rule, ...]) -> Expression:
        """When no rule stands against the call."""
        return conj(*self._allowing(rules))

    def _allowing(self, rules: tuple[Rule, ...]) -> Iterator[Expression]:
        for rule in rules:
            value = self.rule(rule)
            warns = rule.source.on_violation <= Decision.WARN
            yield disj(when_true(value), when_false(value)) if warns else when_true(value)
