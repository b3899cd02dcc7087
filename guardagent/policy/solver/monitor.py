"""The monitor of a solver rule: checks each call of its tools with an SMT solver.

The solver gets the policy, the known values of the call and the permit. A satisfiable result allows the call; an
unsatisfiable one denies it and explains a minimal core in natural language (*Solver-Aided Verification*, 3.1). Unknown
values never allow a call: an unknown required variable denies, and an unknown optional variable must not change the
result, whatever its value. Only `free: any` lets the solver choose a value, as the paper does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any

from guardagent.policy.evaluation.call_outcomes import CallOutcomes
from guardagent.policy.evaluation.history_index import Env
from guardagent.policy.evaluation.monitor_interface import Explanation, MonitorResult, RuleContext, SessionCall
from guardagent.policy.language.values import Absent, Truth, Unknown, shown
from guardagent.policy.solver.conversation_reader import ConversationReader
from guardagent.policy.solver.conversation_values import RequestedVariable
from guardagent.policy.solver.encoding import Encoding, Question
from guardagent.policy.solver.explanations import describe_facts, describe_value, facts_of, rules_of
from guardagent.policy.solver.result import SolverResult
from guardagent.policy.solver.sort_check import SortMismatch, value_of_sort
from guardagent.policy.solver.sorts import Enumeration, Sort
from guardagent.policy.solver.sources import ConversationSource, ExpressionSource, Source

MAX_OUTCOMES = 64  # combinations of outcomes of calls in flight that are checked
CACHE_SIZE = 1024  # explained denials, by the values of the variables


@dataclass(frozen=True, slots=True)
class SolverVariable:
    """A variable of a tool's schema."""

    name: str
    sort: Sort
    enum: tuple[Any, ...] | None
    source: Source | None
    required: bool
    free: bool


class PermitCheck:
    """Checks the permit of one tool.

    Args:
        question: asks whether the constraints and the permit are satisfiable.
        variables: the tool's schema, in the order of the question's variables.
        slot: the index of the call's arguments in the environment.
        size: the number of slots of the environment.
        outcomes: the outcomes of calls in flight that the variables can tell apart.
    """

    def __init__(
        self,
        encoding: Encoding,
        question: Question,
        variables: Sequence[SolverVariable],
        slot: int,
        size: int,
        outcomes: CallOutcomes,
    ) -> None:
        self.encoding, self.question, self.variables = encoding, question, tuple(variables)
        self._slot, self._size, self._outcomes = slot, size, outcomes
        self._domains = {one.name: one.enum for one in variables if one.enum is not None}
        expressions = {one.name: one.source for one in variables if isinstance(one.source, ExpressionSource)}
        self._computed = [
            (at, expressions[one.name].term) for at, one in enumerate(variables) if one.name in expressions
        ]
        stated = [one for one in variables if isinstance(one.source, ConversationSource)]
        self.requested = tuple(_requested_variable(one, encoding) for one in stated)
        self.reads_history = any(source.reads_history for source in expressions.values())
        by_agent = [name for name, source in expressions.items() if source.from_args]
        self._changeable = by_agent or [one.name for one in variables]
        self._by_agent = bool(by_agent)
        self._hidden = {name for name, source in expressions.items() if not source.is_shown}
        self.violation = lru_cache(CACHE_SIZE, typed=True)(self._violation)

    def judge(
        self, trace: RuleContext, call: SessionCall, conversation_values: Mapping[str, Any]
    ) -> MonitorResult | None:
        """Returns the reason for a denial or an undecided check, or None if the call is permitted."""
        values = self.values(trace, call, conversation_values)
        if any(type(value) in (Unknown, SortMismatch) for value in values):
            return self._judge_unknown(values)
        found = self.question.evaluate(values)
        if found is True:
            return None
        return self._judge_known(values, denied=found is False)

    def in_every_outcome(
        self, trace: RuleContext, call: SessionCall, conversation_values: Mapping[str, Any]
    ) -> MonitorResult | None:
        """Judges the call for every outcome of the calls in flight."""
        results: list[MonitorResult] = []

        def judge_outcome() -> Truth:
            result = self.judge(trace, call, conversation_values)
            results.extend([] if result is None else [result])
            return True if result is None else result.value

        truth = self._outcomes.forall(trace, self._env(trace, call), judge_outcome, MAX_OUTCOMES)
        if truth is True:
            return None
        return results[-1] if truth is False else MonitorResult(truth)

    def _env(self, trace: RuleContext, call: SessionCall) -> Env:
        env: Env = [None] * self._size
        env[0], env[self._slot] = trace, call.args
        return env

    def values(self, trace: RuleContext, call: SessionCall, conversation_values: Mapping[str, Any]) -> list[Any]:
        """Returns each variable's value as its sort represents it, Unknown, or a SortMismatch."""
        env = self._env(trace, call)
        values = [conversation_values.get(one.name, _NOT_READ) for one in self.variables]
        for at, term in self._computed:
            values[at] = term(env)
        return [value_of_sort(value, one.sort, one.enum) for value, one in zip(values, self.variables, strict=True)]

    def _judge_unknown(self, values: Sequence[Any]) -> MonitorResult | None:
        unrecorded = next((value for value in values if type(value) is Unknown and value.unrecorded), None)
        if unrecorded is not None:
            return MonitorResult(unrecorded)
        pairs = list(zip(self.variables, values, strict=True))
        refused = [(one, value) for one, value in pairs if type(value) is SortMismatch]
        missing = [(one, value) for one, value in pairs if type(value) is Unknown]
        reasons = [_unknown_reason(one, value) for one, value in missing if one.required]
        if refused or reasons:
            causes = [f"{one.name}: {self._refusal(one, value)}" for one, value in refused]
            hidden = [f"{one.name}: {value.why}" for one, value in refused if one.name in self._hidden]
            return MonitorResult(Unknown(*causes, *reasons), lambda: Explanation(withheld=tuple(hidden)))
        known = {one.name: value for one, value in pairs if type(value) is not Unknown}
        universal = {one.name: value for one, value in missing if not one.free}
        answer = self.question.solve(known, tuple(universal), self._domains)
        if answer.status == "sat":
            return None
        if answer.status == "unsat" and universal:
            return self._unknown_matters(known, universal, answer)
        return self._denied(known, answer.core) if answer.status == "unsat" else _UNDECIDED

    def _refusal(self, one: SolverVariable, value: SortMismatch) -> str:
        if one.name not in self._hidden:
            return value.why
        return "its value (not shown) is not an allowed value"

    def _unknown_matters(
        self, known: Mapping[str, Any], universal: Mapping[str, Unknown], answer: SolverResult
    ) -> MonitorResult:
        """Reports the unknown variables that decide the call, or a denial if no values permit it."""
        unconditional = self.question.solve(known, (), self._domains)
        if unconditional.status == "unsat":
            return self._denied(known, unconditional.core)
        example = {} if self._hidden & known.keys() else answer.counterexample or {}  # it could reveal hidden values
        relevant = [name for name in universal if f"variable:{name}" in answer.core] or list(universal)
        reasons = [f"{name}: {'; '.join(universal[name].why)}" for name in relevant]
        where = " and ".join(f"{name} is {shown(example[name])}" for name in relevant if name in example)
        effect = "and it affects the decision"
        return MonitorResult(Unknown(*reasons, f"{effect}: the call is denied if {where}" if where else effect))

    def _judge_known(self, values: Sequence[Any], *, denied: bool) -> MonitorResult | None:
        """Judges a call whose values are all known."""
        if denied:
            return self.violation(*values)
        answer = self.question.solve(self._named(values))
        if answer.status == "sat":
            return None
        return self._denied(self._named(values), answer.core) if answer.status == "unsat" else _UNDECIDED

    def _violation(self, *values: Any) -> MonitorResult:
        answer = self.question.solve(self._named(values))
        if answer.status == "sat":
            return MonitorResult(
                Unknown("the solver and the compiled rule disagree; report this as a bug in GuardAgent")
            )
        return self._denied(self._named(values), answer.core)

    def _named(self, values: Sequence[Any]) -> dict[str, Any]:
        return {one.name: value for one, value in zip(self.variables, values, strict=True)}

    def _denied(self, known: Mapping[str, Any], core: Sequence[str]) -> MonitorResult:
        return MonitorResult(False, cache(partial(self._explained, known, core)))  # noqa: FBT003 - a value

    def _explained(self, known: Mapping[str, Any], core: Sequence[str]) -> Explanation:
        facts = describe_facts(core, self.encoding, known, self._hidden)
        hidden = [name for name in facts_of(core) if name in self._hidden]
        return Explanation(
            because=facts,
            evidence={"core": list(core), "because": facts, "rules": rules_of(core, self.encoding)},
            changes=self._changes(known),
            withheld=tuple(describe_value(name, known[name], self.encoding.comments.get(name, "")) for name in hidden),
        )

    def _changes(self, known: Mapping[str, Any]) -> tuple[Any, str] | None:
        """Returns the nearest permitted call and its description.

        The search uses only values that may be shown, so that the result reveals nothing about hidden ones. The
        result is then checked against all known values.
        """
        may_be_shown = {name: value for name, value in known.items() if name not in self._hidden}
        changeable = [name for name in self._changeable if name in may_be_shown]
        changes = self.question.remedy(may_be_shown, changeable, self._domains)
        if not changes:
            return None
        if len(may_be_shown) < len(known) and self.question.solve({**known, **changes}).status != "sat":
            return None
        words = " and ".join(describe_value(name, value) for name, value in changes.items())
        arguments = {
            one.name: one.source.argument for one in self.variables if isinstance(one.source, ExpressionSource)
        }
        names = [arguments.get(name) for name in changes]
        whole = None if None in names else dict(zip(names, changes.values(), strict=True))
        return whole, f"the call would be permitted {'with' if self._by_agent else 'if'}: {words}"


def _unknown_reason(one: SolverVariable, value: Unknown) -> str:
    """Returns the reason why a variable is unknown; a missing argument can be added to the call."""
    from_args = isinstance(one.source, ExpressionSource) and one.source.from_args
    return (Absent if from_args else str)(f"{one.name}: {'; '.join(value.why)}")


def _requested_variable(one: SolverVariable, encoding: Encoding) -> RequestedVariable:
    source = one.source
    assert isinstance(source, ConversationSource)
    sort = one.sort.values if isinstance(one.sort, Enumeration) else one.sort.name
    return RequestedVariable(
        one.name, sort, one.enum, source.roles, source.confirmation, encoding.comments.get(one.name, "")
    )


_NOT_READ = Unknown("no model read it in the conversation")
_UNDECIDED = MonitorResult(Unknown("the solver reached no result within its time limit"))


class SolverMonitor:
    """The monitor of a solver rule. It has no state.

    Attributes:
        checks: the permit check of each tool.
    """

    stateful = False
    slow = True

    def __init__(self, checks: Mapping[str, PermitCheck], read_conversation: ConversationReader | None) -> None:
        self.checks = checks
        self._read_conversation = read_conversation
        self.tools = frozenset(checks)

    def concerns(self, call: SessionCall) -> bool:
        return call.tool in self.tools

    def asks(self, tool: str) -> bool:
        """Whether calls of a tool need a model to read the conversation."""
        return bool(self.checks[tool].requested) and self._read_conversation is not None

    def looks_back(self, call: SessionCall) -> bool:
        """Whether the result depends on the history or the conversation."""
        return self.checks[call.tool].reads_history or bool(self.checks[call.tool].requested)

    def reports(self, _call: SessionCall) -> bool:
        return True

    def start(self) -> None:
        return None

    def judge(self, trace: RuleContext, call: SessionCall, _memory: Any) -> MonitorResult | None:
        check = self.checks[call.tool]
        conversation_values = (
            self._read_conversation(check.requested, trace, call)
            if check.requested and self._read_conversation is not None
            else {}
        )
        if not trace.in_flight or not check.reads_history:
            return check.judge(trace, call, conversation_values)
        return check.in_every_outcome(trace, call, conversation_values)

    def reserved(self, trace: RuleContext, call: SessionCall, memory: Any, finding: MonitorResult | None) -> None:
        """Does nothing: each call is judged on its own."""

    def began(self, memory: Any) -> None:
        """Does nothing, as above."""

    def settled(self, trace: RuleContext, call: SessionCall, memory: Any) -> None:
        """Does nothing, as above."""

    def ended(self, _trace: RuleContext, _memory: Any) -> MonitorResult | None:
        return None

    def satisfiable(self, _memory: Any) -> Truth:
        return True

    def satisfied(self, _memory: Any) -> bool:
        return False

    def copied(self, _memory: Any, _calls: Any) -> None:
        return None

    def dumped(self, _memory: Any) -> None:
        return None

    def loaded(self, _data: Any, _calls: Any) -> None:
        return None
