"""Monitor for `forall`, `before` and `seq`: conditions on each proposed call (Agent-C's Forall, Before and Seq)."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

from guardagent.policy.evaluation.evidence import compile_with_evidence
from guardagent.policy.evaluation.history_index import suggested
from guardagent.policy.evaluation.history_query import Env
from guardagent.policy.evaluation.monitor_interface import (
    Explanation,
    Monitor,
    MonitorResult,
    RuleContext,
    SessionCall,
    blank_explanation,
)
from guardagent.policy.evaluation.screen import CallScope, CertainConditions, ScreenCode
from guardagent.policy.evaluation.terms import Compiler, Names
from guardagent.policy.language import ast
from guardagent.policy.language.values import Truth, Unknown, disjunction, dump_truth, inverse, load_truth
from guardagent.types import ATOMS

_FIXED = ATOMS | {SessionCall, Unknown, Fraction, Decimal}
"""Types of values that nobody changes, as far as an explanation shows them."""


class ForallMonitor(Monitor):
    """Requires a condition of every matching call. Its memory: whether all calls so far satisfied it.

    Attributes:
        rule: its syntax tree.
        compiler: has compiled it.
        match: binds a proposed call in an environment, and returns whether it matches.
    """

    def __init__(self, rule: ast.Forall, compiler: Compiler) -> None:
        names: Names = {}
        self.stateful = False  # a call is judged once, when it is proposed
        self.tools = compiler.library.tools_of(rule.pattern)
        self.match = compiler.proposed(rule.pattern, names)
        self._condition, self._explain = compile_with_evidence(rule.condition, compiler, names)
        self._outcomes = compiler.call_outcomes(rule.condition)
        nodes = list(ast.walk(rule.condition))
        inside = {type(node) for node in nodes}
        self._of_history = not inside.isdisjoint(ast.OF_EARLIER)
        self._asks_known = ast.Known in inside
        self._adds_up = not inside.isdisjoint({ast.CountCalls, ast.SumCalls, ast.CallFold, ast.Selected})
        self._reads_time = ast.reads_time(nodes)
        self._size = compiler.size
        self.rule, self.compiler = rule, compiler
        self._suggested = None if ast.Sources in inside else _suggested(nodes, compiler)
        self._scope = _scope(rule, compiler, names, nodes)

    def screened(self, code: ScreenCode, _number: int, _kind: SessionCall) -> str | None:
        if self._asks_known and self._of_history:  # calls in flight can make known what was unknown
            return None
        if self._reads_time:  # a clock that went back denies, whatever the condition is
            return None
        return CertainConditions(code, self._scope).kept(self.rule.pattern, self.rule.condition)

    def looks_back(self, _call: SessionCall) -> bool:
        return self._of_history

    def permits(self, _call: SessionCall) -> bool:
        """Whether some call that it concerns can keep the rule; false for a ban, such as `forall(wire(), false)`."""
        pattern = self.rule.pattern
        is_ban = isinstance(self.rule.condition, ast.Constant) and self.rule.condition.value is False
        return not (is_ban and not pattern.arguments and pattern.label is None)

    def start(self) -> _ForallMemory:
        return _ForallMemory()

    def judge(self, context: RuleContext, call: SessionCall, _memory: Any) -> MonitorResult | None:
        env: Env = [None] * self._size
        env[0] = context
        matched = self.match(env, call)
        if matched is False:
            return None
        if self._reads_time:
            context.moment()  # a clock that went back denies
        value = self._condition(env)
        if value is True:
            return None
        if matched is not True or value is not False or (self._adds_up and context.in_flight):
            return self._undecided(env, call, matched, value)
        if self._suggested is not None and _FIXED.issuperset(map(type, env[1:])):
            env[0] = None  # nothing of the session stays with the result
            return MonitorResult.violated(partial(self._explained, env), self._suggested)
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
            return disjunction((inverse(self.match(environments[0], call)), self._condition(environments[0])))

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


def _suggested(nodes: list[object], compiler: Compiler) -> tuple[str, ...]:
    """The tools of the earlier calls that an explanation can suggest."""
    terms = [node for node in nodes if isinstance(node, ast.SomeCall)]
    return tuple({tool: None for term in terms for tool in suggested(compiler.library.tools_of(term.pattern))})


def _scope(rule: ast.Forall, compiler: Compiler, names: Names, nodes: list[object]) -> CallScope:
    """The names of the rule for its screen."""
    arguments = {name: compiler.arguments[slot] for name, slot in names.items() if slot in compiler.arguments}
    terms = [node for node in nodes if isinstance(node, ast.SomeCall)]
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
