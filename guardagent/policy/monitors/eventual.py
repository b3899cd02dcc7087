"""Monitors for `exists`, `after` and their negations: calls required by the end (Agent-C's Exists and After)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from guardagent.policy.evaluation.evidence import known_arguments, missing_call_text
from guardagent.policy.evaluation.history_index import suggested
from guardagent.policy.evaluation.history_query import Env, HistoryQuery
from guardagent.policy.evaluation.monitor_interface import Explanation, Monitor, MonitorResult, RuleContext, SessionCall
from guardagent.policy.evaluation.terms import Compiler, Names
from guardagent.policy.language import ast
from guardagent.policy.language.values import (
    Truth,
    Unknown,
    conjunction,
    disjunction,
    dump_truth,
    hash_key,
    kind_of_key,
    load_truth,
    not_boolean,
)
from guardagent.types import freeze, thaw

LOOKUP_THRESHOLD = 8  # pending obligations from which on the matching one is looked up by key


class ExistsMonitor(Monitor):
    """Requires a successful matching call by the end. Its memory: whether one was made.

    Attributes:
        rule: its syntax tree.
        wanted: the query that the call satisfies.
    """

    def __init__(self, rule: ast.Exists, compiler: Compiler) -> None:
        self.stateful, self.rule = True, rule
        self.wanted = compiler.history_query(rule.pattern, rule.condition, {})
        self.tools = self.wanted.tools
        self._size = compiler.size
        self._missing = _MissingCall(rule.pattern, rule.condition, compiler, {})

    def looks_back(self, _call: SessionCall) -> bool:
        return False

    def reports(self, _call: SessionCall) -> bool:
        return False

    def start(self) -> list[Truth]:
        return [False]

    def judge(self, context: RuleContext, call: SessionCall, memory: Any) -> None:
        """Finds nothing: the rule can only be violated at the end."""

    def settled(self, context: RuleContext, call: SessionCall, memory: list[Truth]) -> None:
        if call.status == "ok" and memory[0] is not True:
            memory[0] = disjunction((memory[0], self.wanted.judge(_env(context, self._size), call)))

    def ended(self, context: RuleContext, memory: list[Truth]) -> MonitorResult | None:
        if memory[0] is True:
            return None
        return MonitorResult(memory[0], partial(self._missing.explained, _env(context, self._size)))

    def satisfied(self, memory: list[Truth]) -> bool:
        return memory[0] is True

    def copied(self, memory: list[Truth], _calls: Any) -> list[Truth]:
        return list(memory)

    def dumped(self, memory: list[Truth]) -> Any:
        return dump_truth(memory[0])

    def loaded(self, data: Any, _calls: Any) -> list[Truth]:
        return [load_truth(data)]


class _MissingCall:
    """A missing call, to be explained."""

    def __init__(self, pattern: ast.Pattern, condition: ast.Term, compiler: Compiler, names: Names) -> None:
        self._known = known_arguments(pattern, names)
        self._tools = tuple(suggested(compiler.library.tools_of(pattern)))
        self._words = missing_call_text(pattern, condition, compiler, names)

    def explained(self, env: Env, obliged_by: SessionCall | None = None) -> Explanation:
        args = self._known(env)
        return Explanation(
            missing=(self._words(env),),
            evidence={} if obliged_by is None else {"obliged by": obliged_by.shown()},
            sequences=tuple([((tool, args),) for tool in self._tools]),
        )


class _Obligation:
    """A pending obligation: the call that created it, its bindings, and whether it certainly exists."""

    __slots__ = ("call", "certainty", "env")

    def __init__(self, call: SessionCall, env: Env, certainty: Truth) -> None:
        self.call, self.env, self.certainty = call, env, certainty

    def among(self, calls: Mapping[SessionCall, SessionCall]) -> _Obligation:
        """The same obligation with some calls replaced."""
        env = [calls.get(value, value) if isinstance(value, SessionCall) else value for value in self.env]
        return _Obligation(calls.get(self.call, self.call), env, self.certainty)


class _Obligations(dict[Any, _Obligation]):
    """The pending obligations, by the values of their variables if these can be indexed.

    Attributes:
        kinds: the kinds of the variables so far; None for keys that are not values.
        pending: place -> (key, obligation) for calls in flight; withdrawing the call removes it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kinds: set[Any] = set()
        self.pending: dict[int, tuple[Any, _Obligation]] = {}

    def open(self, key: Any, obligation: _Obligation) -> None:
        known = self.get(key)
        if known is not None and known.call.place > obligation.call.place:
            return
        self.kinds.add(_kinds(key))
        self.pop(key, None)  # a repeated obligation dates from the last call
        self[key] = obligation

    def all_open(self) -> list[_Obligation]:
        return [*self.values(), *(obligation for _, obligation in self.pending.values())]


class ResponseMonitor(Monitor):
    """Requires a later partner call for each matching call. Its memory: the pending obligations.

    Args:
        negated: the negation: some successful matching call has no later partner, successful or not.

    Attributes:
        rule: its syntax tree.
        compiler: has compiled it.
        match: binds a proposed call in an environment, and returns whether it matches.
        partner: the query that the later call satisfies.
        first: the tools of the calls that oblige.
    """

    def __init__(self, rule: ast.After, compiler: Compiler, *, negated: bool) -> None:
        names: Names = {}
        library = compiler.library
        self.stateful, self.rule, self.compiler = True, rule, compiler
        self.first = library.tools_of(rule.pattern)
        self.match = compiler.proposed(rule.pattern, names)
        self._condition = compiler.term(rule.condition, names)
        self._of_history = any(isinstance(node, ast.OF_EARLIER) for node in ast.walk(rule.condition))
        self._reads_time = any(ast.reads_time(ast.walk(term)) for term in (rule.condition, rule.partner_condition))
        self._outcomes = compiler.call_outcomes(rule.condition, directed=False)
        self.partner: HistoryQuery = compiler.history_query(rule.partner, rule.partner_condition, names)
        used = ast.names_in(rule.partner) | ast.names_in(rule.partner_condition)
        self._slots = tuple(slot for name, slot in names.items() if name in used)
        joined = dict(self.partner.variable_equations)
        self._joined = tuple(joined[slot] for slot in self._slots) if set(self._slots) <= joined.keys() else None
        self._size = compiler.size
        self.negated = negated
        self.tools = self.first | self.partner.tools
        self._missing = _MissingCall(rule.partner, rule.partner_condition, compiler, names)

    def looks_back(self, _call: SessionCall) -> bool:
        return self._of_history

    def reports(self, call: SessionCall) -> bool:
        return call.tool in self.first

    def start(self) -> _Obligations:
        return _Obligations()

    def judge(self, context: RuleContext, call: SessionCall, _memory: Any) -> MonitorResult | None:
        """Reports a call for which it is unknown whether it creates an obligation."""
        if self.negated or call.tool not in self.first:
            return None
        env = _env(context, self._size)
        if self._reads_time:
            context.moment()  # a clock that went back denies
        value = self.obliges(env, call)
        if isinstance(value, Unknown) and context.in_flight:
            value = self._outcomes.forall(context, list(env), lambda: _known(self.obliges(env, call)))
        return MonitorResult(value) if isinstance(value, Unknown) else None

    def obliges(self, env: Env, call: SessionCall) -> Truth:
        """Whether a call creates an obligation; binds its values."""
        value = self._condition(env) if (matched := self.match(env, call)) is not False else False
        return conjunction((matched, value)) if matched is not False else False

    def reserved(
        self, context: RuleContext, call: SessionCall, memory: _Obligations, _result: MonitorResult | None
    ) -> None:
        self._open(context, call, memory)

    def settled(self, context: RuleContext, call: SessionCall, memory: _Obligations) -> None:
        obliged = memory.pending.pop(call.place, None)
        if call.status == "withdrawn":
            return
        if obliged is not None and (call.status == "ok" or not self.negated):
            memory.open(*obliged)
        if self.negated or call.status == "ok":
            self._discharge(context, call, memory)

    def _open(self, context: RuleContext, call: SessionCall, memory: _Obligations) -> None:
        if call.tool not in self.first:
            return
        env = _env(context, self._size)
        value = self.obliges(env, call)
        if value is False:
            return
        sure = value if value is True else not_boolean(value)
        memory.pending[call.place] = self._key(env, call.place, sure), _Obligation(call, env, sure)

    def _candidates(self, call: SessionCall, memory: _Obligations) -> list[tuple[Any, _Obligation]]:
        """The obligations that a call may discharge: at most one if the partner's arguments identify it."""
        if self._joined is not None and len(memory) > LOOKUP_THRESHOLD:
            key = tuple([hash_key(call.args.get(name)) for name in self._joined])
            if None not in key and memory.kinds == {_kinds(key)}:
                return [(key, memory[key])] if key in memory else []
        return list(memory.items())

    def _key(self, env: Env, place: int, sure: Truth) -> Any:
        """The key of an obligation: equal variables for certain obligations, otherwise the position of the call."""
        if sure is not True or self.negated:
            return place
        keys = tuple(hash_key(env[slot]) for slot in self._slots)
        return place if None in keys else keys

    def _discharge(self, context: RuleContext, call: SessionCall, memory: _Obligations) -> None:
        if call.tool not in self.partner.tools:
            return
        for key, obligation in self._candidates(call, memory):
            left = self._remaining(context, call, obligation)
            if left is None:
                del memory[key]
            elif left is not obligation:
                memory[key] = left
        for place, (key, obligation) in list(memory.pending.items()):
            left = self._remaining(context, call, obligation)
            if left is None:
                del memory.pending[place]
            elif left is not obligation:
                memory.pending[place] = key, left

    def _remaining(self, context: RuleContext, call: SessionCall, obligation: _Obligation) -> _Obligation | None:
        """The obligation after a call; None if the call discharges it."""
        if obligation.call.place >= call.place:
            return obligation
        env = list(obligation.env)
        env[0] = context
        value = self.partner.judge(env, call)
        if value is True:
            return None
        if value is False or _is_unrecorded(obligation.certainty):
            return obligation
        return _Obligation(obligation.call, obligation.env, value)

    def _unanswered(self, context: RuleContext, memory: _Obligations) -> Truth:
        """The negated rule: whether some successful call has no partner. Calls in flight count as partners."""
        left = self.copied(memory, {})
        for call in context.in_flight:
            context.as_of = call
            self._discharge(context, call, left)
        context.as_of = None
        return disjunction(obligation.certainty for obligation in left.values() if obligation.call.status == "ok")

    def ended(self, context: RuleContext, memory: _Obligations) -> MonitorResult | None:
        if self.negated:
            value = self._unanswered(context, memory)
            return None if value is True else MonitorResult(value)
        obligations = memory.all_open()
        if not obligations:
            return None
        certain = next((obligation for obligation in obligations if obligation.certainty is True), None)
        first = certain or max(obligations, key=lambda obligation: _is_unrecorded(obligation.certainty))
        return MonitorResult(
            False if certain else first.certainty, partial(self._missing.explained, first.env, first.call)
        )

    def copied(self, memory: _Obligations, calls: Mapping[SessionCall, SessionCall]) -> _Obligations:
        copy = _Obligations()
        for key, obligation in memory.items():
            copy.open(key, obligation.among(calls))
        copy.pending = {place: (key, obligation.among(calls)) for place, (key, obligation) in memory.pending.items()}
        return copy

    def dumped(self, memory: _Obligations) -> Any:
        return [
            [
                obligation.call.place,
                dump_truth(obligation.certainty),
                [_dump_value(obligation.env[slot]) for slot in self._slots],
            ]
            for obligation in memory.all_open()
        ]

    def loaded(self, data: Any, calls: Sequence[SessionCall]) -> _Obligations:
        memory = _Obligations()
        for place, sure, values in data:
            env: Env = [None] * self._size
            for slot, value in zip(self._slots, values, strict=True):
                env[slot] = _load_value(value, calls)
            known, call = load_truth(sure), calls[place - 1]
            obliged = self._key(env, place, known), _Obligation(call, env, known)
            if call.status is None:
                memory.pending[place] = obliged
            else:
                memory.open(*obliged)
        return memory


def _is_unrecorded(value: Truth) -> bool:
    return isinstance(value, Unknown) and value.unrecorded


def _known(value: Truth) -> Truth:
    """True for a known value; an unknown value itself."""
    return value if isinstance(value, Unknown) else True


def _env(context: RuleContext, size: int) -> Env:
    env: Env = [None] * size
    env[0] = context
    return env


def _dump_value(value: Any) -> Any:
    if isinstance(value, SessionCall):
        return {"call": value.place}
    return {"unknown": list(value.why)} if isinstance(value, Unknown) else {"value": thaw(value)}


def _load_value(data: dict[str, Any], calls: Sequence[SessionCall]) -> Any:
    if "call" in data:
        return calls[data["call"] - 1]
    return Unknown(*data["unknown"]) if "unknown" in data else freeze(data["value"])


def _kinds(key: Any) -> tuple[str, ...] | None:
    return tuple(map(kind_of_key, key)) if type(key) is tuple else None
