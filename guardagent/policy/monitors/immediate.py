"""Monitor for `forall`, `before` and `seq`: conditions on each proposed call (Agent-C's Forall, Before and Seq)."""

from __future__ import annotations

from functools import partial
from typing import Any

from guardagent.policy.evaluation.evidence import compile_with_evidence
from guardagent.policy.evaluation.history_index import Env
from guardagent.policy.evaluation.monitor_interface import (
    Explanation,
    MonitorResult,
    RuleContext,
    SessionCall,
    blank_explanation,
)
from guardagent.policy.evaluation.screen import CallScope, CertainConditions, ScreenCode
from guardagent.policy.evaluation.terms import Compiler, Names
from guardagent.policy.language import ast
from guardagent.policy.language.values import Truth, disjunction, dump_truth, inverse, load_truth


class ForallMonitor:
    """Requires a condition of every matching call. Its memory: whether all calls so far satisfied it."""

    def __init__(self, rule: ast.Forall, compiler: Compiler) -> None:
        names: Names = {}
        self.stateful = False  # a call is judged once, when it is proposed
        self.tools = compiler.library.tools_of(rule.pattern)
        self._match = compiler.proposed(rule.pattern, names)
        self._condition, self._explain = compile_with_evidence(rule.condition, compiler, names)
        self._outcomes = compiler.call_outcomes(rule.condition)
        inside = {type(node) for node in ast.walk(rule.condition)}
        self._of_history = not inside.isdisjoint(ast.OF_EARLIER)
        self._asks_known = ast.Known in inside
        self._adds_up = not inside.isdisjoint({ast.CountCalls, ast.SumCalls, ast.Selected})
        self._reads_time = ast.reads_time(rule.condition)
        self._size = compiler.size
        self._rule = rule
        self._scope = _scope(rule, compiler, names, has_partners=ast.SomeCall in inside)

    def screened(self, code: ScreenCode, _number: int, _kind: SessionCall) -> str | None:
        if self._asks_known and self._of_history:  # calls in flight can make known what was unknown
            return None
        if self._reads_time:  # a clock that went back denies, whatever the condition is
            return None
        return CertainConditions(code, self._scope).kept(self._rule.pattern, self._rule.condition)

    def concerns(self, call: SessionCall) -> bool:
        return call.tool in self.tools

    def looks_back(self, _call: SessionCall) -> bool:
        return self._of_history

    def reports(self, _call: SessionCall) -> bool:
        return True

    def start(self) -> _ForallMemory:
        return _ForallMemory()

    def judge(self, context: RuleContext, call: SessionCall, _memory: Any) -> MonitorResult | None:
        env: Env = [None] * self._size
        env[0] = context
        matched = self._match(env, call)
        if matched is False:
            return None
        if self._reads_time:
            context.moment()  # a clock that went back denies
        value = self._condition(env)
        if value is True:
            return None
        if matched is not True or value is not False or (self._adds_up and context.in_flight):
            return self._undecided(env, call, matched, value)
        return MonitorResult.violated(partial(self._explained, env))

    def _explained(self, env: Env) -> Explanation:
        explanation = blank_explanation()
        needed = self._explain(env, explanation)
        missing = explanation.missing
        if len(missing) != 1 or needed != f"an earlier {missing[0]}":
            explanation.needed = needed
        return explanation

    def _undecided(self, env: Env, call: SessionCall, matched: Truth, value: Any) -> MonitorResult | None:
        """The result over all outcomes of the calls in flight: unknown unless they agree."""
        context, environments = env[0], [env]
        truth = disjunction((inverse(matched), value))
        if not context.in_flight:
            return MonitorResult(truth)

        def in_one_outcome() -> Truth:
            environments[0] = [context, *[None] * (self._size - 1)]
            return disjunction((inverse(self._match(environments[0], call)), self._condition(environments[0])))

        truth = self._outcomes.forall(context, env, in_one_outcome, is_three_valued=True)
        if truth is True:
            return None
        return (
            MonitorResult(truth, partial(self._explained, environments[0])) if truth is False else MonitorResult(truth)
        )

    def reserved(
        self, _context: RuleContext, call: SessionCall, memory: _ForallMemory, result: MonitorResult | None
    ) -> None:
        if result is not None:
            memory.open[call.place] = result.value

    def settled(self, _context: RuleContext, call: SessionCall, memory: _ForallMemory) -> None:
        """Keeps the result of the proposal; drops that of a withdrawn call."""
        value = memory.open.pop(call.place, True)
        if call.status != "withdrawn":
            memory.take(value)

    def began(self, memory: _ForallMemory) -> None:
        """Has no effect on this monitor."""

    def ended(self, _context: RuleContext, memory: _ForallMemory) -> MonitorResult | None:
        value = self.satisfiable(memory)
        return None if value is True else MonitorResult(value)

    def satisfiable(self, memory: _ForallMemory) -> Truth:
        if not memory.open:
            return memory.base
        restored = _ForallMemory(memory.base)
        for value in memory.open.values():
            restored.take(value)
        return restored.base

    def satisfied(self, _memory: _ForallMemory) -> bool:
        return False

    def copied(self, memory: _ForallMemory, _calls: Any) -> _ForallMemory:
        copy = _ForallMemory(memory.base)
        copy.open = dict(memory.open)
        return copy

    def dumped(self, memory: _ForallMemory) -> Any:
        open_places = [[place, dump_truth(value)] for place, value in memory.open.items()]
        return {"base": dump_truth(memory.base), "open": open_places}

    def loaded(self, data: Any, _calls: Any) -> _ForallMemory:
        if not isinstance(data, dict):  # older snapshots
            return _ForallMemory(load_truth(data))
        memory = _ForallMemory(load_truth(data["base"]))
        memory.open = {place: load_truth(value) for place, value in data["open"]}
        return memory


def _scope(rule: ast.Forall, compiler: Compiler, names: Names, *, has_partners: bool) -> CallScope:
    """The names of the rule for its screen."""
    arguments = {name: compiler.arguments[slot] for name, slot in names.items() if slot in compiler.arguments}
    inside = ast.walk(rule.condition) if has_partners else ()
    terms = [node for node in inside if isinstance(node, ast.SomeCall)]
    queries = {id(term): keys for term in terms if (keys := compiler.keys_of(term)) is not None}
    return CallScope(rule.pattern.label, arguments, queries)


class _ForallMemory:
    """The results so far: `base` for settled calls, `open` for unsatisfied calls in flight."""

    __slots__ = ("base", "open")

    def __init__(self, base: Truth = True) -> None:  # noqa: FBT002 - a value
        self.base = base
        self.open: dict[int, Truth] = {}

    def take(self, value: Truth) -> None:
        if value is True or self.base is False:
            return
        if value is False or self.base is True or not self.base.unrecorded:
            self.base = value
