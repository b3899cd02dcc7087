"""`forall`, and with it `before` and `seq`: what every proposed call has to satisfy (Agent-C's Forall, Before, Seq)."""

from __future__ import annotations

from functools import partial
from typing import Any

from guardagent.policy.evaluation.findings import Call, Explanation, Finding, Trace
from guardagent.policy.evaluation.terms import Compiler, Names
from guardagent.policy.evaluation.views import Env
from guardagent.policy.evaluation.watched import watch
from guardagent.policy.language import ast
from guardagent.policy.language.values import Truth, disjunction, dump_truth, inverse, load_truth


class Immediate:
    """A condition on every proposed call of some tools. Its memory: whether it was kept so far."""

    def __init__(self, rule: ast.Forall, compiler: Compiler) -> None:
        names: Names = {}
        self.remembers = False  # what was judged when it was proposed is not judged again
        self.tools = compiler.library.tools_of(rule.pattern)
        self._match = compiler.proposed(rule.pattern, names)
        self._condition, self._explain = watch(rule.condition, compiler, names)
        self._worlds = compiler.worlds(rule.condition)
        inside = {type(one) for one in ast.walk(rule.condition)}
        self._of_history = not inside.isdisjoint(ast.OF_HISTORY)
        self._asks_known = ast.Known in inside
        self._adds_up = not inside.isdisjoint({ast.CountCalls, ast.SumCalls, ast.Selected})
        self._size = compiler.size

    def concerns(self, call: Call) -> bool:
        return call.tool in self.tools

    def looks_back(self, _call: Call) -> bool:
        return self._of_history

    def start(self) -> _Memory:
        return _Memory()

    def judge(self, trace: Trace, call: Call, _memory: Any) -> Finding | None:
        env: Env = [None] * self._size
        env[0] = trace
        matched = self._match(env, call)
        if matched is False:
            return None
        value = self._condition(env)
        if value is True and not (self._asks_known and trace.in_flight):
            return None
        if matched is not True or value is not False or (self._adds_up and trace.in_flight):
            return self._undecided(env, call, matched, value)
        return Finding(value, partial(self._explained, env))

    def _explained(self, env: Env) -> Explanation:
        found = Explanation()
        needed = self._explain(env, found)
        if [needed] != [f"an earlier {call}" for call in found.missing]:
            found.needed = needed
        return found

    def _undecided(self, env: Env, call: Call, matched: Truth, value: Any) -> Finding | None:
        """Unknown, unless the calls in flight decide it however they end."""
        trace, worlds = env[0], [env]
        truth = disjunction((inverse(matched), value))
        if not trace.in_flight:
            return Finding(truth)

        def in_one_world() -> Truth:
            worlds[0] = [trace, *[None] * (self._size - 1)]
            return disjunction((inverse(self._match(worlds[0], call)), self._condition(worlds[0])))

        truth = self._worlds.every(trace, env, in_one_world)
        if truth is True:
            return None
        return Finding(truth, partial(self._explained, worlds[0])) if truth is False else Finding(truth)

    def placed(self, _trace: Trace, call: Call, memory: _Memory, finding: Finding | None) -> None:
        if finding is not None:
            memory.open[call.place] = finding.value

    def settled(self, _trace: Trace, call: Call, memory: _Memory) -> None:
        """It was judged when it was proposed; what was found of one that never ran says nothing."""
        value = memory.open.pop(call.place, True)
        if call.status != "withdrawn":
            memory.take(value)

    def began(self, memory: _Memory) -> None:
        """Nothing changes by it."""

    def ended(self, _trace: Trace, memory: _Memory) -> Finding | None:
        value = self.so_far(memory)
        return None if value is True else Finding(value)

    def so_far(self, memory: _Memory) -> Truth:
        if not memory.open:
            return memory.base
        found = _Memory(memory.base)
        for value in memory.open.values():
            found.take(value)
        return found.base

    def satisfied(self, _memory: _Memory) -> bool:
        return False

    def copied(self, memory: _Memory, _calls: Any) -> _Memory:
        copy = _Memory(memory.base)
        copy.open = dict(memory.open)
        return copy

    def dumped(self, memory: _Memory) -> Any:
        found = [[place, dump_truth(value)] for place, value in memory.open.items()]
        return {"base": dump_truth(memory.base), "open": found}

    def loaded(self, data: Any, _calls: Any) -> _Memory:
        if not isinstance(data, dict):  # as it was once written
            return _Memory(load_truth(data))
        memory = _Memory(load_truth(data["base"]))
        memory.open = {place: load_truth(value) for place, value in data["open"]}
        return memory


class _Memory:
    """Whether the condition was kept: by the calls that ran, and by each that is in flight and did not keep it."""

    __slots__ = ("base", "open")

    def __init__(self, base: Truth = True) -> None:  # noqa: FBT002 - a value
        self.base = base
        self.open: dict[int, Truth] = {}

    def take(self, value: Truth) -> None:
        if value is not True and self.base is not False:
            self.base = value
